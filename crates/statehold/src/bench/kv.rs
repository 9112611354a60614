//! `statehold bench kv`

mod requester;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::clock;
use super::load::{self, LoadArgs, Progress, Work};
use super::random::Random;
use super::report::{Report, Tally};
use super::wire::Target;
use crate::duration;
use crate::exit::Exit;
use crate::server::ServerArgs;

/// Requests to the state store.
///
/// Each connection has --inflight requests under way: the next one leaves when a reply and the PUBACK of its request
/// are in. Keys are drawn evenly from --keys; before GETs all of them are set.
#[derive(Debug, Args)]
pub(super) struct Kv {
    /// What to ask for
    #[arg(long, short = 'o', default_value = "set")]
    operation: Operation,
    /// Connections
    #[arg(long, short = 'c', default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Requests under way on each connection
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    inflight: u16,
    /// End after this many requests [default: after --duration]
    #[arg(long, short = 'n', value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// End after this long
    #[arg(long, default_value = "10s", value_parser = duration::parse_positive)]
    duration: Duration,
    /// Bytes of a value
    #[arg(long, default_value = "100")]
    value_size: usize,
    /// How many keys there are
    #[arg(long, default_value = "10000", value_parser = clap::value_parser!(u64).range(1..=9_999_999_999))]
    keys: u64,
    /// Of each hundred requests of a mix, this many are SETs
    #[arg(long, default_value = "10", value_parser = clap::value_parser!(u8).range(0..=100))]
    sets_percent: u8,
    /// A node that connections go to, several times: they take turns [default: --host and --port]
    #[arg(long = "node", value_name = "HOST:PORT")]
    nodes: Vec<String>,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Operation {
    Set,
    Get,
    Mix,
}

/// What one thread has to do.
#[derive(Debug, Clone)]
struct Plan {
    /// Connections take them in turns.
    targets: Vec<Target>,
    operation: Operation,
    sets_percent: u8,
    value_size: usize,
    keys: u64,
    inflight: u16,
    /// Numbers of this thread's connections.
    connections: std::ops::Range<u32>,
    quota: Quota,
    /// Tells this run's client ids and correlation data from those of others.
    run: u64,
}

/// When a thread is done.
#[derive(Debug, Clone, Copy)]
enum Quota {
    /// After this many requests.
    Requests(u64),
    /// After this long.
    Time(Duration),
    /// When every key of this range has been set once.
    Keys { first: u64, end: u64 },
}

impl Kv {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let targets = Target::several(&self.server, &self.nodes)?;
        if self.operation != Operation::Set {
            self.fill(&targets)?;
        }
        let quota = |share: std::ops::Range<u64>| match self.requests {
            Some(_) => Quota::Requests(share.end - share.start),
            None => Quota::Time(self.duration),
        };
        let works = self.works(
            &targets,
            self.operation,
            self.inflight,
            self.requests.unwrap_or(0),
            quota,
        );
        let ran = load::run(works, self.connections.into(), &self.load)?;
        let name = match self.operation {
            Operation::Set => "kv set",
            Operation::Get => "kv get",
            Operation::Mix => "kv mix",
        };
        let extra = vec![
            ("connections", f64::from(self.connections)),
            ("inflight", f64::from(self.inflight)),
            ("value_size", self.value_size as f64),
        ];
        let report = Report {
            name,
            tally: ran.tally,
            elapsed: ran.elapsed,
            cpu: ran.cpu,
            extra,
        };
        report.print(self.load.json)?;
        Ok(if report.is_clean() {
            Exit::Done
        } else {
            Exit::Failed
        })
    }

    /// Sets every key once.
    fn fill(&self, targets: &[Target]) -> anyhow::Result<()> {
        let inflight = self.inflight.max(FILL_INFLIGHT);
        let quota = |share: std::ops::Range<u64>| Quota::Keys {
            first: share.start,
            end: share.end,
        };
        let works = self.works(targets, Operation::Set, inflight, self.keys, quota);
        let ran = load::run(works, self.connections.into(), &self.load)?;
        anyhow::ensure!(
            ran.tally.errors == 0,
            "{} of the keys could not be set",
            ran.tally.errors
        );
        anyhow::ensure!(
            ran.tally.lost.is_empty(),
            "a connection was lost while setting keys: {}",
            ran.tally.lost[0]
        );
        Ok(())
    }

