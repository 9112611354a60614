//! Three nodes under load: leaders are spread, and a clean stop of each of them in turn fails nobody.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use broker::ConnectionId;
use bytes::Bytes;
use cluster::{GroupId, NodeId};
use protocol::packet::{
    Connect, ConnectProperties, PacketId, ProtocolVersion, QoS, Subscribe, SubscribeFilter,
    SubscriptionOptions,
};
use protocol::properties::UserProperties;
use protocol::{Packet, Text};
use sim::machine::{Machine, MachineConfig};
use sim::transcript::request;

const NODES: usize = 3;

const GROUPS: u32 = 3;

const CLIENTS: usize = 5;

/// How long a message takes from one node to another.
const DELAY: Duration = Duration::from_millis(1);

/// What time moves by. Each disk syncs once in it.
const STEP: Duration = Duration::from_millis(1);

/// How long a node that was stopped is away.
const AWAY: Duration = Duration::from_secs(1);

#[test]
fn leaders_are_spread_over_the_nodes_and_stay_there() {
    let mut world = World::new(1);
    world.run(Duration::from_secs(10), World::is_spread);
    let terms = world.terms();
    world.run(Duration::from_secs(20), |_| false);
    assert!(world.is_spread());
    assert_eq!(world.terms(), terms, "nobody was elected again");
}

#[test]
fn a_rolling_restart_under_load_fails_nobody() {
    let mut world = World::new(1);
    world.run(Duration::from_secs(10), World::is_spread);
    world.clients = (0..CLIENTS).map(Client::new).collect();
    for node in 0..NODES {
        world.run(Duration::from_secs(1), |_| false);
        world.restart(node);
    }
    world.run(Duration::from_secs(10), World::is_spread);
    assert!(world.is_spread());
    let mut latencies: Vec<_> = world
        .clients
        .iter()
        .flat_map(|client| &client.latencies)
        .collect();
    latencies.sort();
    assert!(latencies.len() > 10_000, "{} requests", latencies.len());
    let worst = latencies[latencies.len() - 1];
    assert!(*worst < Duration::from_millis(200), "{worst:?}");
    let retries: usize = world.clients.iter().map(|client| client.retries).sum();
    assert!(retries <= CLIENTS * NODES, "{retries} retries");
}

#[test]
fn a_node_that_nobody_can_relieve_says_goodbye_all_the_same() {
    let mut world = World::new(2);
    world.run(Duration::from_secs(10), World::is_spread);
    for other in [1, 2] {
        world.nodes[other] = None;
    }
    let connection = world.connect(0, "patient");
    world.machine(0).stop();
    assert!(world.machine(0).is_open(connection));
    world.run(Duration::from_millis(1_100), |_| false);
    assert!(!world.machine(0).is_open(connection));
}

struct World {
    now: Instant,
    nodes: Vec<Option<Machine>>,
    wire: VecDeque<(Instant, usize, usize, Bytes)>,
    clients: Vec<Client>,
}

