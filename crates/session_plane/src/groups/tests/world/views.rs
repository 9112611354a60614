//! Views of the world's nodes: which they give up, which they meet, and what follows from that.

use super::machine::Copy;
use super::{Content, NODES, World, index, places};
use crate::groups::tests::*;

impl World {
    /// A node gives up those whom it does not reach, and suspects.
    pub(super) fn give_up_lost(&mut self, at: usize) {
        if !self.machines[at].is_up {
            return;
        }
        let is_lost = |peer: &usize| {
            let is_there = self.machines[*peer].is_up && self.has_present(at, *peer);
            let is_mutual = is_there && self.has_present(*peer, at) && self.reaches(at, *peer);
            !is_mutual || self.machines[at].suspects(*peer)
        };
        let lost: Vec<usize> = self.machines[at].peers().into_iter().filter(is_lost).collect();
        for peer in &lost {
            let machine = &mut self.machines[at];
            machine.state.view.remove(peer);
            machine.views.remove(peer);
            machine.held_back.remove(peer);
        }
        if !lost.is_empty() {
            self.change_ring(at);
        }
    }

    /// Two nodes meet that reach each other, and that have given each other up.
    pub(super) fn meet(&mut self, one: usize, other: usize) {
        let is_up = self.machines[one].is_up && self.machines[other].is_up;
        let has = |node: usize, peer: &usize| self.machines[node].state.view.contains_key(peer);
        let is_met = has(one, &other) || has(other, &one);
        if one == other || !is_up || is_met || !self.reaches(one, other) {
            return;
        }
        for (node, peer) in [(one, other), (other, one)] {
            let run = self.machines[peer].run;
            self.links.remove(&(node, peer));
            self.machines[node].state.view.insert(peer, run);
            self.machines[node].state.met.insert(peer, run);
        }
        self.change_ring(one);
        self.change_ring(other);
    }

    /// The connection of two nodes is a new one: what was under way is lost, and sent or asked again.
    pub(super) fn renew(&mut self, one: usize, other: usize) {
        let is_mutual = self.has_present(one, other) && self.has_present(other, one);
        if one == other || !is_mutual || !self.machines[one].is_up || !self.machines[other].is_up {
            return;
        }
        self.links.remove(&(one, other));
        self.links.remove(&(other, one));
        for (node, peer) in [(one, other), (other, one)] {
            let view = self.machines[node].state.view.clone();
            self.send(node, peer, Content::Marker { view });
            self.give_unconfirmed(node, peer);
            let round = self.machines[node].round;
            if self.machines[node].state.unmerged.contains(&peer) {
                self.send(node, peer, Content::Ask { round });
            }
            self.tell_source(node, SourceEvent::LinkRenewed(super::id(peer)));
        }
    }

    /// Sends a peer the events that it has not confirmed.
    fn give_unconfirmed(&mut self, node: usize, peer: usize) {
        let machine = &self.machines[node];
        let made = machine.made.values();
        let events: Vec<_> = made
            .filter(|event| !machine.has_confirmed(peer, event.dot))
            .cloned()
            .collect();
        for event in events {
            self.send(node, peer, Content::Event(event));
        }
    }

    /// All nodes give up whom they do not reach, and meet whom they do.
    pub(super) fn detect(&mut self) {
        for _ in 0..2 {
            (0..NODES).for_each(|node| self.give_up_lost(node));
        }
        for one in 0..NODES {
            (one + 1..NODES).for_each(|other| self.meet(one, other));
        }
    }

    /// A node routes by another ring. Parts are lost before the source hears of the runs.
    fn change_ring(&mut self, node: usize) {
        let view = self.machines[node].state.view.clone();
        let runs = self.machines[node].state.runs();
        self.machines[node].ready.clear();
        for place in places() {
            self.tell_source(node, SourceEvent::PartLost(place));
        }
        self.tell_source(node, SourceEvent::RunsChanged(runs));
        for peer in self.machines[node].peers() {
            self.send(node, peer, Content::Marker { view: view.clone() });
        }
        let waits: Vec<Dot> = self.machines[node].waits.keys().copied().collect();
        for dot in waits {
            self.give_event(node, dot);
        }
        self.ask_all(node);
        self.send_held_back(node);
        self.complete_waits(node);
    }

    pub(super) fn crash(&mut self, node: usize) {
        if self.machines[node].is_up {
            self.lose_connections_of(node);
            self.machines[node].is_up = false;
            (0..NODES).for_each(|peer| {
                self.links.remove(&(peer, node));
            });
        }
    }

    pub(super) fn restart(&mut self, node: usize) {
        if !self.machines[node].is_up {
            self.machines[node].restart();
            self.change_ring(node);
        }
    }

    /// Nodes that `node` has for present, if all of them have exactly these for present.
    pub(super) fn closed_side(&self, node: usize) -> Option<Vec<usize>> {
        let view = &self.machines[node].state.view;
        let mut peers = view.keys().map(|peer| &self.machines[*peer]);
        let is_closed = peers.all(|peer| peer.is_up && peer.state.view == *view);
        is_closed.then(|| view.keys().copied().collect())
    }

    /// All nodes are up and see each other.
    pub(super) fn are_all_present(&self) -> bool {
        let is_present = |machine: &super::Machine| machine.is_up && machine.state.view.len() == NODES;
        self.machines.iter().all(is_present) && self.closed_side(0).is_some()
    }

    /// Nothing is under way between nodes that reach each other.
    pub(super) fn is_quiet(&self) -> bool {
        let mut links = self.links.iter();
        links.all(|((from, to), link)| link.is_empty() || !self.reaches(*from, *to))
    }

    /// All nodes see each other, and nothing is under way.
    pub(super) fn is_settled(&self) -> bool {
        let is_whole =
            |machine: &super::Machine| machine.state.unmerged.is_empty() && machine.state.holes().is_empty();
        self.are_all_present()
            && self.machines.iter().all(is_whole)
            && self.links.values().all(VecDeque::is_empty)
    }

    /// A node that is settled drops what does not count.
    pub(super) fn collect(&mut self, node: usize) {
        if !self.is_settled() {
            return;
        }
        for place in places() {
            let copy = &mut self.machines[node].state.copy;
            let Copy { covered, slots } = copy;
            let entries = slots.entry(place.slot).or_default();
            let garbage = entries.garbage(covered, place.group.key().as_bytes());
            entries.drop_garbage(place.group.key(), &garbage);
            for id in garbage {
                let (place, dot) = (place.clone(), id.dot);
                self.tell_source(node, SourceEvent::Removed { place, dot });
            }
        }
    }

    pub(super) fn node_of(run: Run) -> usize {
        index(run.node)
    }
}
