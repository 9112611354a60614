//! The codec seen from outside: whole packets to bytes and back, malformed ones, damaged ones, stored inputs.
#![allow(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

mod damage;
mod malformed;

mod packets;
mod round_trip;
mod state_store;

use statehold_protocol::packet::{DecodeError, Decoder, Packet, PacketType, ProtocolVersion};

/// Which side of a connection decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiver {
    Server,
    Client,
}

/// A decoder for what `receiver` gets in a connection of `version`, or for the CONNECT that begins one.
pub(crate) fn decoder(receiver: Receiver, version: ProtocolVersion, is_first: bool) -> Decoder {
    match receiver {
        Receiver::Server => {
            let mut decoder = Decoder::for_server(PACKET_SIZE_MAX);
            if !is_first {
                decoder.set_version(version);
            }
            decoder
        }
        Receiver::Client => {
            let mut decoder = Decoder::for_client(PACKET_SIZE_MAX);
            decoder.set_version(version);
            decoder
        }
    }
}

/// Decodes everything in `bytes`, which arrive in pieces of `piece` bytes: the packets, and what ended it.
pub(crate) fn decode_all(
    mut decoder: Decoder,
    bytes: &[u8],
    piece: usize,
) -> (Vec<Packet>, Result<(), DecodeError>) {
    let mut buffer = bytes::BytesMut::new();
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

pub(crate) const PACKET_SIZE_MAX: u32 = 1 << 20;
