//! Outputs of a group's service: what is to be made durable, sent, answered and told.

use std::time::Duration;

use cluster::replica::{self, MessageError, Missing};
use cluster::{Index, NodeId, Outbound, Term, Write};
use mqtt::traces::Span;
use store::{Effect, Image, Outcome};

use super::pending::Answer;

/// Outcome of a step that the node has to deliver or carry out.
#[derive(Debug)]
pub enum Output {
    /// The replica needs these writes on disk; the last: also where the server's durability is memory.
    Persist(replica::Ticket, Vec<Write>, bool),
    /// A request was decided.
    Answer(Answer),
    /// What this node did for another one's request is over.
    Traced(Vec<Span>),
    /// A watched key changed. Comes before the answer of the request that changed it.
    Effect(Effect),
    /// Give these bytes to the store plane of that node.
    ToPeer {
        /// Node that it is for.
        to: NodeId,
        /// The bytes, with their header.
        message: Outbound,
    },
    /// The log of another node, or of this one (`None`), ends before what the node has acknowledged.
    Missing {
        /// Node whose log it is; `None`: this one.
        node: Option<NodeId>,
        /// Part of the log that is not there.
        missing: Missing,
    },
    /// A peer's message to the replica was dropped.
    Dropped {
        /// Sender.
        from: NodeId,
        /// Reason.
        error: MessageError,
    },
    /// Somebody else leads: this node, or another one. `None`: nobody has led for longer than an election takes.
    Leader {
        /// Leader from now on.
        leader: Option<NodeId>,
        /// Term in which it leads.
        term: Term,
    },
    /// Write this image of the store to disk as the snapshot of `index`.
    Snapshot {
        /// Last entry that is in it.
        index: Index,
        /// Term of that entry.
        term: Term,
        /// The store behind that entry.
        image: Image,
    },
    /// The store is another than that of the majority behind this entry.
    Differs {
        /// Last entry that was applied.
        index: Index,
    },
    /// The store is not whole, and another one is fetched.
    Fetches,
    /// Stores differ behind this entry, and no majority agrees.
    Undecided {
        /// Last entry that was applied.
        index: Index,
    },
    /// That node is to lead: it has on its disk what this node's own takes too long for.
    DiskHeldUp {
        /// Node that is asked to lead.
        to: NodeId,
    },
    /// What another node sent is no snapshot.
    SnapshotUnreadable,
    /// Another node's store has taken the place of this one's.
    StoreReplaced,
    /// The group stood still, and its time was advanced by the wall clocks of a majority; `None`: they do not agree.
    TimeReckoned {
        /// How far it was advanced.
        by: Option<Duration>,
    },
    /// An image for a backup; none: this node does not lead.
    Frozen {
        /// Number of the question that is answered.
        question: u64,
        /// The image.
        image: Option<Box<Image>>,
    },
    /// What became of a command of a backup; `None`: nobody knows.
    PutBack {
        /// Number of the question that is answered.
        question: u64,
        /// Outcome of the command.
        outcome: Option<Outcome>,
    },
}
