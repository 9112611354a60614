//! Clients that publish with QoS 2, and the promise that each message reaches a session once.
//!
//! A publisher keeps its exchanges while it moves between nodes: what had no PUBREC it sends again
//! with DUP, and what had one it releases again.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use session_plane::publishing::{ContentId, PacketId, Publish};
use session_plane::{Birth, Dot, Slot};

use super::clients::slot;
use super::connections::{CONNECTING, Socket};
use super::machine::Body;
use super::world::World;

/// First body of a QoS 2 message; those of others are lower.
pub(super) const FIRST_ONCE: u32 = 1_000;
/// Packet ids that a client uses at once.
const PACKET_IDS: u16 = 3;

/// Nodes that have each other, or that have something.
type Side = BTreeSet<u64>;

/// Packet id of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct UsedId {
    client: u8,
    packet_id: PacketId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Published,
    Received,
    Released,
}

/// Message as its publisher keeps it.
#[derive(Debug)]
struct Exchange {
    body: u32,
    stage: Stage,
    /// Birth of the session in which it goes on.
    birth: Option<Birth>,
    /// Owners of the client's slot while its connection had no PUBREC. Those who have stored the packet id
    /// have a copy of it.
    owners: BTreeSet<Side>,
}

/// Message that was published once.
#[derive(Debug, Default)]
struct Promise {
    /// Clients that are to have it.
    clients: BTreeSet<u8>,
    /// PUBREC was sent.
    is_acknowledged: bool,
    /// The publisher has changed sides, or all who had the packet id are away: the message may come twice.
    is_excepted: bool,
    /// It is a will that nobody is to have.
    is_dropped: bool,
}

/// Body of a message that a client has acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TakenBody {
    pub(super) client: u8,
    pub(super) body: u32,
}

/// Message in the queue of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueuedBody {
    pub(super) body: u32,
    pub(super) dot: Dot,
}

/// All that was published with QoS 2.
#[derive(Debug, Default)]
pub(super) struct Publishers {
    last: u32,
    exchanges: BTreeMap<UsedId, Exchange>,
    promises: BTreeMap<u32, Promise>,
    /// Numbers under which messages were removed from queues, or were about to be.
    pub(super) taken: BTreeMap<TakenBody, BTreeSet<Dot>>,
    /// Exchanges that have come to their end.
    completed: usize,
}

impl Publishers {
    /// No packet id is in use. One that is in use keeps its run from being retired.
    pub(super) fn are_done(&self) -> bool {
        self.exchanges.is_empty()
    }

    /// The message may come twice.
    pub(super) fn is_excepted(&self, body: u32) -> bool {
        self.promises
            .get(&body)
            .is_some_and(|promise| promise.is_excepted)
    }
}

fn packet_id(number: u16) -> PacketId {
    PacketId(NonZeroU16::new(number).expect("packet ids begin with 1"))
}

impl World {
    pub(super) fn act_as_publishers(&mut self) {
        self.note_owners();
        let number = CONNECTING.start + u8::try_from(self.random.below(3)).expect("few");
        let Some(socket) = self.live_socket(number).filter(|socket| self.is_up(socket.node)) else {
            return;
        };
        match self.random.below(12) {
            0 | 1 => self.publish_once(socket, number),
            2..=4 => self.release_received(socket, number),
            _ => {}
        }
    }

    /// Publishes a message of each client that is connected; gives how many exchanges have to complete.
    pub(super) fn publish_all(&mut self) -> usize {
        let mut published = self.publishers.completed;
        for number in CONNECTING {
            if let Some(socket) = self.live_socket(number) {
                self.publish_once(socket, number);
                published += 1;
            }
        }
        published
    }

    /// A history in which nothing is published shows nothing.
    pub(super) fn check_completed(&self, at_least: usize) -> Result<(), String> {
        let completed = self.publishers.completed;
        if completed < at_least {
            return Err(format!("of {at_least} exchanges {completed} have completed"));
        }
        Ok(())
    }

    fn is_up(&self, id: u64) -> bool {
        self.machines[&id].is_up(self.now)
    }

    /// Nodes that own a slot by the ring of one of them.
    pub(super) fn owners_of(&self, slot: Slot, id: u64) -> Side {
        let plane = self.machines[&id].plane();
        let owners = plane.into_iter().flat_map(|plane| plane.owners(slot));
        owners.map(|owner| owner.0).collect()
    }

