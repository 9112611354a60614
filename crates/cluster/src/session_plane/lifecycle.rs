//! How far a node is in the session plane, what may become of it, and which side of a split is the smaller one.
//!
//! Nothing here finds out whether a node is alive: that is failure detection's, and what the rings contain follows from the states alone.

use std::collections::BTreeSet;
use std::fmt;

use crate::NodeId;

/// How far a node is.
///
/// ```text
///   NOT_JOINED --> JOINING --> RUNNING <--(done, or split again)--+-----------.
///        ^            |         |   |                             |           |
///        |            v         v   `-------> MERGE_MINORITY -----+--> MERGING
///        `---- SHUTTING_DOWN <--'
///
///   every state but NOT_JOINED --> DEAD
/// ```
///
/// DEAD is what others take it for. Started again it is NOT_JOINED. One that lives, and was only away, counts as dead until it knows that and merges
/// ([`nodes`](super::nodes)). The whole table is [`next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeState {
    /// It belongs to no ring and owns nothing.
    NotJoined,
    /// It will own records, and gets them; what is written is sent to it as well.
    Joining,
    /// It is responsible.
    Running,
    /// It was on the smaller side of a split, and sends what was written there to those that are responsible.
    MergeMinority,
    /// They have it. Now those get it that will be responsible when this node is.
    Merging,
    /// It hands over what it owns.
    ShuttingDown,
    /// Failure detection has given it up.
    Dead,
}

/// Why a node's state has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It has started, and nothing has happened yet.
    Started,
    /// It has found the cluster, or is the first node of one.
    Found,
    /// The cluster was lost before it had everything.
    LostTheCluster,
    /// It has what it will own, and has handed over what it held.
    HandedOver,
    /// A split has healed, and its side was the smaller one.
    SmallerSide,
    /// Everything that was written during the split is with those that are responsible.
    HandedOverToPrimary,
    /// The larger side is gone again: it is responsible for what it can reach.
    SplitAgain,
    /// It is being stopped, or was removed from the cluster.
    Stopping,
    /// It has left.
    Left,
    /// Failure detection has given it up.
    NotHeardOf,
}

/// The state that follows for a reason; `None`: it is no reason in this state.
pub fn next(state: NodeState, reason: Reason) -> Option<NodeState> {
    let found = TRANSITIONS
        .iter()
        .find(|(from, why, _)| *from == state && *why == reason);
    found.map(|(_, _, to)| *to)
}

/// All that can become of a node, and why.
pub const TRANSITIONS: [(NodeState, Reason, NodeState); 17] = {
    use NodeState::{Dead, Joining, MergeMinority, Merging, NotJoined, Running, ShuttingDown};
    use Reason::{
        Found, HandedOver, HandedOverToPrimary, Left, LostTheCluster, NotHeardOf, SmallerSide, SplitAgain,
        Stopping,
    };
    [
        (NotJoined, Found, Joining),
        (Joining, HandedOver, Running),
        (Joining, LostTheCluster, NotJoined),
        (Joining, Stopping, ShuttingDown),
        (Joining, NotHeardOf, Dead),
        (Running, SmallerSide, MergeMinority),
        (Running, Stopping, ShuttingDown),
        (Running, NotHeardOf, Dead),
        (MergeMinority, HandedOverToPrimary, Merging),
        (MergeMinority, SplitAgain, Running),
        (MergeMinority, NotHeardOf, Dead),
        (Merging, HandedOver, Running),
        (Merging, SplitAgain, Running),
        (Merging, NotHeardOf, Dead),
        (ShuttingDown, SmallerSide, MergeMinority),
        (ShuttingDown, Left, NotJoined),
        (ShuttingDown, NotHeardOf, Dead),
    ]
};

/// Which side of a split goes on as it is when the split heals: the one with the most nodes, and of equal ones the one with the lowest node id. The others
/// merge. Counted are nodes that are responsible for something ([`NodeState::is_responsible`]); `None`: there are none.
pub fn majority(sides: &[BTreeSet<NodeId>]) -> Option<usize> {
    let sides = sides.iter().enumerate().filter(|(_, side)| !side.is_empty());
    let largest = sides.max_by_key(|(_, side)| (side.len(), std::cmp::Reverse(side.first().copied())));
    largest.map(|(index, _)| index)
}

impl NodeState {
    /// Whether the node is in the Primary ring: who is responsible now.
    pub fn is_in_primary(self) -> bool {
        self == NodeState::Running
    }

    /// Whether the node is in the Minority ring: who will be responsible when joins and merges have ended.
    pub fn is_in_minority(self) -> bool {
        matches!(self, NodeState::Joining | NodeState::Running | NodeState::Merging)
    }

    /// Whether clients were told of something that depends on this node's copies.
    pub fn is_responsible(self) -> bool {
        matches!(
            self,
            NodeState::Running | NodeState::MergeMinority | NodeState::Merging | NodeState::ShuttingDown
        )
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeState::NotJoined => "NOT_JOINED",
            NodeState::Joining => "JOINING",
            NodeState::Running => "RUNNING",
            NodeState::MergeMinority => "MERGE_MINORITY",
            NodeState::Merging => "MERGING",
            NodeState::ShuttingDown => "SHUTTING_DOWN",
            NodeState::Dead => "DEAD",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Started => "it has started",
            Reason::Found => "it has found the cluster",
            Reason::LostTheCluster => "it has lost the cluster before it had everything",
            Reason::HandedOver => "it has what it owns, and has handed over the rest",
            Reason::SmallerSide => "it was on the smaller side of a split",
            Reason::HandedOverToPrimary => "the others have what was written on its side of the split",
            Reason::SplitAgain => "the larger side is gone again",
            Reason::Stopping => "it is stopping",
            Reason::Left => "it has left",
            Reason::NotHeardOf => "it was not heard of for too long",
        })
    }
}
