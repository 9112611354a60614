//! QoS 2 to a client: packet ids and stages of its messages (section 7 of the specification).
//!
//! The packet id is at the owners before the PUBLISH leaves, and the stage "released" before the PUBREL leaves. So the next node
//! of the session goes on where this one ends: with the same packet id, and without a second PUBLISH behind PUBREC. A node that
//! goes on with a packet id writes it anew first, since a single owner may have been left with it.

use std::collections::BTreeSet;

use super::known_session::birth_of;
use super::{Awaited, Node, Observation, Packet, Stage, Step};
use crate::copy;
use crate::event::{Change, Delivery, Entry};
use crate::ids::{ClientId, Dot, NodeSet, SlotSet};
use crate::message::Queue;
use crate::rules::Rule;

/// Packet ids that a client is sent messages under at once.
const PACKET_IDS: u8 = 2;

/// Where a message stands between this node and its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    /// The stage is on its way to the owners.
    Storing,
    /// The client was told.
    Told,
    /// The client has answered.
    Answered,
}

/// A QoS 2 message on its way to a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    message: Dot,
    /// Entry of the stage.
    entry: Dot,
    /// Owners that are sent the entry, this node among them if it is one.
    holders: NodeSet,
    is_released: bool,
    progress: Progress,
}

impl super::Connection {
    /// The client answers with PUBREC or PUBCOMP.
    pub fn take_answer_of_client(&mut self, packet_id: u8) {
        if let Some(in_flight) = self.in_flight.get_mut(&packet_id) {
            in_flight.progress = Progress::Answered;
        }
    }

    /// This connection itself is delivering under the packet id, or the message under another.
    fn is_delivering(&self, delivery: &Delivery) -> bool {
        let mut in_flight = self.in_flight.iter();
        in_flight.any(|(id, own)| *id == delivery.packet_id || own.message == delivery.message)
    }
}

impl Node {
    /// Gives packet ids to messages of the queue that have none, and goes on with those that have one.
    pub(super) fn begin_deliveries(&mut self, step: &mut Step<'_>, dot: Dot, queue: &Queue) {
        let Some(connection) = self.connection(dot) else {
            return;
        };
        let is_new = |message: &&Dot| !connection.sent.contains(message);
        let new: Vec<Dot> = queue.messages.iter().filter(is_new).copied().collect();
        let known = self.known_deliveries(step, dot, connection.client, queue);
        let is_gone = |delivery: &&Delivery| {
            let is_removed = queue.has_removed(connection.client, delivery.message);
            is_removed && !connection.is_delivering(delivery)
        };
        let gone = known.iter().filter(is_gone);
        for delivery in gone.copied().collect::<Vec<Delivery>>() {
            self.release_gone(step, dot, delivery);
        }
        for message in new {
            self.begin_delivery(step, dot, message, &known);
        }
    }

    /// Goes on with PUBREL: the message is gone, and the client may still have its packet id.
    fn release_gone(&mut self, step: &mut Step<'_>, dot: Dot, delivery: Delivery) {
        let delivery = Delivery {
            connection_clock: self.connection_clock(dot),
            is_released: true,
            ..delivery
        };
        if let Some(connection) = self.connection_mut(dot) {
            connection.sent.insert(delivery.message);
        }
        step.counters.gone += 1;
        self.store_delivery(step, dot, delivery, true);
    }

    fn begin_delivery(&mut self, step: &mut Step<'_>, dot: Dot, message: Dot, known: &[Delivery]) {
        let resumed = known.iter().find(|delivery| delivery.message == message);
        let own = resumed.map(|delivery| delivery.packet_id);
        let Some(packet_id) = own.or_else(|| self.free_packet_id(dot, known)) else {
            return;
        };
        let delivery = Delivery {
            packet_id,
            connection_clock: self.connection_clock(dot),
            message,
            is_released: resumed.is_some_and(|delivery| delivery.is_released),
        };
        if let Some(connection) = self.connection_mut(dot) {
            connection.sent.insert(message);
        }
        self.store_delivery(step, dot, delivery, resumed.is_some());
    }

    /// Packet ids that messages have, also such that are gone.
    fn known_deliveries(&self, step: &Step<'_>, dot: Dot, client: ClientId, queue: &Queue) -> Vec<Delivery> {
        let mut live = copy::live(step.rules, &self.seen(step, dot), |_, _| false);
        live.retain(|entry| !queue.has_removed(client, entry.dot));
        let counting = copy::delivering(step.rules, &live, client);
        let deliveries = counting.iter().filter_map(|entry| entry.delivery);
        let is_in_use =
            |delivery: &Delivery| queue.messages.contains(&delivery.message) || step.holds(Rule::ReleaseGone);
        deliveries.filter(is_in_use).collect()
    }

