//! Refusals: bad input of a peer, and limits.

use cluster::NodeId;

use crate::Dot;

/// A message of a peer was refused. Nothing was changed; the connection to the peer is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectingError {
    /// The peer asks for the release of a connection that is not of this node.
    #[error("node {} asks to end {old:?}, which is no connection of this node", .peer.0)]
    NotHere {
        /// Node that asks.
        peer: NodeId,
        /// Connection that it names.
        old: Dot,
    },
    /// The peer asks, or answers, for a connection of another node.
    #[error("node {} speaks for the connection {dot:?} of another node", .peer.0)]
    OfAnotherNode {
        /// Node that sent the message.
        peer: NodeId,
        /// Connection that it names.
        dot: Dot,
    },
    /// A connection has the number 0, which no event has.
    #[error("node {} names a connection with the number 0, which no event has", .peer.0)]
    NoEvent {
        /// Node that sent the message.
        peer: NodeId,
    },
}

/// A CONNECT was not begun: this node has as many connections as it may. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionsFull {
    /// As many connections claim their session as may at once.
    #[error("a node has no room for more than {claims_max} claims at once")]
    Claims {
        /// Limit.
        claims_max: usize,
    },
    /// As many clients are connected as may.
    #[error("a node has no room for more than {connections_max} connections")]
    Connections {
        /// Limit.
        connections_max: usize,
    },
}
