//! Copies of a node: their entries and pending messages, and the cohorts that have their sets of events.
//!
//! A copy claims what it has taken once it has no hole and has merged ([`Copies::claim`]). Until then its
//! cohort lags behind the others, and comes to have the same sets after that.
//!
//! *Invariants*: a slot has one copy at most. Of a copy the node keeps pending messages only while it has
//! some. Refused input changes no copy but those that are named.

use std::collections::{BTreeMap, BTreeSet};

use crate::copy::{CopyState, PENDING_MAX, drop_decided};
use crate::progress::Progress;
use crate::queue_limits::QueueValue;
use crate::{
    Change, ClientId, CopySets, Dot, EntryId, Interval, Pending, Retired, Slot, SlotCopy, SlotEntries,
    SlotSet, VectorFull, VersionVector,
};

mod claiming;
mod cohorts;
mod records;

pub use claiming::{ClaimedMessage, CopyRef};
use cohorts::{Cohorts, Taken};
use records::DirtyCopies;

/// Copies of one node, by slot.
///
/// `V` is the value of entries, `M` the content of pending messages.
#[derive(Debug, Clone)]
pub struct Copies<V, M> {
    entries: BTreeMap<Slot, SlotEntries<V>>,
    cohorts: Cohorts,
    /// Pending messages; no map is empty.
    pending: BTreeMap<Slot, BTreeMap<Dot, Pending<M>>>,
    /// Copies that may have single dots.
    with_single: BTreeSet<Slot>,
    /// What differs from the disk.
    dirty: DirtyCopies,
}

/// Effect of an event in one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect<V, M> {
    /// Change of a session; it shows at once.
    Change(Change<V>),
    /// Message, which is pending until it is claimed.
    Message(Pending<M>),
}

/// Numbers of a run that were taken for some slots, and the event of the last one.
#[derive(Debug, Clone)]
pub struct TakenNumbers<'a, V, M> {
    /// Numbers.
    pub numbers: Interval,
    /// Slots that this node owned by the ring of the run at these numbers.
    pub slots: &'a SlotSet,
    /// Effects of the event with the last number, one for each slot that it is for.
    pub effects: Vec<SlotEffect<V, M>>,
}

/// Effect of an event in one of its slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotEffect<V, M> {
    /// Slot.
    pub slot: Slot,
    /// What the event does there.
    pub effect: Effect<V, M>,
}

impl<V, M> Default for Copies<V, M> {
    /// No copy.
    fn default() -> Copies<V, M> {
        Copies {
            entries: BTreeMap::new(),
            cohorts: Cohorts::default(),
            pending: BTreeMap::new(),
            with_single: BTreeSet::new(),
            dirty: DirtyCopies::default(),
        }
    }
}

impl<V: Ord + QueueValue, M> Copies<V, M> {
    /// Makes copies that lack all of `known`, for those of `slots` that have none.
    pub fn make(&mut self, slots: &SlotSet, known: VersionVector) {
        let new = slots.minus(&self.slots());
        for slot in new.iter() {
            self.entries.insert(slot, SlotEntries::default());
        }
        self.cohorts.insert(new, Progress::lacking(known));
    }

    /// Deletes the copy of a slot.
    ///
    /// The caller first makes holes in the routes of what the copy knew: a node tells what it has
    /// settled, and would have given away what it tells that it never had ([`Retiring`](crate::Retiring)).
    pub fn remove(&mut self, slot: Slot) {
        if let Some(copy) = self.take_out(slot) {
            self.entries.remove(&slot);
            let is_on_disk = self.cohorts.remove(slot);
            self.dirty.remove_copy(slot, copy, is_on_disk);
        }
    }

    /// The slot has a copy.
    pub fn contains(&self, slot: Slot) -> bool {
        self.entries.contains_key(&slot)
    }

    /// Slots with copies.
    pub fn slots(&self) -> SlotSet {
        self.cohorts.slots()
    }

    /// Slots whose copies have holes.
    pub fn slots_with_holes(&self) -> SlotSet {
        let with_holes = self.cohorts.iter().filter(|(_, sets)| !sets.holes.is_empty());
        with_holes.fold(SlotSet::default(), |slots, (more, _)| slots.union(more))
    }

    /// A copy of one of `slots` has a hole among `events`.
    pub fn lack(&self, slots: &SlotSet, events: &Interval) -> bool {
        let mut cohorts = self.cohorts.iter();
        cohorts.any(|(of, sets)| sets.holes.meets(events) && !of.intersection(slots).is_empty())
    }

