//! Packets that may be much work for few bytes.
//!
//! Three clients subscribe, end subscriptions and publish. What a packet has is made from a few bytes of the input many times over, so
//! that an input of a hundred bytes is a packet of many thousand. After each packet the server may have done as much as the packet is
//! long and one turn takes, by its own counters, and no turn may be longer than all.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use mqtt::ids::ConnectionId;
use mqtt::limits::Limits;
use protocol::packet::{Connect, PacketId, ProtocolVersion, Publish, QoS, Subscribe, Unsubscribe, encode};
use protocol::properties::{MessageProperties, UserProperties};
use protocol::{Packet, Text};
use smallvec::SmallVec;

use super::cursor::Cursor;
use crate::machine::{Machine, MachineConfig};

/// Plays an input. `origin` is any instant; only differences matter.
pub fn work(input: &[u8], origin: Instant) {
    let mut input = Cursor::new(input);
    let mut config = MachineConfig::new(1);
    config.limits = Limits {
        packet_size_max: 65_536,
        ..Limits::default()
    };
    let mut machine = Machine::new(config, origin);
    let clients: Vec<_> = CLIENTS.iter().map(|name| connect(&mut machine, name)).collect();
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let step = input.byte();
        let client = clients[usize::from(step >> 4) % clients.len()];
        let packet = match step & 0x07 {
            0..=2 => subscribe(&mut input),
            3 => unsubscribe(&mut input),
            _ => publish(&mut input),
        };
        let mut bytes = BytesMut::new();
        let is_legal = encode(
            &packet,
            ProtocolVersion::V5,
            machine.limits().packet_size_max,
            &mut bytes,
        );
        if is_legal.is_ok() {
            check(&mut machine, client, packet, bytes.len());
        }
    }
}

/// The server works the packet through, and that is no more than it is worth.
fn check(machine: &mut Machine, client: ConnectionId, packet: Packet, bytes: usize) {
    let before = machine.node().work();
    machine.receive(client, packet);
    machine.write_all();
    machine.advance(Duration::from_secs(1));
    let after = machine.node().work();
    let units = after.units - before.units;
    let allowed = UNITS_LEAST + UNITS_PER_BYTE * bytes as u64;
    assert!(units <= allowed, "{units} units for {bytes} bytes");
    assert!(
        after.turn_units_max <= TURN_UNITS_MAX,
        "{} units in one turn",
        after.turn_units_max
    );
    machine.take_sent(client);
}

fn connect(machine: &mut Machine, name: &str) -> ConnectionId {
    let id = machine.open();
    let connect = Connect::new(text(name));
    machine.receive(id, Packet::Connect(Box::new(connect)));
    machine.write_all();
    id
}

fn subscribe(input: &mut Cursor<'_>) -> Packet {
    let packet_id = PacketId::new(1).expect("not zero");
    Packet::Subscribe(Subscribe::new(packet_id, QoS::AtMostOnce, topics(input, true)))
}

fn unsubscribe(input: &mut Cursor<'_>) -> Packet {
    Packet::Unsubscribe(Unsubscribe {
        packet_id: PacketId::new(1).expect("not zero"),
        user_properties: UserProperties::EMPTY,
        filters: topics(input, true),
    })
}

fn publish(input: &mut Cursor<'_>) -> Packet {
    let retain = input.byte() & 1 == 1;
    let topic = topics(input, false).pop().unwrap_or_else(|| text("t"));
    Packet::Publish(Box::new(Publish {
        dup: false,
        qos: QoS::AtMostOnce,
        retain,
        topic,
        packet_id: None,
        topic_alias: None,
        subscription_ids: SmallVec::new(),
        properties: MessageProperties::default(),
        payload: Bytes::from_static(b"x"),
    }))
}

/// Topics that differ in a few levels by their numbers: levels of the input, again and again.
fn topics(input: &mut Cursor<'_>, are_filters: bool) -> Vec<Text> {
    let count = if are_filters {
        usize::from(input.number()) % 1_000 + 1
    } else {
        1
    };
    let levels = usize::from(input.byte()) % 128 + 1;
    let pattern = input.chunk();
    let last = input.byte();
    let topic = |number: usize| {
        let level = |place: usize| match (
            pattern.get(place % pattern.len().max(1)).map(|byte| byte % 6),
            number,
        ) {
            (Some(0), number) if are_filters && number >> (place % 16) & 1 == 1 => "+".to_owned(),
            (Some(1), number) => number.to_string(),
            (Some(2), _) if are_filters => "+".to_owned(),
            (Some(3), _) => "b".to_owned(),
            _ => "a".to_owned(),
        };
        let mut all: Vec<_> = (0..levels).map(level).collect();
        match last % 4 {
            0 if are_filters => all.push("#".to_owned()),
            1 => all.push("b".to_owned()),
            _ => {}
        }
        text(&all.join("/"))
    };
    (0..count).map(topic).collect()
}

fn text(text: &str) -> Text {
    Text::new(text).unwrap_or_default()
}

const CLIENTS: [&str; 3] = ["a", "b", "c"];

const STEPS_MAX: usize = 24;

/// A turn: what matching a message may take at most, and its deliveries.
const UNITS_LEAST: u64 = 1_024;

/// The cheapest filter has four bytes, and is four units of work. A retained message may be delivered for it.
const UNITS_PER_BYTE: u64 = 8;

/// What a turn may take, and the last piece of it.
const TURN_UNITS_MAX: u64 = 2_048;
