//! What becomes of this node next, by what it knows of the others.

use std::collections::BTreeSet;
use std::time::Instant;

use super::{Nodes, Peer};
use crate::NodeId;
use crate::session_plane::lifecycle::{NodeState, Reason, majority};

impl Nodes {
    /// Why this node's state changes now; `None`: it does not.
    pub(super) fn due(&self, now: Instant) -> Option<Reason> {
        match self.state {
            NodeState::NotJoined => self.may_begin(now).then_some(Reason::Found),
            NodeState::Joining if self.is_stopping => Some(Reason::Stopping),
            NodeState::Joining if self.has_joined_others && self.responsible().next().is_none() => {
                Some(Reason::LostTheCluster)
            }
            NodeState::Joining | NodeState::Merging if self.has_handed_over => Some(Reason::HandedOver),
            NodeState::Running | NodeState::ShuttingDown if self.larger_sides(now).next().is_some() => {
                Some(Reason::SmallerSide)
            }
            NodeState::Running if self.is_stopping => Some(Reason::Stopping),
            NodeState::MergeMinority | NodeState::Merging if self.responsible().next().is_none() => {
                Some(Reason::SplitAgain)
            }
            NodeState::MergeMinority if self.has_handed_over => Some(Reason::HandedOverToPrimary),
            NodeState::ShuttingDown if self.has_handed_over => Some(Reason::Left),
            _ => None,
        }
    }

    /// Whether it has found the cluster: somebody who is responsible, or all who should be there; or it has waited for them for long enough.
    fn may_begin(&self, now: Instant) -> bool {
        if self.is_stopping || !self.is_member {
            return false;
        }
        let is_there = |peer: &Peer| peer.is_up() && peer.said.is_some();
        self.responsible().next().is_some() || self.peers.values().all(is_there) || self.begin_at <= now
    }

    /// Other nodes that are responsible now, as this one sees it.
    pub(super) fn responsible(&self) -> impl Iterator<Item = NodeId> {
        let peers = self.peers.iter().filter(|(_, peer)| peer.state.is_in_primary());
        peers.map(|(node, _)| *node)
    }

    /// Whom this node counts on.
    pub(super) fn countable(&self) -> impl Iterator<Item = NodeId> {
        let counts = |peer: &Peer| !matches!(peer.state, NodeState::NotJoined | NodeState::Dead);
        let peers = self.peers.iter().filter(move |(_, peer)| counts(peer));
        peers.map(|(node, _)| *node)
    }

    /// Whether all know of this node's state and count on it, so that nothing is written without it: all that can be reached, since also those that are not
    /// responsible yet may become it at the same time; and all that they count on who are responsible, whether this node has reached them or not.
    pub(super) fn is_counted_on(&self) -> bool {
        let there = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.is_up() && peer.parted.is_none());
        let there = there.map(|(node, _)| *node);
        let said = self
            .responsible()
            .filter_map(|node| self.peers[&node].said.as_ref());
        let theirs = said.flat_map(|said| said.counts_on.iter().copied());
        let mut all = there.chain(theirs).filter(|node| *node != self.own);
        all.all(|node| {
            self.peers
                .get(&node)
                .is_none_or(|peer| self.is_counted_on_by(peer))
        })
    }

    fn is_counted_on_by(&self, peer: &Peer) -> bool {
        peer.is_up() && peer.parted.is_none() && peer.heard >= self.state_word && peer.counts_on(self.own)
    }

    /// Nodes that are responsible on another side of a split that has healed, if that side goes on as it is.
    ///
    /// Sides are those who count on each other. While two sides have somebody in common, somebody may not have heard yet: they are compared when they have nobody in
    /// common, or when it has stayed so for a while. Then a node was taken for dead by some and not by others, and one of the two has missed something.
    /// A node that leaves merges with any side: nobody merges with it.
    fn larger_sides(&self, now: Instant) -> impl Iterator<Item = NodeId> {
        let own = self.own_side();
        let disagreeing = self
            .peers
            .iter()
            .filter_map(|(node, peer)| Some((*node, peer.disagrees_since?)));
        let larger = disagreeing.filter(move |(node, since)| {
            let other = self.side_of(*node);
            let is_settled = own.is_disjoint(&other) || *since + self.patience <= now;
            is_settled && (self.state == NodeState::ShuttingDown || is_larger(&other, &own))
        });
        larger.map(|(node, _)| node)
    }

    /// Since when others are responsible beside this node and not with it.
    pub(super) fn note_disagreements(&mut self, now: Instant) {
        let own = self.own;
        let is_apart = matches!(self.state, NodeState::Running | NodeState::ShuttingDown);
        for peer in self.peers.values_mut() {
            let disagrees = is_apart && peer.is_beyond_split(own);
            let since = peer.disagrees_since.unwrap_or(now);
            peer.disagrees_since = disagrees.then_some(since);
        }
    }

    fn own_side(&self) -> BTreeSet<NodeId> {
        let counts_on_this = |node: &NodeId| self.peers[node].counts_on(self.own);
        let others = self.countable().filter(counts_on_this);
        let others = others.filter(|node| self.peers[node].state.is_responsible());
        others.chain([self.own]).collect()
    }

    fn side_of(&self, node: NodeId) -> BTreeSet<NodeId> {
        let said = self.peers.get(&node).and_then(|peer| peer.said.as_ref());
        let counted = said.into_iter().flat_map(|said| said.counts_on.iter().copied());
        let mut side: BTreeSet<NodeId> = counted.filter(|other| self.belongs_to(*other, node)).collect();
        side.insert(node);
        side
    }

    /// Whether a node is responsible, and counts on another one.
    fn belongs_to(&self, node: NodeId, other: NodeId) -> bool {
        if node == self.own {
            return self.countable().any(|counted| counted == other);
        }
        let said = self.peers.get(&node).and_then(|peer| peer.said.as_ref());
        said.is_some_and(|said| said.state.is_responsible() && said.counts_on.contains(&other))
    }

    /// This node is on the smaller side: who is responsible on a larger one is it for this one as well.
    pub(super) fn accept_larger_sides(&mut self, now: Instant) {
        let larger: Vec<NodeId> = self.larger_sides(now).collect();
        self.accept(&larger);
    }

    /// While this node joins or merges: who is responsible together with those that it knows to be so is it for this one as well. True if there was such a node.
    pub(super) fn accept_their_friends(&mut self) -> bool {
        if !matches!(
            self.state,
            NodeState::Joining | NodeState::MergeMinority | NodeState::Merging
        ) {
            return false;
        }
        let theirs: BTreeSet<NodeId> = self.responsible().flat_map(|node| self.side_of(node)).collect();
        let parted = |node: &NodeId| {
            let peer = self.peers.get(node);
            peer.is_some_and(|peer| peer.parted.is_some() && peer.is_running())
        };
        let friends: Vec<NodeId> = theirs.into_iter().filter(parted).collect();
        self.accept(&friends);
        !friends.is_empty()
    }

    fn accept(&mut self, nodes: &[NodeId]) {
        for node in nodes {
            if let Some(peer) = self.peers.get_mut(node) {
                peer.parted = None;
            }
        }
    }
}

/// Whether a side of a split goes on as it is, and not the other one. Those who are on both count for neither.
fn is_larger(side: &BTreeSet<NodeId>, other: &BTreeSet<NodeId>) -> bool {
    let apart = |side: &BTreeSet<NodeId>, other| side.difference(other).copied().collect();
    majority(&[apart(other, side), apart(side, other)]) == Some(1)
}
