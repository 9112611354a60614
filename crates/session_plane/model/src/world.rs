//! A history: nodes, the links between them, clients, and the checks of what was promised.
//!
//! A history is a function of its seed and of the rules that hold. It ends in quiet: links are healed, nodes are started,
//! and after a bounded number of ticks the copies must be whole and equal, and each client must have what it was promised.

mod actions;
mod checks;
mod clients;
mod groups;
mod interrupting;
mod network;
mod publishers;
mod replacing;
mod retired;
mod subscribers;
mod wills;

use std::collections::BTreeMap;

use crate::ids::{CLIENTS, ClientId, Dot, EventSet, NODES, NodeId, NodeSet, Numbers, RUNS, Run, SLOTS, Slot};
use crate::node::{Counters, Directory, Node, Observation, Step};
use crate::random::{Purpose, Random};
use crate::rules::Rules;
use crate::view::{State, View};

use clients::Client;
use groups::Group;
use network::Network;
use publishers::Publishers;
use replacing::Replacing;
use wills::Will;

/// Own events after which a history is left out: the sets of numbers are of fixed size.
const NUMBERS_LEFT: u8 = 30;

/// The same with a shared group, whose messages may all be given anew in one tick.
const NUMBERS_LEFT_TO_GROUP: u8 = 60;

/// A node and its machine.
#[derive(Clone, Debug)]
struct Machine {
    node: Node,
    is_alive: bool,
    /// Its disk is lost; it was removed from the cluster.
    is_lost: bool,
    changed_at: u32,
}

/// How a history ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Kept,
    /// It would have needed more events or runs than the model has room for.
    LeftOut,
    /// A promise was broken. The text begins with the promise and a colon.
    Broken(String),
}

/// A history on its way.
#[derive(Debug)]
pub struct World {
    seed: u64,
    rules: Rules,
    /// Actions of the plan that are left out.
    skipped: Vec<u32>,
    tracing: bool,
    trace: Vec<String>,
    now: u32,
    outcome: Outcome,
    counters: Counters,
    messages: u64,
    actions: u32,
    machines: Vec<Machine>,
    directory: Directory,
    network: Network,
    clients: [Client; CLIENTS],
    /// Nodes that have held each event on their disks.
    takers: BTreeMap<Dot, NodeSet>,
    published_at: BTreeMap<Dot, u32>,
    /// Entries that were removed, and the event that removed them.
    removed: BTreeMap<Removed, Dot>,
    lost: NodeSet,
    publishers: Publishers,
    /// Wills of connections, by content.
    wills: BTreeMap<u32, Will>,
    /// Ticks that the wall clock of each node is ahead.
    ahead: [u32; NODES],
    /// Connections have wills in this history.
    has_wills: bool,
    group: Group,
    /// Subscriptions that a peer knew when a node shook hands with it last.
    meetings: BTreeMap<Meeting, Vec<Dot>>,
    /// Nodes that were present when a connection became live.
    live_at: BTreeMap<Dot, NodeSet>,
    /// Of each run that some node covers as a whole what that node had of it.
    retired: [Option<Numbers>; RUNS],
    /// Numbers that some node has closed.
    closed: EventSet,
    replacing: Replacing,
    /// Faults in the middle of something so far.
    interruptions: u32,
    /// No disk is lost in this history.
    keeps_disks: bool,
    /// Nothing disturbs any more.
    is_quiet: bool,
}

/// What only a part of the histories has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    /// Clients are members of the shared group.
    Group,
    /// Clients publish with QoS 2.
    Publishers,
    /// Clients take messages with QoS 2.
    Subscribers,
    /// Connections have wills.
    Wills,
    /// Nodes are lost right after they have given something away.
    Replacing,
    /// Two owners have what is acknowledged.
    Copies,
    /// Faults come in the middle of what takes several steps.
    Interruptions,
}

/// An entry of a session, by its dot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Removed {
    client: ClientId,
    dot: Dot,
}

/// A handshake, as `node` sees it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Meeting {
    node: NodeId,
    peer: NodeId,
}

