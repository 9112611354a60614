//! Retiring: how version vectors forget the runs that have ended (rule `retire-agreed`).
//!
//! Each start of a node is an actor of its own, so a vector would grow with every restart. Each
//! member tells what all its copies have decided upon of runs that have ended ([`Settled`]). When
//! all members have told the same, nobody can have another event of such a run. From then on
//! everything of it is covered, and a vector has one number for it and all runs before: the floor of
//! the node.
//!
//! The first node to see this tells it with what it has settled. Another takes its word if both had
//! told the same before, for the copies that have that. A node that came later, in the place of a
//! lost one for instance, and a copy that was made later have to merge: retiring there would read a
//! removal into each entry that they are to get.
//!
//! *Invariant*: runs of a node are retired in order, without one left out.
//!
//! The node tells with its heartbeats, records those of peers, applies what was agreed to its copies,
//! and forgets a peer with its stay.

use std::collections::{BTreeMap, BTreeSet};

use cluster::{Incarnation, NodeId};

use self::told::Told;
use crate::Interval;

mod retired;
mod settled;
mod told;

pub use retired::Retired;
pub use settled::{CopySets, SETTLED_NODES_MAX, Settled, SettledError};

/// What this node and its present peers have told of runs that have ended.
#[derive(Debug, Default)]
pub struct Retiring {
    own: Told,
    /// Of the present stay of each.
    peers: BTreeMap<NodeId, Told>,
}

impl Retiring {
    /// Records what this node tells all present peers now.
    pub fn tell(&mut self, settled: Settled) {
        let floors = settled.floors();
        self.own.record(settled);
        for told in self.peers.values_mut().chain([&mut self.own]) {
            told.forget_retired(&floors);
        }
    }

    /// Records what a present peer has told. The caller has checked that it is present.
    pub fn record(&mut self, peer: NodeId, settled: Settled) {
        self.peers.entry(peer).or_default().record(settled);
    }

    /// A stay of the peer has ended: what it told does not count any more.
    pub fn forget(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
    }

    /// Runs that are retired now: at most one range for each node.
    ///
    /// `settled` is what is settled here at this moment. `peers` are the present ones, which are all
    /// other members if the cluster `is_complete`.
    pub fn agreed(&self, settled: &Settled, peers: &BTreeSet<NodeId>, is_complete: bool) -> Vec<Retired> {
        let agreed = |node: NodeId| {
            let words = peers.iter().filter_map(|peer| self.by_word_of(*peer, node));
            let by_word = words.max_by_key(|retired| retired.up_to());
            by_word.or_else(|| {
                let all = is_complete.then(|| self.by_all(settled, peers, node));
                all.flatten()
            })
        };
        self.own.nodes().filter_map(agreed).collect()
    }

    /// A peer has retired runs of which it had told the same as this node.
    fn by_word_of(&self, peer: NodeId, node: NodeId) -> Option<Retired> {
        let peer = self.peers.get(&peer)?;
        let floor = peer.now().floor(node)?;
        let (told, theirs) = (self.own.before(node)?, peer.before(node)?);
        let from = told.from.max(theirs.from);
        let up_to = told.up_to.min(theirs.up_to).min(floor);
        let runs = Interval::of_runs(node, from, up_to)?;
        let own = self.own.events().within(&runs);
        Retired::same(runs, &own, [&peer.events().within(&runs)])
    }

    /// All members have told the same, and this node has it still.
    fn by_all(&self, settled: &Settled, peers: &BTreeSet<NodeId>, node: NodeId) -> Option<Retired> {
        let told = self.own.before(node)?;
        let mut up_to = settled.up_to(node)?.min(told.up_to);
        let mut all = vec![self.own.events()];
        for peer in peers {
            let theirs = self.peers.get(peer)?.now();
            up_to = up_to.min(theirs.up_to(node)?);
            all.push(theirs.events());
        }
        let from = after(settled.floor(node))?;
        let runs = Interval::of_runs(node, from, up_to).filter(|_| told.from <= from)?;
        let others: Vec<_> = all.into_iter().map(|events| events.within(&runs)).collect();
        Retired::same(runs, &settled.events().within(&runs), &others)
    }
}

/// First start that is not retired. None where every start is.
fn after(floor: Option<Incarnation>) -> Option<Incarnation> {
    match floor {
        Some(Incarnation(floor)) => floor.checked_add(1).map(Incarnation),
        None => Some(Incarnation(0)),
    }
}

#[cfg(test)]
mod tests;
