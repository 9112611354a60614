//! Bytes that no client would send: the decoder says what is wrong, and says the same however they arrive.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use statehold_protocol::packet::{PacketType, ProtocolVersion, encode};

use crate::check::{PACKET_SIZE_MAX, Receiver, bytes_are_decoded_or_refused};
use crate::mutation::mutate;
use crate::packets;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn arbitrary_bytes_are_decoded_or_refused(bytes in vec(any::<u8>(), 0..200), connection in packets::connection()) {
        bytes_are_decoded_or_refused(connection.0, connection.1, &bytes);
    }

    #[test]
    fn arbitrary_bodies_are_decoded_or_refused(
        packet_type in 1u8..16,
        mut body in vec(any::<u8>(), 0..120),
        connection in packets::connection(),
    ) {
        let flags = if matches!(packet_type, 6 | 8 | 10) { 2 } else { 0 };
        let mut bytes = vec![packet_type << 4 | flags, u8::try_from(body.len()).unwrap()];
        bytes.append(&mut body);
        bytes_are_decoded_or_refused(connection.0, connection.1, &bytes);
    }
}

/// 10,000 for each type of packet.
#[test]
fn mutated_packets_are_decoded_or_refused() {
    let mut runner = TestRunner::deterministic();
    let mut random = runner.new_rng();
    for (receiver, version) in CONNECTIONS {
        let strategy = packets::packet(receiver, version);
        let mut mutations_left = [MUTATIONS / 2; 16];
        let mut is_done = [false; 16];
        for packet_type in types(receiver, version) {
            is_done[packet_type as usize] = true;
        }
        while mutations_left
            .iter()
            .zip(&is_done)
            .any(|(left, wanted)| *wanted && *left > 0)
        {
            let packet = strategy.new_tree(&mut runner).unwrap().current();
            let left = &mut mutations_left[packet.packet_type() as usize];
            let mut bytes = BytesMut::new();
            encode(&packet, version, PACKET_SIZE_MAX, &mut bytes).unwrap();
            bytes.truncate(400);
            for _ in 0..(*left).min(50) {
                *left -= 1;
                let mut mutated = bytes.to_vec();
                mutate(&mut mutated, &mut random);
                bytes_are_decoded_or_refused(receiver, version, &mutated);
            }
        }
    }
}

/// The packets that `receiver` gets.
fn types(receiver: Receiver, version: ProtocolVersion) -> Vec<PacketType> {
    let all = (1..=15).filter_map(PacketType::from_u8);
    let is_sent = |packet: &PacketType| match (receiver, packet) {
        (_, PacketType::Auth) => version == ProtocolVersion::V5,
        (Receiver::Client, PacketType::Disconnect) => version == ProtocolVersion::V5,
        (Receiver::Client, PacketType::Connect | PacketType::Subscribe) => false,
        (Receiver::Client, PacketType::Unsubscribe | PacketType::PingReq) => false,
        (Receiver::Server, PacketType::ConnAck | PacketType::SubAck) => false,
        (Receiver::Server, PacketType::UnsubAck | PacketType::PingResp) => false,
        _ => true,
    };
    all.filter(is_sent).collect()
}

/// Of one packet type in one version.
const MUTATIONS: usize = 10_000;

const CONNECTIONS: [(Receiver, ProtocolVersion); 4] = [
    (Receiver::Server, ProtocolVersion::V5),
    (Receiver::Server, ProtocolVersion::V311),
    (Receiver::Client, ProtocolVersion::V5),
    (Receiver::Client, ProtocolVersion::V311),
];
