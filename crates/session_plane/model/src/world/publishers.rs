//! Clients that publish with QoS 2: they reuse the lowest free packet id, keep what is on its way, and send it again.
//!
//! A client that changes sides of a split in the middle of an exchange may have its message routed on both (promise Q2 excepts
//! that), and so may one whose holders are all down. What they publish then is checked for less.

use std::collections::BTreeMap;

use super::World;
use super::clients::Place;
use super::network::Speed;
use crate::event::EntryKind;
use crate::ids::{ClientId, Dot, NodeId, NodeSet};
use crate::node::Publish;
use crate::random::{Purpose, Random};

/// Packet ids that a client uses at once.
const PACKET_IDS: u8 = 2;

/// A number that a PUBLISH was given, and the dot of its packet id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Copy {
    pub(super) number: Dot,
    pub(super) entry: Dot,
}

/// How far an exchange is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Published,
    Received,
    Released,
}

/// What an exchange is excepted from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Exception {
    None,
    /// The client has changed sides.
    Moved,
    /// All holders are down.
    HoldersDown,
}

/// A QoS 2 message as its publisher keeps it.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    content: u32,
    stage: Stage,
    connection: Dot,
    copies: Vec<Copy>,
    exception: Exception,
}

/// A message by its publisher.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Source {
    client: ClientId,
    content: u32,
}

/// A process that ends soon.
#[derive(Clone, Copy, Debug)]
struct PlannedCrash {
    at: u32,
    node: NodeId,
}

/// All that was published with QoS 2.
#[derive(Clone, Debug, Default)]
pub(super) struct Publishers {
    pub(super) last: u32,
    sources: BTreeMap<Dot, Source>,
    exceptions: BTreeMap<Source, Exception>,
    /// Numbers that were routed, with the nodes that were sent their packet ids.
    pub(super) routed: BTreeMap<Dot, NodeSet>,
    planned: Vec<PlannedCrash>,
}

impl Publishers {
    /// The message of `client` under `number` is `content`.
    pub(super) fn name(&mut self, number: Dot, client: ClientId, content: u32) {
        self.sources.insert(number, Source { client, content });
    }

    pub(super) fn forget_plans(&mut self) {
        self.planned.clear();
    }
}

impl World {
    /// Clients publish with QoS 2. Not in each history, so that the others stay as sharp for everything else.
    pub(super) fn has_publishers(&self) -> bool {
        !self.seed.is_multiple_of(2)
    }

    /// Beside an action of the plan a client publishes; its node may end soon after, or the client may move.
    pub(super) fn act_as_publisher(&mut self, index: u32) {
        if !self.has_publishers() {
            return;
        }
        let mut random = Random::new(self.seed, Purpose::PublisherAction(index));
        if random.chance(1, 3) {
            return;
        }
        let client = ClientId(random.below(crate::ids::CLIENTS) as u8);
        let (both, crashes, moves) = (random.chance(1, 3), random.chance(1, 5), random.chance(1, 4));
        let (later, to) = (random.ticks(8), random.below(64));
        let alive: Vec<NodeId> = self.alive().iter().collect();
        if alive.is_empty() {
            return;
        }
        let target = alive[to % alive.len()];
        let Some(place) = self.client(client).at else {
            if moves || both {
                self.say(|| format!("CONNECT client {} at {}", client.0, target.0));
                self.connect(client, target, false);
            }
            return;
        };
        if random.chance(1, 5) {
            self.slow_down(place.node, &mut random);
        }
        self.publish_once(client);
        if both {
            self.publish_once(ClientId(1 - client.0));
        }
        if crashes && alive.len() > 1 {
            self.plan_crash(place.node, later);
        } else if moves {
            self.say(|| format!("client {} moves to {}", client.0, target.0));
            self.connect(client, target, false);
        }
    }

    /// Ends the process of `node` in the next tick or `later`.
    pub(super) fn plan_crash(&mut self, node: NodeId, later: u32) {
        let at = self.now + 1 + later;
        self.publishers.planned.push(PlannedCrash { at, node });
    }

    /// Slows or cuts the link to one other node, while a message is on its way.
    pub(super) fn slow_down(&mut self, node: NodeId, random: &mut Random) {
        let other = NodeId(random.below(self.machines.len()) as u8);
        if other != node {
            let speed = if random.chance(3, 4) {
                Speed::Slow
            } else {
                Speed::Cut
            };
            self.say(|| format!("LINK {} to {} {speed:?}", node.0, other.0));
            self.network.set(node, other, speed);
        }
    }

