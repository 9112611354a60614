//! Dirty sets: records that differ from the disk.
//!
//! A change of a copy marks the keys of the records that it concerns. The next batch for the disk
//! reads the state that each marked key has by then, and puts its record or removes it. So several
//! changes of one key are one write, and what comes and goes between two batches is never written.
//!
//! A topic is one record, and is marked as a whole. The node also asks which topics have changed
//! ([`Plane::take_retained_changes`](crate::plane::Plane::take_retained_changes)), and the plane whose
//! subscriptions: those are noted aside.
//!
//! *Invariant*: a key that is not marked has a record on the disk if, and only if, it has a value in
//! memory.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ClientDot, ClientId, Dot, EntryId};

/// Keys whose records differ from the disk.
#[derive(Debug, Clone)]
pub(crate) struct DirtySet<K> {
    /// Each with whether the disk has a record of it.
    keys: BTreeMap<K, bool>,
}

impl<K> Default for DirtySet<K> {
    /// Nothing differs.
    fn default() -> DirtySet<K> {
        DirtySet {
            keys: BTreeMap::new(),
        }
    }
}

impl<K> PartialEq for DirtySet<K> {
    /// True: what the disk has is no part of the value of a copy.
    fn eq(&self, _: &DirtySet<K>) -> bool {
        true
    }
}

impl<K> Eq for DirtySet<K> {}

impl<K: Ord> DirtySet<K> {
    /// Marks a key that is being changed, and that had a value before the change or had none.
    pub(crate) fn mark(&mut self, key: K, had_value: bool) {
        self.keys.entry(key).or_insert(had_value);
    }

    /// Nothing differs.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key is marked.
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.keys.contains_key(key)
    }

    /// Marked keys in ascending order, each with whether the disk has a record of it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, bool)> {
        self.keys.iter().map(|(key, is_on_disk)| (key, *is_on_disk))
    }

    /// Takes the marked keys, each with whether the disk has a record of it.
    pub(crate) fn take(&mut self) -> BTreeMap<K, bool> {
        std::mem::take(&mut self.keys)
    }

    /// Takes the mark of a key that has gone in another way. True where the disk has a record of it.
    pub(crate) fn forget(&mut self, key: &K) -> bool {
        self.keys.remove(key).unwrap_or(true)
    }
}

/// Entry of a slot, with its client.
///
/// The identity comes first: most entries differ in it, so names are seldom compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientEntryId {
    pub(crate) id: EntryId,
    pub(crate) client: ClientId,
}

/// What of one slot differs from the disk. It goes with the entries of the slot, whether their copy
/// is in step or apart.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlotDirty {
    pub(crate) entries: DirtySet<ClientEntryId>,
    pub(crate) single: DirtySet<ClientDot>,
    pub(crate) pending: DirtySet<Dot>,
    pub(crate) topics: DirtySet<ClientId>,
    /// Topics whose entries have changed since they were taken last; clients and groups whose
    /// subscriptions have.
    changed: BTreeSet<ClientId>,
}

/// What a client or a topic had before one of its entries is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// The entry.
    Entry,
    /// Other entries.
    Others,
    /// No entry.
    Nothing,
}

impl PartialEq for SlotDirty {
    /// True: what others have of a copy is no part of its value.
    fn eq(&self, _: &SlotDirty) -> bool {
        true
    }
}

impl Eq for SlotDirty {}

impl SlotDirty {
    /// Marks an entry that is being changed; with what there was before the change.
    pub(crate) fn mark_entry(&mut self, client: &ClientId, id: EntryId, before: Before) {
        let client = client.clone();
        if id.kind.is_of_topic() {
            self.changed.insert(client.clone());
            self.topics.mark(client, before != Before::Nothing);
        } else {
            if id.kind.is_of_subscriber() {
                self.changed.insert(client.clone());
            }
            self.entries
                .mark(ClientEntryId { id, client }, before == Before::Entry);
        }
    }

    /// No record differs from the disk.
    pub(crate) fn is_clean(&self) -> bool {
        self.entries.is_empty() && self.single.is_empty() && self.pending.is_empty() && self.topics.is_empty()
    }

    /// Takes what differs from the disk.
    pub(crate) fn take_records(&mut self) -> SlotDirty {
        let changed = std::mem::take(&mut self.changed);
        std::mem::replace(
            self,
            SlotDirty {
                changed,
                ..SlotDirty::default()
            },
        )
    }

    /// Takes the topics whose entries have changed, or the clients and groups whose subscriptions have.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<ClientId> {
        std::mem::take(&mut self.changed)
    }
}
