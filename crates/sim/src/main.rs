//! `cargo run --release -p sim -- --seeds 1000`: random runs of one server and of clusters, each decided by its seed.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use sim::history::{Recorded, Tolerance};
use sim::workload::several_nodes::faults::{Fault, Faults};
use sim::workload::several_nodes::{BrokenLinks, ClusterRun, ClusterSummary};
use sim::workload::{Run, Summary};

const USAGE: &str = "sim: random conversations with simulated servers, over faults

  sim [--seeds N]       runs N seeds (default 200), beginning with --first: each with one server, and with a cluster
  sim --first S         the first seed (default 1)
  sim --seed S          one seed
  sim --nodes N         only this: 1, or a cluster of so many nodes
  sim --steps N         steps of each run (default 3000 with one server, 6000 with several)
  sim --without FAULTS  a cluster without some of its faults, to find out what a failure needs
  sim --broken N        a cluster with links that are broken for the whole storm: bit 0 of N is that of nodes 1 and 2, then 1 and 3,
                        2 and 3, 1 and 4 and so on
  sim --trace           what happened in a cluster, if it fails

  sim check FILE...     whether L1, L2 and L3 hold in what real clients were told (bench/faults)
      --early MILLIS    by how much leases may end before their time (default 0)
      --late MILLIS     by how much they may last longer: as long as a failover takes (default 0)

  sim scale [N ...]     what nodes of clusters of these sizes (default 3 10 30) say to each other, and what a CONNECT takes

Faults, separated by commas: ";

struct Options {
    first: u64,
    seeds: u64,
    steps: Option<u64>,
    nodes: Option<u64>,
    without: Faults,
    broken: u64,
    is_traced: bool,
}

/// What all runs did together.
#[derive(Default)]
struct Sum {
    one: Option<Summary>,
    several: Option<ClusterSummary>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("check", words)) = words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return check(words);
    }
    if let Some(("scale", sizes)) = words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return scale(sizes);
    }
    let options = match options(words.into_iter()) {
        Ok(options) => options,
        Err(why) => {
            let faults = Fault::ALL.map(Fault::name).join(", ");
            say(&format!("{why}\n{USAGE}{faults}"));
            return ExitCode::from(2);
        }
    };
    match play(&options) {
        Ok(sum) => {
            say(&format!("{} seeds passed", options.seeds));
            for text in [
                sum.one.map(|sum| format!("one server: {sum:?}")),
                sum.several.map(|sum| format!("clusters: {sum:?}")),
            ]
            .into_iter()
            .flatten()
            {
                say(&text);
            }
            ExitCode::SUCCESS
        }
        Err(why) => {
            say(&why);
            ExitCode::FAILURE
        }
    }
}

/// Measures clusters of these sizes.
fn scale(words: &[String]) -> ExitCode {
    let sizes: Result<Vec<u64>, _> = words.iter().map(|word| word.parse()).collect();
    let sizes = match sizes {
        Ok(sizes) if sizes.is_empty() => vec![3, 10, 30],
        Ok(sizes) if sizes.iter().all(|size| *size > 1) => sizes,
        _ => {
            say(&format!("a size is a number above 1\n{USAGE}"));
            return ExitCode::from(2);
        }
    };
    say(
        "of each node: | nodes | all is well | a known session connects elsewhere | one joins | one is lost |",
    );
    match sim::scale::measure(now(), &sizes, 1) {
        Ok(all) => all.iter().for_each(|costs| say(&costs.to_string())),
        Err(too_long) => {
            say(&too_long.to_string());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Checks what real clients were told.
fn check(words: &[String]) -> ExitCode {
    let (mut tolerance, mut files) = (Tolerance::default(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let place = match word.as_str() {
            "--early" => &mut tolerance.early,
            "--late" => &mut tolerance.late,
            _ => {
                files.push(word);
                continue;
            }
        };
        let Some(millis) = words.next().and_then(|millis| millis.parse::<u64>().ok()) else {
            say(&format!("{word} needs a number\n{USAGE}"));
            return ExitCode::from(2);
        };
        *place = millis.saturating_mul(1_000_000);
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
    match Recorded::parse(&text).and_then(|recorded| recorded.check(tolerance)) {
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

/// Plays one seed after the other, and says from time to time how far it is.
fn play(options: &Options) -> Result<Sum, String> {
    let mut sum = Sum::default();
    let (began, mut told) = (now(), now());
    for seed in options.first..options.first + options.seeds {
        if options.nodes.is_none_or(|nodes| nodes == 1) {
            let played = play_one(options, seed)?;
            sum.one = Some(sum.one.unwrap_or_default().plus(played));
        }
        let nodes = options.nodes.unwrap_or_else(|| nodes_of(seed));
        if nodes > 1 {
            let played = play_several(options, seed, nodes)?;
            sum.several = Some(sum.several.unwrap_or_default().plus(played));
        }
        if told.elapsed() >= TOLD_EVERY {
            told = now();
            let done = seed - options.first + 1;
            progress(&format!(
                "{done} of {} seeds, {} s",
                options.seeds,
                began.elapsed().as_secs()
            ));
        }
    }
    Ok(sum)
}

/// How often it is said how far it is.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Clusters of five nodes are slower, and find less that those of three do not.
fn nodes_of(seed: u64) -> u64 {
    if seed.is_multiple_of(4) { 5 } else { 3 }
}

fn play_one(options: &Options, seed: u64) -> Result<Summary, String> {
    let steps = options.steps.unwrap_or(3_000);
    let run = Run {
        seed,
        steps,
        defect: None,
    };
    run.play(now())
        .map_err(|why| failed(&why, &format!("--seed {seed} --steps {steps} --nodes 1")))
}

fn play_several(options: &Options, seed: u64, nodes: u64) -> Result<ClusterSummary, String> {
    let steps = options.steps.unwrap_or(6_000);
    let run = ClusterRun {
        seed,
        steps,
        nodes,
        without: options.without,
        broken: BrokenLinks::new(options.broken),
        defect: None,
        is_traced: options.is_traced,
    };
    run.play(now()).map_err(|why| {
        let faults = Faults::of_seed(seed).without(options.without);
        let mut arguments = format!("--seed {seed} --steps {steps} --nodes {nodes}");
        if options.without != Faults::NONE {
            arguments += &format!(" --without {:?}", options.without);
        }
        if options.broken != 0 {
            arguments += &format!(" --broken {}", options.broken);
        }
        failed(&format!("{why}\nfaults: {faults:?}"), &arguments)
    })
}

fn failed(why: &str, arguments: &str) -> String {
    format!("FAILED {why}\nreplay: cargo run --release -p sim -- {arguments}")
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        first: 1,
        seeds: 200,
        steps: None,
        nodes: None,
        without: Faults::NONE,
        broken: 0,
        is_traced: false,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => return Err(String::new()),
            "--trace" => {
                options.is_traced = true;
                continue;
            }
            _ => {}
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        if word == "--without" {
            options.without = Faults::parse(&value)?;
            continue;
        }
        let number = value
            .parse()
            .map_err(|_| format!("{word} {value} is no number"))?;
        match word.as_str() {
            "--first" => options.first = number,
            "--seeds" => options.seeds = number,
            "--steps" => options.steps = Some(number),
            "--nodes" => options.nodes = Some(number),
            "--broken" => options.broken = number,
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

#[expect(clippy::print_stderr, reason = "a command for developers")]
fn progress(text: &str) {
    eprintln!("{text}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
fn now() -> Instant {
    Instant::now()
}
