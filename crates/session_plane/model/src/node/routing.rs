//! QoS 2 from a client, second half: its message is routed under its number (section 7 of the specification).
//!
//! The number goes to every present node, so that each owner covers it for its slots; the content goes where it matches. PUBREC
//! follows when all present nodes have confirmed and each matched slot has an owner's confirmation. A hole of such a number is
//! filled from a packet id that counts, at the node itself or at another one.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::publishing::Ready;
use super::{Node, Observation, Phase, Step};
use crate::copy;
use crate::event::{Change, Entry, EntryKind, Event};
use crate::ids::{ClientId, Dot, EventSet, NodeId, NodeSet, Numbers, SLOTS, Slot, SlotSet};
use crate::message::Message;
use crate::rules::Rule;

/// Ticks that a hole of a number stands before the node fills it from its own copies.
const FILL_AFTER: u32 = 6;

/// A message on its way to all nodes.
#[derive(Clone, Debug)]
struct OnTheWay {
    event: Event,
    ready: Ready,
    /// Peers that have not confirmed it.
    peers: NodeSet,
    /// Owners of each slot that have it.
    owners: [NodeSet; SLOTS],
}

/// QoS 2 messages that this node routes.
#[derive(Clone, Debug, Default)]
pub struct Routing {
    on_the_way: Vec<OnTheWay>,
    done: BTreeSet<Dot>,
}

impl Routing {
    pub(super) fn is_done(&self, number: Dot) -> bool {
        self.done.contains(&number)
    }

    pub(super) fn is_on_the_way(&self, number: Dot) -> bool {
        let mut messages = self.on_the_way.iter();
        messages.any(|message| message.event.dot == number)
    }

    fn find_mut(&mut self, number: Dot) -> Option<&mut OnTheWay> {
        let mut messages = self.on_the_way.iter_mut();
        messages.find(|message| message.event.dot == number)
    }
}

impl Node {
    /// Routes what may be routed, in the order of the numbers, and sends PUBREC for what all have confirmed.
    pub(super) fn tick_routing(&mut self, step: &mut Step<'_>) {
        let mut ready = std::mem::take(&mut self.publishing.ready);
        ready.sort_by_key(|ready| ready.number);
        for ready in ready {
            self.try_route(step, ready);
        }
        let peers = self.membership.peers();
        for message in std::mem::take(&mut self.routing.on_the_way) {
            let mut matched = Slot::of_sessions().filter(|slot| message.event.is_for(*slot));
            let is_taken = matched.all(|slot| message.owners[slot.index()].len() >= step.copies_min());
            if message.peers.and(peers).is_empty() && is_taken {
                self.routing.done.insert(message.event.dot);
                self.complete_route(step, &message.ready);
            } else {
                self.routing.on_the_way.push(message);
            }
        }
    }

    fn try_route(&mut self, step: &mut Step<'_>, ready: Ready) {
        let number = ready.number;
        if let Some(message) = self.routing.find_mut(number) {
            message.ready.connection = ready.connection;
            return;
        }
        if self.routing.done.contains(&number) {
            self.complete_route(step, &ready);
            return;
        }
        let is_own = number.run == self.sender.run.of_numbers();
        if self.is_void(step, &ready.entry) || is_own && self.is_given_up(step, &ready) {
            if is_own {
                self.publishing.release(number);
            }
            return;
        }
        let waits = is_own && step.holds(Rule::NumbersInOrder) && self.publishing.has_lower(number);
        if waits || !self.routes_are_merged(step) {
            self.publishing.ready.push(ready);
            return;
        }
        let holders = match is_own {
            true => self.publishing.release(number).and(self.membership.view.present),
            false => NodeSet::EMPTY,
        };
        step.observe(Observation::Routed { number, holders });
        if let Some(will) = ready.entry.will {
            let content = will.content;
            step.observe(Observation::WillRouted { content, number });
        }
        self.begin_route(step, ready);
    }

    /// The connection that the number was reserved for has ended, and no other one asks.
    fn is_given_up(&self, step: &Step<'_>, ready: &Ready) -> bool {
        let Some(origin) = self.publishing.connection_of(ready.number) else {
            return false;
        };
        let is_open = self
            .connection(origin)
            .is_some_and(|connection| connection.phase != Phase::Closing);
        step.holds(Rule::OpenConnection) && !is_open && ready.connection == Some(origin)
    }

    fn begin_route(&mut self, step: &mut Step<'_>, ready: Ready) {
        let event = Event {
            dot: ready.number,
            clock: ready.entry.clock,
            slots: self.matched_slots(step),
            change: Change::Publish,
            known: Rc::new(self.knowledge(step)),
        };
        step.trace(|| format!("  node {} routes {:?}", self.id.0, event.dot));
        self.routing.on_the_way.push(OnTheWay {
            event,
            ready,
            peers: NodeSet::EMPTY,
            owners: [NodeSet::EMPTY; SLOTS],
        });
        self.send_route(step, self.routing.on_the_way.len() - 1);
    }

    /// Sends what is on the way to all nodes of the new ring.
    pub(super) fn route_again(&mut self, step: &mut Step<'_>) {
        for index in 0..self.routing.on_the_way.len() {
            if step.holds(Rule::RouteAgain) {
                self.send_route(step, index);
            }
        }
    }

    fn send_route(&mut self, step: &mut Step<'_>, index: usize) {
        let event = self.routing.on_the_way[index].event.clone();
        let (ring, peers) = (self.ring(), self.membership.peers());
        self.routing.on_the_way[index].peers = peers;
        for slot in ring.slots_of(self.id) {
            self.take_number(step, slot, &event);
            if let Some(owners) = self.routing.on_the_way[index].owners.get_mut(slot.index()) {
                owners.insert(self.id);
            }
        }
        for peer in peers.iter() {
            step.send(peer, Message::Route(event.clone()));
        }
        self.claim_all(step);
    }

