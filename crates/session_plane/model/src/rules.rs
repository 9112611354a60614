//! The rules of the session plane as switches: a history without a rule shows what the rule is for.
//!
//! `docs/internals/session-plane.md` explains each rule under the same name; a test compares the two lists.

/// One rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    Holes,
    ClaimByRing,
    SingleDots,
    Rematch,
    Births,
    Since,
    SameByIdentity,
    CleanStartWins,
    Causal,
    HolesStay,
    ResendToNewOwners,
    CloseNumbers,
    Flush,
    FlushBySlot,
    TransferPending,
    AsOfBegin,
    ServeMerged,
    LoserReleased,
    AskAgain,
    AskAllAgain,
    Incarnations,
    HearsayWaits,
    ClaimAnew,
    ConnectionToNewOwners,
    KeepOpenConnections,
    SessionAnew,
    AskWithKnown,
    ReadAfterRelease,
    OwnUnconfirmed,
    HolderWaits,
    LateAnswers,
    RoutesMerged,
    CopiesMin,
    ReceivedFirst,
    ReceivedToNewOwners,
    RouteAgain,
    FillFromReceived,
    FillFromMerged,
    ReservedStay,
    ExactNumbers,
    NumbersInOrder,
    OpenConnection,
    DupContinues,
    SameContent,
    LaterConnection,
    OwnCopyCovers,
    EndBeats,
    EndCovers,
    KnownToAll,
    RetireAgreed,
    ToldAmongAll,
    GiveMerged,
    GiveFirst,
    TakeBack,
    StageFirst,
    StageAnew,
    ReleaseGone,
    RoutesTell,
    WillNumberFirst,
    OneNumber,
    FireMerged,
    WillLeft,
    WillBeforeReleased,
    WillCancelled,
    WillArmed,
}

/// Name on the command line, and what it says.
#[derive(Clone, Copy, Debug)]
pub struct RuleText {
    pub rule: Rule,
    pub name: &'static str,
    pub text: &'static str,
}

const fn rule(rule: Rule, name: &'static str, text: &'static str) -> RuleText {
    RuleText { rule, name, text }
}

