//! Random conversations with one server, over crashes, from one seed.
//!
//! Publishers send numbered messages to subscribers with durable sessions, and to others who share them; others write, read and make keys of the
//! state store. Connections break, the disk is slow, the power fails. After the storm everything is repaired and must
//! come to rest (liveness), and then the oracle looks at what every client saw.
//!
//! Faults stay within what one node promises to survive: a crash loses what was not synced, and nothing else.

mod authorized;
mod client;
mod guest;
mod guests;
mod keeper;
mod message;
mod oracle;
mod page;
pub mod several_nodes;
mod wanderer;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cluster::random::Random;

use self::client::Client;
use self::guests::Guests;
use self::keeper::Keeper;
use self::oracle::Oracle;
use self::wanderer::Wanderer;
use crate::history::MILLISECOND;
use crate::machine::{Machine, MachineConfig};
use crate::rest::Bound;

/// One run.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Decides everything.
    pub seed: u64,
    /// Steps of the storm.
    pub steps: u64,
    /// A defect to put in, to see that the oracle finds it.
    pub defect: Option<Defect>,
}

/// Defects that must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// The disk confirms batches before they are synced.
    AcknowledgeBeforeSync,
    /// Nodes that do not lead read what they have, whatever the leader says, and before it is applied.
    StaleReads,
    /// Nodes forget for whom they voted when they lose their power.
    ForgottenVotes,
    /// What was executed is not remembered for requests that come again by way of another node.
    ForgottenOutcomes,
    /// Fencing tokens of requests by way of another node are always new enough.
    NoFencing,
    /// Some entries arrive at followers with another content.
    ChangedEntries,
    /// Some notifications do not arrive.
    LostNotifications,
    /// What other nodes clear arrives as nothing.
    LostClears,
    /// What other nodes retain arrives without the message.
    LostEntries,
    /// What other nodes retain arrives as a later write than it was.
    LaterEntries,
    /// Nobody tells what it knows, so nothing is forgotten.
    UntoldKnowledge,
}

/// What a run did, to see that it was worth it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary {
    /// Messages that publishers know to be taken over.
    pub acknowledged: u64,
    /// Messages that subscribers got.
    pub delivered: u64,
    /// State store requests that were answered.
    pub answered: u64,
    /// Power failures.
    pub crashes: u64,
    /// Connections that broke.
    pub losses: u64,
    /// Snapshots taken.
    pub snapshots: u64,
    /// Messages that were refused because memory was scarce.
    pub refused: u64,
}

impl Summary {
    /// The sum of two runs.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            acknowledged: self.acknowledged + other.acknowledged,
            delivered: self.delivered + other.delivered,
            answered: self.answered + other.answered,
            crashes: self.crashes + other.crashes,
            losses: self.losses + other.losses,
            snapshots: self.snapshots + other.snapshots,
            refused: self.refused + other.refused,
        }
    }
}

/// The server, everybody around it, and what they saw.
struct World {
    random: Random,
    machine: Option<Machine>,
    publishers: Vec<Client>,
    subscribers: Vec<Client>,
    keepers: Vec<Keeper>,
    retainers: Vec<Client>,
    wanderers: Vec<Wanderer>,
    /// Clients that share all messages; the last one comes and goes.
    sharers: Vec<Client>,
    /// In some runs, clients that may not do everything.
    guests: Option<Guests>,
    oracle: Oracle,
    summary: Summary,
    /// The disk writes nothing any more, and the power fails in so many steps.
    stalled: Option<u64>,
    /// Memory is short in this run.
    is_scarce: bool,
}

const PUBLISHERS: usize = 3;
const SUBSCRIBERS: usize = 3;
const KEEPERS: usize = 3;
/// Clients that set and clear retained messages.
const RETAINERS: usize = 2;
const FIRST_RETAINER: usize = PUBLISHERS + SUBSCRIBERS + KEEPERS;
const FIRST_SHARER: usize = FIRST_RETAINER + RETAINERS;
const SHARERS: usize = 3;
/// The one that comes and goes.
const LEAVER: usize = SHARERS - 1;
const WANDERERS: usize = 2;

/// Of how many retained messages the next one to be cleared is chosen, so that both clear the same one.
const CLEARED_OF: usize = 3;