    /// Covers a number for a slot, and takes its message if it matches there.
    fn take_number(&mut self, step: &mut Step<'_>, slot: Slot, event: &Event) {
        self.take(slot, event.dot.run, Numbers::one(event.dot.number));
        if event.is_for(slot) {
            self.apply(step, slot, event);
        }
    }

    pub(super) fn receive_route(&mut self, step: &mut Step<'_>, from: NodeId, event: &Event) {
        let ring = self.ring_of(from);
        let Some(ring) = ring else { return };
        for slot in ring.slots_of(self.id) {
            self.take_number(step, slot, event);
        }
        self.need_everywhere(step, &event.known);
        self.claim_all(step);
        step.send(from, Message::ConfirmRoute { number: event.dot });
    }

    pub(super) fn receive_route_confirmed(&mut self, from: NodeId, number: Dot) {
        let ring = self.ring();
        if let Some(message) = self.routing.find_mut(number) {
            message.peers.remove(from);
            for slot in Slot::of_sessions().filter(|slot| ring.owns(from, *slot)) {
                message.owners[slot.index()].insert(from);
            }
        }
    }

    /// All present nodes have the message.
    fn complete_route(&self, step: &mut Step<'_>, ready: &Ready) {
        if let Some(will) = ready.entry.will {
            let (content, number) = (will.content, ready.number);
            step.observe(Observation::WillPublished { content, number });
        }
        let (Some(received), Some(connection)) = (ready.entry.received, ready.connection) else {
            return;
        };
        let content = received.message.map_or(0, |message| message.content);
        if self.is_live(connection) {
            step.observe(Observation::PubRec {
                client: ready.entry.client,
                connection,
                packet_id: received.packet_id,
                content,
            });
        }
    }

    /// Slots of sessions that a message matches by this node's routes.
    pub(super) fn matched_slots(&self, step: &Step<'_>) -> SlotSet {
        let Some(routes) = self.copy(Slot::ROUTES) else {
            return SlotSet::EMPTY;
        };
        let live = routes.content.live(step.rules);
        let matched = live
            .iter()
            .filter(|entry| matches!(entry.kind, EntryKind::Subscription | EntryKind::Member));
        matched.fold(SlotSet::EMPTY, |slots, entry| {
            slots.with(step.directory.slot(entry.client))
        })
    }

    // Filling holes.

    /// Packet ids that count in this node's owned copies that have merged.
    fn counting(&self, step: &Step<'_>) -> Vec<Entry> {
        let any = !step.holds(Rule::FillFromMerged);
        let mut counting = Vec::new();
        for client in ClientId::all() {
            let copy = self.copy(step.directory.slot(client));
            let Some(copy) = copy.filter(|copy| copy.owned && (any || copy.has_merged)) else {
                continue;
            };
            let live = copy.content.live(step.rules);
            let wills = live
                .iter()
                .filter(|entry| entry.client == client && entry.will.is_some());
            counting.extend(wills);
            counting.extend(copy::received(step.rules, &live, client));
        }
        counting
    }

    /// Messages for an asker that lacks `lacking` of the copy of `slot`: what is on the way, and what packet ids say.
    pub(super) fn numbers_for(&self, step: &Step<'_>, slot: Slot, lacking: &EventSet) -> Vec<Event> {
        let copies = step.copies_min();
        let is_untaken = |message: &&OnTheWay| {
            let owners = message.owners.get(slot.index());
            owners.is_none_or(|owners| owners.len() < copies)
        };
        let on_the_way = self.routing.on_the_way.iter().filter(is_untaken);
        let mut events: Vec<Event> = on_the_way.map(|message| message.event.clone()).collect();
        if step.holds(Rule::FillFromReceived) {
            let filling = self
                .counting(step)
                .into_iter()
                .filter_map(|entry| fill(&entry, slot));
            events.extend(filling.filter(|event| lacking.has(event.dot)));
        }
        events
    }

    /// All owned copies of sessions have merged.
    pub(super) fn has_merged_all(&self) -> bool {
        let mut sessions = Slot::of_sessions().filter_map(|slot| self.copy(slot));
        sessions.all(|copy| !copy.owned || copy.has_merged)
    }

    /// Fills holes of numbers that stand for a while from this node's own packet ids.
    pub(super) fn fill_holes(&mut self, step: &mut Step<'_>, slot: Slot) {
        let Some(copy) = self.copy(slot).filter(|copy| copy.is_merged()) else {
            return;
        };
        let stands = copy.hole_since.is_some_and(|since| step.now - since > FILL_AFTER);
        if !stands || !step.holds(Rule::FillFromReceived) {
            return;
        }
        let lacking = copy.content.holes().of_numbers();
        let entries = self.counting(step);
        for event in entries.iter().filter_map(|entry| fill(entry, slot)) {
            if lacking.has(event.dot) {
                step.counters.filled += 1;
                self.take_number(step, slot, &event);
            }
        }
        self.try_claim(step, slot);
    }
}

/// Message of a packet id, as an event for `slot`.
fn fill(entry: &Entry, slot: Slot) -> Option<Event> {
    let message = entry.numbered()?;
    let slots = if slot == Slot::ROUTES {
        SlotSet::EMPTY
    } else {
        SlotSet::one(slot)
    };
    Some(Event {
        dot: message.number,
        clock: entry.clock,
        slots,
        change: Change::Publish,
        known: Rc::default(),
    })
}
