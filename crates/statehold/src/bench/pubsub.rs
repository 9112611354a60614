//! `statehold bench pubsub`

mod publisher;
mod subscriber;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use client::protocol::packet::QoS;

use super::clock;
use super::load::{self, LoadArgs, Progress, Work};
use super::report::{Report, Tally};
use super::wire::{SessionEnd, Target};
use crate::duration;
use crate::exit::Exit;
use crate::publish::parse_qos;
use crate::server::ServerArgs;

/// Messages from publishers to subscribers.
///
/// Counts the messages that subscribers receive, and the time from the PUBLISH to each. Without --rate a publisher goes
/// on when the server has acknowledged (QoS 0: when it has answered a PINGREQ after each --inflight messages). With --rate
/// latencies count from when the message should have left, so that a server that stalls cannot hide it.
#[derive(Debug, Args)]
pub(super) struct Pubsub {
    /// Connections that publish
    #[arg(long, default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    publishers: u32,
    /// Connections that subscribe
    #[arg(long, default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    subscribers: u32,
    /// Quality of service of messages and subscriptions
    #[arg(long, short = 'q', default_value = "1", value_parser = parse_qos)]
    qos: QoS,
    /// Bytes of a payload, 8 at least
    #[arg(long, default_value = "100")]
    payload_size: usize,
    /// Messages under way from each publisher
    #[arg(long, default_value = "10", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    inflight: u16,
    /// Messages a second from all publishers together [default: as many as go]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Who gets what
    #[arg(long, default_value = "one-to-one")]
    topics: Pattern,
    /// Subscribers have sessions that outlive their connections, which the server has to keep. They are ended afterwards
    #[arg(long)]
    durable: bool,
    /// Subscribers connect to this node of the cluster, as HOST:PORT, and publishers to the other one
    #[arg(long, value_name = "ADDRESS")]
    subscriber_url: Option<String>,
    /// How long to publish
    #[arg(long, default_value = "10s", value_parser = duration::parse_positive)]
    duration: Duration,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Pattern {
    /// Subscriber n gets the messages of publisher n (modulo the publishers)
    OneToOne,
    /// Each publisher has a topic of its own, each subscriber gets all of them by a wildcard
    FanIn,
    /// All publish to one topic, all subscribe to it
    FanOut,
}

/// What one thread has to do.
#[derive(Debug, Clone)]
struct Plan {
    target: Target,
    /// Where subscribers connect.
    subscriber_target: Target,
    publishers: std::ops::Range<u32>,
    subscribers: std::ops::Range<u32>,
    publishers_in_all: u32,
    subscribers_in_all: u32,
    qos: QoS,
    payload_size: usize,
    inflight: u16,
    /// Between two messages of one publisher.
    interval: Option<Duration>,
    pattern: Pattern,
    /// Of subscribers.
    sessions: SessionEnd,
    duration: Duration,
    /// Tells this run's topics and client ids from those of others.
    run: u64,
    /// What payloads count their nanoseconds from.
    epoch: Instant,
}

/// What the connections of one thread share.
#[derive(Debug)]
struct Shared {
    plan: Plan,
    progress: Arc<Progress>,
    totals: Arc<Totals>,
    tally: RefCell<Tally>,
    /// When a subscriber of this thread received something last.
    last_received: Cell<Instant>,
}

/// Of all threads.
#[derive(Debug, Default)]
struct Totals {
    published: AtomicU64,
    /// Copies that subscribers should get.
    expected: AtomicU64,
    received: AtomicU64,
    publishers_done: AtomicU64,
}

impl Pubsub {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let target = Target::new(&self.server)?;
        let subscriber_target = match &self.subscriber_url {
            Some(address) => target.elsewhere(address)?,
            None => target.clone(),
        };
        let totals = Arc::new(Totals::default());
        let works = self.works([&target, &subscriber_target], &totals);
        let ran = load::run(
            works,
            u64::from(self.publishers) + u64::from(self.subscribers),
            &self.load,
        )?;
        let published = totals.published.load(Ordering::Relaxed) as f64;
        let expected = totals.expected.load(Ordering::Relaxed);
        let missing = expected.saturating_sub(ran.tally.operations);
        let elapsed = ran.elapsed.min(self.duration.max(Duration::from_millis(1)));
        let extra = vec![
            ("published_per_second", published / elapsed.as_secs_f64()),
            ("publishers", f64::from(self.publishers)),
            ("subscribers", f64::from(self.subscribers)),
            ("payload_size", self.payload_size as f64),
        ];
        let mut tally = ran.tally;
        tally.missing = missing;
        let report = Report {
            name: "pubsub",
            tally,
            elapsed: ran.elapsed,
            cpu: ran.cpu,
            extra,
        };
        report.print(self.load.json)?;
        let is_complete = missing == 0 || self.qos == QoS::AtMostOnce;
        Ok(if report.is_clean() && is_complete {
            Exit::Done
        } else {
            Exit::Failed
        })
    }

