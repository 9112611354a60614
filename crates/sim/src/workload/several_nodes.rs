//! Random requests to the state store of several nodes, over faults of every kind, from one seed.
//!
//! Keepers write and read keys, watchers are notified of their changes, each through some node. Faults are drawn from the seed (`faults.rs`),
//! and happen as it says (`weather.rs`) to the network (`network.rs`) and to the nodes (`member.rs`); a majority of the nodes survives.
//! Promises are looked at after every step (`look.rs`, `crates/sim/src/promises`). In the end all faults are over and everything has to come
//! to rest; then a minority is lost for ever, and everything has to be there (`calm.rs`).

mod broken;
mod calm;
mod changes;
mod clocks;
mod defects;
pub mod faults;
mod links;
mod look;
mod member;
mod network;
mod retainers;
mod trace;
mod wanderers;
mod watcher;
mod weather;

use std::time::{Duration, Instant};

use cluster::NodeId;
use cluster::random::Random;

pub use self::broken::BrokenLinks;
use self::changes::Changes;
use self::clocks::{Clocks, Wrong};
use self::faults::{Fault, Faults};
use self::links::Links;
use self::look::Look;
use self::member::Member;
use self::network::{Link, Network};
use self::retainers::Retainers;
use self::trace::Trace;
use self::wanderers::Wanderers;
use self::watcher::Watcher;
use super::Defect;
use super::keeper::Keeper;
use crate::few_slots;
use crate::history::MILLISECOND;
use crate::machine::{Machine, MachineConfig, WALL_AT_ORIGIN};
use crate::promises::bounded_memory::Maxima;
use crate::promises::l1::Histories;
use crate::promises::l3::Notifications;
use crate::rest::Taken;

/// One run.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClusterRun {
    /// Decides everything.
    pub seed: u64,
    /// Steps of the storm.
    pub steps: u64,
    /// How many nodes there are.
    pub nodes: u64,
    /// Faults that do not happen, although the seed has them.
    pub without: Faults,
    /// Links that are broken for the whole storm.
    pub broken: BrokenLinks,
    /// A defect to put in, to see that it is found.
    pub defect: Option<Defect>,
    /// What happened is told if the run fails.
    pub is_traced: bool,
}

/// What a run did, to see that it was worth it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClusterSummary {
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that were sent again, to the same node or another one.
    pub retried: u64,
    /// Pages of scans.
    pub pages: u64,
    /// Changes of which watchers were notified.
    pub notified: u64,
    /// Retained messages that were taken away.
    pub retained_gone: u64,
    /// Messages that clients got that go from node to node.
    pub wandered: u64,
    /// Nodes that lost their power.
    pub crashes: u64,
    /// Nodes that were stopped.
    pub stops: u64,
    /// Nodes that stood still.
    pub pauses: u64,
    /// Splits of the network.
    pub splits: u64,
    /// Clocks that were set.
    pub jumps: u64,
    /// Connections that ended because of a wrong clock.
    pub parted: u64,
    /// Nodes that refused to start on a damaged disk.
    pub damaged: u64,
    /// Disks that were full.
    pub filled: u64,
    /// Nodes that were added.
    pub added: u64,
    /// Nodes that were removed.
    pub removed: u64,
    /// Terms in which somebody led.
    pub terms: u64,
    /// Messages between nodes.
    pub messages: u64,
    /// Entries in logs that were compared.
    pub entries: u64,
    /// States of one log position that were compared.
    pub compared: u64,
    /// Stores that were taken over from another node.
    pub copies: u64,
    /// Keys of which it would take too long to find out whether their histories are linearizable.
    pub not_known: u64,
    /// Simulated time, in milliseconds.
    pub millis: u64,
    /// The longest time without a leader after one was lost and nothing else happened, in milliseconds.
    pub leaderless_max: u64,
    /// The most that nodes had to say to each other in one moment until there was nothing left to say.
    pub longest: Taken,
    maxima: Maxima,
}

