//! Random requests to the state store of several nodes, over crashes, pauses, splits and lost messages, from one seed.
//!
//! Each keeper has a node to which it keeps. Between two nodes messages arrive in their order, until the connection breaks and what was
//! on its way is lost. In the end everything is repaired and must come to rest (liveness). Promises that are checked on the way have
//! their files in `several_nodes/`; L1 and L2 are checked by the histories of all keys.

mod agreement;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::NodeId;
use cluster::random::Random;

use self::agreement::Agreement;
use super::keeper::Keeper;
use super::oracle::Oracle;
use crate::history::MILLISECOND;
use crate::machine::{Machine, MachineConfig};

/// One run.
#[derive(Debug, Clone, Copy)]
pub struct ClusterRun {
    /// Decides everything.
    pub seed: u64,
    /// Steps of the storm.
    pub steps: u64,
    /// How many nodes there are.
    pub nodes: u64,
    /// A defect to put in, to see that it is found.
    pub defect: Option<super::Defect>,
}

/// What a run did, to see that it was worth it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClusterSummary {
    /// Requests that were answered.
    pub answered: u64,
    /// Nodes that lost their power.
    pub crashes: u64,
    /// Splits of the network.
    pub splits: u64,
    /// Terms in which somebody led.
    pub terms: u64,
    /// States of one log position that were compared.
    pub compared: u64,
    /// Stores that were taken over from another node.
    pub copies: u64,
}

impl ClusterSummary {
    /// The sum of two runs.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            answered: self.answered + other.answered,
            crashes: self.crashes + other.crashes,
            splits: self.splits + other.splits,
            terms: self.terms + other.terms,
            compared: self.compared + other.compared,
            copies: self.copies + other.copies,
        }
    }
}

/// All nodes, the network between them, and those who ask them.
struct World {
    random: Random,
    now: Instant,
    nodes: Vec<Member>,
    /// What is on its way from one node to another.
    links: BTreeMap<(usize, usize), VecDeque<Bytes>>,
    /// Links that carry nothing.
    cut: BTreeSet<(usize, usize)>,
    keepers: Vec<(usize, Keeper)>,
    oracle: Oracle,
    agreement: Agreement,
    summary: ClusterSummary,
    has_stale_reads: bool,
}

/// A node.
struct Member {
    /// It is only away while it crashes.
    machine: Option<Machine>,
    /// It does nothing for so many steps: without power, or paused.
    away: u64,
}

/// How many groups the state store of a cluster may have.
const GROUPS: [u32; 3] = [1, 2, 3];

const KEEPERS_PER_NODE: usize = 2;

/// Bytes of log after which a snapshot is taken.
const SNAPSHOT_LOG_BYTES: u64 = 512;

/// A snapshot takes about as long as so many writes to the log.
const SNAPSHOT_WRITES: usize = 8;

/// Entries that are kept before it.
const LOG_TAIL_ENTRIES: u64 = 2;

/// By how many milliseconds clocks differ at most.
const CLOCK_AHEAD_MAX: usize = 40;

/// Messages on one link; more of them are lost, as when a connection breaks.
const LINK_MAX: usize = 256;

/// Steps for which a node is away at most.
const AWAY_MAX: usize = 1_500;

/// Rounds after which a cluster without faults has to be quiet.
const CALM_ROUNDS_MAX: usize = 5_000;

impl ClusterRun {
    /// Plays the run.
    ///
    /// # Errors
    /// The promise that was broken.
    pub fn play(self, origin: Instant) -> Result<ClusterSummary, String> {
        let mut world = World::new(self, origin);
        world.calm()?;
        for _ in 0..self.steps {
            world.step()?;
        }
        world.calm()?;
        world.check()?;
        Ok(world.summary)
    }
}

impl World {
    fn new(run: ClusterRun, origin: Instant) -> Self {
        let mut random = Random::new(run.seed);
        let voters: Vec<NodeId> = (1..=run.nodes).map(NodeId).collect();
        let groups = GROUPS[random.between(0, GROUPS.len())];
        let mut nodes = Vec::new();
        for node in &voters {
            let mut config = MachineConfig::new(run.seed ^ node.0 << 48);
            config.node = *node;
            config.voters.clone_from(&voters);
            config.groups = groups;
            config.clock_ahead = random.between(0, CLOCK_AHEAD_MAX) as u64;
            config.snapshot_log_bytes = SNAPSHOT_LOG_BYTES;
            // Who was away for a while lacks what the others' logs have no more.
            config.log_tail_entries = LOG_TAIL_ENTRIES;
            config.acknowledges_before_sync = run.defect == Some(super::Defect::AcknowledgeBeforeSync);
            nodes.push(Member {
                machine: Some(Machine::new(config, origin)),
                away: 0,
            });
        }
        let keepers = (0..nodes.len() * KEEPERS_PER_NODE)
            .map(|number| (number % nodes.len(), Keeper::new(format!("keeper{number}"))))
            .collect();
        Self {
            random,
            now: origin,
            nodes,
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
            keepers,
            oracle: Oracle::default(),
            agreement: Agreement::default(),
            summary: ClusterSummary::default(),
            has_stale_reads: run.defect == Some(super::Defect::StaleReads),
        }
    }