/// Every rule, in the order of [`Rule`].
pub const RULES: [RuleText; 65] = [
    rule(Rule::Holes, "holes", "A copy with a hole claims nothing."),
    rule(
        Rule::ClaimByRing,
        "claim-by-ring",
        "A node claims an event only for slots that it owned by the sender's ring at that event.",
    ),
    rule(
        Rule::SingleDots,
        "single-dots",
        "The removal of an event that the vector does not cover is kept as a single covered dot.",
    ),
    rule(
        Rule::Rematch,
        "rematch",
        "Pending messages are matched against the subscriptions again when they are claimed.",
    ),
    rule(
        Rule::Births,
        "births",
        "An entry counts only while a session entry with its birth exists.",
    ),
    rule(
        Rule::Since,
        "since",
        "A message matches only a subscription that is earlier than the message.",
    ),
    rule(
        Rule::SameByIdentity,
        "same-by-identity",
        "Entries are the same by kind, session and dot, whatever their values.",
    ),
    rule(
        Rule::CleanStartWins,
        "clean-start-wins",
        "A session that was begun clean beats older sessions that its beginner could not see.",
    ),
    rule(
        Rule::Causal,
        "causal",
        "Each event carries what its sender knew; what the receiver lacks of that is a hole.",
    ),
    rule(
        Rule::HolesStay,
        "holes-stay",
        "A hole stays when the node that told of it is declared dead.",
    ),
    rule(
        Rule::ResendToNewOwners,
        "resend-to-new-owners",
        "What too few owners have confirmed goes to the new owners under its old dot.",
    ),
    rule(
        Rule::CloseNumbers,
        "close-numbers",
        "A number that nobody has is closed when every member has answered since the question.",
    ),
    rule(
        Rule::Flush,
        "flush",
        "Survivors exchange the last events of a dead run.",
    ),
    rule(
        Rule::FlushBySlot,
        "flush-by-slot",
        "A flush covers an event only for slots that its passer owned by the dead run's ring.",
    ),
    rule(
        Rule::TransferPending,
        "transfer-pending",
        "An answer carries pending events and taken intervals.",
    ),
    rule(
        Rule::AsOfBegin,
        "as-of-begin",
        "Single covered dots of an answer, and entries that beat others, are as of its begin, as its vector is.",
    ),
    rule(
        Rule::ServeMerged,
        "serve-merged",
        "A session is served only from a copy that has merged with all present holders, by a node that runs, or has met one that does and all in the rings of its peers.",
    ),
    rule(
        Rule::LoserReleased,
        "loser-released",
        "After a merge the owner releases all connections of a client but the latest, which may have closed.",
    ),
    rule(
        Rule::AskAgain,
        "ask-again",
        "A hole that does not close is asked for again.",
    ),
    rule(
        Rule::AskAllAgain,
        "ask-all-again",
        "When a node dies in the middle of a transfer, all others are asked again.",
    ),
    rule(
        Rule::Incarnations,
        "incarnations",
        "Hearsay names the incarnation that it convicts.",
    ),
    rule(
        Rule::HearsayWaits,
        "hearsay-waits",
        "A node that hears of a conviction stops answering, and acts half a silence_max later.",
    ),
    rule(
        Rule::ClaimAnew,
        "claim-anew",
        "A change of the ring before CONNACK begins the claim of a connection anew.",
    ),
    rule(
        Rule::ConnectionToNewOwners,
        "connection-to-new-owners",
        "The node of a connection sends its entry to new owners.",
    ),
    rule(
        Rule::KeepOpenConnections,
        "keep-open-connections",
        "A newer CONNECT removes only connections that were released or whose run has ended.",
    ),
    rule(
        Rule::SessionAnew,
        "session-anew",
        "Every CONNECT writes the session's entry anew, with the same birth.",
    ),
    rule(
        Rule::AskWithKnown,
        "ask-with-known",
        "A question for a session carries the asker's knowledge; only a copy that has what present nodes have of it answers.",
    ),
    rule(
        Rule::ReadAfterRelease,
        "read-after-release",
        "The session is read after older connections were released.",
    ),
    rule(
        Rule::OwnUnconfirmed,
        "own-unconfirmed",
        "A run answers with its own events that too few owners have confirmed.",
    ),
    rule(
        Rule::HolderWaits,
        "holder-waits",
        "A holder answers when it has taken each run up to the marker that made the asker an owner.",
    ),
    rule(
        Rule::LateAnswers,
        "late-answers",
        "A holder deletes its copy only after answers that began when no ring named it.",
    ),
    rule(
        Rule::RoutesMerged,
        "routes-merged",
        "A node accepts PUBLISH once its routes are merged with all present nodes.",
    ),
    rule(
        Rule::CopiesMin,
        "copies-min",
        "What is acknowledged is on the disks of at least copies_min owners of each slot.",
    ),
    rule(
        Rule::ReceivedFirst,
        "received-first",
        "A QoS 2 PUBLISH is routed when every present owner has its packet id.",
    ),
    rule(
        Rule::ReceivedToNewOwners,
        "received-to-new-owners",
        "After a change of the ring a packet id that waits is sent again, to all owners.",
    ),
    rule(
        Rule::RouteAgain,
        "route-again",
        "After a change of the ring a number that is being routed is sent again, to all nodes.",
    ),
    rule(
        Rule::FillFromReceived,
        "fill-from-received",
        "A hole of a QoS 2 number is filled from a packet id that counts.",
    ),
    rule(
        Rule::FillFromMerged,
        "fill-from-merged",
        "Only merged copies say that no packet id has a number.",
    ),
    rule(
        Rule::ReservedStay,
        "reserved-stay",
        "A number that waits to be routed at its run is not closed.",
    ),
    rule(
        Rule::ExactNumbers,
        "exact-numbers",
        "Knowledge names the exact set of QoS 2 numbers that were routed.",
    ),
    rule(
        Rule::NumbersInOrder,
        "numbers-in-order",
        "A run routes its QoS 2 numbers in their order.",
    ),
    rule(
        Rule::OpenConnection,
        "open-connection",
        "A QoS 2 PUBLISH is routed only while its connection is open.",
    ),
    rule(
        Rule::DupContinues,
        "dup-continues",
        "A PUBLISH without DUP is a new message, whatever older connections have used the packet id for.",
    ),
    rule(
        Rule::SameContent,
        "same-content",
        "A PUBLISH with DUP goes on with a packet id that has the same content only.",
    ),
    rule(
        Rule::LaterConnection,
        "later-connection",
        "Of two entries of a packet id the one of the later connection counts.",
    ),
    rule(
        Rule::OwnCopyCovers,
        "own-copy-covers",
        "A node's own copy feeds a connection only without a hole that a present node may fill.",
    ),
    rule(
        Rule::EndBeats,
        "end-beats",
        "The end of a session that was begun clean beats the older sessions that the session beat.",
    ),
    rule(
        Rule::EndCovers,
        "end-covers",
        "The end of a session beats the session's entries that its maker's copies had decided upon.",
    ),
    rule(
        Rule::KnownToAll,
        "known-to-all",
        "A copy drops ends and entries that do not count when all members have told that they know them.",
    ),
    rule(
        Rule::RetireAgreed,
        "retire-agreed",
        "A run that has ended is covered as a whole when all members have told the same of it.",
    ),
    rule(
        Rule::ToldAmongAll,
        "told-among-all",
        "What a member has told counts if it had exactly the members for present when it told that, each in its present run, and knew their last ring markers.",
    ),
    rule(
        Rule::GiveMerged,
        "give-merged",
        "Only a primary owner gives messages of a shared group, when its copy is merged and all holders have answered about its holes.",
    ),
    rule(
        Rule::GiveFirst,
        "give-first",
        "A message is given to a connection when every present node knows that.",
    ),
    rule(
        Rule::TakeBack,
        "take-back",
        "A message is given to another connection when the first has ended.",
    ),
    rule(
        Rule::StageFirst,
        "stage-first",
        "A packet id to a client, and its next stage, is at the owners before the client is told.",
    ),
    rule(
        Rule::StageAnew,
        "stage-anew",
        "A connection writes the packet ids that it goes on with anew before the client is told.",
    ),
    rule(
        Rule::ReleaseGone,
        "release-gone",
        "A packet id whose message is gone is released at the client before it is free.",
    ),
    rule(
        Rule::RoutesTell,
        "routes-tell",
        "What a node's routes know of a session and its end counts as what owners say.",
    ),
    rule(
        Rule::WillNumberFirst,
        "will-number-first",
        "A will is routed when every present node has its number.",
    ),
    rule(
        Rule::OneNumber,
        "one-number",
        "Of several numbers of a will the primary owner routes only the one that counts.",
    ),
    rule(
        Rule::FireMerged,
        "fire-merged",
        "Only a primary owner publishes wills, when its copy is merged and all holders have answered about its holes.",
    ),
    rule(
        Rule::WillLeft,
        "will-left",
        "Whoever removes a connection leaves its will behind, unless that is not to be published.",
    ),
    rule(
        Rule::WillBeforeReleased,
        "will-before-released",
        "A connection is released when the will that it leaves is at the owners.",
    ),
    rule(
        Rule::WillCancelled,
        "will-cancelled",
        "A CONNECT that resumes a session removes the delayed wills that it sees.",
    ),
    rule(
        Rule::WillArmed,
        "will-armed",
        "A will that was published while its connection was open is armed again.",
    ),
];

/// Rules that hold in a history.
#[derive(Clone, Debug)]
pub struct Rules([bool; RULES.len()]);

impl Default for Rules {
    fn default() -> Rules {
        Rules([true; RULES.len()])
    }
}

impl Rules {
    pub fn hold(&self, rule: Rule) -> bool {
        self.0[rule as usize]
    }

    /// Takes the rule of this name away.
    ///
    /// # Errors
    ///
    /// With the names that exist, where there is no such rule.
    pub fn take_away(&mut self, name: &str) -> Result<(), String> {
        let Some(index) = RULES.iter().position(|rule| rule.name == name) else {
            let names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
            return Err(format!(
                "no rule is called {name}; there are {}",
                names.join(", ")
            ));
        };
        self.0[index] = false;
        Ok(())
    }
}
