//! World of a history: four nodes, of which two own each client's slot, and clients that publish.
//!
//! Nodes crash and come back as another run, with their disks. There is no split: what was given up
//! is down. Copies merge at once when the ring changes. All else is under way for a while, in any
//! order.

use super::*;

mod client;
mod machine;

use client::Client;
use machine::{Disk, Machine};

pub(super) const NODES: usize = 4;
pub(super) const CLIENTS: usize = 2;
/// Owners of a client's slot.
const OWNERS: usize = 2;

/// Message under way.
#[derive(Debug, Clone)]
struct Packet {
    from: Run,
    to: Run,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    /// Event that changes a client's entries.
    Entry(EntryEvent),
    EntryConfirmed {
        entry: Dot,
    },
    Route {
        message: NumberedMessage,
        marker: u64,
    },
    RouteConfirmed(ConfirmRoute),
    /// What a node tells its own publishing a little later.
    Own(PublishingEvent),
}

/// Event of a packet id.
#[derive(Debug, Clone)]
struct EntryEvent {
    client: usize,
    entry: UseEntry,
    removes: Vec<Dot>,
}

/// What the whole world has seen.
#[derive(Debug, Default)]
struct Seen {
    /// Message of each number.
    messages: BTreeMap<Dot, u128>,
    /// Number under which each message was routed.
    numbers: BTreeMap<u128, Dot>,
    /// Clock under which each number was routed.
    clocks: BTreeMap<Dot, Hlc>,
    /// Highest number that each run has routed.
    highest: BTreeMap<Run, u64>,
    given_up: BTreeSet<Dot>,
}

#[derive(Debug)]
pub(super) struct World {
    machines: Vec<Machine>,
    clients: Vec<Client>,
    under_way: Vec<Packet>,
    clock: u64,
    last_message: u128,
    seen: Seen,
}

