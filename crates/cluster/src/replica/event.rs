//! What a replica is told, and what it asks for.

use bytes::Bytes;

use super::{MemberChange, Members, MessageError, Missing};
use crate::{Index, NodeId, Outbound, Term, Write};

/// Names one [`Action::Persist`] of a replica. Tickets rise by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Names a read; chosen by the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReadId(pub u64);

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Append this to the group's log. Must not be empty. Ends in [`Action::Apply`] or [`Action::Refused`]; after a
    /// change of leadership perhaps in neither.
    Propose { data: Bytes },
    /// From which index on does a read see everything acknowledged before now?
    Read { read: ReadId },
    /// Change who takes part in the group. Ends in [`Action::Members`] or [`Action::Refused`]; after a change of leadership perhaps
    /// in neither.
    ChangeMembers { changes: Vec<MemberChange> },
    /// Everything up to this ticket is durable.
    Persisted { ticket: Ticket },
    /// A peer sent this: a message between nodes whose header was looked at.
    Message { from: NodeId, bytes: Bytes },
    /// A message from or to that peer is on its way, and bytes of it have come or were taken: the peer is there, though nothing can be
    /// read of it yet. A large message takes longer than an election timeout, and heartbeats are behind it.
    Heard { from: NodeId },
    /// The state machine at this point is durable as a snapshot: the log before it may go.
    SnapshotTaken { index: Index, term: Term },
    /// A peer offers a snapshot of this point, and [`super::Replica::lacks`] nothing of it.
    SnapshotOffered { index: Index, term: Term },
    /// A whole snapshot of another replica's state machine at this point is here, in memory. Ends in
    /// [`Action::KeepSnapshot`] or [`Action::SnapshotUnneeded`].
    SnapshotReceived {
        index: Index,
        term: Term,
        /// [`super::Replica::members`] of the other replica at that point.
        members: Members,
    },
    /// That snapshot is durable. Ends in [`Action::Restored`] or [`Action::SnapshotUnneeded`].
    SnapshotKept { index: Index, term: Term },
    /// Let that voter lead instead of this replica. Refused, or begun: whether it comes to that is told by
    /// [`Action::Leadership`]. Proposals are refused meanwhile, and again taken if nothing comes of it within an election timeout.
    Transfer { to: NodeId },
    /// The owner has nothing more to propose for the time being: now is the moment to say what no entry has told the others.
    /// [`super::Replica::has_news`] says if there is such a thing.
    Flush,
    /// [`super::Replica::deadline`] has passed.
    Timeout,
}

/// What the owner shall do. [`Action::Apply`], [`Action::ReadReady`] and [`Action::Leadership`] take effect in the order
/// given; [`Action::Persist`]s of a replica are carried out in the order of their tickets; the rest in any order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Make all these writes durable together, then say [`Event::Persisted`]. May share a batch and a sync with others.
    Persist { ticket: Ticket, writes: Vec<Write> },
    /// Execute this entry: it is committed, and durable here. Indexes rise; those of entries without data are left out.
    Apply { index: Index, term: Term, data: Bytes },
    /// The read may be served: everything up to `index` was given out as [`Action::Apply`] before.
    ReadReady { read: ReadId, index: Index },
    /// The request was not taken; nothing changed.
    Refused { request: Request, refusal: Refusal },
    /// Give this message between nodes, with its header, to the replica of the same group on that node. May be lost, doubled and reordered.
    Send { to: NodeId, message: Outbound },
    /// Who leads, in which term. This replica names itself only when everything committed before its term was applied.
    Leadership { leader: Option<NodeId>, term: Term },
    /// These take part from now on. They are durable with the next [`Action::Persist`], which must reach the disk whatever the
    /// durability is. Who takes part at the start is [`super::Replica::members`].
    Members { members: Members },
    /// A follower needs what is not in the log any more: it is to be offered a snapshot. Said again as long as it does.
    OfferSnapshot { to: NodeId },
    /// Make the snapshot that was received durable, then say [`Event::SnapshotKept`].
    KeepSnapshot { index: Index, term: Term },
    /// The state machine is that of the snapshot from here on; entries after `index` follow.
    Restored { index: Index, term: Term },
    /// The log has the entries up to the snapshot's, or a newer one was received: nothing is done with it.
    SnapshotUnneeded { index: Index },
    /// The log of a follower, or of this replica (`None`), ends before what it has acknowledged.
    Missing { node: Option<NodeId>, missing: Missing },
    /// A peer's message was dropped.
    Dropped { from: NodeId, error: MessageError },
}

/// A request that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// [`Event::Propose`]; the data comes back.
    Propose { data: Bytes },
    /// [`Event::Read`].
    Read { read: ReadId },
    /// [`Event::ChangeMembers`].
    ChangeMembers { changes: Vec<MemberChange> },
    /// [`Event::Transfer`].
    Transfer { to: NodeId },
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Only the leader takes requests.
    #[error("this replica does not lead")]
    NotLeader { leader: Option<NodeId> },
    /// [`super::ReplicaConfig::uncommitted_bytes_max`] is reached.
    #[error("too many bytes wait for being committed")]
    UncommittedBytesMax,
    /// One change of members at a time.
    #[error("another change of the group's members is under way")]
    ChangeUnderWay,
    /// Nobody would vote, or too many nodes would take part.
    #[error("a group cannot have these members")]
    ImpossibleMembers,
    /// The leader hands over first.
    #[error("node {node} leads the group, and has to hand over first")]
    Leads { node: NodeId },
    /// Only who has nearly everything gets a vote.
    #[error("node {node} has not caught up with the group's log")]
    Behind { node: NodeId },
    /// The group could decide nothing any more.
    #[error("too few of the nodes that would vote can be reached")]
    NoMajority,
    /// The node is no voter, was not heard of lately, or lacks too much of the log.
    #[error("the node cannot take over the leadership now")]
    NotCaughtUp,
}
