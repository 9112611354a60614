//! The client of the self-test: MQTT 5 over any stream, one question after the other.
//!
//! It is a client like others: it decodes bytes that the server has encoded, and acknowledges what it gets. It keeps the last few
//! messages that came while it waited for something else.

use std::io;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use protocol::ReasonCode;
use protocol::packet::{Ack, Decoder, Disconnect, Packet, PacketId, ProtocolVersion, Publish, encode};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout_at;

use super::results::Verdict;
use crate::clock;

/// A connection to the server.
#[derive(Debug)]
pub(super) struct ProbeClient<S> {
    stream: S,
    decoder: Decoder,
    received: BytesMut,
    messages: Vec<(Publish, Instant)>,
    last_packet_id: u16,
    timeout: Duration,
}

/// Why a step did not go as it should.
#[derive(Debug, Error)]
pub(super) enum Trouble {
    #[error("nothing came in time")]
    TimedOut,
    #[error("the connection failed: {0}")]
    Connection(#[from] io::Error),
    #[error("the server ended the connection: {0}")]
    Disconnected(ReasonCode),
    #[error("the server refused it: {0}")]
    Refused(String),
    #[error("{0}")]
    Wrong(&'static str),
}

impl Trouble {
    pub(super) fn verdict(&self) -> Verdict {
        match self {
            Self::TimedOut => Verdict::TimedOut,
            Self::Connection(_) | Self::Disconnected(_) | Self::Refused(_) => Verdict::Failed,
            Self::Wrong(_) => Verdict::Wrong,
        }
    }

    /// Whether nothing else can be asked on the same connection.
    pub(super) fn ends_connection(&self) -> bool {
        matches!(self, Self::Connection(_) | Self::Disconnected(_))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> ProbeClient<S> {
    /// `timeout`: how long each answer may take.
    pub(super) fn new(stream: S, timeout: Duration) -> Self {
        Self {
            stream,
            decoder: Decoder::for_client(PACKET_SIZE_MAX),
            received: BytesMut::new(),
            messages: Vec::new(),
            last_packet_id: 0,
            timeout,
        }
    }

    /// The next packet identifier.
    pub(super) fn packet_id(&mut self) -> PacketId {
        self.last_packet_id = self.last_packet_id.checked_add(1).unwrap_or(1);
        PacketId::new(self.last_packet_id).expect("it begins at 1")
    }

    /// Sends a packet and waits for the one that `is_answer` takes something out of.
    pub(super) async fn ask<T>(
        &mut self,
        packet: &Packet,
        mut is_answer: impl FnMut(&Packet) -> Option<T>,
    ) -> Result<T, Trouble> {
        let deadline = self.deadline();
        self.send(packet, deadline).await?;
        loop {
            let packet = self.receive(deadline).await?;
            if let Some(answer) = is_answer(&packet) {
                return Ok(answer);
            }
        }
    }

    /// The first message that has come or comes and that `is_it` takes, and when it came.
    pub(super) async fn message(
        &mut self,
        is_it: impl Fn(&Publish) -> bool,
    ) -> Result<(Publish, Instant), Trouble> {
        let deadline = self.deadline();
        loop {
            if let Some(found) = self.messages.iter().position(|(message, _)| is_it(message)) {
                return Ok(self.messages.remove(found));
            }
            self.receive(deadline).await?;
        }
    }

    /// Says goodbye; what becomes of it does not matter.
    pub(super) async fn disconnect(mut self) {
        let goodbye = Packet::Disconnect(Disconnect::new(ReasonCode::Success));
        let deadline = self.deadline();
        let _ = self.send(&goodbye, deadline).await;
        let _ = timeout_at(deadline, self.stream.shutdown()).await;
    }

    fn deadline(&self) -> tokio::time::Instant {
        (clock::instant() + self.timeout).into()
    }

    async fn send(&mut self, packet: &Packet, deadline: tokio::time::Instant) -> Result<(), Trouble> {
        let mut bytes = BytesMut::new();
        encode(packet, ProtocolVersion::V5, PACKET_SIZE_MAX, &mut bytes)
            .map_err(|error| Trouble::Connection(io::Error::other(error.to_string())))?;
        let written = timeout_at(deadline, self.stream.write_all(&bytes)).await;
        written.map_err(|_| Trouble::TimedOut)?.map_err(Trouble::from)
    }

    /// The next packet. A message is acknowledged and kept.
    async fn receive(&mut self, deadline: tokio::time::Instant) -> Result<Packet, Trouble> {
        let packet = loop {
            let decoded = self.decoder.decode(&mut self.received);
            let decoded = decoded.map_err(|_| Trouble::Wrong("what came is no MQTT"))?;
            if let Some(packet) = decoded {
                break packet;
            }
            let read = timeout_at(deadline, self.stream.read_buf(&mut self.received)).await;
            if read.map_err(|_| Trouble::TimedOut)?? == 0 {
                return Err(Trouble::Connection(io::ErrorKind::UnexpectedEof.into()));
            }
        };
        match &packet {
            Packet::Disconnect(disconnect) => return Err(Trouble::Disconnected(disconnect.reason)),
            Packet::Publish(publish) => {
                if let Some(id) = publish.packet_id {
                    let ack = Packet::PubAck(Ack::new(id, ReasonCode::Success));
                    self.send(&ack, deadline).await?;
                }
                if self.messages.len() == MESSAGES_MAX {
                    self.messages.remove(0);
                }
                self.messages.push((publish.as_ref().clone(), clock::instant()));
            }
            _ => {}
        }
        Ok(packet)
    }
}

/// Larger than anything that it sends or is to get.
pub(super) const PACKET_SIZE_MAX: u32 = 64 << 10;

/// It waits for one at a time; what else comes is late.
const MESSAGES_MAX: usize = 8;
