//! QoS 2 from a client, first half: its packet id goes to the owners of its session (section 7 of the specification).
//!
//! The PUBLISH gets a number of the run's second actor. `received` is an ordinary event with a dot of its own; the message is
//! routed under its number only when every present owner has that entry. A number that is only reserved is nobody's hole.

use std::collections::BTreeSet;

use super::known_session::birth_of;
use super::{Awaited, Connection, Node, Observation, Step};
use crate::copy;
use crate::event::{Change, Entry, Numbered, Received};
use crate::ids::{ClientId, Dot, EventSet, NodeId, NodeSet, Numbers, Slot, SlotSet};
use crate::rules::Rule;

/// A QoS 2 PUBLISH of a client.
#[derive(Clone, Copy, Debug)]
pub struct Publish {
    pub connection: Dot,
    pub packet_id: u8,
    /// Stands for topic and payload.
    pub content: u32,
    pub dup: bool,
}

/// A number that waits to be routed.
#[derive(Clone, Copy, Debug)]
struct Reserved {
    number: u8,
    /// None: of a will.
    connection: Option<Dot>,
    /// Nodes that are sent the packet id's entry, this one among them if it owns the slot.
    holders: NodeSet,
}

/// A packet id that is on its way to the owners.
#[derive(Clone, Copy, Debug)]
struct Storing {
    entry: Entry,
    slot: Slot,
    connection: Option<Dot>,
    /// Nodes that have not confirmed it: owners, and of a will all.
    peers: NodeSet,
    is_durable: bool,
}

/// A packet id whose message may be routed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) entry: Entry,
    pub(super) number: Dot,
    /// Connection that gets PUBREC. None: of a will.
    pub(super) connection: Option<Dot>,
}

/// QoS 2 messages from this node's clients whose packet ids are not at all owners yet.
#[derive(Clone, Debug, Default)]
pub struct Publishing {
    last: u8,
    reserved: Vec<Reserved>,
    storing: Vec<Storing>,
    pub(super) ready: Vec<Ready>,
    /// Messages that came before the routes were merged.
    early: Vec<Publish>,
}

impl Publishing {
    /// Numbers of `actor` that wait to be routed.
    pub(super) fn reserved(&self, actor: crate::ids::Run) -> EventSet {
        let mut reserved = EventSet::default();
        for waiting in &self.reserved {
            reserved.add(actor, Numbers::one(waiting.number));
        }
        reserved
    }

    pub(super) fn connection_of(&self, number: Dot) -> Option<Dot> {
        let mut reserved = self.reserved.iter();
        reserved
            .find(|reserved| reserved.number == number.number)
            .and_then(|reserved| reserved.connection)
    }

    /// Takes a number out of those that wait; gives the holders of its packet id.
    pub(super) fn release(&mut self, number: Dot) -> NodeSet {
        let index = self
            .reserved
            .iter()
            .position(|reserved| reserved.number == number.number);
        index.map_or(NodeSet::EMPTY, |index| self.reserved.remove(index).holders)
    }

    /// A lower number of this run still waits.
    pub(super) fn has_lower(&self, number: Dot) -> bool {
        self.reserved
            .iter()
            .any(|reserved| reserved.number < number.number)
    }

    pub(super) fn confirm_resent(&mut self, from: NodeId, slot: Slot, numbers: Numbers) {
        for storing in &mut self.storing {
            if storing.slot == slot && numbers.has(storing.entry.dot.number) {
                storing.peers.remove(from);
            }
        }
    }

    /// The entry `dot` is durable at the owners that it was sent to.
    pub(super) fn set_durable(&mut self, dot: Dot) {
        for storing in self.storing.iter_mut().filter(|storing| storing.entry.dot == dot) {
            storing.is_durable = true;
        }
    }
}

