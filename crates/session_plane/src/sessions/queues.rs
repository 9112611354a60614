//! Queues of sessions as feeds read them: entries of a copy, and messages that are pending there.

use std::collections::{BTreeMap, BTreeSet};

use crate::feed::{QueueKey, Queues};
use crate::plane::{Matching, Plane, PlaneValue};
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, EntryId, EntryKind, Fact, Matched, Slot, VersionVector};

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
    /// Pending message as it would be queued for the client.
    fn pending(&self, client: &ClientId, message: Dot) -> Option<Matched<V>> {
        let matched = self.plane.matched_sessions(slot_of(client), message);
        matched.into_iter().find(|matched| matched.client == *client)
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

    fn read(&self, client: &ClientId, known: &VersionVector) -> Option<BTreeSet<QueueKey>> {
        let slot = slot_of(client);
        let copy = self.plane.copy(slot).filter(|_| self.plane.is_merged(slot))?;
        if !known.minus(copy.covered).is_within(copy.taken) {
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
        let (kind, dot) = (EntryKind::Message, key.dot);
        let copy = self.plane.copy(slot_of(client))?;
        let entry = copy
            .entries
            .live_entry(copy.covered, client.as_bytes(), EntryId { kind, dot });
        let value = entry.map(|entry| entry.value.clone());
        value.or_else(|| self.pending(client, dot).map(|matched| matched.value))
    }

    fn is_queued(&self, client: &ClientId, message: Dot) -> bool {
        let clock = cluster::session_plane::Hlc::default();
        let key = QueueKey { clock, dot: message };
        self.value(client, key).is_some()
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
        let (kind, dot) = (EntryKind::Delivery, delivery);
        let copy = self.plane.copy(slot_of(client))?;
        let entry = copy
            .entries
            .live_entry(copy.covered, client.as_bytes(), EntryId { kind, dot });
        entry.map(|entry| entry.value.clone())
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
