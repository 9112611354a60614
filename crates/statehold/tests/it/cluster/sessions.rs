//! Clients of processes find their sessions wherever they connect.

use client::protocol::packet::{Ack, Packet, QoS};
use client::protocol::{ReasonCode, Text};

use super::member::Place;
use super::messages::three_nodes;
use crate::raw::{Raw, connect, connect_durably, packet_id, publish};

/// Publishes with QoS 1, up to and with PUBACK.
fn publish_one(publisher: &mut Raw, topic: &'static str, payload: &'static [u8]) {
    publisher.send(&publish(topic, Some(packet_id(9)), payload));
    match publisher.receive() {
        Packet::PubAck(ack) => assert!(!ack.reason.is_error(), "{ack:?}"),
        other => panic!("not acknowledged: {other:?}"),
    }
}

/// Receives a message of QoS 1, and acknowledges it.
fn receive_one(subscriber: &mut Raw) -> Vec<u8> {
    match subscriber.receive() {
        Packet::Publish(publish) => {
            let id = publish.packet_id.expect("QoS 1");
            subscriber.send(&Packet::PubAck(Ack::new(id, ReasonCode::Success)));
            publish.payload.to_vec()
        }
        other => panic!("no message: {other:?}"),
    }
}

#[test]
fn a_client_that_goes_to_another_node_finds_its_session_and_what_waits_in_it() {
    let place = Place::new();
    let members = three_nodes(&place);
    let mut publisher = Raw::connect(members[2].at("mqtt"), connect("publisher"));
    let mut first = Raw::connect(members[0].at("mqtt"), connect_durably("wanderer"));
    first.subscribe("t", QoS::AtLeastOnce);
    publish_one(&mut publisher, "t", b"one");
    assert_eq!(receive_one(&mut first), b"one");

    // It does not say goodbye: the node where it was ends that connection.
    let mut second = Raw::begin(members[1].at("mqtt"), connect_durably("wanderer"));
    assert!(second.accepted(), "the session is present");
    match first.try_receive() {
        Some(Packet::Disconnect(disconnect)) => assert_eq!(disconnect.reason, ReasonCode::SessionTakenOver),
        other => panic!("not told why: {other:?}"),
    }
    first.closed();
    for _ in 0..100 {
        publish_one(&mut publisher, "t", b"two");
        assert_eq!(receive_one(&mut second), b"two");
        second.send(&publish("own", Some(packet_id(9)), b""));
        assert!(
            matches!(second.receive(), Packet::PubAck(_)),
            "as any client of its node"
        );
    }

    drop(second);
    publish_one(&mut publisher, "t", b"three");
    let mut third = Raw::begin(members[2].at("mqtt"), connect_durably("wanderer"));
    assert!(third.accepted(), "the session is present");
    assert_eq!(receive_one(&mut third), b"three");
}

#[test]
fn a_large_message_goes_to_a_client_of_another_node_and_comes_from_it() {
    let place = Place::new();
    let members = three_nodes(&place);
    drop(Raw::connect(members[0].at("mqtt"), connect_durably("wanderer")));
    let mut wanderer = Raw::connect(members[1].at("mqtt"), connect_durably("wanderer"));
    wanderer.subscribe("t", QoS::AtLeastOnce);
    let payload: Vec<u8> = (0..700_000_u32).map(|number| (number % 251) as u8).collect();
    let mut message = publish("t", Some(packet_id(9)), b"");
    if let Packet::Publish(publish) = &mut message {
        publish.payload = payload.clone().into();
        publish.properties.content_type = Some(Text::from_static("noise"));
    }
    wanderer.send(&message);
    let (mut is_acknowledged, mut is_received) = (false, false);
    while !(is_acknowledged && is_received) {
        match wanderer.receive() {
            Packet::PubAck(_) => is_acknowledged = true,
            Packet::Publish(publish) => {
                assert_eq!(publish.payload, payload);
                assert_eq!(publish.properties.content_type.as_deref(), Some("noise"));
                is_received = true;
            }
            other => panic!("{other:?}"),
        }
    }
}
