//! Packets that are well formed, and wrong where they come.

use std::num::NonZeroU16;

use client::protocol::ReasonCode;
use client::protocol::packet::{Auth, Disconnect, Packet, ProtocolVersion, QoS};
use client::protocol::properties::Explanation;

use super::support::server::Server;
use super::support::wire::{Wire, ack, connect, id, publish, subscribe, text};
use super::{assert_serves, until_the_end};

fn open(server: &Server) -> Wire {
    Wire::connect(server.mqtt(), connect("", true)).unwrap().0
}

/// What the server sends after these packets of a new connection, until it ends it.
fn end_after(server: &Server, packets: &[Packet]) -> Vec<Packet> {
    let mut wire = open(server);
    for packet in packets {
        wire.queue(packet);
    }
    wire.flush().unwrap();
    until_the_end(&mut wire)
}

/// The last packet must be a DISCONNECT with this code.
fn assert_disconnected(answers: &[Packet], reason: ReasonCode, why: &str) {
    match answers.last() {
        Some(Packet::Disconnect(disconnect)) => assert_eq!(disconnect.reason, reason, "{why}"),
        _ => panic!("{why}: answered with {answers:?}"),
    }
}

fn with_alias(topic: &str, alias: u16) -> Packet {
    let mut message = publish(topic, "x", QoS::AtMostOnce, 1);
    message.topic_alias = NonZeroU16::new(alias);
    Packet::Publish(Box::new(message))
}

#[test]
fn what_is_wrong_where_it_comes_is_named_in_the_disconnect() {
    let server = Server::start();
    let hello = Packet::Connect(Box::new(connect("again", true)));
    let auth = Packet::Auth(Auth {
        reason: ReasonCode::Reauthenticate,
        method: Some(text("X")),
        data: None,
        explanation: Explanation::default(),
    });
    let longer_session = Packet::Disconnect(Disconnect {
        session_expiry: Some(10),
        ..Disconnect::new(ReasonCode::Success)
    });
    let cases = [
        ("a second CONNECT", vec![hello], ReasonCode::ProtocolError),
        (
            "an alias that stands for nothing",
            vec![with_alias("", 1)],
            ReasonCode::ProtocolError,
        ),
        (
            "an alias over the maximum",
            vec![with_alias("a", u16::MAX)],
            ReasonCode::TopicAliasInvalid,
        ),
        (
            "AUTH without a method in CONNECT",
            vec![auth],
            ReasonCode::ProtocolError,
        ),
        (
            "a session that begins with its end",
            vec![longer_session],
            ReasonCode::ProtocolError,
        ),
    ];
    for (why, packets, reason) in cases {
        assert_disconnected(&end_after(&server, &packets), reason, why);
    }
    assert_serves(&server);
}

#[test]
fn more_than_receive_maximum_is_too_much() {
    let server = Server::start();
    let (mut wire, connack) = Wire::connect(server.mqtt(), connect("", true)).unwrap();
    let Some(limit) = connack
        .properties
        .receive_maximum
        .filter(|limit| *limit < u16::MAX)
    else {
        return;
    };
    for number in 1..=limit + 1 {
        wire.queue(&Packet::Publish(Box::new(publish(
            "a",
            "x",
            QoS::ExactlyOnce,
            number,
        ))));
    }
    // The server may close before all is sent.
    let _ = wire.flush();
    assert_disconnected(
        &until_the_end(&mut wire),
        ReasonCode::ReceiveMaximumExceeded,
        "one too many",
    );
    assert_serves(&server);
}

#[test]
fn acknowledgements_of_nothing_do_no_harm() {
    let server = Server::start();
    let mut wire = open(&server);
    wire.send(&Packet::PubRel(ack(id(77)))).unwrap();
    let answer = wire.receive().unwrap();
    assert!(
        matches!(&answer, Packet::PubComp(comp) if comp.reason == ReasonCode::PacketIdentifierNotFound),
        "{answer:?}"
    );
    // A PUBACK, PUBREC or PUBCOMP of nothing is ignored, answered, or ends the connection.
    for packet in [
        Packet::PubAck(ack(id(5))),
        Packet::PubRec(ack(id(6))),
        Packet::PubComp(ack(id(7))),
    ] {
        let mut wire = open(&server);
        wire.send(&packet).unwrap();
        let _ = wire.send(&Packet::PingReq);
        match wire.receive() {
            Ok(Packet::PingResp | Packet::PubRel(_)) | Err(_) => {}
            Ok(Packet::Disconnect(disconnect)) => assert!(disconnect.reason.is_error()),
            Ok(other) => panic!("{packet:?} was answered with {other:?}"),
        }
    }
    assert_serves(&server);
}

#[test]
fn a_packet_id_of_qos_2_that_is_in_use_means_the_message_that_came_first() {
    let server = Server::start();
    let mut wire = open(&server);
    wire.send(&subscribe("twice", QoS::AtMostOnce, 1)).unwrap();
    wire.receive().unwrap();
    for payload in ["first", "second"] {
        wire.send(&Packet::Publish(Box::new(publish(
            "twice",
            payload,
            QoS::ExactlyOnce,
            9,
        ))))
        .unwrap();
    }
    wire.send(&Packet::PingReq).unwrap();
    let mut delivered = Vec::new();
    loop {
        match wire.receive().unwrap() {
            Packet::Publish(message) => delivered.push(message.payload),
            Packet::PubRec(answer) => assert_eq!(answer.packet_id, id(9)),
            Packet::PingResp => break,
            other => panic!("unexpected {other:?}"),
        }
    }
    wire.send(&Packet::PubRel(ack(id(9)))).unwrap();
    // A message of QoS 2 may be passed on at PUBLISH or at PUBREL, the second one never.
    loop {
        match wire.receive().unwrap() {
            Packet::Publish(message) => delivered.push(message.payload),
            // It waits for the disk, and PINGRESP does not.
            Packet::PubRec(answer) => assert_eq!(answer.packet_id, id(9)),
            Packet::PubComp(_) => break,
            other => panic!("unexpected {other:?}"),
        }
    }
    assert_eq!(delivered, ["first"]);
    assert_serves(&server);
}