impl World {
    pub(super) fn new() -> World {
        let mut world = World {
            machines: (0..NODES).map(Machine::new).collect(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            under_way: Vec::new(),
            clock: 0,
            last_message: 0,
            seen: Seen::default(),
        };
        world.change_ring();
        (0..NODES).for_each(|node| world.tell(node, PublishingEvent::RoutesMerged(true)));
        world
    }

    pub(super) fn step(&mut self, step: &Step) {
        match *step {
            Step::Deliver(which) if !self.under_way.is_empty() => {
                let index = which.index(self.under_way.len());
                self.deliver(index);
            }
            Step::Deliver(_) => {}
            Step::Publish { client, id } => self.publish(client, packet_id(id)),
            Step::Connect { client, node } => self.connect(client, node),
            Step::Disconnect { client } => self.disconnect(client),
            Step::Forget { client } => {
                self.disconnect(client);
                self.clients[client].exchanges.clear();
            }
            Step::Pubrel { client, id } => self.pubrel(client, packet_id(id)),
            Step::Crash { node } => self.crash(node),
            Step::Detect => self.detect(),
            Step::Restart { node } => self.restart(node),
            Step::MergeRoutes { node } if self.machines[node].is_up => {
                self.tell(node, PublishingEvent::RoutesMerged(true));
            }
            Step::MergeRoutes { .. } => {}
        }
    }

    fn tick(&mut self) -> Hlc {
        self.clock += 1;
        Hlc::at(self.clock)
    }

    fn up(&self) -> Vec<usize> {
        (0..NODES).filter(|node| self.machines[*node].is_up).collect()
    }

    /// Tells the publishing of a node, and does what it says.
    fn tell(&mut self, node: usize, event: PublishingEvent) {
        let mut actions = Vec::new();
        let told = self.machines[node].publishing.step(event, &mut actions);
        assert_eq!(told, Ok(()));
        let given_up = self.machines[node].publishing.given_up();
        self.seen.given_up.extend(given_up);
        for action in actions {
            self.act(node, action);
        }
    }

    fn act(&mut self, node: usize, action: PublishingAction) {
        match action {
            PublishingAction::Write {
                connection,
                client,
                packet_use,
                removes,
                ..
            } => {
                let client = self.client_of(&client);
                let entry = self.write(node, client, packet_use, removes);
                self.tell_written(node, connection, entry);
            }
            PublishingAction::GiveAgain { entry, .. } => self.give_again(node, entry),
            PublishingAction::AwaitStored {
                number,
                entry,
                marker,
                ..
            } => {
                self.machines[node].await_stored(number, entry, marker);
                self.complete_waits(node);
            }
            PublishingAction::Route {
                message,
                clock,
                to,
                marker,
                ..
            } => {
                let first = *self.seen.clocks.entry(message.number).or_insert(clock);
                assert_eq!(first, clock, "a message has one clock");
                self.route(node, message, &to, marker);
            }
            PublishingAction::SendPubrec {
                connection,
                packet_id,
            } => self.receive_pubrec(node, connection, packet_id),
            PublishingAction::SendPubcomp {
                connection,
                packet_id,
                ..
            } => self.receive_pubcomp(node, connection, packet_id),
            PublishingAction::Refuse { .. } | PublishingAction::Disconnect { .. } => {
                panic!("clients keep to the protocol: {action:?}")
            }
            PublishingAction::WillNumbered { .. }
            | PublishingAction::WriteWillNumber { .. }
            | PublishingAction::WillPublished { .. } => {
                panic!("no client has a will: {action:?}")
            }
        }
    }

    fn client_of(&self, id: &ClientId) -> usize {
        let found = (0..CLIENTS).find(|client| client_id(*client) == *id);
        found.expect("a client of this world")
    }

    fn write(&mut self, node: usize, client: usize, packet_use: PacketUse, removes: Vec<Dot>) -> UseEntry {
        let clock = self.tick();
        let machine = &mut self.machines[node];
        machine.events += 1;
        let dot = Dot {
            run: machine.run,
            number: machine.events,
        };
        let entry = UseEntry {
            dot,
            clock,
            packet_use,
        };
        if let Some(message) = packet_use.message {
            let before = self.seen.messages.insert(message.number, message.content.0);
            assert_eq!(before.is_some(), packet_use.message_clock.is_some());
            assert!(
                before.is_none_or(|before| before == message.content.0),
                "one message for a number"
            );
        }
        let event = EntryEvent {
            client,
            entry,
            removes,
        };
        machine.made.insert(dot, event);
        self.give_again(node, dot);
        entry
    }

    /// The node tells a little later that it has made an event.
    fn tell_written(&mut self, node: usize, connection: ConnectionId, entry: UseEntry) {
        let UseEntry {
            dot,
            clock,
            packet_use,
        } = entry;
        let packet_id = packet_use.packet_id;
        let made = MadeEvent { dot, clock };
        let event = match packet_use.message {
            Some(NumberedMessage { number, .. }) => PublishingEvent::NumberWritten {
                connection,
                number,
                made,
            },
            None => {
                let freed = PublishingEvent::Freed {
                    connection,
                    packet_id,
                    dot,
                };
                self.machines[node].frees.insert(dot, freed);
                PublishingEvent::FreeWritten {
                    connection,
                    packet_id,
                    made,
                }
            }
        };
        self.send(node, node, Content::Own(event));
    }

    /// Sends an event to the owners by the view of the node.
    fn give_again(&mut self, node: usize, dot: Dot) {
        let event = self.machines[node].made[&dot].clone();
        for owner in self.machines[node].owners(event.client) {
            self.send(node, owner, Content::Entry(event.clone()));
        }
    }

    fn send(&mut self, from: usize, to: usize, content: Content) {
        let (from, to) = (self.machines[from].run, self.machines[to].run);
        self.under_way.push(Packet { from, to, content });
    }

    fn deliver(&mut self, index: usize) {
        let Packet { from, to, content } = self.under_way.swap_remove(index);
        let Some(to) = self.find(to) else { return };
        let back = index_of(from.node);
        match content {
            Content::Entry(event) => {
                let entry = event.entry.dot;
                self.machines[to].disk.apply(&event);
                self.answer(to, from, Content::EntryConfirmed { entry });
            }
            Content::Route { message, marker } => {
                self.machines[to].disk.take(message);
                let number = message.number;
                let confirm = ConfirmRoute { number, marker };
                self.answer(to, from, Content::RouteConfirmed(confirm));
            }
            Content::EntryConfirmed { entry } => {
                self.machines[to].confirm(back, entry);
                self.complete_waits(to);
            }
            Content::RouteConfirmed(confirm) => {
                let confirmation = confirm.of_node(from.node);
                self.tell(to, PublishingEvent::RouteConfirmed(confirmation));
            }
            Content::Own(event) => self.tell(to, event),
        }
    }

    /// Node of a run that is up.
    fn find(&self, run: Run) -> Option<usize> {
        let node = index_of(run.node);
        let machine = &self.machines[node];
        (machine.is_up && machine.run == run).then_some(node)
    }

    /// Answers a run that is still there.
    fn answer(&mut self, from: usize, to: Run, content: Content) {
        if let Some(to) = self.find(to) {
            self.send(from, to, content);
        }
    }

    fn complete_waits(&mut self, node: usize) {
        for event in self.machines[node].completed() {
            self.send(node, node, Content::Own(event));
        }
    }

    /// Routes a message: it has no other number, and it is the next of its run.
    fn route(&mut self, node: usize, message: NumberedMessage, to: &[NodeId], marker: u64) {
        let number = message.number;
        assert_eq!(self.seen.messages.get(&number), Some(&message.content.0));
        let first = *self.seen.numbers.entry(message.content.0).or_insert(number);
        assert_eq!(first, number, "a message under two numbers");
        if number.run == self.machines[node].run {
            let highest = self.seen.highest.entry(number.run).or_insert(0);
            let is_in_order = number.number >= *highest || self.seen.given_up.contains(&number);
            let is_again = self.machines[node].routed.contains(&number);
            assert!(is_in_order || is_again, "{number:?} comes after {highest}");
            *highest = number.number.max(*highest);
        }
        self.machines[node].routed.insert(number);
        for to in to {
            self.send(node, index_of(*to), Content::Route { message, marker });
        }
    }

    /// One crash at a time: with both owners its entries would be gone, which promise Q2 excepts.
    fn crash(&mut self, node: usize) {
        let up: BTreeSet<usize> = self.up().into_iter().collect();
        if !up.contains(&node) || up.len() < 2 || self.machines[node].view != up {
            return;
        }
        self.machines[node].is_up = false;
        for client in &mut self.clients {
            client.place = client.place.filter(|place| place.node != node);
        }
    }

    fn detect(&mut self) {
        let up: BTreeSet<usize> = self.up().into_iter().collect();
        if up.iter().any(|node| self.machines[*node].view != up) {
            self.change_ring();
        }
    }

    fn restart(&mut self, node: usize) {
        if self.machines[node].is_up {
            return;
        }
        self.machines[node].restart();
        self.change_ring();
    }

    /// All nodes see each other, and their copies have merged.
    fn change_ring(&mut self) {
        let up = self.up();
        let runs: BTreeSet<Run> = up.iter().map(|node| self.machines[*node].run).collect();
        self.under_way.retain(|packet| runs.contains(&packet.from));
        let merged = up.iter().fold(Disk::default(), |merged, node| {
            merged.merged(&self.machines[*node].disk)
        });
        for node in &up {
            self.machines[*node].disk.take_all(&merged);
            self.machines[*node].disk.drop_entries();
        }
        for client in 0..CLIENTS {
            for owner in machine::owners(client, &up) {
                self.machines[owner].disk.take_entries(client, &merged);
            }
        }
        for node in &up {
            self.machines[*node].view = up.iter().copied().collect();
            self.machines[*node].events += 1;
            let marker = self.machines[*node].events;
            let nodes = up.iter().map(|node| NodeId(*node as u64 + 1)).collect();
            self.tell(*node, PublishingEvent::RingChanged { marker, nodes });
            for dot in self.machines[*node].frees.keys().copied().collect::<Vec<Dot>>() {
                self.give_again(*node, dot);
            }
            self.complete_waits(*node);
        }
    }

    /// All nodes are there, and clients come to the end of their exchanges.
    pub(super) fn come_to_rest(&mut self) {
        (0..NODES).for_each(|node| self.restart(node));
        (0..NODES).for_each(|node| self.tell(node, PublishingEvent::RoutesMerged(true)));
        for client in 0..CLIENTS {
            self.connect(client, client);
            self.deliver_all();
            for id in 1..=2 {
                self.pubrel(client, packet_id(id));
            }
            self.deliver_all();
        }
    }

    fn deliver_all(&mut self) {
        while !self.under_way.is_empty() {
            self.deliver(0);
        }
    }

    #[track_caller]
    pub(super) fn assert_at_rest(&self) {
        for machine in &self.machines {
            assert_eq!(machine.publishing.waiting(), 0);
            assert_eq!(machine.publishing.reserved(), VersionVector::default());
        }
        for client in &self.clients {
            assert!(client.exchanges.is_empty(), "{client:?}");
            for message in &client.received {
                self.assert_is_everywhere(*message);
            }
        }
    }

    /// All nodes of the view that are up have a message with PUBREC.
    #[track_caller]
    fn assert_is_everywhere(&self, message: u128) {
        let number = self.seen.numbers.get(&message);
        let number = number.unwrap_or_else(|| panic!("message {message} has PUBREC and was not routed"));
        for node in self.up() {
            let has_it = self.machines[node].disk.has_taken(*number);
            assert!(has_it, "node {node} lacks message {message}");
        }
    }
}

fn index_of(node: NodeId) -> usize {
    usize::try_from(node.0 - 1).expect("few nodes")
}
