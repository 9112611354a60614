//! Deliveries: what feeds and groups give to connections, under packet ids upon the plane (rules 53 to
//! 55).
//!
//! ```text
//!  feeds, groups --> Delivering --> entry of a packet id --> at the owners: PUBLISH, or PUBREL
//!  PUBACK, PUBCOMP ----^  |'------> message and packet id removed --> feeds and groups know it
//!                         '-------> message of a group moved into the queue (`moving`)
//! ```
//!
//! *Invariants*: a packet leaves when the owners of the ring in force have its entry. A feed has room
//! again when the event that removes a message is made.

use std::collections::BTreeMap;

use super::acting::Queue;
use super::entries::{OwnWrite, Written};
use super::waits::RemovedWait;
use super::{ConnectionViolation, Sessions, SessionsAction, SessionsValue};
use crate::connecting::ConnectionId;
use crate::delivering::{
    DeliveringAction, DeliveringEvent, DeliveryAnswer, DeliveryQos, GivenMessage, OpenedReceiver,
    RemovedDelivery, SharedMessage, WrittenDelivery,
};
use crate::feed::SinkEvent;
use crate::groups::SinkEvent as MemberEvent;
use crate::plane::{Matching, NewBirth, NewChange, NewEntry, Now, OwnEntry};
use crate::publishing::PacketId;
use crate::stream::GivingId;
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, Fact};

/// Entries of packet ids on their way to the owners.
#[derive(Debug)]
pub(super) struct StoringDeliveries<V> {
    entries: BTreeMap<Dot, StoringDelivery<V>>,
    /// Those that are given to the owners of a later ring.
    givings: BTreeMap<GivingId, Dot>,
}

/// Entry of a packet id.
#[derive(Debug)]
struct StoringDelivery<V> {
    connection: ConnectionId,
    packet_id: PacketId,
    entry: OwnEntry<V>,
    /// Marker of the ring to whose owners it goes.
    marker: u64,
}

impl<V> StoringDeliveries<V> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The owners of a ring have what was given to them; gives the event of the entry.
    pub(super) fn end_giving(&mut self, giving: GivingId) -> Option<Dot> {
        self.givings.remove(&giving)
    }
}

impl<V> Default for StoringDeliveries<V> {
    /// None.
    fn default() -> StoringDeliveries<V> {
        StoringDeliveries {
            entries: BTreeMap::new(),
            givings: BTreeMap::new(),
        }
    }
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Takes the answer of a client to PUBLISH or PUBREL, or that of the node where it sends no PUBLISH.
    pub fn answer(
        &mut self,
        now: Now,
        connection: ConnectionId,
        packet_id: PacketId,
        answer: DeliveryAnswer,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        let mut queue = Queue::default();
        let answered = DeliveringEvent::Answered {
            connection,
            packet_id,
            answer,
        };
        self.step_delivering(answered, &mut queue);
        self.apply(now, queue, actions);
    }

    /// Asks for a packet id of a message to a client that is not stored. [`SessionsAction::Grant`] gives one.
    pub fn request_packet_id(
        &mut self,
        now: Now,
        connection: ConnectionId,
        qos: DeliveryQos,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        let mut queue = Queue::default();
        self.step_delivering(DeliveringEvent::Requested { connection, qos }, &mut queue);
        self.apply(now, queue, actions);
    }

    /// The socket of a client takes no more messages, or takes them again.
    pub fn pause(
        &mut self,
        now: Now,
        connection: ConnectionId,
        is_paused: bool,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        let mut queue = Queue::default();
        let paused = DeliveringEvent::Paused {
            connection,
            is_paused,
        };
        self.step_delivering(paused, &mut queue);
        self.apply(now, queue, actions);
    }

    pub(super) fn step_delivering(&mut self, event: DeliveringEvent<V>, queue: &mut Queue<V, M>) {
        self.delivering.step(event, &mut queue.delivering);
    }

    /// Opens the deliveries of a connection that has its session.
    ///
    /// A QoS 1 message from before the end of the last connection may have been sent. Where nothing says when that
    /// was, so may one from before this CONNECT.
    pub(super) fn open_deliveries(
        &mut self,
        connection: ConnectionId,
        is_present: bool,
        queue: &mut Queue<V, M>,
    ) {
        let Some(client) = self.clients.get(&connection) else {
            return;
        };
        let Some(session) = client.session.as_ref() else {
            return;
        };
        let clock = session.entry.entry.clock;
        let opened = OpenedReceiver {
            connection,
            client: client.client().clone(),
            clock,
            receive_maximum: client.receive_maximum(),
            sent_before: is_present.then_some(client.left_at.unwrap_or(clock)),
        };
        self.step_delivering(DeliveringEvent::Opened(opened), queue);
    }

    /// Gives a message of a shared group. Its value was checked. One that needs no packet id is acknowledged at once.
    pub(super) fn give_delivery(
        &mut self,
        connection: ConnectionId,
        message: SharedMessage,
        value: V,
        queue: &mut Queue<V, M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        let member = self.member_of(connection, &message.group);
        let value = match member {
            Some(member) => value.of_member(&member),
            None => value,
        };
        if let Some(qos) = value.delivery_qos() {
            let given = GivenMessage { message, qos, value };
            return self.step_delivering(DeliveringEvent::Given { connection, given }, queue);
        }
        actions.push(SessionsAction::GivenUnstored { connection, value });
        let SharedMessage { group, message } = message;
        let acknowledged = MemberEvent::Acknowledged {
            connection,
            group,
            message,
        };
        self.step_members(acknowledged, queue);
    }

