//! `statehold bench history`

mod asker;
mod caller;
mod locker;
mod log;
mod watcher;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

use self::log::Log;
use super::clock;
use super::random::Random;
use super::report::{Report, Tally};
use super::wire::Target;
use crate::duration;
use crate::exit::Exit;
use crate::runtime;
use crate::server::ServerArgs;

/// Write down what clients of the state store ask and are told.
///
/// Clients ask anything of a few keys, which change every --round; others watch these keys, or take locks and write with
/// their fencing tokens. Whoever loses its node sends what was not answered to another one, as the same request, for as long as
/// --patience; the outcomes of those who do not are unknown. In the end every key is read once more. The file has a line of JSON for
/// each request, watch and lock, in which `sim check` looks for lost writes, stale reads, missing notifications and locks that were held
/// twice.
///
/// The keys begin with `history:`. What is reported are the requests that were answered, in whatever number of attempts.
#[derive(Debug, Args)]
pub(super) struct History {
    /// A node that clients may use, several times [default: --host and --port]
    #[arg(long = "node", value_name = "HOST:PORT")]
    nodes: Vec<String>,
    /// Where to write
    #[arg(long, short = 'f', value_name = "FILE")]
    output: PathBuf,
    /// Clients that ask for anything
    #[arg(long, short = 'c', default_value = "9")]
    clients: u32,
    /// So many of these do not send again what was not answered
    #[arg(long, default_value = "3")]
    impatient: u32,
    /// Clients that watch keys
    #[arg(long, default_value = "3")]
    watchers: u32,
    /// Clients that take locks
    #[arg(long, default_value = "3")]
    lockers: u32,
    /// Requests a second, of all clients together
    #[arg(long, default_value = "500", value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// End after this long, or with SIGTERM
    #[arg(long, default_value = "10s", value_parser = duration::parse_positive)]
    duration: Duration,
    /// How long the same keys are used
    #[arg(long, default_value = "5s", value_parser = duration::parse_positive)]
    round: Duration,
    /// How long a request is sent again until its outcome counts as unknown; --timeout is that of one attempt
    #[arg(long, default_value = "10s", value_parser = duration::parse_positive)]
    patience: Duration,
    /// Decides what is asked [default: drawn at random]
    #[arg(long)]
    seed: Option<u64>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// What all clients share.
struct Shared {
    nodes: Vec<Target>,
    origin: Origin,
    round: Duration,
    patience: Duration,
    attempt: Duration,
    impatient: u32,
    /// How long a client waits between two requests.
    pause: Duration,
    /// Keys and client ids of this run begin with it.
    name: String,
    is_over: Cell<bool>,
    state: RefCell<State>,
}

/// What was found out.
struct State {
    log: Log,
    tally: Tally,
    /// All keys that were asked for.
    keys: BTreeSet<String>,
    unknown: u64,
    retried: u64,
    /// When an answer came last, and the longest time between two.
    last_answer: Instant,
    silence: Duration,
}

/// Both clocks at one moment, so that all moments are of one clock.
#[derive(Debug, Clone, Copy)]
struct Origin {
    instant: Instant,
    wall_ms: u64,
}

impl History {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let (json, started, cpu) = (self.json, clock::now(), clock::cpu_time());
        let shared = runtime::block_on(LocalSet::new().run_until(self.record()))?;
        let State {
            log,
            tally,
            keys,
            unknown,
            retried,
            silence,
            ..
        } = shared.state.into_inner();
        log.finish()?;
        let report = Report {
            name: "history",
            tally,
            elapsed: clock::now() - started,
            cpu: clock::cpu_time().saturating_sub(cpu),
            extra: vec![
                ("unknown", unknown as f64),
                ("retried", retried as f64),
                ("keys", keys.len() as f64),
                ("longest_silence_ms", silence.as_secs_f64() * 1e3),
            ],
        };
        report.print(json)?;
        Ok(if report.is_clean() {
            Exit::Done
        } else {
            Exit::Failed
        })
    }

    async fn record(self) -> anyhow::Result<Shared> {
        let shared = Rc::new(self.shared()?);
        let mut random = Random::new(self.seed.unwrap_or(shared.origin.wall_ms));
        let mut tasks = Vec::new();
        for number in 0..self.clients {
            let random = Random::new(random.draw());
            tasks.push(tokio::task::spawn_local(asker::run(
                number,
                random,
                Rc::clone(&shared),
            )));
        }
        for number in 0..self.watchers {
            let random = Random::new(random.draw());
            tasks.push(tokio::task::spawn_local(watcher::run(
                number,
                random,
                Rc::clone(&shared),
            )));
        }
        for number in 0..self.lockers {
            let random = Random::new(random.draw());
            tasks.push(tokio::task::spawn_local(locker::run(
                number,
                random,
                Rc::clone(&shared),
            )));
        }
        let mut terminated = signal(SignalKind::terminate())?;
        tokio::select! {
            () = tokio::time::sleep(self.duration) => {}
            _ = terminated.recv() => {}
        }
        shared.is_over.set(true);
        for task in tasks {
            task.await??;
        }
        asker::read_all(&shared).await?;
        Rc::into_inner(shared).context("a client is still there")
    }

    fn shared(&self) -> anyhow::Result<Shared> {
        let nodes = Target::several(&self.server, &self.nodes)?;
        let origin = Origin {
            instant: clock::now(),
            wall_ms: clock::wall_ms(),
        };
        let state = State {
            log: Log::create(&self.output)?,
            tally: Tally::new()?,
            keys: BTreeSet::new(),
            unknown: 0,
            retried: 0,
            last_answer: origin.instant,
            silence: Duration::ZERO,
        };
        Ok(Shared {
            nodes,
            origin,
            round: self.round,
            patience: self.patience,
            attempt: self.server.timeout,
            impatient: self.impatient,
            pause: Duration::from_secs_f64(f64::from(self.clients.max(1)) / f64::from(self.rate)),
            name: format!("history:{:x}", origin.wall_ms),
            is_over: Cell::new(false),
            state: RefCell::new(state),
        })
    }
}

impl Shared {
    /// Which keys are in use.
    fn round(&self, now: Instant) -> u128 {
        (now - self.origin.instant).as_nanos() / self.round.as_nanos().max(1)
    }

    /// When they will not be any more.
    fn end_of_round(&self, now: Instant) -> Instant {
        let rounds = u32::try_from(self.round(now) + 1).unwrap_or(u32::MAX);
        self.origin.instant + self.round.saturating_mul(rounds)
    }

    fn key(&self, round: u128, kind: &str, number: u64) -> String {
        format!("{}:{round}:{kind}{number}", self.name)
    }

    /// Nanoseconds since the Unix epoch.
    fn moment(&self, at: Instant) -> u64 {
        let since = (at - self.origin.instant).as_nanos();
        self.origin.wall_ms * 1_000_000 + u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// A request was answered, after some attempts.
    fn answered(&self, invoked: Instant, now: Instant, attempts: u64) {
        let mut state = self.state.borrow_mut();
        state.tally.record(now - invoked);
        state.retried += u64::from(attempts > 1);
        state.silence = state.silence.max(now - state.last_answer);
        state.last_answer = now;
    }
}
