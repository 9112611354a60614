//! Conditions of the links between this node and the others: links that are broken, and nodes that do not go on with each other.

use std::collections::{BTreeMap, BTreeSet};

use cluster::peers::{Frame, PeerAddress, Refusal, RefusalCode};
use cluster::{GroupId, NodeId};

use super::{Peers, Shared};
use crate::condition::{Condition, NodeAt};

/// Groups by the node that leads them.
pub(crate) type Leaders = BTreeMap<NodeId, Vec<GroupId>>;

impl Peers {
    /// Conditions of all links, refusals first.
    pub(crate) fn conditions(&self, leaders: &Leaders) -> Vec<Condition> {
        let mut refusals = self.shared.refusals();
        // A node that has stopped for good is removed from the cluster.
        refusals.retain(|address, refusal| {
            refusal.code != RefusalCode::Stopped || self.shared.is_of_member(address)
        });
        let mut links = self.shared.broken_links(leaders);
        links.retain(|address, _| !refusals.contains_key(address));
        // Several nodes refuse this one in the same words.
        let mut said = BTreeSet::new();
        refusals.retain(|_, refusal| said.insert(refusal.text.clone()));
        let refused = refusals.into_iter();
        let refused = refused.map(|(address, refusal)| Condition::Refused { address, refusal });
        refused.chain(links.into_values()).collect()
    }

    /// Whether this node can send to a member of the cluster.
    pub(crate) fn reaches(&self, node: NodeId) -> bool {
        node == self.shared.identity.node || self.shared.outgoing.borrow().contains_key(&node)
    }

    /// This node, with its address.
    pub(crate) fn own(&self) -> NodeAt {
        self.shared.own()
    }

    /// A member of the cluster, with its address.
    pub(crate) fn member(&self, node: NodeId) -> Option<NodeAt> {
        let membership = self.shared.membership.borrow();
        let address = membership.as_ref()?.members.get(&node)?.clone();
        Some(NodeAt { node, address })
    }

    /// Tells all nodes why this one stops, as far as they can be told at once.
    pub(crate) fn say_last(&self, why: &str) {
        let own = self.shared.own();
        let refusal = Refusal::new(RefusalCode::Stopped, format!("{own} has stopped: {why}"));
        let frame = Frame::Refused(refusal);
        let nodes: Vec<_> = self.shared.outgoing.borrow().keys().copied().collect();
        nodes.iter().for_each(|node| self.shared.say(*node, &frame));
    }
}

impl Shared {
    pub(super) fn own(&self) -> NodeAt {
        NodeAt {
            node: self.identity.node,
            address: self.settings.address.clone(),
        }
    }

    /// Links between this node and the other members that do not exist, by the address of the other one.
    pub(super) fn broken_links(&self, leaders: &Leaders) -> BTreeMap<PeerAddress, Condition> {
        let membership = self.membership.borrow();
        let members = membership.iter().flat_map(|membership| &membership.members);
        let others = members.filter(|(node, _)| **node != self.identity.node);
        let links = others.filter_map(|(node, address)| {
            let other = NodeAt {
                node: *node,
                address: address.clone(),
            };
            Some((address.clone(), self.broken_link(other, leaders)?))
        });
        links.collect()
    }

    /// The link to another member, else the one from it.
    fn broken_link(&self, other: NodeAt, leaders: &Leaders) -> Option<Condition> {
        let node = other.node;
        if !self.outgoing.borrow().contains_key(&node) {
            let why = self.unreachable().remove(&other.address);
            return Some(Condition::NoConnection {
                from: self.own(),
                to: other,
                why: why.unwrap_or_else(|| "there is no connection".to_owned()),
                led: leaders.get(&node).cloned().unwrap_or_default(),
            });
        }
        let has_called = self.incoming.borrow().contains_key(&node);
        (!has_called).then(|| Condition::NoConnection {
            from: other,
            to: self.own(),
            why: "it has not connected".to_owned(),
            led: leaders.get(&self.identity.node).cloned().unwrap_or_default(),
        })
    }
}
