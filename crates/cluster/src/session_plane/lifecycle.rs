//! How far a node is in the session plane, as operators and reports have it.

use std::fmt;

use crate::NodeId;

/// How far a node is.
///
/// ```text
///   NOT_JOINED --> JOINING --> RUNNING <--------------------------.
///                                 |                               |
///                                 '-------> MERGE_MINORITY --> MERGING
///
///   every state --> DEAD
/// ```
///
/// DEAD is what others take it for. One that lives, and was only away, counts as dead until it is met again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeState {
    /// It owns nothing.
    NotJoined,
    /// It will own slots, and gets them; what is written is sent to it as well.
    Joining,
    /// It is responsible.
    Running,
    /// It was on the smaller side of a split, and gives what was written there to those that are responsible.
    MergeMinority,
    /// They have it. Now it gets what it will own.
    Merging,
    /// It was given up, or has left.
    Dead,
}

/// Why a node's state has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It has found the cluster, or is the first node of one.
    Found,
    /// It has merged what it owns.
    Merged,
    /// A split has healed, and its side was the smaller one.
    SmallerSide,
    /// It has sent nothing for too long.
    NotHeardOf,
}

/// A node's state has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateChange {
    /// The node.
    pub node: NodeId,
    /// What it was.
    pub from: NodeState,
    /// What it is now.
    pub to: NodeState,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeState::NotJoined => "NOT_JOINED",
            NodeState::Joining => "JOINING",
            NodeState::Running => "RUNNING",
            NodeState::MergeMinority => "MERGE_MINORITY",
            NodeState::Merging => "MERGING",
            NodeState::Dead => "DEAD",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Found => "it has found the cluster",
            Reason::Merged => "it has merged what it owns",
            Reason::SmallerSide => "it was on the smaller side of a split",
            Reason::NotHeardOf => "it was not heard of for too long",
        })
    }
}
