//! What a larger cluster costs: nodes find out about each other on a network without faults, and everything that they say is counted.
//!
//! Only the states of nodes and the rings: what depends on the clients is in docs/scaling.md. Handing over takes no time here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::random::Random;
use cluster::session_plane::detection::DetectionConfig;
use cluster::session_plane::lifecycle::NodeState;
use cluster::session_plane::nodes::{Nodes, NodesOutput};
use cluster::session_plane::{Actor, Ring};
use cluster::{Incarnation, NodeId};

/// As by default.
const DEAD_AFTER: Duration = Duration::from_secs(2);

/// How long a message is on its way, and how much longer it may be.
const DELAY_MIN_MICROS: u64 = 200;
const DELAY_SPREAD_MICROS: usize = 800;

const CALM: Duration = Duration::from_secs(20);

const REPLICATION_FACTOR: usize = 3;

/// Keys whose owners are looked at.
const KEYS: u32 = 100_000;

/// What was counted for one size.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    nodes: u64,
    calm: Traffic,
    joined_after: Duration,
    join: Traffic,
    lost_after: Duration,
    loss: Traffic,
    /// Of all keys, those that have another owner after a join.
    moved: f64,
}

/// Messages and bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Traffic {
    messages: u64,
    bytes: u64,
}

struct Net {
    now: Instant,
    random: Random,
    count: u64,
    nodes: BTreeMap<NodeId, Nodes>,
    on_its_way: BTreeMap<(Instant, u64), (NodeId, NodeId, Bytes)>,
    sent: u64,
    traffic: Traffic,
    /// Somebody sees somebody in another state.
    has_changed: bool,
}

/// Plays clusters of these sizes. `now` is where their time begins.
pub fn measure(now: Instant, sizes: &[u64], seed: u64) -> Vec<Costs> {
    sizes
        .iter()
        .map(|count| Net::new(now, *count, seed).measure())
        .collect()
}

impl Net {
    fn new(now: Instant, count: u64, seed: u64) -> Self {
        Self {
            now,
            random: Random::new(seed),
            count,
            nodes: BTreeMap::new(),
            on_its_way: BTreeMap::new(),
            sent: 0,
            traffic: Traffic::default(),
            has_changed: false,
        }
    }

    /// All but one begin; then the last one joins; then it is gone.
    fn measure(mut self) -> Costs {
        let last = NodeId(self.count);
        (1..self.count).for_each(|node| self.start(NodeId(node)));
        self.until(|net| net.all_see(&net.others(last), NodeState::Running));
        self.pass(DEAD_AFTER);
        self.start(last);
        self.traffic = Traffic::default();
        let began = self.now;
        self.until(|net| net.all_see(&BTreeSet::from([last]), NodeState::Running));
        let (joined_after, join) = (self.now - began, self.traffic);
        self.pass(DEAD_AFTER);
        self.traffic = Traffic::default();
        self.pass(CALM);
        let calm = self.traffic;
        self.nodes.remove(&last);
        self.traffic = Traffic::default();
        let began = self.now;
        self.until(|net| net.all_see(&BTreeSet::from([last]), NodeState::Dead));
        Costs {
            nodes: self.count,
            calm: calm.per(CALM.as_secs() * self.count),
            joined_after,
            join: join.per(self.count),
            lost_after: self.now - began,
            loss: self.traffic.per(self.count),
            moved: moved_by_join(self.count),
        }
    }

    fn others(&self, but: NodeId) -> BTreeSet<NodeId> {
        self.nodes.keys().copied().filter(|node| *node != but).collect()
    }

    fn all_see(&self, these: &BTreeSet<NodeId>, state: NodeState) -> bool {
        let sees = |nodes: &Nodes| these.iter().all(|node| nodes.state_of(*node) == state);
        self.nodes.values().all(sees)
    }

    fn start(&mut self, own: NodeId) {
        let config = DetectionConfig {
            own: Actor {
                node: own,
                incarnation: Incarnation(1),
            },
            dead_after: DEAD_AFTER,
            seed: self.random.next(),
        };
        let all = (1..=self.count).map(NodeId).collect();
        let (mut nodes, mut outputs) = (Nodes::new(self.now, &config), Vec::new());
        nodes.set_nodes(self.now, &all, &mut outputs);
        for other in all.iter().filter(|other| **other != own) {
            nodes.set_linked(self.now, *other, true, &mut outputs);
        }
        self.nodes.insert(own, nodes);
        self.put(own, outputs);
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.next().is_some_and(|next| next <= end) {
            self.step();
        }
        self.now = end;
    }

