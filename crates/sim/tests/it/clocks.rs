//! Nodes whose clocks differ agree on what has expired.

use std::time::Duration;

use cluster::NodeId;

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
