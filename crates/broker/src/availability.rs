//! Availability of each group at this node: the leader, the voters, and whether the node has a whole copy.

use std::collections::BTreeSet;

use cluster::replica::Replica;
use cluster::{GroupId, NodeId};

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
