//! Bytes to packets.
//!
//! [`Decoder`] cuts packets out of a byte stream and refuses everything that MQTT 5.0 or 3.1.1 forbids and that
//! can be seen in one packet alone; what needs the state of the connection or session is up to those who hold
//! it. It keeps nothing of a packet that is not complete, so it may stop and go on at any byte. It allocates in
//! proportion to received bytes only, never by an announced length.

mod acknowledgement;
mod connack;
mod connect;
mod error;
mod properties;
mod publish;
mod reader;
mod subscribe;
#[cfg(test)]
mod tests;

use bytes::{Buf, Bytes, BytesMut};

pub use self::error::{DecodeError, ProtocolName, Violation};
use self::reader::{Reader, TooLong, VariableByteInteger};
use super::{Packet, PacketType, ProtocolVersion, QoS};

/// Cuts packets out of a byte stream; may stop and go on at any byte.
#[derive(Debug)]
pub struct Decoder {
    sender: Sender,
    version: Option<ProtocolVersion>,
    packet_size_max: u32,
    filters_max: usize,
}

/// Which side sent what is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sender {
    Client,
    Server,
}

impl Decoder {
    /// The same as [`for_server`](Self::for_server).
    pub fn new(packet_size_max: u32) -> Self {
        Self::for_server(packet_size_max)
    }

    /// A server's decoder, for what clients send. It refuses packets of more than `packet_size_max` bytes,
    /// fixed header included.
    ///
    /// Until a CONNECT (or [`set_version`](Self::set_version)) says which version is spoken, only CONNECT is
    /// understood, and from then on it is refused. [MQTT-3.1.0-1] [MQTT-3.1.0-2]
    pub fn for_server(packet_size_max: u32) -> Self {
        Self {
            sender: Sender::Client,
            version: None,
            packet_size_max,
            filters_max: usize::MAX,
        }
    }

    /// Refuses a SUBSCRIBE or UNSUBSCRIBE with more topic filters than this.
    #[must_use]
    pub fn with_filters_max(mut self, filters_max: usize) -> Self {
        self.filters_max = filters_max;
        self
    }

    /// A client's decoder, for what a server sends: version 5 unless [`set_version`](Self::set_version) says
    /// otherwise.
    pub fn for_client(packet_size_max: u32) -> Self {
        Self {
            sender: Sender::Server,
            version: Some(ProtocolVersion::V5),
            packet_size_max,
            filters_max: usize::MAX,
        }
    }

    /// Says which version is spoken. A decoded CONNECT does so by itself.
    pub fn set_version(&mut self, version: ProtocolVersion) {
        self.version = Some(version);
    }

    /// Sets the largest packet: a server takes less from a client that it has not let in yet.
    pub fn set_packet_size_max(&mut self, packet_size_max: u32) {
        self.packet_size_max = packet_size_max;
    }

    /// Which version is spoken, once that is known.
    pub fn version(&self) -> Option<ProtocolVersion> {
        self.version
    }