    fn until(&mut self, is_so: impl Fn(&Self) -> bool) {
        self.has_changed = true;
        while !(self.has_changed && is_so(self)) {
            self.has_changed = false;
            self.step();
        }
    }

    /// When something happens next.
    fn next(&self) -> Option<Instant> {
        let arrival = self.on_its_way.keys().next().map(|(at, _)| *at);
        let deadlines = self.nodes.values().filter_map(Nodes::deadline);
        deadlines.chain(arrival).min()
    }

    fn step(&mut self) {
        let Some(next) = self.next() else { return };
        self.now = self.now.max(next);
        while let Some(((at, _), _)) = self.on_its_way.first_key_value()
            && *at <= self.now
        {
            let Some((_, (from, to, message))) = self.on_its_way.pop_first() else {
                return;
            };
            let now = self.now;
            self.with(to, |nodes, outputs| {
                nodes
                    .hear(now, from, message, outputs)
                    .expect("nodes of one version understand each other");
            });
        }
        let is_due = |nodes: &Nodes| nodes.deadline().is_some_and(|deadline| deadline <= self.now);
        let due: Vec<NodeId> = self
            .nodes
            .iter()
            .filter(|(_, nodes)| is_due(nodes))
            .map(|(node, _)| *node)
            .collect();
        let now = self.now;
        for node in due {
            self.with(node, |nodes, outputs| nodes.tick(now, outputs));
        }
    }

    fn with(&mut self, node: NodeId, call: impl FnOnce(&mut Nodes, &mut Vec<NodesOutput>)) {
        let (now, mut outputs) = (self.now, Vec::new());
        let Some(nodes) = self.nodes.get_mut(&node) else {
            return;
        };
        call(nodes, &mut outputs);
        while let Some(due) = nodes.to_hand_over() {
            nodes.handed_over(now, due, &mut outputs);
        }
        self.put(node, outputs);
    }

    fn put(&mut self, from: NodeId, outputs: Vec<NodesOutput>) {
        for output in outputs {
            let NodesOutput::Send(to, message) = output else {
                self.has_changed = true;
                continue;
            };
            self.traffic.messages += 1;
            self.traffic.bytes += message.len() as u64;
            self.sent += 1;
            let spread = self.random.between(0, DELAY_SPREAD_MICROS) as u64;
            let at = self.now + Duration::from_micros(DELAY_MIN_MICROS + spread);
            self.on_its_way.insert((at, self.sent), (from, to, message));
        }
    }
}

impl Traffic {
    fn per(self, parts: u64) -> Self {
        Self {
            messages: self.messages / parts,
            bytes: self.bytes / parts,
        }
    }
}

/// The part of all copies that a join moves.
fn moved_by_join(count: u64) -> f64 {
    let ring = |count: u64| Ring::primary((1..=count).map(|node| (NodeId(node), NodeState::Running)));
    let (before, after) = (ring(count - 1), ring(count));
    let moved = (0..KEYS).map(|key| {
        let key = key.to_be_bytes();
        let had = before.owners(&key, REPLICATION_FACTOR);
        let has = after.owners(&key, REPLICATION_FACTOR);
        has.iter().filter(|node| !had.contains(node)).count() as u64
    });
    moved.sum::<u64>() as f64 / f64::from(KEYS) / REPLICATION_FACTOR.min(count as usize) as f64
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            nodes,
            calm,
            join,
            loss,
            ..
        } = self;
        write!(
            f,
            "| {nodes} | {} msg/s, {:.1} kB/s | {:.0} ms, {} msg, {:.1} kB | {:.1} s, {} msg, {:.1} kB | {:.1} % |",
            calm.messages,
            calm.bytes as f64 / 1e3,
            self.joined_after.as_secs_f64() * 1e3,
            join.messages,
            join.bytes as f64 / 1e3,
            self.lost_after.as_secs_f64(),
            loss.messages,
            loss.bytes as f64 / 1e3,
            self.moved * 100.0,
        )
    }
}