    /// Does what deliveries ask for.
    pub(super) fn apply_delivering(
        &mut self,
        action: DeliveringAction<V>,
        queue: &mut Queue<V, M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        match action {
            DeliveringAction::Write(write) => {
                let (connection, client) = (write.connection, write.client.clone());
                self.write_later(connection, client, OwnWrite::Delivery(write));
            }
            DeliveringAction::Remove(removed) => {
                let (connection, client) = (removed.connection, removed.client.clone());
                self.write_later(connection, client, OwnWrite::DeliveryEnd(removed));
            }
            DeliveringAction::LetGo { connection, key } => {
                if let Some(client) = self.client_of(connection) {
                    self.step_sink(SinkEvent::Acknowledged { client, key }, queue);
                }
            }
            DeliveringAction::Move {
                connection,
                message: SharedMessage { group, message },
                value,
            } => {
                let moving = MemberEvent::Moving {
                    connection,
                    group,
                    message,
                    value,
                };
                self.step_members(moving, queue);
            }
            DeliveringAction::AcknowledgeGroup {
                connection,
                message: SharedMessage { group, message },
            } => {
                let acknowledged = MemberEvent::Acknowledged {
                    connection,
                    group,
                    message,
                };
                self.step_members(acknowledged, queue);
            }
            DeliveringAction::SendPublish(published) => {
                actions.push(SessionsAction::SendPublish(published));
            }
            DeliveringAction::Grant {
                connection,
                packet_id,
                qos,
            } => actions.push(SessionsAction::Grant {
                connection,
                packet_id,
                qos,
            }),
            DeliveringAction::SendPubrel {
                connection,
                packet_id,
                is_found,
            } => actions.push(SessionsAction::SendPubrel {
                connection,
                packet_id,
                is_found,
            }),
            DeliveringAction::Disconnect { connection, reason } => {
                let reason = ConnectionViolation::Delivery(reason);
                actions.push(SessionsAction::Violated { connection, reason });
            }
        }
    }

    /// Change that makes the entry of a packet id. None where the connection has no session any more.
    pub(super) fn delivery_change(&self, write: &WrittenDelivery) -> Option<NewChange<V>> {
        let birth = self.birth(write.connection)?;
        let message = write.message;
        let adds = NewEntry {
            birth: NewBirth::Of(birth),
            fact: Fact::Delivery { message },
            value: V::of_delivery(write.delivery),
        };
        Some(NewChange {
            client: write.client.clone(),
            removes: write.removes.clone(),
            adds: Some(adds),
        })
    }

    /// The entry of a packet id is made, by the ring of `marker`. Its packet waits for the owners.
    pub(super) fn delivery_written(
        &mut self,
        write: &WrittenDelivery,
        written: Written<V>,
        marker: u64,
        queue: &mut Queue<V, M>,
    ) {
        let dot = written.made.dot;
        self.note_event(Some(write.connection), dot);
        self.end_deliveries(&write.client, &write.removes, queue);
        let storing = written.entry.map(|entry| StoringDelivery {
            connection: write.connection,
            packet_id: write.delivery.packet_id,
            entry,
            marker,
        });
        self.storing_deliveries
            .entries
            .extend(storing.map(|storing| (dot, storing)));
    }

    /// The event that ends deliveries is made.
    pub(super) fn delivery_removed(&mut self, end: &RemovedDelivery, dot: Dot, queue: &mut Queue<V, M>) {
        let RemovedDelivery {
            connection,
            client,
            message,
            held,
            deliveries,
        } = end;
        self.note_event(Some(*connection), dot);
        self.end_deliveries(client, deliveries, queue);
        match (*held, *message) {
            (Some(key), _) => {
                let client = client.clone();
                self.step_sink(SinkEvent::Acknowledged { client, key }, queue);
            }
            (None, Some(message)) => {
                let connection = *connection;
                self.waits.add_removed(dot, RemovedWait { connection, message });
            }
            (None, None) => {}
        }
    }

    /// Tells the feed that deliveries have ended.
    fn end_deliveries(&mut self, client: &ClientId, deliveries: &[Dot], queue: &mut Queue<V, M>) {
        for delivery in deliveries.iter().copied() {
            let client = client.clone();
            self.step_sink(SinkEvent::DeliveryEnded { client, delivery }, queue);
        }
    }

    /// The owners of a ring have an entry. If another ring is in force, its owners are given it first (rule
    /// `stage-first`).
    pub(super) fn end_delivery_wait(&mut self, now: Now, dot: Dot, queue: &mut Queue<V, M>) {
        let Some(mut storing) = self.storing_deliveries.entries.remove(&dot) else {
            return;
        };
        let connection = storing.connection;
        let is_open = self.clients.get(&connection).is_some_and(|open| !open.is_closing);
        let marker = self.plane.marker();
        if !is_open {
            return;
        }
        if storing.marker == marker {
            let (packet_id, entry) = (storing.packet_id, dot);
            let stored = DeliveringEvent::Stored {
                connection,
                packet_id,
                entry,
            };
            return self.step_delivering(stored, queue);
        }
        storing.marker = marker;
        let entry = storing.entry.clone();
        let owners: Vec<_> = self.plane.owners(entry.slot).collect();
        let giving = self.plane.give(now, entry, &owners, &mut queue.plane);
        self.storing_deliveries.entries.insert(dot, storing);
        self.storing_deliveries.givings.insert(giving, dot);
    }
}

/// Change that ends deliveries.
pub(super) fn removal_change<V>(end: &RemovedDelivery) -> NewChange<V> {
    NewChange {
        client: end.client.clone(),
        removes: end.deliveries.iter().copied().chain(end.message).collect(),
        adds: None,
    }
}
