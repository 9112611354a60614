//! Which nodes a cluster has, as the control group's log decides it. Every node applies that log, so every node knows.
//!
//! What is *wanted* is here: who is to take part, and how many are to vote. What *is* lies in the logs of the groups themselves
//! ([`crate::replica::Members`]); [`plan`] is the way from the one to the other.
//!
//! ```text
//!   Add --> Joining --(takes part in every group)--> Member
//!              \------------ Remove ------------------/ \
//!                                                        Leaving --(takes part in no group)--> removed, for ever
//! ```
//!
//! *Invariant*: a pure function of the applied commands; two nodes that applied the same ones are equal, byte for byte.

pub mod plan;
mod record;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use self::record::{
    ControlRecordError, control_key, decode_command, decode_state, encode_command, encode_state,
};
use crate::forming::{Founder, Founding};
use crate::peers::PeerAddress;
use crate::replica::MEMBERS_MAX;
use crate::{ClusterId, GroupId, NodeId};

/// The group whose log says which nodes there are.
pub const CONTROL: GroupId = GroupId(u32::MAX);

/// Fewer voters cannot do without one of them.
const VOTERS_MIN: usize = 3;

/// The nodes that were removed last are told so when they call. An older one finds that nobody answers it.
const REMOVED_MAX: usize = 1024;

/// The nodes of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    cluster: ClusterId,
    groups: u32,
    voters_wanted: usize,
    nodes: BTreeMap<NodeId, ClusterNode>,
    /// In the order in which they were removed.
    removed: VecDeque<NodeId>,
    /// Who is to lead a group, where an operator said so.
    leads: BTreeMap<GroupId, NodeId>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNode {
    /// Where it can be reached.
    pub address: PeerAddress,
    /// How far it is.
    pub stage: NodeStage,
    /// Since when, in milliseconds since the Unix epoch, by the clock of the control group's leader.
    pub since: u64,
}

/// How far a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeStage {
    /// It was added, and does not take part in every group yet.
    Joining,
    /// It takes part in every group.
    Member,
    /// It was removed, and still takes part in some group.
    Leaving,
}

/// What the control group decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A node is to take part in every group.
    Add(Founder),
    /// A node is to take part in no group.
    Remove(NodeId),
    /// It takes part in every group.
    Joined(NodeId),
    /// It takes part in no group.
    Left(NodeId),
    /// A node is to be found at another address.
    Moved(Founder),
    /// A node is to lead a group as long as it can.
    Lead {
        /// Which group.
        group: GroupId,
        /// Which node.
        node: NodeId,
    },
}

impl Control {
    /// A cluster as it was formed. As many nodes vote in each group as founded it, but at least three if there are that many.
    pub fn new(founding: &Founding) -> Control {
        let member = |founder: &Founder| {
            let node = ClusterNode {
                address: founder.address.clone(),
                stage: NodeStage::Member,
                since: 0,
            };
            (founder.node, node)
        };
        Control {
            cluster: founding.cluster(),
            groups: founding.groups(),
            voters_wanted: founding.founders().len().max(VOTERS_MIN),
            nodes: founding.founders().iter().map(member).collect(),
            removed: VecDeque::new(),
            leads: BTreeMap::new(),
        }
    }

    /// Executes a committed command. What does not fit any more changes nothing.
    pub fn apply(&mut self, at: u64, command: &Command) {
        match command {
            Command::Add(founder) => {
                let is_known = self.nodes.contains_key(&founder.node) || self.is_removed(founder.node);
                if !is_known && self.nodes.len() < MEMBERS_MAX {
                    let node = ClusterNode {
                        address: founder.address.clone(),
                        stage: NodeStage::Joining,
                        since: at,
                    };
                    self.nodes.insert(founder.node, node);
                }
            }
            Command::Remove(node) if self.staying().count() > 1 => {
                self.go_on(at, *node, NodeStage::Leaving);
            }
            Command::Remove(_) => {}
            Command::Joined(node) if self.stage(*node) == Some(NodeStage::Joining) => {
                self.go_on(at, *node, NodeStage::Member);
            }
            Command::Joined(_) => {}
            Command::Left(node) if self.stage(*node) == Some(NodeStage::Leaving) => {
                self.nodes.remove(node);
                self.leads.retain(|_, leader| leader != node);
                self.removed.push_back(*node);
                if self.removed.len() > REMOVED_MAX {
                    self.removed.pop_front();
                }
            }
            Command::Left(_) => {}
            Command::Moved(founder) => {
                if let Some(node) = self.nodes.get_mut(&founder.node) {
                    node.address = founder.address.clone();
                }
            }
            Command::Lead { group, node } => {
                let is_group = *group == CONTROL || group.0 < self.groups;
                if is_group && self.nodes.contains_key(node) {
                    self.leads.insert(*group, *node);
                }
            }
        }
    }

    /// The cluster.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// How many groups the state store has.
    pub fn groups(&self) -> u32 {
        self.groups
    }

    /// How many nodes are to vote in each group, if there are as many.
    pub fn voters_wanted(&self) -> usize {
        self.voters_wanted
    }

    /// Its nodes.
    pub fn nodes(&self) -> &BTreeMap<NodeId, ClusterNode> {
        &self.nodes
    }

    /// How far a node is; `None`: it is not in the cluster.
    pub fn stage(&self, node: NodeId) -> Option<NodeStage> {
        Some(self.nodes.get(&node)?.stage)
    }

    /// Nodes that are not leaving.
    pub fn staying(&self) -> impl Iterator<Item = NodeId> + '_ {
        let staying = self
            .nodes
            .iter()
            .filter(|(_, node)| node.stage != NodeStage::Leaving);
        staying.map(|(node, _)| *node)
    }

    /// Nodes that are leaving.
    pub fn leaving(&self) -> impl Iterator<Item = NodeId> + '_ {
        let leaving = self
            .nodes
            .iter()
            .filter(|(_, node)| node.stage == NodeStage::Leaving);
        leaving.map(|(node, _)| *node)
    }

    /// Whether a node was in the cluster and never will be again.
    pub fn is_removed(&self, node: NodeId) -> bool {
        self.removed.contains(&node)
    }

    /// The nodes that were removed, in that order.
    pub fn removed(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.removed.iter().copied()
    }

    /// Who is to lead a group, if an operator said so and the node does not leave.
    pub fn leads(&self, group: GroupId) -> Option<NodeId> {
        let named = self.leads.get(&group).copied();
        named.filter(|node| self.stage(*node) != Some(NodeStage::Leaving))
    }

    /// Its nodes, and where they are.
    pub fn peers(&self) -> BTreeSet<Founder> {
        let peer = |(node, found): (&NodeId, &ClusterNode)| Founder {
            node: *node,
            address: found.address.clone(),
        };
        self.nodes.iter().map(peer).collect()
    }

    fn go_on(&mut self, at: u64, node: NodeId, stage: NodeStage) {
        if let Some(node) = self.nodes.get_mut(&node).filter(|node| node.stage != stage) {
            node.stage = stage;
            node.since = at;
        }
    }
}

#[cfg(test)]
mod tests;
