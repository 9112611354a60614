//! A node whose copy of a group is behind, lost or another gets that of another node.

use std::time::Duration;

use cluster::GroupId;
use state_service::group_of_key;

use crate::world::{GROUPS, NODES, Place, World};

const SECOND: Duration = Duration::from_secs(1);

const GROUP: GroupId = GroupId(0);

/// Node 0 leads the group, and snapshots are taken all the time.
pub(crate) fn world() -> World {
    let mut world = World::with_config(1, |config| {
        config.snapshot_log_bytes = 256;
        config.log_tail_entries = 2;
    });
    world.run(10 * SECOND, World::is_spread);
    world
}

/// Sets keys of the group, and waits for all of it to be in snapshots.
fn write(world: &mut World, at: Place, numbers: std::ops::Range<u16>) {
    for number in numbers.clone() {
        let key = key(number);
        world.ask(at, "c", number, &["SET", &key, &"v".repeat(100)]);
        for _ in 0..10 {
            world.step();
            world.finish_snapshots();
        }
    }
    world.run(SECOND / 2, |_| false);
    let responses = world.responses(at);
    assert_eq!(responses.len(), numbers.len());
    assert!(responses.iter().all(|response| response.payload == "+OK\r\n"));
}

pub(crate) fn key(number: u16) -> String {
    let keys = (0..).map(|suffix| format!("key{number}-{suffix}"));
    let is_of_group = |key: &String| group_of_key(key.as_bytes(), GROUPS) == GROUP;
    keys.into_iter().find(is_of_group).expect("some key is")
}

pub(crate) fn copies(world: &mut World, node: usize) -> u64 {
    world.machine(node).node().counters().store_replaced
}

/// Everybody has the same, and serves it.
fn check(world: &mut World) {
    let end = world.now + 20 * SECOND;
    let digests = |world: &World| -> Vec<Option<u64>> {
        let nodes = world.nodes.iter().flatten();
        nodes
            .map(|machine| Some(machine.node().state_store(GROUP)?.digest()))
            .collect()
    };
    loop {
        world.finish_snapshots();
        world.step();
        let all = digests(world);
        let is_same = all.iter().all(|digest| *digest == all[0]);
        let serves = |node: &Option<sim::machine::Machine>| {
            node.as_ref().is_some_and(|machine| machine.node().is_available())
        };
        if is_same && world.nodes.iter().all(serves) {
            break;
        }
        assert!(world.now < end, "the copies differ: {all:?}");
    }
    let at = world.client(2, "reader");
    world.ask(at, "reader", 1, &["GET", &key(1)]);
    world.run(SECOND, |_| false);
    let responses = world.responses(at);
    assert!(responses[0].payload.starts_with("$100"), "{responses:?}");
}

#[test]
fn a_node_that_was_away_for_long_gets_a_snapshot() {
    let mut world = world();
    let at = world.client(1, "c");
    write(&mut world, at, 1..10);
    world.crash(2, |world| write(world, at, 10..40));
    check(&mut world);
    assert_eq!(copies(&mut world, 2), 1);
}

#[test]
fn a_copy_that_differs_is_found_reported_and_fetched_anew() {
    let mut world = world();
    let at = world.client(1, "c");
    write(&mut world, at, 1..10);
    assert!(world.machine(2).alter_snapshot(GROUP));
    world.crash(2, |_| {});
    write(&mut world, at, 10..12);
    check(&mut world);
    assert_eq!(world.machine(2).node().counters().store_differences, 1);
    assert_eq!(copies(&mut world, 2), 1);
    for other in 0..NODES - 1 {
        assert_eq!(world.machine(other).node().counters().store_differences, 0);
    }
}

#[test]
fn a_copy_that_is_lost_is_fetched_while_the_others_serve() {
    let mut world = world();
    let at = world.client(1, "c");
    write(&mut world, at, 1..10);
    world.machine(2).lose_snapshot(GROUP);
    world.crash(2, |_| {});
    assert!(!world.machine(2).node().is_available());
    write(&mut world, at, 10..12);
    check(&mut world);
    assert_eq!(copies(&mut world, 2), 1);
}

#[test]
fn a_snapshot_that_cannot_be_written_is_not_tried_with_every_entry() {
    let mut world = World::with_config(1, |config| config.snapshot_log_bytes = 8_192);
    world.run(10 * SECOND, World::is_spread);
    let at = world.client(1, "c");
    let mut failed = Vec::new();
    for number in 1..=120 {
        world.ask(at, "c", number, &["SET", &key(1), &"v".repeat(100)]);
        world.run(SECOND / 50, |_| false);
        if world.machine(0).fail_snapshot() {
            failed.push(number);
        }
    }
    assert!((2..10).contains(&failed.len()), "{failed:?}");
}
