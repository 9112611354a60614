//! Clients that receive: each takes the messages of its queue from the feed, and acknowledges them some
//! time later.

use std::collections::{BTreeMap, BTreeSet};

use session_plane::Dot;
use session_plane::feed::{FeedItem, QueueKey};
use session_plane::sessions::Acknowledgement;

use super::clients::{RemovedEntry, Waiting, client, slot};
use super::connections::{CONNECTING, Socket};
use super::machine::{Body, Value};
use super::publishers::{FIRST_ONCE, TakenBody};
use super::world::World;

/// Message of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct OfClient<T> {
    client: u8,
    of: T,
}

/// Something that the nodes of a side know.
#[derive(Debug)]
struct Finished {
    side: BTreeSet<u64>,
    at: u64,
}

/// What clients have received.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    /// Messages of each connection that the client has not acknowledged.
    inboxes: BTreeMap<Socket, BTreeMap<QueueKey, Value>>,
    /// Number under which each QoS 2 message has come first.
    numbers: BTreeMap<OfClient<u32>, Dot>,
    /// Messages that were acknowledged, durably.
    finished: BTreeMap<OfClient<Dot>, Finished>,
    /// Connections whose CONNACK all processes that run stood behind.
    accepted: BTreeMap<Socket, Finished>,
}

impl World {
    /// The connection is gone.
    pub(super) fn drop_inbox(&mut self, socket: Socket) {
        self.subscribers.inboxes.remove(&socket);
        self.subscribers.accepted.remove(&socket);
    }

    /// Connections of a process are gone.
    pub(super) fn drop_inboxes_of(&mut self, id: u64) {
        self.subscribers.inboxes.retain(|socket, _| socket.node != id);
        self.subscribers.accepted.retain(|socket, _| socket.node != id);
    }

    /// A connection has its CONNACK.
    pub(super) fn note_accepted(&mut self, socket: Socket) {
        let (side, at) = (self.present_to(socket.node), self.now);
        if self.is_whole_side(&side) {
            self.subscribers.accepted.insert(socket, Finished { side, at });
        }
    }

    /// The message was acknowledged before the connection had its CONNACK, and an owner on its side
    /// knew of it.
    fn is_finished_for(&self, socket: Socket, message: OfClient<Dot>) -> bool {
        let finished = self.subscribers.finished.get(&message);
        let both = finished.zip(self.subscribers.accepted.get(&socket));
        both.is_some_and(|(finished, accepted)| {
            finished.at <= accepted.at && !finished.side.is_disjoint(&accepted.side)
        })
    }

    pub(super) fn act_as_subscribers(&mut self) {
        let number = CONNECTING.start + u8::try_from(self.random.below(3)).expect("few");
        if let Some(socket) = self.live_socket(number)
            && self.machines[&socket.node].is_up(self.now)
            && self.random.once_in(3)
        {
            let most = 1 + self.random.below(4);
            self.acknowledge_some(socket, number, most);
        }
    }

    /// Acknowledges all that clients have received.
    pub(super) fn acknowledge_all(&mut self) {
        for number in CONNECTING {
            if let Some(socket) = self.live_socket(number) {
                self.acknowledge_some(socket, number, u64::MAX);
            }
        }
    }

    /// A node gives messages to a connection.
    pub(super) fn delivered(&mut self, socket: Socket, items: Vec<FeedItem<Value>>) {
        let Some(number) = self.client_of(socket) else {
            return;
        };
        for FeedItem { key, value } in items {
            self.check_number(number, key, value);
            let of = OfClient {
                client: number,
                of: key.dot,
            };
            if self.is_finished_for(socket, of) {
                self.fail(format!("{number} gets {key:?} again, which it has acknowledged"));
            }
            let inbox = self.subscribers.inboxes.entry(socket).or_default();
            if inbox.insert(key, value).is_some() {
                self.fail(format!("{socket:?} gets {key:?} twice"));
            }
        }
    }

