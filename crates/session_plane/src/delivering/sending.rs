//! Sending: messages get their packet ids, and packets leave when their stage is at the owners.

use std::collections::VecDeque;

use super::action::{DeliveringAction, Published};
use super::connection::OpenConnection;
use super::delivery::{DeliveryQos, DeliveryStage};
use super::event::{GivenMessage, QueuedMessage};
use super::in_flight::{InFlight, Phase, Source};
use super::packet_ids::preferred_id;
use super::waiting::NextMessage;
use crate::Dot;
use crate::publishing::PacketId;

impl<V> OpenConnection<V> {
    /// Takes a message of a shared group.
    pub(super) fn give(&mut self, given: GivenMessage<V>, actions: &mut Vec<DeliveringAction<V>>) {
        if self.is_full() {
            self.disconnect(self.too_many_waiting(), actions);
        } else {
            self.waiting.give(given);
        }
    }

    /// Gives the next message its packet id, or moves it into the queue first. False: no message waits, or its
    /// packet id is in use.
    pub(super) fn begin_new(&mut self, actions: &mut Vec<DeliveringAction<V>>) -> bool {
        if let Some(given) = self.waiting.take_next_to_move() {
            self.begin_move(given, actions);
            return true;
        }
        let next = self.waiting.next().filter(|next| !self.awaits_unstored(*next));
        let free_id = next.and_then(|next| self.ids.for_message(next));
        let Some(packet_id) = free_id else {
            return false;
        };
        let Some(next) = self.waiting.take_next() else {
            return false;
        };
        self.begin(packet_id, next, actions);
        true
    }

    /// Begins a message under a packet id that is free.
    pub(super) fn begin(
        &mut self,
        packet_id: PacketId,
        message: NextMessage<V>,
        actions: &mut Vec<DeliveringAction<V>>,
    ) {
        let (in_flight, has_entry) = self.new_in_flight(packet_id, message);
        let qos = in_flight.qos;
        self.insert(packet_id, in_flight);
        self.outgoing.publishes(qos).push_back(packet_id);
        if has_entry {
            self.write(packet_id, actions);
        } else {
            self.send_stored(actions);
        }
    }

    /// Use of a packet id by a message that has none, and whether it has an entry.
    ///
    /// A QoS 1 message has one if its packet id does not follow from its event. One of a group has
    /// none: no other connection goes on with it.
    fn new_in_flight(&mut self, packet_id: PacketId, next: NextMessage<V>) -> (InFlight<V>, bool) {
        let (source, qos, value, is_dup) = match next {
            NextMessage::Queued(QueuedMessage { key, qos, value }) => {
                let is_dup = qos == DeliveryQos::AtLeastOnce && self.may_have_been_sent(key);
                (Source::Queue(key.dot), qos, value, is_dup)
            }
            NextMessage::Given(GivenMessage { message, qos, value }) => {
                (Source::Group(message), qos, value, false)
            }
        };
        let is_other = matches!(source, Source::Queue(message) if preferred_id(message) != packet_id);
        let has_entry = qos == DeliveryQos::ExactlyOnce || is_other;
        let phase = if has_entry { Phase::Storing } else { Phase::Ready };
        let in_flight = InFlight {
            source,
            qos,
            phase,
            order: self.take_order(),
            entry: None,
            value: Some(value),
            is_dup,
            is_resumed: false,
            is_withdrawn: false,
            is_counted: true,
        };
        (in_flight, has_entry)
    }

    /// Goes on with the PUBLISH of an older connection.
    pub(super) fn begin_resend(&mut self, packet_id: PacketId, actions: &mut Vec<DeliveringAction<V>>) {
        self.resuming.remove(packet_id);
        let Some(older) = self.older.counting(packet_id) else {
            return;
        };
        let DeliveryStage::Sent(qos) = older.value.stage else {
            return;
        };
        let Some(queued) = self.waiting.remove(older.message) else {
            return;
        };
        let in_flight = InFlight {
            source: Source::Queue(older.message),
            qos,
            phase: Phase::Storing,
            order: older.value.order,
            entry: None,
            value: Some(queued.value),
            is_dup: true,
            is_resumed: true,
            is_withdrawn: false,
            is_counted: true,
        };
        self.insert(packet_id, in_flight);
        self.outgoing.publishes(qos).push_back(packet_id);
        self.write(packet_id, actions);
    }

