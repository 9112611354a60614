//! Kinds of messages: the one table of their numbers.
//!
//! A number is never given to another message. `docs/internals/session-plane.md` has the same table,
//! and a test compares them.

use std::fmt;

/// Kind of a message between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// First message of a connection.
    Hello = 1,
    /// Offer of a handshake.
    HandshakeOffer = 2,
    /// Answer to an offer.
    HandshakeAnswer = 3,
    /// Confirmation of an answer.
    HandshakeConfirm = 4,
    /// The receiver is convicted.
    Conviction = 5,
    /// Ring marker that begins a stream.
    Welcome = 6,
    /// Next event of a stream.
    Event = 7,
    /// Positions, clock and knowledge of the sender.
    Heartbeat = 8,
    /// Everything up to a number is durable at the sender.
    Confirm = 9,
    /// Events that too few owners had confirmed.
    Resend = 10,
    /// A resend is durable at the sender.
    ConfirmResent = 11,
    /// Position of a dead run's stream.
    FlushPosition = 12,
    /// Last events of a dead run.
    FlushEvents = 13,
    /// Message with a QoS 2 number.
    Route = 14,
    /// Confirmation of a route.
    ConfirmRoute = 15,
    /// Question of an owner for slots.
    AskSlots = 16,
    /// Question for the next part of an answer.
    AskPart = 17,
    /// Part of an answer.
    SlotPart = 18,
    /// The asker has merged answers.
    SlotsMerged = 19,
    /// The asker needs an answer no more.
    DropQuestion = 20,
    /// The sender holds a copy that owners are to merge.
    Offer = 21,
    /// Question for a client's session.
    AskSession = 22,
    /// A client's session, or the refusal of the question.
    Session = 23,
    /// The receiver is to end an older connection.
    Release = 24,
    /// An older connection has ended.
    Released = 25,
    /// Message of a shared group.
    Give = 26,
    /// Question for a queue.
    FeedOpen = 27,
    /// Messages of a queue.
    FeedItems = 28,
    /// Window of a feed.
    FeedWindow = 29,
    /// End of a feed, from the node of the connection.
    FeedClose = 30,
    /// End of a feed, from the owner.
    FeedClosed = 31,
    /// Filters of the sender's connected sessions.
    Interests = 32,
    /// Confirmation of interests.
    ConfirmInterests = 33,
    /// Message that is not stored.
    Unstored = 34,
    /// Begins of answers that have nothing but entries.
    SlotDigests = 35,
}

/// Module whose types a kind has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindModule {
    /// This one.
    Wire,
    /// [`crate::membership`].
    Membership,
    /// [`crate::stream`].
    Stream,
    /// [`crate::transfer`].
    Transfer,
    /// [`crate::connecting`].
    Connecting,
    /// [`crate::feed`].
    Feed,
    /// [`crate::publishing`].
    Publishing,
    /// [`crate::groups`].
    Groups,
    /// [`crate::interests`].
    Interests,
}

/// Row of the table of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindRow {
    /// The kind; its number is [`Kind::number`].
    pub kind: Kind,
    /// Name in logs and in the specification.
    pub name: &'static str,
    /// Module whose types the kind has.
    pub module: KindModule,
}

/// Every kind, in ascending order of the numbers, which begin at 1 and have no gap.
pub const KINDS: [KindRow; 35] = [
    row(Kind::Hello, "Hello", KindModule::Wire),
    row(Kind::HandshakeOffer, "HandshakeOffer", KindModule::Membership),
    row(Kind::HandshakeAnswer, "HandshakeAnswer", KindModule::Membership),
    row(Kind::HandshakeConfirm, "HandshakeConfirm", KindModule::Membership),
    row(Kind::Conviction, "Conviction", KindModule::Membership),
    row(Kind::Welcome, "Welcome", KindModule::Stream),
    row(Kind::Event, "Event", KindModule::Stream),
    row(Kind::Heartbeat, "Heartbeat", KindModule::Stream),
    row(Kind::Confirm, "Confirm", KindModule::Stream),
    row(Kind::Resend, "Resend", KindModule::Stream),
    row(Kind::ConfirmResent, "ConfirmResent", KindModule::Stream),
    row(Kind::FlushPosition, "FlushPosition", KindModule::Stream),
    row(Kind::FlushEvents, "FlushEvents", KindModule::Stream),
    row(Kind::Route, "Route", KindModule::Publishing),
    row(Kind::ConfirmRoute, "ConfirmRoute", KindModule::Publishing),
    row(Kind::AskSlots, "AskSlots", KindModule::Transfer),
    row(Kind::AskPart, "AskPart", KindModule::Transfer),
    row(Kind::SlotPart, "SlotPart", KindModule::Transfer),
    row(Kind::SlotsMerged, "SlotsMerged", KindModule::Transfer),
    row(Kind::DropQuestion, "DropQuestion", KindModule::Transfer),
    row(Kind::Offer, "Offer", KindModule::Transfer),
    row(Kind::AskSession, "AskSession", KindModule::Connecting),
    row(Kind::Session, "Session", KindModule::Connecting),
    row(Kind::Release, "Release", KindModule::Connecting),
    row(Kind::Released, "Released", KindModule::Connecting),
    row(Kind::Give, "Give", KindModule::Groups),
    row(Kind::FeedOpen, "FeedOpen", KindModule::Feed),
    row(Kind::FeedItems, "FeedItems", KindModule::Feed),
    row(Kind::FeedWindow, "FeedWindow", KindModule::Feed),
    row(Kind::FeedClose, "FeedClose", KindModule::Feed),
    row(Kind::FeedClosed, "FeedClosed", KindModule::Feed),
    row(Kind::Interests, "Interests", KindModule::Interests),
    row(Kind::ConfirmInterests, "ConfirmInterests", KindModule::Interests),
    row(Kind::Unstored, "Unstored", KindModule::Interests),
    row(Kind::SlotDigests, "SlotDigests", KindModule::Transfer),
];

impl Kind {
    /// Kind with this number. None where no version of this table has it.
    pub fn of_number(number: u8) -> Option<Kind> {
        let index = usize::from(number).checked_sub(1)?;
        KINDS.get(index).map(|row| row.kind)
    }

    /// Number in a frame.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Module whose types the kind has.
    pub fn module(self) -> KindModule {
        self.row().module
    }

    fn row(self) -> KindRow {
        KINDS[usize::from(self.number()) - 1]
    }
}

impl fmt::Display for Kind {
    /// Name of the kind.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.row().name)
    }
}

const fn row(kind: Kind, name: &'static str, module: KindModule) -> KindRow {
    KindRow { kind, name, module }
}