    /// A QoS 2 message comes under one number.
    fn check_number(&mut self, number: u8, key: QueueKey, value: Value) {
        let Value::Message(Body(body)) = value else {
            return self.fail(format!("{number} gets {value:?}"));
        };
        if body < FIRST_ONCE {
            return;
        }
        let of = OfClient {
            client: number,
            of: body,
        };
        let first = *self.subscribers.numbers.entry(of).or_insert(key.dot);
        if first != key.dot && !self.publishers.is_excepted(body) {
            self.fail(format!("{number} gets {body} as {first:?} and as {:?}", key.dot));
        }
    }

    /// A node takes messages back.
    pub(super) fn withdrawn(&mut self, socket: Socket, keys: &[QueueKey]) {
        if let Some(inbox) = self.subscribers.inboxes.get_mut(&socket) {
            inbox.retain(|key, _| !keys.contains(key));
        }
    }

    fn acknowledge_some(&mut self, socket: Socket, number: u8, most: u64) {
        let inbox = self.subscribers.inboxes.get(&socket).cloned().unwrap_or_default();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        for (key, value) in inbox.into_iter().take(most) {
            let mut made = None;
            self.with_sessions(socket.node, |sessions, at, actions| {
                let acknowledged = Acknowledgement {
                    key,
                    deliveries: Vec::new(),
                };
                let acknowledged = sessions.acknowledge(at, socket.connection, acknowledged, actions);
                made = acknowledged.ok().flatten();
            });
            let Some(made) = made else { return };
            if let Some(inbox) = self.subscribers.inboxes.get_mut(&socket) {
                inbox.remove(&key);
            }
            let (client, dot) = (number, key.dot);
            self.removed.insert(RemovedEntry { client, dot });
            if let Value::Message(Body(body)) = value {
                let taken = self.publishers.taken.entry(TakenBody { client, body });
                taken.or_default().insert(dot);
            }
            let side = self.owners_of(slot(number), socket.node);
            self.wait_for(made.dot, Waiting::Acknowledge { client, dot, side });
        }
    }

    /// An acknowledgement is durable.
    pub(super) fn finish_message(&mut self, client: u8, dot: Dot, side: BTreeSet<u64>) {
        let at = self.now;
        let finished = &mut self.subscribers.finished;
        finished.insert(OfClient { client, of: dot }, Finished { side, at });
    }

    /// No message is left for a client that is connected.
    pub(super) fn are_queues_empty(&self) -> Result<(), String> {
        for number in CONNECTING {
            for (id, machine) in &self.machines {
                let copy = machine.plane().and_then(|plane| plane.copy(slot(number)));
                let id_of = client(number);
                let session = copy.and_then(|copy| copy.entries.session(id_of.as_bytes()));
                let kind = session_plane::EntryKind::Message;
                let mut messages = session.into_iter().flat_map(|session| session.iter());
                let is_queued = |entry: session_plane::EntryId| {
                    entry.kind == kind && !self.is_decided_otherwise(number, entry.dot)
                };
                if let Some((message, _)) = messages.find(|(entry, _)| is_queued(*entry)) {
                    return Err(format!("{id} keeps {message:?} for {number}"));
                }
            }
        }
        Ok(())
    }

    /// A copy has decided that a message is not for a client: it came beside its subscription. The others
    /// follow with the next merge.
    fn is_decided_otherwise(&self, number: u8, dot: Dot) -> bool {
        let id = client(number);
        let planes = self.machines.values().filter_map(|machine| machine.plane());
        let mut copies = planes.filter_map(|plane| plane.copy(slot(number)));
        copies.any(|copy| {
            let kind = session_plane::EntryKind::Message;
            let session = copy.entries.session(id.as_bytes());
            let has_message =
                session.is_some_and(|session| session.get(session_plane::EntryId { kind, dot }).is_some());
            copy.covered.covers(dot) && !has_message
        })
    }
}
