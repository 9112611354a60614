//! Messages of a transfer, as plain structs. [`crate::wire`] has their encoding.
//!
//! ```text
//!   asker                                        holder
//!     | AskSlots (positions, lacking) -----------> |  waits for the positions
//!     | <--- part 0: SlotDigests, or Header        |  as of the begin of the answer
//!     | AskPart 1: Compare (covered) ------------> |  where entries differ
//!     | <-------------------- part 1: Groups       |  digests of ranges of clients
//!     | AskPart 2: Sessions (digests) -----------> |
//!     | <-------------------- part 2: Sessions     |  entries that differ
//!     | SlotsMerged -----------------------------> |
//! ```
//!
//! A question is for many slots, and each has an answer of its own. Most copies have the same entries on both sides, and
//! nothing else to tell. Their answers begin in one message, with a digest of each; equal ones are merged at once.

use cluster::NodeId;

use crate::misplaced::check_kind;
use crate::transfer::{Digest, EntryCheck};
use crate::{
    Change, ClientDot, ClientId, Dot, Entry, EntryId, EntryKind, MisplacedEntry, PendingMessage, Run, Slot,
    SlotSet, VersionVector,
};

/// Message of a transfer, and its receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferAction<V, M> {
    /// Node that the message is for.
    pub to: NodeId,
    /// The message.
    pub message: TransferMessage<V, M>,
}

/// Message from one node to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferMessage<V, M> {
    /// Question of an owner for slots.
    AskSlots(AskSlots),
    /// Begins of answers that have nothing but entries.
    SlotDigests(SlotDigests),
    /// Question for the next part of an answer.
    AskPart(AskPart),
    /// Part of an answer.
    SlotPart(SlotPart<V, M>),
    /// The asker has merged whole answers.
    SlotsMerged(SlotsMerged),
    /// The asker needs the answer no more.
    DropQuestion(AnswerId),
    /// The sender holds copies that owners are to merge.
    Offer {
        /// Slots of the copies.
        slots: SlotSet,
    },
}

/// Number of a question among those of a run; from 1. Later questions have higher numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QuestionId(pub u64);

/// Names an answer between its two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AnswerId {
    /// Slot of the answer.
    pub slot: Slot,
    /// Question that is answered.
    pub question: QuestionId,
}

/// Question of an owner for slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskSlots {
    /// Number of the question.
    pub question: QuestionId,
    /// Slots that are asked for.
    pub slots: SlotSet,
    /// For each present run the marker that made the asker an owner of these slots (rule `holder-waits`).
    pub positions: Vec<RunPosition>,
    /// QoS 2 numbers that have been holes for long. The holder looks for them among packet ids.
    pub lacking: VersionVector,
}

impl AskSlots {
    /// Question for each slot.
    pub fn each(&self) -> impl Iterator<Item = AskSlot> + '_ {
        self.slots.iter().map(|slot| AskSlot {
            id: AnswerId {
                slot,
                question: self.question,
            },
            positions: self.positions.clone(),
            lacking: self.lacking.clone(),
        })
    }
}

/// Answers that their asker has merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotsMerged {
    /// Number of the question.
    pub question: QuestionId,
    /// Slots whose answers are merged.
    pub slots: SlotSet,
}

impl SlotsMerged {
    /// One answer.
    pub fn one(id: AnswerId) -> SlotsMerged {
        SlotsMerged {
            question: id.question,
            slots: [id.slot].into_iter().collect(),
        }
    }

    /// The answers.
    pub fn answers(&self) -> impl Iterator<Item = AnswerId> + '_ {
        let question = self.question;
        self.slots.iter().map(move |slot| AnswerId { slot, question })
    }
}

/// Begins of answers to one question: copies that have entries and nothing else, with equal sets of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotDigests {
    /// Number of the question.
    pub question: QuestionId,
    /// Sets of events of each copy.
    pub begin: AnswerBegin,
    /// Slots in ascending order.
    pub slots: Vec<SlotDigest>,
}

