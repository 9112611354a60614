//! Records of the copies of a node: what of them differs from the disk, and what a restart reads.

use std::collections::BTreeSet;

use super::Copies;
use crate::SlotCopy;
use crate::copy::CopyState;
use crate::dirty::{ClientEntryId, SlotDirty};
use crate::misplaced::check_kind;
use crate::queue_limits::QueueValue;
use crate::records::{
    ContentChanges, ContentUses, Place, ReadCopy, ReadRecords, RecordBatch, RecordError, RecordValue,
};
use crate::{ClientId, CopyParts, Dot, EntryKind, MisplacedEntry, Pending, Slot, SlotEntries};

/// What of the copies differs from the disk, beside what copies and progresses say themselves.
#[derive(Debug, Clone, Default)]
pub(super) struct DirtyCopies {
    /// Slots whose entries, single dots or pending messages may differ.
    pub(super) content: BTreeSet<Slot>,
    /// Slots with records of copies that were deleted.
    removed: BTreeSet<Slot>,
    /// Events of the entries and messages of these copies that have records.
    removed_dots: Vec<Dot>,
    /// Uses of contents by the records of the disk.
    uses: ContentUses,
    /// Topics of copies that were deleted.
    topics: BTreeSet<ClientId>,
    /// Slots whose subscriptions may have changed. Topics have none.
    subscribed: BTreeSet<Slot>,
    /// Clients and groups with subscriptions in copies that were deleted.
    subscribers: BTreeSet<ClientId>,
}

impl DirtyCopies {
    /// Notes that a slot may differ.
    pub(super) fn touch(&mut self, slot: Slot) {
        self.content.insert(slot);
        if slot != Slot::RETAINED {
            self.subscribed.insert(slot);
        }
    }

    /// Notes that a slot differs, if it does.
    pub(super) fn note<V: Ord + QueueValue>(&mut self, slot: Slot, entries: &SlotEntries<V>) {
        if !entries.dirty().is_clean() {
            self.touch(slot);
        }
    }

    /// Notes that a copy is deleted. Costs a step for each of its entries and pending messages.
    pub(super) fn remove_copy<V: Ord + QueueValue, M>(
        &mut self,
        slot: Slot,
        mut copy: SlotCopy<V, M>,
        is_on_disk: bool,
    ) {
        self.remove_names(slot, &mut copy);
        self.content.remove(&slot);
        if is_on_disk {
            self.removed.insert(slot);
        }
        if slot == Slot::RETAINED {
            // Contents of topics have no records of their own.
            return;
        }
        // What is marked is on the disk as its mark says; what is not marked is as it is here.
        let dirty = copy.entries().dirty();
        let marked = dirty.entries.iter().filter(|(_, is_on_disk)| *is_on_disk);
        self.removed_dots.extend(marked.map(|(of, _)| of.id.dot));
        for (client, session) in copy.entries().sessions() {
            let of = |(id, _)| ClientEntryId {
                client: client.clone(),
                id,
            };
            let unmarked = session.iter().map(of).filter(|of| !dirty.entries.contains(of));
            self.removed_dots.extend(unmarked.map(|of| of.id.dot));
        }
        let marked = dirty.pending.iter().filter(|(_, is_on_disk)| *is_on_disk);
        self.removed_dots.extend(marked.map(|(dot, _)| *dot));
        let unmarked = copy.pending().map(|(dot, _)| dot);
        self.removed_dots
            .extend(unmarked.filter(|dot| !dirty.pending.contains(dot)));
    }

    /// Notes the topics, or the clients and groups, that go with a copy, and those that have changed in it
    /// before.
    fn remove_names<V: Ord + QueueValue, M>(&mut self, slot: Slot, copy: &mut SlotCopy<V, M>) {
        let mut names = copy.take_changed();
        names.extend(copy.entries().sessions().map(|(name, _)| name.clone()));
        if slot == Slot::RETAINED {
            self.topics.append(&mut names);
        } else {
            self.subscribers.append(&mut names);
        }
    }
}

impl<V: Ord + QueueValue, M> Copies<V, M> {
    /// Takes the topics whose entries have changed, or have gone with their copy.
    pub(in crate::plane) fn take_topics(&mut self) -> BTreeSet<ClientId> {
        let mut topics = std::mem::take(&mut self.dirty.topics);
        if let Some(entries) = self.entries.get_mut(&Slot::RETAINED) {
            topics.append(&mut entries.dirty_mut().take_changed());
        }
        topics
    }

    /// Takes the clients and groups whose subscriptions have changed, or have gone with a copy.
    pub(in crate::plane) fn take_subscribers(&mut self) -> BTreeSet<ClientId> {
        let mut subscribers = std::mem::take(&mut self.dirty.subscribers);
        for slot in std::mem::take(&mut self.dirty.subscribed) {
            if let Some(entries) = self.entries.get_mut(&slot) {
                subscribers.append(&mut entries.dirty_mut().take_changed());
            }
        }
        subscribers
    }
}

impl<V: Ord, M> Copies<V, M> {
    /// Records of the copies differ from the disk, as far as that is known.
    pub(in crate::plane) fn has_unwritten(&self) -> bool {
        let dirty = &self.dirty;
        let is_removed = !dirty.removed.is_empty() || !dirty.removed_dots.is_empty();
        is_removed || !dirty.content.is_empty() || self.cohorts.is_dirty()
    }
}