    fn works(&self, [target, subscriber_target]: [&Target; 2], totals: &Arc<Totals>) -> Vec<Work> {
        let threads = u32::from(self.load.threads).min(self.publishers.max(self.subscribers));
        let run = clock::wall_ms();
        let epoch = clock::now();
        let plan = |thread| Plan {
            target: target.clone(),
            subscriber_target: subscriber_target.clone(),
            publishers: super::kv::share(self.publishers, thread, threads),
            subscribers: super::kv::share(self.subscribers, thread, threads),
            publishers_in_all: self.publishers,
            subscribers_in_all: self.subscribers,
            qos: self.qos,
            payload_size: self.payload_size,
            inflight: self.inflight,
            interval: self
                .rate
                .map(|rate| Duration::from_secs(1) * self.publishers / rate),
            pattern: self.topics,
            sessions: if self.durable {
                SessionEnd::Later
            } else {
                SessionEnd::AtOnce
            },
            duration: self.duration,
            run,
            epoch,
        };
        let work = |thread| {
            let (plan, totals) = (plan(thread), Arc::clone(totals));
            load::work(move |progress| one_thread(plan, progress, totals))
        };
        (0..threads).map(work).collect()
    }
}

async fn one_thread(plan: Plan, progress: Arc<Progress>, totals: Arc<Totals>) -> anyhow::Result<Tally> {
    let shared = Rc::new(Shared {
        plan,
        progress,
        totals,
        tally: RefCell::new(Tally::new()?),
        last_received: Cell::new(clock::now()),
    });
    let subscribers = shared
        .plan
        .subscribers
        .clone()
        .map(|number| tokio::task::spawn_local(subscriber::run(number, Rc::clone(&shared))));
    let mut connections: Vec<_> = subscribers.collect();
    connections.extend(
        shared
            .plan
            .publishers
            .clone()
            .map(|number| tokio::task::spawn_local(publisher::run(number, Rc::clone(&shared)))),
    );
    for connection in connections {
        if let Err(error) = connection.await? {
            shared.progress.errors.fetch_add(1, Ordering::Relaxed);
            shared.tally.borrow_mut().lost.push(format!("{error:#}"));
        }
    }
    let tally = shared.tally.borrow().clone();
    Ok(tally)
}

impl Plan {
    fn topic(&self, publisher: u32) -> String {
        match self.pattern {
            Pattern::FanOut => format!("bench/{:x}/all", self.run),
            Pattern::OneToOne | Pattern::FanIn => format!("bench/{:x}/{publisher}", self.run),
        }
    }

    fn filter(&self, subscriber: u32) -> String {
        match self.pattern {
            Pattern::FanOut => self.topic(0),
            Pattern::FanIn => format!("bench/{:x}/+", self.run),
            Pattern::OneToOne => self.topic(subscriber % self.publishers_in_all),
        }
    }

    /// How many subscribers get a message of this publisher.
    fn copies(&self, publisher: u32) -> u64 {
        match self.pattern {
            Pattern::FanOut | Pattern::FanIn => self.subscribers_in_all.into(),
            Pattern::OneToOne => {
                let get = |subscriber: &u32| subscriber % self.publishers_in_all == publisher;
                (0..self.subscribers_in_all).filter(get).count() as u64
            }
        }
    }

    /// What a payload says about when it left.
    fn nanoseconds(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX)
    }
}
