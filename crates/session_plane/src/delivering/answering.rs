//! Answering: what a client says to its deliveries.
//!
//! PUBACK, PUBCOMP and a PUBREC that refuses free the packet id and the place in the Receive Maximum
//! at once. An answer to what an older connection has sent changes nothing: this connection sends it
//! again, and is answered again.

use super::action::{DeliveringAction, DeliveryViolation};
use super::connection::OpenConnection;
use super::delivery::DeliveryQos;
use super::event::DeliveryAnswer;
use super::in_flight::Phase;
use crate::publishing::PacketId;

impl<V> OpenConnection<V> {
    /// Takes an answer of the client.
    pub(super) fn answer(
        &mut self,
        packet_id: PacketId,
        answer: DeliveryAnswer,
        actions: &mut Vec<DeliveringAction<V>>,
    ) {
        if self.unstored.uses(packet_id) {
            return self.answer_unstored(packet_id, answer, actions);
        }
        let in_flight = self.in_flight.get(&packet_id);
        let Some((phase, qos)) = in_flight.map(|of| (of.phase, of.qos)) else {
            return self.answer_unknown(packet_id, answer, actions);
        };
        match (answer, phase, qos) {
            (DeliveryAnswer::Puback, Phase::Published, DeliveryQos::AtLeastOnce)
            | (DeliveryAnswer::Discarded, Phase::Published, _) => self.finish(packet_id, actions),
            (DeliveryAnswer::PubrecError, Phase::Published, DeliveryQos::ExactlyOnce)
            | (DeliveryAnswer::Pubcomp, Phase::Released, _) => self.complete(packet_id, actions),
            (DeliveryAnswer::Pubrec, Phase::Published, DeliveryQos::ExactlyOnce) => {
                self.receive(packet_id, actions);
            }
            // PUBREC comes again [MQTT-4.3.3-4].
            (DeliveryAnswer::Pubrec, Phase::Released, _) => actions.push(self.pubrel(packet_id, true)),
            // PUBCOMP may answer a PUBREL with 0x92 before it.
            (DeliveryAnswer::Pubcomp, ..) => {}
            (_, Phase::Published, _) => {
                self.disconnect(DeliveryViolation::OtherQos { packet_id }, actions);
            }
            _ => {}
        }
    }

    /// Answers PUBREC of a packet id that nobody uses, so that the client forgets it [MQTT-4.3.3-4].
    ///
    /// A packet id that older deliveries use is not unknown. With 0x92 the client would forget what it
    /// has, and would take the PUBLISH that follows for another message. What an owner may still tell is
    /// not unknown, either.
    fn answer_unknown(
        &self,
        packet_id: PacketId,
        answer: DeliveryAnswer,
        actions: &mut Vec<DeliveringAction<V>>,
    ) {
        let is_unknown = self.is_fed && !self.older.uses(packet_id);
        if answer == DeliveryAnswer::Pubrec && is_unknown {
            actions.push(self.pubrel(packet_id, false));
        }
    }

    /// Takes PUBREC: PUBLISH is not sent again [MQTT-4.3.3-6]. PUBREL follows when the stage is at the
    /// owners.
    fn receive(&mut self, packet_id: PacketId, actions: &mut Vec<DeliveringAction<V>>) {
        let order = self.take_order();
        if let Some(in_flight) = self.in_flight.get_mut(&packet_id) {
            in_flight.order = order;
            in_flight.phase = Phase::StoringPubrel;
            self.outgoing.pubrels.push_back(packet_id);
            self.write(packet_id, actions);
        }
    }
}
