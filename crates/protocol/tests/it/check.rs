//! What must hold for any bytes, whoever made them: the tests here, the fuzz targets in `fuzz/` and the comparison
//! with another codec there use this file.
#![allow(dead_code, reason = "each of its users takes what it needs")]

use bytes::BytesMut;
use statehold_protocol::Text;
use statehold_protocol::packet::{
    DecodeError, Decoder, Packet, PacketType, ProtocolVersion, encode, encoded_len,
};
use statehold_protocol::topic::{SubscriptionFilter, TopicFilter, TopicName};

/// Which side of a connection decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiver {
    Server,
    Client,
}

/// A decoder for what `receiver` gets in a connection of `version`, or for the CONNECT that begins one.
pub(crate) fn decoder(receiver: Receiver, version: ProtocolVersion, is_first: bool) -> Decoder {
    let mut decoder = match receiver {
        Receiver::Server => Decoder::for_server(PACKET_SIZE_MAX),
        Receiver::Client => Decoder::for_client(PACKET_SIZE_MAX),
    };
    if receiver == Receiver::Client || !is_first {
        decoder.set_version(version);
    }
    decoder
}

/// Decodes everything in `bytes`, which arrive in pieces of `piece` bytes: the packets, and what ended it.
pub(crate) fn decode_all(
    mut decoder: Decoder,
    bytes: &[u8],
    piece: usize,
) -> (Vec<Packet>, Result<(), DecodeError>) {
    let mut buffer = BytesMut::new();
    let mut packets = Vec::new();
    for piece in bytes.chunks(piece.max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(packet)) => packets.push(packet),
                Ok(None) => break,
                Err(error) => return (packets, Err(error)),
            }
        }
    }
    (packets, Ok(()))
}

/// True if `bytes` start like a CONNECT.
pub(crate) fn is_connect(bytes: &[u8]) -> bool {
    bytes
        .first()
        .is_some_and(|first| first >> 4 == PacketType::Connect as u8)
}

/// Decodes `bytes` at once and byte by byte, with the same result; what was understood can be said again.
pub(crate) fn bytes_are_decoded_or_refused(receiver: Receiver, version: ProtocolVersion, bytes: &[u8]) {
    let decoder = || decoder(receiver, version, is_connect(bytes));
    let at_once = decode_all(decoder(), bytes, bytes.len());
    assert_eq!(at_once, decode_all(decoder(), bytes, 1), "{bytes:02x?}");
    let (packets, end) = at_once;
    if let Err(error) = end {
        assert!(error.reason_code().is_error());
        assert!(!error.reason_string().is_empty());
    }
    let Some(first) = packets.first() else { return };
    let version = match first {
        Packet::Connect(connect) => connect.version,
        _ => version,
    };
    let mut again = BytesMut::new();
    for packet in &packets {
        let before = again.len();
        encode(packet, version, u32::MAX, &mut again).expect("what was decoded can be encoded");
        assert_eq!(encoded_len(packet, version), again.len() - before);
    }
    assert_eq!(
        decode_all(decoder(), &again, again.len()),
        (packets, Ok(())),
        "{bytes:02x?} again {again:02x?}"
    );
}

/// The same for an input whose first byte says what connection it is in.
pub(crate) fn decode_input(input: &[u8]) {
    let Some((connection, bytes)) = input.split_first() else {
        return;
    };
    let receiver = if connection & 1 == 0 {
        Receiver::Server
    } else {
        Receiver::Client
    };
    let version = if connection & 2 == 0 {
        ProtocolVersion::V5
    } else {
        ProtocolVersion::V311
    };
    bytes_are_decoded_or_refused(receiver, version, bytes);
}

/// Parses an input as a topic filter and, after a line feed, a topic name, and compares the match with a naive one.
pub(crate) fn topic_filter_input(input: &[u8]) {
    let Ok(input) = std::str::from_utf8(input) else {
        return;
    };
    let (filter, name) = input.split_once('\n').unwrap_or((input, ""));
    let (Ok(filter), Ok(name)) = (Text::new(filter), Text::new(name)) else {
        return;
    };
    if let Ok(subscription) = SubscriptionFilter::parse(filter.clone()) {
        assert_eq!(subscription.to_string(), filter.as_str());
        assert_eq!(
            subscription.filter.level_count(),
            subscription.filter.levels().count()
        );
    }
    if let (Ok(filter), Ok(name)) = (TopicFilter::parse(filter), TopicName::parse(name)) {
        let levels: Vec<&str> = filter.levels().collect();
        let names: Vec<&str> = name.levels().collect();
        let is_hidden = name.as_str().starts_with('$') && matches!(levels.first(), Some(&("+" | "#")));
        assert_eq!(
            filter.matches(name.as_str()),
            !is_hidden && naive_match(&levels, &names),
            "{filter} {name}"
        );
    }
}

/// Word by word from section 4.7.1 of the specification, level by level.
fn naive_match(mut filter: &[&str], mut names: &[&str]) -> bool {
    loop {
        match (filter, names) {
            ([], []) => return true,
            (["#"], _) => return true,
            ([level, rest @ ..], [name, others @ ..]) if *level == "+" || level == name => {
                (filter, names) = (rest, others);
            }
            _ => return false,
        }
    }
}

pub(crate) const PACKET_SIZE_MAX: u32 = 1 << 20;
