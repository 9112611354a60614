//! Queues of sessions as feeds read them: entries of a copy, and messages that are pending there.

use std::collections::{BTreeMap, BTreeSet};

use crate::feed::{QueueKey, Queues};
use crate::plane::{Matching, Plane, PlaneValue};
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, Entry, EntryId, EntryKind, Fact, Matched, Slot, VersionVector};

/// Queues of the copies of a plane.
#[derive(Debug)]
pub(super) struct QueueView<'a, V, M, R> {
    pub(super) plane: &'a Plane<V, M, R>,
}

impl<V, M, R> QueueView<'_, V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Reads an entry of a client, if it counts.
    fn with_live<T>(
        &self,
        client: &ClientId,
        kind: EntryKind,
        dot: Dot,
        read: impl FnOnce(&Entry<V>) -> T,
    ) -> Option<T> {
        let copy = self.plane.copy(slot_of(client))?;
        let id = EntryId { kind, dot };
        let entry = copy.entries.live_entry(copy.covered, client.as_bytes(), id);
        entry.map(read)
    }

    /// Value of an entry of a client, if it counts.
    fn live_value(&self, client: &ClientId, kind: EntryKind, dot: Dot) -> Option<V> {
        self.with_live(client, kind, dot, |entry| entry.value.clone())
    }

    /// Pending message as it would be queued for the client.
    fn pending(&self, client: &ClientId, message: Dot) -> Option<Matched<V>> {
        self.plane.matched_session(slot_of(client), message, client)
    }
}

impl<V, M, R> Queues<V> for QueueView<'_, V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    fn is_owned(&self, slot: Slot) -> bool {
        self.plane.is_owner(slot)
    }

    fn has_session(&self, client: &ClientId, birth: Dot) -> bool {
        let copy = self.plane.copy(slot_of(client));
        copy.is_some_and(|copy| {
            let kind = EntryKind::Session;
            let mut live = copy.entries.live(copy.covered, client.as_bytes(), kind);
            live.any(|(_, entry)| entry.birth.dot == birth)
        })
    }

    fn read(&self, client: &ClientId, known: &VersionVector) -> Option<BTreeSet<QueueKey>> {
        let slot = slot_of(client);
        let copy = self.plane.copy(slot)?;
        if !self.plane.has_all_for(client, known) {
            return None;
        }
        let live = copy
            .entries
            .live(copy.covered, client.as_bytes(), EntryKind::Message);
        let queued = live.map(|(dot, entry)| QueueKey {
            clock: entry.clock,
            dot,
        });
        let pending = self.plane.pending_keys(slot);
        let matching = pending.filter(|key| self.pending(client, key.dot).is_some());
        Some(queued.chain(matching).collect())
    }

    fn value(&self, client: &ClientId, key: QueueKey) -> Option<V> {
        let queued = self.live_value(client, EntryKind::Message, key.dot);
        queued.or_else(|| self.pending(client, key.dot).map(|matched| matched.value))
    }

    fn is_queued(&self, client: &ClientId, message: Dot) -> bool {
        let queued = self.with_live(client, EntryKind::Message, message, |_| ());
        queued.is_some() || self.pending(client, message).is_some()
    }

    fn deliveries(&self, client: &ClientId) -> BTreeMap<Dot, Dot> {
        let copy = self.plane.copy(slot_of(client));
        let live = copy.map(|copy| {
            let live = copy
                .entries
                .live(copy.covered, client.as_bytes(), EntryKind::Delivery);
            live.filter_map(|(dot, entry)| match entry.fact {
                Fact::Delivery { message } => Some((dot, message)),
                _ => None,
            })
            .collect()
        });
        live.unwrap_or_default()
    }

    fn delivery(&self, client: &ClientId, delivery: Dot) -> Option<V> {
        self.live_value(client, EntryKind::Delivery, delivery)
    }

    fn covers(&self, client: &ClientId, dot: Dot) -> bool {
        let copy = self.plane.copy(slot_of(client));
        copy.is_some_and(|copy| copy.entries.covers(copy.covered, client.as_bytes(), dot))
    }

    fn known(&self, client: &ClientId) -> VersionVector {
        let copy = self.plane.copy(slot_of(client));
        copy.map_or_else(VersionVector::default, |copy| copy.covered.united(copy.taken))
    }
}

fn slot_of(client: &ClientId) -> Slot {
    Slot::of_client(client.as_bytes())
}