    /// Sends a PUBLISH under the lowest free packet id.
    fn publish_once(&mut self, client: ClientId) {
        let Some(place) = self.client(client).at else {
            return;
        };
        let exchanges = &self.client(client).exchanges;
        let free = (1..=PACKET_IDS).find(|packet_id| !exchanges.contains_key(packet_id));
        let Some(packet_id) = free.filter(|_| self.node(place.node).is_live(place.connection)) else {
            return;
        };
        self.publishers.last += 1;
        let content = self.publishers.last;
        self.counters.numbered += 1;
        self.say(|| {
            format!(
                "PUBLISH QoS 2 client {} id {packet_id} content {content} at {}",
                client.0, place.node.0
            )
        });
        self.promise_once(content, place.node);
        let exchange = Exchange {
            content,
            stage: Stage::Published,
            connection: place.connection,
            copies: Vec::new(),
            exception: Exception::None,
        };
        self.client_mut(client).exchanges.insert(packet_id, exchange);
        self.send_publish(place, packet_id, content, false);
    }

    /// Promises a message with a number to those who have subscribed on the side of `node`.
    pub(super) fn promise_once(&mut self, content: u32, node: NodeId) {
        for subscriber in ClientId::all() {
            if let Some(subscription) = self.promise_of(subscriber, node) {
                self.client_mut(subscriber)
                    .promised_once
                    .add(content, subscription);
            }
        }
    }

    fn send_publish(&mut self, place: Place, packet_id: u8, content: u32, dup: bool) {
        let publish = Publish {
            connection: place.connection,
            packet_id,
            content,
            dup,
        };
        self.step_node(place.node, 1, |node, step| node.publish_once(step, publish));
    }

    /// The client forgets its exchanges with its session.
    pub(super) fn drop_exchanges(&mut self, client: ClientId) {
        for exchange in std::mem::take(&mut self.client_mut(client).exchanges).into_values() {
            let content = exchange.content;
            self.publishers
                .exceptions
                .insert(Source { client, content }, Exception::Moved);
            for subscriber in &mut self.clients {
                subscriber.promised_once.acknowledge(content, false);
            }
        }
    }

    /// After a CONNECT the client sends again what was not received, and releases again what was.
    pub(super) fn publish_again(&mut self, client: ClientId, place: Place, present: bool) {
        if !present {
            self.drop_exchanges(client);
            return;
        }
        let exchanges: Vec<_> = self.client(client).exchanges.clone().into_iter().collect();
        for (packet_id, exchange) in exchanges {
            let exception = self.exception_of(client, place.node, &exchange);
            let content = exchange.content;
            if exception != Exception::None {
                self.publishers
                    .exceptions
                    .insert(Source { client, content }, exception);
            }
            let Some(kept) = self.client_mut(client).exchanges.get_mut(&packet_id) else {
                continue;
            };
            kept.exception = exception;
            kept.connection = place.connection;
            if kept.stage == Stage::Released {
                kept.stage = Stage::Received;
            }
            if exchange.stage == Stage::Published && self.goes_on() {
                self.keep_candidates(content, place.node);
                self.say(|| {
                    format!(
                        "PUBLISH DUP client {} id {packet_id} content {content} {exception:?}",
                        client.0
                    )
                });
                self.send_publish(place, packet_id, content, true);
            }
        }
    }

    /// A message stays promised only if it would be promised anew.
    pub(super) fn keep_candidates(&mut self, content: u32, node: NodeId) {
        for subscriber in ClientId::all() {
            let promise = self.promise_of(subscriber, node);
            self.client_mut(subscriber)
                .promised_once
                .keep_if(&content, promise);
        }
    }

