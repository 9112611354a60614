//! Sending events, and waiting until they are confirmed (section 3 of the specification).

use std::rc::Rc;

use super::waiting::{Awaited, Wait};
use super::{Node, Step};
use crate::event::{Change, Event};
use crate::ids::{Dot, MAPS, NODES, NodeId, NodeSet, Numbers, Run, Slot, SlotSet};
use crate::message::{Heartbeat, Message};

/// The node's own events and who has confirmed them.
#[derive(Clone, Debug)]
pub struct Sender {
    pub run: Run,
    number: u8,
    pub events: Vec<Event>,
    /// Numbers that each present peer is sent as owner of a slot.
    sent: [[Numbers; NODES]; MAPS],
    confirmed: [u8; NODES],
    /// Numbers that each node has on its disk as owner of a slot; a node that is gone counts.
    held: [[Numbers; NODES]; MAPS],
    pub(super) waits: Vec<Wait>,
}

impl Sender {
    pub fn new(run: Run) -> Sender {
        Sender {
            run,
            number: 0,
            events: Vec::new(),
            sent: [[Numbers::EMPTY; NODES]; MAPS],
            confirmed: [0; NODES],
            held: [[Numbers::EMPTY; NODES]; MAPS],
            waits: Vec::new(),
        }
    }

    /// Highest number so far.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Dot that the next event gets.
    pub fn next_dot(&self) -> Dot {
        Dot {
            run: self.run,
            number: self.number + 1,
        }
    }

    pub fn find(&self, dot: Dot) -> Option<&Event> {
        self.events.iter().find(|event| event.dot == dot)
    }

    /// Events of this run up to `dot`, in ascending order.
    pub fn up_to(&self, dot: Dot) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.dot <= dot)
    }

    /// Takes that `peer` has everything up to `number` on its disk.
    pub fn confirm(&mut self, peer: NodeId, number: u8) {
        if number <= self.confirmed[peer.index()] {
            return;
        }
        self.confirmed[peer.index()] = number;
        for slot in 0..MAPS {
            let confirmed = self.sent[slot][peer.index()].and(Numbers::up_to(number));
            self.held[slot][peer.index()].add(confirmed);
        }
    }

    /// Takes that `owner` has `numbers` of `slot` on its disk.
    pub fn add_copy(&mut self, slot: Slot, owner: NodeId, numbers: Numbers) {
        self.held[slot.index()][owner.index()].add(numbers);
    }

    /// `peer` has everything up to `number` on its disk.
    pub fn has_reached(&self, peer: NodeId, number: u8) -> bool {
        self.confirmed[peer.index()] >= number
    }

    /// At least `copies` owners of `slot` have `number`.
    pub fn has_copies(&self, slot: Slot, number: u8, copies: usize) -> bool {
        let held = &self.held[slot.index()];
        held.iter().filter(|held| held.has(number)).count() >= copies
    }

    /// `peer` was sent `number` as an owner of `slot`, and has it on its disk.
    pub fn has_confirmed(&self, slot: Slot, peer: NodeId, number: u8) -> bool {
        self.sent[slot.index()][peer.index()].has(number) && self.has_reached(peer, number)
    }

    /// Begins a stream to `peer` anew.
    pub fn meet(&mut self, peer: NodeId) {
        self.confirmed[peer.index()] = 0;
        for slot in &mut self.sent {
            slot[peer.index()] = Numbers::EMPTY;
        }
    }

    /// Ends the stream to `peer`; what it has confirmed stays confirmed.
    pub fn part(&mut self, peer: NodeId) {
        let confirmed = Numbers::up_to(self.confirmed[peer.index()]);
        for slot in 0..MAPS {
            let sent = std::mem::take(&mut self.sent[slot][peer.index()]);
            self.held[slot][peer.index()].add(sent.and(confirmed));
        }
    }

    /// Own numbers that fewer than `copies` owners of `slot` have confirmed.
    pub fn unconfirmed(&self, slot: Slot, copies: usize) -> Numbers {
        Numbers::up_to(self.number).minus(Numbers::in_at_least(copies, &self.held[slot.index()]))
    }

    /// Own numbers for `slot` that fewer than `copies` owners have confirmed or, of the present ones, are being sent.
    fn unsent(&self, slot: Slot, peers: NodeSet, copies: usize) -> Numbers {
        let mut expected = self.held[slot.index()];
        for peer in peers.iter() {
            expected[peer.index()].add(self.sent[slot.index()][peer.index()]);
        }
        Numbers::up_to(self.number).minus(Numbers::in_at_least(copies, &expected))
    }

    /// Own events among `numbers` that are for `slot`.
    pub fn events_for(&self, slot: Slot, numbers: Numbers) -> Vec<Event> {
        let is_wanted = |event: &&Event| event.is_for(slot) && numbers.has(event.dot.number);
        self.events.iter().filter(is_wanted).cloned().collect()
    }

    /// Highest number that all of `peers` have confirmed.
    fn stable(&self, peers: NodeSet) -> u8 {
        let confirmed = peers.iter().map(|peer| self.confirmed[peer.index()]);
        confirmed.min().unwrap_or(self.number)
    }
}