    /// Sets of events of all copies; equal ones are named once.
    pub fn all_sets(&self) -> impl Iterator<Item = CopySets<'_>> {
        self.cohorts.iter().map(|(_, sets)| sets)
    }

    /// Changes the copy of a slot: it merges, or closes holes. None where there is none.
    pub fn change<T>(&mut self, slot: Slot, change: impl FnOnce(&mut SlotCopy<V, M>) -> T) -> Option<T> {
        let mut copy = self.take_out(slot)?;
        self.dirty.touch(slot);
        let changed = change(&mut copy);
        let CopyState {
            entries,
            progress,
            pending,
        } = copy.into_state();
        self.cohorts.set(slot, progress);
        self.put(slot, entries, pending);
        Some(changed)
    }

    /// Takes entries and messages of a slot out, with the sets of its cohort, in which it stays until they are
    /// put back.
    fn take_out(&mut self, slot: Slot) -> Option<SlotCopy<V, M>> {
        let progress = self.cohorts.progress(slot)?.clone();
        let entries = std::mem::take(self.entries.get_mut(&slot)?);
        self.with_single.remove(&slot);
        let pending = self.pending.remove(&slot).unwrap_or_default();
        Some(SlotCopy::from_state(CopyState {
            entries,
            progress,
            pending,
        }))
    }

    /// Puts entries and messages of a slot that is in a cohort.
    fn put(&mut self, slot: Slot, entries: SlotEntries<V>, pending: BTreeMap<Dot, Pending<M>>) {
        if !pending.is_empty() {
            self.pending.insert(slot, pending);
        }
        if !entries.single().is_empty() {
            self.with_single.insert(slot);
        }
        self.entries.insert(slot, entries);
    }

    /// Takes numbers for the slots that have a copy. Gives the slots in which they, or the event
    /// among them, were refused: there the numbers, or the event, are a hole.
    ///
    /// Costs O(log n) in the slots that the event is for, and a step for each cohort.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where a refused number cannot even be a hole. The copy of that slot must not
    /// be used any more: the node deletes it and begins a new one.
    pub fn take(&mut self, taken: TakenNumbers<'_, V, M>) -> Result<SlotSet, VectorFull> {
        let TakenNumbers {
            numbers,
            slots,
            effects,
        } = taken;
        let mut refused = SlotSet::default();
        for SlotEffect { slot, effect } in effects {
            if slots.contains(slot) && !self.apply(slot, numbers.last(), effect) {
                refused.insert(slot);
            }
        }
        for slot in refused.iter() {
            self.refuse(slot, numbers)?;
        }
        let events = VersionVector::of_apart([numbers]);
        let without_room = self.cohorts.change(
            &slots.minus(&refused),
            |progress| progress.has(&events),
            |progress| match progress.take(numbers) {
                Ok(()) => Ok(Taken::Taken),
                Err(VectorFull) => progress.need(&events).map(|()| Taken::Refused),
            },
        )?;
        Ok(refused.union(&without_room))
    }

    /// Makes holes of what the copies of `slots` lack of `known`.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where a copy has no room for the holes. Others may have them already; the
    /// node must not take the event that told of `known`.
    pub fn need(&mut self, slots: &SlotSet, known: &VersionVector) -> Result<(), VectorFull> {
        let need = |progress: &mut Progress| progress.need(known).map(|()| Taken::Taken);
        self.cohorts
            .change(slots, |progress| progress.knows(known), need)
            .map(|_| ())
    }

    /// As [`Copies::need`], in every copy.
    ///
    /// # Errors
    ///
    /// As [`Copies::need`].
    pub fn need_everywhere(&mut self, known: &VersionVector) -> Result<(), VectorFull> {
        self.cohorts.change_all(|progress| progress.need(known))
    }

    /// Drops garbage of a client.
    pub fn drop_garbage(&mut self, slot: Slot, client: &ClientId, garbage: &BTreeSet<EntryId>) {
        self.dirty.touch(slot);
        if let Some(entries) = self.entries.get_mut(&slot) {
            entries.drop_garbage(client, garbage);
        }
    }

    /// Covers all of runs that have ended, in the copies that have what was agreed of them. A copy
    /// whose vector has no room keeps the runs.
    pub fn retire(&mut self, retired: &Retired) {
        // A vector without room stays as it is.
        let retire = |progress: &mut Progress| progress.retire(retired).or(Ok(()));
        let retired: Result<(), VectorFull> = self.cohorts.change_all(retire);
        debug_assert!(retired.is_ok(), "it stays as it is");
        for (slot, entries) in &mut self.entries {
            let Some(progress) = self.cohorts.progress(*slot) else {
                continue;
            };
            let covered = progress.covered();
            entries.drop_covered(covered);
            if let Some(pending) = self.pending.get_mut(slot) {
                drop_decided(pending, covered, &mut entries.dirty_mut().pending);
            }
            self.dirty.note(*slot, entries);
        }
        self.pending.retain(|_, pending| !pending.is_empty());
    }

    /// Applies an event to one copy. False where it is refused; nothing is changed then.
    fn apply(&mut self, slot: Slot, dot: Dot, effect: Effect<V, M>) -> bool {
        self.dirty.touch(slot);
        let (Some(entries), Some(progress)) = (self.entries.get_mut(&slot), self.cohorts.progress(slot))
        else {
            return true;
        };
        match effect {
            Effect::Change(Change {
                adds: Some(entry), ..
            }) if entry.names_no_event() => false,
            Effect::Change(change) => {
                let applied = entries.apply(progress.covered(), change).is_ok();
                if !entries.single().is_empty() {
                    self.with_single.insert(slot);
                }
                applied
            }
            Effect::Message(_) if progress.covered().covers(dot) => true,
            Effect::Message(pending) => {
                let of_slot = self.pending.entry(slot).or_default();
                let is_known = of_slot.contains_key(&dot);
                let has_room = of_slot.len() < PENDING_MAX;
                if !is_known && has_room {
                    of_slot.insert(dot, pending);
                    entries.dirty_mut().pending.mark(dot, false);
                }
                is_known || has_room
            }
        }
    }

    /// Takes the numbers before the last one, whose event was refused. That is a hole.
    fn refuse(&mut self, slot: Slot, numbers: Interval) -> Result<(), VectorFull> {
        let event = numbers.last();
        let refuse = |progress: &mut Progress| {
            if let Some(before) = Interval::new(event.run, numbers.first().number, event.number - 1) {
                progress.take(before)?;
            }
            match Interval::one(event) {
                Some(event) => progress.need(&VersionVector::of_apart([event])),
                None => Ok(()),
            }
        };
        let refuse = |progress: &mut Progress| refuse(progress).map(|()| Taken::Taken);
        let slots = SlotSet::from_iter([slot]);
        self.cohorts.change(&slots, |_| false, refuse).map(|_| ())
    }
}

#[cfg(test)]
mod tests;