#[test]
fn filters_that_are_none_fail_alone() {
    let server = Server::start();
    let mut wire = open(&server);
    for filter in ["a/#/b", "a#", "+a", "a/b+/c", "#/a"] {
        wire.send(&subscribe(filter, QoS::AtLeastOnce, 3)).unwrap();
        let answer = wire.receive().unwrap();
        assert!(
            matches!(&answer, Packet::SubAck(suback) if suback.reasons == [ReasonCode::TopicFilterInvalid]),
            "{filter}: {answer:?}"
        );
    }
    assert_serves(&server);
}

#[test]
fn a_connect_that_is_refused_is_told_why() {
    let server = Server::start();
    let mut old = connect("", false);
    old.version = ProtocolVersion::V311;
    old.properties = Default::default();
    let mut asks_for_authentication = connect("a", true);
    asks_for_authentication.properties.authentication_method = Some(text("UNKNOWN"));
    let cases = [
        (old, ReasonCode::ClientIdentifierNotValid),
        (asks_for_authentication, ReasonCode::BadAuthenticationMethod),
    ];
    for (hello, reason) in cases {
        let mut wire = Wire::open(server.mqtt()).unwrap();
        let version = hello.version;
        wire.send_connect(hello).unwrap();
        let answers = until_the_end(&mut wire);
        let [Packet::ConnAck(connack)] = &answers[..] else {
            panic!("{version:?}: {answers:?}")
        };
        assert_eq!(connack.reason, reason);
    }
    assert_serves(&server);
}

#[test]
fn mqtt_3_1_4_6_nothing_that_follows_a_refused_connect_is_processed() {
    let server = Server::start();
    let mut refused = connect("refused", true);
    refused.properties.authentication_method = Some(text("UNKNOWN"));
    let mut message = publish("after/refusal", "x", QoS::AtMostOnce, 1);
    message.retain = true;
    let mut bytes = bytes::BytesMut::new();
    for packet in [
        Packet::Connect(Box::new(refused)),
        Packet::Publish(Box::new(message)),
    ] {
        client::protocol::packet::encode(&packet, ProtocolVersion::V5, 1_000, &mut bytes).unwrap();
    }
    let mut wire = Wire::open(server.mqtt()).unwrap();
    wire.send_bytes(&bytes).unwrap();
    assert_ne!(wire.drain().unwrap(), []);
    let mut other = open(&server);
    other.send(&subscribe("after/#", QoS::AtMostOnce, 1)).unwrap();
    other.send(&Packet::PingReq).unwrap();
    assert!(matches!(other.receive().unwrap(), Packet::SubAck(_)));
    assert!(matches!(other.receive().unwrap(), Packet::PingResp));
    assert_serves(&server);
}

#[test]
fn connections_that_say_nothing_or_stop_in_the_middle_are_let_go() {
    let server = Server::start();
    let mut bytes = bytes::BytesMut::new();
    let hello = Packet::Connect(Box::new(connect("half", true)));
    client::protocol::packet::encode(&hello, ProtocolVersion::V5, 1_000, &mut bytes).unwrap();
    for length in (0..bytes.len()).cycle().take(500) {
        let mut wire = Wire::open(server.mqtt()).unwrap();
        wire.send_bytes(&bytes[..length]).unwrap();
        wire.finish_sending().unwrap();
        assert!(
            until_the_end(&mut wire)
                .iter()
                .all(|packet| matches!(packet, Packet::ConnAck(_)))
        );
    }
    // Complete, but one byte at a time.
    let mut wire = Wire::open(server.mqtt()).unwrap();
    for byte in &bytes {
        wire.send_bytes(&[*byte]).unwrap();
    }
    assert!(
        matches!(wire.receive().unwrap(), Packet::ConnAck(connack) if connack.reason == ReasonCode::Success)
    );
    assert_serves(&server);
}

#[test]
fn a_connection_that_never_says_connect_is_closed() {
    let server = Server::start_with("[limits]\nconnect_timeout = \"500ms\"\n");
    let mut silent = Wire::open(server.mqtt()).unwrap();
    let mut stuck = Wire::open(server.mqtt()).unwrap();
    stuck.send_bytes(b"\x10\x20\x00\x04MQ").unwrap();
    assert_eq!(silent.drain().unwrap(), []);
    assert_eq!(stuck.drain().unwrap(), []);
    assert_serves(&server);
}

#[test]
fn a_client_that_comes_after_a_quiet_time_has_its_whole_time_to_connect() {
    let settings = "[limits]\nconnect_timeout = \"3s\"\n";
    let (server, other) = (Server::start_with(settings), Server::start_with(settings));
    // For as long as the other server takes to close a silent connection, nothing happens at the first one.
    let mut silent = Wire::open(other.mqtt()).unwrap();
    assert_eq!(silent.drain().unwrap(), []);
    let mut slow = Wire::open(server.mqtt()).unwrap();
    // The first server has seen the slow client, and has had other things to do since.
    assert_serves(&server);
    slow.send(&Packet::Connect(Box::new(connect("slow", true))))
        .unwrap();
    assert!(
        matches!(slow.receive().unwrap(), Packet::ConnAck(connack) if connack.reason == ReasonCode::Success)
    );
}
