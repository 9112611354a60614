//! Deliveries that older connections have left, and that this connection has not replaced.
//!
//! *Invariants*: each is known by its event, its packet id and its message. As many as the feed tells
//! of at most:
//! [`SinkLimits::deliveries_max`](crate::feed::SinkLimits::deliveries_max).

use std::collections::{BTreeMap, BTreeSet};

use super::delivery::{DeliveryQos, DeliveryStage, PacketDelivery, Precedence};
use crate::Dot;
use crate::feed::FeedDelivery;
use crate::publishing::PacketId;

/// Deliveries of older connections.
#[derive(Debug, Default)]
pub(super) struct OlderDeliveries {
    known: BTreeMap<Dot, OlderDelivery>,
    by_id: BTreeMap<PacketId, BTreeSet<Precedence>>,
    by_message: BTreeMap<Dot, BTreeSet<Precedence>>,
}

/// Delivery of an older connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct OlderDelivery {
    pub(super) message: Dot,
    pub(super) value: PacketDelivery,
    /// The message is gone.
    pub(super) is_gone: bool,
    /// This connection has removed it.
    is_removed: bool,
}

impl OlderDelivery {
    pub(super) fn of(told: &FeedDelivery<PacketDelivery>) -> OlderDelivery {
        OlderDelivery {
            message: told.known.message,
            value: told.value,
            is_gone: told.known.is_gone,
            is_removed: false,
        }
    }

    /// The client has the message.
    pub(super) fn is_received(&self) -> bool {
        self.value.stage == DeliveryStage::Released
    }

    /// The client may keep the packet id until PUBREL.
    fn is_kept_by_client(&self) -> bool {
        self.value.stage != DeliveryStage::Sent(DeliveryQos::AtLeastOnce)
    }

    fn precedence(&self, entry: Dot) -> Precedence {
        let connection_clock = self.value.connection_clock;
        Precedence {
            connection_clock,
            entry,
        }
    }
}

impl OlderDeliveries {
    pub(super) fn add(&mut self, entry: Dot, older: OlderDelivery) {
        self.remove(entry);
        let precedence = older.precedence(entry);
        let of_id = self.by_id.entry(older.value.packet_id).or_default();
        of_id.insert(precedence);
        let of_message = self.by_message.entry(older.message).or_default();
        of_message.insert(precedence);
        self.known.insert(entry, older);
    }

    pub(super) fn remove(&mut self, entry: Dot) {
        let Some(older) = self.known.remove(&entry) else {
            return;
        };
        let precedence = older.precedence(entry);
        forget(&mut self.by_id, &older.value.packet_id, precedence);
        forget(&mut self.by_message, &older.message, precedence);
    }

    /// Forgets the deliveries of a packet id; gives their events.
    pub(super) fn take_id(&mut self, id: PacketId) -> Vec<Dot> {
        self.take_some(id, |_| true)
    }

    /// Forgets the QoS 1 deliveries of a packet id; gives their events.
    pub(super) fn take_at_least_once(&mut self, id: PacketId) -> Vec<Dot> {
        self.take_some(id, |older| !older.is_kept_by_client())
    }

    fn take_some(&mut self, id: PacketId, is_taken: impl Fn(&OlderDelivery) -> bool) -> Vec<Dot> {
        let taken = self.entries_of(id).filter(|(_, older)| is_taken(older));
        let taken: Vec<Dot> = taken.map(|(entry, _)| entry).collect();
        for entry in &taken {
            self.remove(*entry);
        }
        taken
    }

    /// A message is gone: its packet ids are released.
    pub(super) fn lose_message(&mut self, message: Dot) {
        self.change_of(message, |older| older.is_gone = true);
    }

    /// This connection has removed a message: its packet ids are released.
    pub(super) fn remove_message(&mut self, message: Dot) {
        self.change_of(message, |older| {
            (older.is_gone, older.is_removed) = (true, true);
        });
    }

    fn change_of(&mut self, message: Dot, change: impl Fn(&mut OlderDelivery)) {
        let of_message = self.by_message.get(&message).into_iter().flatten();
        for at in of_message {
            self.known.get_mut(&at.entry).map(&change);
        }
    }

