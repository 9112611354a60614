//! Resuming: what the feed tells of older connections, and what becomes of their packet ids.
//!
//! | older delivery | how its packet id goes on |
//! |---|---|
//! | Sent | with PUBLISH and DUP, once the feed has passed the message on |
//! | Released, Freeing | with PUBREL |
//!
//! A Sent delivery goes on with PUBREL, too, as Freeing, where its message is gone, or goes under another
//! packet id. The packet id of a QoS 1 message is free then.
//!
//! A packet id has one delivery and a message has one, unless sides of a split gave it theirs. Of
//! several deliveries of a message one that is Released counts first, then the later connection's. Of
//! a packet id the later connection's counts. A message that was Released by another one is
//! acknowledged at once: the client has it.

use std::collections::BTreeSet;

use super::action::DeliveringAction;
use super::connection::OpenConnection;
use super::delivery::{DeliveryQos, DeliveryStage, PacketDelivery};
use super::event::{FedMessages, QueuedMessage};
use super::older::OlderDelivery;
use crate::Dot;
use crate::feed::{DeliveryChanges, QueueKey};
use crate::publishing::PacketId;

/// Packet ids, and messages, whose older deliveries have changed.
#[derive(Debug, Default)]
struct Changed {
    ids: BTreeSet<PacketId>,
    messages: BTreeSet<Dot>,
}

/// Way on of a packet id that an older connection has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WayOn {
    Release,
    Resend,
    /// Its message comes, or is gone.
    Wait,
    /// The client keeps no state of it.
    Drop,
}

impl<V> OpenConnection<V> {
    /// Takes what the feed passes on.
    pub(super) fn feed(&mut self, fed: FedMessages<V>, actions: &mut Vec<DeliveringAction<V>>) {
        let FedMessages { deliveries, messages } = fed;
        self.is_fed = true;
        self.change_older(deliveries, actions);
        for message in messages {
            if self.is_closing() {
                return;
            }
            self.queue(message, actions);
        }
    }

    /// Takes messages back that an owner has removed, unless they were sent.
    pub(super) fn withdraw(&mut self, keys: &[QueueKey], actions: &mut Vec<DeliveringAction<V>>) {
        let mut changed = Changed::default();
        for QueueKey { dot: message, .. } in keys {
            self.held.remove(message);
            self.withdraw_message(*message);
            self.touch_message(*message, &mut changed);
        }
        self.settle(changed, actions);
    }

    fn change_older(
        &mut self,
        deliveries: DeliveryChanges<PacketDelivery>,
        actions: &mut Vec<DeliveringAction<V>>,
    ) {
        let mut changed = Changed::default();
        for entry in deliveries.ended {
            if let Some(older) = self.older.get(entry) {
                self.touch(older.value.packet_id, &mut changed);
                self.older.remove(entry);
            }
        }
        for told in deliveries.added {
            let packet_id = told.value.packet_id;
            self.set_order_behind(told.value.order);
            self.ids.take(packet_id);
            self.older.add(told.dot, OlderDelivery::of(&told));
            self.touch(packet_id, &mut changed);
        }
        for entry in deliveries.gone {
            if let Some(older) = self.older.get(entry) {
                self.older.lose_message(older.message);
                self.withdraw_message(older.message);
                self.touch(older.value.packet_id, &mut changed);
            }
        }
        self.settle(changed, actions);
    }

    /// A message is not sent any more, unless it was.
    fn withdraw_message(&mut self, message: Dot) {
        self.waiting.remove(message);
        self.moving.withdraw(message);
        let id = self.id_of_queued(message);
        if let Some(in_flight) = id.and_then(|id| self.in_flight.get_mut(&id)) {
            in_flight.is_withdrawn |= in_flight.is_before_publish();
        }
    }

    fn touch(&self, packet_id: PacketId, changed: &mut Changed) {
        changed.ids.insert(packet_id);
        for message in self.older.messages_at(packet_id) {
            self.touch_message(message, changed);
        }
    }

    fn touch_message(&self, message: Dot, changed: &mut Changed) {
        changed.messages.insert(message);
        changed.ids.extend(self.older.ids_of(message));
    }

