//! Clusters of planes, the shipped code, on a simulated network, clock and disk.

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestCaseResult};

mod checks;
mod clients;
mod closed_later;
mod confirming;
mod connections;
mod enqueued;
mod expiring_clients;
mod faults;
mod givings;
mod group_clients;
mod inboxes;
mod limited_queues;
mod machine;
mod moves;
mod network;
mod orphaned;
mod publishers;
mod random;
mod refusals;
mod retained_clients;
mod stays;
mod subscribers;
mod transient_clients;
mod values;
mod will_clients;
mod world;

use world::World;

/// Plays one history: `REPLAY=SEED,NODES cargo test -p session_plane --test it replay`.
#[test]
fn replay() {
    let Ok(replayed) = std::env::var("REPLAY") else {
        return;
    };
    let (seed, nodes) = replayed.split_once(',').expect("a seed and a number of nodes");
    let mut world = World::new(seed.parse().expect("a seed"), nodes.parse().expect("a number"));
    assert_eq!(world.play(), Ok(()));
}

/// Few of these take as long as all other tests of the crate. `PROPTEST_CASES` plays more. Two tests have half of them each,
/// so that both halves are played at once.
fn cases() -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 8;
    }
    // A smaller seed is no smaller history.
    config.max_shrink_iters = 0;
    config
}

/// What was acknowledged is kept and delivered, and all owners come to the same copies, after any
/// splits, broken connections, pauses, crashes and restarts.
fn check(seed: u64, nodes: u64) -> TestCaseResult {
    let played = World::new(seed, nodes).play();
    played.map_err(|wrong| TestCaseError::fail(format!("seed {seed}, {nodes} nodes: {wrong}")))
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn clusters_keep_what_they_acknowledge(seed in any::<u64>(), nodes in 1..=5_u64) {
        check(seed, nodes)?;
    }

    #[test]
    fn other_clusters_keep_what_they_acknowledge(seed in any::<u64>(), nodes in 1..=5_u64) {
        check(seed, nodes)?;
    }
}
