//! Three nodes in one process: every message takes as long, every disk syncs once in a step, and nothing is lost.

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

pub(crate) const NODES: usize = 3;

pub(crate) const GROUPS: u32 = 3;

pub(crate) const CLIENTS: usize = 5;

/// How long a message takes from one node to another.
pub(crate) const DELAY: Duration = Duration::from_millis(1);

/// What time moves by. Each disk syncs once in it.
pub(crate) const STEP: Duration = Duration::from_millis(1);

/// How long a node that was stopped is away.
const AWAY: Duration = Duration::from_secs(1);

/// Three nodes, the network between them, and those who ask them.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) nodes: Vec<Option<Machine>>,
    wire: VecDeque<(Instant, usize, usize, Bytes)>,
    pub(crate) clients: Vec<Client>,
    /// Everything that nodes sent to each other.
    pub(crate) sent: Vec<Sent>,
    disks: [Disk; NODES],
    /// It is about to be away; nobody connects to it.
    leaving: Option<usize>,
}

/// How long the disk of a node takes for a sync; zero: a step.
#[derive(Clone, Copy, Default)]
struct Disk {
    sync_takes: Duration,
    /// The sync that goes on: when it ends, and how many batches it is for.
    syncing: Option<(Instant, usize)>,
}

/// Where a client is connected.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) node: usize,
    pub(crate) connection: ConnectionId,
}

/// A message from one node to another.
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) group: u32,
    /// As in broker/src/state_store_service/peers.rs.
    pub(crate) kind: u8,
}

/// What a request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) number: u16,
    pub(crate) payload: String,
    pub(crate) version: Option<String>,
}

/// Asks one thing after the other, of the node that it is connected to, and sends again what was not answered.
pub(crate) struct Client {
    name: String,
    connection: Option<(usize, ConnectionId)>,
    asked: Option<(Instant, u16)>,
    next: u16,
    pub(crate) latencies: Vec<Duration>,
    pub(crate) retries: usize,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_config(seed, |_| {})
    }

    pub(crate) fn with_config(seed: u64, change: fn(&mut MachineConfig)) -> Self {
        let now = epoch();
        let nodes = (1..=NODES as u64).map(|number| {
            let mut config = MachineConfig::new(seed * 100 + number);
            config.node = NodeId(number);
            config.voters = (1..=NODES as u64).map(NodeId).collect();
            config.groups = GROUPS;
            change(&mut config);
            Some(Machine::new(config, now))
        });
        Self {
            now,
            nodes: nodes.collect(),
            wire: VecDeque::new(),
            clients: Vec::new(),
            sent: Vec::new(),
            disks: [Disk::default(); NODES],
            leaving: None,
        }
    }

    /// From now on each sync of a node's disk takes so long.
    pub(crate) fn slow_disk(&mut self, node: usize, sync_takes: Duration) {
        self.disks[node].sync_takes = sync_takes;
    }

    pub(crate) fn machine(&mut self, node: usize) -> &mut Machine {
        self.nodes[node].as_mut().expect("it is there")
    }

    /// Which node leads each group.
    pub(crate) fn leaders(&self) -> Vec<Option<usize>> {
        let leads = |node: &Option<Machine>, group| {
            let machine = node.as_ref();
            machine.is_some_and(|machine| machine.node().leads(GroupId(group)).is_some())
        };
        let leader = |group| self.nodes.iter().position(|node| leads(node, group));
        (0..GROUPS).map(leader).collect()
    }

    pub(crate) fn is_spread(&self) -> bool {
        self.leaders() == [Some(0), Some(1), Some(2)]
    }

    pub(crate) fn terms(&self) -> Vec<u64> {
        let machines = self.nodes.iter().flatten();
        machines.map(|machine| machine.node().gauges().log_term).collect()
    }

    /// Time passes, until this is so or it has been long enough.
    pub(crate) fn run(&mut self, time: Duration, until: impl Fn(&Self) -> bool) {
        let end = self.now + time;
        while self.now < end && !until(self) {
            self.step();
        }
    }

    pub(crate) fn step(&mut self) {
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
            self.disks[from].step(self.now, machine);
            machine.flush();
            for (to, message) in machine.take_to_peers() {
                let to = usize::try_from(to.0 - 1).expect("few nodes");
                self.sent.push(Sent {
                    at: self.now,
                    from,
                    to,
                    group: u32::from_be_bytes([message[1], message[2], message[3], message[4]]),
                    kind: message[5],
                });
                self.wire.push_back((self.now + DELAY, from, to, message));
            }
        }
    }

    /// Power fails, and does not come back.
    pub(crate) fn kill(&mut self, node: usize) {
        self.nodes[node] = None;
    }

    /// Asks a node something; the number is the name of the request.
    pub(crate) fn ask(&mut self, at: Place, name: &str, number: u16, arguments: &[&str]) {
        let machine = self.machine(at.node);
        let packet = request(name, machine.now(), number, arguments);
        machine.receive(at.connection, packet);
    }

    /// What came since the last call.
    pub(crate) fn responses(&mut self, at: Place) -> Vec<Response> {
        let sent = self.machine(at.node).take_sent(at.connection).into_iter();
        let responses = sent.filter_map(|packet| match packet {
            Packet::Publish(publish) => Some(publish),
            _ => None,
        });
        let read = responses.map(|publish| {
            let mut properties = publish.properties.user_properties.iter();
            let version = properties.find(|(name, _)| *name == "__ts");
            let number = publish.properties.correlation_data.as_deref();
            let number = number.and_then(|bytes| bytes.try_into().ok());
            Response {
                number: u16::from_be_bytes(number.expect("as it was asked")),
                payload: String::from_utf8_lossy(&publish.payload).into_owned(),
                version: version.map(|(_, version)| version.to_owned()),
            }
        });
        read.collect()
    }

    /// Connects to a node.
    pub(crate) fn client(&mut self, node: usize, name: &str) -> Place {
        let connection = self.connect(node, name);
        self.run(Duration::from_millis(10), |_| false);
        self.machine(node).take_sent(connection);
        Place { node, connection }
    }

    /// A clean stop, and a start.
    pub(crate) fn restart(&mut self, node: usize) {
        self.leaving = Some(node);
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
        self.leaving = None;
    }

    pub(crate) fn connect(&mut self, node: usize, name: &str) -> ConnectionId {
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

impl Disk {
    /// Writes what is waiting. A sync is for everything that waits when it begins.
    fn step(&mut self, now: Instant, machine: &mut Machine) {
        if self.syncing.is_none() && !self.sync_takes.is_zero() && machine.writing_len() > 0 {
            self.syncing = Some((now + self.sync_takes, machine.writing_len()));
        }
        match self.syncing {
            Some((ends_at, _)) if now < ends_at => {}
            Some((_, batches)) => {
                self.syncing = None;
                for _ in 0..batches {
                    machine.write_one();
                }
            }
            None => while machine.write_one() {},
        }
    }
}

impl Client {
    pub(crate) fn new(number: usize) -> Self {
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
            if self.connection.is_none() {
                return;
            }
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

    /// To some node that is there and does not stop. In a moment without a leader there may be none.
    fn connect(&mut self, world: &mut World) {
        let first = self.latencies.len() % NODES;
        let node = (first..first + NODES).map(|node| node % NODES).find(|node| {
            let machine = world.nodes[*node].as_ref();
            world.leaving != Some(*node) && machine.is_some_and(|machine| machine.node().is_available())
        });
        self.connection = node.map(|node| (node, world.connect(node, &self.name)));
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
