//! Messages that no owner has: packet ids that the node asks for, and their exchanges.
//!
//! Messages to a session that ends with its connection are not stored, and neither are those of the node itself.
//! The node has them, and asks for a packet id for the next one of them. It takes turns with the queue and
//! the groups, within the Receive Maximum. Nothing of it outlives the connection.
//!
//! *Invariant*: a session that outlives its connection is sent such messages with QoS 1 at most. Its client
//! would keep a packet id of QoS 2 that nobody else knows.

use std::collections::BTreeMap;

use super::action::{DeliveringAction, DeliveryViolation};
use super::connection::OpenConnection;
use super::delivery::DeliveryQos;
use super::event::DeliveryAnswer;
use super::packet_ids::preferred_id;
use crate::Dot;
use crate::publishing::PacketId;

/// Packet ids of messages that are not stored.
#[derive(Debug, Default)]
pub(super) struct Unstored {
    /// QoS of the message that the node has next.
    requested: Option<DeliveryQos>,
    is_turn: bool,
    in_flight: BTreeMap<PacketId, UnstoredStage>,
}

/// Stage of a packet id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnstoredStage {
    Published(DeliveryQos),
    Released,
}

impl Unstored {
    /// Packet ids in use. Each takes a place of the Receive Maximum.
    pub(super) fn len(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) fn uses(&self, packet_id: PacketId) -> bool {
        self.in_flight.contains_key(&packet_id)
    }

    /// The node has a message, and `others` have none or it is its turn.
    fn is_next(&mut self, have_others: bool) -> bool {
        let is_next = self.requested.is_some() && (self.is_turn || !have_others);
        self.is_turn = !is_next;
        is_next
    }
}

impl<V> OpenConnection<V> {
    /// The node has a message, and asks for a packet id.
    pub(super) fn request(&mut self, qos: DeliveryQos) {
        self.unstored.requested = Some(qos);
    }

    /// Begins the next message, of the node or another one. False: none waits, or all packet ids are in use.
    pub(super) fn begin_in_turn(&mut self, actions: &mut Vec<DeliveringAction<V>>) -> bool {
        let have_others = self.waiting.next().is_some();
        if self.unstored.is_next(have_others) {
            self.grant(actions)
        } else {
            self.begin_new(actions)
        }
    }

    /// An older connection may have sent the message under a packet id that has been granted. It is sent under
    /// that one again [MQTT-4.4.0-1].
    pub(super) fn awaits_unstored(&self, message: Dot) -> bool {
        let may_have_been_sent = |key| self.may_have_been_sent(key);
        self.unstored.uses(preferred_id(message))
            && self.waiting.queued_key(message).is_some_and(may_have_been_sent)
    }

    fn grant(&mut self, actions: &mut Vec<DeliveringAction<V>>) -> bool {
        let Some(qos) = self.unstored.requested else {
            return false;
        };
        let Some(packet_id) = self.ids.next_free() else {
            return false;
        };
        self.ids.take(packet_id);
        self.unstored.requested = None;
        let stage = UnstoredStage::Published(qos);
        self.unstored.in_flight.insert(packet_id, stage);
        actions.push(DeliveringAction::Grant {
            connection: self.id(),
            packet_id,
            qos,
        });
        true
    }

    /// Takes an answer of the client to a packet id of such a message.
    pub(super) fn answer_unstored(
        &mut self,
        packet_id: PacketId,
        answer: DeliveryAnswer,
        actions: &mut Vec<DeliveringAction<V>>,
    ) {
        let Some(stage) = self.unstored.in_flight.get_mut(&packet_id) else {
            return;
        };
        match (answer, *stage) {
            (DeliveryAnswer::Puback, UnstoredStage::Published(DeliveryQos::AtLeastOnce))
            | (DeliveryAnswer::Discarded, UnstoredStage::Published(_))
            | (DeliveryAnswer::PubrecError, UnstoredStage::Published(DeliveryQos::ExactlyOnce))
            | (DeliveryAnswer::Pubcomp, UnstoredStage::Released) => {
                self.unstored.in_flight.remove(&packet_id);
                self.settle_id(packet_id, actions);
            }
            (DeliveryAnswer::Pubrec, UnstoredStage::Published(DeliveryQos::ExactlyOnce)) => {
                *stage = UnstoredStage::Released;
                actions.push(self.pubrel(packet_id, true));
            }
            // PUBREC comes again [MQTT-4.3.3-4].
            (DeliveryAnswer::Pubrec, UnstoredStage::Released) => actions.push(self.pubrel(packet_id, true)),
            // PUBCOMP may answer a PUBREL with 0x92 before it.
            (DeliveryAnswer::Pubcomp, UnstoredStage::Published(_)) => {}
            (_, UnstoredStage::Published(_)) => {
                self.disconnect(DeliveryViolation::OtherQos { packet_id }, actions);
            }
            (_, UnstoredStage::Released) => {}
        }
    }
}
