//! Entry map: entries of one client in the order of their identities, small where they are few.
//!
//! A node has millions of clients and topics, and nearly all of them have a handful of entries. The first node of
//! a `BTreeMap` has room for 11, whatever is in it: 2 KiB for a topic with one message. So few entries are a list
//! of exact length. More than [`FEW`] are a map, until there are few again.
//!
//! A map keeps the size of its queue beside the entries, so that a long queue is not walked over. A list counts
//! it anew.
//!
//! *Invariants*: both forms are in ascending order. More than [`FEW`] entries are a map. Its size is that of
//! its messages.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::queue_limits::{QueueSize, QueueValue};
use crate::{Dot, Entry, EntryId, EntryKind};

/// Entries of a list at most: a search and an insertion look at all of them.
const FEW: usize = 6;

/// Entries of one client.
#[derive(Debug, Clone)]
pub(super) enum EntryMap<V> {
    /// In ascending order.
    Few(Vec<Item<V>>),
    Many(Box<ManyEntries<V>>),
}

/// Entries of a client that has more than a few.
#[derive(Debug, Clone)]
pub(super) struct ManyEntries<V> {
    map: BTreeMap<EntryId, Entry<V>>,
    queue: QueueSize,
}

/// Entry with its identity.
#[derive(Debug, Clone)]
pub(super) struct Item<V> {
    id: EntryId,
    entry: Entry<V>,
}

impl<V> Default for EntryMap<V> {
    /// No entry.
    fn default() -> EntryMap<V> {
        EntryMap::Few(Vec::new())
    }
}

impl<V> EntryMap<V> {
    /// Entry with this identity.
    pub(super) fn get(&self, id: &EntryId) -> Option<&Entry<V>> {
        match self {
            EntryMap::Few(items) => items.iter().find(|item| item.id == *id).map(|item| &item.entry),
            EntryMap::Many(many) => many.map.get(id),
        }
    }

    /// Entries with their identities, in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (EntryId, &Entry<V>)> {
        let (few, many) = match self {
            EntryMap::Few(items) => (&items[..], None),
            EntryMap::Many(many) => (&[][..], Some(&many.map)),
        };
        let few = few.iter().map(|item| (item.id, &item.entry));
        few.chain(many.into_iter().flatten().map(|(id, entry)| (*id, entry)))
    }

    /// Those within a range of identities.
    pub(super) fn range(&self, range: RangeInclusive<EntryId>) -> impl Iterator<Item = (EntryId, &Entry<V>)> {
        let (few, many) = match self {
            EntryMap::Few(items) => (&items[..], None),
            EntryMap::Many(many) => (&[][..], Some(many.map.range(range.clone()))),
        };
        let few = few.iter().filter(move |item| range.contains(&item.id));
        let few = few.map(|item| (item.id, &item.entry));
        few.chain(many.into_iter().flatten().map(|(id, entry)| (*id, entry)))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            EntryMap::Few(items) => items.len(),
            EntryMap::Many(many) => many.map.len(),
        }
    }
}

impl<V: QueueValue> EntryMap<V> {
    /// Size of the messages, whether or not they count. Looks at [`FEW`] entries at most.
    pub(super) fn queue_size(&self) -> QueueSize {
        match self {
            EntryMap::Few(items) => {
                let mut size = QueueSize::default();
                for item in items {
                    size.add(QueueSize::of_entry(&item.entry));
                }
                size
            }
            EntryMap::Many(many) => many.queue,
        }
    }

    /// Sets the entry of an identity.
    pub(super) fn insert(&mut self, id: EntryId, entry: Entry<V>) {
        match self {
            EntryMap::Few(items) => match items.binary_search_by_key(&id, |item| item.id) {
                Ok(at) => items[at].entry = entry,
                Err(at) => {
                    items.reserve_exact(1);
                    items.insert(at, Item { id, entry });
                    self.become_many();
                }
            },
            EntryMap::Many(many) => many.insert(id, entry),
        }
    }

    /// Removes an entry. False where it is not there.
    pub(super) fn remove(&mut self, id: &EntryId) -> bool {
        match self {
            EntryMap::Few(items) => {
                let found = items.iter().position(|item| item.id == *id);
                found.map(|at| items.remove(at)).is_some()
            }
            EntryMap::Many(many) => {
                let is_there = many.remove(id);
                if many.map.len() <= FEW {
                    *self = std::mem::take(&mut many.map).into_iter().collect();
                }
                is_there
            }
        }
    }

    /// Removes the entries of every kind that an event made, and calls `removed` with each.
    pub(super) fn remove_of(&mut self, dot: Dot, removed: &mut impl FnMut(EntryId)) {
        match self {
            EntryMap::Few(items) => items.retain(|item| {
                let stays = item.id.dot != dot;
                if !stays {
                    removed(item.id);
                }
                stays
            }),
            EntryMap::Many(_) => {
                let ids = EntryKind::ALL.into_iter().map(|kind| EntryId { kind, dot });
                ids.filter(|id| self.remove(id)).for_each(removed);
            }
        }
    }

    fn become_many(&mut self) {
        if let EntryMap::Few(items) = self
            && items.len() > FEW
        {
            let items = std::mem::take(items).into_iter();
            let many = ManyEntries::new(items.map(|item| (item.id, item.entry)).collect());
            *self = EntryMap::Many(Box::new(many));
        }
    }
}