impl ClusterSummary {
    /// The sum of two runs.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            answered: self.answered + other.answered,
            retried: self.retried + other.retried,
            pages: self.pages + other.pages,
            notified: self.notified + other.notified,
            retained_gone: self.retained_gone + other.retained_gone,
            wandered: self.wandered + other.wandered,
            crashes: self.crashes + other.crashes,
            stops: self.stops + other.stops,
            pauses: self.pauses + other.pauses,
            splits: self.splits + other.splits,
            jumps: self.jumps + other.jumps,
            parted: self.parted + other.parted,
            damaged: self.damaged + other.damaged,
            filled: self.filled + other.filled,
            added: self.added + other.added,
            removed: self.removed + other.removed,
            terms: self.terms + other.terms,
            messages: self.messages + other.messages,
            entries: self.entries + other.entries,
            compared: self.compared + other.compared,
            copies: self.copies + other.copies,
            not_known: self.not_known + other.not_known,
            millis: self.millis + other.millis,
            leaderless_max: self.leaderless_max.max(other.leaderless_max),
            longest: self.longest.or(other.longest),
            maxima: self.maxima.or(other.maxima),
        }
    }
}

/// All nodes, the network between them, and those who ask them.
struct World {
    run: ClusterRun,
    faults: Faults,
    /// Decides what everybody does.
    random: Random,
    /// Decides what goes wrong, so that a fault that is left out changes little else.
    weather: Random,
    origin: Instant,
    now: Instant,
    nodes: Vec<Member>,
    network: Network,
    links: Links,
    clocks: Clocks,
    changes: Changes,
    /// With the node to which each keeps.
    keepers: Vec<(usize, Keeper)>,
    watchers: Vec<Watcher>,
    retainers: Retainers,
    wanderers: Wanderers,
    histories: Histories,
    notifications: Notifications,
    look: Look,
    wrong: Wrong,
    summary: ClusterSummary,
    trace: Trace,
}

/// How many groups the state store of a cluster has, in one run or another.
const GROUPS: [u32; 3] = [1, 2, 3];

const KEEPERS_PER_NODE: usize = 2;

/// Requests without an answer that a keeper has at most.
const ASKED_MAX: usize = 4;

const WATCHERS: usize = 2;

/// Bytes of log after which a snapshot is taken.
const SNAPSHOT_LOG_BYTES: u64 = 512;

/// A snapshot takes about as long as so many writes to the log.
const SNAPSHOT_WRITES: usize = 8;

/// Entries that are kept before it.
const LOG_TAIL_ENTRIES: u64 = 2;

/// Keys that a page of a SCAN looks at, so that most have several pages.
const SCAN_KEYS_MAX: usize = 6;

/// By how many milliseconds clocks differ when nobody sets them.
const CLOCK_AHEAD_MAX: usize = 40;

impl ClusterRun {
    /// Plays the run.
    ///
    /// # Errors
    /// The promise that was broken, after what happened if that is wanted.
    pub fn play(self, origin: Instant) -> Result<ClusterSummary, String> {
        let mut world = World::new(self, origin);
        match world.play() {
            Ok(()) => Ok(world.summary()),
            Err(why) => Err(world.trace.explain(why)),
        }
    }
}

