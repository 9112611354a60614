//! Random damage to valid packets of every type.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::Ipv4Addr;
use std::thread;

use bytes::{Bytes, BytesMut};
use client::protocol::packet::{
    Ack, Auth, ConnAck, ConnAckProperties, Connect, Decoder, Disconnect, Packet, ProtocolVersion, Publish,
    QoS, SubAck, UnsubAck, Unsubscribe, Will, encode,
};
use client::protocol::properties::{Explanation, MessageProperties, UserProperties};
use client::protocol::{ReasonCode, TopicName};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::support::server::Server;
use super::support::wire::{Wire, connect, id, publish, subscribe, text};
use super::{assert_serves, until_the_end};

/// Of every packet type.
const MUTATIONS: u32 = 10_000;

/// Connections at once.
const THREADS: u64 = 8;

/// How much more memory the server may hold in the end than after the first packet type.
///
/// What legitimately stays are retained messages of damaged topics and sessions of damaged CONNECTs with an
/// expiry, a few hundred of each; the rest of this is the allocator's.
const GROWTH_MAX: u64 = 8 << 20;

/// Bytes at the edges of what lengths and numbers may be.
const EDGES: [u8; 5] = [0x00, 0x01, 0x7F, 0x80, 0xFF];

/// One random number from the operating system unless `STATEHOLD_DAMAGE_SEED` says which.
pub(crate) fn seed() -> u64 {
    let seed = match std::env::var("STATEHOLD_DAMAGE_SEED") {
        Ok(seed) => seed.parse().expect("STATEHOLD_DAMAGE_SEED is a number"),
        Err(_) => RandomState::new().build_hasher().finish(),
    };
    println!("STATEHOLD_DAMAGE_SEED={seed}");
    seed
}

/// Damages bytes in one to three places.
pub(crate) fn mutate(random: &mut SmallRng, bytes: &[u8]) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    for _ in 0..random.random_range(1..=3) {
        if damaged.is_empty() {
            damaged.push(random.random());
            continue;
        }
        let at = random.random_range(0..damaged.len());
        match random.random_range(0..8) {
            0 | 1 => damaged[at] ^= 1 << random.random_range(0..8),
            2 => damaged[at] = random.random(),
            3 => damaged[at] = EDGES[random.random_range(0..EDGES.len())],
            4 => drop(damaged.remove(at)),
            5 => damaged.insert(at, random.random()),
            6 => damaged.truncate(at),
            _ => {
                let end = random.random_range(at..=damaged.len());
                let copy = damaged[at..end].to_vec();
                damaged.splice(at..at, copy);
            }
        }
    }
    damaged
}

#[test]
fn damaged_packets_of_every_type_do_no_harm() {
    let server = &Server::start();
    let seed = seed();
    let mut resident_first = None;
    for (packet, number) in valid_packets().into_iter().zip(0..) {
        thread::scope(|scope| {
            for part in 0..THREADS {
                let packet = &packet;
                scope.spawn(move || {
                    let mut random = SmallRng::seed_from_u64(seed ^ (number * THREADS + part));
                    // No address sees more connections than it has ports.
                    let source = Ipv4Addr::new(127, 1, number as u8, part as u8 + 1);
                    for _ in 0..MUTATIONS / THREADS as u32 {
                        check(server, source, &mut random, packet);
                    }
                });
            }
        });
        assert_serves(server);
        let resident = server.resident_bytes();
        let first = *resident_first.get_or_insert(resident);
        println!("{:?}: {} KiB resident", packet.packet_type(), resident / 1_024);
        assert!(
            resident < first + GROWTH_MAX,
            "memory grew from {first} to {resident} bytes with {:?}",
            packet.packet_type()
        );
    }
}

/// Sends a CONNECT, one damaged packet and the end of the stream, and takes what comes back.
fn check(server: &Server, source: Ipv4Addr, random: &mut SmallRng, packet: &Packet) {
    let mut valid = BytesMut::new();
    encode(packet, ProtocolVersion::V5, u32::MAX, &mut valid).unwrap();
    let damaged = mutate(random, &valid);
    let mut stream = BytesMut::new();
    let is_first = matches!(packet, Packet::Connect(_));
    if !is_first {
        let hello = Packet::Connect(Box::new(connect("", true)));
        encode(&hello, ProtocolVersion::V5, u32::MAX, &mut stream).unwrap();
    }
    stream.extend_from_slice(&damaged);

    let mut wire = Wire::open_from(source, server.mqtt()).unwrap();
    // The server may close before all is sent.
    let _ = wire.send_bytes(&stream);
    let _ = wire.finish_sending();
    if is_first {
        // A damaged CONNECT may be one of version 3.1.1, whose answers are others.
        wire.drain().unwrap();
        return;
    }
    let answers = until_the_end(&mut wire);
    let [Packet::ConnAck(connack), rest @ ..] = &answers[..] else {
        panic!("{damaged:x?} was answered with {answers:?}")
    };
    assert_eq!(connack.reason, ReasonCode::Success);
    if is_malformed(&mut stream) {
        assert!(
            matches!(rest.last(), Some(Packet::Disconnect(disconnect)) if disconnect.reason.is_error()),
            "{damaged:x?} was answered with {rest:?}"
        );
    }
}

