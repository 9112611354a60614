//! Packets that do not end: what they may take of the server's memory, and who gives way.

use std::io::Write;
use std::time::Duration;

use client::protocol::ReasonCode;
use client::protocol::packet::{Packet, QoS};

use crate::configured::Configured;
use crate::raw::{Raw, bytes, connect, packet_id, publish};

/// Unfinished packets may take an eighth: 8 MiB, of which strangers have one.
const SETTINGS: &str = r#"
[limits]
memory_max = "64 MiB"
[[listeners]]
address = "127.0.0.1:0"
allow_anonymous = true
"#;

/// Clients that begin a packet of a megabyte each.
const CLIENTS: usize = 20;

/// Strangers that begin a large CONNECT. So little memory has 64 waiting places, one of which is for who is honest.
const STRANGERS: usize = 60;

/// An eighth of `memory_max`.
const BUDGET: u64 = 8 << 20;

/// Part of a packet, all but the last byte, as far as the server takes it at once.
fn send_without_end(raw: &mut Raw, packet: &[u8]) {
    raw.stream
        .set_write_timeout(Some(Duration::from_millis(100)))
        .expect("set");
    // What the server does not read stays in the system's buffers, or here.
    let _ = raw.stream.write_all(&packet[..packet.len() - 1]);
}

#[test]
fn unfinished_packets_share_a_budget_and_an_honest_client_gets_its_turn() {
    let server = Configured::start(SETTINGS);
    let address = server.at("mqtt").to_owned();
    let large = bytes(&publish("nobody", Some(packet_id(1)), &vec![b'x'; 1 << 20]));
    let mut hostile: Vec<_> = (0..CLIENTS)
        .map(|number| Raw::connect(&address, connect(&format!("hostile-{number}"))))
        .collect();
    for raw in &mut hostile {
        send_without_end(raw, &large);
    }

    let mut honest = Raw::connect(&address, connect("honest"));
    honest.stream.write_all(&large).expect("sent");
    match honest.receive() {
        Packet::PubAck(ack) => assert!(!ack.reason.is_error(), "{ack:?}"),
        other => panic!("no PUBACK: {other:?}"),
    }
    let inbound = server.figure("statehold_memory_bytes{part=\"inbound\"}");
    assert!(inbound <= whole(BUDGET + (2 << 20)), "{inbound} bytes are held");
    // Those who had a turn and did not use it make room for the others.
    while server.figure("statehold_memory_overruns_total") == 0.0 {}
}

#[test]
fn strangers_hold_little_and_do_not_keep_others_out() {
    let server = Configured::start(SETTINGS);
    let address = server.at("mqtt").to_owned();
    let mut large = connect("stranger");
    large.password = Some(vec![b'x'; 60_000].into());
    let large = bytes(&Packet::Connect(Box::new(large)));
    let mut strangers: Vec<_> = (0..STRANGERS).map(|_| Raw::open(&address)).collect();
    for raw in &mut strangers {
        send_without_end(raw, &large);
    }

    // Who comes in one piece, and who has a large packet when it is in, does not notice.
    let mut honest = Raw::connect(&address, connect("honest"));
    honest.send(&publish("nobody", Some(packet_id(1)), &vec![b'x'; 1 << 20]));
    assert!(matches!(honest.receive(), Packet::PubAck(_)));
    let inbound = server.figure("statehold_memory_bytes{part=\"inbound\"}");
    assert!(
        inbound <= whole(BUDGET / 8 + (3 << 20)),
        "{inbound} bytes are held"
    );
    let overruns = server.figure("statehold_memory_overruns_total");
    assert!(overruns > whole(STRANGERS as u64 / 2), "{overruns} had to go");
}

#[test]
fn a_connect_has_a_limit_of_its_own_until_the_client_is_let_in() {
    let settings = SETTINGS.replace("memory_max", "connect_packet_size_max = \"2 KiB\"\nmemory_max");
    let server = Configured::start(&settings);
    let address = server.at("mqtt").to_owned();
    let mut large = connect("large");
    large.password = Some(vec![b'x'; 2_048].into());
    large.username = Some(client::protocol::Text::from_static("name"));
    let mut raw = Raw::begin(&address, large);
    match raw.receive() {
        Packet::ConnAck(connack) => assert_eq!(connack.reason, ReasonCode::PacketTooLarge),
        other => panic!("no CONNACK: {other:?}"),
    }
    raw.closed();

    // What follows in the same write is read when the client is in, with the limit that counts then.
    let mut raw = Raw::open(&address);
    let both = [
        bytes(&Packet::Connect(Box::new(connect("small")))),
        bytes(&publish("nobody", Some(packet_id(1)), &vec![b'x'; 500_000])),
    ];
    raw.stream.write_all(&both.concat()).expect("sent");
    raw.accepted();
    assert!(matches!(raw.receive(), Packet::PubAck(_)));
    raw.subscribe("a", QoS::AtMostOnce);
}

fn whole(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes).expect("small"))
}
