//! `statehold bench hostile`: adversaries, and what a client that behaves well notices of them.
//!
//! Each adversary meets a server of its own. While it acts, [`Pinger`] sends a PINGREQ every 5 ms and measures the longest
//! gap until the PINGRESP, and samples the resident memory of the server's process. The processors of the machine may be busy
//! with other things; what the node's thread itself computed during a gap is measured beside it.
//!
//! The adversaries are in one file for each family: what costs time (`work.rs`), what costs memory (`memory.rs`), and what
//! occupies places (`pools.rs`). A new one is a function, and a line in the table of its file.

mod adversary;
mod attacker;
mod memory;
mod pinger;
mod pools;
mod requests;
mod servers;
mod sessions;
mod work;

use std::time::Duration;

use clap::Args;
use serde_json::Value;

use self::adversary::{Adversary, Arena, Outcome};
use self::pinger::{Figures, Pinger};
use self::servers::Servers;
use super::process::Process;
use crate::duration;
use crate::exit::{Exit, UsageError};
use crate::output::{self, Json};
use crate::table::{table, terminal_width};

/// Adversaries, and what they do to a server's other clients.
///
/// For each adversary: the longest gap of a client that pings every 5 ms, how much of it the server's main thread computed, the
/// server's resident memory before, at most and after, and what became of the adversary. Each adversary meets a server that
/// this command starts, with its data in a temporary directory; with --server the one that is there.
#[derive(Debug, Args)]
pub(super) struct Hostile {
    /// Only adversaries whose names contain this; may be given more than once
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Say which adversaries there are, and end
    #[arg(long)]
    list: bool,
    /// Attack this server instead of starting one: IP:PORT, plain MQTT. Only adversaries that need no settings take part
    #[arg(long, value_name = "ADDR", requires = "pid")]
    server: Option<std::net::SocketAddr>,
    /// Process id of --server, on this machine
    #[arg(long, requires = "server")]
    pid: Option<u32>,
    /// Start this binary as the server, to compare versions [default: this one]
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    binary: Option<std::path::PathBuf>,
    /// Fail if the server's main thread computed for longer than this while the client that pings waited
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive)]
    gap_max: Option<Duration>,
    /// Print a JSON object for each adversary
    #[arg(long)]
    json: bool,
}

/// What one adversary did.
struct Report {
    adversary: &'static Adversary,
    figures: Figures,
    outcome: Outcome,
}

impl Hostile {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let adversaries = self.chosen()?;
        if self.list {
            for adversary in adversaries {
                output::line(format!("{:32} {}", adversary.name, adversary.about))?;
            }
            return Ok(Exit::Done);
        }
        let (mut reports, mut is_too_slow) = (Vec::new(), false);
        for adversary in adversaries {
            if self.server.is_some() && !adversary.needs_nothing() {
                continue;
            }
            let report = self.try_one(adversary)?;
            is_too_slow |= self.gap_max.is_some_and(|max| report.figures.gap_computed > max);
            if self.json {
                report.json().print()?;
            }
            reports.push(report);
        }
        if !self.json {
            let rows: Vec<_> = std::iter::once(HEAD.map(str::to_owned).to_vec())
                .chain(reports.iter().map(Report::row))
                .collect();
            output::raw(table(&rows, terminal_width()).as_bytes())?;
        }
        Ok(if is_too_slow { Exit::Failed } else { Exit::Done })
    }

    fn chosen(&self) -> anyhow::Result<Vec<&'static Adversary>> {
        let all = [work::ADVERSARIES, memory::ADVERSARIES, pools::ADVERSARIES];
        let is_chosen = |adversary: &&Adversary| {
            self.only.is_empty() || self.only.iter().any(|part| adversary.name.contains(&**part))
        };
        let chosen: Vec<_> = all.into_iter().flatten().filter(is_chosen).collect();
        if chosen.is_empty() {
            let why = format!(
                "no adversary is called {}; --list names them",
                self.only.join(", ")
            );
            return Err(UsageError(why).into());
        }
        Ok(chosen)
    }

    fn try_one(&self, adversary: &'static Adversary) -> anyhow::Result<Report> {
        let servers = match (self.server, self.pid) {
            (Some(mqtt), Some(pid)) => Servers::given(mqtt, pid),
            _ => Servers::start(adversary, self.binary.as_deref())?,
        };
        let process = Process(servers.pid());
        let pinger = Pinger::start(servers.mqtt(), process)?;
        let arena = Arena::new(&servers, pinger.acting());
        let outcome = (adversary.act)(&arena)?;
        Ok(Report {
            adversary,
            figures: pinger.finish()?,
            outcome,
        })
    }
}

impl Report {
    fn json(&self) -> Json {
        let milliseconds = |time: Duration| Value::from((time.as_secs_f64() * 1e6).round() / 1e3);
        let mib = |kib: f64| Value::from((kib / 102.4).round() / 10.0);
        let figures = &self.figures;
        Json::new()
            .with("benchmark", "hostile")
            .with("adversary", self.adversary.name)
            .with("gap_max_ms", milliseconds(figures.gap))
            .with("gap_computed_ms", milliseconds(figures.gap_computed))
            .with("pings", figures.pings)
            .with("seconds", milliseconds(figures.acted / 1_000))
            .with("computed_ms", milliseconds(figures.computed))
            .with("resident_before_mib", mib(figures.resident_before))
            .with("resident_max_mib", mib(figures.resident_max))
            .with("resident_after_mib", mib(figures.resident_after))
            .with("bytes_sent", self.outcome.bytes_sent)
            .with("outcome", self.outcome.became.clone())
    }

    fn row(&self) -> Vec<String> {
        let milliseconds = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
        let mib = |kib: f64| format!("{:.0}", kib / 1024.0);
        let figures = &self.figures;
        vec![
            self.adversary.name.to_owned(),
            milliseconds(figures.gap),
            milliseconds(figures.gap_computed),
            milliseconds(figures.computed),
            mib(figures.resident_before),
            mib(figures.resident_max),
            mib(figures.resident_after),
            self.outcome.became.clone(),
        ]
    }
}

const HEAD: [&str; 8] = [
    "adversary",
    "gap ms",
    "of it computed ms",
    "computed in all ms",
    "MiB before",
    "at most",
    "after",
    "outcome",
];
