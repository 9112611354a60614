//! A client that publishes faster than it may waits, and nobody else does.

use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::packet::{Connect, ConnectProperties, ProtocolVersion, Publish, QoS};
use protocol::properties::MessageProperties;
use protocol::{Packet, Text};
use sim::machine::{Machine, MachineConfig};
use smallvec::SmallVec;

#[test]
fn a_client_that_is_too_fast_is_not_read_from_until_its_time_has_come() {
    let mut config = MachineConfig::new(1);
    config.limits.publish_rate_max = 10;
    let mut machine = Machine::new(config, epoch());
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
    Packet::Connect(Box::new(Connect {
        version: ProtocolVersion::V5,
        client_id: Text::new(name).expect("a short name"),
        clean_start: true,
        keep_alive: 1,
        will: None,
        username: None,
        password: None,
        properties: ConnectProperties::default(),
    }))
}

fn publish() -> Packet {
    Packet::Publish(Box::new(Publish {
        dup: false,
        qos: QoS::AtMostOnce,
        retain: false,
        topic: Text::new("a").expect("a short topic"),
        packet_id: None,
        topic_alias: None,
        subscription_ids: SmallVec::new(),
        properties: MessageProperties::default(),
        payload: Bytes::from_static(b"x"),
    }))
}

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
fn epoch() -> Instant {
    Instant::now()
}
