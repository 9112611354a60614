//! Availability of each group at this node: the leader, the voters, and whether the node has a whole copy.

use std::collections::BTreeSet;

use cluster::replica::Replica;
use cluster::{GroupId, NodeId};
use mqtt::now::Now;

use crate::control_group::CopyReport;
use crate::node::Node;

/// Availability of a group at this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupAvailability {
    /// Its number; the control group is one as well.
    pub group: GroupId,
    /// Its leader, as far as this node knows.
    pub leader: Option<NodeId>,
    /// Nodes that elect the leader.
    pub voters: BTreeSet<NodeId>,
    /// False while this node has no copy that it can serve from, and fetches one.
    pub is_whole: bool,
}

impl GroupAvailability {
    fn of(replica: &Replica, leader: Option<NodeId>) -> Self {
        Self {
            group: replica.group(),
            leader,
            voters: replica.members().voters.clone(),
            is_whole: !replica.is_stateless(),
        }
    }
}

impl Node {
    /// Report about the copies that this node has, and those of its sessions.
    pub(crate) fn copy_report(&self) -> CopyReport {
        let broken = self.groups.iter().map(|service| service.replica());
        let broken = broken.filter(|replica| replica.is_stateless());
        CopyReport {
            under_replicated: self.replication.unmerged_slots(),
            fetching: broken.map(Replica::group).collect(),
        }
    }

    /// Other nodes that have no whole copy of a group and fetch one, with these groups.
    pub fn fetching_elsewhere(&self, now: Now) -> Vec<(NodeId, BTreeSet<GroupId>)> {
        let Some(control) = &self.control else {
            return Vec::new();
        };
        let others = control
            .control()
            .nodes()
            .keys()
            .filter(|node| **node != control.node());
        let reports = others.filter_map(|node| Some((*node, control.copies_of(now, *node)?)));
        let fetching = reports.filter(|(_, report)| !report.fetching.is_empty());
        fetching
            .map(|(node, report)| (node, report.fetching.clone()))
            .collect()
    }

    /// Whether this node was removed from the cluster: it serves no clients any more.
    pub fn is_leaving(&self) -> bool {
        self.ending.is_leaving
    }

    /// Availability of the groups of the state store, and of the control group at the end.
    pub fn availability(&self) -> Vec<GroupAvailability> {
        let stores = self.groups.iter();
        let stores = stores.map(|service| GroupAvailability::of(service.replica(), service.known_leader()));
        let control = self.control.iter().map(|control| control.replica());
        stores
            .chain(control.map(|replica| GroupAvailability::of(replica, replica.leader())))
            .collect()
    }
}