    /// Takes the next packet out of `buffer`, or `None` if it is not complete yet.
    ///
    /// The payload and the strings of the packet share the buffer's memory. After an error the stream has no
    /// meaning any more. A packet over the limit is refused as soon as its length is known, a CONNECT as soon as
    /// it has also told its version, without which it could not be answered.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Packet>, DecodeError> {
        let Some(header) = self.fixed_header(buffer)? else {
            return Ok(None);
        };
        if buffer.len() < header.packet_size() {
            return Ok(None);
        }
        if let (true, Some(version)) = (header.is_short_ack(), self.version) {
            let body = buffer
                .get(header.length..header.packet_size())
                .unwrap_or_default();
            let packet = ack(header.packet, Reader::of_numbers(body), version);
            buffer.advance(header.packet_size());
            return header.checked(packet);
        }
        let mut body = buffer.split_to(header.packet_size()).freeze();
        body.advance(header.length);
        self.body(header, body)
    }

    /// How many bytes must follow those in `buffer` before [`decode`](Self::decode) can do more than it can now.
    ///
    /// 0: a packet is complete, or what is there is wrong already. While the length of a packet is not known it
    /// is the least that its fixed header lacks. A reader must cap it: it is as large as the sender says, up to
    /// the packet size limit.
    pub fn missing(&self, buffer: &[u8]) -> usize {
        match self.fixed_header(buffer) {
            Ok(Some(header)) => header.packet_size().saturating_sub(buffer.len()),
            Ok(None) => FIXED_HEADER_LENGTH_MIN.saturating_sub(buffer.len()).max(1),
            Err(_) => 0,
        }
    }

    /// Reads and checks the fixed header that `buffer` starts with, or says `None` if it is not complete.
    fn fixed_header(&self, buffer: &[u8]) -> Result<Option<FixedHeader>, DecodeError> {
        let Some((first, rest)) = buffer.split_first() else {
            return Ok(None);
        };
        let packet = self.packet_type(first >> 4)?;
        let fail = |violation| DecodeError {
            packet: Some(packet),
            violation,
            connack_version: None,
        };
        let flags = first & 0x0F;
        check_flags(packet, flags).map_err(fail)?;

        let remaining = match VariableByteInteger::read(rest) {
            Ok(Some(remaining)) => remaining,
            Ok(None) => return Ok(None),
            Err(TooLong) => {
                return Err(fail(Violation::VariableByteIntegerTooLong {
                    field: REMAINING_LENGTH,
                }));
            }
        };
        // A CONNECT says only later whether it is of a version that allows this.
        if self.version == Some(ProtocolVersion::V5) && !remaining.is_minimal() {
            return Err(fail(Violation::VariableByteIntegerNotMinimal {
                field: REMAINING_LENGTH,
            }));
        }
        let header = FixedHeader {
            packet,
            flags,
            length: 1 + remaining.length,
            remaining: remaining.value as usize,
            is_minimal: remaining.is_minimal(),
        };
        if header.packet_size() > self.packet_size_max as usize {
            let error = fail(Violation::TooLarge {
                size: header.packet_size(),
                limit: self.packet_size_max,
            });
            if packet != PacketType::Connect {
                return Err(error);
            }
            let body = buffer.get(header.length..).unwrap_or_default();
            if body.len() < connect::VERSION_END.min(header.remaining) {
                return Ok(None);
            }
            return Err(DecodeError {
                connack_version: connect::peek_version(body),
                ..error
            });
        }
        Ok(Some(header))
    }

    /// The packet type that `number` stands for, if it may come now and from this side.
    fn packet_type(&self, number: u8) -> Result<PacketType, DecodeError> {
        let fail = |packet, violation| {
            Err(DecodeError {
                packet,
                violation,
                connack_version: None,
            })
        };
        let Some(packet) = PacketType::from_u8(number) else {
            return fail(None, Violation::ReservedPacketType { number });
        };
        let from_clients = !matches!(
            packet,
            PacketType::ConnAck | PacketType::SubAck | PacketType::UnsubAck | PacketType::PingResp
        );
        let from_servers = !matches!(
            packet,
            PacketType::Connect | PacketType::Subscribe | PacketType::Unsubscribe | PacketType::PingReq
        );
        match (self.sender, self.version) {
            (_, Some(ProtocolVersion::V311)) if packet == PacketType::Auth => {
                fail(None, Violation::ReservedPacketType { number })
            }
            (Sender::Client, None) if packet != PacketType::Connect => {
                fail(Some(packet), Violation::FirstPacketNotConnect)
            }
            (Sender::Client, Some(_)) if packet == PacketType::Connect => {
                fail(Some(packet), Violation::SecondConnect)
            }
            (Sender::Client, _) if !from_clients => fail(Some(packet), Violation::WrongDirection),
            (Sender::Server, _) if !from_servers => fail(Some(packet), Violation::WrongDirection),
            (Sender::Server, Some(ProtocolVersion::V311)) if packet == PacketType::Disconnect => {
                fail(Some(packet), Violation::WrongDirection)
            }
            _ => Ok(packet),
        }
    }

    #[inline]
    fn body(&mut self, header: FixedHeader, body: Bytes) -> Result<Option<Packet>, DecodeError> {
        let version = match (header.packet, self.version) {
            (PacketType::Connect, _) | (_, None) => {
                let connect = connect::connect(&body, header.is_minimal)?;
                self.version = Some(connect.version);
                return Ok(Some(Packet::Connect(Box::new(connect))));
            }
            (_, Some(version)) => version,
        };
        match header.packet {
            PacketType::Publish => match publish::publish(body, header.flags, version, self.sender) {
                Ok(publish) => Ok(Some(Packet::Publish(Box::new(publish)))),
                Err(violation) => Err(header.error(violation)),
            },
            packet if packet.is_ack() => header.checked(ack(packet, Reader::new(&body), version)),
            packet => header.checked(self.other(packet, &body, version)),
        }
    }

    /// Decodes the body of any packet but CONNECT, PUBLISH and the four acknowledgements of PUBLISH.
    fn other(&self, packet: PacketType, body: &Bytes, version: ProtocolVersion) -> Result<Packet, Violation> {
        let (sender, filters_max) = (self.sender, self.filters_max);
        match packet {
            PacketType::ConnAck => {
                connack::connack(body, version).map(|connack| Packet::ConnAck(Box::new(connack)))
            }
            PacketType::Subscribe => subscribe::subscribe(body, version, filters_max).map(Packet::Subscribe),
            PacketType::SubAck => subscribe::suback(body, version).map(Packet::SubAck),
            PacketType::Unsubscribe => {
                subscribe::unsubscribe(body, version, filters_max).map(Packet::Unsubscribe)
            }
            PacketType::UnsubAck => subscribe::unsuback(body, version).map(Packet::UnsubAck),
            PacketType::PingReq => Reader::new(body).end().map(|()| Packet::PingReq),
            PacketType::PingResp => Reader::new(body).end().map(|()| Packet::PingResp),
            PacketType::Disconnect => {
                acknowledgement::disconnect(body, version, sender).map(Packet::Disconnect)
            }
            PacketType::Auth => acknowledgement::auth(body, sender).map(Packet::Auth),
            _ => Err(Violation::WrongDirection),
        }
    }
}

