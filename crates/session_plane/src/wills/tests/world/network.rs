//! Network of the world: links, views, and copies that nodes ask each other for.

use super::machine::Copy;
use super::{Content, NODES, Packet, World, index};
use crate::wills::tests::*;

/// Rounds in which all that is under way comes to an end, if the nodes have each other for present.
///
/// Otherwise it may not: a primary owner that has given up a node publishes its wills, and one that has
/// that node for present arms them again.
const ROUNDS_MAX: usize = 60;

impl World {
    /// Messages of one node come to the other.
    pub(super) fn reaches(&self, one: usize, other: usize) -> bool {
        let side = |node: usize| self.side >> node & 1;
        side(one) == side(other)
    }

    /// The node has the present run of the other for present.
    pub(super) fn has_present(&self, node: usize, other: usize) -> bool {
        let present = self.machines[node].state.view.get(&other);
        present == Some(&self.machines[other].run)
    }

    /// Sends a message, unless the receiver is not present any more.
    pub(super) fn send(&mut self, from: usize, to: usize, content: Content) {
        let Some(to_run) = self.machines[from].state.view.get(&to).copied() else {
            return;
        };
        let known = self.machines[from].state.copy.covered.clone();
        let packet = Packet {
            from: self.machines[from].run,
            to: to_run,
            known,
            content,
        };
        self.links.entry((from, to)).or_default().push_back(packet);
    }

    pub(super) fn deliver_each(&mut self) {
        for from in 0..NODES {
            (0..NODES).for_each(|to| self.deliver(from, to));
        }
    }

    pub(super) fn deliver_all(&mut self) {
        let is_open = |world: &World| {
            let mut links = world.links.iter();
            links.any(|((from, to), link)| !link.is_empty() && world.reaches(*from, *to))
        };
        for _ in 0..ROUNDS_MAX {
            if !is_open(self) {
                return;
            }
            self.deliver_each();
        }
    }