impl Node {
    /// Makes an event and sends it to the owners of its slots; a ring marker goes to all peers, to `welcomed` as the begin
    /// of a stream.
    pub(super) fn emit(
        &mut self,
        step: &mut Step<'_>,
        change: Change,
        slots: SlotSet,
        welcomed: Option<NodeId>,
    ) -> Dot {
        self.clock = self.next_clock(step);
        let dot = self.sender.next_dot();
        self.sender.number = dot.number;
        let event = Event {
            dot,
            clock: self.clock,
            slots,
            change,
            known: Rc::new(self.knowledge(step)),
        };
        self.record_receivers(&event, welcomed);
        for peer in self.receivers_of(&event).iter() {
            let message = if Some(peer) == welcomed {
                Message::Welcome(event.clone())
            } else {
                Message::Event(event.clone())
            };
            step.send(peer, message);
        }
        self.sender.events.push(event.clone());
        self.advance(step, dot.run, dot.number, Some(&event));
        dot
    }

    /// Peers that `event` itself is sent to; the others learn its number from a position.
    fn receivers_of(&self, event: &Event) -> NodeSet {
        if matches!(event.change, Change::RingMarker(_)) {
            return self.membership.peers();
        }
        self.owners_of(event.slots)
    }

    /// Present peers that own one of `slots`.
    pub(super) fn owners_of(&self, slots: SlotSet) -> NodeSet {
        let ring = self.ring();
        let owners = Slot::all()
            .filter(|slot| slots.has(*slot))
            .map(|slot| ring.owners(slot));
        owners
            .fold(NodeSet::EMPTY, NodeSet::union)
            .and(self.membership.peers())
    }

    /// Notes who gets the number as an owner of each slot, whether or not the event is for that slot.
    fn record_receivers(&mut self, event: &Event, welcomed: Option<NodeId>) {
        let (ring, number) = (self.ring(), Numbers::one(event.dot.number));
        for slot in Slot::all() {
            let owners = ring.owners(slot);
            let streams = owners.and(self.membership.peers());
            for peer in streams.iter().filter(|peer| Some(*peer) != welcomed) {
                self.sender.sent[slot.index()][peer.index()].add(number);
            }
            if owners.has(self.id) {
                self.sender.add_copy(slot, self.id, number);
            }
        }
    }

    /// Makes an event and says `awaited` when it is durable at all present owners.
    pub(super) fn emit_and_wait(
        &mut self,
        step: &mut Step<'_>,
        change: Change,
        slots: SlotSet,
        awaited: Awaited,
    ) -> Dot {
        let peers = self.owners_of(slots);
        let dot = self.emit(step, change, slots, None);
        self.sender.wait_for(dot.number, slots, peers, awaited);
        dot
    }

    pub(super) fn send_heartbeats(&mut self, step: &mut Step<'_>) {
        let peers = self.membership.peers();
        let known = Rc::new(self.knowledge(step));
        let settled = self.tell_settled();
        let stable = self.sender.stable(peers);
        for peer in self.membership.answered_peers().iter() {
            let Some(run) = self.membership.run_of(peer) else {
                continue;
            };
            self.membership.answer(peer, step.now);
            let heartbeat = Heartbeat {
                position: self.sender.number,
                confirmed: self.receiver.taken(run),
                stable,
                clock: self.clock,
                known: Rc::clone(&known),
                settled: Rc::clone(&settled),
            };
            step.send(peer, Message::Heartbeat(heartbeat));
        }
    }

    /// Sends what too few owners have confirmed, or are being sent, to the owners of the new ring that lack it.
    pub(super) fn resend_unconfirmed(&mut self, step: &mut Step<'_>) {
        let (ring, peers, copies) = (self.ring(), self.membership.peers(), step.copies_min());
        for slot in Slot::all() {
            let unsent = self.sender.unsent(slot, peers, copies);
            for owner in ring.owners(slot).iter() {
                let numbers = unsent.minus(self.sender.held[slot.index()][owner.index()]);
                if numbers.is_empty() {
                    continue;
                }
                step.counters.resent += 1;
                let events = self.sender.events_for(slot, numbers);
                self.give(step, slot, NodeSet::one(owner), numbers, &events);
                if owner == self.id {
                    self.sender.add_copy(slot, owner, numbers);
                }
            }
        }
    }

    /// Gives own events under their dots to owners of a slot, outside of the stream's order.
    pub(super) fn give(
        &mut self,
        step: &mut Step<'_>,
        slot: Slot,
        owners: NodeSet,
        numbers: Numbers,
        events: &[Event],
    ) {
        for owner in owners.iter() {
            if owner == self.id {
                self.take_resent(step, slot, self.sender.run, numbers, events);
            } else {
                let events = events.to_vec();
                step.send(
                    owner,
                    Message::Resend {
                        slot,
                        numbers,
                        events,
                    },
                );
            }
        }
    }

    /// Takes events that come outside of their stream's order.
    pub(super) fn take_resent(
        &mut self,
        step: &mut Step<'_>,
        slot: Slot,
        run: Run,
        numbers: Numbers,
        events: &[Event],
    ) {
        self.take(slot, run, numbers);
        for event in events {
            self.see_clock(event);
            if run != self.sender.run {
                self.need_everywhere(step, &event.known);
            }
            self.apply(step, slot, event);
        }
        self.try_claim(step, slot);
    }
}