    fn step(&mut self) -> Result<(), String> {
        for member in &mut self.nodes {
            member.away = member.away.saturating_sub(1);
        }
        self.pass(Duration::from_micros(50));
        let index = self.random.between(0, self.nodes.len());
        let is_there = self.nodes[index].away == 0;
        match self.random.between(0, 1_000) {
            0..100 => self.ask(),
            100..250 => self.listen()?,
            250..650 => self.deliver(),
            650..770 if is_there => {
                self.machine(index).write_one();
                if self.random.between(0, SNAPSHOT_WRITES) == 0 {
                    self.machine(index).finish_snapshot();
                }
            }
            770..890 if is_there => self.machine(index).flush(),
            890..970 => {
                let millis = self.random.between(1, 16) as u64;
                self.pass(Duration::from_millis(millis));
            }
            970..982 => self.break_link(),
            982..986 => self.split(),
            986..991 => self.cut.clear(),
            991..994 => self.crash(index),
            994..997 => self.nodes[index].away = self.random.between(0, AWAY_MAX) as u64,
            _ => {}
        }
        self.collect();
        self.agreement.look(machines(&self.nodes))?;
        Ok(())
    }

    /// No more faults: everybody is there, and everything that waits is decided.
    fn calm(&mut self) -> Result<(), String> {
        self.cut.clear();
        for member in &mut self.nodes {
            member.away = 0;
        }
        for _ in 0..CALM_ROUNDS_MAX {
            self.pass(Duration::from_millis(5));
            for index in 0..self.nodes.len() {
                self.machine(index).write_all();
                self.machine(index).finish_snapshot();
            }
            self.collect();
            while self.links.values().any(|link| !link.is_empty()) {
                let links: Vec<_> = self.links.keys().copied().collect();
                for link in links {
                    self.deliver_on(link);
                }
                for index in 0..self.nodes.len() {
                    self.machine(index).write_all();
                }
                self.collect();
            }
            for index in 0..self.keepers.len() {
                self.listen_one(index)?;
            }
            self.agreement.look(machines(&self.nodes))?;
            if self.is_quiet() {
                return Ok(());
            }
        }
        Err(format!(
            "liveness: the cluster does not come to rest: {}",
            self.unrest()
        ))
    }

    fn unrest(&self) -> String {
        let mut text = String::new();
        for (machine, node) in machines(&self.nodes).zip(1..) {
            let gauges = machine.node().gauges();
            let leads: Vec<_> = machine
                .node()
                .groups()
                .map(|group| machine.node().leads(group))
                .collect();
            let (applied, waiting) = (gauges.log_applied, gauges.store_requests_waiting);
            text += &format!("\nnode {node}: applied {applied}, {waiting} requests wait, leads {leads:?}");
        }
        for (node, keeper) in self.keepers.iter().filter(|(_, keeper)| !keeper.client.is_done()) {
            text += &format!("\nof node {}: {:?}", node + 1, keeper.client);
        }
        text
    }

    fn is_quiet(&self) -> bool {
        // A response that was on its way when its node lost its power is gone, like what else is in memory.
        let waits = |(_, keeper): &(usize, Keeper)| !keeper.client.is_done();
        let applied = |machine: &Machine| machine.node().gauges().log_applied;
        let first = machines(&self.nodes).next().map(applied);
        !self.keepers.iter().any(waits)
            && machines(&self.nodes).all(|machine| machine.node().is_available())
            && machines(&self.nodes).all(|machine| Some(applied(machine)) == first)
    }

    fn check(&mut self) -> Result<(), String> {
        self.summary.terms = self.agreement.terms();
        for machine in machines(&self.nodes) {
            let counters = machine.node().counters();
            self.summary.copies += counters.store_replaced;
            if counters.store_differences > 0 {
                return Err("equal state machines: a node says that it differs".to_owned());
            }
        }
        self.agreement.compare_all(machines(&self.nodes))?;
        self.summary.compared = self.agreement.compared();
        self.oracle.check_keys(CLOCK_AHEAD_MAX as u64 * MILLISECOND)
    }

    fn machine(&mut self, index: usize) -> &mut Machine {
        let machine = self.nodes[index].machine.as_mut();
        machine.expect("it is only away while it crashes")
    }

    /// Time passes for everybody; who is paused finds out later.
    fn pass(&mut self, by: Duration) {
        self.now += by;
        for member in &mut self.nodes {
            if let Some(machine) = member.machine.as_mut().filter(|_| member.away == 0) {
                machine.tick(self.now);
            }
        }
    }

