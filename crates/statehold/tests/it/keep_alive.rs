//! Keep Alive while a packet is on its way. A server counts every 1,024 bytes of it as a sign of life.
//!
//! The clients' timers only pace what they send. No test fails because a server takes long; the slow upload leaves a machine
//! that stands still five seconds.

use std::io::Write;
use std::time::Duration;

use client::protocol::ReasonCode;
use client::protocol::packet::Packet;

use crate::configured::Configured;
use crate::raw::{Raw, bytes, connect, packet_id, publish};

const LISTENER: &str = "[[listeners]]\naddress = \"127.0.0.1:0\"\n";

/// Bytes of an incomplete packet that count as a sign of life.
const PART: usize = 1_024;

/// Pause between the pieces of a packet.
const PAUSE: Duration = Duration::from_secs(1);

/// Pieces of a slow packet: more pauses than a client with [`KEEP_ALIVE`] may be silent for.
const PIECES: usize = 8;

/// Keep Alive of a slow upload, in seconds. The server waits 1.5 times as long.
const KEEP_ALIVE: u16 = 4;

/// Keep Alive of clients that are to be disconnected, in seconds.
const KEEP_ALIVE_SHORT: u16 = 1;

fn start() -> Configured {
    Configured::start(LISTENER)
}

/// Connects a client with this Keep Alive.
fn slow(server: &Configured, client_id: &str, keep_alive: u16) -> Raw {
    let mut connect = connect(client_id);
    connect.keep_alive = keep_alive;
    Raw::connect(server.at("mqtt"), connect)
}

/// PUBLISH that is a little longer than so many pieces.
fn packet(pieces: usize) -> Vec<u8> {
    bytes(&publish("t", Some(packet_id(7)), &vec![b'x'; pieces * PART])).to_vec()
}

#[test]
fn a_packet_that_takes_longer_than_the_keep_alive_is_acknowledged() {
    let server = start();
    let mut raw = slow(&server, "slow", KEEP_ALIVE);
    for piece in packet(PIECES).chunks(PART) {
        raw.stream.write_all(piece).expect("the server takes the piece");
        let is_last = piece.len() < PART;
        assert!(is_last || raw.is_quiet_for(PAUSE), "the server ends the upload");
    }
    match raw.receive() {
        Packet::PubAck(ack) => {
            assert!(!ack.reason.is_error(), "{ack:?}");
            assert_eq!(ack.packet_id, packet_id(7));
        }
        other => panic!("no PUBACK: {other:?}"),
    }
}

#[test]
fn mqtt_3_1_2_22_a_client_that_stops_within_a_packet_is_disconnected() {
    let server = start();
    let mut raw = slow(&server, "stopped", KEEP_ALIVE_SHORT);
    raw.stream.write_all(&packet(PIECES)[..3 * PART]).expect("sent");
    match raw.receive() {
        Packet::Disconnect(disconnect) => assert_eq!(disconnect.reason, ReasonCode::KeepAliveTimeout),
        other => panic!("no DISCONNECT: {other:?}"),
    }
    raw.closed();
}

#[test]
fn a_client_that_sends_a_packet_byte_by_byte_is_disconnected() {
    let mut server = start();
    let mut raw = slow(&server, "dripping", KEEP_ALIVE_SHORT);
    let packet = packet(1);
    let mut bytes = packet[..PART - 1].chunks(1);
    while raw.is_quiet_for(PAUSE) {
        // Fewer bytes than a sign of life take many times the Keep Alive.
        let byte = bytes.next().expect("closed before a part is complete");
        let _ = raw.stream.write_all(byte);
    }
    raw.closed();
    let line = server.logged("nothing came within the Keep Alive");
    assert!(line.contains("client_id=dripping"), "{line}");
}
