//! Delivering: messages of QoS 1 and 2 from the queue of a session, and from shared groups, to its
//! client under packet ids (rules 53 to 55).
//!
//! ```text
//!           packet id     at the owners              PUBREC      at the owners     PUBCOMP
//!  waiting ----------> Sent ----------> PUBLISH sent ------> Released ---> PUBREL ------> removed
//!   ^ |                 ^                  |                    ^                            ^
//!   | | QoS 1           | older connection | QoS 1: PUBACK      | older connection           |
//!   | '--> PUBLISH sent '                  '--------------------'----------------------------'
//!   '-- of a group, with QoS 2: moves into the queue
//! ```
//!
//! The packet id of a QoS 2 message is an entry at the owners before PUBLISH leaves, and so is its next
//! stage before PUBREL leaves. A connection that resumes the session writes each entry anew before it
//! goes on with it. The packet id of a message follows from its event as a rule: a QoS 1 message has
//! an entry only where it has another one. A QoS 2 message of a group moves into the queue first. One of
//! QoS 1 goes to another member when the connection ends. The node asks for packet ids of messages that are
//! not stored.
//!
//! *Invariants*: a packet id is of one message of its session at this node. It is not given before an
//! owner has told the packet ids that the session has, and not before PUBCOMP once a client may know
//! it. PUBLISH packets of a connection without acknowledgement are at most its Receive Maximum.
//!
//! The node has the feeds, the groups, the entries, and the waits for them.
//! `docs/decisions/2026-11-29-delivering-with-packet-ids.md` says why it is made so.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use crate::Dot;
use crate::connecting::ConnectionId;

mod action;
mod answering;
mod connection;
mod delivery;
mod event;
mod in_flight;
mod moving;
mod older;
mod packet_ids;
mod resuming;
mod sending;
mod turns;
mod unstored;
mod value;
mod waiting;

pub use action::{DeliveringAction, DeliveryViolation, Published, RemovedDelivery, WrittenDelivery};
pub use delivery::{DeliveryQos, DeliveryStage, PacketDelivery};
pub use event::{
    DeliveringEvent, DeliveryAnswer, FedMessages, GivenMessage, OpenedReceiver, QueuedMessage, SharedMessage,
};
pub use value::DeliveryValue;

use connection::OpenConnection;

/// Limits of delivering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveringLimits {
    /// Packet ids at most that one connection uses at once, whatever its Receive Maximum. Further
    /// messages, and further packet ids of older connections, wait.
    pub in_flight_max: NonZeroU16,
    /// Messages of one connection at most that wait for a packet id. A connection that is passed on
    /// one more is closed with 0x97, Quota exceeded. Not below the window of a feed with what groups may
    /// give.
    pub waiting_max: usize,
}

/// Deliveries of the connections of one node.
///
/// An event costs O(log n) for each message and packet id that it names. Older deliveries are bounded
/// by [`SinkLimits::deliveries_max`](crate::feed::SinkLimits::deliveries_max). A message in flight whose
/// content has left takes about 200 bytes.
#[derive(Debug)]
pub struct Delivering<V> {
    limits: DeliveringLimits,
    connections: BTreeMap<ConnectionId, OpenConnection<V>>,
}

impl<V> Delivering<V> {
    /// Delivering without connections.
    pub fn new(limits: DeliveringLimits) -> Delivering<V> {
        Delivering {
            limits,
            connections: BTreeMap::new(),
        }
    }

    /// Takes what has happened; appends what the node does. What is said of a connection that has
    /// ended changes nothing.
    pub fn step(&mut self, event: DeliveringEvent<V>, actions: &mut Vec<DeliveringAction<V>>) {
        match event {
            DeliveringEvent::Opened(opened) => self.open(opened),
            DeliveringEvent::Closed { connection } => {
                self.connections.remove(&connection);
            }
            DeliveringEvent::Fed { connection, fed } => {
                self.at(connection, actions, |open, actions| open.feed(fed, actions));
            }
            DeliveringEvent::Withdrawn { connection, keys } => {
                self.at(connection, actions, |open, actions| open.withdraw(&keys, actions));
            }
            DeliveringEvent::Given { connection, given } => {
                self.at(connection, actions, |open, actions| open.give(given, actions));
            }
            DeliveringEvent::Moved { connection, from, to } => {
                self.at(connection, actions, |open, _| open.moved(&from, to));
            }
            DeliveringEvent::MoveKnown { connection, message } => {
                self.at(connection, actions, |open, _| open.move_known(message));
            }
            DeliveringEvent::Stored {
                connection,
                packet_id,
                entry,
            } => self.at(connection, actions, |open, actions| {
                open.stored(packet_id, entry, actions);
            }),
            DeliveringEvent::Removed { connection, message } => {
                self.at(connection, actions, |open, _| {
                    open.removed.remove(&message);
                });
            }
            DeliveringEvent::Requested { connection, qos } => {
                self.at(connection, actions, |open, _| open.request(qos));
            }
            DeliveringEvent::Paused {
                connection,
                is_paused,
            } => self.at(connection, actions, |open, _| open.is_paused = is_paused),
            DeliveringEvent::Answered {
                connection,
                packet_id,
                answer,
            } => self.at(connection, actions, |open, actions| {
                open.answer(packet_id, answer, actions);
            }),
        }
    }

    /// Packet ids that a connection uses.
    pub fn in_flight_of(&self, connection: ConnectionId) -> usize {
        let connection = self.connections.get(&connection);
        connection.map_or(0, OpenConnection::in_flight)
    }

    /// Messages of its queue that a connection has, and that are not acknowledged.
    pub(crate) fn held_of(&self, connection: ConnectionId) -> impl Iterator<Item = Dot> {
        let open = self.connections.get(&connection);
        open.into_iter().flat_map(|open| open.held.keys().copied())
    }

    /// Packet ids that connections use; a gauge.
    pub fn in_flight(&self) -> usize {
        self.connections.values().map(OpenConnection::in_flight).sum()
    }

    /// Messages without a packet id, and older deliveries that were not gone on with; a gauge.
    pub fn waiting(&self) -> usize {
        self.connections.values().map(OpenConnection::waiting).sum()
    }

    fn open(&mut self, opened: OpenedReceiver) {
        let connection = opened.connection;
        let open = OpenConnection::new(opened, self.limits);
        let before = self.connections.insert(connection, open);
        assert!(before.is_none(), "a connection is opened once");
    }

    /// Changes a connection; then begins what it has room for.
    fn at(
        &mut self,
        connection: ConnectionId,
        actions: &mut Vec<DeliveringAction<V>>,
        change: impl FnOnce(&mut OpenConnection<V>, &mut Vec<DeliveringAction<V>>),
    ) {
        let open = self.connections.get_mut(&connection);
        if let Some(open) = open.filter(|open| !open.is_closing()) {
            change(open, actions);
            open.begin_next(actions);
        }
    }
}

#[cfg(test)]
mod tests;
