//! Records of the copies of a node: what of them differs from the disk, and what a restart reads.

use std::collections::BTreeSet;

use super::Copies;
use crate::SlotCopy;
use crate::dirty::{ClientEntryId, DirtySet, SlotDirty};
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
    /// Slots whose copy was made, has left those in step or has joined them.
    pub(super) places: DirtySet<Slot>,
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
    pub(super) fn remove_copy<V: Ord + QueueValue, M>(&mut self, slot: Slot, mut copy: SlotCopy<V, M>) {
        self.remove_names(slot, &mut copy);
        self.content.remove(&slot);
        if self.places.forget(&slot) {
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
        let in_step = self.in_step.get_mut(&Slot::RETAINED);
        let in_step = in_step.map(|entries| entries.dirty_mut().take_changed());
        let apart = self.apart.get_mut(&Slot::RETAINED).map(SlotCopy::take_changed);
        for mut more in in_step.into_iter().chain(apart) {
            topics.append(&mut more);
        }
        topics
    }

    /// Takes the clients and groups whose subscriptions have changed, or have gone with a copy.
    pub(in crate::plane) fn take_subscribers(&mut self) -> BTreeSet<ClientId> {
        let mut subscribers = std::mem::take(&mut self.dirty.subscribers);
        for slot in std::mem::take(&mut self.dirty.subscribed) {
            let mut changed = match self.apart.get_mut(&slot) {
                Some(copy) => copy.take_changed(),
                None => {
                    let entries = self.in_step.get_mut(&slot);
                    entries.map_or_else(BTreeSet::new, |entries| entries.dirty_mut().take_changed())
                }
            };
            subscribers.append(&mut changed);
        }
        subscribers
    }
}

impl<V: Ord, M> Copies<V, M> {
    /// Records of the copies differ from the disk, as far as that is known.
    pub(in crate::plane) fn has_unwritten(&self) -> bool {
        let dirty = &self.dirty;
        let is_moved =
            !dirty.places.is_empty() || !dirty.removed.is_empty() || !dirty.removed_dots.is_empty();
        let mut apart = self.apart.values();
        is_moved
            || !dirty.content.is_empty()
            || self.shared.is_dirty()
            || apart.any(|copy| copy.is_dirty_progress())
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
        copies.shared = read.shared.clone().unwrap_or_default();
        for (slot, of_slot) in read.copies {
            check_kinds(slot, &of_slot)?;
            let is_in_step = matches!(of_slot.place, Place::InStep);
            let progress = match of_slot.place {
                Place::InStep => read.shared.clone().ok_or(RecordError::NoSharedSets)?,
                Place::Apart(progress) => progress,
            };
            let copy = SlotCopy::from_parts(CopyParts {
                covered: progress.covered().clone(),
                taken: progress.taken().clone(),
                holes: progress.holes().clone(),
                pending: of_slot.pending,
                single: of_slot.single,
                entries: of_slot.entries,
            });
            let copy = copy.map_err(|error| RecordError::Copy { slot, error })?;
            if is_in_step {
                copies.put_in_step(slot, copy.into_state());
            } else {
                copies.apart.insert(slot, copy);
            }
        }
        Ok(copies)
    }

    /// Appends what differs from the disk, which has it from here on.
    ///
    /// Costs a step for each copy that is apart, and for each record.
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
        self.write_sets(writing.batch);
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

    /// Writes where copies have their sets of events, and the sets.
    fn write_sets(&mut self, batch: &mut RecordBatch) {
        if self.shared.take_dirty() {
            batch.put_shared(&self.shared);
        }
        let moved = self.dirty.places.take();
        for slot in moved.keys().filter(|slot| self.in_step.contains_key(slot)) {
            batch.put_copy(*slot, None);
        }
        for (slot, copy) in &mut self.apart {
            if copy.take_dirty_progress() || moved.contains_key(slot) {
                batch.put_copy(*slot, Some(copy.progress()));
            }
        }
    }

    /// Writes what of one slot differs.
    fn write_slot(&mut self, slot: Slot, writing: &mut Writing<'_>) {
        if let Some(copy) = self.apart.get_mut(&slot) {
            let dirty = copy.take_dirty();
            writing.entries(slot, &dirty, copy.entries());
            writing.pending(slot, &dirty, |dot| copy.pending_message(dot));
        } else if let Some(entries) = self.in_step.get_mut(&slot) {
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
