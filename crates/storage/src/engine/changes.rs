//! What was written and does not lie in tables yet. The write-ahead log has all of it.
//!
//! A key that was put and removed again between two checkpoints never reaches the disk but for the log: that is what becomes
//! of most queued messages.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use cluster::Keyspace;

/// The newest change of each key.
pub(super) type Changes = BTreeMap<Keyspace, BTreeMap<Bytes, Change>>;

/// What happened to a key.
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// The record of the log that says so.
    sequence: u64,
    /// None: it was removed.
    pub(super) value: Option<Bytes>,
    /// Nothing else is known about the key since the changes before it were handed to tables.
    is_first: bool,
}

/// Changes since the last checkpoint, and those that are being moved to tables.
#[derive(Debug, Default)]
pub(super) struct Pending {
    active: Changes,
    /// About what `active` takes in memory.
    active_bytes: usize,
    frozen: Option<Arc<Changes>>,
    frozen_bytes: usize,
}

/// What a change takes in memory besides key and value.
const CHANGE_OVERHEAD: usize = 96;

impl Pending {
    /// Sets a key.
    pub(super) fn put(&mut self, sequence: u64, keyspace: Keyspace, key: Bytes, value: Bytes) {
        self.change(sequence, keyspace, key, Some(value));
    }

    /// Removes a key.
    pub(super) fn remove(&mut self, sequence: u64, keyspace: Keyspace, key: Bytes) {
        self.change(sequence, keyspace, key, None);
    }

    /// Removes a key that was put once. If tables cannot know of it, it is forgotten.
    pub(super) fn remove_once(&mut self, sequence: u64, keyspace: Keyspace, key: Bytes) {
        let Some(changes) = self.active.get_mut(&keyspace) else {
            return self.remove(sequence, keyspace, key);
        };
        match changes.get(&key) {
            Some(Change {
                value: Some(value),
                is_first: true,
                ..
            }) => {
                let bytes = CHANGE_OVERHEAD + key.len() + value.len();
                self.active_bytes = self.active_bytes.saturating_sub(bytes);
                changes.remove(&key);
            }
            _ => self.remove(sequence, keyspace, key),
        }
    }

    /// Forgets changes that tables have: those of records up to this one.
    pub(super) fn forget_through(&mut self, sequence: u64) {
        for changes in self.active.values_mut() {
            changes.retain(|_, change| change.sequence > sequence);
        }
    }

    /// The changes so far are to be moved to tables; none if there are none.
    pub(super) fn freeze(&mut self) -> Option<Arc<Changes>> {
        assert!(self.frozen.is_none(), "one checkpoint at a time");
        self.active.retain(|_, changes| !changes.is_empty());
        if self.active.is_empty() {
            return None;
        }
        self.frozen_bytes = mem::take(&mut self.active_bytes);
        self.frozen = Some(Arc::new(mem::take(&mut self.active)));
        self.frozen.clone()
    }

    /// Tables have what was frozen.
    pub(super) fn moved(&mut self) {
        self.frozen = None;
        self.frozen_bytes = 0;
    }

    /// About the memory of all changes.
    pub(super) fn bytes(&self) -> usize {
        self.active_bytes + self.frozen_bytes
    }

    /// About the memory of changes that are not frozen.
    pub(super) fn active_bytes(&self) -> usize {
        self.active_bytes
    }

    /// What is known about a key. None: tables know.
    pub(super) fn get(&self, keyspace: Keyspace, key: &[u8]) -> Option<&Change> {
        let active = self.active.get(&keyspace).and_then(|keys| keys.get(key));
        active.or_else(|| self.frozen.as_ref()?.get(&keyspace)?.get(key))
    }

    /// What is known about keys of a range.
    pub(super) fn range(
        &self,
        keyspace: Keyspace,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> BTreeMap<&[u8], &Change> {
        let mut found = BTreeMap::new();
        let all = self.frozen.as_deref().into_iter().chain([&self.active]);
        for keys in all.filter_map(|changes| changes.get(&keyspace)) {
            let to = to.map_or(Bound::Unbounded, Bound::Excluded);
            let range = keys.range::<[u8], _>((Bound::Included(from), to));
            found.extend(range.map(|(key, change)| (&key[..], change)));
        }
        found
    }

    fn change(&mut self, sequence: u64, keyspace: Keyspace, key: Bytes, value: Option<Bytes>) {
        let value_len = value.as_ref().map_or(0, Bytes::len);
        let bytes = CHANGE_OVERHEAD + key.len() + value_len;
        let change = Change {
            sequence,
            value,
            is_first: true,
        };
        let changes = self.active.entry(keyspace).or_default();
        match changes.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(change);
                self.active_bytes += bytes;
            }
            Entry::Occupied(mut entry) => {
                let before = entry.insert(Change {
                    is_first: false,
                    ..change
                });
                let before = before.value.map_or(0, |value| value.len());
                self.active_bytes = (self.active_bytes + value_len).saturating_sub(before);
            }
        }
    }
}
