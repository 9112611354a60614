//! Nodes whose clocks differ agree on what has expired.

use std::time::Duration;

use cluster::NodeId;
use protocol::Packet;
use protocol::properties::UserProperties;
use sim::transcript::request;

use crate::world::World;

const LEADER: usize = 0;
const AHEAD: usize = 1;
/// By how many milliseconds the one node is ahead.
const BY: i64 = 200;

#[test]
fn a_key_that_a_node_said_is_gone_does_not_come_back_at_another_one() {
    let mut world = World::with_config(1, |config| {
        config.groups = 1;
        let is_ahead = config.node == NodeId(AHEAD as u64 + 1);
        config.clock_ahead = if is_ahead { BY } else { 0 };
    });
    world.await_first_leader();
    let clients = [0, 1, 2].map(|node| world.client(node, "c"));
    let ask = |world: &mut World, node: usize, arguments: &[&str]| {
        world.ask(clients[node], "c", 1, arguments);
        world.settle();
        let mut responses = world.responses(clients[node]);
        assert_eq!(responses.len(), 1, "{arguments:?}");
        responses.remove(0).payload
    };

    assert_eq!(
        ask(&mut world, LEADER, &["SET", "k", "v", "PX", "100"]),
        "+OK\r\n"
    );
    // By the clock of the one node its time is over, by that of the leader it is not.
    assert_eq!(ask(&mut world, AHEAD, &["GET", "k"]), "$1\r\nv\r\n");
    assert_eq!(ask(&mut world, AHEAD, &["SCAN", "*"]), "*1\r\n*1\r\n$1\r\nk\r\n");
    assert_eq!(ask(&mut world, LEADER, &["GET", "k"]), "$1\r\nv\r\n");
    assert_eq!(ask(&mut world, LEADER, &["SET", "k", "w", "NX"]), ":-1\r\n");
    assert_eq!(ask(&mut world, AHEAD, &["GET", "other"]), "$-1\r\n");

    for machine in world.nodes.iter_mut().flatten() {
        machine.advance(Duration::from_millis(101));
    }
    world.settle();
    assert_eq!(ask(&mut world, AHEAD, &["GET", "k"]), "$-1\r\n");
    assert_eq!(ask(&mut world, AHEAD, &["SCAN", "*"]), "*1\r\n*0\r\n");
    assert_eq!(ask(&mut world, LEADER, &["GET", "k"]), "$-1\r\n");
}

/// The leader's clock is ahead by more than a client's token may be. What it gives as a version is a token all the same, at a node
/// whose clock is right.
#[test]
fn a_token_that_the_store_has_given_is_never_too_far_ahead() {
    const FAR: u64 = 3_600_000;
    let mut world = World::with_config(1, |config| {
        config.groups = 1;
        let is_ahead = config.node == NodeId(LEADER as u64 + 1);
        config.clock_ahead = if is_ahead { FAR as i64 } else { 0 };
    });
    world.await_first_leader();
    let holder = world.client(LEADER, "holder");
    world.ask(
        holder,
        "holder",
        1,
        &["SET", "lock", "holder", "NX", "PX", "60000"],
    );
    world.settle();
    let given = world.machine(LEADER).now().wall;
    assert_eq!(world.responses(holder)[0].payload, "+OK\r\n");

    let writer = world.client(AHEAD, "writer");
    let write = |world: &mut World, number: u16, wall: u64| {
        let machine = world.machine(AHEAD);
        let mut packet = request("writer", machine.now(), number, &["SET", "k", "v"]);
        if let Packet::Publish(publish) = &mut packet {
            let (now, token) = (machine.now().wall, format!("{wall}:1:StateStore"));
            let pairs = [("__ts", format!("{now}:0:writer")), ("__ft", token)];
            let pairs = pairs.iter().map(|(name, value)| (*name, value.as_str()));
            publish.properties.user_properties = UserProperties::from_pairs(pairs).expect("short");
        }
        machine.receive(writer.connection, packet);
        world.settle();
        world.responses(writer).remove(0).payload
    };
    assert!(
        given > world.machine(AHEAD).now().wall + FAR / 2,
        "the token is far ahead"
    );
    assert_eq!(write(&mut world, 1, given), "+OK\r\n");
    let beyond = write(&mut world, 2, given + FAR);
    assert!(
        beyond.contains("fencing token timestamp is too far in the future"),
        "{beyond}"
    );
}
