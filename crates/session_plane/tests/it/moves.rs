//! QoS 2 messages of the group that have moved into the queue of a member, and what is promised of them: once
//! PUBLISH was sent to one member, no other one is sent the message, unless sides of a split have given it to
//! both. What becomes of a message in the queue is promised as of any other.

use std::collections::BTreeSet;

use session_plane::delivering::{DeliveryQos, DeliveryValue, Published};
use session_plane::{Dot, EntryKind};

use super::clients::{client, slot};
use super::connections::{CONNECTING, Socket};
use super::givings::Given;
use super::group_clients::part_of;
use super::machine::{Body, Value};
use super::world::World;

/// Message of the group in the queue of a member.
#[derive(Debug, Clone)]
pub(super) struct Moved {
    client: u8,
    /// Birth of its session.
    birth: Dot,
    /// When any copy had it first.
    seen_at: u64,
    /// Connection that has moved it, and what it was given.
    by: Option<Mover>,
    is_sent: bool,
}

#[derive(Debug, Clone)]
struct Mover {
    socket: Socket,
    given: Given,
}

/// Entry of a queue that has come from the group.
#[derive(Debug)]
struct Found {
    number: u8,
    dot: Dot,
    birth: Dot,
    body: u32,
}

/// The message was moved into the queue, or is no message of the group: it is one of the queue.
pub(super) fn is_queued(value: Value) -> bool {
    let is_shared = matches!(value, Value::Message(body) if part_of(body).is_some());
    !is_shared || value.delivery_qos() == Some(DeliveryQos::ExactlyOnce)
}

impl World {
    /// Message of the group with this content.
    pub(super) fn shared_with(&self, value: Value) -> Option<Dot> {
        let Value::Message(Body(body)) = value else {
            return None;
        };
        let mut messages = self.group_clients.messages.iter();
        messages
            .find(|(_, of)| of.body == body)
            .map(|(message, _)| *message)
    }

    /// Notes which messages have moved, as any copy has them.
    pub(super) fn note_moves(&mut self) {
        for found in self.found_moves() {
            let value = Value::Message(Body(found.body));
            let Some(message) = self.shared_with(value) else {
                continue;
            };
            if !self.group_clients.messages[&message]
                .moved
                .contains_key(&found.dot)
            {
                self.moved(message, &found);
            }
        }
    }

    fn found_moves(&self) -> Vec<Found> {
        let mut all = Vec::new();
        let planes = self.machines.values().filter_map(|machine| machine.plane());
        for plane in planes {
            for number in CONNECTING {
                let copy = plane.copy(slot(number));
                let session = copy.and_then(|copy| copy.entries.session(client(number).as_bytes()));
                let messages = session
                    .into_iter()
                    .flat_map(|session| session.of_kind(EntryKind::Message));
                all.extend(messages.filter_map(|(dot, entry)| match entry.value {
                    Value::Message(Body(body)) if part_of(Body(body)).is_some() => Some(Found {
                        number,
                        dot,
                        birth: entry.birth.dot,
                        body,
                    }),
                    _ => None,
                }));
            }
        }
        all
    }

    fn moved(&mut self, message: Dot, found: &Found) {
        let of = &self.group_clients.messages[&message];
        let is_mover = |socket: &Socket| {
            socket.node == found.dot.run.node.0 && self.sockets.get(socket) == Some(&found.number)
        };
        let by = of.given.iter().find(|(socket, _)| is_mover(socket));
        let by = by.map(|(socket, given)| Mover {
            socket: *socket,
            given: given.clone(),
        });
        let moved = Moved {
            client: found.number,
            birth: found.birth,
            seen_at: self.now,
            by,
            is_sent: false,
        };
        let of = self.group_clients.messages.entry(message).or_default();
        of.moved.insert(found.dot, moved);
    }

    /// A node sends PUBLISH with a message that has moved.
    pub(super) fn moved_sent(&mut self, socket: Socket, published: &Published<Value>) {
        self.note_moves();
        let (dot, message) = (published.message, self.shared_with(published.value));
        let Some(message) = message.filter(|_| is_queued(published.value)) else {
            return;
        };
        let of = &self.group_clients.messages[&message];
        let (moved, is_dropped) = (of.moved.get(&dot).cloned(), of.is_dropped);
        let Some(moved) = moved.filter(|_| dot != message) else {
            // An owner may drop what has moved before it has a packet id. The client gets it all the same.
            if dot == message || !is_dropped {
                self.fail(format!(
                    "{socket:?} is sent {message:?} as {dot:?}, which no queue has"
                ));
            }
            return;
        };
        if let Some(node) = self.not_knowing(socket, dot, &moved) {
            self.fail(format!(
                "{socket:?} is sent {message:?} while {node} does not know {dot:?}"
            ));
        }
        if let Some((other, of)) = self.sent_to_other(message, dot, &moved) {
            self.fail(format!(
                "{socket:?} is sent {message:?} as {dot:?}, and {} was as {other:?}: {moved:?} {of:?}",
                of.client
            ));
        }
        let of = self.group_clients.messages.entry(message).or_default();
        if let Some(moved) = of.moved.get_mut(&dot) {
            moved.is_sent = true;
        }
    }

    /// Node that is present to the node of the connection that has moved a message, ever since, and that does not
    /// know that.
    fn not_knowing(&self, socket: Socket, dot: Dot, moved: &Moved) -> Option<u64> {
        moved.by.as_ref().filter(|by| by.socket == socket)?;
        let mut peers = self.present_to(socket.node).into_iter();
        peers.find(|peer| {
            let pair = BTreeSet::from([*peer, socket.node]);
            let plane = self.machines[peer].plane();
            self.have_stayed_since(&pair, moved.seen_at)
                && plane.is_some_and(|plane| !plane.known().covers(dot))
        })
    }

    /// Other member that was sent the message, though no split was between.
    fn sent_to_other(&self, message: Dot, dot: Dot, moved: &Moved) -> Option<(Dot, Moved)> {
        let own = moved.by.as_ref()?;
        let mut others = self.group_clients.messages[&message].moved.iter();
        let found = others.find(|(other, of)| {
            let is_other = **other != dot && of.client != moved.client && of.is_sent;
            let by = of.by.as_ref().filter(|_| is_other);
            by.is_some_and(|by| self.are_assigned_together(&own.given, &by.given))
        });
        found.map(|(other, of)| (*other, of.clone()))
    }

    /// A message has moved into a session that has ended, and ended with it.
    pub(super) fn has_ended_with_session(&self, message: Dot) -> bool {
        let mut moved = self.group_clients.messages[&message].moved.values();
        moved.any(|moved| {
            let mut nodes = 1..=self.nodes;
            !nodes.any(|id| self.birth_at(id, moved.client).contains(&moved.birth))
        })
    }
}
