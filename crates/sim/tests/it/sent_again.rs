//! What a node sends to the leader again is executed once, however short the time is for which its client wants it to count.

use std::time::Duration;

use protocol::Packet;
use sim::transcript::request;

use crate::world::{Place, World, key_of};

const SECOND: Duration = Duration::from_secs(1);

/// A key of the group that node 0 leads.
fn key() -> String {
    key_of(0)
}

/// Asks for something that is of no use to anybody after so many seconds.
fn ask_for(world: &mut World, at: Place, seconds: u32, name: &str, number: u16, arguments: &[&str]) {
    let machine = world.machine(at.node);
    let mut packet = request(name, machine.now(), number, arguments);
    if let Packet::Publish(publish) = &mut packet {
        publish.properties.message_expiry = Some(seconds);
    }
    machine.receive(at.connection, packet);
}

/// The disk of a node is so slow that it hears late what became of a request; meanwhile somebody else sets the same key.
fn check(message_expiry: u32, sync_takes: Duration) {
    let mut world = World::new(1);
    world.run(10 * SECOND, World::is_spread);
    let (slow, other) = (world.client(1, "slow"), world.client(0, "other"));
    let key = key();
    world.slow_disk(1, sync_takes);
    ask_for(
        &mut world,
        slow,
        message_expiry,
        "slow",
        1,
        &["SET", &key, "first"],
    );
    world.run(SECOND / 10, |_| false);
    world.ask(other, "other", 1, &["SET", &key, "second"]);
    world.run(3 * sync_takes, |_| false);
    assert_eq!(world.responses(other)[0].payload, "+OK\r\n");
    world.slow_disk(1, Duration::ZERO);
    world.run(3 * SECOND, |_| false);
    world.ask(other, "other", 2, &["GET", &key]);
    world.run(SECOND, |_| false);
    let got = world.responses(other);
    assert_eq!(
        got[0].payload, "$6\r\nsecond\r\n",
        "{message_expiry} s, {sync_takes:?}"
    );
}

#[test]
fn a_request_that_expires_soon_is_not_executed_again_when_its_node_hears_late_of_it() {
    for message_expiry in [1, 2, 10] {
        for sync_takes in [1, 2, 4, 20] {
            check(message_expiry, sync_takes * SECOND);
        }
    }
}
