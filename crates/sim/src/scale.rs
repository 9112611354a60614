//! What a larger cluster costs: whole nodes on a network without faults, and everything that they say is counted.
//!
//! Each measurement is of one cluster, whose last node starts late and is lost in the end. A client with a durable session connects to one
//! node after the other. What depends on the number of clients is in docs/scaling.md.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::NodeId;
use cluster::random::Random;
use cluster::session_plane::lifecycle::NodeState;
use mqtt::ids::ConnectionId;
use protocol::packet::{Connect, ConnectProperties};
use protocol::{Packet, Text};

use crate::machine::{Machine, MachineConfig};

/// Time that a message is on its way, and how much longer it may be.
const DELAY: Duration = Duration::from_millis(1);

/// Steps of simulated time.
const STEP: Duration = Duration::from_micros(250);

/// Time over which what nodes say without clients is counted.
const CALM: Duration = Duration::from_secs(10);

/// Time that an event of one measurement may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connections of a known session at other nodes.
const CONNECTS: usize = 20;

const CLIENT: &str = "wanderer";

/// What was counted for one size.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    nodes: u64,
    calm: Traffic,
    connect: ConnectCosts,
    join: EventCosts,
    loss: EventCosts,
}

/// Messages and bytes, of each node.
#[derive(Debug, Clone, Copy, Default)]
struct Traffic {
    messages: u64,
    bytes: u64,
}

/// CONNECT of a known session at another node, on average.
#[derive(Debug, Clone, Copy, Default)]
struct ConnectCosts {
    /// Messages of all nodes, until CONNACK.
    messages: f64,
    /// Time until CONNACK in round trips.
    round_trips: f64,
}

/// Something that all nodes learn.
#[derive(Debug, Clone, Copy)]
struct EventCosts {
    after: Duration,
    traffic: Traffic,
}

/// A node does not learn in time what it should.
#[derive(Debug)]
pub struct TooLong {
    nodes: u64,
    what: &'static str,
}

struct Net {
    now: Instant,
    random: Random,
    count: u64,
    machines: BTreeMap<NodeId, Machine>,
    wires: BTreeMap<(NodeId, NodeId), VecDeque<(Instant, Bytes)>>,
    traffic: Traffic,
}

/// Plays clusters of these sizes. `now` is where their time begins.
///
/// # Errors
/// [`TooLong`] where nodes do not find each other.
pub fn measure(now: Instant, sizes: &[u64], seed: u64) -> Result<Vec<Costs>, TooLong> {
    let of_size = |count: &u64| Net::new(now, *count, seed).measure();
    sizes.iter().map(of_size).collect()
}

impl Net {
    fn new(now: Instant, count: u64, seed: u64) -> Self {
        Self {
            now,
            random: Random::new(seed),
            count,
            machines: BTreeMap::new(),
            wires: BTreeMap::new(),
            traffic: Traffic::default(),
        }
    }

    /// All but one begin; then the last one joins; a client goes from node to node; then the last node is gone.
    fn measure(mut self) -> Result<Costs, TooLong> {
        let last = NodeId(self.count);
        (1..self.count).for_each(|node| self.start(NodeId(node)));
        self.until("the first nodes do not run", |net| net.all_run())?;
        let join = self.event("the last node does not run", |net| net.start(last), Net::all_run)?;
        self.pass(CALM);
        self.traffic = Traffic::default();
        self.pass(CALM);
        let calm = self.traffic.per(CALM.as_secs() * self.count);
        let connect = self.connects()?;
        let lost = |net: &Net| net.all_see(last, NodeState::Dead);
        let lose = |net: &mut Net| drop(net.machines.remove(&last));
        let loss = self.event("the last node is not missed", lose, lost)?;
        Ok(Costs {
            nodes: self.count,
            calm,
            connect,
            join,
            loss,
        })
    }

    /// Something happens: how long it takes until it is so for all nodes, and what they say meanwhile.
    fn event(
        &mut self,
        what: &'static str,
        happens: impl FnOnce(&mut Net),
        is_so: impl Fn(&Net) -> bool,
    ) -> Result<EventCosts, TooLong> {
        self.traffic = Traffic::default();
        let began = self.now;
        happens(self);
        self.until(what, is_so)?;
        Ok(EventCosts {
            after: self.now - began,
            traffic: self.traffic.per(self.count),
        })
    }

