//! A client that publishes faster than it may waits, and nobody else does.

use std::time::Duration;

use protocol::Packet;
use sim::machine::{Machine, MachineConfig};

use crate::client;
use crate::clock::now;

#[test]
fn a_client_that_is_too_fast_is_not_read_from_until_its_time_has_come() {
    let mut config = MachineConfig::new(1);
    config.limits.publish_rate_max = 10;
    let mut machine = Machine::new(config, now());
    let [fast, slow] = ["fast", "slow"].map(|name| {
        let connection = machine.open();
        machine.receive(connection, connect(name));
        machine.write_all();
        connection
    });
    for _ in 0..12 {
        machine.receive(fast, publish());
    }
    machine.receive(slow, publish());
    assert!(!machine.is_reading(fast), "two more than a second's worth");
    assert!(machine.is_reading(slow));
    machine.advance(Duration::from_millis(199));
    assert!(!machine.is_reading(fast));
    // Longer than its Keep Alive allows: it is the server that does not listen.
    machine.advance(Duration::from_millis(1));
    assert!(machine.is_reading(fast));
    assert_eq!(
        machine.node().counters().paced,
        2,
        "once for each that was too many"
    );

    for _ in 0..50 {
        machine.receive(fast, publish());
    }
    machine.advance(Duration::from_secs(3));
    assert!(!machine.is_reading(fast));
    assert!(
        machine.is_open(fast),
        "silence while nobody listens is no silence"
    );
    machine.lose(fast);
    machine.advance(Duration::from_secs(60));
    assert_eq!(
        machine.node().gauges().connections,
        0,
        "the slow one was silent for too long"
    );
}

fn connect(name: &str) -> Packet {
    let mut connect = client::connect(name);
    connect.keep_alive = 1;
    Packet::Connect(Box::new(connect))
}

fn publish() -> Packet {
    Packet::Publish(Box::new(client::publish("a")))
}