impl World {
    fn new(run: ClusterRun, origin: Instant) -> Self {
        let mut random = Random::new(run.seed);
        let faults = Faults::of_seed(run.seed).without(run.without);
        let voters: Vec<NodeId> = (1..=run.nodes).map(NodeId).collect();
        let groups = GROUPS[random.between(0, GROUPS.len())];
        let (mut nodes, mut changes) = (Vec::new(), None);
        let clocks = Clocks::new(run.seed, origin);
        for node in &voters {
            let mut config = MachineConfig::new(run.seed ^ node.0 << 48);
            config.node = *node;
            config.voters.clone_from(&voters);
            config.groups = groups;
            config.slots = few_slots::of_seed(run.seed);
            config.snapshot_log_bytes = SNAPSHOT_LOG_BYTES;
            // Who was away for a while lacks what the others' logs have no more.
            config.log_tail_entries = LOG_TAIL_ENTRIES;
            config.scan.keys_walked_max = SCAN_KEYS_MAX;
            config.acknowledges_before_sync = run.defect == Some(Defect::AcknowledgeBeforeSync);
            config.forgets_votes = run.defect == Some(Defect::ForgottenVotes);
            config.tells_log = true;
            if clocks.is_watched() {
                config.clock_skew_max = Duration::from_millis(clocks::SKEW_MAX);
                config.clock_members = voters.len();
            }
            config.has_control = faults.has(Fault::Members);
            changes.get_or_insert_with(|| Changes::new(config.clone()));
            let mut member = Member::new(Machine::new(config, origin), origin);
            member.set_clock(random.between(0, CLOCK_AHEAD_MAX) as i64);
            nodes.push(member);
        }
        let is_deaf = run.defect == Some(Defect::LostNotifications);
        let keepers = (0..nodes.len() * KEEPERS_PER_NODE)
            .map(|number| {
                let keeper = Keeper::new(few_slots::named(&format!("keeper{number}")));
                let keeper = keeper.with_asked_max(ASKED_MAX).of_several(groups);
                (number % nodes.len(), keeper)
            })
            .collect();
        let watchers = (0..WATCHERS)
            .map(|number| {
                let name = few_slots::named(&format!("watcher{number}"));
                Watcher::new(name, number % nodes.len(), is_deaf)
            })
            .collect();
        Self {
            faults,
            weather: Random::new(run.seed ^ 0x7765_6174_6865_7200),
            origin,
            now: origin,
            network: Network::new(run.seed, faults),
            links: Links::new(run.seed, origin),
            clocks,
            changes: changes.expect("there are nodes"),
            keepers,
            watchers,
            histories: Histories::default(),
            notifications: Notifications::default(),
            look: Look::new(nodes.len()),
            retainers: Retainers::new(
                run.seed,
                if faults.has(Fault::Members) {
                    nodes.len()
                } else {
                    0
                },
            ),
            wanderers: Wanderers::new(run.seed, faults.has(Fault::Members)),
            wrong: Wrong::default(),
            summary: ClusterSummary::default(),
            trace: Trace::new(run.is_traced, origin),
            nodes,
            random,
            run,
        }
    }

    fn play(&mut self) -> Result<(), String> {
        self.calm()?;
        self.network = Network::new(self.run.seed, self.faults);
        self.network.break_for_good(self.run.broken, self.nodes.len());
        self.begin_drift();
        for _ in 0..self.run.steps {
            self.step()?;
        }
        self.calm()?;
        self.check()?;
        self.check_retained()?;
        self.check_wanderers()?;
        self.lose_minority()?;
        self.calm()?;
        self.check()?;
        self.check_wanderers()?;
        self.check_histories()
    }

    fn summary(&self) -> ClusterSummary {
        ClusterSummary {
            pages: self.keepers.iter().map(|(_, keeper)| keeper.pages()).sum(),
            notified: self.notifications.count(),
            parted: self.clocks.parted(),
            terms: self.look.terms(),
            messages: self.network.sent() + self.summary.messages,
            entries: self.look.entries(),
            compared: self.look.compared(),
            millis: u64::try_from((self.now - self.origin).as_millis()).unwrap_or(u64::MAX),
            maxima: self.look.maxima(),
            ..self.summary
        }
    }

    /// The moment on the clock that all clients share, in nanoseconds since the Unix epoch.
    fn at(&self) -> u64 {
        let passed = u64::try_from((self.now - self.origin).as_nanos()).expect("simulations are short");
        WALL_AT_ORIGIN * MILLISECOND + passed
    }

    fn step(&mut self) -> Result<(), String> {
        self.pass(Duration::from_micros(50));
        let index = self.random.between(0, self.nodes.len());
        match self.random.between(0, 1_000) {
            0..100 => self.ask(),
            100..250 => self.listen()?,
            250..650 => self.deliver(),
            650..770 => {
                let is_slow = self.random.between(0, SNAPSHOT_WRITES) > 0;
                if let Some(machine) = self.nodes[index].running() {
                    machine.write_one();
                    if !is_slow {
                        machine.finish_snapshot();
                    }
                }
            }
            770..890 => {
                if let Some(machine) = self.nodes[index].running() {
                    machine.flush();
                }
            }
            890..970 => {
                let millis = self.random.between(1, 16) as u64;
                self.pass(Duration::from_millis(millis));
            }
            970..980 => self.watch(),
            _ => self.listen_to_watcher().map(|_| ())?,
        }
        self.worsen()?;
        self.retain_sometimes()?;
        self.wander_sometimes()?;
        self.operate_sometimes()?;
        self.collect()?;
        self.network.step();
        self.look()
    }

