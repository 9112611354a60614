//! Input of a membership that was refused, and what to do about it.

use cluster::{Incarnation, NodeId};

use super::{SWIM_INCARNATION_MAX, Side};
use crate::view::NODES_MAX;
use crate::{Run, SwimIncarnation, VectorFull};

/// The node is not present. Nothing was changed.
///
/// A message from it is of an earlier stay, and is dropped with its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("node {} is not present: shake hands first", .node.0)]
pub struct NotPresent {
    /// Node that was named.
    pub node: NodeId,
}

/// Configured members that are no cluster. The members are as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MembersError {
    /// A view of all members would be too long.
    #[error("a cluster of {count} members, at most {NODES_MAX}: remove some")]
    TooMany {
        /// Members that were named.
        count: usize,
    },
    /// Zero is no node's id.
    #[error("the members name node 0: give each node an id above 0")]
    NodeZero,
}

/// A message of a handshake was refused: no stay begins by it.
///
/// [`HandshakeError::StillPresent`] and [`HandshakeError::Late`] come about without a fault: the
/// message is dropped, and a later one will do. All others are to be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The node is in an older stay. The sender has given this node up; this one follows by the
    /// silence.
    #[error("node {} is still present in an older stay: it is met once it is given up", .node.0)]
    StillPresent {
        /// Sender.
        node: NodeId,
    },
    /// The message is of an absence that is over, or of another run of this node.
    #[error("node {} answers what was not asked in this absence: the next offer will do", .node.0)]
    Late {
        /// Sender.
        node: NodeId,
    },
    /// The node is no configured member, or was removed.
    #[error("node {} is no member of this cluster: add it to the members, or stop it", .node.0)]
    UnknownNode {
        /// Sender.
        node: NodeId,
    },
    /// The message introduces another node than its sender, or this one.
    #[error("node {} introduces itself as {found:?}: give each node an id of its own", .from.0)]
    WrongSender {
        /// Node at the other end of the connection.
        from: NodeId,
        /// Run that is introduced.
        found: Run,
    },
    /// A newer start of the node was seen. It is stopped, or runs twice.
    #[error("{found:?} is older than start {known} of its node: stop it")]
    OlderRun {
        /// Run that is introduced.
        found: Run,
        /// Highest start that was seen.
        known: Incarnation,
    },
    /// Only the higher node answers, and only the lower one confirms, a choice among both.
    #[error("node {} sends the other node's part of a handshake: run one version on both", .node.0)]
    WrongRole {
        /// Sender.
        node: NodeId,
    },
    /// Incarnations are 1 to [`SWIM_INCARNATION_MAX`].
    #[error(
        "{run:?} names its incarnation {}, which is not 1 to {}: restart it",
        .incarnation.0,
        SWIM_INCARNATION_MAX.0
    )]
    IncarnationOutOfRange {
        /// Run that is introduced.
        run: Run,
        /// Incarnation that it names.
        incarnation: SwimIncarnation,
    },
    /// A side has its own node, and at most [`NODES_MAX`] of them.
    #[error(
        "{run:?} names a side of {} nodes from node {} on, which is none: run one version on both",
        .side.nodes,
        .side.lowest.0
    )]
    InvalidSide {
        /// Run that is introduced.
        run: Run,
        /// Side that it names.
        side: Side,
    },
    /// This node's view has no room, because removed nodes are still present.
    #[error("a view has {NODES_MAX} nodes: wait until removed ones have left")]
    ViewFull,
    /// This run has had [`SWIM_INCARNATION_MAX`] incarnations, and begins no stay any more.
    #[error("this run has no incarnation left: restart this node")]
    IncarnationsUsedUp,
}

/// A ring marker was refused. Nothing was changed.
///
/// The connection is to be closed. The peer is given up if the marker comes again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MarkerError {
    /// The marker is of an earlier stay.
    #[error(transparent)]
    NotPresent(#[from] NotPresent),
    /// A run has a view with itself.
    #[error("{run:?} sends a view that lacks itself: close the connection")]
    LacksSender {
        /// Run whose marker it is.
        run: Run,
    },
    /// A run sends its markers to nodes of the view.
    #[error("{run:?} sends a view that lacks this run: close the connection")]
    LacksThisNode {
        /// Run whose marker it is.
        run: Run,
    },
    /// The view names an incarnation of this node that no peer was told.
    #[error(
        "{run:?} names incarnation {} of this node, which has had at most {}: close the connection",
        .incarnation.0,
        .issued.0
    )]
    NeverIssued {
        /// Run whose marker it is.
        run: Run,
        /// Incarnation that it names.
        incarnation: SwimIncarnation,
        /// Highest incarnation that a peer was told.
        issued: SwimIncarnation,
    },
    /// Incarnations are at most [`SWIM_INCARNATION_MAX`].
    #[error(
        "{run:?} names incarnation {} of node {}, at most {}: close the connection",
        .incarnation.0,
        .node.0,
        SWIM_INCARNATION_MAX.0
    )]
    IncarnationOutOfRange {
        /// Run whose marker it is.
        run: Run,
        /// Node of the incarnation.
        node: NodeId,
        /// Incarnation that it names.
        incarnation: SwimIncarnation,
    },
}

/// A conviction of this node was refused. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConvictionError {
    /// The sender is not present.
    #[error(transparent)]
    NotPresent(#[from] NotPresent),
    /// The conviction is of another run.
    #[error("{found:?} is convicted, and this is {own:?}: close the connection")]
    OtherRun {
        /// This run.
        own: Run,
        /// Run that is convicted.
        found: Run,
    },
    /// No peer was told such an incarnation.
    #[error(
        "incarnation {} is convicted, and this run has had at most {}: close the connection",
        .incarnation.0,
        .issued.0
    )]
    NeverIssued {
        /// Incarnation that is convicted.
        incarnation: SwimIncarnation,
        /// Highest incarnation that a peer was told.
        issued: SwimIncarnation,
    },
}

/// Knowledge of a peer was not recorded. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KnowledgeError {
    /// The peer is not present.
    #[error(transparent)]
    NotPresent(#[from] NotPresent),
    /// What the peer knows is too scattered. Garbage stays until it is less so.
    #[error("what node {} tells that it knows is too scattered: {source}", .peer.0)]
    Full {
        /// Peer that tells.
        peer: NodeId,
        /// Reason.
        source: VectorFull,
    },
}
