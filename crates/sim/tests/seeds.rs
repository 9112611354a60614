//! Every seed that ever failed, and fresh ones; and that the oracle bites.

use std::time::Instant;

use sim::workload::several_nodes::{ClusterRun, ClusterSummary};
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

/// Fresh seeds of clusters in every run of the tests.
const FRESH_CLUSTERS: u64 = 20;

/// Steps of a cluster's run.
const CLUSTER_STEPS: u64 = 3_000;

#[test]
fn fresh_seeds_of_clusters_pass_and_do_something() {
    let first = u64::from(std::process::id()) * 1_000_003;
    let mut sum = ClusterSummary::default();
    for seed in first..first + FRESH_CLUSTERS {
        let nodes = if seed.is_multiple_of(4) { 5 } else { 3 };
        let run = ClusterRun {
            seed,
            steps: CLUSTER_STEPS,
            nodes,
            defect: None,
        };
        let again =
            format!("cargo run --release -p sim -- --seed {seed} --steps {CLUSTER_STEPS} --nodes {nodes}");
        match run.play(epoch()) {
            Ok(summary) => sum = sum.plus(summary),
            Err(why) => panic!("{why}\nreplay: {again}"),
        }
    }
    assert!(sum.answered > 500, "{sum:?}");
    assert!(sum.crashes > 20, "{sum:?}");
    assert!(sum.splits > 20, "{sum:?}");
    assert!(sum.terms > FRESH_CLUSTERS, "{sum:?}");
    assert!(sum.compared > 500, "{sum:?}");
}

#[test]
fn clusters_with_defects_are_found() {
    for defect in [Defect::StaleReads, Defect::AcknowledgeBeforeSync] {
        let found = (1..1_000).find(|seed| {
            let run = ClusterRun {
                seed: *seed,
                steps: CLUSTER_STEPS,
                nodes: 3,
                defect: Some(defect),
            };
            run.play(epoch()).is_err()
        });
        assert!(found.is_some(), "1,000 seeds did not notice {defect:?}");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
fn epoch() -> Instant {
    Instant::now()
}
