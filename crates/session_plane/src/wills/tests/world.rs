//! World of a history: four nodes with links between them, and clients whose connections have wills.
//!
//! Each node has a view of its own, and gives others up on its own. Links keep the order of messages.
//! Every node has a copy of everything, by the merge rule; the primary owner of a client follows from
//! the view. A node that has changed its view, or hears of an event that it lacks, asks all present
//! nodes for their copies, and decides nothing until they have answered.

use super::*;

mod clients;
mod machine;
mod network;
mod promises;
mod routing;

use clients::Client;
use machine::{Copy, Event, Machine};
use promises::Record;

pub(super) const NODES: usize = 4;
pub(super) const CLIENTS: usize = 2;

/// Message under way.
#[derive(Debug, Clone)]
struct Packet {
    from: Run,
    to: Run,
    /// Events that the sender knew.
    known: VersionVector,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Event(Event),
    EventConfirmed { dot: Dot },
    Ask { round: u64 },
    Answer { round: u64, copy: Box<Copy> },
    Route { number: Dot, marker: u64 },
    RouteConfirmed { number: Dot, marker: u64 },
}

pub(super) struct World {
    now: Instant,
    /// Counts all that happens.
    moment: u64,
    machines: Vec<Machine>,
    links: BTreeMap<(usize, usize), VecDeque<Packet>>,
    /// Nodes of one of two sides.
    side: u8,
    clients: Vec<Client>,
    /// Connections that were released.
    released: BTreeSet<Dot>,
    records: BTreeMap<ContentId, Record>,
}

fn id(node: usize) -> NodeId {
    NodeId(1 + node as u64)
}

fn index(node: NodeId) -> usize {
    usize::try_from(node.0 - 1).expect("few nodes")
}

impl World {
    pub(super) fn new() -> World {
        let mut world = World {
            now: *ORIGIN,
            moment: 0,
            machines: (0..NODES).map(Machine::new).collect(),
            links: BTreeMap::new(),
            side: 0,
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            released: BTreeSet::new(),
            records: BTreeMap::new(),
        };
        world.detect();
        world.deliver_all();
        world
    }

    pub(super) fn step(&mut self, step: &Step) {
        self.moment += 1;
        match *step {
            Step::Deliver { from, to } => self.deliver(from, to),
            Step::DeliverEach => self.deliver_each(),
            Step::DeliverAll => self.deliver_all(),
            Step::Connect(connecting) => self.connect(connecting),
            Step::Disconnect { client } => self.disconnect(client),
            Step::Lose { client } => self.lose(client),
            Step::Crash { node } => self.crash(node),
            Step::Restart { node } => self.restart(node),
            Step::Split { side } => self.side = side,
            Step::Heal => self.side = 0,
            Step::GiveUp { at } => self.give_up_lost(at),
            Step::Meet { one, other } => self.meet(one, other),
            Step::Detect => self.detect(),
            Step::Wait => self.wait(Duration::from_secs(10)),
        }
    }

    fn up(&self) -> impl Iterator<Item = usize> + use<> {
        let up: Vec<usize> = (0..NODES).filter(|node| self.machines[*node].is_up).collect();
        up.into_iter()
    }

    /// All nodes come back and see each other, and all that is due happens.
    pub(super) fn come_to_rest(&mut self) {
        self.side = 0;
        (0..NODES).for_each(|node| self.restart(node));
        for _ in 0..3 {
            self.detect();
            self.deliver_all();
            self.release_losers();
            self.deliver_all();
            self.wait(DELAY + Duration::from_secs(1));
            self.deliver_all();
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        for node in self.up() {
            self.tick(node);
        }
    }

    fn tick(&mut self, node: usize) {
        let mut actions = Vec::new();
        let (wills, state) = self.machines[node].wills_and_state();
        wills.tick(self.now, state, &mut actions);
        self.act_all(node, actions);
    }

    /// Tells the wills of a node, and does what they say.
    fn tell_wills(&mut self, node: usize, event: WillsEvent) {
        let mut actions = Vec::new();
        let (wills, state) = self.machines[node].wills_and_state();
        wills.step(self.now, event, state, &mut actions);
        assert!(wills.firing() <= machine::WILLS.firing_max);
        self.act_all(node, actions);
    }

    fn act_all(&mut self, node: usize, actions: Vec<WillsAction>) {
        for action in actions {
            self.act(node, action);
        }
    }

    fn act(&mut self, node: usize, action: WillsAction) {
        match action {
            WillsAction::Leave {
                connection,
                client,
                dot,
                birth,
                delay,
            } => {
                let fact = Fact::ConnectionEnd { connection: dot };
                let value = Value::End { delay: Some(delay) };
                let event = self.make(node, &client, [dot].into(), Some((fact, birth, value)));
                self.machines[node].durables.insert(event);
                self.tell_wills(
                    node,
                    WillsEvent::EndWritten {
                        connection,
                        dot: event,
                    },
                );
                self.complete_waits(node);
            }
            WillsAction::Release { connection, removes } => self.release(node, connection, removes),
            WillsAction::Publish(due) => {
                self.tell_publishing(node, PublishingEvent::WillDue { due, body: () });
            }
            WillsAction::GiveUp { number } => {
                self.tell_publishing(node, PublishingEvent::WillGivenUp { number });
            }
            WillsAction::Remove { client, removes } => {
                self.make(node, &client, removes, None);
            }
            WillsAction::Arm {
                client,
                will,
                removes,
            } => {
                let entry = self.machines[node].state.entry(&client, EntryKind::Will, will);
                let Entry {
                    fact, birth, value, ..
                } = entry.expect("the will that was looked at");
                self.make(node, &client, removes, Some((fact, birth, value)));
            }
        }
    }

    /// Makes an event of a node, and sends it to all present nodes.
    fn make(
        &mut self,
        node: usize,
        client: &ClientId,
        removes: BTreeSet<Dot>,
        adds: Option<(Fact, Birth, Value)>,
    ) -> Dot {
        let dot = self.machines[node].next_event();
        self.moment += 1;
        let clock = Hlc::at(self.moment);
        let adds = adds.map(|(fact, birth, value)| Entry {
            birth,
            clock,
            fact,
            value,
        });
        let event = Event {
            dot,
            client: client.clone(),
            removes: removes.into_iter().collect(),
            adds,
        };
        self.machines[node].made.insert(dot, event.clone());
        self.apply(node, &event);
        self.machines[node].confirm(node, dot);
        self.give(node, dot);
        dot
    }

    /// Sends an event of a node to all others that are present.
    fn give(&mut self, node: usize, dot: Dot) {
        let event = self.machines[node].made[&dot].clone();
        for to in self.machines[node].peers() {
            self.send(node, to, Content::Event(event.clone()));
        }
    }

    /// Applies an event at a node.
    fn apply(&mut self, node: usize, event: &Event) {
        if self.machines[node].state.copy.apply(event) {
            let client = event.client.clone();
            self.tell_wills(node, WillsEvent::Changed { client });
        }
    }
}
