//! Payloads that are no requests, sent to the state store.

use bytes::Bytes;
use client::protocol::packet::{Packet, QoS};
use client::protocol::state_store::{Condition, INVOKE_TOPIC, Request};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::assert_serves;
use super::mutations::{mutate, seed};
use super::support::server::Server;
use super::support::wire::{Wire, ack, connect, publish, request, subscribe};

/// How many payloads there are; 32 of them are under way at once.
const PAYLOADS: u32 = 10_000;
const IN_FLIGHT: u32 = 32;

#[test]
fn every_payload_is_answered_and_what_is_no_request_with_err() {
    let server = Server::start();
    let mut random = SmallRng::seed_from_u64(seed());
    let (mut wire, _) = Wire::connect(server.mqtt(), connect("garbage", true)).unwrap();
    wire.send(&subscribe("answers", QoS::AtMostOnce, 1)).unwrap();
    assert!(matches!(wire.receive().unwrap(), Packet::SubAck(_)));

    let (mut sent, mut acknowledged, mut answered, mut refused) = (0, 0, 0, 0);
    let mut payloads = Vec::new();
    while answered < PAYLOADS {
        // A reply may come before the PUBACKs of earlier requests, and these are what Receive Maximum counts.
        while sent < PAYLOADS && sent - acknowledged < IN_FLIGHT {
            let payload = garbage(&mut random);
            let mut message = request(
                &valid_requests()[1],
                "answers",
                sent.to_be_bytes().to_vec(),
                sent as u16 % 1_000 + 1,
            );
            message.payload = payload.clone();
            wire.queue(&Packet::Publish(Box::new(message)));
            payloads.push(payload);
            sent += 1;
        }
        wire.flush().unwrap();
        match wire.receive().unwrap() {
            Packet::Publish(reply) if reply.topic.as_str() == "answers" => {
                let correlation = reply.properties.correlation_data.unwrap();
                let number = u32::from_be_bytes(correlation[..].try_into().unwrap());
                let payload = &payloads[number as usize];
                let is_error = reply.payload.starts_with(b"-ERR ") && reply.payload.ends_with(b"\r\n");
                // A request that is one may be refused for its options or its timestamp, so only this way.
                if Request::parse(payload).is_err() {
                    assert!(is_error, "{payload:?} was answered with {:?}", reply.payload);
                    refused += 1;
                }
                answered += 1;
            }
            // A mutated KEYNOTIFY is a registration, and a mutated SET is a change.
            Packet::Publish(notification) => {
                if let Some(packet_id) = notification.packet_id {
                    wire.queue(&Packet::PubAck(ack(packet_id)));
                }
            }
            Packet::PubAck(puback) => {
                assert!(!puback.reason.is_error(), "{puback:?}");
                acknowledged += 1;
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    assert!(
        refused > PAYLOADS / 2,
        "only {refused} of {PAYLOADS} were no requests"
    );
    assert_serves(&server);
}

#[test]
fn requests_without_what_they_need_are_refused_in_the_puback() {
    let server = Server::start();
    let (mut wire, _) = Wire::connect(server.mqtt(), connect("improper", true)).unwrap();
    for (payload, packet_id) in [
        (valid_requests()[0].encode(), 1),
        (Bytes::from_static(b"*\r\n"), 2),
    ] {
        wire.send(&Packet::Publish(Box::new(publish(
            INVOKE_TOPIC,
            payload,
            QoS::AtLeastOnce,
            packet_id,
        ))))
        .unwrap();
        let answer = wire.receive().unwrap();
        assert!(
            matches!(&answer, Packet::PubAck(puback) if puback.reason as u8 == 0x83),
            "{answer:?}"
        );
    }
    assert_serves(&server);
}

/// A request with something wrong, or bytes that were never one.
fn garbage(random: &mut SmallRng) -> Bytes {
    if random.random_ratio(1, 10) {
        let length = random.random_range(0..100);
        return (0..length).map(|_| random.random::<u8>()).collect();
    }
    let requests = valid_requests();
    let valid = requests[random.random_range(0..requests.len())].encode();
    Bytes::from(mutate(random, &valid))
}

fn valid_requests() -> Vec<Request> {
    let (key, value) = (Bytes::from_static(b"key"), Bytes::from_static(b"value"));
    vec![
        Request::Set {
            key: key.clone(),
            value: value.clone(),
            condition: Condition::NotExistsOrEqual,
            expires_in: Some(60_000),
        },
        Request::Get { key: key.clone() },
        Request::Del { key: key.clone() },
        Request::VDel {
            key: key.clone(),
            value,
        },
        Request::KeyNotify { key, stop: false },
        Request::Scan {
            pattern: Bytes::from_static(b"k[a-e]?*"),
            token: None,
        },
    ]
}