    /// Decides how packet ids and messages go on whose older deliveries have changed.
    fn settle(&mut self, mut changed: Changed, actions: &mut Vec<DeliveringAction<V>>) {
        for packet_id in changed.ids.clone() {
            self.acknowledge_beaten(packet_id, &mut changed, actions);
        }
        for message in changed.messages {
            if self.older.is_received(message) {
                self.withdraw_message(message);
            }
            let has_id = self
                .older
                .sent_under(message, |id| self.in_flight.contains_key(&id));
            self.waiting.set_new(message, has_id.is_none());
        }
        for packet_id in changed.ids {
            self.settle_id(packet_id, actions);
        }
    }

    /// Acknowledges messages that the client has, and whose packet id is another delivery's. Their
    /// entries go with the next one of the packet id: the client may keep it.
    fn acknowledge_beaten(
        &mut self,
        packet_id: PacketId,
        changed: &mut Changed,
        actions: &mut Vec<DeliveringAction<V>>,
    ) {
        let is_in_flight = self.in_flight.contains_key(&packet_id);
        let counting = self.older.counting_entry(packet_id).filter(|_| !is_in_flight);
        for entry in self.older.received_at(packet_id) {
            let Some(older) = self.older.get(entry).filter(|_| counting != Some(entry)) else {
                continue;
            };
            self.touch_message(older.message, changed);
            self.older.acknowledge(entry);
            self.older.remove_message(older.message);
            self.withdraw_message(older.message);
            self.remove(Some(older.message), Vec::new(), actions);
        }
    }

    /// Decides how a packet id goes on.
    pub(super) fn settle_id(&mut self, packet_id: PacketId, actions: &mut Vec<DeliveringAction<V>>) {
        self.resuming.remove(packet_id);
        if self.is_in_use(packet_id) {
            return;
        }
        let Some(older) = self.older.counting(packet_id) else {
            return self.free_if_unused(packet_id);
        };
        match self.way_on(packet_id, &older) {
            WayOn::Release => self.resuming.add_release(packet_id, older.value.order),
            WayOn::Resend => self.resuming.add_resend(packet_id, older.value.order),
            WayOn::Wait => {}
            WayOn::Drop => {
                let deliveries = self.older.take_id(packet_id);
                self.free_if_unused(packet_id);
                self.remove(None, deliveries, actions);
            }
        }
    }

    fn way_on(&self, packet_id: PacketId, older: &OlderDelivery) -> WayOn {
        let DeliveryStage::Sent(qos) = older.value.stage else {
            return WayOn::Release;
        };
        let message = older.message;
        let is_done = self.removed.contains(&message) || self.older.is_received(message);
        let sent_under = self
            .older
            .sent_under(message, |id| self.in_flight.contains_key(&id));
        let has_it = !is_done && self.id_of_queued(message).is_none() && sent_under == Some(packet_id);
        match qos {
            _ if has_it && self.waiting.contains(message) => WayOn::Resend,
            _ if has_it => WayOn::Wait,
            DeliveryQos::AtLeastOnce if !self.older.is_kept_by_client(packet_id) => WayOn::Drop,
            DeliveryQos::AtLeastOnce | DeliveryQos::ExactlyOnce => WayOn::Release,
        }
    }

    /// Takes a message of the queue. One with a packet id of an older connection goes on under that. One that
    /// this connection moves there has its place already.
    fn queue(&mut self, message: QueuedMessage<V>, actions: &mut Vec<DeliveringAction<V>>) {
        let (connection, key) = (self.id(), message.key);
        if self.removed.contains(&key.dot) {
            actions.push(DeliveringAction::LetGo { connection, key });
            return;
        }
        self.held.insert(key.dot, key);
        let is_begun = self.id_of_queued(key.dot).is_some() || self.moving.contains(key.dot);
        if is_begun || self.older.is_received(key.dot) {
            return;
        }
        if self.is_full() {
            return self.disconnect(self.too_many_waiting(), actions);
        }
        self.waiting.insert(message);
        let mut changed = Changed::default();
        self.touch_message(key.dot, &mut changed);
        self.settle(changed, actions);
    }
}
