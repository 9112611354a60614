//! A subscription to everything gets all retained messages, and neither its queue overflows nor do the others wait.

use std::collections::BTreeSet;
use std::time::Duration;

use protocol::packet::{Ack, QoS};
use protocol::{Packet, ReasonCode};
use sim::machine::{Machine, MachineConfig};

use crate::client;
use crate::clock::now;

/// Many times what the queue holds.
const RETAINED: usize = 5_000;

/// What the others have to wait for, at most, when somebody subscribes.
const AT_ONCE_MAX: usize = 256;

#[test]
fn all_retained_messages_come_page_by_page() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        let mut config = MachineConfig::new(1);
        config.limits.queue_messages_max = 100;
        let mut machine = Machine::new(config, now());
        let publisher = machine.open();
        machine.receive(publisher, connect("publisher"));
        for number in 0..RETAINED {
            machine.receive(publisher, retain(number));
        }
        machine.write_all();

        let subscriber = machine.open();
        machine.receive(subscriber, connect("subscriber"));
        machine.write_all();
        machine.take_sent(subscriber);
        machine.receive(subscriber, client::subscribe(&["#"], qos));
        let mut seen = BTreeSet::new();
        for round in 0.. {
            let packets = machine.take_sent(subscriber);
            assert!(packets.len() <= AT_ONCE_MAX + 1, "one turn, and a SUBACK");
            assert!(round < RETAINED, "{} came, and no more do", seen.len());
            for packet in packets {
                let Packet::Publish(publish) = packet else {
                    continue;
                };
                assert!(publish.retain);
                assert!(seen.insert(publish.topic.to_string()), "each comes once");
                if let Some(packet_id) = publish.packet_id {
                    machine.receive(
                        subscriber,
                        Packet::PubAck(Ack::new(packet_id, ReasonCode::Success)),
                    );
                }
            }
            machine.write_all();
            if seen.len() == RETAINED {
                break;
            }
            if machine.node().gauges().waiting_messages == 0 {
                machine.advance(Duration::from_millis(1));
            }
        }
        assert_eq!(machine.node().counters().dropped.total(), 0);
    }
}

fn connect(name: &str) -> Packet {
    let mut connect = client::connect(name);
    connect.properties.session_expiry = Some(3_600);
    connect.properties.receive_maximum = Some(50);
    Packet::Connect(Box::new(connect))
}

fn retain(number: usize) -> Packet {
    let mut publish = client::publish(&format!("t/{}/{number}", number % 7));
    publish.retain = true;
    Packet::Publish(Box::new(publish))
}