/// Digest of all entries of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotDigest {
    /// The slot.
    pub slot: Slot,
    /// Number of the entries. An asker with another number need not digest its own.
    pub entries: u64,
    /// Digest of the entries.
    pub digest: Digest,
}

/// Question of an owner for one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskSlot {
    /// Names the question.
    pub id: AnswerId,
    /// For each present run the marker that made the asker an owner (rule `holder-waits`).
    pub positions: Vec<RunPosition>,
    /// QoS 2 numbers that have been holes for long. The holder looks for them among packet ids.
    pub lacking: VersionVector,
}

/// Position in the stream of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunPosition {
    /// Run of the stream.
    pub run: Run,
    /// Number in the stream.
    pub number: u64,
}

/// Question for the next part of an answer. One part is under way at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskPart {
    /// Answer of which a part is wanted.
    pub id: AnswerId,
    /// Number of the part; the first part, which comes unasked, has number 0.
    pub part: u64,
    /// Content of the part.
    pub wanted: Wanted,
}

/// Content that an asker wants next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Next part of the header.
    Header,
    /// Digests of the first groups.
    Compare {
        /// V of the asker. Events that it and V of the answer cover are shared.
        covered: VersionVector,
    },
    /// Digests of the next groups.
    Groups {
        /// Last client of the groups before.
        after: ClientId,
    },
    /// Entries of a range of clients.
    Sessions(AskSessions),
    /// Rest of the clients, or of the entries of a client, that did not fit into a part.
    More,
}

/// Range of clients in the order of their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRange {
    /// The range begins after this client. None is the first client.
    pub after: Option<ClientId>,
    /// The range ends with this client. None is the last client.
    pub up_to: Option<ClientId>,
}

/// Question for the entries of a range of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskSessions {
    /// Clients that are asked for.
    pub range: ClientRange,
    /// Entries that the holder leaves out.
    pub except: Except,
}

/// Entries that the asker has, and that the holder leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Except {
    /// Entries of shared events: the digest of the group was equal.
    Shared,
    /// Blocks of entries of shared events whose digests are equal.
    Blocks(Vec<SessionBlocks>),
    /// None.
    Nothing,
}

/// Digests of the asker's entries of one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionBlocks {
    /// The client.
    pub client: ClientId,
    /// Blocks in ascending order, without a gap; at least one.
    pub blocks: Vec<Block>,
}

/// Digest of the entries of shared events in a range of ids, which begins after the block before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Last id of the range.
    pub last: EntryId,
    /// Digest of the entries.
    pub digest: Digest,
}

/// Part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotPart<V, M> {
    /// Answer that the part is of.
    pub id: AnswerId,
    /// Number of the part; from 0, without gaps.
    pub part: u64,
    /// Content of the part.
    pub content: PartContent<V, M>,
}

/// Content of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartContent<V, M> {
    /// State of the holder's copy as of the begin of the answer.
    Header(HeaderPart<V, M>),
    /// Digests of groups of clients.
    Groups(GroupsPart),
    /// Entries that differ.
    Sessions(SessionsPart<V>),
    /// Entries of the last client of the part before.
    Rest(RestPart<V>),
}

/// Part of the header of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderPart<V, M> {
    /// In the first part only.
    pub begin: Option<AnswerBegin>,
    /// Pending messages.
    pub pending: Vec<PendingMessage<M>>,
    /// Single covered dots.
    pub single: Vec<ClientDot>,
    /// The holder's own events that too few owners have confirmed (rule `own-unconfirmed`).
    pub own: Vec<OwnEvent<V, M>>,
    /// No part of the header follows.
    pub is_last: bool,
}