    /// Time passes for everybody.
    fn pass(&mut self, by: Duration) {
        self.now += by;
        for member in &mut self.nodes {
            member.pass(by);
            self.wrong.note(member, self.now);
        }
        self.notice_links();
        self.compare_clocks();
    }

    /// What nodes want to send is on its way, and what they wrote is looked at.
    fn collect(&mut self) -> Result<(), String> {
        for (from, member) in self.nodes.iter_mut().enumerate() {
            let copies = member.take_copies();
            self.summary.copies += copies;
            let of_node = |watcher: &&Watcher| watcher.node == from && copies > 0;
            for watcher in self.watchers.iter().filter(of_node) {
                watcher.skip(&mut self.notifications);
            }
            let Some(machine) = member.machine_mut() else {
                continue;
            };
            self.wrong.note_reckoned(machine);
            self.look.wrote(from, &machine.take_logged())?;
            for (to, message) in machine.take_to_peers() {
                let to = usize::try_from(to.0 - 1).expect("few nodes");
                self.network.send(self.now, (from, to), message);
            }
        }
        Ok(())
    }

    fn deliver(&mut self) {
        let busy: Vec<Link> = self.network.busy(self.now).collect();
        if busy.is_empty() {
            return;
        }
        let link = busy[self.random.between(0, busy.len())];
        if self.nodes[link.1].away == 0 {
            self.deliver_on(link);
        }
    }

    fn deliver_on(&mut self, link: Link) {
        let Some((message, is_doubled)) = self.network.take(link) else {
            return;
        };
        let message = defects::changed(self.run.defect, message, self.network.sent());
        let (from, to) = link;
        if self.is_hung_up(link) {
            return;
        }
        let Some(machine) = self.nodes[to].running() else {
            return;
        };
        self.trace.note(self.now, || {
            format!("{} -> {}: {}", from + 1, to + 1, trace::message(&message))
        });
        let from = NodeId(from as u64 + 1);
        if is_doubled {
            machine.hear(from, message.clone());
        }
        machine.hear(from, message);
    }

    fn ask(&mut self) {
        let (at, index) = (self.at(), self.random.between(0, self.keepers.len()));
        let (node, keeper) = &mut self.keepers[index];
        if let Some(machine) = self.nodes[*node].running() {
            keeper.ask(machine, at, &mut self.random, &mut self.histories);
        }
    }

    fn watch(&mut self) {
        let (at, index) = (self.at(), self.random.between(0, self.watchers.len()));
        let watcher = &mut self.watchers[index];
        if let Some(machine) = self.nodes[watcher.node].running() {
            watcher.act(machine, at, &mut self.random, &mut self.notifications);
        }
    }

    fn listen(&mut self) -> Result<(), String> {
        let index = self.random.between(0, self.keepers.len());
        self.listen_one(index).map(|_| ())
    }

    /// One keeper reads what it was sent. True if there was something.
    fn listen_one(&mut self, index: usize) -> Result<bool, String> {
        let at = self.at();
        let (node, keeper) = &mut self.keepers[index];
        let Some(machine) = self.nodes[*node].running() else {
            return Ok(false);
        };
        keeper.client.connect(machine);
        let heard = keeper.client.listen(machine)?;
        self.summary.answered += heard.others.len() as u64;
        for response in heard.others {
            self.trace.note(self.now, || {
                let text = String::from_utf8_lossy(&response.payload).replace("\r\n", "|");
                format!("{} of {} is told {text}", keeper.client.name, *node + 1)
            });
            keeper.answered(at, &response, &mut self.histories)?;
        }
        Ok(heard.is_anything)
    }

    fn listen_to_watcher(&mut self) -> Result<bool, String> {
        let index = self.random.between(0, self.watchers.len());
        self.listen_to(index)
    }

    fn listen_to(&mut self, index: usize) -> Result<bool, String> {
        let at = self.at();
        let watcher = &mut self.watchers[index];
        match self.nodes[watcher.node].running() {
            Some(machine) => watcher.listen(machine, at, &mut self.notifications),
            None => Ok(false),
        }
    }
}
