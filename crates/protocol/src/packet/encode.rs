//! Packets to bytes.
//!
//! Every packet is written twice by the same code: once into a [`Sink`] that only counts, which gives the
//! lengths that MQTT puts in front, and once into the buffer. So a length cannot disagree with what follows it.

mod acknowledgement;
mod connect;
mod publish;
mod sink;
mod subscribe;

use bytes::BytesMut;

use self::sink::{Counter, Sink};
use super::{Packet, ProtocolVersion, Publish};
use crate::properties::Explanation;

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
    /// Binary data whose length does not fit its two bytes.
    #[error("the {field} is longer than 65,535 bytes")]
    BinaryTooLong {
        /// Which.
        field: &'static str,
    },
    /// AUTH, or a PUBLISH without a topic name, to a connection of version 3.1.1.
    #[error("MQTT 3.1.1 has no such packet")]
    NotInVersion,
}

/// Appends a packet to `out`, which it leaves untouched on error.
///
/// To keep within `size_max` bytes (the receiver's Maximum Packet Size) it leaves out first the user properties,
/// then the Reason String of acknowledgements, CONNACK, DISCONNECT and AUTH [MQTT-3.4.2-2] [MQTT-3.4.2-3]; no
/// other packet is shortened. A CONNECT says itself in which version it is to be encoded.
///
/// # Panics
///
/// If a PUBLISH of QoS 1 or 2 has no packet identifier.
pub fn encode(
    packet: &Packet,
    version: ProtocolVersion,
    size_max: u32,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    if let Packet::Publish(publish) = packet {
        encode_publish_head(publish, version, size_max, out)?;
        out.extend_from_slice(&publish.payload);
        return Ok(());
    }
    check(packet, version)?;
    let mut detail = Detail::All;
    loop {
        let remaining = remaining_length(packet, version, detail);
        let size = packet_size(remaining);
        if size <= limit(size_max) {
            out.reserve(size);
            write_fixed_header(first_byte(packet), remaining, out);
            write_body(packet, version, detail, out);
            return Ok(());
        }
        detail = match detail {
            Detail::All => Detail::ReasonString,
            Detail::ReasonString => Detail::Nothing,
            Detail::Nothing => {
                return Err(EncodeError::TooLarge {
                    size,
                    limit: size_max,
                });
            }
        };
    }
}

/// Like [`encode`] for a PUBLISH, without its payload: the caller sends `publish.payload` right after.
///
/// # Panics
///
/// If a PUBLISH of QoS 1 or 2 has no packet identifier.
pub fn encode_publish_head(
    publish: &Publish,
    version: ProtocolVersion,
    size_max: u32,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    publish::check(publish, version)?;
    let properties_length = publish::properties_length(publish, version);
    let head = publish::head_length(publish, version, properties_length);
    let remaining = head + publish.payload.len();
    let size = packet_size(remaining);
    if size > limit(size_max) {
        return Err(EncodeError::TooLarge {
            size,
            limit: size_max,
        });
    }
    out.reserve(size);
    write_fixed_header(publish::first_byte(publish), remaining, out);
    publish::write(publish, version, properties_length, out);
    Ok(())
}

/// How many bytes [`encode`] would write with no limit.
pub fn encoded_len(packet: &Packet, version: ProtocolVersion) -> usize {
    packet_size(match packet {
        Packet::Publish(publish) => {
            let properties_length = publish::properties_length(publish, version);
            publish::head_length(publish, version, properties_length) + publish.payload.len()
        }
        packet => remaining_length(packet, version, Detail::All),
    })
}

/// How much of an [`Explanation`] is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    All,
    ReasonString,
    Nothing,
}

impl Detail {
    /// Writes as much of `explanation` as this says.
    fn write(self, explanation: &Explanation, out: &mut impl Sink) {
        if self != Self::Nothing {
            out.text_property(
                crate::packet::PropertyId::ReasonString,
                explanation.reason_string.as_ref(),
            );
        }
        if self == Self::All {
            out.bytes(explanation.user_properties.encoded());
        }
    }
}

fn remaining_length(packet: &Packet, version: ProtocolVersion, detail: Detail) -> usize {
    let mut counter = Counter::default();
    write_body(packet, version, detail, &mut counter);
    counter.count()
}

/// The first byte of any packet but PUBLISH.
fn first_byte(packet: &Packet) -> u8 {
    let packet_type = packet.packet_type();
    (packet_type as u8) << 4 | packet_type.reserved_flags()
}

/// Writes what follows the fixed header of any packet but PUBLISH.
fn write_body(packet: &Packet, version: ProtocolVersion, detail: Detail, out: &mut impl Sink) {
    match packet {
        Packet::Connect(connect) => connect::connect(connect, out),
        Packet::ConnAck(connack) => connect::connack(connack, version, detail, out),
        Packet::PubAck(ack) | Packet::PubRec(ack) | Packet::PubRel(ack) | Packet::PubComp(ack) => {
            acknowledgement::ack(ack, version, detail, out);
        }
        Packet::Subscribe(packet) => subscribe::subscribe(packet, version, out),
        Packet::SubAck(packet) => subscribe::suback(packet, version, detail, out),
        Packet::Unsubscribe(packet) => subscribe::unsubscribe(packet, version, out),
        Packet::UnsubAck(packet) => subscribe::unsuback(packet, version, detail, out),
        Packet::Disconnect(disconnect) => acknowledgement::disconnect(disconnect, version, detail, out),
        Packet::Auth(auth) => acknowledgement::auth(auth, detail, out),
        Packet::Publish(_) | Packet::PingReq | Packet::PingResp => {}
    }
}

/// Refuses what has no form on the wire.
fn check(packet: &Packet, version: ProtocolVersion) -> Result<(), EncodeError> {
    match packet {
        Packet::Connect(packet) => connect::check(packet),
        Packet::ConnAck(packet) => check_binary(
            "authentication data",
            packet.properties.authentication_data.as_deref(),
        ),
        Packet::Auth(_) if version == ProtocolVersion::V311 => Err(EncodeError::NotInVersion),
        Packet::Auth(packet) => check_binary("authentication data", packet.data.as_deref()),
        _ => Ok(()),
    }
}

fn check_binary(field: &'static str, data: Option<&[u8]>) -> Result<(), EncodeError> {
    let is_too_long = data.is_some_and(|data| data.len() > usize::from(u16::MAX));
    if is_too_long {
        Err(EncodeError::BinaryTooLong { field })
    } else {
        Ok(())
    }
}

fn write_fixed_header(first: u8, remaining: usize, out: &mut BytesMut) {
    out.u8(first);
    out.variable_byte_integer(remaining);
}

/// The size of a packet whose fixed header announces `remaining` bytes.
fn packet_size(remaining: usize) -> usize {
    1 + sink::variable_byte_integer_length(remaining) + remaining
}

fn limit(size_max: u32) -> usize {
    (size_max as usize).min(PACKET_SIZE_MAX)
}

/// The largest packet that MQTT can express: a fixed header of 5 bytes, then as many as four times seven bits count.
const PACKET_SIZE_MAX: usize = 5 + (1 << 28) - 1;

#[cfg(test)]
mod tests;
