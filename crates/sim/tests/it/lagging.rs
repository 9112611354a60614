//! A node that lags in one group goes on with the others.

use std::time::Duration;

use cluster::GroupId;

use crate::world::{GROUPS, Place, World, key_of};

const SECOND: Duration = Duration::from_secs(1);

/// A key of each group.
fn keys() -> Vec<String> {
    (0..GROUPS).map(key_of).collect()
}

/// Node 0 leads group 0 and so on, and the logs are short.
fn world() -> World {
    let mut world = World::with_config(1, |config| {
        config.snapshot_log_bytes = 256;
        config.log_tail_entries = 2;
    });
    world.run(10 * SECOND, World::is_spread);
    world
}

fn finish_snapshots_but(world: &mut World, but: usize) {
    for (node, machine) in world.nodes.iter_mut().enumerate() {
        if let Some(machine) = machine.as_mut().filter(|_| node != but) {
            machine.finish_snapshot();
        }
    }
}

/// How long a request takes.
fn ask(world: &mut World, at: Place, number: u16, arguments: &[&str]) -> Duration {
    let asked_at = world.now;
    world.ask(at, &format!("c{}", at.node), number, arguments);
    loop {
        world.step();
        if let Some(response) = world.responses(at).pop() {
            assert!(!response.payload.starts_with('-'), "{arguments:?}: {response:?}");
            return world.now - asked_at;
        }
        assert!(world.now < asked_at + 5 * SECOND, "no answer to {arguments:?}");
    }
}

#[test]
fn a_node_whose_copy_of_a_group_is_on_its_way_serves_the_other_groups() {
    let mut world = world();
    let keys = keys();
    let other = world.client(0, "c0");
    world.crash(2, |world| {
        for number in 1..40 {
            ask(world, other, number, &["SET", &keys[0], &"v".repeat(100)]);
            world.finish_snapshots();
        }
    });
    let behind = |world: &World| {
        let applied = [0, 2].map(|node| {
            let machine: Option<&sim::machine::Machine> = world.nodes[node].as_ref();
            machine.and_then(|machine| machine.node().applied(GroupId(0)))
        });
        applied[1] < applied[0]
    };
    let at = world.client(2, "c2");
    world.run(SECOND, |_| false);
    // Its snapshot of group 0 does not get to its disk.
    for number in 1..100 {
        let key = &keys[1 + usize::from(number) % 2];
        let took = ask(&mut world, at, 2 * number, &["SET", key, "v"]);
        assert!(took < SECOND / 10, "a write took {took:?}");
        let took = ask(&mut world, at, 2 * number + 1, &["GET", key]);
        assert!(took < SECOND / 10, "a read took {took:?}");
        finish_snapshots_but(&mut world, 2);
    }
    assert!(behind(&world));
    world.machine(2).finish_snapshot();
    for number in 200..210 {
        world.finish_snapshots();
        ask(&mut world, at, number, &["GET", &keys[0]]);
    }
    assert!(!behind(&world));
}