    /// Lowest packet id that no message uses.
    fn free_packet_id(&self, dot: Dot, known: &[Delivery]) -> Option<u8> {
        let connection = self.connection(dot)?;
        let is_known = |id: u8| known.iter().any(|delivery| delivery.packet_id == id);
        (1..=PACKET_IDS).find(|id| !connection.in_flight.contains_key(id) && !is_known(*id))
    }

    /// Writes the stage of a packet id, in place of all entries of it and of its message that the node has seen.
    fn store_delivery(&mut self, step: &mut Step<'_>, dot: Dot, delivery: Delivery, is_resumed: bool) {
        let Some(client) = self.live_client(dot) else {
            return;
        };
        let seen = self.seen(step, dot);
        let Some(birth) = birth_of(step, &seen) else {
            return;
        };
        let change = Change::Deliver {
            client,
            birth,
            delivery,
            removes: entries_of(&seen, &delivery),
        };
        let slot = step.directory.slot(client);
        let (slots, holders) = (SlotSet::one(slot), self.ring().owners(slot));
        let awaited = Awaited::DeliveryStored {
            connection: dot,
            packet_id: delivery.packet_id,
        };
        let entry = self.emit_and_wait(step, change, slots, awaited);
        self.remember(dot, entry);
        if let Some(connection) = self.connection_mut(dot) {
            let in_flight = InFlight {
                message: delivery.message,
                entry,
                holders,
                is_released: delivery.is_released,
                progress: Progress::Storing,
            };
            connection.in_flight.insert(delivery.packet_id, in_flight);
        }
        let waits = step.holds(Rule::StageFirst) && (!is_resumed || step.holds(Rule::StageAnew));
        if !waits {
            self.delivery_stored(step, dot, delivery.packet_id, entry);
        }
    }

    /// The stage is at the owners: the client is told.
    pub(super) fn delivery_stored(&mut self, step: &mut Step<'_>, dot: Dot, packet_id: u8, entry: Dot) {
        let Some(client) = self.live_client(dot) else {
            return;
        };
        let present = self.membership.view.present;
        let Some(connection) = self.connection_mut(dot) else {
            return;
        };
        let is_stored =
            |in_flight: &&mut InFlight| in_flight.entry == entry && in_flight.progress == Progress::Storing;
        let Some(in_flight) = connection.in_flight.get_mut(&packet_id).filter(is_stored) else {
            return;
        };
        in_flight.progress = Progress::Told;
        let holders = in_flight.holders.and(present);
        let packet = Packet {
            packet_id,
            stage: Stage { entry, holders },
        };
        let connection = dot;
        step.observe(if in_flight.is_released {
            Observation::PubRel {
                client,
                connection,
                message: in_flight.message,
                packet,
            }
        } else {
            Observation::Delivered {
                client,
                connection,
                message: in_flight.message,
                packet: Some(packet),
            }
        });
    }

    /// Goes on with what the client has answered, by the seed.
    pub(super) fn serve_deliveries(&mut self, step: &mut Step<'_>, dot: Dot) {
        let Some(connection) = self.connection(dot) else {
            return;
        };
        let is_answered = |in_flight: &InFlight| in_flight.progress == Progress::Answered;
        let answered: Vec<(u8, InFlight)> = connection
            .in_flight
            .iter()
            .filter(|(_, in_flight)| is_answered(in_flight))
            .map(|(id, in_flight)| (*id, *in_flight))
            .collect();
        for (packet_id, in_flight) in answered {
            if !step.chance() {
                continue;
            }
            let delivery = Delivery {
                packet_id,
                connection_clock: self.connection_clock(dot),
                message: in_flight.message,
                is_released: true,
            };
            if in_flight.is_released {
                self.complete_delivery(step, dot, &delivery);
            } else {
                self.store_delivery(step, dot, delivery, false);
            }
        }
    }

    /// PUBCOMP: message and packet id are removed.
    fn complete_delivery(&mut self, step: &mut Step<'_>, dot: Dot, delivery: &Delivery) {
        let Some(client) = self.live_client(dot) else {
            return;
        };
        let mut removes = entries_of(&self.seen(step, dot), delivery);
        removes.push(delivery.message);
        let awaited = Awaited::Acknowledged {
            client,
            message: delivery.message,
            connection: dot,
            removed: removes.clone(),
        };
        let slots = SlotSet::one(step.directory.slot(client));
        let done = self.emit_and_wait(step, Change::Remove { client, removes }, slots, awaited);
        self.remember(dot, done);
        if let Some(connection) = self.connection_mut(dot) {
            connection.in_flight.remove(&delivery.packet_id);
        }
    }
}

/// Entries of a packet id to the client, and of its message.
fn entries_of(seen: &BTreeSet<Entry>, delivery: &Delivery) -> Vec<Dot> {
    let is_of = |entry: &&Entry| {
        entry
            .delivery
            .is_some_and(|known| known.packet_id == delivery.packet_id || known.message == delivery.message)
    };
    seen.iter().filter(is_of).map(|entry| entry.dot).collect()
}
