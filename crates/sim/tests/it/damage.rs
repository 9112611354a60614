//! A store is damaged in the memory of a running node: what a majority has is right.

use std::time::Duration;

use cluster::GroupId;

use crate::world::{NODES, Place, World, keys_of};

const SECOND: Duration = Duration::from_secs(1);

/// Node 0 leads it.
const GROUP: GroupId = GroupId(0);

/// A key of the group that is damaged, and one that is not.
fn keys() -> [String; 2] {
    let mut keys = keys_of(GROUP);
    [(); 2].map(|()| keys.next().expect("some key is"))
}

const RIGHT: &str = "$5\r\nright\r\n";

/// A spread cluster, and a client of each node; both keys have a value.
fn world() -> (World, [Place; NODES]) {
    let mut world = World::new(1);
    world.run(10 * SECOND, World::is_spread);
    let places = [0, 1, 2].map(|node| world.client(node, &format!("c{node}")));
    assert_eq!(
        ask(&mut world, places[1], 1, &["SET", &keys()[0], "right"]),
        "+OK\r\n"
    );
    change(&mut world, places[1], 2);
    (world, places)
}

/// Something changes, so copies are compared.
fn change(world: &mut World, at: Place, number: u16) {
    assert_eq!(ask(world, at, number, &["SET", &keys()[1], "v"]), "+OK\r\n");
    world.run(SECOND / 2, |_| false);
}

fn get(world: &mut World, at: Place, number: u16) -> String {
    ask(world, at, number, &["GET", &keys()[0]])
}

/// What a request through a node is answered.
fn ask(world: &mut World, at: Place, number: u16, arguments: &[&str]) -> String {
    world.ask(at, &format!("c{}", at.node), number, arguments);
    for _ in 0..5_000 {
        world.step();
        if let Some(response) = world.responses(at).pop() {
            return response.payload;
        }
    }
    panic!("no answer to {arguments:?} at {}", at.node);
}

fn damage(world: &mut World, node: usize, value: &str) {
    world.machine(node).alter_store(GROUP, &keys()[0], value);
}

fn is_available(world: &World, node: usize) -> bool {
    let machine = world.nodes[node].as_ref();
    machine.is_some_and(|machine| machine.node().is_available())
}

/// How often each node has found that it differs.
fn differences(world: &mut World) -> [u64; NODES] {
    [0, 1, 2].map(|node| world.machine(node).node().counters().store_differences)
}

fn undecided(world: &mut World) -> u64 {
    let nodes = world.nodes.iter().flatten();
    nodes
        .map(|machine| machine.node().counters().store_undecided)
        .sum()
}

/// Snapshots are written as they come, until all nodes serve.
fn heal(world: &mut World) {
    let end = world.now + 20 * SECOND;
    while world.now < end {
        world.finish_snapshots();
        world.step();
        if (0..NODES).all(|node| is_available(world, node)) {
            return;
        }
    }
    panic!("some node does not serve");
}

#[test]
fn a_leader_whose_store_is_another_lets_others_lead_and_is_rebuilt() {
    let (mut world, places) = world();
    damage(&mut world, 0, "wrong");
    world.ask(places[1], "c1", 3, &["SET", &keys()[1], "v"]);
    world.run(5 * SECOND, |world| !is_available(world, 0));
    assert_eq!(differences(&mut world), [1, 0, 0]);
    // Whoever asks it is not told what it has; whoever asks another one is answered.
    let got = get(&mut world, places[0], 4);
    assert!(got.starts_with("-ERR"), "{got}");
    world.run(SECOND / 10, |_| false);
    assert_ne!(world.leaders()[0], Some(0), "another one leads");
    drop(world.responses(places[1]));
    assert_eq!(get(&mut world, places[1], 5), RIGHT);
    heal(&mut world);
    assert_eq!(get(&mut world, places[0], 6), RIGHT);
    world.run(10 * SECOND, World::is_spread);
    assert!(world.is_spread(), "it leads again");
    change(&mut world, places[1], 7);
    assert_eq!(differences(&mut world), [1, 0, 0]);
    assert_eq!(undecided(&mut world), 0);
}

#[test]
fn a_follower_whose_store_is_another_is_rebuilt_while_requests_go_on() {
    let (mut world, places) = world();
    let terms = world.terms();
    damage(&mut world, 2, "wrong");
    change(&mut world, places[1], 3);
    assert_eq!(differences(&mut world), [0, 0, 1]);
    assert!(!is_available(&world, 2));
    assert_eq!(get(&mut world, places[1], 4), RIGHT);
    heal(&mut world);
    assert_eq!(get(&mut world, places[2], 5), RIGHT);
    change(&mut world, places[1], 6);
    assert_eq!(differences(&mut world), [0, 0, 1]);
    assert_eq!(world.terms(), terms, "nobody was elected");
}

#[test]
fn without_a_majority_nothing_is_thrown_away() {
    let (mut world, places) = world();
    for (node, value) in [(0, "one"), (1, "another")] {
        damage(&mut world, node, value);
    }
    change(&mut world, places[1], 3);
    world.run(5 * SECOND, |_| false);
    assert_eq!(differences(&mut world), [0; NODES]);
    assert_eq!(undecided(&mut world), 1, "it is said once a minute");
    for (number, place) in (4..).zip(places) {
        let got = get(&mut world, place, number);
        assert!(got.starts_with('$'), "all of them serve: {got}");
    }
    world.run(SECOND * 60, |_| false);
    assert_eq!(undecided(&mut world), 2);
}

#[test]
fn who_is_right_is_found_out_when_the_third_is_back() {
    let (mut world, places) = world();
    world.crash(2, |world| {
        damage(world, 0, "wrong");
        change(world, places[1], 3);
        world.run(5 * SECOND, |_| false);
        let nodes = world.nodes.iter().flatten();
        let found = nodes.map(|machine| machine.node().counters().store_differences);
        assert_eq!(found.sum::<u64>(), 0);
        assert_eq!(undecided(world), 1);
    });
    world.run(5 * SECOND, |world| !is_available(world, 0));
    assert_eq!(differences(&mut world), [1, 0, 0]);
    heal(&mut world);
    assert_eq!(get(&mut world, places[0], 4), RIGHT);
}

#[test]
fn a_node_that_is_being_rebuilt_is_not_asked_to_lead() {
    let (mut world, places) = world();
    damage(&mut world, 0, "wrong");
    world.ask(places[1], "c1", 3, &["SET", &keys()[1], "v"]);
    world.run(5 * SECOND, |world| {
        world.leaders()[0].is_some_and(|leader| leader != 0)
    });
    drop(world.responses(places[1]));
    // Its snapshot does not get to its disk for long.
    let terms = world.terms();
    for number in 4..200 {
        let asked_at = world.now;
        let value = number.to_string();
        assert_eq!(
            ask(&mut world, places[1], number, &["SET", &keys()[1], &value]),
            "+OK\r\n"
        );
        let took = world.now - asked_at;
        assert!(took < SECOND / 10, "request {number} took {took:?}");
        world.run(SECOND / 10, |_| false);
    }
    assert_eq!(world.terms(), terms);
    assert!(!is_available(&world, 0));
    heal(&mut world);
    world.run(10 * SECOND, World::is_spread);
    assert!(world.is_spread());
}