    /// Notes who may have stored the packet ids of exchanges. They go on at connections that a client has
    /// left for another one, until their nodes know that.
    fn note_owners(&mut self) {
        let open: Vec<(Socket, u8)> = self.sockets.iter().map(|(socket, of)| (*socket, *of)).collect();
        for (socket, number) in open {
            let owners = self.owners_of(slot(number), socket.node);
            for (_, exchange) in self.exchanges_of(number) {
                if exchange.stage == Stage::Published && !exchange.owners.contains(&owners) {
                    exchange.owners.insert(owners.clone());
                }
            }
        }
    }

    fn exchanges_of(&mut self, client: u8) -> impl Iterator<Item = (PacketId, &mut Exchange)> {
        let bound = |number| UsedId {
            client,
            packet_id: packet_id(number),
        };
        let of_client = self.publishers.exchanges.range_mut(bound(1)..=bound(u16::MAX));
        of_client.map(|(used, exchange)| (used.packet_id, exchange))
    }

    /// Publishes under the lowest free packet id.
    fn publish_once(&mut self, socket: Socket, number: u8) {
        let used: BTreeSet<PacketId> = self.exchanges_of(number).map(|(id, _)| id).collect();
        let Some(packet_id) = (1..=PACKET_IDS).map(packet_id).find(|id| !used.contains(id)) else {
            return;
        };
        let body = self.next_body();
        let promise = Promise {
            clients: self.subscribed_at(socket.node),
            ..Promise::default()
        };
        self.publishers.promises.insert(body, promise);
        let exchange = Exchange {
            body,
            stage: Stage::Published,
            birth: self.birth_of(number),
            owners: BTreeSet::from([self.owners_of(slot(number), socket.node)]),
        };
        let used = UsedId {
            client: number,
            packet_id,
        };
        self.publishers.exchanges.insert(used, exchange);
        self.send_publish(socket, packet_id, body, false);
    }

    fn send_publish(&mut self, socket: Socket, packet_id: PacketId, body: u32, is_dup: bool) {
        self.with_sessions(socket.node, |sessions, at, actions| {
            let publish = Publish {
                connection: socket.connection,
                packet_id,
                is_dup,
                content: ContentId(u128::from(body)),
                body: Body(body),
            };
            sessions.publish_once(at, publish, actions);
        });
    }

    fn release_received(&mut self, socket: Socket, number: u8) {
        let mut released = Vec::new();
        for (packet_id, exchange) in self.exchanges_of(number) {
            if exchange.stage == Stage::Received {
                exchange.stage = Stage::Released;
                released.push(packet_id);
            }
        }
        for packet_id in released {
            self.with_sessions(socket.node, |sessions, at, actions| {
                sessions.release(at, socket.connection, packet_id, actions);
            });
        }
    }

    /// CONNACK: the client goes on with its exchanges, or forgets them with its session.
    pub(super) fn go_on_with_exchanges(&mut self, socket: Socket, number: u8, is_present: bool) {
        if !is_present {
            return self.forget_exchanges(number);
        }
        let side = self.present_to(socket.node);
        let is_whole = self.is_whole_side(&side);
        let owners = self.owners_of(slot(number), socket.node);
        let birth = self.birth_of(number);
        let goes_by_clocks = self.goes_by_clocks(number);
        let mut again = Vec::new();
        for (packet_id, exchange) in self.exchanges_of(number) {
            // A client that has begun sessions on two sides goes on in the one that beats the other.
            let is_same = exchange.birth == birth;
            exchange.birth = birth;
            match exchange.stage {
                Stage::Published => {
                    let is_held = exchange.owners.iter().all(|held| !held.is_disjoint(&side));
                    again.push((
                        packet_id,
                        exchange.body,
                        is_whole && is_held && is_same && !goes_by_clocks,
                    ));
                    exchange.owners.insert(owners.clone());
                }
                Stage::Released => exchange.stage = Stage::Received,
                Stage::Received => {}
            }
        }
        for (packet_id, body, is_known) in again {
            if !is_known {
                self.except(body);
            }
            self.keep_promise(body, socket.node);
            self.send_publish(socket, packet_id, body, true);
        }
    }

    /// The client forgets its exchanges: its session has ended, or it asks for another one.
    pub(super) fn forget_exchanges(&mut self, number: u8) {
        let exchanges = self.exchanges_of(number);
        let forgotten: Vec<(PacketId, u32)> = exchanges.map(|(id, exchange)| (id, exchange.body)).collect();
        for (packet_id, body) in forgotten {
            self.except(body);
            let client = number;
            self.publishers.exchanges.remove(&UsedId { client, packet_id });
        }
    }