    /// Goes from node to node with one session.
    fn connects(&mut self) -> Result<ConnectCosts, TooLong> {
        let mut sum = ConnectCosts::default();
        self.connect(0)?;
        for number in 1..=CONNECTS {
            self.pass(Duration::from_millis(500));
            let one = self.connect(number)?;
            sum.messages += one.messages / CONNECTS as f64;
            sum.round_trips += one.round_trips / CONNECTS as f64;
        }
        Ok(sum)
    }

    /// Connects at the next node, until CONNACK; then the connection is closed.
    fn connect(&mut self, number: usize) -> Result<ConnectCosts, TooLong> {
        let node = NodeId(number as u64 % self.count + 1);
        let (began, before) = (self.now, self.traffic.messages);
        let Some(machine) = self.machines.get_mut(&node) else {
            return Ok(ConnectCosts::default());
        };
        let connection = machine.open();
        machine.receive(connection, connect_packet());
        self.until("a client does not get in", |net| {
            net.is_accepted(node, connection)
        })?;
        let took = self.now - began;
        if let Some(machine) = self.machines.get_mut(&node) {
            machine.forget(connection);
        }
        Ok(ConnectCosts {
            messages: (self.traffic.messages - before) as f64,
            round_trips: took.as_secs_f64() / (2.0 * DELAY.as_secs_f64()),
        })
    }

    fn is_accepted(&self, node: NodeId, connection: ConnectionId) -> bool {
        let machine = self.machines.get(&node);
        machine.is_some_and(|machine| machine.sent_bytes(connection) > 0)
    }

    fn all_run(&self) -> bool {
        let mut nodes = self.machines.keys();
        nodes.all(|node| self.all_see(*node, NodeState::Running))
    }

    fn all_see(&self, node: NodeId, state: NodeState) -> bool {
        let sees = |machine: &Machine| machine.node().node_states().contains(&(node, state));
        self.machines.values().all(sees)
    }

    fn start(&mut self, own: NodeId) {
        let mut config = MachineConfig::new(self.random.next());
        config.node = own;
        config.voters = (1..=self.count).map(NodeId).collect();
        config.has_control = true;
        self.machines.insert(own, Machine::new(config, self.now));
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    fn until(&mut self, what: &'static str, is_so: impl Fn(&Self) -> bool) -> Result<(), TooLong> {
        let end = self.now + PATIENCE;
        while !is_so(self) {
            if self.now > end {
                let nodes = self.count;
                return Err(TooLong { nodes, what });
            }
            self.step();
        }
        Ok(())
    }

    fn step(&mut self) {
        self.now += STEP;
        for ((from, to), wire) in &mut self.wires {
            while let Some((_, message)) = wire.pop_front_if(|(at, _)| *at <= self.now) {
                if let Some(machine) = self.machines.get_mut(to) {
                    machine.hear(*from, message);
                }
            }
        }
        for (from, machine) in &mut self.machines {
            machine.tick(self.now);
            while machine.write_one() {}
            machine.flush();
            for (to, message) in machine.take_to_peers() {
                self.traffic.messages += 1;
                self.traffic.bytes += message.len() as u64;
                let wire = self.wires.entry((*from, to)).or_default();
                wire.push_back((self.now + DELAY, message));
            }
        }
    }
}

/// CONNECT that resumes the session, or begins it.
fn connect_packet() -> Packet {
    Packet::Connect(Box::new(Connect {
        clean_start: false,
        properties: ConnectProperties {
            session_expiry: Some(3_600),
            ..ConnectProperties::default()
        },
        ..Connect::new(Text::from_static(CLIENT))
    }))
}

impl Traffic {
    fn per(self, parts: u64) -> Self {
        Self {
            messages: self.messages / parts,
            bytes: self.bytes / parts,
        }
    }
}

impl fmt::Display for EventCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after, traffic } = self;
        let (messages, kilobytes) = (traffic.messages, traffic.bytes as f64 / 1e3);
        write!(
            f,
            "{:.2} s, {messages} msg, {kilobytes:.1} kB",
            after.as_secs_f64()
        )
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            nodes,
            calm,
            connect,
            join,
            loss,
        } = self;
        let ConnectCosts {
            messages,
            round_trips,
        } = connect;
        let kilobytes = calm.bytes as f64 / 1e3;
        write!(
            f,
            "| {nodes} | {} msg/s, {kilobytes:.1} kB/s | {messages:.0} msg, {round_trips:.1} round trips | {join} | {loss} |",
            calm.messages,
        )
    }
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} nodes: {} within {} s",
            self.nodes,
            self.what,
            PATIENCE.as_secs()
        )
    }
}
