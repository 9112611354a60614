//! `statehold bench connections`

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use client::protocol::packet::QoS;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::Semaphore;

use super::clock;
use super::kv::share;
use super::load::{self, LoadArgs, Progress, Running, Work};
use super::process::Process;
use super::report::{Report, Tally};
use super::wire::{SessionEnd, Target, Wire};
use crate::duration;
use crate::exit::Exit;
use crate::server::ServerArgs;

/// Connections that do nothing.
///
/// Opens them at a rate, each with one subscription of its own, holds them, and reports how long CONNECT to SUBACK took.
/// With --pid also how much the resident memory of that process grew for each connection.
#[derive(Debug, Args)]
pub(super) struct Connections {
    /// How many
    #[arg(long, short = 'c', default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// How many a second at most
    #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// How long to hold them once all are there
    #[arg(long, default_value = "2s", value_parser = duration::parse)]
    hold: Duration,
    /// Process id of the server, if it is on this machine
    #[arg(long)]
    pid: Option<u32>,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Clone)]
struct Plan {
    target: Target,
    numbers: std::ops::Range<u32>,
    interval: Duration,
    run: u64,
}

impl Connections {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        raise_open_files(self.count)?;
        let target = Target::new(&self.server)?;
        let before = self.pid.map(|pid| Process(pid).resident_kib()).transpose()?;
        let (started, cpu) = (clock::now(), clock::cpu_time());
        let running = Running::start(self.works(&target));
        let all = u64::from(self.count);
        running.show_until(self.load.quiet, || {
            running.progress.ready.load(Ordering::Acquire) == all || running.is_over()
        });
        let (elapsed, cpu) = (clock::now() - started, clock::cpu_time().saturating_sub(cpu));
        std::thread::sleep(self.hold);
        let after = self.pid.map(|pid| Process(pid).resident_kib()).transpose()?;
        running.progress.stop.store(true, Ordering::Release);
        let tally = running.join()?;
        let mut extra = vec![
            ("connections", f64::from(self.count)),
            ("offered_rate", f64::from(self.rate)),
        ];
        if let (Some(before), Some(after)) = (before, after) {
            extra.push(("server_resident_before_mib", before / 1024.0));
            extra.push(("server_resident_after_mib", after / 1024.0));
            extra.push((
                "server_kib_per_connection",
                (after - before) / f64::from(self.count),
            ));
        }
        let report = Report {
            name: "connections",
            tally,
            elapsed,
            cpu,
            extra,
        };
        report.print(self.load.json)?;
        Ok(if report.is_clean() {
            Exit::Done
        } else {
            Exit::Failed
        })
    }

    fn works(&self, target: &Target) -> Vec<Work> {
        let threads = u32::from(self.load.threads).min(self.count);
        let run = clock::wall_ms();
        let plan = |thread| Plan {
            target: target.clone(),
            numbers: share(self.count, thread, threads),
            interval: Duration::from_secs(1) * threads / self.rate,
            run,
        };
        let work = |thread| {
            let plan = plan(thread);
            load::work(move |progress| one_thread(plan, progress))
        };
        (0..threads).map(work).collect()
    }
}

/// Opens the connections of one thread in time, and holds them until it is told to stop.
async fn one_thread(plan: Plan, progress: Arc<Progress>) -> anyhow::Result<Tally> {
    let tally = Rc::new(RefCell::new(Tally::new()?));
    let opening = Arc::new(Semaphore::new(OPENING_MAX));
    let plan = Rc::new(plan);
    let mut next = tokio::time::Instant::from_std(clock::now());
    for number in plan.numbers.clone() {
        tokio::time::sleep_until(next).await;
        next += plan.interval;
        let permit = Arc::clone(&opening).acquire_owned().await?;
        let (plan, progress, tally) = (Rc::clone(&plan), Arc::clone(&progress), Rc::clone(&tally));
        tokio::task::spawn_local(async move {
            let started = clock::now();
            let opened = open(&plan, number).await;
            drop(permit);
            progress.done.fetch_add(1, Ordering::Relaxed);
            progress.ready.fetch_add(1, Ordering::AcqRel);
            match opened {
                Ok(mut wire) => {
                    tally.borrow_mut().record(clock::now() - started);
                    // Returns when the connection is lost: nothing is sent to it.
                    let lost = wire
                        .receive()
                        .await
                        .map(|packet| format!("unexpected: {packet:?}"));
                    let lost = lost.unwrap_or_else(|error| format!("{error:#}"));
                    tally.borrow_mut().lost.push(lost);
                }
                Err(error) => {
                    progress.errors.fetch_add(1, Ordering::Relaxed);
                    tally.borrow_mut().errors += 1;
                    tally.borrow_mut().lost.push(format!("{error:#}"));
                }
            }
        });
    }
    while !progress.stop.load(Ordering::Acquire) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let counted = tally.borrow().clone();
    Ok(counted)
}

async fn open(plan: &Plan, number: u32) -> anyhow::Result<Wire> {
    let client_id = format!("bench-{:x}-{number}", plan.run);
    let source = if plan.target.is_loopback() {
        source(number)
    } else {
        None
    };
    let mut wire = Wire::connect(&plan.target, &client_id, source, SessionEnd::AtOnce).await?;
    wire.subscribe(&format!("bench/idle/{number}"), QoS::AtLeastOnce)
        .await?;
    Ok(wire)
}

/// One address has about 28,000 ports to connect from; the loopback network has 16 million addresses. The system
/// chooses for the first ones.
fn source(number: u32) -> Option<IpAddr> {
    let host = u8::try_from(number / CONNECTIONS_PER_ADDRESS % 250 + 1).unwrap_or(1);
    (host > 1).then_some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, host)))
}

fn raise_open_files(connections: u32) -> anyhow::Result<()> {
    let needed = u64::from(connections) + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised)
        .with_context(|| format!("{needed} open files are needed: raise `ulimit -n`"))
}

/// Connections that are being opened at once.
const OPENING_MAX: usize = 1024;
const CONNECTIONS_PER_ADDRESS: u32 = 20_000;
/// Besides connections.
const OTHER_FILES: u64 = 64;