    /// Body of a message that is not published with QoS 2, and that has a number of its own.
    pub(super) fn next_body(&mut self) -> u32 {
        self.publishers.last += 1;
        FIRST_ONCE + self.publishers.last
    }

    /// A message that the primary owner of a will publishes.
    pub(super) fn publish_will(&mut self) -> u32 {
        let body = self.next_body();
        let promise = Promise {
            is_excepted: true,
            ..Promise::default()
        };
        self.publishers.promises.insert(body, promise);
        body
    }

    /// A will that comes once from here on, or not at all.
    pub(super) fn promise_will(&mut self, body: u32, node: u64, is_dropped: bool) {
        let clients = if is_dropped {
            BTreeSet::new()
        } else {
            self.subscribed_at(node)
        };
        let promise = Promise {
            clients,
            is_acknowledged: true,
            is_excepted: false,
            is_dropped,
        };
        self.publishers.promises.insert(body, promise);
    }

    /// Every process that runs is on this side, and takes the others for present.
    pub(super) fn is_whole_side(&self, side: &Side) -> bool {
        let mut running = self
            .machines
            .iter()
            .filter(|(_, machine)| machine.sessions.is_some());
        running.all(|(id, _)| self.present_to(*id) == *side)
    }

    /// A message that goes on elsewhere stays promised to those to whom it would be promised anew.
    fn keep_promise(&mut self, body: u32, node: u64) {
        let subscribed = self.subscribed_at(node);
        if let Some(promise) = self.publishers.promises.get_mut(&body) {
            promise.clients.retain(|number| subscribed.contains(number));
        }
    }

    fn except(&mut self, body: u32) {
        if let Some(promise) = self.publishers.promises.get_mut(&body) {
            promise.is_excepted = true;
        }
    }

    /// PUBREC.
    pub(super) fn received(&mut self, socket: Socket, packet_id: PacketId) {
        let Some(number) = self.client_of(socket) else {
            return;
        };
        let used = UsedId {
            client: number,
            packet_id,
        };
        match self.publishers.exchanges.get_mut(&used) {
            Some(exchange) if exchange.stage == Stage::Published => {
                exchange.stage = Stage::Received;
                let promise = self.publishers.promises.get_mut(&exchange.body);
                promise.expect("each message has one").is_acknowledged = true;
            }
            other => {
                let found = format!("PUBREC of {number} for {packet_id:?}, which is {other:?}");
                self.fail(found);
            }
        }
    }

    /// PUBCOMP.
    pub(super) fn freed(&mut self, socket: Socket, packet_id: PacketId) {
        let Some(number) = self.client_of(socket) else {
            return;
        };
        let used = UsedId {
            client: number,
            packet_id,
        };
        let exchange = self.publishers.exchanges.remove(&used);
        if exchange.is_none_or(|exchange| exchange.stage != Stage::Released) {
            self.fail(format!("PUBCOMP of {number} for {packet_id:?} without PUBREL"));
        }
        self.publishers.completed += 1;
    }

    /// A session has ended: nothing is promised to it.
    pub(super) fn forget_promises_to(&mut self, number: u8) {
        for promise in self.publishers.promises.values_mut() {
            promise.clients.remove(&number);
        }
        self.publishers.taken.retain(|taken, _| taken.client != number);
    }

    /// Releases what was received.
    pub(super) fn release_all(&mut self) {
        for number in CONNECTING {
            if let Some(socket) = self.live_socket(number) {
                self.release_received(socket, number);
            }
        }
    }

    /// A session has each QoS 2 message once, or has taken it.
    pub(super) fn check_once(&self, id: u64, number: u8, queue: &[QueuedBody]) -> Result<(), String> {
        for (body, promise) in &self.publishers.promises {
            let queued = queue.iter().filter(|queued| queued.body == *body);
            let mut numbers: BTreeSet<Dot> = queued.map(|queued| queued.dot).collect();
            let (client, body) = (number, *body);
            let taken = self.publishers.taken.get(&TakenBody { client, body });
            numbers.extend(taken.into_iter().flatten());
            if numbers.len() > 1 && !promise.is_excepted {
                return Err(format!(
                    "{id} has {body} for {number} as {numbers:?}, with {taken:?}"
                ));
            }
            if promise.is_dropped && !numbers.is_empty() {
                return Err(format!(
                    "{id} has the will {body} for {number}, which was dropped"
                ));
            }
            let is_promised = promise.is_acknowledged && promise.clients.contains(&number);
            if is_promised && numbers.is_empty() {
                return Err(format!("{id} lost {body} for {number}"));
            }
        }
        Ok(())
    }
}
