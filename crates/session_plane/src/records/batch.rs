//! Batch: records that are written together.

use bytes::Bytes;
use cluster::session_plane::Hlc;
use smallvec::SmallVec;

use super::copy_form::CopyForm;
use super::key::{ClientHash, CohortId, RecordKey, RecordKind, behind, first_of};
use super::topic::TopicEntry;
use super::{RECORD_VERSION, RecordValue};
use crate::dirty::ClientEntryId;
use crate::progress::Progress;
use crate::wire::Writer;
use crate::{ClientDot, ClientId, Dot, Entry, Pending, SessionEntries, Slot};

/// Bytes of most entries beside the client and the value.
const ENTRY_BYTES: usize = 64;

/// Room for an entry with a value of `value` bytes.
fn entry_room(value: usize) -> usize {
    ENTRY_BYTES + value
}

/// Write for the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordWrite {
    /// Sets a key.
    Put {
        /// Key.
        key: Bytes,
        /// Value.
        value: Bytes,
    },
    /// Removes a key.
    Remove {
        /// Key.
        key: Bytes,
    },
    /// Removes every key from `from` (included) to `to` (excluded).
    RemoveRange {
        /// First key.
        from: Bytes,
        /// Key behind the last.
        to: Bytes,
    },
}

/// Writes that take effect together, or not at all. Of two that touch a key the later one wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordBatch {
    writes: Vec<RecordWrite>,
}

impl RecordBatch {
    /// Writes, in their order.
    pub fn into_writes(self) -> Vec<RecordWrite> {
        self.writes
    }

    /// Nothing differs from the disk.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    pub(crate) fn put_clock(&mut self, clock: Hlc) {
        let mut value = Writer::of_record(RECORD_VERSION);
        value.put(&clock);
        self.put(RecordKey::Clock, value);
    }

    pub(crate) fn put_cohort(&mut self, id: CohortId, progress: &Progress) {
        let mut value = Writer::of_record(RECORD_VERSION);
        value.put(progress.covered());
        value.put(progress.taken());
        value.put(progress.holes());
        self.put(RecordKey::Cohort(id), value);
    }

    pub(crate) fn remove_shared(&mut self) {
        self.remove(RecordKey::Shared);
    }

    pub(crate) fn remove_cohort(&mut self, id: CohortId) {
        self.remove(RecordKey::Cohort(id));
    }

    /// Puts a copy, which has the sets of events of a cohort.
    pub(crate) fn put_copy(&mut self, slot: Slot, cohort: CohortId) {
        let mut value = Writer::of_record(RECORD_VERSION);
        value.put(&CopyForm::OfCohort);
        value.put(&cohort.0);
        self.put(RecordKey::Copy(slot), value);
    }

    /// Removes a copy with everything of it.
    pub(crate) fn remove_copy(&mut self, slot: Slot) {
        for kind in [
            RecordKind::Copy,
            RecordKind::Entry,
            RecordKind::Single,
            RecordKind::Pending,
            RecordKind::Topic,
        ] {
            self.writes.push(RecordWrite::RemoveRange {
                from: first_of(kind, slot),
                to: behind(kind, slot),
            });
        }
    }

    /// Puts an entry, without its content.
    pub(crate) fn put_entry<V: RecordValue>(&mut self, slot: Slot, of: &ClientEntryId, entry: &Entry<V>) {
        let stored = stored(entry);
        let room = of.client.as_bytes().len() + entry_room(stored.value.len());
        let mut value = Writer::of_large_record(RECORD_VERSION, room);
        value.put(&of.client);
        value.put(&entry.value.content().is_some());
        value.put(&stored);
        self.put(RecordKey::Entry(slot, ClientHash::of(&of.client), of.id), value);
    }

    pub(crate) fn remove_entry(&mut self, slot: Slot, of: &ClientEntryId) {
        self.remove(RecordKey::Entry(slot, ClientHash::of(&of.client), of.id));
    }

    /// Puts all entries of a topic.
    pub(crate) fn put_topic<V: RecordValue + Ord>(
        &mut self,
        slot: Slot,
        topic: &ClientId,
        entries: &SessionEntries<V>,
    ) {
        let entries: SmallVec<[TopicEntry; 1]> = entries
            .iter()
            .map(|(id, entry)| TopicEntry::of(id, entry))
            .collect();
        let bytes = entries.iter().map(|entry| entry_room(entry.bytes()));
        let room = topic.as_bytes().len() + bytes.sum::<usize>();
        let mut value = Writer::of_large_record(RECORD_VERSION, room);
        value.put(topic);
        value.put_list(entries.iter());
        self.put(RecordKey::Topic(slot, ClientHash::of(topic)), value);
    }

    pub(crate) fn remove_topic(&mut self, slot: Slot, topic: &ClientId) {
        self.remove(RecordKey::Topic(slot, ClientHash::of(topic)));
    }

    pub(crate) fn put_single(&mut self, slot: Slot, single: &ClientDot) {
        let mut value = Writer::of_record(RECORD_VERSION);
        value.put(&single.client);
        self.put(single_key(slot, single), value);
    }

    pub(crate) fn remove_single(&mut self, slot: Slot, single: &ClientDot) {
        self.remove(single_key(slot, single));
    }

    /// Puts a pending message, without its content.
    pub(crate) fn put_pending<M: RecordValue>(&mut self, slot: Slot, dot: Dot, pending: &Pending<M>) {
        let mut value = Writer::of_record(RECORD_VERSION);
        value.put(&pending.clock);
        value.put(&pending.message.content().is_some());
        value.put_bytes(&pending.message.to_record());
        self.put(RecordKey::Pending(slot, dot), value);
    }

    pub(crate) fn remove_pending(&mut self, slot: Slot, dot: Dot) {
        self.remove(RecordKey::Pending(slot, dot));
    }

    pub(super) fn put_content(&mut self, dot: Dot, content: &Bytes) {
        let mut value = Writer::of_record(RECORD_VERSION);
        value.put_fixed(content);
        self.put(RecordKey::Content(dot), value);
    }

    pub(super) fn remove_content(&mut self, dot: Dot) {
        self.remove(RecordKey::Content(dot));
    }

    fn put(&mut self, key: RecordKey, value: Writer) {
        let (key, value) = (key.encode(), value.finish());
        self.writes.push(RecordWrite::Put { key, value });
    }

    fn remove(&mut self, key: RecordKey) {
        let key = key.encode();
        self.writes.push(RecordWrite::Remove { key });
    }
}

/// Entry as a record has it, without its content.
pub(super) fn stored<V: RecordValue>(entry: &Entry<V>) -> Entry<Bytes> {
    Entry {
        birth: entry.birth,
        clock: entry.clock,
        fact: entry.fact.clone(),
        value: entry.value.to_record(),
    }
}

fn single_key(slot: Slot, single: &ClientDot) -> RecordKey {
    RecordKey::Single(slot, ClientHash::of(&single.client), single.dot)
}