/// Asks one thing after the other, of the node that it is connected to, and sends again what was not answered.
struct Client {
    name: String,
    connection: Option<(usize, ConnectionId)>,
    asked: Option<(Instant, u16)>,
    next: u16,
    latencies: Vec<Duration>,
    retries: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let now = epoch();
        let nodes = (1..=NODES as u64).map(|number| {
            let mut config = MachineConfig::new(seed * 100 + number);
            config.node = NodeId(number);
            config.voters = (1..=NODES as u64).map(NodeId).collect();
            config.groups = GROUPS;
            Some(Machine::new(config, now))
        });
        Self {
            now,
            nodes: nodes.collect(),
            wire: VecDeque::new(),
            clients: Vec::new(),
        }
    }

    fn machine(&mut self, node: usize) -> &mut Machine {
        self.nodes[node].as_mut().expect("it is there")
    }

    /// Which node leads each group.
    fn leaders(&self) -> Vec<Option<usize>> {
        let leads = |node: &Option<Machine>, group| {
            let machine = node.as_ref();
            machine.is_some_and(|machine| machine.node().leads(GroupId(group)).is_some())
        };
        let leader = |group| self.nodes.iter().position(|node| leads(node, group));
        (0..GROUPS).map(leader).collect()
    }

    fn is_spread(&self) -> bool {
        self.leaders() == [Some(0), Some(1), Some(2)]
    }

    fn terms(&self) -> Vec<u64> {
        let machines = self.nodes.iter().flatten();
        machines.map(|machine| machine.node().gauges().log_term).collect()
    }

    /// Time passes, until this is so or it has been long enough.
    fn run(&mut self, time: Duration, until: impl Fn(&Self) -> bool) {
        let end = self.now + time;
        while self.now < end && !until(self) {
            self.step();
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        for machine in self.nodes.iter_mut().flatten() {
            machine.tick(self.now);
        }
        while let Some((_, from, to, message)) = self.wire.pop_front_if(|(at, ..)| *at <= self.now) {
            if let Some(machine) = &mut self.nodes[to] {
                machine.hear(NodeId(from as u64 + 1), message);
            }
        }
        let mut clients = std::mem::take(&mut self.clients);
        for client in &mut clients {
            client.step(self);
        }
        self.clients = clients;
        for (from, node) in self.nodes.iter_mut().enumerate() {
            let Some(machine) = node else { continue };
            // What was handed over before is on disk; what this flush hands over is not yet.
            while machine.write_one() {}
            machine.flush();
            for (to, message) in machine.take_to_peers() {
                let to = usize::try_from(to.0 - 1).expect("few nodes");
                self.wire.push_back((self.now + DELAY, from, to, message));
            }
        }
    }

    /// A clean stop, and a start.
    fn restart(&mut self, node: usize) {
        self.machine(node).stop();
        self.run(Duration::from_secs(2), |world| {
            let machine = world.nodes[node].as_ref();
            machine.is_some_and(|machine| !machine.node().is_stopping())
        });
        self.step();
        let mut machine = self.nodes[node].take().expect("it is there");
        machine.write_all();
        self.run(AWAY, |_| false);
        machine.tick(self.now);
        machine.take_to_peers().for_each(drop);
        self.nodes[node] = Some(machine.crash());
    }

    fn connect(&mut self, node: usize, name: &str) -> ConnectionId {
        let machine = self.machine(node);
        let connection = machine.open();
        let connect = Connect {
            version: ProtocolVersion::V5,
            client_id: Text::new(name).expect("a short name"),
            clean_start: false,
            keep_alive: 0,
            will: None,
            username: None,
            password: None,
            properties: ConnectProperties::default(),
        };
        let subscribe = Subscribe {
            packet_id: PacketId::new(60_000).expect("it is above 0"),
            subscription_id: None,
            user_properties: UserProperties::EMPTY,
            filters: vec![SubscribeFilter {
                filter: Text::new(format!("clients/{name}/response")).expect("a short name"),
                options: SubscriptionOptions {
                    qos: QoS::AtMostOnce,
                    ..SubscriptionOptions::default()
                },
            }],
        };
        machine.receive(connection, Packet::Connect(Box::new(connect)));
        machine.receive(connection, Packet::Subscribe(subscribe));
        connection
    }
}

impl Client {
    fn new(number: usize) -> Self {
        Self {
            name: format!("client{number}"),
            connection: None,
            asked: None,
            next: 1,
            latencies: Vec::new(),
            retries: 0,
        }
    }

    fn step(&mut self, world: &mut World) {
        if let Some((node, connection)) = self.connection {
            let mut is_open = false;
            if let Some(machine) = world.nodes[node].as_mut() {
                for packet in machine.take_sent(connection) {
                    self.hear(world.now, packet);
                }
                is_open = machine.is_open(connection);
            }
            self.connection = self.connection.filter(|_| is_open);
        }
        if self.connection.is_none() {
            self.connect(world);
            if self.asked.is_some() {
                self.retries += 1;
                self.ask(world);
            }
        }
        if self.asked.is_none() {
            self.asked = Some((world.now, self.next));
            self.next += 1;
            self.ask(world);
        }
    }

    /// To some node that is there and does not stop.
    fn connect(&mut self, world: &mut World) {
        let first = self.latencies.len() % NODES;
        let node = (first..first + NODES).map(|node| node % NODES).find(|node| {
            let machine = world.nodes[*node].as_ref();
            machine.is_some_and(|machine| machine.node().is_available() && !machine.node().is_stopping())
        });
        let node = node.expect("at most one node is away");
        self.connection = Some((node, world.connect(node, &self.name)));
    }

    fn ask(&mut self, world: &mut World) {
        let (Some((node, connection)), Some((_, number))) = (self.connection, self.asked) else {
            return;
        };
        let key = format!("{}-{number}", self.name);
        // Of two tries, the second would not be met if the first was executed and forgotten.
        let arguments = ["SET", &key, "v", "NX"];
        let machine = world.machine(node);
        let packet = request(&self.name, machine.now(), number, &arguments);
        machine.receive(connection, packet);
    }

    fn hear(&mut self, now: Instant, packet: Packet) {
        let Packet::Publish(publish) = packet else { return };
        let Some((asked_at, number)) = self.asked else {
            return;
        };
        if publish.properties.correlation_data.as_deref() != Some(&number.to_be_bytes()) {
            return;
        }
        assert_eq!(publish.payload, "+OK\r\n", "{} {number}", self.name);
        self.latencies.push(now - asked_at);
        self.asked = None;
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
fn epoch() -> Instant {
    Instant::now()
}