impl<V: QueueValue> ManyEntries<V> {
    fn new(map: BTreeMap<EntryId, Entry<V>>) -> ManyEntries<V> {
        let mut queue = QueueSize::default();
        for entry in map.values() {
            queue.add(QueueSize::of_entry(entry));
        }
        ManyEntries { map, queue }
    }

    fn insert(&mut self, id: EntryId, entry: Entry<V>) {
        self.queue.add(QueueSize::of_entry(&entry));
        if let Some(before) = self.map.insert(id, entry) {
            self.queue.subtract(QueueSize::of_entry(&before));
        }
    }

    /// Removes an entry. False where it is not there.
    fn remove(&mut self, id: &EntryId) -> bool {
        let removed = self.map.remove(id);
        if let Some(entry) = &removed {
            self.queue.subtract(QueueSize::of_entry(entry));
        }
        removed.is_some()
    }
}

impl<V: QueueValue> FromIterator<(EntryId, Entry<V>)> for EntryMap<V> {
    /// Map of entries in ascending order.
    fn from_iter<I: IntoIterator<Item = (EntryId, Entry<V>)>>(entries: I) -> EntryMap<V> {
        let items = entries.into_iter().map(|(id, entry)| Item { id, entry });
        let mut items: Vec<Item<V>> = items.collect();
        items.shrink_to_fit();
        let mut map = EntryMap::Few(items);
        map.become_many();
        map
    }
}

impl<V> IntoIterator for EntryMap<V> {
    type Item = (EntryId, Entry<V>);
    type IntoIter = IntoEntries<V>;

    fn into_iter(self) -> IntoEntries<V> {
        let (few, many) = match self {
            EntryMap::Few(items) => (items, BTreeMap::new()),
            EntryMap::Many(many) => (Vec::new(), many.map),
        };
        IntoEntries {
            few: few.into_iter(),
            many: many.into_iter(),
        }
    }
}

/// Entries of a map, in ascending order.
#[derive(Debug)]
pub(super) struct IntoEntries<V> {
    few: std::vec::IntoIter<Item<V>>,
    many: std::collections::btree_map::IntoIter<EntryId, Entry<V>>,
}

impl<V> Iterator for IntoEntries<V> {
    type Item = (EntryId, Entry<V>);

    fn next(&mut self) -> Option<(EntryId, Entry<V>)> {
        let few = self.few.next().map(|item| (item.id, item.entry));
        few.or_else(|| self.many.next())
    }
}

impl<V: PartialEq> PartialEq for EntryMap<V> {
    fn eq(&self, other: &EntryMap<V>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<V: Eq> Eq for EntryMap<V> {}

#[cfg(test)]
mod tests {
    use cluster::session_plane::Hlc;
    use proptest::prelude::*;

    use super::*;
    use crate::session_entries::tests::dot;
    use crate::{Birth, Fact};

    fn number_id(number: u64) -> EntryId {
        let kind = EntryKind::ALL[usize::try_from(number % 3).expect("small")];
        EntryId {
            kind,
            dot: dot(number.div_ceil(2)),
        }
    }

    fn entry(value: u8) -> Entry<u8> {
        Entry {
            birth: Birth::of_group_message(dot(1), Hlc::ZERO),
            clock: Hlc::ZERO,
            fact: if value.is_multiple_of(2) {
                Fact::Message
            } else {
                Fact::Session { connected: None }
            },
            value,
        }
    }

    fn size_of(naive: &BTreeMap<EntryId, Entry<u8>>) -> QueueSize {
        let queued = naive.values().filter(|entry| entry.fact == Fact::Message);
        QueueSize {
            messages: queued.clone().count() as u64,
            bytes: queued.map(|entry| u64::from(entry.value)).sum(),
        }
    }

    proptest! {
        /// Both forms are the map of the same entries, whatever was inserted and removed.
        #[test]
        fn a_map_is_the_map_of_its_entries(steps in prop::collection::vec((0..5, 1..20_u64, any::<u8>()), 0..60)) {
            let (mut map, mut naive) = (EntryMap::default(), BTreeMap::new());
            for (step, number, value) in steps {
                let id = number_id(number);
                match step {
                    0 => prop_assert_eq!(map.remove(&id), naive.remove(&id).is_some()),
                    1 => {
                        let mut removed = Vec::new();
                        map.remove_of(id.dot, &mut |id| removed.push(id));
                        let expected = naive.extract_if(.., |of: &EntryId, _| of.dot == id.dot);
                        prop_assert_eq!(removed, expected.map(|(id, _)| id).collect::<Vec<_>>());
                    }
                    _ => {
                        map.insert(id, entry(value));
                        naive.insert(id, entry(value));
                    }
                }
                prop_assert_eq!(map.get(&id), naive.get(&id));
                prop_assert_eq!(map.len(), naive.len());
                prop_assert_eq!(map.queue_size(), size_of(&naive));
                prop_assert_eq!(matches!(map, EntryMap::Many(_)), naive.len() > FEW);
                let expected: Vec<_> = naive.iter().map(|(id, entry)| (*id, entry)).collect();
                prop_assert_eq!(map.iter().collect::<Vec<_>>(), expected);
                let range = id..=number_id(number + 3).max(id);
                let expected: Vec<_> = naive.range(range.clone()).map(|(id, entry)| (*id, entry)).collect();
                prop_assert_eq!(map.range(range).collect::<Vec<_>>(), expected);
            }
            let again: EntryMap<u8> = map.clone().into_iter().collect();
            prop_assert_eq!(&again, &map);
            prop_assert_eq!(again.queue_size(), size_of(&naive));
            prop_assert!(map.into_iter().eq(naive));
        }
    }
}
