//! Naive failure detector: facts in plain maps, and all of them looked at each time.

use std::collections::{BTreeMap, BTreeSet};

use super::network::Said;
use super::*;

#[derive(Debug)]
pub(super) struct Naive {
    own: NodeId,
    present: BTreeMap<NodeId, PresentNode>,
    heard: BTreeMap<NodeId, Instant>,
    pub(super) answered: BTreeMap<NodeId, Instant>,
    pub(super) refused: BTreeSet<NodeId>,
    views: BTreeMap<NodeId, View>,
    /// Pairs of peers of which the first has given up the second since they had each other.
    gave_up: BTreeSet<(NodeId, NodeId)>,
    /// Convictions that can be refuted, by the convicted node.
    convicted: BTreeMap<NodeId, SwimIncarnation>,
    /// Witness of each conviction that can be refuted.
    witnesses: BTreeMap<NodeId, NodeId>,
}

impl Naive {
    pub(super) fn new(own: NodeId) -> Naive {
        Naive {
            own,
            present: BTreeMap::new(),
            heard: BTreeMap::new(),
            answered: BTreeMap::new(),
            refused: BTreeSet::new(),
            views: BTreeMap::new(),
            gave_up: BTreeSet::new(),
            convicted: BTreeMap::new(),
            witnesses: BTreeMap::new(),
        }
    }

    pub(super) fn meet(&mut self, now: Instant, peer: &PresentNode) {
        let node = peer.run.node;
        self.present.insert(node, *peer);
        self.heard.insert(node, now);
        self.answered.insert(node, now);
    }

    pub(super) fn part(&mut self, node: NodeId) {
        self.present.remove(&node);
        self.refused.remove(&node);
        self.views.remove(&node);
        self.gave_up.retain(|pair| pair.0 != node && pair.1 != node);
        self.convicted.remove(&node);
    }

    pub(super) fn receive(&mut self, now: Instant, from: NodeId, said: &Said) {
        self.heard.insert(from, now);
        self.refused.remove(&from);
        if let Said::Marker(view) = said {
            self.see(from, view);
        }
    }

    fn see(&mut self, from: NodeId, view: &View) {
        let before = self.views.insert(from, view.clone());
        let is_known = |present: &PresentNode, all: &BTreeMap<NodeId, PresentNode>| {
            all.get(&present.run.node)
                .is_some_and(|known| known.run == present.run)
        };
        let known: Vec<PresentNode> = view
            .nodes()
            .iter()
            .filter(|at| is_known(at, &self.present))
            .copied()
            .collect();
        for seen in known {
            let node = seen.run.node;
            if before.as_ref().is_some_and(|before| before.find(node).is_none()) {
                self.gave_up.remove(&(from, node));
                self.gave_up.remove(&(node, from));
            }
            let suspects = self.convicted.contains_key(&node);
            if node == from || suspects {
                self.raise(node, seen.incarnation);
            }
        }
        for lost in before.iter().flat_map(View::nodes) {
            if view.find(lost.run.node).is_none() && is_known(lost, &self.present) {
                self.lose(from, lost);
            }
        }
    }

    fn raise(&mut self, node: NodeId, incarnation: SwimIncarnation) {
        let known = self.present.get_mut(&node).expect("a present peer");
        known.incarnation = known.incarnation.max(incarnation);
        if self
            .convicted
            .get(&node)
            .is_some_and(|named| *named < incarnation)
        {
            self.convicted.remove(&node);
        }
    }

    fn lose(&mut self, from: NodeId, lost: &PresentNode) {
        let node = lost.run.node;
        self.gave_up.insert((from, node));
        let known = self.present.get_mut(&node).expect("a present peer");
        if self.gave_up.contains(&(node, from)) {
            for (witness, of) in [(from, node), (node, from)] {
                if self.witnesses.get(&of) == Some(&witness) {
                    self.convicted.remove(&of);
                }
            }
        } else if lost.incarnation >= known.incarnation {
            known.incarnation = lost.incarnation;
            self.convicted.insert(node, lost.incarnation);
            self.witnesses.insert(node, from);
        }
    }

    /// The peer goes for a lower one that stays, and with which it has no link.
    fn goes(&self, node: NodeId, dead: &BTreeSet<NodeId>) -> bool {
        let is_mutual =
            |rival: NodeId| self.gave_up.contains(&(rival, node)) && self.gave_up.contains(&(node, rival));
        let lower = self
            .present
            .keys()
            .filter(|rival| **rival < node && !dead.contains(*rival));
        lower
            .into_iter()
            .any(|rival| is_mutual(*rival) && !self.goes(*rival, dead))
    }

    /// Peers to give up now, one after the other.
    pub(super) fn dead(&self, now: Instant) -> BTreeSet<NodeId> {
        let mut dead = BTreeSet::new();
        for node in self.present.keys() {
            assert_ne!(*node, self.own);
            let silence = now - self.heard[node];
            let waited = now - self.answered[node];
            let is_suspect = self.convicted.contains_key(node) || self.goes(*node, &dead);
            let is_dead = silence >= Duration::from_millis(SILENCE_MAX)
                || self.refused.contains(node) && silence >= Duration::from_millis(GONE)
                || is_suspect && waited >= Duration::from_millis(SILENCE_MAX / 2);
            if is_dead {
                dead.insert(*node);
            }
        }
        dead
    }
}