    pub(super) fn deliver(&mut self, from: usize, to: usize) {
        if !self.reaches(from, to) {
            return;
        }
        let Some(packet) = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front) else {
            return;
        };
        let machine = &self.machines[to];
        let is_present = machine.state.view.get(&from) == Some(&packet.from);
        if !machine.is_up || machine.run != packet.to || !is_present {
            return;
        }
        self.moment += 1;
        if !matches!(packet.content, Content::Answer { .. }) {
            self.need(to, &packet.known);
        }
        self.receive(from, to, packet.content);
    }

    pub(super) fn receive(&mut self, from: usize, to: usize, content: Content) {
        match content {
            Content::Event(event) => {
                self.apply(to, &event);
                self.send(to, from, Content::EventConfirmed { dot: event.dot });
                self.tell_if_whole(to);
            }
            Content::EventConfirmed { dot } => {
                self.machines[to].confirm(from, dot);
                self.complete_waits(to);
            }
            Content::Ask { round } => {
                let copy = Box::new(self.machines[to].state.copy.clone());
                self.send(to, from, Content::Answer { round, copy });
            }
            Content::Answer { round, copy } => self.take_answer(from, to, round, *copy),
            Content::Route { number, marker } => self.take_route(from, to, number, marker),
            Content::RouteConfirmed { number, marker } => self.confirm_route(from, to, number, marker),
        }
    }

    /// A node hears of events: what it lacks of them is a hole, and it asks for it.
    fn need(&mut self, node: usize, known: &VersionVector) {
        let state = &mut self.machines[node].state;
        let had = state.holes();
        state.needed.unite(known).expect("few intervals");
        if !state.holes().minus(&had).is_empty() {
            self.ask_all(node);
        }
    }

    /// Asks all present nodes for their copies.
    fn ask_all(&mut self, node: usize) {
        let machine = &mut self.machines[node];
        machine.round += 1;
        let round = machine.round;
        machine.state.unmerged = machine.peers().into_iter().collect();
        for peer in self.machines[node].peers() {
            self.send(node, peer, Content::Ask { round });
        }
        self.note_nowhere(node);
        self.tell_copy_changed(node);
    }

    /// What all present nodes have been asked for, and nobody has, is nowhere.
    fn note_nowhere(&mut self, node: usize) {
        let state = &mut self.machines[node].state;
        if state.unmerged.is_empty() {
            state.nowhere = state.needed.minus(&state.copy.covered);
        }
    }

    fn take_answer(&mut self, from: usize, node: usize, round: u64, copy: Copy) {
        let (moment, machine) = (self.moment, &mut self.machines[node]);
        let new = copy.covered.minus(&machine.state.copy.covered).qos2_numbers();
        machine.state.needed.unite(&copy.covered).expect("few intervals");
        machine.state.copy.merge(copy);
        for interval in new.intervals() {
            machine.heard.entry(interval.first()).or_insert(moment);
            machine.heard.entry(interval.last()).or_insert(moment);
        }
        if machine.round == round {
            machine.state.unmerged.remove(&from);
        }
        self.note_nowhere(node);
        self.tell_copy_changed(node);
    }

    fn tell_copy_changed(&mut self, node: usize) {
        let slots: BTreeSet<Slot> = (0..super::CLIENTS)
            .map(|client| Slot::of_client(client_id(client).as_bytes()))
            .collect();
        for slot in slots {
            self.tell_wills(node, WillsEvent::CopyChanged { slot });
        }
    }

    /// An event may have closed a hole.
    fn tell_if_whole(&mut self, node: usize) {
        if self.machines[node].state.holes().is_empty() {
            self.tell_copy_changed(node);
        }
    }

    /// Tells what all present nodes have now.
    pub(super) fn complete_waits(&mut self, node: usize) {
        let machine = &self.machines[node];
        let durables = machine.durables.iter().copied();
        let durable: Vec<Dot> = durables.filter(|dot| machine.has_reached_all(*dot)).collect();
        for dot in durable {
            self.machines[node].durables.remove(&dot);
            self.tell_wills(node, WillsEvent::Durable(dot));
        }
        while let Some((number, wait)) = self.machines[node].take_completed() {
            self.machines[node].waited.insert(number, wait.since);
            let (entry, marker) = (wait.entry, wait.marker);
            let stored = PublishingEvent::Stored {
                number,
                entry,
                marker,
            };
            self.tell_publishing(node, stored);
        }
    }

    /// A node gives up those whom it does not reach.
    pub(super) fn give_up_lost(&mut self, at: usize) {
        if !self.machines[at].is_up {
            return;
        }
        let is_lost = |peer: &usize| {
            let is_there = self.machines[*peer].is_up && self.has_present(at, *peer);
            !(is_there && self.has_present(*peer, at) && self.reaches(at, *peer))
        };
        let lost: Vec<usize> = self.machines[at].peers().into_iter().filter(is_lost).collect();
        for peer in &lost {
            self.machines[at].state.view.remove(peer);
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

    /// All nodes give up whom they do not reach, and meet whom they do.
    pub(super) fn detect(&mut self) {
        for _ in 0..2 {
            (0..NODES).for_each(|node| self.give_up_lost(node));
        }
        for one in 0..NODES {
            (one + 1..NODES).for_each(|other| self.meet(one, other));
        }
    }

    /// A node routes by another ring.
    fn change_ring(&mut self, node: usize) {
        let machine = &mut self.machines[node];
        machine.marker += 1;
        let (marker, nodes) = (machine.marker, machine.state.nodes());
        for dot in machine.durables.clone() {
            self.give(node, dot);
        }
        self.ask_all(node);
        self.tell_wills(node, WillsEvent::RingChanged);
        self.tell_publishing(node, PublishingEvent::RingChanged { marker, nodes });
        self.tell_publishing(node, PublishingEvent::RoutesMerged(true));
        self.complete_waits(node);
    }

    pub(super) fn crash(&mut self, node: usize) {
        if self.machines[node].is_up {
            self.lose_connections_of(node);
            self.machines[node].is_up = false;
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

    /// Nodes that `node` has for present and reaches, if all of them have exactly these for present: nodes
    /// that have crashed do not count.
    pub(super) fn living_side(&self, node: usize) -> Option<Vec<usize>> {
        let living = |of: usize| -> BTreeSet<usize> {
            let view = self.machines[of].state.view.keys().copied();
            let is_there = |peer: &usize| self.machines[*peer].is_up && self.has_present(of, *peer);
            view.filter(|peer| is_there(peer) && self.reaches(of, *peer))
                .collect()
        };
        let side = living(node);
        let is_closed = side.iter().all(|peer| living(*peer) == side);
        is_closed.then(|| side.into_iter().collect())
    }

    /// All nodes see each other, and nothing is under way.
    pub(super) fn is_settled(&self) -> bool {
        let mut machines = self.machines.iter();
        let is_quiet = |machine: &super::Machine| {
            let is_whole = machine.state.view.len() == NODES && machine.state.unmerged.is_empty();
            machine.is_up && is_whole && machine.wills.firing() == 0
        };
        machines.all(is_quiet) && self.closed_side(0).is_some() && self.links.values().all(VecDeque::is_empty)
    }

    pub(super) fn index_of(run: Run) -> usize {
        index(run.node)
    }
}
