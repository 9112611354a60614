//! One client's end of a connection, as an input moves it: bytes go through the server's decoder, as they do at a socket.

use std::collections::VecDeque;

use bytes::BytesMut;
use mqtt::ids::ConnectionId;
use protocol::packet::{Ack, Decoder, ProtocolVersion, QoS, encode};
use protocol::{Packet, ReasonCode};

use crate::machine::Machine;

/// A client, connected or not.
#[derive(Debug)]
pub(super) struct Client {
    connection: Option<ConnectionId>,
    /// The server's, for this connection.
    decoder: Decoder,
    /// Sent by the client, not taken by the server.
    unread: BytesMut,
    pub(super) version: ProtocolVersion,
    pub(super) is_stalled: bool,
    /// Received and not answered.
    heard: VecDeque<Packet>,
}

impl Client {
    pub(super) fn new() -> Self {
        Self {
            connection: None,
            decoder: Decoder::for_server(0),
            unread: BytesMut::new(),
            version: ProtocolVersion::V5,
            is_stalled: false,
            heard: VecDeque::new(),
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// Opens a connection if there is none.
    pub(super) fn open(&mut self, machine: &mut Machine) {
        if self.connection.is_none() {
            *self = Self {
                connection: Some(machine.open()),
                decoder: Decoder::for_server(machine.limits().packet_size_max),
                ..Self::new()
            };
        }
    }

    /// Sends a packet, if it can be said in the version of the connection.
    pub(super) fn send(&mut self, machine: &mut Machine, packet: &Packet) {
        let mut bytes = BytesMut::new();
        if encode(packet, self.version, u32::MAX, &mut bytes).is_ok() {
            self.send_bytes(machine, &bytes);
        }
    }

    /// Sends bytes, unless too many wait already.
    pub(super) fn send_bytes(&mut self, machine: &mut Machine, bytes: &[u8]) {
        if self.unread.len() < UNREAD_MAX {
            self.unread.extend_from_slice(bytes);
        }
        self.be_read(machine);
    }

    /// The server takes what it wants to take, as its socket task does.
    pub(super) fn be_read(&mut self, machine: &mut Machine) {
        let Some(connection) = self.connection else {
            self.unread.clear();
            return;
        };
        let limits = machine.limits();
        // One that takes nothing is heard out.
        let most = if self.is_stalled {
            2 * limits.outbound_bytes_max + limits.packet_size_max
        } else {
            limits.outbound_bytes_max
        };
        while machine.is_reading(connection) && machine.sent_bytes(connection) <= most as usize {
            match self.decoder.decode(&mut self.unread) {
                Ok(Some(packet)) => machine.receive(connection, packet),
                Ok(None) => return,
                Err(error) => {
                    machine.violate(connection, error);
                    return;
                }
            }
        }
    }

    /// Reads what was sent to it, unless it is stalled; the last packets stay to be answered. Gives them all.
    pub(super) fn listen(&mut self, machine: &mut Machine) -> Vec<Packet> {
        let Some(connection) = self.connection else {
            return Vec::new();
        };
        let mut packets = Vec::new();
        if !self.is_stalled {
            packets = machine.take_sent(connection);
            self.heard.extend(packets.iter().cloned());
            let surplus = self.heard.len().saturating_sub(HEARD_MAX);
            self.heard.drain(..surplus);
        }
        if !machine.is_open(connection) {
            self.lose(machine);
        }
        packets
    }

    /// The connection is gone.
    pub(super) fn lose(&mut self, machine: &mut Machine) {
        if let Some(connection) = self.connection {
            machine.forget(connection);
        }
        self.cut();
    }

    /// The server is gone.
    pub(super) fn cut(&mut self) {
        *self = Self::new();
    }

    /// Stops to read, or reads everything.
    pub(super) fn stall_or_resume(&mut self, machine: &mut Machine) {
        let Some(connection) = self.connection else {
            return;
        };
        self.is_stalled = !self.is_stalled;
        if self.is_stalled {
            machine.stall(connection);
        } else {
            self.listen(machine);
            machine.resume(connection);
        }
    }

    /// Answers the first `count` packets that wait for it.
    pub(super) fn answer(&mut self, machine: &mut Machine, count: usize, reason: ReasonCode) {
        for _ in 0..count {
            let Some(packet) = self.heard.pop_front() else {
                return;
            };
            if let Some(answer) = answer_to(&packet, reason) {
                self.send(machine, &answer);
            }
        }
    }

    /// Bytes that the server has sent and nobody has read.
    pub(super) fn sent_bytes(&self, machine: &Machine) -> usize {
        self.connection
            .map_or(0, |connection| machine.sent_bytes(connection))
    }
}

fn answer_to(packet: &Packet, reason: ReasonCode) -> Option<Packet> {
    match packet {
        Packet::Publish(publish) => {
            let ack = Ack::new(publish.packet_id?, reason);
            Some(if publish.qos == QoS::ExactlyOnce {
                Packet::PubRec(ack)
            } else {
                Packet::PubAck(ack)
            })
        }
        Packet::PubRec(ack) => Some(Packet::PubRel(Ack::new(ack.packet_id, ReasonCode::Success))),
        Packet::PubRel(ack) => Some(Packet::PubComp(Ack::new(ack.packet_id, ReasonCode::Success))),
        _ => None,
    }
}

/// Bytes that a client sends ahead of the server's reading.
const UNREAD_MAX: usize = 16 * 1_024;

/// Packets that a client keeps to answer them.
const HEARD_MAX: usize = 64;
