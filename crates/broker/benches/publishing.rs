//! A message's way through a node without others: from a publisher's PUBLISH to what a subscriber and the publisher are sent.

#[path = "../tests/alone/mod.rs"]
mod alone;

use std::time::Duration;

use broker::{Action, Event, Node};
use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mqtt::ids::ConnectionId;
use mqtt::limits::Limits;
use mqtt::now::Now;
use protocol::packet::{Ack, Connect, PacketId, Publish, QoS, Subscribe};
use protocol::properties::MessageProperties;
use protocol::{Packet, ReasonCode, Text};
use smallvec::SmallVec;
use std::hint::black_box;

/// Messages of one turn.
const MESSAGES: u64 = 1_000;

/// A client whose session ends with its connection.
fn connect(node: &mut Node, now: Now, slot: u32) -> ConnectionId {
    let connection = ConnectionId::new(1, slot);
    let opened = Event::Opened {
        connection,
        waited: Duration::ZERO,
        is_asked: false,
        policy: None,
    };
    let connect = Connect::new(Text::new(format!("client{slot}")).expect("short"));
    node.step(now, opened, &mut Vec::new());
    send(node, now, connection, Packet::Connect(Box::new(connect)));
    connection
}

/// Takes a packet of a client; how many packets the node sends then.
fn send(node: &mut Node, now: Now, connection: ConnectionId, packet: Packet) -> usize {
    let mut actions = Vec::new();
    node.step(now, Event::Received { connection, packet }, &mut actions);
    let is_sent = |action: &&Action| matches!(action, Action::Send { .. } | Action::Publish { .. });
    black_box(&actions).iter().filter(is_sent).count()
}

fn subscribe(qos: QoS) -> Packet {
    let packet_id = PacketId::new(1).expect("above 0");
    Packet::Subscribe(Subscribe::new(packet_id, qos, [Text::from_static("plant/+/1")]))
}

fn publish(qos: QoS) -> Packet {
    Packet::Publish(Box::new(Publish {
        dup: false,
        qos,
        retain: false,
        topic: Text::from_static("plant/line/1"),
        packet_id: (qos != QoS::AtMostOnce).then(|| PacketId::new(1).expect("above 0")),
        topic_alias: None,
        subscription_ids: SmallVec::new(),
        properties: MessageProperties::default(),
        payload: Bytes::from_static(&[7; 100]),
    }))
}

fn one_to_one(criterion: &mut Criterion, name: &str, qos: QoS) {
    let now = alone::now();
    let mut node = alone::node(now, Limits::default(), alone::state_store()).0;
    let (publisher, subscriber) = (connect(&mut node, now, 0), connect(&mut node, now, 1));
    send(&mut node, now, subscriber, subscribe(qos));
    let mut packet_id = 0_u16;
    let mut group = criterion.benchmark_group("publish to one subscriber");
    group.throughput(Throughput::Elements(MESSAGES));
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            for _ in 0..MESSAGES {
                let sent = send(&mut node, now, publisher, publish(qos));
                assert!(sent > 0, "the message goes on");
                if qos == QoS::AtLeastOnce {
                    packet_id = packet_id.checked_add(1).unwrap_or(1);
                    let ack = Ack::new(PacketId::new(packet_id).expect("above 0"), ReasonCode::Success);
                    send(&mut node, now, subscriber, Packet::PubAck(ack));
                }
            }
        });
    });
    group.finish();
}

fn messages(criterion: &mut Criterion) {
    one_to_one(criterion, "QoS 0", QoS::AtMostOnce);
    one_to_one(criterion, "QoS 1", QoS::AtLeastOnce);
}

criterion_group!(benches, messages);
criterion_main!(benches);
