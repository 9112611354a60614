//! Filters without wildcards: one probe by the whole topic name.

use super::arena::Arena;
use super::hashing::{NameHash, index, position};
use super::subscribers::Subscribers;
use super::table::{Slot, Table};
use crate::memory::footprint::block;

/// The subscribers of each filter that has no wildcard.
#[derive(Debug)]
pub(super) struct ExactFilters<K, V> {
    entries: Arena<Entry<K, V>>,
    /// The memory of the filters' texts.
    texts: u64,
    by_name: Table,
    hash: NameHash,
}

#[derive(Debug)]
struct Entry<K, V> {
    filter: Box<str>,
    subscribers: Subscribers<K, V>,
}

impl<K: Copy + Ord, V: Copy> ExactFilters<K, V> {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            entries: Arena::new(),
            texts: 0,
            by_name: Table::new(),
            hash: NameHash::new(seed),
        }
    }

    /// The subscribers of `filter`, which the caller adds one to.
    pub(super) fn subscribers(&mut self, filter: &str) -> &mut Subscribers<K, V> {
        let hash = self.hash.of(ANY, filter);
        let found = match self.find(hash, filter) {
            Some(found) => found,
            None => {
                let entry = Entry {
                    filter: filter.into(),
                    subscribers: Subscribers::None,
                };
                self.texts += block(filter.len());
                let found = index(self.entries.insert(entry));
                self.by_name.insert(Slot { hash, index: found });
                found
            }
        };
        &mut self.entries[position(found)].subscribers
    }

    /// Removes a subscription, and the filter with its last one. The memory of several subscribers that it gives back;
    /// `None`: there was no such subscription.
    pub(super) fn unsubscribe(&mut self, key: K, filter: &str) -> Option<u64> {
        let hash = self.hash.of(ANY, filter);
        let found = self.find(hash, filter)?;
        let subscribers = &mut self.entries[position(found)].subscribers;
        let removed = subscribers.remove(key);
        if subscribers.is_empty() {
            self.entries.remove(position(found));
            self.texts -= block(filter.len());
            self.by_name.remove(hash, found);
        }
        removed
    }

    /// The memory of all filters, without that of several subscribers of one.
    pub(super) fn bytes(&self) -> u64 {
        self.entries.bytes() + self.by_name.bytes() + self.texts
    }

    pub(super) fn get(&self, topic: &str) -> Option<&Subscribers<K, V>> {
        if self.entries.is_empty() {
            return None;
        }
        let found = self.find(self.hash.of(ANY, topic), topic)?;
        Some(&self.entries[position(found)].subscribers)
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        assert_eq!(self.entries.len(), self.by_name.len());
        self.entries.len()
    }

    fn find(&self, hash: u32, filter: &str) -> Option<u32> {
        let is_it = |slot: &Slot| slot.hash == hash && *self.entries[position(slot.index)].filter == *filter;
        self.by_name.find(hash, is_it)
    }
}

/// All names have the same parent here: none.
const ANY: u32 = u32::MAX;
