//! Messages of a handshake, and the choice of the smaller side.

use std::cmp::Reverse;

use cluster::NodeId;

use crate::membership::Stay;
use crate::{NodeState, Run, SwimIncarnation};

/// Message of a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handshake {
    /// The sender has given the receiver up, or has never met it.
    Offer(Introduction),
    /// The higher node answers an offer of the lower one.
    Answer(Answer),
    /// The lower node has met the higher one.
    Confirm(Confirm),
}

/// Run, state and side of a node, as it introduces itself in a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Introduction {
    /// Sender, and its start.
    pub run: Run,
    /// State of the sender.
    pub state: NodeState,
    /// Incarnation that the sender would have in the stay.
    pub incarnation: SwimIncarnation,
    /// Present nodes of the sender.
    pub side: Side,
}

/// Answer to an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Sender.
    pub introduction: Introduction,
    /// Offer that is answered, of the receiver's run.
    pub offer: Stay,
}

/// Confirmation of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirm {
    /// Sender. Its incarnation is the one that it has from here on.
    pub introduction: Introduction,
    /// Offer of the sender that was answered.
    pub offer: SwimIncarnation,
    /// Answer that is confirmed, of the receiver's run.
    pub answer: Stay,
    /// Node of the smaller side: it becomes MERGE_MINORITY if it is RUNNING. None where sides need
    /// not merge.
    pub minority: Option<NodeId>,
}

/// Side of a split: the nodes that are present to one node, itself among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// Number of nodes; 1 to [`NODES_MAX`](crate::view::NODES_MAX).
    pub nodes: usize,
    /// Lowest node.
    pub lowest: NodeId,
}

impl Handshake {
    /// Introduction of the sender.
    pub fn introduction(&self) -> &Introduction {
        match self {
            Handshake::Offer(introduction) => introduction,
            Handshake::Answer(answer) => &answer.introduction,
            Handshake::Confirm(confirm) => &confirm.introduction,
        }
    }
}

impl Introduction {
    pub(in crate::membership) fn stay(&self) -> Stay {
        Stay {
            run: self.run,
            incarnation: self.incarnation,
        }
    }
}

/// Node of the smaller side: that of fewer nodes, of equally many the one without the lowest node.
///
/// None unless both are RUNNING: a node that merges or joins gives what it holds anyway. None where
/// both have the same lowest node: they are no two sides.
pub(super) fn smaller_side(one: &Introduction, other: &Introduction) -> Option<NodeId> {
    let both_run = one.state == NodeState::Running && other.state == NodeState::Running;
    let weight = |introduction: &Introduction| (introduction.side.nodes, Reverse(introduction.side.lowest));
    let (weight_of_one, weight_of_other) = (weight(one), weight(other));
    if !both_run || weight_of_one == weight_of_other {
        return None;
    }
    let smaller = if weight_of_one < weight_of_other {
        one
    } else {
        other
    };
    Some(smaller.run.node)
}