    fn works(
        &self,
        targets: &[Target],
        operation: Operation,
        inflight: u16,
        total: u64,
        quota: impl Fn(std::ops::Range<u64>) -> Quota,
    ) -> Vec<Work> {
        let run = clock::wall_ms();
        let threads = u32::from(self.load.threads).min(self.connections);
        let plan = |thread: u32| Plan {
            targets: targets.to_vec(),
            operation,
            sets_percent: self.sets_percent,
            value_size: self.value_size,
            keys: self.keys,
            inflight,
            connections: share(self.connections, thread, threads),
            quota: quota(share_of_many(total, thread, threads)),
            run,
        };
        (0..threads)
            .map(|thread| {
                let plan = plan(thread);
                load::work(move |progress| one_thread(plan, progress))
            })
            .collect()
    }
}

async fn one_thread(plan: Plan, progress: Arc<Progress>) -> anyhow::Result<Tally> {
    let shared = Rc::new(Shared::new(plan, progress)?);
    let connections: Vec<_> = shared
        .plan
        .connections
        .clone()
        .map(|number| tokio::task::spawn_local(requester::run(number, Rc::clone(&shared))))
        .collect();
    for connection in connections {
        if let Err(error) = connection.await? {
            shared.state.borrow_mut().tally.lost.push(format!("{error:#}"));
            shared.progress.errors.fetch_add(1, Ordering::Relaxed);
        }
    }
    let shared = Rc::into_inner(shared).context("a connection is still there")?;
    Ok(shared.state.into_inner().tally)
}

/// What the connections of one thread share.
#[derive(Debug)]
struct Shared {
    plan: Plan,
    progress: Arc<Progress>,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    tally: Tally,
    issued: u64,
    until: Option<Instant>,
    random: Random,
}

impl Shared {
    fn new(plan: Plan, progress: Arc<Progress>) -> anyhow::Result<Self> {
        let random = Random::new(plan.run ^ (u64::from(plan.connections.start) << 39));
        let state = State {
            tally: Tally::new()?,
            issued: 0,
            until: None,
            random,
        };
        Ok(Self {
            plan,
            progress,
            state: RefCell::new(state),
        })
    }

    fn begin(&self) {
        if let Quota::Time(duration) = self.plan.quota {
            self.state
                .borrow_mut()
                .until
                .get_or_insert_with(|| clock::now() + duration);
        }
    }

    /// What the next request is: whether it is a SET, and its key. `None`: there is none.
    fn next_request(&self, now: Instant) -> Option<(bool, u64)> {
        let mut state = self.state.borrow_mut();
        let key = match self.plan.quota {
            Quota::Requests(requests) if state.issued >= requests => return None,
            Quota::Time(_) if state.until.is_some_and(|until| now >= until) => return None,
            Quota::Keys { first, end } if first + state.issued >= end => return None,
            Quota::Keys { first, .. } => first + state.issued,
            Quota::Requests(_) | Quota::Time(_) => state.random.below(self.plan.keys),
        };
        state.issued += 1;
        let is_set = match self.plan.operation {
            Operation::Set => true,
            Operation::Get => false,
            Operation::Mix => state.random.below(100) < u64::from(self.plan.sets_percent),
        };
        Some((is_set, key))
    }
}

/// The part of `total` that falls to one of several.
pub(super) fn share(total: u32, one: u32, of: u32) -> std::ops::Range<u32> {
    let part = share_of_many(total.into(), one, of);
    let bound = |bound: u64| u32::try_from(bound).unwrap_or(u32::MAX);
    bound(part.start)..bound(part.end)
}

fn share_of_many(total: u64, one: u32, of: u32) -> std::ops::Range<u64> {
    let bound = |one: u64| total * one / u64::from(of);
    bound(one.into())..bound(u64::from(one) + 1)
}

/// Keys are set with this much under way on each connection at least.
const FILL_INFLIGHT: u16 = 32;
