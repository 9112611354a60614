//! States: how the nodes of the cluster stand in the session plane, as this node sees it.

use std::collections::BTreeMap;

use cluster::NodeId;
use cluster::session_plane::lifecycle::{NodeState, Reason, StateChange};
use session_plane::NodeState as PlaneState;

use super::Replication;
use crate::node::{Action, Node};
use crate::report::Report;

/// States that were reported last.
#[derive(Debug, Default)]
pub(super) struct KnownStates(BTreeMap<NodeId, NodeState>);

impl Replication {
    /// State of a node. One that is not present counts as dead.
    pub(crate) fn state_of(&self, node: NodeId) -> NodeState {
        match self.plane().membership().find(node).map(|present| present.state) {
            Some(PlaneState::Joining) => NodeState::Joining,
            Some(PlaneState::Running) => NodeState::Running,
            Some(PlaneState::MergeMinority) => NodeState::MergeMinority,
            Some(PlaneState::Merging) => NodeState::Merging,
            None => NodeState::Dead,
        }
    }

    /// Node is present to the session plane.
    pub(crate) fn is_present(&self, node: NodeId) -> bool {
        self.plane().membership().is_present(node)
    }

    /// Every node that is present has merged what it owns.
    pub(crate) fn do_all_run(&self) -> bool {
        let mut present = self.members.iter().filter(|node| self.is_present(**node));
        present.all(|node| self.state_of(*node) == NodeState::Running)
    }

    /// Reports states that have changed since they were reported last.
    pub(super) fn report_states(&mut self, actions: &mut Vec<Action>) {
        if self.is_alone() {
            return;
        }
        for node in &self.members {
            let to = self.state_of(*node);
            let from = self.states.0.insert(*node, to).unwrap_or(NodeState::NotJoined);
            let is_news = from != to && (from, to) != (NodeState::NotJoined, NodeState::Dead);
            let reason = match to {
                NodeState::Dead => Reason::NotHeardOf,
                NodeState::MergeMinority => Reason::SmallerSide,
                NodeState::Joining => Reason::Found,
                _ => Reason::Merged,
            };
            let node = *node;
            actions.extend(is_news.then_some(Action::Report(Report::NodeState(StateChange {
                node,
                from,
                to,
                reason,
            }))));
        }
    }
}

impl Node {
    /// States of the nodes of the cluster in the session plane, by id. Empty where there is none.
    pub fn node_states(&self) -> Vec<(NodeId, NodeState)> {
        let members = self.control.iter().flat_map(|_| &self.replication.members);
        members
            .map(|node| (*node, self.replication.state_of(*node)))
            .collect()
    }
}
