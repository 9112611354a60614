//! A subscription to everything gets all retained messages, and neither its queue overflows nor do the others wait.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::packet::{
    Ack, Connect, ConnectProperties, ProtocolVersion, Publish, QoS, Subscribe, SubscribeFilter,
    SubscriptionOptions,
};
use protocol::properties::{MessageProperties, UserProperties};
use protocol::{Packet, ReasonCode, Text};
use sim::machine::{Machine, MachineConfig};
use smallvec::SmallVec;

/// Many times what the queue holds.
const RETAINED: usize = 5_000;

/// What the others have to wait for, at most, when somebody subscribes.
const AT_ONCE_MAX: usize = 256;

#[test]
fn all_retained_messages_come_page_by_page() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        let mut config = MachineConfig::new(1);
        config.limits.queue_messages_max = 100;
        let mut machine = Machine::new(config, epoch());
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
        machine.receive(subscriber, subscribe(qos));
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
            if machine.node().gauges().queued_messages == 0 {
                machine.advance(Duration::from_millis(1));
            }
        }
        assert_eq!(machine.node().counters().dropped.total(), 0);
    }
}

fn connect(name: &str) -> Packet {
    Packet::Connect(Box::new(Connect {
        version: ProtocolVersion::V5,
        client_id: Text::new(name).expect("a short name"),
        clean_start: true,
        keep_alive: 0,
        will: None,
        username: None,
        password: None,
        properties: ConnectProperties {
            session_expiry: Some(3_600),
            receive_maximum: Some(50),
            ..ConnectProperties::default()
        },
    }))
}

fn retain(number: usize) -> Packet {
    Packet::Publish(Box::new(Publish {
        dup: false,
        qos: QoS::AtMostOnce,
        retain: true,
        topic: Text::new(format!("t/{}/{number}", number % 7)).expect("a short topic"),
        packet_id: None,
        topic_alias: None,
        subscription_ids: SmallVec::new(),
        properties: MessageProperties::default(),
        payload: Bytes::from_static(b"x"),
    }))
}

fn subscribe(qos: QoS) -> Packet {
    Packet::Subscribe(Subscribe {
        packet_id: protocol::packet::PacketId::new(1).expect("it is not 0"),
        subscription_id: None,
        user_properties: UserProperties::EMPTY,
        filters: vec![SubscribeFilter {
            filter: Text::from_static("#"),
            options: SubscriptionOptions {
                qos,
                ..SubscriptionOptions::default()
            },
        }],
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
fn epoch() -> Instant {
    Instant::now()
}