/// Whether the decoder alone refuses something in a stream that begins with CONNECT.
fn is_malformed(stream: &mut BytesMut) -> bool {
    let mut decoder = Decoder::for_server(u32::MAX);
    loop {
        match decoder.decode(stream) {
            Ok(Some(Packet::Disconnect(_))) | Ok(None) => return false,
            Ok(Some(_)) => {}
            Err(_) => return true,
        }
    }
}

/// One packet of every type with as much in it as it may have.
fn valid_packets() -> Vec<Packet> {
    let explanation = || Explanation {
        reason_string: Some(text("because")),
        user_properties: UserProperties::from_pairs([("name", "value"), ("name", "other")]).unwrap(),
    };
    let acknowledgement = || Ack {
        packet_id: id(3),
        reason: ReasonCode::Success,
        explanation: Some(Box::new(explanation())),
    };
    let filters = || vec![text("a/+/b"), text("c/#")];
    vec![
        Packet::Connect(Box::new(full_connect())),
        Packet::ConnAck(Box::new(ConnAck {
            session_present: false,
            reason: ReasonCode::Success,
            properties: ConnAckProperties {
                assigned_client_id: Some(text("x")),
                explanation: explanation(),
                ..ConnAckProperties::default()
            },
        })),
        Packet::Publish(Box::new(full_publish())),
        Packet::PubAck(acknowledgement()),
        Packet::PubRec(acknowledgement()),
        Packet::PubRel(acknowledgement()),
        Packet::PubComp(acknowledgement()),
        subscribe("a/+/b/#", QoS::ExactlyOnce, 3),
        Packet::SubAck(SubAck {
            packet_id: id(3),
            explanation: explanation(),
            reasons: vec![ReasonCode::Success; 2],
        }),
        Packet::Unsubscribe(Unsubscribe {
            packet_id: id(4),
            user_properties: explanation().user_properties,
            filters: filters(),
        }),
        Packet::UnsubAck(UnsubAck {
            packet_id: id(4),
            explanation: explanation(),
            reasons: vec![ReasonCode::Success; 2],
        }),
        Packet::PingReq,
        Packet::PingResp,
        Packet::Disconnect(Disconnect {
            explanation: explanation(),
            ..Disconnect::new(ReasonCode::DisconnectWithWillMessage)
        }),
        Packet::Auth(Auth {
            reason: ReasonCode::Reauthenticate,
            method: Some(text("METHOD")),
            data: Some(Bytes::from_static(b"data")),
            explanation: explanation(),
        }),
    ]
}

fn full_connect() -> Connect {
    let mut hello = connect("damaged", true);
    hello.username = Some(text("user"));
    hello.password = Some(Bytes::from_static(b"password"));
    hello.properties.receive_maximum = Some(10);
    hello.properties.packet_size_max = Some(10_000);
    hello.properties.topic_alias_maximum = Some(5);
    hello.properties.user_properties = UserProperties::from_pairs([("name", "value")]).unwrap();
    hello.will = Some(Will {
        topic: TopicName::parse(text("will/topic")).unwrap(),
        payload: Bytes::from_static(b"gone"),
        qos: QoS::AtLeastOnce,
        retain: false,
        delay: Some(0),
        properties: message_properties(),
    });
    hello
}

fn full_publish() -> Publish {
    let mut message = publish("some/topic/name", "some payload", QoS::AtLeastOnce, 3);
    message.properties = message_properties();
    message
}

fn message_properties() -> MessageProperties {
    MessageProperties {
        payload_is_utf8: Some(true),
        message_expiry: Some(60),
        content_type: Some(text("text/plain")),
        response_topic: Some(text("answers")),
        correlation_data: Some(Bytes::from_static(b"correlation")),
        user_properties: UserProperties::from_pairs([("name", "value"), ("__ts", "1:2:c")]).unwrap(),
    }
}
