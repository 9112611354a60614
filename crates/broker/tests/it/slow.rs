//! What an operator is told of that took long.

use std::time::Duration;

use broker::{Report, SlowKind, SlowOperation};
use bytes::Bytes;
use mqtt::limits::Limits;
use protocol::Packet;
use protocol::packet::{PacketId, Publish, QoS};
use protocol::properties::{MessageProperties, UserProperties};
use protocol::state_store::properties::TIMESTAMP;
use protocol::state_store::{Condition, INVOKE_TOPIC, Request, Verb};
use smallvec::SmallVec;

use crate::inspection::{World, text};

const SLOW: Duration = Duration::from_millis(250);

fn world(slow_operation: Duration) -> World {
    World::with(Limits {
        slow_operation,
        ..Limits::default()
    })
}

fn publish(topic: &str, payload: Bytes, properties: MessageProperties) -> Packet {
    Packet::Publish(Box::new(Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: text(topic),
        packet_id: PacketId::new(7),
        topic_alias: None,
        subscription_ids: SmallVec::new(),
        properties,
        payload,
    }))
}

fn set(key: &'static str) -> Packet {
    let request = Request::Set {
        key: Bytes::from_static(key.as_bytes()),
        value: Bytes::from_static(b"v"),
        condition: Condition::None,
        expires_in: None,
    };
    let properties = MessageProperties {
        response_topic: Some(text(
            "clients/pump/services/statestore/_any_/command/invoke/response",
        )),
        correlation_data: Some(Bytes::from_static(b"1")),
        user_properties: UserProperties::from_pairs([(TIMESTAMP, "1700000000000:0:pump")]).unwrap(),
        ..MessageProperties::default()
    };
    publish(INVOKE_TOPIC, request.encode(), properties)
}

/// What was told, as a line each.
fn told(world: &mut World) -> Vec<String> {
    let slow = world.reports.drain(..).filter_map(|report| match report {
        Report::Slow(slow) => Some(*slow),
        _ => None,
    });
    let line = |slow: SlowOperation| {
        let key = slow.key.map(|key| String::from_utf8(key.to_vec()).unwrap());
        let key = key.map(|key| format!(" {key}")).unwrap_or_default();
        format!("{} {:?}{key} {:?}", slow.client_id, slow.kind, slow.took)
    };
    slow.map(line).collect()
}

/// Everything that waits for the disk: a client with a durable session, a subscription of its own, a message to it, a key.
fn everything(disk_takes: Duration, slow_operation: Duration) -> Vec<String> {
    let mut world = world(slow_operation);
    world.disk_takes = disk_takes;
    let connection = world.connect("pump", &["plant/+"]);
    world.receive(
        connection,
        publish("plant/1", Bytes::from_static(b"on"), MessageProperties::default()),
    );
    world.receive(connection, set("pump/7"));
    told(&mut world)
}

#[test]
fn what_waits_long_for_the_disk_is_told_with_whose_it_is_and_how_long() {
    let kinds = [
        SlowKind::Connect,
        SlowKind::Subscribe,
        SlowKind::Publish,
        SlowKind::Request(Verb::Set),
    ];
    let [connect, subscribe, publish, set] = kinds.map(|kind| format!("pump {kind:?}"));
    let expected = [
        format!("{connect} 250ms"),
        format!("{subscribe} 250ms"),
        format!("{publish} 250ms"),
        format!("{set} pump/7 250ms"),
    ];
    assert_eq!(everything(SLOW, SLOW), expected);
}

#[test]
fn nothing_is_told_of_what_is_quick_or_when_nobody_wants_to_know() {
    assert_eq!(everything(SLOW - Duration::from_nanos(1), SLOW), [""; 0]);
    assert_eq!(
        everything(Duration::from_secs(3_600), Limits::default().slow_operation),
        [""; 0]
    );
}