impl Node {
    /// PUBLISH with QoS 2: goes on with the packet id that it has already, or gives it a new number.
    pub fn publish_once(&mut self, step: &mut Step<'_>, publish: Publish) {
        let Some(client) = self.live_client(publish.connection) else {
            return;
        };
        let seen = self.seen(step, publish.connection);
        let Some(birth) = birth_of(step, &seen) else {
            return;
        };
        if let Some(ready) = continued(step, &seen, &publish) {
            self.publishing.ready.push(ready);
            return;
        }
        if !self.routes_are_merged(step) {
            self.publishing.early.push(publish);
            return;
        }
        self.store_packet_id(step, client, &seen, birth, &publish);
    }

    /// Reserves a number and sends the packet id to the owners.
    fn store_packet_id(
        &mut self,
        step: &mut Step<'_>,
        client: ClientId,
        seen: &BTreeSet<Entry>,
        birth: Dot,
        publish: &Publish,
    ) {
        let slot = step.directory.slot(client);
        let number = self.reserve(slot, Some(publish.connection));
        let received = Received {
            packet_id: publish.packet_id,
            connection_clock: self.connection_clock(publish.connection),
            message: Some(Numbered {
                content: publish.content,
                number,
            }),
        };
        let entry = self.write_received(step, client, seen, birth, received, publish.connection);
        let Some(entry) = entry else { return };
        self.store(step, entry, Some(publish.connection));
    }

    /// Takes the next number for a message; its entry goes to the owners of `slot`.
    pub(super) fn reserve(&mut self, slot: Slot, connection: Option<Dot>) -> Dot {
        let number = Dot {
            run: self.sender.run.of_numbers(),
            number: self.publishing.last + 1,
        };
        let mut holders = self.owners_of(SlotSet::one(slot));
        if self.ring().owns(self.id, slot) {
            holders.insert(self.id);
        }
        self.publishing.last = number.number;
        self.publishing.reserved.push(Reserved {
            number: number.number,
            connection,
            holders,
        });
        number
    }

    /// Waits until all that have to have it have the entry of a number.
    pub(super) fn store(&mut self, step: &mut Step<'_>, entry: Entry, connection: Option<Dot>) {
        let Some(Numbered { content, number }) = entry.numbered() else {
            return;
        };
        let slot = step.directory.slot(entry.client);
        let is_first = match entry.will {
            Some(_) => step.holds(Rule::WillNumberFirst),
            None => step.holds(Rule::ReceivedFirst),
        };
        step.observe(Observation::Numbered {
            client: entry.client,
            content,
            number,
            entry: entry.dot,
        });
        self.publishing.storing.push(Storing {
            entry,
            slot,
            connection,
            peers: self.storing_peers(&entry, slot),
            is_durable: false,
        });
        if !is_first {
            self.publishing.ready.push(Ready {
                entry,
                number,
                connection,
            });
        }
    }

    /// Peers that have to have an entry before its number is routed.
    fn storing_peers(&self, entry: &Entry, slot: Slot) -> NodeSet {
        let peers = self.membership.peers();
        if entry.will.is_some() {
            peers
        } else {
            self.ring().owners(slot).and(peers)
        }
    }

    /// `peer` has the entry; one that owns the slot by no ring has confirmed its number only.
    fn has_stored(&self, storing: &Storing, peer: NodeId) -> bool {
        let number = storing.entry.dot.number;
        if self.ring().owns(peer, storing.slot) {
            self.sender.has_confirmed(storing.slot, peer, number)
        } else {
            self.sender.has_reached(peer, number)
        }
    }

    /// Writes what uses a packet id, in place of all entries of it that the node has seen.
    fn write_received(
        &mut self,
        step: &mut Step<'_>,
        client: ClientId,
        seen: &BTreeSet<Entry>,
        birth: Dot,
        received: Received,
        connection: Dot,
    ) -> Option<Entry> {
        let removes = entries_of(seen, received.packet_id);
        let change = Change::Receive {
            client,
            birth,
            received,
            removes: removes.clone(),
        };
        let awaited = match received.message {
            Some(_) => Awaited::Stored,
            None => Awaited::Freed {
                client,
                connection,
                packet_id: received.packet_id,
                removed: removes,
            },
        };
        let slots = SlotSet::one(step.directory.slot(client));
        let dot = self.emit_and_wait(step, change, slots, awaited);
        self.remember(connection, dot);
        self.sender.find(dot)?.entry()
    }

