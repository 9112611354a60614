//! What is encoded comes back as it was, however it arrives.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use statehold_protocol::packet::{Packet, ProtocolVersion, encode, encode_publish_head, encoded_len};

use crate::check::{PACKET_SIZE_MAX, Receiver, decode_all, decoder};
use crate::packets;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_packet_comes_back((connection, packet) in connection_and_packet()) {
        let bytes = encoded(&packet, connection.1);

        let (packets, end) = decode_all(first_decoder(connection, &packet), &bytes, bytes.len());

        prop_assert_eq!(end, Ok(()));
        prop_assert_eq!(packets, [packet]);
    }

    #[test]
    fn the_announced_length_is_the_length((connection, packet) in connection_and_packet()) {
        let bytes = encoded(&packet, connection.1);

        prop_assert_eq!(encoded_len(&packet, connection.1), bytes.len());
        if let Packet::Publish(publish) = &packet {
            let mut head = BytesMut::new();
            encode_publish_head(publish, connection.1, PACKET_SIZE_MAX, &mut head).unwrap();
            head.extend_from_slice(&publish.payload);
            prop_assert_eq!(head, bytes);
        }
    }

    #[test]
    fn packets_may_arrive_in_pieces_of_any_size((connection, packets) in connection_and_packets(), piece in 1usize..64) {
        let mut bytes = BytesMut::new();
        for packet in &packets {
            bytes.extend_from_slice(&encoded(packet, connection.1));
        }
        for piece in [1, piece, bytes.len()] {
            let (decoded, end) = decode_all(first_decoder(connection, &packets[0]), &bytes, piece);

            prop_assert_eq!(end, Ok(()));
            prop_assert_eq!(&decoded, &packets);
        }
    }

    #[test]
    fn a_prefix_is_never_a_packet_and_says_what_it_lacks((connection, packet) in connection_and_packet()) {
        let bytes = encoded(&packet, connection.1);
        let mut decoder = first_decoder(connection, &packet);
        for length in 0..bytes.len().min(400) {
            let mut buffer = BytesMut::from(&bytes[..length]);

            prop_assert_eq!(decoder.decode(&mut buffer), Ok(None));
            prop_assert_eq!(&buffer[..], &bytes[..length]);
            let missing = decoder.missing(&buffer);
            prop_assert!(missing > 0);
            prop_assert!(length + missing <= bytes.len());
            prop_assert!(length < 5 || length + missing == bytes.len());
        }
        prop_assert_eq!(decoder.missing(&bytes), 0);
    }
}

fn connection_and_packet() -> impl Strategy<Value = ((Receiver, ProtocolVersion), Packet)> {
    packets::connection()
        .prop_flat_map(|connection| (Just(connection), packets::packet(connection.0, connection.1)))
}

/// Packets in the order of a connection: a CONNECT only as the first.
fn connection_and_packets() -> impl Strategy<Value = ((Receiver, ProtocolVersion), Vec<Packet>)> {
    packets::connection().prop_flat_map(|connection| {
        let packets = vec(packets::packet(connection.0, connection.1), 1..5).prop_map(|mut packets| {
            let mut is_first = true;
            packets.retain(|packet| {
                let is_kept = is_first || !matches!(packet, Packet::Connect(_));
                is_first = false;
                is_kept
            });
            packets
        });
        (Just(connection), packets)
    })
}

fn first_decoder(
    connection: (Receiver, ProtocolVersion),
    first: &Packet,
) -> statehold_protocol::packet::Decoder {
    decoder(connection.0, connection.1, matches!(first, Packet::Connect(_)))
}

fn encoded(packet: &Packet, version: ProtocolVersion) -> BytesMut {
    let mut bytes = BytesMut::new();
    encode(packet, version, PACKET_SIZE_MAX, &mut bytes).unwrap();
    bytes
}

#[test]
fn acknowledgements_are_not_made_larger_by_packets_that_are() {
    // The server moves each packet a few times on its way.
    assert!(size_of::<Packet>() <= 136, "{} bytes", size_of::<Packet>());
}
