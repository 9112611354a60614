//! Messages from the server that are not acknowledged yet.
//!
//! A message is acknowledged when the caller has taken it, and acknowledgements leave in the order in which the
//! messages came. [MQTT-4.6.0-2] So a caller that stops taking is sent no more than its Receive Maximum.

use std::collections::{BTreeMap, VecDeque};

use protocol::ReasonCode;
use protocol::packet::{Ack, Packet, PacketId, QoS};

use super::operation::DeliveryId;

#[derive(Debug, Default)]
pub(super) struct Incoming {
    unacknowledged: VecDeque<Arrival>,
    /// QoS 2 messages handed to the caller whose PUBREL has not come. [MQTT-4.3.3-9]
    received: BTreeMap<PacketId, Received>,
    last: u64,
}

#[derive(Debug)]
struct Arrival {
    delivery: DeliveryId,
    packet_id: Option<PacketId>,
    qos: QoS,
    is_taken: bool,
}

#[derive(Debug)]
struct Received {
    delivery: DeliveryId,
    is_taken: bool,
}

impl Incoming {
    /// A PUBLISH came. `None` if it is a second copy of a QoS 2 message that the caller was given before.
    pub(super) fn arrived(&mut self, packet_id: Option<PacketId>, qos: QoS) -> Option<DeliveryId> {
        if let (QoS::ExactlyOnce, Some(id)) = (qos, packet_id)
            && let Some(received) = self.received.get(&id)
        {
            let (delivery, is_taken) = (received.delivery, received.is_taken);
            self.unacknowledged.push_back(Arrival {
                delivery,
                packet_id,
                qos,
                is_taken,
            });
            return None;
        }
        self.last += 1;
        let delivery = DeliveryId(self.last);
        if let (QoS::ExactlyOnce, Some(id)) = (qos, packet_id) {
            self.received.insert(
                id,
                Received {
                    delivery,
                    is_taken: false,
                },
            );
        }
        if qos != QoS::AtMostOnce {
            self.unacknowledged.push_back(Arrival {
                delivery,
                packet_id,
                qos,
                is_taken: false,
            });
        }
        Some(delivery)
    }

    /// The caller has the message: it may be acknowledged in its turn.
    pub(super) fn taken(&mut self, delivery: DeliveryId) {
        for arrival in self
            .unacknowledged
            .iter_mut()
            .filter(|arrival| arrival.delivery == delivery)
        {
            arrival.is_taken = true;
            if let Some(received) = arrival.packet_id.and_then(|id| self.received.get_mut(&id)) {
                received.is_taken = true;
            }
        }
    }

    /// Acknowledges what is at the front and taken.
    pub(super) fn acknowledge(&mut self, packets: &mut Vec<Packet>) {
        while self
            .unacknowledged
            .front()
            .is_some_and(|arrival| arrival.is_taken)
        {
            let Some(Arrival {
                packet_id: Some(id),
                qos,
                ..
            }) = self.unacknowledged.pop_front()
            else {
                continue;
            };
            let ack = Ack::new(id, ReasonCode::Success);
            packets.push(if qos == QoS::ExactlyOnce {
                Packet::PubRec(ack)
            } else {
                Packet::PubAck(ack)
            });
        }
    }

    /// PUBREL: the packet identifier may be used for another message. [MQTT-4.3.3-11]
    pub(super) fn released(&mut self, packet_id: PacketId, packets: &mut Vec<Packet>) {
        let reason = match self.received.remove(&packet_id) {
            Some(_) => ReasonCode::Success,
            None => ReasonCode::PacketIdentifierNotFound,
        };
        packets.push(Packet::PubComp(Ack::new(packet_id, reason)));
    }

    /// The connection is gone: the server sends again what was not acknowledged.
    pub(super) fn connection_lost(&mut self) {
        // A QoS 2 message that the caller still has to take is remembered as taken: it will not be given again,
        // and nothing reports its taking to a connection that does not know it.
        for arrival in std::mem::take(&mut self.unacknowledged) {
            if let Some(received) = arrival.packet_id.and_then(|id| self.received.get_mut(&id)) {
                received.is_taken = true;
            }
        }
    }

    /// The server has lost the session, and with it every packet identifier.
    pub(super) fn session_lost(&mut self) {
        self.received.clear();
    }
}