/// What a history consisted of.
#[derive(Clone, Debug)]
pub struct Report {
    pub outcome: Outcome,
    pub ticks: u32,
    pub messages: u64,
    pub actions: u32,
    pub counters: Counters,
    /// What happened, line by line, if the history was traced.
    pub trace: Vec<String>,
}

impl World {
    /// The beginning of a history: three to five nodes that all run.
    pub fn new(seed: u64, rules: Rules, skipped: Vec<u32>, tracing: bool) -> World {
        let mut random = Random::new(seed, Purpose::Founding);
        let count = 3 + random.below(3) as u8;
        let slot = Slot(random.below(SLOTS) as u8);
        let mut group = Random::new(seed, Purpose::Group);
        let slot_of = [Slot(0), slot, Slot(group.below(SLOTS) as u8)];
        let present: NodeSet = (0..count).map(NodeId).collect();
        let mut view = View {
            present,
            states: [State::Joining; NODES],
            incarnations: [0; NODES],
            runs: [None; NODES],
        };
        for node in present.iter() {
            view.states[node.index()] = State::Running;
            view.runs[node.index()] = Some(Run::first_of(node));
        }
        let machine = |node: NodeId| Machine {
            node: Node::founded(node, Run::first_of(node), view),
            is_alive: true,
            is_lost: false,
            changed_at: 0,
        };
        World {
            seed,
            rules,
            skipped,
            tracing,
            trace: Vec::new(),
            now: 1,
            outcome: Outcome::Kept,
            counters: Counters::default(),
            messages: 0,
            actions: 0,
            machines: present.iter().map(machine).collect(),
            directory: Directory {
                slot_of,
                has_group: group.chance(1, 4),
                takes_once: [Random::new(seed, Purpose::Subscribers).chance(1, 2); CLIENTS],
                node_of: present.iter().flat_map(|node| [node, node]).collect(),
                members: present,
                copies_min: copies_min(seed),
            },
            network: Network::default(),
            clients: Default::default(),
            takers: BTreeMap::new(),
            published_at: BTreeMap::new(),
            removed: BTreeMap::new(),
            lost: NodeSet::EMPTY,
            publishers: Publishers::default(),
            wills: BTreeMap::new(),
            ahead: draw_clocks(seed),
            has_wills: Random::new(seed, Purpose::Wills { now: 0, client: 0 }).chance(1, 3),
            group: Group::default(),
            meetings: BTreeMap::new(),
            live_at: BTreeMap::new(),
            retired: [None; RUNS],
            closed: EventSet::default(),
            replacing: Replacing::default(),
            interruptions: 0,
            keeps_disks: random.chance(1, 2) && !Replacing::is_played(seed) && copies_min(seed) == 1,
            is_quiet: false,
        }
    }

