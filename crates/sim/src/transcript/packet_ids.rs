//! Packet ids of the server, as a transcript has them: each session counts from 1.
//!
//! Real ids follow from events of the server, so that every node gives a message the same one. A transcript would have to be
//! written anew with each change of those.

use std::collections::BTreeMap;

use protocol::packet::PacketId;
use protocol::{Packet, ReasonCode};

/// Packet ids of the messages to one client.
#[derive(Debug, Default)]
pub(super) struct PacketIds {
    last: u16,
    /// Real ids by those of the transcript.
    real: BTreeMap<u16, PacketId>,
    /// The other way round.
    shown: BTreeMap<PacketId, u16>,
}

impl PacketIds {
    /// Packet of the server, as it is shown.
    pub(super) fn show(&mut self, mut packet: Packet) -> Packet {
        match &mut packet {
            Packet::ConnAck(connack) if !connack.session_present && !connack.reason.is_error() => {
                *self = Self::default();
            }
            Packet::Publish(publish) => {
                publish.packet_id = publish.packet_id.and_then(|real| self.shown(real));
            }
            Packet::PubRel(ack) => {
                let known = self.shown.get(&ack.packet_id).and_then(|id| PacketId::new(*id));
                ack.packet_id = known.unwrap_or(ack.packet_id);
            }
            _ => {}
        }
        packet
    }

    /// Packet of the client, as it is sent.
    pub(super) fn send(&mut self, mut packet: Packet) -> Packet {
        match &mut packet {
            Packet::PubAck(ack) | Packet::PubComp(ack) => {
                let shown = ack.packet_id.get();
                if let Some(real) = self.real.remove(&shown) {
                    self.shown.remove(&real);
                    ack.packet_id = real;
                }
            }
            Packet::PubRec(ack) => {
                let shown = ack.packet_id.get();
                let Some(real) = self.real.get(&shown).copied() else {
                    return packet;
                };
                ack.packet_id = real;
                if ack.reason.is_error() && ack.reason != ReasonCode::Success {
                    self.real.remove(&shown);
                    self.shown.remove(&real);
                }
            }
            _ => {}
        }
        packet
    }

    fn shown(&mut self, real: PacketId) -> Option<PacketId> {
        let known = self.shown.get(&real).copied();
        let shown = known.unwrap_or_else(|| {
            self.last += 1;
            self.shown.insert(real, self.last);
            self.real.insert(self.last, real);
            self.last
        });
        PacketId::new(shown)
    }
}
