//! `cargo run --release -p sim -- --seeds 1000`: random runs of one server, each decided by its seed.

use std::process::ExitCode;
use std::time::Instant;

use sim::workload::{Run, Summary};

const USAGE: &str = "sim: random conversations with a simulated server, over crashes

  sim [--seeds N]     runs N seeds (default 200), beginning with --first
  sim --first S       the first seed (default 1)
  sim --seed S        one seed
  sim --steps N       steps of each run (default 3000)";

struct Options {
    first: u64,
    seeds: u64,
    steps: u64,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            say(&format!("{why}\n{USAGE}"));
            return ExitCode::from(2);
        }
    };
    let mut sum = Summary::default();
    for seed in options.first..options.first + options.seeds {
        match (Run {
            seed,
            steps: options.steps,
            defect: None,
        })
        .play(origin())
        {
            Ok(summary) => sum = sum.plus(summary),
            Err(why) => {
                say(&format!(
                    "FAILED {why}\nreplay: cargo run --release -p sim -- --seed {seed} --steps {}",
                    options.steps
                ));
                return ExitCode::FAILURE;
            }
        }
    }
    say(&format!("{} seeds passed: {sum:?}", options.seeds));
    ExitCode::SUCCESS
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        first: 1,
        seeds: 200,
        steps: 3_000,
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
