//! Every seed that ever failed, and fresh ones; and that the oracle bites.

use std::time::Instant;

use sim::workload::{Defect, Run, Summary};

/// Seeds that once found a defect, one a line.
const SEEDS: &str = include_str!("../src/seeds.txt");

/// Fresh seeds in every run of the tests.
const FRESH: u64 = 200;

/// Steps of a run.
const STEPS: u64 = 1_500;

#[test]
fn seeds_that_once_failed_pass() {
    for line in SEEDS
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        let seed = line
            .split_whitespace()
            .next()
            .and_then(|word| word.parse().ok())
            .expect("a seed is a number");
        let played = Run {
            seed,
            steps: 3_000,
            defect: None,
        }
        .play(epoch());
        assert!(played.is_ok(), "seed {seed}: {played:?}");
    }
}

#[test]
fn fresh_seeds_pass_and_do_something() {
    // Fresh in every run: what fails here is replayed with the command that it prints.
    let first = u64::from(std::process::id()) * 1_000_003;
    let mut sum = Summary::default();
    for seed in first..first + FRESH {
        match (Run {
            seed,
            steps: STEPS,
            defect: None,
        })
        .play(epoch())
        {
            Ok(summary) => sum = sum.plus(summary),
            Err(why) => panic!("{why}\nreplay: cargo run --release -p sim -- --seed {seed} --steps {STEPS}"),
        }
    }
    assert!(sum.acknowledged > 1_000, "{sum:?}");
    assert!(sum.delivered > 1_000, "{sum:?}");
    assert!(sum.answered > 1_000, "{sum:?}");
    assert!(sum.crashes > 10, "{sum:?}");
    assert!(sum.refused > 50, "{sum:?}");
}

#[test]
fn acknowledging_before_the_sync_is_found() {
    let found = (1..200).find(|seed| {
        let run = Run {
            seed: *seed,
            steps: STEPS,
            defect: Some(Defect::AcknowledgeBeforeSync),
        };
        run.play(epoch()).is_err()
    });
    assert!(
        found.is_some(),
        "200 seeds did not notice that acknowledged writes were lost"
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
fn epoch() -> Instant {
    Instant::now()
}