    /// The history has `feature`.
    pub fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Group => self.directory.has_group,
            Feature::Publishers => self.has_publishers(),
            Feature::Subscribers => self.directory.takes_once.contains(&true),
            Feature::Wills => self.has_wills,
            Feature::Replacing => Replacing::is_played(self.seed),
            Feature::Interruptions => self.is_interrupted(),
            Feature::Copies => self.directory.copies_min > 1,
        }
    }

    /// Plays the history to its end.
    pub fn play(mut self) -> Report {
        if self.has_skew() {
            let ahead = self.ahead;
            self.say(|| format!("wall clocks are ahead by {ahead:?}"));
        }
        self.play_plan();
        if self.goes_on() {
            self.come_to_rest();
        }
        Report {
            outcome: self.outcome,
            ticks: self.now,
            messages: self.messages,
            actions: self.actions,
            counters: self.counters,
            trace: self.trace,
        }
    }

    fn goes_on(&self) -> bool {
        self.outcome == Outcome::Kept
    }

    fn fail(&mut self, text: String) {
        if self.goes_on() {
            self.say(|| format!("BROKEN {text}"));
            self.outcome = Outcome::Broken(text);
        }
    }

    fn say(&mut self, text: impl FnOnce() -> String) {
        if self.tracing {
            self.trace.push(format!("[{:4}] {}", self.now, text()));
        }
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.machines.len() as u8).map(NodeId)
    }

    fn node(&self, node: NodeId) -> &Node {
        &self.machines[node.index()].node
    }

    fn alive(&self) -> NodeSet {
        self.nodes()
            .filter(|node| self.machines[node.index()].is_alive)
            .collect()
    }

    /// Wall clocks of nodes differ in this history.
    fn has_skew(&self) -> bool {
        self.ahead != [0; NODES]
    }

    fn takers(&self, dot: Dot) -> NodeSet {
        self.takers.get(&dot).copied().unwrap_or_default()
    }

    /// More disks had to have what is acknowledged than were lost.
    fn has_lost_few(&self) -> bool {
        self.lost.len() < self.directory.copies_min
    }

    /// Lets a node make a step, sends what it sends, and takes what it observed.
    fn step_node<R>(
        &mut self,
        id: NodeId,
        random: u64,
        act: impl FnOnce(&mut Node, &mut Step<'_>) -> R,
    ) -> R {
        let mut step = Step {
            rules: &self.rules,
            now: self.now,
            directory: &self.directory,
            outgoing: Vec::new(),
            observed: Vec::new(),
            counters: &mut self.counters,
            tracing: self.tracing,
            ahead: self.ahead[id.index()],
            random: random | 1,
        };
        let result = act(&mut self.machines[id.index()].node, &mut step);
        let Step {
            outgoing, observed, ..
        } = step;
        for observation in &observed {
            if let Observation::DeclaredDead(peer) = observation {
                let pair = u32::from(id.0) << 8 | u32::from(peer.0);
                let mut random = Random::new(self.seed, Purpose::Parting { now: self.now, pair });
                self.network.part(id, *peer, &mut random);
            }
        }
        let present = self.node(id).membership.view.present.without(id);
        for outgoing in outgoing.into_iter().filter(|outgoing| present.has(outgoing.to)) {
            self.network.send(id, outgoing);
        }
        for observation in observed {
            self.observe(id, observation);
        }
        result
    }

    /// One tick: handshakes, then each node's timers, then messages.
    fn tick(&mut self) {
        self.now += 1;
        self.tick_publishers();
        self.watch_wills();
        let mut random = Random::new(self.seed, Purpose::Tick(self.now));
        self.shake_hands(&mut random);
        let count = self.machines.len();
        let first = random.below(count);
        for offset in 0..count {
            let id = NodeId(((first + offset) % count) as u8);
            if !self.machines[id.index()].is_alive {
                continue;
            }
            let refused = self.refusing(id, &mut random);
            let seed = random.draw();
            self.step_node(id, seed, |node, step| node.tick(step, refused));
            let left = if self.directory.has_group {
                NUMBERS_LEFT_TO_GROUP
            } else {
                NUMBERS_LEFT
            };
            if self.node(id).sender.number() > crate::ids::NUMBER_MAX - left {
                self.outcome = Outcome::LeftOut;
                return;
            }
        }
        self.deliver_messages(&mut random);
        self.check_retired();
    }

    /// Plays `count` ticks, or fewer if the history ends.
    fn ticks(&mut self, count: u32) {
        for _ in 0..count {
            if !self.goes_on() {
                return;
            }
            self.tick();
        }
    }

    /// Lets nodes that can reach each other, and do not take each other for present, shake hands.
    fn shake_hands(&mut self, random: &mut Random) {
        let nodes: Vec<NodeId> = self.nodes().collect();
        for (index, one) in nodes.iter().enumerate() {
            for other in &nodes[index + 1..] {
                if self.may_shake_hands(*one, *other) && random.chance(1, 3) {
                    self.shake(*one, *other);
                }
            }
        }
    }

    fn may_shake_hands(&self, one: NodeId, other: NodeId) -> bool {
        let alive = self.alive();
        alive.has(one)
            && alive.has(other)
            && !self.node(one).membership.has(other)
            && !self.node(other).membership.has(one)
            && self.network.reaches_both_ways(one, other)
    }

    fn shake(&mut self, one: NodeId, other: NodeId) {
        let both_run = self.node(one).state() == State::Running && self.node(other).state() == State::Running;
        // The larger side wins; of two equal ones the one with the lowest node.
        let weight = |world: &World, node: NodeId| {
            let present = world.node(node).membership.view.present;
            (present.len(), std::cmp::Reverse(present.lowest()))
        };
        let order = weight(self, one).cmp(&weight(self, other));
        let (loses_one, loses_other) = (both_run && order.is_lt(), both_run && order.is_gt());
        let (introduced_one, introduced_other) =
            (self.node(one).introduction(), self.node(other).introduction());
        self.network.clear(one, other);
        self.remember_meeting(one, other);
        self.remember_meeting(other, one);
        self.say(|| format!("handshake {} {}", one.0, other.0));
        self.step_node(one, 1, |node, step| {
            node.shake_hands(step, introduced_other, loses_one);
        });
        self.step_node(other, 1, |node, step| {
            node.shake_hands(step, introduced_one, loses_other);
        });
    }

    /// Peers of `id` whose machine answers that the process, or that run of it, is gone.
    fn refusing(&self, id: NodeId, random: &mut Random) -> NodeSet {
        let node = self.node(id);
        let is_gone = |peer: &NodeId| {
            let machine = &self.machines[peer.index()];
            let is_same_run =
                machine.is_alive && node.membership.run_of(*peer) == Some(machine.node.sender.run);
            self.network.reaches_both_ways(id, *peer) && !is_same_run && self.now - machine.changed_at > 2
        };
        let gone: Vec<NodeId> = node.membership.peers().iter().filter(is_gone).collect();
        gone.into_iter().filter(|_| random.chance(1, 2)).collect()
    }

    fn deliver_messages(&mut self, random: &mut Random) {
        let count = self.machines.len();
        for link in Network::links(count, random) {
            for _ in 0..self.network.capacity(link, random) {
                let Some(message) = self.network.receive(link) else {
                    break;
                };
                let receiver = &self.machines[link.to.index()];
                if !receiver.is_alive || !receiver.node.membership.has(link.from) {
                    continue;
                }
                self.messages += 1;
                let seed = random.draw();
                self.step_node(link.to, seed, |node, step| node.receive(step, link.from, message));
                if !self.goes_on() {
                    return;
                }
            }
        }
    }

    /// Ends a process.
    fn crash(&mut self, id: NodeId, random: &mut Random) {
        self.lose_wills_of(id);
        let machine = &mut self.machines[id.index()];
        machine.is_alive = false;
        machine.changed_at = self.now;
        self.counters.crashed += 1;
        self.network.cut_off(id, random);
        for client in &mut self.clients {
            client.lose_node(id);
        }
    }

    /// Starts a process; false if the model has no room for another run.
    fn restart(&mut self, id: NodeId) -> bool {
        if self.directory.node_of.len() + 4 >= RUNS {
            return false;
        }
        let run = self.new_run(id);
        let machine = &mut self.machines[id.index()];
        machine.node.restart(run, self.now);
        machine.is_alive = true;
        machine.changed_at = self.now;
        true
    }

    fn new_run(&mut self, node: NodeId) -> Run {
        let run = Run(self.directory.node_of.len() as u8);
        self.directory.node_of.extend([node, node]);
        run
    }

    /// Loses a node with its disk, and adds a new node in its place.
    fn replace(&mut self, id: NodeId, random: &mut Random) {
        self.counters.disks_lost += 1;
        let new = NodeId(self.machines.len() as u8);
        self.say(|| format!("DISK LOST {}; new node {}", id.0, new.0));
        self.crash(id, random);
        self.machines[id.index()].is_lost = true;
        self.directory.members.remove(id);
        self.lost.insert(id);
        let run = self.new_run(new);
        self.machines.push(Machine {
            node: Node::new(new, run, self.now),
            is_alive: true,
            is_lost: false,
            changed_at: 0,
        });
        self.directory.members.insert(new);
    }
}

/// In one history of eight two owners have what is acknowledged, and at most one disk is lost.
fn copies_min(seed: u64) -> usize {
    if (17..=20).contains(&(seed % 32)) { 2 } else { 1 }
}

/// In one history of four the wall clocks of nodes differ, by more than a history lasts at most.
fn draw_clocks(seed: u64) -> [u32; NODES] {
    let mut random = Random::new(seed, Purpose::Clocks);
    if !random.chance(1, 4) {
        return [0; NODES];
    }
    std::array::from_fn(|_| [0, 3, 30, 1_000][random.below(4)])
}