/// In one of so many runs memory is short: enough for what stays to the end, and for a few dozen messages.
const SCARCE_EVERY: u64 = 4;
const MEMORY_MAX: u64 = 110 * 1024;
const MEMORY_PER_STEP: u64 = 48;

/// In one of so many runs, another one than those, there is a policy.
const POLICY_EVERY: u64 = 4;
const POLICY_AT: u64 = 2;

/// In one of so many steps of such a run a guest does something.
const GUEST_EVERY: usize = 4;

/// Steps from the last thing that the disk did to the power failure, at most.
const STALL_MAX: usize = 60;

/// Bytes of log after which a snapshot is taken: few, so that there are some in every run.
const SNAPSHOT_LOG_BYTES: u64 = 4 * 1024;

impl Run {
    /// Plays the run.
    ///
    /// # Errors
    /// The promise that was broken.
    pub fn play(self, origin: Instant) -> Result<Summary, String> {
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
    fn new(run: Run, origin: Instant) -> Self {
        let mut config = MachineConfig::new(run.seed);
        config.snapshot_log_bytes = SNAPSHOT_LOG_BYTES;
        let is_scarce = run.seed.is_multiple_of(SCARCE_EVERY);
        if is_scarce {
            config.limits.memory_max = MEMORY_MAX + run.steps * MEMORY_PER_STEP;
        }
        config.acknowledges_before_sync = run.defect == Some(Defect::AcknowledgeBeforeSync);
        let named = |role: &str, count: usize| (0..count).map(|n| format!("{role}{n}")).collect::<Vec<_>>();
        let mut random = Random::new(run.seed);
        let guests = (run.seed % POLICY_EVERY == POLICY_AT).then(|| {
            let roles = [
                ("publisher", PUBLISHERS),
                ("subscriber", SUBSCRIBERS),
                ("keeper", KEEPERS),
                ("retainer", RETAINERS),
                ("wanderer", WANDERERS),
                ("sharer", LEAVER),
            ];
            let everybody = roles.into_iter().flat_map(|(role, count)| named(role, count));
            let everybody = everybody.chain(["leaver".to_owned(), "reader".to_owned()]);
            Guests::new(&mut random, everybody.collect())
        });
        if let Some(guests) = &guests {
            config.policies = guests.policies();
        }
        Self {
            random,
            machine: Some(Machine::new(config, origin)),
            publishers: named("publisher", PUBLISHERS)
                .into_iter()
                .map(Client::new)
                .collect(),
            subscribers: named("subscriber", SUBSCRIBERS)
                .into_iter()
                .map(Client::subscriber)
                .collect(),
            keepers: named("keeper", KEEPERS).into_iter().map(Keeper::new).collect(),
            retainers: named("retainer", RETAINERS)
                .into_iter()
                .map(Client::new)
                .collect(),
            wanderers: named("wanderer", WANDERERS)
                .into_iter()
                .map(Wanderer::new)
                .collect(),
            sharers: named("sharer", LEAVER)
                .into_iter()
                .map(Client::sharer)
                .chain([Client::leaver("leaver".to_owned())])
                .collect(),
            guests,
            oracle: Oracle::default(),
            summary: Summary::default(),
            stalled: None,
            is_scarce,
        }
    }

    fn step(&mut self) -> Result<(), String> {
        if let Some(steps) = self.stalled {
            self.stalled = steps.checked_sub(1);
            if steps == 0 {
                self.crash();
                // Before those who were not answered say it again.
                self.look()?;
            }
        }
        if let Some(guests) = &mut self.guests
            && self.random.between(0, GUEST_EVERY) == 0
        {
            let machine = self.machine.as_mut().expect("it is only away while it crashes");
            guests.step(machine, &mut self.random, self.stalled.is_none())?;
        }
        match self.random.between(0, 1000) {
            0..200 => self.publish(),
            200..240 => self.retain(),
            240..290 => self.wander(),
            290..300 => self.change_sharers(),
            300..450 => self.keep(),
            450..670 => self.listen()?,
            670..700 => {
                let index = self.random.between(0, WANDERERS);
                self.listen_to_wanderer(index)?;
            }
            700..850 => {
                if self.stalled.is_none() {
                    self.machine().write_one();
                }
            }
            850..950 => self.machine().flush(),
            950..970 => self.lose(),
            970..990 => self.connect(),
            990..994 => {
                let millis = self.random.between(0, 200) as u64;
                self.machine().advance(Duration::from_millis(millis));
            }
            994..998 => self.machine().finish_snapshot(),
            // The power fails, mostly after a while in which nothing reached the disk.
            _ => self.stalled = Some(self.random.between(0, STALL_MAX) as u64),
        }
        Ok(())
    }

    /// No more faults: everybody comes back, and everything that waits is decided and delivered.
    fn calm(&mut self) -> Result<(), String> {
        self.stalled = None;
        for _ in 0..CALM_ROUNDS_MAX {
            self.machine().write_all();
            if self.is_scarce {
                // Publishers that are held back go on.
                self.machine().advance(Duration::from_secs(1));
            }
            let mut is_quiet = true;
            for index in 0..self.clients_len() {
                is_quiet &= !self.connect_one(index);
                is_quiet &= !self.listen_one(index)?;
            }
            for index in 0..WANDERERS {
                let machine = self.machine.as_mut().expect("it is only away while it crashes");
                is_quiet &= !self.wanderers[index].connect(machine);
                is_quiet &= !self.listen_to_wanderer(index)?;
            }
            if let Some(guests) = &mut self.guests {
                let machine = self.machine.as_mut().expect("it is only away while it crashes");
                is_quiet &= !guests.rest(machine, &mut self.random)?;
            }
            if is_quiet {
                return Ok(());
            }
        }
        Err("liveness: clients and server do not come to rest".to_owned())
    }

    fn machine(&mut self) -> &mut Machine {
        self.machine.as_mut().expect("it is only away while it crashes")
    }

    fn clients_len(&self) -> usize {
        FIRST_SHARER + SHARERS
    }

    fn client(&mut self, index: usize) -> (&mut Client, &mut Machine) {
        let machine = self.machine.as_mut().expect("it is only away while it crashes");
        let client = match index {
            0..PUBLISHERS => &mut self.publishers[index],
            _ if index < PUBLISHERS + SUBSCRIBERS => &mut self.subscribers[index - PUBLISHERS],
            _ if index < FIRST_RETAINER => &mut self.keepers[index - PUBLISHERS - SUBSCRIBERS].client,
            _ if index < FIRST_SHARER => &mut self.retainers[index - FIRST_RETAINER],
            _ => &mut self.sharers[index - FIRST_SHARER],
        };
        (client, machine)
    }

    fn publish(&mut self) {
        let index = self.random.between(0, PUBLISHERS);
        let is_exactly_once = self.random.between(0, 2) == 0;
        let (publisher, machine) = self.client(index);
        publisher.publish(machine, is_exactly_once);
    }

    /// Sets a retained message, or clears one, so that often two clear the same.
    fn retain(&mut self) {
        let index = self.random.between(0, RETAINERS);
        let machine = self.machine.as_mut().expect("it is only away while it crashes");
        if self.random.between(0, 3) == 0 {
            self.retainers[index].retain(machine);
        } else if let Some(topic) = self.oracle.clear(self.random.between(0, CLEARED_OF)) {
            self.retainers[index].clear(machine, &topic);
        }
    }

    fn wander(&mut self) {
        let index = self.random.between(0, WANDERERS);
        let machine = self.machine.as_mut().expect("it is only away while it crashes");
        self.wanderers[index].wander(machine, &mut self.random);
    }

    /// One of the sharers leaves and comes back, in one way or another.
    fn change_sharers(&mut self) {
        let machine = self.machine.as_mut().expect("it is only away while it crashes");
        let leaver = &mut self.sharers[LEAVER];
        match self.random.between(0, 3) {
            0 => leaver.begin_anew(machine),
            1 => leaver.unsubscribe(machine),
            _ => leaver.subscribe_again(machine),
        }
    }

    fn listen_to_wanderer(&mut self, index: usize) -> Result<bool, String> {
        let machine = self.machine.as_mut().expect("it is only away while it crashes");
        self.wanderers[index].listen(machine, self.publishers[0].latest())
    }

    /// Everything is quiet: what was promised is there.
    fn check(&mut self) -> Result<(), String> {
        self.oracle.check()?;
        let gauges = self.machine().node().gauges();
        if (gauges.waiting_messages, gauges.waiting_bytes, gauges.inflight) != (0, 0, 0) {
            return Err(format!("everything is delivered, but the totals say {gauges:?}"));
        }
        if (gauges.memory.messages, gauges.memory.writes) != (0, 0) {
            return Err(format!(
                "everything is delivered, but memory is held: {:?}",
                gauges.memory
            ));
        }
        for wanderer in &self.wanderers {
            wanderer.check()?;
        }
        if let Some(guests) = &self.guests {
            guests.check()?;
        }
        self.look()
    }

    /// Somebody looks at all retained messages.
    fn look(&mut self) -> Result<(), String> {
        let mut reader = Client::reader();
        let mut seen = BTreeSet::new();
        reader.connect(self.machine());
        let mut bound = Bound::new("a reader of retained messages hears more");
        loop {
            bound.round()?;
            self.machine().write_all();
            let heard = reader.listen(self.machine())?;
            if !heard.is_anything {
                let was_let_in = reader.is_connected();
                reader.lose(self.machine());
                if !was_let_in {
                    return Ok(());
                }
                return self.oracle.check_retained(&seen);
            }
            seen.extend(heard.others.iter().map(|publish| publish.topic.to_string()));
        }
    }

    fn keep(&mut self) {
        let index = self.random.between(0, KEEPERS);
        let machine = self.machine.as_mut().expect("it is only away while it crashes");
        let (at, histories) = (machine.now().wall * MILLISECOND, &mut self.oracle.histories);
        self.keepers[index].ask(machine, at, &mut self.random, histories);
    }

    fn listen(&mut self) -> Result<(), String> {
        let index = self.random.between(0, self.clients_len());
        self.listen_one(index).map(|_| ())
    }

    /// One client reads what it was sent. True if there was something.
    fn listen_one(&mut self, index: usize) -> Result<bool, String> {
        let (client, machine) = self.client(index);
        let heard = client.listen(machine)?;
        self.summary.acknowledged += heard.acknowledged.len() as u64;
        self.summary.delivered += heard.delivered.len() as u64;
        self.summary.refused += heard.refused;
        for message in heard.acknowledged {
            if index == 0 && !message.is_exactly_once {
                for wanderer in &mut self.wanderers {
                    wanderer.acknowledged(message.number);
                }
            }
            self.oracle.acknowledged(message);
        }
        for message in heard.resent {
            if self.is_scarce {
                self.oracle.resent(message);
            }
        }
        for retaining in heard.retaining {
            self.oracle.retained(retaining);
        }
        if (PUBLISHERS..PUBLISHERS + SUBSCRIBERS).contains(&index) {
            for message in &heard.delivered {
                self.oracle.delivered(index - PUBLISHERS, message)?;
            }
        }
        if index >= FIRST_SHARER {
            for message in &heard.delivered {
                self.oracle.shared(message, index - FIRST_SHARER != LEAVER)?;
            }
        }
        if (PUBLISHERS + SUBSCRIBERS..FIRST_RETAINER).contains(&index) {
            self.summary.answered += heard.others.len() as u64;
            let keeper = &mut self.keepers[index - PUBLISHERS - SUBSCRIBERS];
            let machine = self.machine.as_ref().expect("it is only away while it crashes");
            let at = machine.now().wall * MILLISECOND;
            for response in heard.others {
                keeper.answered(at, &response, &mut self.oracle.histories)?;
            }
        }
        Ok(heard.is_anything)
    }

    fn lose(&mut self) {
        let index = self.random.between(0, self.clients_len());
        self.summary.losses += 1;
        let (client, machine) = self.client(index);
        client.lose(machine);
    }

    fn connect(&mut self) {
        let index = self.random.between(0, self.clients_len());
        self.connect_one(index);
    }

    fn connect_one(&mut self, index: usize) -> bool {
        let (client, machine) = self.client(index);
        client.connect(machine)
    }

    fn crash(&mut self) {
        self.stalled = None;
        self.summary.crashes += 1;
        self.summary.snapshots += u64::from(self.machine().has_snapshot());
        for index in 0..self.clients_len() {
            self.client(index).0.cut();
        }
        for wanderer in &mut self.wanderers {
            wanderer.cut();
        }
        if let Some(guests) = &mut self.guests {
            guests.cut();
        }
        self.machine = self.machine.take().map(Machine::crash);
    }
}

/// Rounds in which everybody reads and answers everything, after which a quiet server must be quiet.
const CALM_ROUNDS_MAX: usize = 10_000;