    /// PUBREL: the packet id is free. PUBCOMP follows when that is durable.
    pub fn release_packet_id(&mut self, step: &mut Step<'_>, connection: Dot, packet_id: u8) {
        let Some(client) = self.live_client(connection) else {
            return;
        };
        let seen = self.seen(step, connection);
        let Some(birth) = birth_of(step, &seen) else {
            return;
        };
        let received = Received {
            packet_id,
            connection_clock: self.connection_clock(connection),
            message: None,
        };
        self.write_received(step, client, &seen, birth, received, connection);
    }

    pub(super) fn connection_clock(&self, connection: Dot) -> u32 {
        let session = self.connection(connection).and_then(Connection::started);
        session.map_or(0, |session| session.clock)
    }

    /// Sends packet ids that wait to the owners of the new ring.
    pub(super) fn store_again(&mut self, step: &mut Step<'_>) {
        if !step.holds(Rule::ReceivedToNewOwners) {
            return;
        }
        let ring = self.ring();
        for index in 0..self.publishing.storing.len() {
            let Storing { entry, slot, .. } = self.publishing.storing[index];
            let Some(event) = self.sender.find(entry.dot).cloned() else {
                continue;
            };
            let owners = ring.owners(slot);
            let numbers = Numbers::one(entry.dot.number);
            self.publishing.storing[index].peers = self.storing_peers(&entry, slot);
            self.give(step, slot, owners, numbers, &[event]);
        }
    }

    /// Finds packet ids that all present owners have, and takes up messages that came too early.
    pub(super) fn tick_publishing(&mut self, step: &mut Step<'_>) {
        for publish in std::mem::take(&mut self.publishing.early) {
            self.publish_once(step, publish);
        }
        let present = self.membership.peers();
        for mut storing in std::mem::take(&mut self.publishing.storing) {
            let lacks = |peer: &NodeId| !self.has_stored(&storing, *peer);
            let lacking = storing.peers.and(present).iter().filter(lacks).collect();
            storing.peers = lacking;
            let waits = !storing.peers.is_empty() && step.holds(Rule::ReceivedToNewOwners);
            match storing.entry.numbered().filter(|_| storing.is_durable && !waits) {
                Some(message) => self.publishing.ready.push(Ready {
                    entry: storing.entry,
                    number: message.number,
                    connection: storing.connection,
                }),
                None => self.publishing.storing.push(storing),
            }
        }
    }
}

/// The packet id is in use by this very message, which is sent again.
fn continued(step: &Step<'_>, seen: &BTreeSet<Entry>, publish: &Publish) -> Option<Ready> {
    if !publish.dup && step.holds(Rule::DupContinues) {
        return None;
    }
    let live = copy::live(step.rules, seen, |_, _| false);
    let ready = |entry: &Entry| {
        let received = entry
            .received
            .filter(|received| received.packet_id == publish.packet_id)?;
        let message = received.message?;
        let is_same = message.content == publish.content || !step.holds(Rule::SameContent);
        is_same.then_some(Ready {
            entry: *entry,
            number: message.number,
            connection: Some(publish.connection),
        })
    };
    let order = |ready: &Ready| {
        let clock = ready
            .entry
            .received
            .map_or(0, |received| received.connection_clock);
        (clock, ready.entry.clock, ready.entry.dot)
    };
    live.iter().filter_map(ready).max_by_key(order)
}

fn entries_of(seen: &BTreeSet<Entry>, packet_id: u8) -> Vec<Dot> {
    let is_of = |entry: &&Entry| {
        entry
            .received
            .is_some_and(|received| received.packet_id == packet_id)
    };
    seen.iter().filter(is_of).map(|entry| entry.dot).collect()
}
