//! Reading of queues: messages of sessions, in entries and pending.

use std::collections::BTreeSet;

use cluster::session_plane::Hlc;

use super::{Matching, Plane, PlaneValue};
use crate::feed::QueueKey;
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, Entry, EntryId, EntryKind, Matched, Slot};

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// This node owns the slot by its own ring.
    pub fn is_owner(&self, slot: Slot) -> bool {
        self.holdings.owned().contains(slot)
    }

    /// Sessions that a pending message matches, in this node's copy of a slot. A session that has removed
    /// the message already is none.
    pub fn matched_sessions(&self, slot: Slot, message: Dot) -> Vec<Matched<V>> {
        let copies = &self.holdings.copies;
        let Some((copy, pending)) = copies.get(slot).zip(copies.pending_message(slot, message)) else {
            return Vec::new();
        };
        let mut matched = self.holdings.matching().matches(&copy, message, pending);
        let has_removed = |client: &ClientId| copy.entries.covers(copy.covered, client.as_bytes(), message);
        matched.retain(|matched| !has_removed(&matched.client));
        matched
    }

    /// Pending message as it would be queued for a client, or for a shared group.
    pub fn matched_session(&self, slot: Slot, message: Dot, client: &ClientId) -> Option<Matched<V>> {
        let mut matched = self.matched_sessions(slot, message).into_iter();
        matched.find(|matched| matched.client == *client)
    }

    /// Pending messages of this node's copy of a slot.
    pub fn pending_keys(&self, slot: Slot) -> impl Iterator<Item = QueueKey> + '_ {
        let pending = self.holdings.copies.pending(slot);
        pending.map(|(dot, pending)| QueueKey {
            clock: pending.clock,
            dot,
        })
    }

    /// Place of a pending message in the queues that it matches.
    pub fn pending_key(&self, slot: Slot, message: Dot) -> Option<QueueKey> {
        let pending = self.holdings.copies.pending_message(slot, message)?;
        Some(QueueKey {
            clock: pending.clock,
            dot: message,
        })
    }

    /// Clock of a message in the queue of a client.
    pub fn message_clock(&self, client: &ClientId, message: Dot) -> Option<Hlc> {
        let (kind, dot) = (EntryKind::Message, message);
        let entry = self.entry(client, EntryId { kind, dot });
        entry.map(|entry| entry.clock)
    }

    /// Entry of a client in this node's copy, whether or not it counts.
    pub fn entry(&self, client: &ClientId, id: EntryId) -> Option<&Entry<V>> {
        self.holdings.copies.entry(client, id)
    }

    /// Slots of which the copies have come to be merged, or are not any more, since this was asked
    /// last.
    pub fn take_merge_changes(&mut self) -> BTreeSet<Slot> {
        self.transfers.asker.take_changed()
    }
}
