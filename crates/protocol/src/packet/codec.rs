//! Packets to bytes and back.

use bytes::BytesMut;

use super::{Packet, ProtocolVersion, Publish};
use crate::reason_code::ReasonCode;

/// Cuts packets out of a byte stream; may stop and go on at any byte.
#[derive(Debug)]
pub struct Decoder {
    version: Option<ProtocolVersion>,
    packet_size_max: u32,
}

impl Decoder {
    /// A decoder that refuses packets of more than `packet_size_max` bytes, fixed header included.
    ///
    /// Until a CONNECT (or [`Decoder::set_version`]) says which version is spoken, only CONNECT is understood.
    pub fn new(packet_size_max: u32) -> Self {
        Self { version: None, packet_size_max }
    }

    /// Says which version is spoken. A decoded CONNECT does so by itself.
    pub fn set_version(&mut self, version: ProtocolVersion) {
        self.version = Some(version);
    }

    /// Takes the next packet out of `buffer`, or `None` if it is not complete yet.
    ///
    /// The payload and the strings of the packet share the buffer's memory. After an error the stream has no
    /// meaning any more. A packet over the limit is refused as soon as its length is known.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Packet>, DecodeError> {
        let _ = (buffer, self.packet_size_max);
        Ok(None)
    }
}

/// What is wrong with received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Placeholder until the codec is written.
    #[error("malformed packet")]
    Malformed,
}

impl DecodeError {
    /// The reason code for the DISCONNECT or CONNACK that answers it.
    pub fn reason_code(&self) -> ReasonCode {
        ReasonCode::MalformedPacket
    }
}

/// Why a packet was not encoded; nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Larger than the receiver accepts, also without Reason String and user properties of an acknowledgement.
    #[error("the packet has {size} bytes, the receiver takes {limit}")]
    TooLarge {
        /// In bytes.
        size: usize,
        /// In bytes.
        limit: u32,
    },
}

/// Appends a packet to `out`, which it leaves untouched on error.
///
/// To keep within `size_max` bytes (the receiver's Maximum Packet Size) it leaves out the Reason String and user
/// properties of acknowledgements [MQTT-3.4.2-2] [MQTT-3.4.2-3]; a PUBLISH is never shortened.
pub fn encode(packet: &Packet, version: ProtocolVersion, size_max: u32, out: &mut BytesMut) -> Result<(), EncodeError> {
    let _ = (packet, version, size_max, out);
    Ok(())
}

/// Like [`encode`] for a PUBLISH, without its payload: the caller sends `publish.payload` right after.
pub fn encode_publish_head(
    publish: &Publish,
    version: ProtocolVersion,
    size_max: u32,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    let _ = (publish, version, size_max, out);
    Ok(())
}

/// How many bytes [`encode`] would write with no limit.
pub fn encoded_len(packet: &Packet, version: ProtocolVersion) -> usize {
    let _ = (packet, version);
    0
}