    /// Goes on with the PUBREL of an older connection, or releases its packet id (rule `release-gone`).
    pub(super) fn begin_release(&mut self, packet_id: PacketId, actions: &mut Vec<DeliveringAction<V>>) {
        self.resuming.remove(packet_id);
        let Some(older) = self.older.counting(packet_id) else {
            return;
        };
        let is_in_flight = self.id_of_queued(older.message).is_some();
        let freed = Source::Freed(older.message);
        let source = match (older.is_received(), is_in_flight) {
            (true, false) => Source::Queue(older.message),
            (true, true) => {
                self.remove(Some(older.message), Vec::new(), actions);
                freed
            }
            (false, _) => {
                if older.is_gone {
                    self.remove_gone(older.message, actions);
                }
                freed
            }
        };
        self.insert(packet_id, InFlight::releasing(source, older.value.order));
        self.outgoing.pubrels.push_back(packet_id);
        self.write(packet_id, actions);
    }

    /// A packet id and its stage are at the owners: the packet leaves behind those before it (rule
    /// `stage-first`).
    pub(super) fn stored(&mut self, packet_id: PacketId, entry: Dot, actions: &mut Vec<DeliveringAction<V>>) {
        let Some(in_flight) = self.in_flight.get_mut(&packet_id) else {
            return;
        };
        in_flight.phase = match in_flight.phase {
            Phase::Storing => Phase::Ready,
            Phase::StoringPubrel => Phase::ReadyForPubrel,
            _ => return,
        };
        in_flight.entry = Some(entry);
        self.send_stored(actions);
    }

    /// Sends what is at the owners, each behind those before it.
    fn send_stored(&mut self, actions: &mut Vec<DeliveringAction<V>>) {
        for qos in [DeliveryQos::AtLeastOnce, DeliveryQos::ExactlyOnce] {
            while let Some(packet_id) = self.pop_in(Phase::Ready, |open| open.outgoing.publishes(qos)) {
                self.send_publish(packet_id, actions);
            }
        }
        while let Some(packet_id) = self.pop_in(Phase::ReadyForPubrel, |open| &mut open.outgoing.pubrels) {
            self.send_pubrel(packet_id, actions);
        }
    }

    /// Takes the first packet id of a queue if it is in the phase.
    fn pop_in(
        &mut self,
        phase: Phase,
        queue: impl Fn(&mut Self) -> &mut VecDeque<PacketId>,
    ) -> Option<PacketId> {
        let first = *queue(self).front()?;
        let is_in_phase = self.in_flight.get(&first)?.phase == phase;
        if is_in_phase {
            queue(self).pop_front()
        } else {
            None
        }
    }

    fn send_publish(&mut self, packet_id: PacketId, actions: &mut Vec<DeliveringAction<V>>) {
        let connection = self.id();
        let Some(in_flight) = self.in_flight.get_mut(&packet_id) else {
            return;
        };
        let (qos, is_dup) = (in_flight.qos, in_flight.is_dup);
        if in_flight.is_withdrawn {
            return self.end_withdrawn(packet_id, actions);
        }
        in_flight.phase = Phase::Published;
        let message = in_flight.message();
        let published = in_flight.value.take().map(|value| Published {
            connection,
            packet_id,
            message,
            qos,
            is_dup,
            value,
        });
        actions.extend(published.map(DeliveringAction::SendPublish));
    }

    /// A message left its queue before PUBLISH. An older connection may have told the client of its
    /// packet id, which is released then.
    fn end_withdrawn(&mut self, packet_id: PacketId, actions: &mut Vec<DeliveringAction<V>>) {
        if self.is_kept_by_client(packet_id) {
            let source = self.in_flight.get(&packet_id).map(|of| of.source.clone());
            if let Some(Source::Queue(message)) = source {
                self.remove_gone(message, actions);
            }
            self.free(packet_id, actions);
        } else {
            self.drop_untold(packet_id, actions);
        }
    }

    /// Removes a message that is gone here, and that the client may have (rule `release-gone`). Another
    /// copy may have decided otherwise about it, and would give it once more.
    fn remove_gone(&mut self, message: Dot, actions: &mut Vec<DeliveringAction<V>>) {
        if !self.removed.contains(&message) && !self.older.is_removed(message) {
            self.remove(Some(message), Vec::new(), actions);
        }
    }

    fn send_pubrel(&mut self, packet_id: PacketId, actions: &mut Vec<DeliveringAction<V>>) {
        if let Some(in_flight) = self.in_flight.get_mut(&packet_id) {
            in_flight.phase = Phase::Released;
            actions.push(self.pubrel(packet_id, true));
        }
    }

    /// PUBREL of a packet id.
    pub(super) fn pubrel(&self, packet_id: PacketId, is_found: bool) -> DeliveringAction<V> {
        DeliveringAction::SendPubrel {
            connection: self.id(),
            packet_id,
            is_found,
        }
    }
}