    /// This connection has removed a message that a delivery names.
    pub(super) fn is_removed(&self, message: Dot) -> bool {
        self.of_message(message).any(|(_, older)| older.is_removed)
    }

    /// The message of a delivery is acknowledged: the entry says that the client may keep the packet id,
    /// and nothing of the message.
    pub(super) fn acknowledge(&mut self, entry: Dot) {
        if let Some(older) = self.known.get_mut(&entry) {
            older.value.stage = DeliveryStage::Freeing;
        }
    }

    pub(super) fn get(&self, entry: Dot) -> Option<OlderDelivery> {
        self.known.get(&entry).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// A delivery uses the packet id.
    pub(super) fn uses(&self, id: PacketId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Event of the delivery of a packet id that counts: the later connection's.
    pub(super) fn counting_entry(&self, id: PacketId) -> Option<Dot> {
        let last = self.by_id.get(&id)?.last()?;
        Some(last.entry)
    }

    /// Delivery of a packet id that counts.
    pub(super) fn counting(&self, id: PacketId) -> Option<OlderDelivery> {
        self.get(self.counting_entry(id)?)
    }

    /// A delivery says that the client may keep the packet id until PUBREL.
    pub(super) fn is_kept_by_client(&self, id: PacketId) -> bool {
        self.entries_of(id).any(|(_, older)| older.is_kept_by_client())
    }

    /// Events of the deliveries of a packet id that say that the client has a message.
    pub(super) fn received_at(&self, id: PacketId) -> Vec<Dot> {
        let received = self.entries_of(id).filter(|(_, older)| older.is_received());
        received.map(|(entry, _)| entry).collect()
    }

    /// A delivery says that the client has the message.
    pub(super) fn is_received(&self, message: Dot) -> bool {
        let mut of_message = self.of_message(message);
        of_message.any(|(_, older)| older.is_received())
    }

    /// Messages that have the packet id.
    pub(super) fn messages_at(&self, id: PacketId) -> BTreeSet<Dot> {
        self.entries_of(id).map(|(_, older)| older.message).collect()
    }

    /// Packet ids of a message.
    pub(super) fn ids_of(&self, message: Dot) -> BTreeSet<PacketId> {
        let of_message = self.of_message(message);
        of_message.map(|(_, older)| older.value.packet_id).collect()
    }

    /// Packet id under which a message is sent again: of several the later connection's. Those that
    /// `is_taken` are used by this connection.
    pub(super) fn sent_under(&self, message: Dot, is_taken: impl Fn(PacketId) -> bool) -> Option<PacketId> {
        let mut of_message = self.of_message(message).rev();
        let found = of_message.find(|(entry, older)| {
            let id = older.value.packet_id;
            let is_sent = matches!(older.value.stage, DeliveryStage::Sent(_)) && !older.is_gone;
            is_sent && self.counting_entry(id) == Some(*entry) && !is_taken(id)
        });
        found.map(|(_, older)| older.value.packet_id)
    }

    /// Deliveries of a packet id, the one that counts last.
    fn entries_of(&self, id: PacketId) -> impl Iterator<Item = (Dot, &OlderDelivery)> + '_ {
        let of_id = self.by_id.get(&id).into_iter().flatten();
        of_id.filter_map(|at| self.known.get(&at.entry).map(|older| (at.entry, older)))
    }

    /// Deliveries of a message, the later connection's last.
    fn of_message(&self, message: Dot) -> impl DoubleEndedIterator<Item = (Dot, &OlderDelivery)> + '_ {
        let of_message = self.by_message.get(&message).into_iter().flatten();
        of_message.filter_map(|at| self.known.get(&at.entry).map(|older| (at.entry, older)))
    }
}

fn forget<K: Ord>(index: &mut BTreeMap<K, BTreeSet<Precedence>>, key: &K, precedence: Precedence) {
    if let Some(of_key) = index.get_mut(key) {
        of_key.remove(&precedence);
        if of_key.is_empty() {
            index.remove(key);
        }
    }
}