    /// What excepts an exchange that goes on at `node`.
    fn exception_of(&self, client: ClientId, node: NodeId, exchange: &Exchange) -> Exception {
        let mut exception = exchange.exception;
        if exchange.stage != Stage::Published {
            return exception;
        }
        let side = self.node(node).membership.view.present;
        for copy in &exchange.copies {
            let run_node = self.directory.node(copy.number.run);
            let holds = |id: NodeId| self.holds_entry(id, client, copy.entry);
            let elsewhere = self.alive().minus(side);
            let is_running = |id: NodeId| {
                id == run_node && self.node(id).sender.run.of_numbers() == copy.number.run
                    || id == self.directory.node(exchange.connection.run)
                        && self.node(id).sender.run == exchange.connection.run
            };
            let is_elsewhere = elsewhere.iter().any(|id| holds(id) || is_running(id));
            let holders = self
                .publishers
                .routed
                .get(&copy.number)
                .copied()
                .unwrap_or_default();
            let is_here = side
                .and(self.alive())
                .iter()
                .any(|id| holds(id) || holders.has(id) && self.knows_entry(id, client, copy.entry));
            // One of several numbers whose packet id is on a disk that is away may be gone on with later.
            let is_one_of_several =
                exchange.copies.len() > 1 && !self.takers(copy.entry).minus(self.lost).is_empty();
            // What was routed is a hole for others once its run tells of it, though nobody may have taken it.
            let may_come = self.publishers.routed.contains_key(&copy.number) || is_one_of_several;
            if is_elsewhere {
                exception = Exception::Moved;
            } else if !is_here && exception == Exception::None && may_come {
                exception = Exception::HoldersDown;
            }
        }
        if self.is_of_other_side(exchange.connection, side) {
            exception = Exception::Moved;
        }
        exception
    }

    /// The run of `connection` lives on another side.
    fn is_of_other_side(&self, connection: Dot, side: NodeSet) -> bool {
        let node = self.directory.node(connection.run);
        self.machines[node.index()].is_alive && !side.has(node)
    }

    /// `node` has not handed its copy over since it had the packet id `dot`.
    fn knows_entry(&self, node: NodeId, client: ClientId, dot: Dot) -> bool {
        let copy = self.node(node).copy(self.directory.slot(client));
        copy.is_some_and(|copy| copy.content.known().has(dot))
    }

    fn holds_entry(&self, node: NodeId, client: ClientId, dot: Dot) -> bool {
        let copy = self.node(node).copy(self.directory.slot(client));
        copy.is_some_and(|copy| {
            let mut entries = copy.content.entries.iter();
            entries.any(|entry| entry.kind == EntryKind::Received && entry.dot == dot)
        })
    }

    /// Planned crashes, clients that change sides while they connect, and PUBREL.
    pub(super) fn tick_publishers(&mut self) {
        let mut random = Random::new(self.seed, Purpose::PublisherTick(self.now));
        for planned in std::mem::take(&mut self.publishers.planned) {
            if planned.at > self.now {
                self.publishers.planned.push(planned);
            } else if self.alive().has(planned.node) && self.alive().len() > 1 {
                self.say(|| format!("CRASH {} (planned)", planned.node.0));
                self.crash(planned.node, &mut random);
            }
        }
        for client in ClientId::all() {
            self.watch_sides(client);
            self.send_pubrels(client, &mut random);
        }
    }

    /// A client changes sides if its new node and its old one do not have each other.
    fn watch_sides(&mut self, client: ClientId) {
        let Some(connecting) = self.client(client).connecting else {
            return;
        };
        let new = connecting.place.node;
        let mut exchanges = std::mem::take(&mut self.client_mut(client).exchanges);
        for exchange in exchanges
            .values_mut()
            .filter(|exchange| exchange.stage == Stage::Published)
        {
            let old = self.directory.node(exchange.connection.run);
            let is_same_run = self.node(old).sender.run == exchange.connection.run;
            let lives = self.machines[old.index()].is_alive && is_same_run;
            let have_each_other = self.node(old).membership.has(new) && self.node(new).membership.has(old);
            if old != new && lives && !have_each_other {
                exchange.exception = Exception::Moved;
            }
        }
        self.client_mut(client).exchanges = exchanges;
    }

    fn send_pubrels(&mut self, client: ClientId, random: &mut Random) {
        let Some(place) = self.client(client).at else {
            return;
        };
        if !self.alive().has(place.node) {
            return;
        }
        let exchanges = self.client(client).exchanges.iter();
        let received = exchanges.filter(|(_, exchange)| exchange.stage == Stage::Received);
        let ids: Vec<u8> = received.map(|(packet_id, _)| *packet_id).collect();
        for packet_id in ids.into_iter().filter(|_| random.chance(1, 3)) {
            self.say(|| format!("PUBREL of client {} id {packet_id}", client.0));
            if let Some(exchange) = self.client_mut(client).exchanges.get_mut(&packet_id) {
                exchange.stage = Stage::Released;
            }
            let connection = place.connection;
            self.step_node(place.node, 1, |node, step| {
                node.release_packet_id(step, connection, packet_id);
            });
        }
    }

