//! Refusals: bad input of a peer.

use cluster::NodeId;

use crate::{Dot, Slot};

/// A key is a client id, and no shared group has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key is no shared group's")]
pub struct NoGroup;

/// A message of a peer was refused. Nothing was changed; the connection to the peer is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The peer gives a message to a presence of another run than this one.
    #[error("node {} gives a message to {presence:?}, which is none of this run", .peer.0)]
    OtherRun {
        /// Node that gives.
        peer: NodeId,
        /// Presence that it names.
        presence: Dot,
    },
    /// The peer gives a message by an assignment that another node has made.
    #[error("node {} gives a message by {assignment:?}, which it has not made", .peer.0)]
    OtherGiver {
        /// Node that gives.
        peer: NodeId,
        /// Assignment that it names.
        assignment: Dot,
    },
    /// The peer gives something whose value is no message's.
    #[error("node {} gives {message:?} with the value of something else", .peer.0)]
    OtherValue {
        /// Node that gives.
        peer: NodeId,
        /// Event that it gives.
        message: Dot,
    },
    /// The peer gives a message of a slot in which the group of the presence has no part.
    #[error("node {} gives a message of {slot:?}, which is no part of the group", .peer.0)]
    OtherSlot {
        /// Node that gives.
        peer: NodeId,
        /// Slot that it names.
        slot: Slot,
    },
}
