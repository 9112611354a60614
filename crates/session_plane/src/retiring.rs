//! Retiring: how version vectors forget the runs that have ended (rules `retire-agreed` and
//! `told-among-all`).
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
//! What a member told may be old: a node that is lost may have given it an event since. So it counts
//! only if that member had exactly the members for present, each in its present run. From there on
//! only these give it anything, and a member keeps what it gives. So of all members the first that gets
//! an event of the run after it told has it from nobody. A node that deletes a copy therefore makes
//! holes in its routes of what the copy knew. The QoS 2 numbers that entries of the copy name are
//! nobody's holes, and the node does not know them any more. So it makes a ring marker. What a member
//! told counts only if it knew the last markers of all: it told that after it had merged the copy.
//!
//! *Invariant*: runs of a node are retired in order, without one left out.
//!
//! The node tells with its heartbeats, records those of peers, applies what was agreed to its copies,
//! and forgets a peer with its stay.

use std::collections::{BTreeMap, BTreeSet};

use cluster::{Incarnation, NodeId};

use self::told::Told;
use crate::{Dot, Interval, Run};

mod retired;
mod settled;
mod told;

pub use retired::Retired;
pub use settled::{CopySets, SETTLED_NODES_MAX, Settled, SettledError};

/// What this node and its present peers have told of runs that have ended.
#[derive(Debug)]
pub struct Retiring {
    node: NodeId,
    own: Told,
    /// Of the present stay of each.
    peers: BTreeMap<NodeId, PeerTold>,
    /// Last ring markers of this node and of the present peers.
    markers: BTreeMap<NodeId, Dot>,
}

/// What a peer has told.
#[derive(Debug, Default)]
struct PeerTold {
    told: Told,
    /// Runs that the peer had for present when it told last.
    among: BTreeSet<Run>,
}

impl Retiring {
    /// Nothing was told yet. `node` is this node.
    pub fn new(node: NodeId) -> Retiring {
        Retiring {
            node,
            own: Told::default(),
            peers: BTreeMap::new(),
            markers: BTreeMap::new(),
        }
    }

    /// Records what this node tells all present peers now.
    pub fn tell(&mut self, settled: Settled) {
        let floors = settled.floors();
        self.own.record(settled);
        let peers = self.peers.values_mut().map(|peer| &mut peer.told);
        for told in peers.chain([&mut self.own]) {
            told.forget_retired(&floors);
        }
    }

    /// Records what a present peer has told. The caller has checked that it is present.
    ///
    /// `among` are the runs of the peer's last ring marker before that, its own among them.
    pub fn record(&mut self, peer: NodeId, settled: Settled, among: BTreeSet<Run>) {
        let peer = self.peers.entry(peer).or_default();
        peer.told.record(settled);
        peer.among = among;
    }

    /// Records a ring marker of this node, or of a present peer.
    pub fn record_marker(&mut self, marker: Dot) {
        self.markers.insert(marker.run.node, marker);
    }

    /// A stay of the peer has ended: what it told does not count any more.
    pub fn forget(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
        self.markers.remove(&peer);
    }

    /// Runs that are retired now: at most one range for each node.
    ///
    /// `settled` is what is settled here at this moment. `present` are the runs that this node has for
    /// present, and `members` the nodes of the cluster, its own among both. `has_told_of`: a peer has told
    /// that it knows an event.
    pub fn agreed(
        &self,
        settled: &Settled,
        present: &BTreeSet<Run>,
        members: &BTreeSet<NodeId>,
        has_told_of: impl Fn(NodeId, Dot) -> bool,
    ) -> Vec<Retired> {
        let is_complete = present.iter().map(|run| &run.node).eq(members);
        let knows_markers = |peer| {
            let mut markers = present.iter().filter_map(|run| self.markers.get(&run.node));
            markers.all(|marker| has_told_of(peer, *marker))
        };
        let mut peers = members.iter().filter(|member| **member != self.node);
        let is_complete = is_complete && peers.all(|peer| knows_markers(*peer));
        let agreed = |node: NodeId| {
            let words = present.iter().filter_map(|run| self.by_word_of(run.node, node));
            let by_word = words.max_by_key(|retired| retired.up_to());
            by_word.or_else(|| {
                let all = is_complete.then(|| self.by_all(settled, present, node));
                all.flatten()
            })
        };
        self.own.nodes().filter_map(agreed).collect()
    }

    /// A peer has retired runs of which it had told the same as this node.
    fn by_word_of(&self, peer: NodeId, node: NodeId) -> Option<Retired> {
        let peer = &self.peers.get(&peer)?.told;
        let floor = peer.now().floor(node)?;
        let (told, theirs) = (self.own.before(node)?, peer.before(node)?);
        let from = told.from.max(theirs.from);
        let up_to = told.up_to.min(theirs.up_to).min(floor);
        let runs = Interval::of_runs(node, from, up_to)?;
        let own = self.own.events().within(&runs);
        Retired::same(runs, &own, [&peer.events().within(&runs)])
    }

    /// All `members` have told the same when they had these runs for present, and this node has it still.
    /// They knew all last markers.
    fn by_all(&self, settled: &Settled, members: &BTreeSet<Run>, node: NodeId) -> Option<Retired> {
        let told = self.own.before(node)?;
        let mut up_to = settled.up_to(node)?.min(told.up_to);
        let mut all = vec![self.own.events()];
        for member in members.iter().filter(|member| member.node != self.node) {
            let peer = self
                .peers
                .get(&member.node)
                .filter(|peer| peer.among == *members)?;
            let theirs = peer.told.now();
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
