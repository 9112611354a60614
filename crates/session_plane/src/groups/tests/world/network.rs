//! Network of the world: links, views, and copies that nodes ask each other for.

use super::machine::Copy;
use super::{Content, NODES, Packet, Wait, World, places};
use crate::VersionVector;
use crate::groups::tests::*;

/// Rounds in which all that is under way comes to an end, if the nodes have each other for present.
const ROUNDS_MAX: usize = 60;

impl World {
    /// Messages of one node come to the other.
    pub(super) fn reaches(&self, one: usize, other: usize) -> bool {
        !self.cut.contains(&(one.min(other), one.max(other)))
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
            clock: self.machines[from].clock,
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
        let machine = &mut self.machines[to];
        let is_present = machine.state.view.get(&from) == Some(&packet.from);
        if !machine.is_up || machine.run != packet.to || !is_present {
            return;
        }
        machine.clock = machine.clock.max(packet.clock);
        self.moment += 1;
        match &packet.content {
            Content::Answer { .. } => {}
            Content::Event(event) => {
                let one = crate::Interval::one(event.dot).expect("an event has a number");
                let mut itself = VersionVector::default();
                itself.insert(one).expect("few intervals");
                self.need(to, &packet.known.minus(&itself));
            }
            _ => self.need(to, &packet.known),
        }
        self.receive(from, to, packet.content);
    }

    fn receive(&mut self, from: usize, to: usize, content: Content) {
        match content {
            Content::Event(event) => {
                self.apply(to, &event);
                self.confirm_to(to, from, event.dot);
                self.tell_if_ready(to);
            }
            Content::EventConfirmed { dot } => {
                self.machines[to].confirm(from, dot);
                self.complete_waits(to);
            }
            Content::Marker { view } => {
                self.machines[to].views.insert(from, view);
                self.send_held_back(to);
            }
            Content::Ask { round } => {
                let copy = Box::new(self.machines[to].state.copy.clone());
                self.send(to, from, Content::Answer { round, copy });
            }
            Content::Answer { round, copy } => self.take_answer(from, to, round, *copy),
            Content::Give(give) => self.tell_sink(
                to,
                SinkEvent::Given {
                    from: super::id(from),
                    give,
                },
            ),
        }
    }

    /// Confirms an event, unless its sender is suspected.
    fn confirm_to(&mut self, node: usize, to: usize, dot: Dot) {
        self.machines[node].held_back.entry(to).or_default().insert(dot);
        self.send_held_back(node);
    }

    pub(super) fn send_held_back(&mut self, node: usize) {
        for to in self.machines[node].peers() {
            if self.machines[node].suspects(to) {
                continue;
            }
            for dot in self.machines[node].held_back.remove(&to).unwrap_or_default() {
                self.send(node, to, Content::EventConfirmed { dot });
            }
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
    pub(super) fn ask_all(&mut self, node: usize) {
        let machine = &mut self.machines[node];
        machine.round += 1;
        machine.state.unmerged = machine.peers().into_iter().collect();
        self.ask_unmerged(node);
        self.note_nowhere(node);
        self.tell_parts(node);
    }

    fn ask_unmerged(&mut self, node: usize) {
        let round = self.machines[node].round;
        for peer in self.machines[node].state.unmerged.clone() {
            self.send(node, peer, Content::Ask { round });
        }
    }

    /// What all present nodes have been asked for, and nobody has, is nowhere.
    fn note_nowhere(&mut self, node: usize) {
        let state = &mut self.machines[node].state;
        if state.unmerged.is_empty() {
            state.nowhere = state.needed.minus(&state.copy.covered);
        }
    }

    fn take_answer(&mut self, from: usize, node: usize, round: u64, copy: Copy) {
        self.absorb(node, copy);
        if self.machines[node].round == round {
            self.machines[node].state.unmerged.remove(&from);
        }
        self.note_nowhere(node);
        self.tell_parts(node);
    }

    /// A node has what another one has.
    pub(super) fn absorb(&mut self, node: usize, copy: Copy) {
        let state = &mut self.machines[node].state;
        state.needed.unite(&copy.covered).expect("few intervals");
        state.copy.merge(copy);
        self.tell_joined(node);
    }

    /// Tells the source which parts this node decides about; those are read anew.
    pub(super) fn tell_parts(&mut self, node: usize) {
        let before = std::mem::take(&mut self.machines[node].ready);
        for place in places() {
            let slot = place.slot;
            if self.machines[node].state.decides(slot) {
                self.machines[node].ready.insert(slot);
                self.tell_source(node, SourceEvent::PartReady(place));
            } else if before.contains(&slot) {
                self.tell_source(node, SourceEvent::PartLost(place));
            }
        }
    }

    /// An event may have closed a hole.
    fn tell_if_ready(&mut self, node: usize) {
        let is_new = |place: &GroupPlace| {
            let machine = &self.machines[node];
            machine.state.decides(place.slot) && !machine.ready.contains(&place.slot)
        };
        if places().any(|place| is_new(&place)) {
            self.tell_parts(node);
        }
    }

    /// Tells what all present nodes have now.
    pub(super) fn complete_waits(&mut self, node: usize) {
        while let Some((dot, wait)) = self.machines[node].take_completed() {
            match wait {
                Wait::Assignment { place, message } => self.tell_source(
                    node,
                    SourceEvent::Known {
                        place,
                        message,
                        assignment: dot,
                    },
                ),
                Wait::Acknowledgement {
                    connection,
                    group,
                    message,
                } => {
                    self.note_acknowledged(node, message, dot);
                    let given = self.machines[node].sink.given();
                    self.tell_sink(
                        node,
                        SinkEvent::AcknowledgementKnown {
                            connection,
                            group,
                            message,
                        },
                    );
                    if self.machines[node].sink.given() < given {
                        self.note_completed(message);
                    }
                }
            }
        }
    }
}
