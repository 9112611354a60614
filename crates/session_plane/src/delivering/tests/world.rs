//! World of a history: four nodes, of which two own each client's slot, and clients that receive with
//! QoS 1 and 2.
//!
//! Nodes crash and come back as another run, with their disks. Splits part them; each side has owners
//! of its own. Copies of a side merge at once when its ring changes. All else is under way for a
//! while: events in the order of their run, what a node hears of its own events in any order, and
//! what a feed tells whenever its owner tells it.

use crate::delivering::tests::*;

mod client;
mod cluster;
mod copy;
mod feed;
mod groups;
mod machine;
mod rest;
mod unstored;

use client::Client;
use copy::{Event, Fact};
use feed::FeedUpdate;
use machine::{GroupAcknowledgement, Machine, Wait};

pub(super) const NODES: usize = 4;
pub(super) const CLIENTS: usize = 2;
/// Owners of a client's slot on each side.
const OWNERS: usize = 2;
/// Deliveries of a connection at most.
const IN_FLIGHT_MAX: u16 = 4;
/// Receive Maximum of clients.
const RECEIVE_MAXIMUM: u16 = 3;
/// Difference of the clocks of two nodes.
const CLOCK_SKEW: u64 = 5;
/// Messages of groups that one connection has at most.
const GIVEN_MAX: usize = 2;

/// Message from one node to another.
#[derive(Debug, Clone)]
enum Content {
    Event(Event),
    Confirmed(Dot),
    Fed { feed: u64, update: FeedUpdate },
}

/// Content of a PUBLISH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Payload {
    message: Dot,
    is_of_group: bool,
}

impl Payload {
    fn queued(message: Dot) -> Payload {
        let is_of_group = false;
        Payload { message, is_of_group }
    }
}

/// Message, and the client that it is for.
#[derive(Debug, Clone, Copy)]
struct PublishedMessage {
    client: usize,
    qos: DeliveryQos,
}

#[derive(Debug)]
pub(super) struct World {
    machines: Vec<Machine>,
    clients: Vec<Client>,
    links: BTreeMap<(usize, usize), VecDeque<Content>>,
    /// Side of each node.
    sides: Vec<bool>,
    clock: u64,
    feeds: u64,
    published: BTreeMap<Dot, PublishedMessage>,
    /// Messages that groups have given. Those that have moved are published, too, by the event of the move.
    of_groups: BTreeMap<Dot, PublishedMessage>,
    /// Connections that move messages out of groups, by the events of the moves. A move that every node knows is
    /// there no more.
    moving: BTreeMap<Dot, ConnectionId>,
    /// Messages with PUBACK.
    acknowledged: BTreeSet<Dot>,
    /// Messages that were removed without the client.
    excepted: BTreeSet<Dot>,
    /// Runs that have removed an entry.
    removers: BTreeMap<Dot, BTreeSet<Run>>,
    /// Packet ids of entries.
    ids: BTreeMap<Dot, PacketId>,
}

