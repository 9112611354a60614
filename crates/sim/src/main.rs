//! `cargo run --release -p sim -- --seeds 1000`: random runs of one server, each decided by its seed.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use sim::history::Recorded;
use sim::workload::several_nodes::{ClusterRun, ClusterSummary};
use sim::workload::{Run, Summary};

const USAGE: &str = "sim: random conversations with a simulated server, over crashes

  sim [--seeds N]     runs N seeds (default 200), beginning with --first
  sim --first S       the first seed (default 1)
  sim --seed S        one seed
  sim --steps N       steps of each run (default 3000)
  sim --nodes N       a cluster of so many nodes, and its state store (default 1)

  sim check FILE...   whether L1, L2 and L3 hold in what real clients were told (bench/faults)
      --skew MILLIS   by how much servers' clocks may differ (default 0)";

struct Options {
    first: u64,
    seeds: u64,
    steps: u64,
    nodes: u64,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("check", words)) = words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return check(words);
    }
    let options = match options(words.into_iter()) {
        Ok(options) => options,
        Err(why) => {
            say(&format!("{why}\n{USAGE}"));
            return ExitCode::from(2);
        }
    };
    let seeds = options.first..options.first + options.seeds;
    let played = if options.nodes == 1 {
        play(&options, seeds, Summary::default(), Summary::plus, |seed| {
            let (steps, defect) = (options.steps, None);
            Run { seed, steps, defect }.play(origin())
        })
    } else {
        let none = ClusterSummary::default();
        play(&options, seeds, none, ClusterSummary::plus, |seed| {
            let run = ClusterRun {
                seed,
                steps: options.steps,
                nodes: options.nodes,
                defect: None,
            };
            run.play(origin())
        })
    };
    match played {
        Ok(sum) => {
            say(&format!("{} seeds passed: {sum}", options.seeds));
            ExitCode::SUCCESS
        }
        Err(why) => {
            say(&why);
            ExitCode::FAILURE
        }
    }
}

/// Checks what real clients were told.
fn check(words: &[String]) -> ExitCode {
    let (mut skew, mut files) = (0, Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word != "--skew" {
            files.push(word);
            continue;
        }
        let Some(millis) = words.next().and_then(|millis| millis.parse().ok()) else {
            say(&format!("--skew needs a number\n{USAGE}"));
            return ExitCode::from(2);
        };
        skew = millis;
    }
    let mut text = String::new();
    for file in &files {
        match std::fs::read_to_string(file) {
            Ok(lines) => text += &lines,
            Err(error) => {
                say(&format!("{file}: {error}"));
                return ExitCode::from(2);
            }
        }
    }
    if files.is_empty() {
        say(USAGE);
        return ExitCode::from(2);
    }
    match Recorded::parse(&text).and_then(|recorded| recorded.check(skew)) {
        Ok(checked) => {
            say(&format!("all promises hold: {checked}"));
            ExitCode::SUCCESS
        }
        Err(why) => {
            say(&format!("FAILED {why}"));
            ExitCode::FAILURE
        }
    }
}

/// Plays one seed after the other, and sums up what was done.
fn play<S: std::fmt::Debug>(
    options: &Options,
    seeds: Range<u64>,
    none: S,
    plus: impl Fn(S, S) -> S,
    one: impl Fn(u64) -> Result<S, String>,
) -> Result<String, String> {
    let (steps, nodes) = (options.steps, options.nodes);
    let mut sum = none;
    for seed in seeds {
        let again = format!("cargo run --release -p sim -- --seed {seed} --steps {steps} --nodes {nodes}");
        let played = one(seed).map_err(|why| format!("FAILED {why}\nreplay: {again}"))?;
        sum = plus(sum, played);
    }
    Ok(format!("{sum:?}"))
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        first: 1,
        seeds: 200,
        steps: 3_000,
        nodes: 1,
    };
    while let Some(word) = words.next() {
        if matches!(word.as_str(), "--help" | "-h") {
            return Err(String::new());
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a number"))?;
        let number = value
            .parse()
            .map_err(|_| format!("{word} {value} is no number"))?;
        match word.as_str() {
            "--first" => options.first = number,
            "--seeds" => options.seeds = number,
            "--steps" => options.steps = number,
            "--nodes" => options.nodes = number,
            "--seed" => (options.first, options.seeds) = (number, 1),
            other => return Err(format!("{other} is not known")),
        }
    }
    Ok(options)
}

#[expect(clippy::print_stdout, reason = "a command for developers")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
fn origin() -> Instant {
    Instant::now()
}
