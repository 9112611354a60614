//! Entries of a topic: which of them is read, and which are garbage.
//!
//! The latest by (clock, dot) is read, whether it is a message or a clear. Only a later clear removes a
//! clear. So in all copies together, at any time after a clear, there is one that is not earlier, or the
//! members have dropped it: what is earlier is never read again.
//!
//! Messages that are later than the last clear are no garbage, read or not. Were the earlier of two
//! dropped, the node could remove the later one alone, and other nodes would read the earlier one.

use std::collections::BTreeSet;

use super::SessionEntries;
use crate::{Dot, Entry, EntryId, EntryKind};

impl<V: Ord> SessionEntries<V> {
    /// Entry of a topic that is read: the latest by (clock, dot), a message or a clear.
    pub(crate) fn latest_of_topic(&self) -> Option<(EntryId, &Entry<V>)> {
        self.of_topic().max_by_key(|(id, entry)| (entry.clock, id.dot))
    }

    /// Last clear of a topic, by (clock, dot).
    pub(crate) fn last_clear(&self) -> Option<(Dot, &Entry<V>)> {
        let clears = self.of_kind(EntryKind::Cleared);
        clears.max_by_key(|(dot, entry)| (entry.clock, *dot))
    }

    /// Entries of a topic up to its last clear. All of them go at once: none while one of them is of an
    /// event that the copy has not decided upon.
    pub(super) fn cleared(&self, covered: impl Fn(Dot) -> bool) -> BTreeSet<EntryId> {
        let Some((last, clear)) = self.last_clear() else {
            return BTreeSet::new();
        };
        let is_cleared = |(id, entry): &(EntryId, &Entry<V>)| (entry.clock, id.dot) <= (clear.clock, last);
        let entries = self.of_topic().filter(is_cleared);
        let cleared: BTreeSet<EntryId> = entries.map(|(id, _)| id).collect();
        if cleared.iter().all(|id| covered(id.dot)) {
            cleared
        } else {
            BTreeSet::new()
        }
    }

    /// Messages and clears.
    fn of_topic(&self) -> impl Iterator<Item = (EntryId, &Entry<V>)> {
        let messages = self.identified(EntryKind::Retained);
        messages.chain(self.identified(EntryKind::Cleared))
    }

    fn identified(&self, kind: EntryKind) -> impl Iterator<Item = (EntryId, &Entry<V>)> {
        let entries = self.of_kind(kind);
        entries.map(move |(dot, entry)| (EntryId { kind, dot }, entry))
    }
}
