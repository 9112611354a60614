//! Several nodes in one process, mostly three: every message takes as long, every disk syncs once in a step, and nothing is lost.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{GroupId, NodeId};
use mqtt::ids::ConnectionId;
use sim::machine::{Machine, MachineConfig};
use sim::rest::Bound;
use sim::transcript::request;
use state_service::group_of_key;

use crate::client::{self, Client, Response};
use crate::clock::now;

pub(crate) const NODES: usize = 3;

pub(crate) const GROUPS: u32 = 3;

pub(crate) const WORKERS: usize = 5;

/// How long a message takes from one node to another.
pub(crate) const DELAY: Duration = Duration::from_millis(1);

/// What time moves by. Each disk syncs once in it.
pub(crate) const STEP: Duration = Duration::from_millis(1);

/// How long a node that was stopped is away.
const AWAY: Duration = Duration::from_secs(1);

/// Nodes, the network between them, and those who ask them.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) nodes: Vec<Option<Machine>>,
    wire: VecDeque<(Instant, usize, usize, Bytes)>,
    pub(crate) workers: Vec<Worker>,
    /// A node to and from which all messages are lost.
    pub(crate) cut_off: Option<usize>,
    /// Pairs of nodes, the lower one first, between which all messages are lost.
    pub(crate) broken: BTreeSet<(usize, usize)>,
    /// Everything that nodes sent to each other.
    pub(crate) sent: Vec<Sent>,
    disks: Vec<Disk>,
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
    /// As in state_service/src/service/peers.rs.
    pub(crate) kind: u8,
}

/// Asks one thing after the other, of the node that it is connected to, and sends again what was not answered.
pub(crate) struct Worker {
    name: String,
    client: Option<(usize, Client)>,
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
        Self::with_nodes(seed, NODES, change)
    }

    pub(crate) fn with_nodes(seed: u64, count: usize, change: fn(&mut MachineConfig)) -> Self {
        let now = now();
        let nodes = (1..=count as u64).map(|number| {
            let mut config = MachineConfig::new(seed * 100 + number);
            config.node = NodeId(number);
            config.voters = (1..=count as u64).map(NodeId).collect();
            config.groups = GROUPS;
            change(&mut config);
            Some(Machine::new(config, now))
        });
        Self {
            now,
            nodes: nodes.collect(),
            wire: VecDeque::new(),
            workers: Vec::new(),
            cut_off: None,
            broken: BTreeSet::new(),
            sent: Vec::new(),
            disks: vec![Disk::default(); count],
            leaving: None,
        }
    }

    /// Whether all messages between two nodes are lost.
    fn is_broken(&self, one: usize, other: usize) -> bool {
        self.broken.contains(&(one.min(other), one.max(other)))
    }

    /// Every node is told which others it can send to, as its edge would.
    pub(crate) fn tell_links(&mut self) {
        for node in 0..self.nodes.len() {
            let others =
                (0..self.nodes.len()).filter(|other| *other != node && !self.is_broken(node, *other));
            let reached = others.map(|other| NodeId(other as u64 + 1)).collect();
            self.machine(node).set_links(reached);
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
            let is_lost = [Some(from), Some(to)].contains(&self.cut_off) || self.is_broken(from, to);
            if let Some(machine) = self.nodes[to].as_mut().filter(|_| !is_lost) {
                machine.hear(NodeId(from as u64 + 1), message);
            }
        }
        let mut workers = std::mem::take(&mut self.workers);
        for worker in &mut workers {
            worker.step(self);
        }
        self.workers = workers;
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

    /// Until node 0 leads group 0, where the spread puts it.
    pub(crate) fn await_first_leader(&mut self) {
        let leads = |world: &Self| world.leaders()[0] == Some(0);
        self.run(Duration::from_secs(10), leads);
        assert!(leads(self));
    }

    /// All messages arrive and everything is written, until there is nothing left to do. No time passes.
    pub(crate) fn settle(&mut self) {
        let mut is_quiet = false;
        let mut bound = Bound::new("nodes answer each other without end");
        while !is_quiet {
            bound.round().unwrap_or_else(|why| panic!("{why}"));
            is_quiet = true;
            for from in 0..self.nodes.len() {
                let Some(machine) = &mut self.nodes[from] else {
                    continue;
                };
                machine.write_all();
                let messages: Vec<_> = machine.take_to_peers().collect();
                for (to, message) in messages {
                    is_quiet = false;
                    let to = usize::try_from(to.0 - 1).expect("few nodes");
                    self.machine(to).hear(NodeId(from as u64 + 1), message);
                }
            }
        }
    }

    /// Power fails at a node, and comes back after this happened.
    pub(crate) fn crash(&mut self, node: usize, meanwhile: impl FnOnce(&mut Self)) {
        let mut machine = self.nodes[node].take().expect("it is there");
        meanwhile(self);
        machine.tick(self.now);
        machine.take_to_peers().for_each(drop);
        self.nodes[node] = Some(machine.crash());
    }

    /// Snapshots that are being written are on disk.
    pub(crate) fn finish_snapshots(&mut self) {
        for machine in self.nodes.iter_mut().flatten() {
            machine.finish_snapshot();
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
        client::responses(self.machine(at.node).take_sent(at.connection))
    }

    /// Connects to a node.
    pub(crate) fn client(&mut self, node: usize, name: &str) -> Place {
        let connection = Client::connect(self.machine(node), name).connection;
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
        self.machine(node).write_all();
        self.crash(node, |world| world.run(AWAY, |_| false));
        self.leaving = None;
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

impl Worker {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            name: format!("worker{number}"),
            client: None,
            asked: None,
            next: 1,
            latencies: Vec::new(),
            retries: 0,
        }
    }

    fn step(&mut self, world: &mut World) {
        if let Some((node, client)) = self.client.take()
            && let Some(machine) = world.nodes[node].as_mut()
        {
            for response in client.responses(machine) {
                self.hear(world.now, &response);
            }
            self.client = machine.is_open(client.connection).then_some((node, client));
        }
        if self.client.is_none() {
            self.connect(world);
            if self.client.is_none() {
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
        let count = world.nodes.len();
        let first = self.latencies.len() % count;
        let node = (first..first + count).map(|node| node % count).find(|node| {
            let machine = world.nodes[*node].as_ref();
            world.leaving != Some(*node) && machine.is_some_and(|machine| machine.node().is_available())
        });
        self.client = node.map(|node| (node, Client::connect(world.machine(node), &self.name)));
    }

    fn ask(&mut self, world: &mut World) {
        if let (Some((node, client)), Some((_, number))) = (&self.client, self.asked) {
            let key = format!("{}-{number}", self.name);
            // Of two tries, the second would not be met if the first was executed and forgotten.
            client.ask(world.machine(*node), number, &["SET", &key, "v", "NX"]);
        }
    }

    fn hear(&mut self, now: Instant, response: &Response) {
        let answered = self.asked.filter(|(_, number)| *number == response.number);
        let Some((asked_at, number)) = answered else {
            return;
        };
        assert_eq!(response.payload, "+OK\r\n", "{} {number}", self.name);
        self.latencies.push(now - asked_at);
        self.asked = None;
    }
}

/// Keys that this group holds.
pub(crate) fn keys_of(group: GroupId) -> impl Iterator<Item = String> {
    let keys = (0..).map(|number| format!("key{number}"));
    keys.filter(move |key| group_of_key(key.as_bytes(), GROUPS) == group)
}

/// One of them.
pub(crate) fn key_of(group: u32) -> String {
    keys_of(GroupId(group)).next().expect("some key is")
}
