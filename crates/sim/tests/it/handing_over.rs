//! Leaders are spread over the nodes, and a clean stop of each of them in turn fails nobody.

use std::time::Duration;

use crate::world::{NODES, Place, WORKERS, Worker, World};

#[test]
fn leaders_are_spread_over_the_nodes_and_stay_there() {
    let mut world = World::new(1);
    world.run(Duration::from_secs(10), World::is_spread);
    let terms = world.terms();
    world.run(Duration::from_secs(20), |_| false);
    assert!(world.is_spread());
    assert_eq!(world.terms(), terms, "nobody was elected again");
}

#[test]
fn a_rolling_restart_under_load_fails_nobody() {
    let mut world = World::new(1);
    world.run(Duration::from_secs(10), World::is_spread);
    world.workers = (0..WORKERS).map(Worker::new).collect();
    for node in 0..NODES {
        world.run(Duration::from_secs(1), |_| false);
        world.restart(node);
    }
    world.run(Duration::from_secs(10), World::is_spread);
    assert!(world.is_spread());
    let mut latencies: Vec<_> = world
        .workers
        .iter()
        .flat_map(|worker| &worker.latencies)
        .collect();
    latencies.sort();
    assert!(latencies.len() > 10_000, "{} requests", latencies.len());
    let worst = latencies[latencies.len() - 1];
    assert!(*worst < Duration::from_millis(200), "{worst:?}");
    let retries: usize = world.workers.iter().map(|worker| worker.retries).sum();
    assert!(retries <= WORKERS * NODES, "{retries} retries");
}

#[test]
fn a_node_that_nobody_can_relieve_says_goodbye_all_the_same() {
    let mut world = World::new(2);
    world.run(Duration::from_secs(10), World::is_spread);
    for other in [1, 2] {
        world.nodes[other] = None;
    }
    let Place { connection, .. } = world.client(0, "patient");
    world.machine(0).stop();
    assert!(world.machine(0).is_open(connection));
    world.run(Duration::from_millis(1_100), |_| false);
    assert!(!world.machine(0).is_open(connection));
}