    /// What nodes want to send is on its way.
    fn collect(&mut self) {
        for (from, member) in self.nodes.iter_mut().enumerate() {
            let Some(machine) = member.machine.as_mut() else {
                continue;
            };
            for (to, message) in machine.take_to_peers() {
                let to = usize::try_from(to.0 - 1).expect("few nodes");
                if self.cut.contains(&(from, to)) {
                    continue;
                }
                let link = self.links.entry((from, to)).or_default();
                if link.len() >= LINK_MAX {
                    link.clear();
                }
                link.push_back(message);
            }
        }
    }

    fn deliver(&mut self) {
        let busy: Vec<_> = self.links.iter().filter(|(_, link)| !link.is_empty()).collect();
        if busy.is_empty() {
            return;
        }
        let link = *busy[self.random.between(0, busy.len())].0;
        if self.nodes[link.1].away == 0 {
            self.deliver_on(link);
        }
    }

    fn deliver_on(&mut self, (from, to): (usize, usize)) {
        let message = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let Some(mut message) = message.filter(|_| !self.cut.contains(&(from, to))) else {
            return;
        };
        if self.has_stale_reads {
            message = without_index(message);
        }
        let is_doubled = self.random.between(0, 50) == 0;
        let from = NodeId(from as u64 + 1);
        if is_doubled {
            self.machine(to).hear(from, message.clone());
        }
        self.machine(to).hear(from, message);
    }

    /// A connection between two nodes breaks.
    fn break_link(&mut self) {
        let (from, to) = self.pair();
        self.links.remove(&(from, to));
        self.links.remove(&(to, from));
    }

    /// Some nodes do not hear some others: in both directions, or in one.
    fn split(&mut self) {
        self.summary.splits += 1;
        let (alone, other) = self.pair();
        match self.random.between(0, 3) {
            0 => {
                self.cut.insert((alone, other));
            }
            1 => {
                for other in 0..self.nodes.len() {
                    self.cut.insert((alone, other));
                }
            }
            _ => {
                for other in 0..self.nodes.len() {
                    self.cut.extend([(alone, other), (other, alone)]);
                }
            }
        }
    }

    fn pair(&mut self) -> (usize, usize) {
        let from = self.random.between(0, self.nodes.len());
        let to = (from + self.random.between(1, self.nodes.len())) % self.nodes.len();
        (from, to)
    }

    fn crash(&mut self, index: usize) {
        self.summary.crashes += 1;
        for (node, keeper) in &mut self.keepers {
            if *node == index {
                keeper.client.cut();
            }
        }
        self.links.retain(|(from, to), _| *from != index && *to != index);
        self.summary.copies += self.machine(index).node().counters().store_replaced;
        let now = self.now;
        let member = &mut self.nodes[index];
        member.away = self.random.between(0, AWAY_MAX) as u64;
        member.machine = member.machine.take().map(|mut machine| {
            machine.tick(now);
            machine.take_to_peers().for_each(drop);
            machine.crash()
        });
    }

    fn ask(&mut self) {
        let index = self.random.between(0, self.keepers.len());
        let (node, keeper) = &mut self.keepers[index];
        let member = &mut self.nodes[*node];
        if let Some(machine) = member.machine.as_mut().filter(|_| member.away == 0) {
            keeper.ask(machine, &mut self.random, &mut self.oracle);
        }
    }

    fn listen(&mut self) -> Result<(), String> {
        let index = self.random.between(0, self.keepers.len());
        self.listen_one(index)
    }

    fn listen_one(&mut self, index: usize) -> Result<(), String> {
        let (node, keeper) = &mut self.keepers[index];
        let member = &mut self.nodes[*node];
        let Some(machine) = member.machine.as_mut().filter(|_| member.away == 0) else {
            return Ok(());
        };
        keeper.client.connect(machine);
        let heard = keeper.client.listen(machine)?;
        self.summary.answered += heard.others.len() as u64;
        for response in heard.others {
            keeper.answered(machine, &response, &mut self.oracle)?;
        }
        Ok(())
    }
}

fn machines(nodes: &[Member]) -> impl Iterator<Item = &Machine> {
    nodes.iter().filter_map(|member| member.machine.as_ref())
}

/// "From this index on a read sees everything" becomes "from the first one on". (broker/src/state_store_service/peers.rs)
fn without_index(message: Bytes) -> Bytes {
    const KIND: usize = 5;
    const READ_AT: u8 = 4;
    const INDEX_LENGTH: usize = 8;
    if message.get(KIND) != Some(&READ_AT) {
        return message;
    }
    let mut changed = message.to_vec();
    let end = changed.len();
    changed[end - INDEX_LENGTH..].fill(0);
    changed.into()
}