/// Batch that is being made.
struct Writing<'a> {
    batch: &'a mut RecordBatch,
    contents: ContentChanges,
    uses: &'a mut ContentUses,
}

impl<V: Ord + QueueValue + RecordValue, M: RecordValue> Copies<V, M> {
    /// Copies that a restart reads.
    ///
    /// # Errors
    ///
    /// [`RecordError`] where the records are no copies.
    pub(in crate::plane) fn of_records(read: ReadRecords<V, M>) -> Result<Copies<V, M>, RecordError> {
        let mut copies = Copies::default();
        copies.dirty.uses = read.uses;
        copies.cohorts.set_older(read.shared.is_some());
        for (slot, of_slot) in read.copies {
            check_kinds(slot, &of_slot)?;
            let progress = match &of_slot.place {
                Place::Cohort(id) => read.cohorts.get(id),
                Place::Shared => read.shared.as_ref(),
                Place::Own(progress) => Some(progress),
            };
            let progress = progress.ok_or(RecordError::NoCohort { slot })?.clone();
            let copy = SlotCopy::from_parts(CopyParts {
                covered: progress.covered().clone(),
                taken: progress.taken().clone(),
                holes: progress.holes().clone(),
                pending: of_slot.pending,
                single: of_slot.single,
                entries: of_slot.entries,
            });
            let copy = copy.map_err(|error| RecordError::Copy { slot, error })?;
            match of_slot.place {
                Place::Cohort(id) => copies.cohorts.read(slot, id, progress),
                Place::Shared | Place::Own(_) => copies.cohorts.read_older(slot, progress),
            }
            let CopyState { entries, pending, .. } = copy.into_state();
            copies.put(slot, entries, pending);
        }
        Ok(copies)
    }

    /// Appends what differs from the disk, which has it from here on.
    ///
    /// Costs a step for each cohort, and for each record.
    pub(in crate::plane) fn write_records(&mut self, batch: &mut RecordBatch) {
        let mut uses = std::mem::take(&mut self.dirty.uses);
        let mut writing = Writing {
            batch,
            contents: ContentChanges::default(),
            uses: &mut uses,
        };
        for slot in std::mem::take(&mut self.dirty.removed) {
            writing.batch.remove_copy(slot);
        }
        for dot in std::mem::take(&mut self.dirty.removed_dots) {
            writing.contents.remove(writing.uses, dot);
        }
        self.cohorts.write_records(writing.batch);
        for slot in std::mem::take(&mut self.dirty.content) {
            self.write_slot(slot, &mut writing);
        }
        let Writing {
            batch,
            contents,
            uses,
        } = writing;
        contents.finish(uses, batch);
        self.dirty.uses = std::mem::take(uses);
    }

    /// Writes what of one slot differs.
    fn write_slot(&mut self, slot: Slot, writing: &mut Writing<'_>) {
        if let Some(entries) = self.entries.get_mut(&slot) {
            let dirty = entries.dirty_mut().take_records();
            writing.entries(slot, &dirty, entries);
            let pending = self.pending.get(&slot);
            writing.pending(slot, &dirty, |dot| pending?.get(&dot));
        }
    }
}

impl Writing<'_> {
    fn entries<V: Ord + QueueValue + RecordValue>(
        &mut self,
        slot: Slot,
        dirty: &SlotDirty,
        entries: &SlotEntries<V>,
    ) {
        for (of, is_on_disk) in dirty.entries.iter() {
            match entries.entry(of) {
                Some(entry) => {
                    self.batch.put_entry(slot, of, entry);
                    if !is_on_disk {
                        self.contents.add(self.uses, of.id.dot, entry.value.content());
                    }
                }
                None if is_on_disk => {
                    self.batch.remove_entry(slot, of);
                    self.contents.remove(self.uses, of.id.dot);
                }
                None => {}
            }
        }
        for (topic, is_on_disk) in dirty.topics.iter() {
            match entries.session(topic.as_bytes()) {
                Some(session) => self.batch.put_topic(slot, topic, session),
                None if is_on_disk => self.batch.remove_topic(slot, topic),
                None => {}
            }
        }
        for (single, is_on_disk) in dirty.single.iter() {
            if entries.single().contains(single.client.as_bytes(), single.dot) {
                self.batch.put_single(slot, single);
            } else if is_on_disk {
                self.batch.remove_single(slot, single);
            }
        }
    }

    fn pending<'m, M: RecordValue + 'm>(
        &mut self,
        slot: Slot,
        dirty: &SlotDirty,
        get: impl Fn(Dot) -> Option<&'m Pending<M>>,
    ) {
        for (dot, is_on_disk) in dirty.pending.iter() {
            let dot = *dot;
            match get(dot) {
                Some(pending) => {
                    self.batch.put_pending(slot, dot, pending);
                    if !is_on_disk {
                        self.contents.add(self.uses, dot, pending.message.content());
                    }
                }
                None if is_on_disk => {
                    self.batch.remove_pending(slot, dot);
                    self.contents.remove(self.uses, dot);
                }
                None => {}
            }
        }
    }
}

/// Checks that a slot has entries of these kinds, and messages.
fn check_kinds<V, M>(slot: Slot, of_slot: &ReadCopy<V, M>) -> Result<(), MisplacedEntry> {
    let entries = of_slot.entries.iter().map(|of| of.entry.fact.kind());
    let messages = of_slot.pending.iter().map(|_| EntryKind::Message);
    let mut kinds = entries.chain(messages);
    kinds.try_for_each(|kind| check_kind(slot, kind))
}
