//! Refusals of interests.

use cluster::NodeId;

/// A filter was refused: this node has as many as it may. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this node has {max} filters, as many as it may")]
pub struct InterestsFull {
    /// Filters at most.
    pub max: usize,
}

/// A message of a peer was refused. Nothing was changed; the connection to the peer is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InterestError {
    /// The peer has more filters than a node may have.
    #[error("node {} has more than {max} filters", .peer.0)]
    TooMany {
        /// Peer that tells them.
        peer: NodeId,
        /// Filters at most.
        max: usize,
    },
    /// The peer goes on from a position that this node does not have, or goes back.
    #[error("node {} tells interests after {after} up to {up_to}, and has told those up to {position}", .peer.0)]
    WrongPosition {
        /// Peer that tells them.
        peer: NodeId,
        /// Position that it goes on from.
        after: u64,
        /// Position that it goes to.
        up_to: u64,
        /// Position that this node has.
        position: u64,
    },
    /// The peer confirms what it was not told.
    #[error("node {} confirms interests up to {up_to}, and was told those up to {told}", .peer.0)]
    NeverTold {
        /// Peer that confirms.
        peer: NodeId,
        /// Position that it names.
        up_to: u64,
        /// Position that it was told.
        told: u64,
    },
    /// The peer is not present.
    #[error("node {} is not present", .peer.0)]
    NotPresent {
        /// The peer.
        peer: NodeId,
    },
}