    /// A node has given a PUBLISH or a will a number.
    pub(super) fn numbered(&mut self, node: NodeId, client: ClientId, content: u32, copy: Copy) {
        self.keep_candidates(content, node);
        self.say(|| {
            format!(
                "  number {:?}, packet id {:?}, content {content}",
                copy.number, copy.entry
            )
        });
        self.published_at.insert(copy.number, self.now);
        self.publishers.name(copy.number, client, content);
        self.will_numbered(node, content, copy.number, copy.entry);
        let exchanges = self.client_mut(client).exchanges.values_mut();
        for exchange in exchanges.filter(|exchange| exchange.content == content) {
            exchange.copies.push(copy);
        }
    }

    pub(super) fn pubrec(&mut self, client: ClientId, place: Place, packet_id: u8, content: u32) {
        if self.client(client).at != Some(place) {
            return;
        }
        let is_checked = self.lost.is_empty();
        let Some(exchange) = self.client_mut(client).exchanges.get_mut(&packet_id) else {
            return;
        };
        if exchange.stage != Stage::Published {
            return;
        }
        let (mine, exception) = (exchange.content, exchange.exception);
        exchange.stage = Stage::Received;
        if mine != content {
            self.publishers.exceptions.insert(
                Source {
                    client,
                    content: mine,
                },
                exception,
            );
            if exception == Exception::None && is_checked {
                self.fail(format!(
                    "Q2 swallowed: client {} id {packet_id}: {mine} gets PUBREC of {content}",
                    client.0
                ));
            }
            return;
        }
        self.say(|| format!("PUBREC client {} id {packet_id} content {content}", client.0));
        for subscriber in &mut self.clients {
            let counts = exception == Exception::None && !subscriber.received_once.contains_key(&content);
            self.counters.expected += u64::from(subscriber.promised_once.acknowledge(content, counts));
        }
    }

    pub(super) fn pubcomp(&mut self, client: ClientId, place: Place, packet_id: u8) {
        let known = self.client_mut(client);
        let exchange = known.exchanges.get(&packet_id);
        if known.at == Some(place) && exchange.is_some_and(|exchange| exchange.stage == Stage::Released) {
            known.exchanges.remove(&packet_id);
            self.counters.completed += 1;
            self.say(|| format!("PUBCOMP client {} id {packet_id}", client.0));
        }
    }

    /// Q2: a message of a client reaches a session under one number.
    pub(super) fn delivered_once(&mut self, id: ClientId, message: Dot) {
        let Some(source) = self.publishers.sources.get(&message).copied() else {
            return;
        };
        let content = source.content;
        let exchanges = self.client(source.client).exchanges.values();
        let current = exchanges
            .filter(|exchange| exchange.content == content)
            .map(|exchange| exchange.exception);
        let noted = self.publishers.exceptions.get(&source).copied();
        let exception = current.chain(noted).max().unwrap_or(Exception::None);
        let client = self.client_mut(id);
        client.promised_once.fulfil(&content);
        let before = client.received_once.insert(content, message);
        let is_checked = exception == Exception::None && self.lost.is_empty();
        if let Some(before) = before.filter(|before| is_checked && *before != message) {
            self.fail(format!(
                "Q2 twice: client {} gets {content} as {before:?} and {message:?}",
                id.0
            ));
        }
    }

    /// A client will not get a QoS 2 message any more, and that is excepted.
    pub(super) fn excuse_once(&mut self, id: ClientId, message: Dot) {
        if let Some(source) = self.publishers.sources.get(&message).copied() {
            self.client_mut(id).promised_once.fulfil(&source.content);
        }
    }

    /// At the end each exchange is complete, and nothing that was promised is missing.
    pub(super) fn check_exchanges(&mut self, id: ClientId) {
        let client = self.client(id);
        let is_lost = |dot: Dot| self.takers(dot).minus(self.lost).is_empty();
        let session_is_lost = client.birth.is_some_and(is_lost);
        let missed = client
            .promised_once
            .expected()
            .iter()
            .next()
            .filter(|_| self.has_lost_few() && !session_is_lost && !self.went_by_clocks(id));
        if let Some((content, by)) = missed {
            self.fail(format!("Q2 lost: client {} never got {content} by {by:?}", id.0));
            return;
        }
        let client = self.client(id);
        if client.at.is_some() && !client.exchanges.is_empty() {
            let text = format!("Q2 stuck: client {} has {:?}", id.0, client.exchanges);
            self.fail(text);
        }
    }
}