/// Sets of events as of the begin of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerBegin {
    /// V of the holder's copy.
    pub covered: VersionVector,
    /// Events that the copy has taken and not claimed.
    pub taken: VersionVector,
    /// Holes of the copy.
    pub holes: VersionVector,
    /// Numbers of the holder's run that too few owners have confirmed; also those without an event.
    pub own: VersionVector,
    /// QoS 2 numbers that wait to be routed at the holder (rule `reserved-stay`).
    pub reserved: VersionVector,
    /// The holder's copies have all merged (rule `fill-from-merged`).
    pub has_merged_all: bool,
}

/// Event of the holder that is not durable yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnEvent<V, M> {
    /// Change of a session.
    Change(Change<V>),
    /// Message, which is pending at the asker.
    Message(PendingMessage<M>),
}

/// Digests of groups, in ascending order of their clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupsPart {
    /// Groups without a gap between them.
    pub groups: Vec<Group>,
}

/// Digest of the entries of consecutive clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Last client of the group. None is the last client of the slot.
    pub last: Option<ClientId>,
    /// Digest of the entries of shared events.
    pub shared: Digest,
    /// The group has entries of other events.
    pub has_others: bool,
}

/// Entries that differ, of consecutive clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionsPart<V> {
    /// Clients in ascending order. A client that was asked for and is not here has no difference.
    pub sessions: Vec<SessionDifference<V>>,
    /// The part ends with this client, and more of the range follows. None: the range is complete.
    pub up_to: Option<ClientId>,
    /// Entries of the last client follow in the next part, before other clients.
    pub has_rest: bool,
}

/// Entries of one client that differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionDifference<V> {
    /// The client.
    pub client: ClientId,
    /// One for each block of the question.
    pub blocks: Vec<BlockAnswer>,
    /// Entries that the asker may lack, in ascending order of their ids.
    pub entries: Vec<ListedEntry<V>>,
}

/// Holder's state of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockAnswer {
    /// The holder has the same entries of shared events.
    Equal,
    /// The holder has only these, in ascending order of their ids.
    Kept(Vec<KeptEntry>),
}

/// Entry of a shared event that the holder has. The asker has it, or has removed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptEntry {
    /// Identity of the entry.
    pub id: EntryId,
    /// Tells whether the asker has the same value.
    pub check: EntryCheck,
}

/// Entry of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEntry<V> {
    /// Event that made the entry.
    pub dot: Dot,
    /// The entry.
    pub entry: Entry<V>,
}

impl<V> ListedEntry<V> {
    /// Identity of the entry.
    pub fn id(&self) -> EntryId {
        self.entry.id(self.dot)
    }
}

/// Rest of the entries of one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestPart<V> {
    /// Entries after those of the part before.
    pub entries: Vec<ListedEntry<V>>,
    /// More entries follow.
    pub has_rest: bool,
}

impl<V, M> SlotPart<V, M> {
    /// Checks that the slot has the entries that the part brings.
    pub(super) fn check_kinds(&self) -> Result<(), MisplacedEntry> {
        let slot = self.id.slot;
        let check = |listed: &ListedEntry<V>| check_kind(slot, listed.entry.fact.kind());
        match &self.content {
            PartContent::Header(header) => {
                let pending = header.pending.iter().map(|_| EntryKind::Message);
                let mut kinds = pending.chain(header.own.iter().filter_map(OwnEvent::kind));
                kinds.try_for_each(|kind| check_kind(slot, kind))
            }
            PartContent::Groups(_) => Ok(()),
            PartContent::Sessions(part) => {
                let mut entries = part.sessions.iter().flat_map(|session| &session.entries);
                entries.try_for_each(check)
            }
            PartContent::Rest(rest) => rest.entries.iter().try_for_each(check),
        }
    }
}

impl<V, M> OwnEvent<V, M> {
    /// Kind of the entry that the event brings. None where it only removes.
    fn kind(&self) -> Option<EntryKind> {
        match self {
            OwnEvent::Change(change) => change.adds.as_ref().map(|entry| entry.fact.kind()),
            OwnEvent::Message(_) => Some(EntryKind::Message),
        }
    }
}
