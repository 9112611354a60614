//! A connection of an adversary: bytes as they are, and packets that come back.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use client::protocol::packet::{
    Connect, Decoder, Packet, PacketId, ProtocolVersion, Publish, QoS, Subscribe, encode,
};
use client::protocol::properties::MessageProperties;
use client::protocol::{ReasonCode, Text};

/// A blocking connection. Nothing is buffered on the way out.
#[derive(Debug)]
pub(super) struct Attacker {
    pub(super) stream: TcpStream,
    decoder: Decoder,
    inbox: BytesMut,
}

/// What the server does next.
#[derive(Debug)]
pub(super) enum Next {
    Packet(Packet),
    Closed,
    /// Nothing came within [`ANSWER_WITHIN`].
    Silent,
}

/// How long an answer may take until the adversary gives up.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

impl Attacker {
    /// A connection that has said nothing.
    pub(super) fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| address.to_string())?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        Ok(Self {
            stream,
            decoder: Decoder::for_client(PACKET_SIZE_MAX),
            inbox: BytesMut::new(),
        })
    }

    /// A client with a new session that ends with the connection.
    pub(super) fn connect(address: SocketAddr, client_id: &str) -> anyhow::Result<Self> {
        Self::connect_as(address, &connect(client_id)?)
    }

    /// A client that connects with this packet.
    pub(super) fn connect_as(address: SocketAddr, connect: &Connect) -> anyhow::Result<Self> {
        let mut attacker = Self::open(address)?;
        attacker.send(&encoded(&Packet::Connect(Box::new(connect.clone()))))?;
        match attacker.next()? {
            Next::Packet(Packet::ConnAck(connack)) if connack.reason == ReasonCode::Success => Ok(attacker),
            other => anyhow::bail!("not connected: {other:?}"),
        }
    }

    /// Sends bytes; the server may have closed the connection, and then the next look finds it so.
    pub(super) fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self.stream.write_all(bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Waits for the next packet, or the end.
    pub(super) fn next(&mut self) -> anyhow::Result<Next> {
        let mut chunk = vec![0; 64 * 1024];
        loop {
            if let Some(packet) = self.decoder.decode(&mut self.inbox)? {
                return Ok(Next::Packet(packet));
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(Next::Closed),
                Ok(count) => self.inbox.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Next::Silent),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(Next::Closed),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until a packet is `wanted`, and says what came: its name with the reason code, or the end.
    pub(super) fn outcome(&mut self, wanted: impl Fn(&Packet) -> bool) -> anyhow::Result<String> {
        loop {
            match self.next()? {
                Next::Packet(packet) if wanted(&packet) || matches!(packet, Packet::Disconnect(_)) => {
                    return Ok(described(&packet));
                }
                Next::Packet(_) => {}
                Next::Closed => return Ok("closed".to_owned()),
                Next::Silent => return Ok("no answer".to_owned()),
            }
        }
    }
}

/// CONNECT of a client whose session ends with the connection.
pub(super) fn connect(client_id: &str) -> anyhow::Result<Connect> {
    Ok(Connect {
        keep_alive: 600,
        ..Connect::new(Text::new(client_id)?)
    })
}

/// One SUBSCRIBE with all these filters, QoS 0.
pub(super) fn subscribe(filters: impl IntoIterator<Item = String>) -> anyhow::Result<Vec<u8>> {
    let filters = filters
        .into_iter()
        .map(Text::new)
        .collect::<Result<Vec<_>, _>>()?;
    let packet_id = PacketId::new(1).context("not zero")?;
    let subscribe = Subscribe::new(packet_id, QoS::AtMostOnce, filters);
    Ok(encoded(&Packet::Subscribe(subscribe)))
}

/// PUBLISH of QoS 1 without a payload.
pub(super) fn publish(topic: &str) -> anyhow::Result<Vec<u8>> {
    publish_with(topic, MessageProperties::default(), Bytes::new())
}

/// PUBLISH of QoS 1.
pub(super) fn publish_with(
    topic: &str,
    properties: MessageProperties,
    payload: Bytes,
) -> anyhow::Result<Vec<u8>> {
    Ok(encoded(&Packet::Publish(Box::new(Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: Text::new(topic)?,
        packet_id: PacketId::new(1),
        topic_alias: None,
        subscription_ids: Default::default(),
        properties,
        payload,
    }))))
}

/// The bytes of a packet of version 5.
pub(super) fn encoded(packet: &Packet) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    let encoded = encode(packet, ProtocolVersion::V5, u32::MAX, &mut bytes);
    assert!(encoded.is_ok(), "a packet of an adversary cannot be encoded");
    bytes.to_vec()
}

/// A packet by its name, and what it says of success.
fn described(packet: &Packet) -> String {
    let worst = |reasons: &[ReasonCode]| {
        let refused = reasons.iter().filter(|reason| reason.is_error()).count();
        let last = reasons.iter().rfind(|reason| reason.is_error());
        last.map_or_else(
            || format!("{} granted", reasons.len()),
            |reason| format!("{refused} of {} refused, {:#04X}", reasons.len(), *reason as u8),
        )
    };
    match packet {
        Packet::SubAck(suback) => format!("SUBACK {}", worst(&suback.reasons)),
        Packet::UnsubAck(unsuback) => format!("UNSUBACK {}", worst(&unsuback.reasons)),
        Packet::PubAck(ack) => format!("PUBACK {:#04X}", ack.reason as u8),
        Packet::PubRec(ack) => format!("PUBREC {:#04X}", ack.reason as u8),
        Packet::Disconnect(disconnect) => format!("DISCONNECT {:#04X}", disconnect.reason as u8),
        Packet::PingResp => "served".to_owned(),
        Packet::Publish(_) => "PUBLISH".to_owned(),
        _ => "another packet".to_owned(),
    }
}

const PACKET_SIZE_MAX: u32 = 64 * 1024 * 1024;
