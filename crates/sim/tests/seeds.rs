//! Every seed that ever failed, and fresh ones; and that the oracle bites.

#[path = "it/clock.rs"]
mod clock;
#[path = "it/progress.rs"]
mod progress;

use sim::workload::several_nodes::{ClusterRun, ClusterSummary};
use sim::workload::{Defect, Run, Summary};

use self::clock::now;
use self::progress::Seeds;

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
        let word = line.split_whitespace().next().unwrap_or_default();
        let (nodes, seed) = word.split_once(':').unwrap_or(("1", word));
        let (nodes, seed) = (number(nodes), number(seed));
        let played = if nodes == 1 {
            let (steps, defect) = (3_000, None);
            Run { seed, steps, defect }.play(now()).map(|_| ())
        } else {
            cluster(seed, nodes).play(now()).map(|_| ())
        };
        assert!(played.is_ok(), "seed {word}: {played:?}");
    }
}

fn number(word: &str) -> u64 {
    word.parse().expect("a seed is a number")
}

#[test]
fn fresh_seeds_pass_and_do_something() {
    // Fresh in every run: what fails here is replayed with the command that it prints.
    let first = u64::from(std::process::id()) * 1_000_003;
    let mut sum = Summary::default();
    for seed in Seeds::new("fresh seeds of one server", first..first + FRESH) {
        match (Run {
            seed,
            steps: STEPS,
            defect: None,
        })
        .play(now())
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
    let found = Seeds::new("acknowledging before the sync", 1..200).find(|seed| {
        let run = Run {
            seed: *seed,
            steps: STEPS,
            defect: Some(Defect::AcknowledgeBeforeSync),
        };
        run.play(now()).is_err()
    });
    assert!(
        found.is_some(),
        "200 seeds did not notice that acknowledged writes were lost"
    );
}

/// Fresh seeds of clusters in every run of the tests.
const FRESH_CLUSTERS: u64 = 200;

/// Steps of a cluster's run.
const CLUSTER_STEPS: u64 = 6_000;

fn cluster(seed: u64, nodes: u64) -> ClusterRun {
    ClusterRun {
        seed,
        steps: CLUSTER_STEPS,
        nodes,
        ..ClusterRun::default()
    }
}

#[test]
fn fresh_seeds_of_clusters_pass_and_do_something() {
    let first = u64::from(std::process::id()) * 1_000_003;
    let mut sum = ClusterSummary::default();
    for seed in Seeds::new("fresh seeds of clusters", first..first + FRESH_CLUSTERS) {
        let nodes = if seed.is_multiple_of(8) { 5 } else { 3 };
        match cluster(seed, nodes).play(now()) {
            Ok(summary) => sum = sum.plus(summary),
            Err(why) => panic!(
                "{why}\nreplay: cargo run --release -p sim -- --seed {seed} --steps {CLUSTER_STEPS} --nodes {nodes}"
            ),
        }
    }
    assert!(sum.answered > 10_000, "{sum:?}");
    assert!(sum.retried > 1_000, "{sum:?}");
    assert!(sum.pages > 400, "{sum:?}");
    assert!(sum.notified > 200, "{sum:?}");
    assert!(sum.retained_gone > 80, "{sum:?}");
    assert!(sum.wandered > 200, "{sum:?}");
    assert!(sum.crashes > 500, "{sum:?}");
    assert!(sum.stops > 50, "{sum:?}");
    assert!(sum.damaged > 5, "{sum:?}");
    assert!(sum.added > 20, "{sum:?}");
    assert!(sum.removed > 20, "{sum:?}");
    assert!(sum.filled > 30, "{sum:?}");
    assert!(sum.pauses > 500, "{sum:?}");
    assert!(sum.splits > 500, "{sum:?}");
    assert!(sum.parted > 100, "{sum:?}");
    assert!(sum.jumps > 300, "{sum:?}");
    assert!(sum.terms > 2 * FRESH_CLUSTERS, "{sum:?}");
    assert!(sum.compared > 10_000, "{sum:?}");
}

/// One of a thousand seeds notices it. Each defect is a test of its own, so that they are looked for on all processors.
fn is_found_in_a_cluster(defect: Defect) {
    let found = Seeds::new("clusters with a defect", 1..1_000).find(|seed| {
        let run = ClusterRun {
            defect: Some(defect),
            ..cluster(*seed, 3)
        };
        run.play(now()).is_err()
    });
    assert!(found.is_some(), "1,000 seeds did not notice {defect:?}");
}

#[test]
fn stale_reads_of_a_cluster_are_found() {
    is_found_in_a_cluster(Defect::StaleReads);
}

#[test]
fn acknowledging_before_the_sync_is_found_in_a_cluster() {
    is_found_in_a_cluster(Defect::AcknowledgeBeforeSync);
}

#[test]
fn forgotten_votes_are_found() {
    is_found_in_a_cluster(Defect::ForgottenVotes);
}

#[test]
fn forgotten_outcomes_are_found() {
    is_found_in_a_cluster(Defect::ForgottenOutcomes);
}

#[test]
fn writes_without_fencing_are_found() {
    is_found_in_a_cluster(Defect::NoFencing);
}

#[test]
fn changed_entries_are_found() {
    is_found_in_a_cluster(Defect::ChangedEntries);
}

#[test]
fn lost_notifications_are_found() {
    is_found_in_a_cluster(Defect::LostNotifications);
}

#[test]
fn what_is_wrong_with_retained_messages_is_found_by_the_promise_that_it_breaks() {
    for (defect, promise) in [
        (Defect::LostClears, "S3"),
        (Defect::LostEntries, "C1"),
        (Defect::LaterEntries, "C1"),
        (Defect::UntoldKnowledge, "C2"),
    ] {
        let found = Seeds::new("retained messages with defects", 1..1_000).find(|seed| {
            let defect = Some(defect);
            let run = ClusterRun {
                defect,
                ..cluster(*seed, 3)
            };
            run.play(now()).is_err_and(|why| why.starts_with(promise))
        });
        assert!(
            found.is_some(),
            "1,000 seeds did not notice {defect:?} by {promise}"
        );
    }
}
