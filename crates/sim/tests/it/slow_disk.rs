//! A node whose disk is slow does not lead for long, if the others can do without it.

use std::time::Duration;

use broker::{ClusterAnswer, ClusterChange, ClusterQuestion};
use cluster::control::CONTROL;
use cluster::{GroupId, NodeId};

use crate::world::{NODES, Place, World, key_of};

const SECOND: Duration = Duration::from_secs(1);

/// A key of the group that node 0 leads.
fn key() -> String {
    key_of(0)
}

fn world() -> (World, Place) {
    let mut world = World::new(1);
    world.run(10 * SECOND, World::is_spread);
    let at = world.client(1, "c");
    (world, at)
}

/// How long each of these requests takes; the next one is asked a moment after the answer.
fn ask(world: &mut World, at: Place, numbers: std::ops::Range<u16>) -> Vec<Duration> {
    let mut took = Vec::new();
    for number in numbers {
        let asked_at = world.now;
        world.ask(at, "c", number, &["SET", &key(), &number.to_string()]);
        let mut responses = Vec::new();
        while responses.is_empty() {
            world.step();
            responses = world.responses(at);
            assert!(world.now < asked_at + 20 * SECOND, "no answer to {number}");
        }
        assert_eq!(responses[0].payload, "+OK\r\n", "{number}");
        took.push(world.now - asked_at);
        world.run(SECOND / 20, |_| false);
    }
    took
}

#[test]
fn a_leader_with_a_slow_disk_lets_another_one_lead() {
    let (mut world, at) = world();
    world.slow_disk(0, 2 * SECOND);
    let took = ask(&mut world, at, 1..1_000);
    let slow = took.iter().filter(|took| **took > SECOND / 10);
    assert!(slow.clone().count() <= 1, "{:?}", slow.collect::<Vec<_>>());
    assert!(took.iter().max() < Some(&(3 * SECOND)), "{:?}", took.iter().max());
    assert_ne!(world.leaders()[0], Some(0));
    let held_up = world.machine(0).node().counters().leaders_held_up;
    assert_eq!(held_up, 1);
    // Whatever is asked, or nothing: it does not lead before its disk is fast again.
    let terms = world.terms();
    world.run(120 * SECOND, |_| false);
    assert_eq!(world.terms(), terms);
    world.slow_disk(0, Duration::ZERO);
    ask(&mut world, at, 1_000..1_010);
    world.run(60 * SECOND, World::is_spread);
    assert!(world.is_spread());
}

#[test]
fn while_all_disks_are_slow_leaders_stay() {
    let (mut world, at) = world();
    let terms = world.terms();
    for node in 0..NODES {
        world.slow_disk(node, 3 * SECOND / 2);
    }
    ask(&mut world, at, 1..20);
    assert!(world.is_spread());
    assert_eq!(world.terms(), terms);
}

#[test]
fn a_follower_with_a_slow_disk_holds_up_nobody_else() {
    let (mut world, at) = world();
    let terms = world.terms();
    world.slow_disk(2, 2 * SECOND);
    let took = ask(&mut world, at, 1..200);
    assert!(
        took.iter().max() < Some(&(SECOND / 10)),
        "{:?}",
        took.iter().max()
    );
    let group_0 = world.leaders()[0];
    assert_eq!(group_0, Some(0));
    assert_eq!(world.terms().len(), terms.len());
}

/// A world whose nodes can be asked to change the cluster.
fn operated() -> World {
    let mut world = World::with_config(2, |config| config.has_control = true);
    world.run(10 * SECOND, World::is_spread);
    world
}

/// Who leads the control group, as a node knows it, and in which term.
fn control_leader(world: &mut World, node: usize) -> (Option<NodeId>, u64) {
    let machine = world.machine(node);
    machine.ask_cluster(ClusterQuestion::Status);
    let Some(ClusterAnswer::Status(status)) = machine.take_cluster_answers().pop() else {
        panic!("a node knows how the cluster stands");
    };
    let mut groups = status.groups.iter();
    let control = groups.find(|found| found.group == CONTROL).expect("there is one");
    (control.leader, control.term.0)
}

/// Wants a node to lead a group, and waits for so long.
fn want(world: &mut World, asked: usize, group: GroupId, leader: usize, time: Duration) {
    let to = NodeId(leader as u64 + 1);
    let change = ClusterChange::Transfer { group, to };
    world.machine(asked).ask_cluster(ClusterQuestion::Change(change));
    world.run(time, |_| false);
}

#[test]
fn the_control_group_is_not_led_by_a_slow_disk_even_if_an_operator_wants_it() {
    let mut world = operated();
    want(&mut world, 1, CONTROL, 0, 10 * SECOND);
    assert_eq!(control_leader(&mut world, 1).0, Some(NodeId(1)));

    world.slow_disk(0, 2 * SECOND);
    want(&mut world, 1, GroupId(1), 2, 5 * SECOND);
    let (leader, term) = control_leader(&mut world, 1);
    assert_ne!(leader, Some(NodeId(1)));
    // The change is decided all the same, and nobody gives the leadership back.
    world.run(120 * SECOND, |_| false);
    assert_eq!(world.leaders()[1], Some(2));
    assert_eq!(control_leader(&mut world, 1), (leader, term));

    world.slow_disk(0, Duration::ZERO);
    want(&mut world, 1, GroupId(1), 1, 60 * SECOND);
    assert_eq!(control_leader(&mut world, 1).0, Some(NodeId(1)));
    assert_eq!(world.leaders()[1], Some(1));
}

#[test]
fn while_all_disks_are_slow_the_leader_of_the_control_group_stays() {
    let mut world = operated();
    want(&mut world, 1, CONTROL, 0, 10 * SECOND);
    for node in 0..NODES {
        world.slow_disk(node, 3 * SECOND / 2);
    }
    let before = control_leader(&mut world, 1);
    want(&mut world, 1, GroupId(1), 2, 30 * SECOND);
    assert_eq!(control_leader(&mut world, 1), before);
}
