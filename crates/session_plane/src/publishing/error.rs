//! Refusals: bad input of a peer.

use cluster::NodeId;

use crate::Dot;

/// A route or a confirmation of a peer was refused. Nothing was changed; the connection to the peer is to be
/// closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PublishingError {
    /// The peer names a number that its run has not given out.
    #[error("node {} names {number:?}, which was never given out", .peer.0)]
    NotGivenOut {
        /// Node that names it.
        peer: NodeId,
        /// Number that it names.
        number: Dot,
    },
    /// The peer confirms a number by a ring that this node has not begun.
    #[error("node {} confirms {number:?} by ring marker {marker}, and the last one is {last}", .peer.0)]
    LaterRing {
        /// Node that confirms.
        peer: NodeId,
        /// Number that it names.
        number: Dot,
        /// Marker that it names.
        marker: u64,
        /// Last marker of this node.
        last: u64,
    },
}

/// A message has nobody at its receiver that it is for. Nothing was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message has no slot and no node that it is for")]
pub struct NoRecipients;