/// Decodes the body of an acknowledgement of a PUBLISH.
#[inline]
fn ack(packet: PacketType, body: Reader<'_>, version: ProtocolVersion) -> Result<Packet, Violation> {
    let ack = acknowledgement::ack(packet, body, version)?;
    Ok(match packet {
        PacketType::PubAck => Packet::PubAck(ack),
        PacketType::PubRec => Packet::PubRec(ack),
        PacketType::PubRel => Packet::PubRel(ack),
        _ => Packet::PubComp(ack),
    })
}

#[derive(Debug, Clone, Copy)]
struct FixedHeader {
    packet: PacketType,
    flags: u8,
    /// Of the header itself, in bytes.
    length: usize,
    /// Of what follows the header, in bytes.
    remaining: usize,
    /// The remaining length uses no byte too many.
    is_minimal: bool,
}

impl FixedHeader {
    fn packet_size(&self) -> usize {
        self.length + self.remaining
    }

    /// It acknowledges a PUBLISH without a word of explanation.
    fn is_short_ack(&self) -> bool {
        self.packet.is_ack() && self.remaining <= acknowledgement::ACK_WITHOUT_PROPERTIES_MAX
    }

    fn checked(&self, packet: Result<Packet, Violation>) -> Result<Option<Packet>, DecodeError> {
        match packet {
            Ok(packet) => Ok(Some(packet)),
            Err(violation) => Err(self.error(violation)),
        }
    }

    fn error(&self, violation: Violation) -> DecodeError {
        DecodeError {
            packet: Some(self.packet),
            violation,
            connack_version: None,
        }
    }
}

fn check_flags(packet: PacketType, flags: u8) -> Result<(), Violation> {
    if packet != PacketType::Publish {
        let is_right = flags == packet.reserved_flags();
        return if is_right {
            Ok(())
        } else {
            Err(Violation::ReservedFlags { flags })
        };
    }
    match QoS::from_u8(flags >> 1 & 0b11) {
        None => Err(Violation::Qos3),
        Some(QoS::AtMostOnce) if flags & 0b1000 != 0 => Err(Violation::DupWithQos0),
        Some(_) => Ok(()),
    }
}

/// A first byte and a remaining length of one byte.
const FIXED_HEADER_LENGTH_MIN: usize = 2;

const REMAINING_LENGTH: &str = "remaining length";