impl World {
    pub(super) fn new() -> World {
        let mut world = World {
            machines: (0..NODES).map(Machine::new).collect(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            links: BTreeMap::new(),
            sides: vec![true; NODES],
            clock: 0,
            feeds: 0,
            published: BTreeMap::new(),
            of_groups: BTreeMap::new(),
            moving: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            excepted: BTreeSet::new(),
            removers: BTreeMap::new(),
            ids: BTreeMap::new(),
        };
        world.change_rings();
        world
    }

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Deliver { from, to } => self.deliver(*from, *to),
            Step::DeliverEach => self.deliver_each(),
            Step::Hear { node, at } => self.hear(*node, *at),
            Step::Feed { client } => self.feed(*client),
            Step::Read { client } => self.read(*client),
            Step::Answer { client } => self.answer(*client),
            Step::Publish { node, client, qos } => self.publish(*node, *client, *qos),
            Step::Give { client, qos, at } => self.give_of_group(*client, *qos, *at),
            Step::Request { client } => self.request(*client),
            Step::Pause { client, is_paused } => self.pause(*client, *is_paused),
            Step::GroupKnows { node } => self.group_knows(*node),
            Step::Expire { client, at } => self.expire(*client, *at),
            Step::Mismatch { client, node, at } => self.mismatch(*client, *node, *at),
            Step::Connect { client, node } => self.connect(*client, *node),
            Step::Disconnect { client } => self.disconnect(*client),
            Step::Crash { node } => self.crash(*node),
            Step::Detect => self.detect(),
            Step::Restart { node } => self.restart(*node),
            Step::Split { side } => {
                self.sides = (0..NODES).map(|node| side >> node & 1 == 1).collect();
                self.change_rings();
            }
            Step::Heal => {
                self.sides = vec![true; NODES];
                self.change_rings();
            }
        }
    }

    fn tick(&mut self) -> Hlc {
        self.clock += 1;
        Hlc::at(self.clock)
    }

    /// Tells the machine of a node, and does what it says.
    fn tell(&mut self, node: usize, event: DeliveringEvent<Payload>) {
        let mut actions = Vec::new();
        self.machines[node].delivering.step(event, &mut actions);
        for action in actions {
            self.act(node, action);
        }
    }

    fn act(&mut self, node: usize, action: DeliveringAction<Payload>) {
        match action {
            DeliveringAction::Write(written) => self.write_delivery(node, written),
            DeliveringAction::Remove(removed) => self.remove(node, removed),
            DeliveringAction::LetGo { connection, key } => {
                for client in &mut self.clients {
                    if let Some(feed) = client.feed_of(node, connection) {
                        feed.held.remove(&key);
                    }
                }
            }
            DeliveringAction::Move {
                connection, message, ..
            } => self.move_into_queue(node, connection, message),
            DeliveringAction::AcknowledgeGroup { connection, message } => {
                let message = message.message;
                self.free_ids_of_group(node, connection, message);
                let acknowledged = GroupAcknowledgement {
                    connection,
                    message,
                    moved: None,
                };
                self.machines[node].of_groups.push_back(acknowledged);
            }
            DeliveringAction::SendPublish(published) => self.send_publish(node, published),
            DeliveringAction::Grant {
                connection,
                packet_id,
                ..
            } => self.send_unstored(node, connection, packet_id),
            DeliveringAction::SendPubrel {
                connection,
                packet_id,
                is_found,
            } => {
                assert!(is_found, "clients name what they were sent");
                self.send_pubrel(node, connection, packet_id);
            }
            DeliveringAction::Disconnect { reason, .. } => panic!("clients keep to the protocol: {reason}"),
        }
    }

    fn write_delivery(&mut self, node: usize, written: WrittenDelivery) {
        let WrittenDelivery {
            connection,
            client,
            message,
            delivery,
            removes,
        } = written;
        let (client, packet_id) = (self.client_of(&client), delivery.packet_id);
        let payload = self.payload_at(node, connection, packet_id, message);
        self.use_id(node, connection, packet_id, payload);
        if let Some(place) = self.place_at(node, connection) {
            place.written.insert(packet_id);
        }
        let fact = Fact::Delivery { message, delivery };
        let wait = Wait::Stored {
            connection,
            packet_id,
        };
        let entry = self.write(node, client, removes, Some(fact), Some(wait));
        self.ids.insert(entry, packet_id);
        self.clients[client].given_ids.insert(entry, payload);
    }

    fn client_of(&self, id: &ClientId) -> usize {
        let found = (0..CLIENTS).find(|client| client_id(*client) == *id);
        found.expect("a client of this world")
    }

    fn remove(&mut self, node: usize, removed: RemovedDelivery) {
        let RemovedDelivery {
            connection,
            client,
            message,
            held,
            deliveries,
        } = removed;
        let client = self.client_of(&client);
        self.free_ids_of(node, connection, message, &deliveries);
        let removes = deliveries.into_iter().chain(message).collect();
        let wait = message.map(|message| Wait::Removed { connection, message });
        self.write(node, client, removes, None, wait);
        if let Some(feed) = self.clients[client].feed_of(node, connection) {
            feed.held.extract_if(.., |key| Some(*key) == held).for_each(drop);
        }
    }

    /// Makes an event of a node.
    fn write(
        &mut self,
        node: usize,
        client: usize,
        removes: Vec<Dot>,
        adds: Option<Fact>,
        wait: Option<Wait>,
    ) -> Dot {
        let dot = self.machines[node].next_dot();
        let run = dot.run;
        for removed in &removes {
            self.removers.entry(*removed).or_default().insert(run);
        }
        if let Some(feed) = self.clients[client].feed_at(node) {
            feed.told.retain(|told, _| !removes.contains(told));
        }
        let event = Event {
            client,
            dot,
            removes,
            adds,
        };
        self.machines[node].known[client].insert(dot);
        self.machines[node].undurable.insert(dot, event.clone());
        self.machines[node].waits.extend(wait.map(|wait| (dot, wait)));
        self.give(node, &event);
        dot
    }

    /// Sends an event to the owners that its node sees.
    fn give(&mut self, node: usize, event: &Event) {
        for owner in machine::owners(event.client, &self.machines[node].view) {
            self.send(node, owner, Content::Event(event.clone()));
        }
    }

    fn send(&mut self, from: usize, to: usize, content: Content) {
        self.links.entry((from, to)).or_default().push_back(content);
    }

    fn deliver(&mut self, from: usize, to: usize) {
        let next = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let Some(content) = next.filter(|_| self.machines[to].is_up) else {
            return;
        };
        match content {
            // It goes to the owners of the new ring, too.
            Content::Event(event) if !self.is_owner(event.client, to) => {}
            Content::Event(event) => {
                self.machines[to].copies[event.client].apply(&event);
                self.send(to, from, Content::Confirmed(event.dot));
            }
            Content::Confirmed(dot) => self.machines[to].confirm(from, dot),
            Content::Fed { feed, update } => self.receive_feed(to, feed, update),
        }
    }

    fn deliver_each(&mut self) {
        let links: Vec<(usize, usize)> = self.links.keys().copied().collect();
        for (from, to) in links {
            self.deliver(from, to);
        }
    }

    /// A node hears that one of its events is durable.
    fn hear(&mut self, node: usize, at: usize) {
        if !self.machines[node].is_up {
            return;
        }
        let acknowledged = self.machines[node].acknowledge();
        self.acknowledged.extend(acknowledged);
        if let Some((dot, wait)) = self.machines[node].take_durable(at) {
            match wait {
                Wait::Stored {
                    connection,
                    packet_id,
                } => {
                    self.note_stored(node, connection, packet_id, dot);
                    self.tell(
                        node,
                        DeliveringEvent::Stored {
                            connection,
                            packet_id,
                            entry: dot,
                        },
                    );
                }
                Wait::Removed { connection, message } => {
                    self.tell(node, DeliveringEvent::Removed { connection, message });
                }
            }
        }
    }

    fn publish(&mut self, node: usize, client: usize, qos: DeliveryQos) {
        if !self.machines[node].is_up {
            return;
        }
        // Wall clocks of nodes differ: what comes later may go before.
        self.tick();
        let clock = Hlc::at(self.clock + CLOCK_SKEW * node as u64);
        let dot = self.write(node, client, Vec::new(), Some(Fact::Message { clock }), None);
        self.published.insert(dot, PublishedMessage { client, qos });
        self.machines[node].acknowledging.insert(dot);
    }

    /// Queued message of a client, and an owner that has it.
    fn queued(&self, client: usize, at: usize) -> Option<(usize, Dot)> {
        let up = (0..NODES).filter(|node| self.machines[*node].is_up);
        let queued = up.flat_map(|node| {
            let messages = self.machines[node].copies[client].messages();
            messages.map(move |key| (node, key.dot))
        });
        let queued: Vec<(usize, Dot)> = queued.collect();
        (!queued.is_empty()).then(|| queued[at % queued.len()])
    }

    fn expire(&mut self, client: usize, at: usize) {
        if let Some((node, message)) = self.queued(client, at) {
            self.excepted.insert(message);
            self.write(node, client, vec![message], None, None);
        }
    }

    /// The copy of a node covers a message that it lacks.
    fn mismatch(&mut self, client: usize, node: usize, at: usize) {
        let lacks = |message: &Dot| !self.machines[node].copies[client].covered.contains(message);
        let queued = self.queued(client, at).filter(|(_, message)| lacks(message));
        let is_owner = self.is_owner(client, node);
        if let Some((_, message)) = queued.filter(|_| is_owner) {
            self.excepted.insert(message);
            self.machines[node].copies[client].covered.insert(message);
        }
    }

    fn is_owner(&self, client: usize, node: usize) -> bool {
        let machine = &self.machines[node];
        machine.is_up && machine::owners(client, &machine.view).contains(&node)
    }
}
