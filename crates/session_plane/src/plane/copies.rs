//! Copies of a node: those in step share one progress, each other one has its own.
//!
//! ```text
//!            make                 join: same progress, merged
//!   (none) --------> apart copy <------------------------------> copy in step
//!                                 leave: asked, not taken, merged
//! ```
//!
//! A node owns thousands of slots, and mostly knows the same of all of them. Such copies are *in
//! step*: they have the same covered, taken and missing events. The node keeps these sets once. So
//! numbers that are taken, and holes that come and go, cost nothing in slots that no event is for.
//! A copy is apart while it is asked for, or while it differs.
//!
//! *Invariants*: a slot has one copy at most, in step or apart. Of a copy in step the node keeps
//! pending messages only while it has some. Refused input changes no copy but those that are named.

use std::collections::{BTreeMap, BTreeSet};

use crate::copy::{CopyState, PENDING_MAX, drop_decided};
use crate::progress::Progress;
use crate::queue_limits::QueueValue;
use crate::{
    Change, ClientId, CopySets, Dot, EntryId, Interval, Pending, Retired, Slot, SlotCopy, SlotEntries,
    SlotSet, VectorFull, VersionVector,
};

mod claiming;
mod records;

pub use claiming::{ClaimedMessage, CopyRef};
use records::DirtyCopies;

/// Copies of one node, by slot.
///
/// `V` is the value of entries, `M` the content of pending messages.
#[derive(Debug, Clone)]
pub struct Copies<V, M> {
    /// Progress of all copies in step.
    shared: Progress,
    in_step: BTreeMap<Slot, SlotEntries<V>>,
    /// Keys of `in_step`.
    step_slots: SlotSet,
    /// Pending messages of copies in step; no map is empty.
    pending: BTreeMap<Slot, BTreeMap<Dot, Pending<M>>>,
    /// Copies in step that may have single dots.
    with_single: BTreeSet<Slot>,
    apart: BTreeMap<Slot, SlotCopy<V, M>>,
    /// Apart copies that have changed since a claim of them was tried last.
    unclaimed: BTreeSet<Slot>,
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
            shared: Progress::default(),
            in_step: BTreeMap::new(),
            step_slots: SlotSet::default(),
            pending: BTreeMap::new(),
            with_single: BTreeSet::new(),
            apart: BTreeMap::new(),
            unclaimed: BTreeSet::new(),
            dirty: DirtyCopies::default(),
        }
    }
}

impl<V: Ord + QueueValue, M> Copies<V, M> {
    /// Makes an apart copy that lacks all of `known`, unless the slot has a copy.
    pub fn make(&mut self, slot: Slot, known: VersionVector) {
        if !self.contains(slot) {
            self.apart.insert(slot, SlotCopy::new(known));
            self.dirty.places.mark(slot, false);
            self.unclaimed.insert(slot);
        }
    }

    /// Deletes the copy of a slot.
    ///
    /// The caller first makes holes in the routes of what the copy knew: a node tells what it has
    /// settled, and would have given away what it tells that it never had ([`Retiring`](crate::Retiring)).
    pub fn remove(&mut self, slot: Slot) {
        self.leave(slot);
        if let Some(copy) = self.apart.remove(&slot) {
            self.dirty.remove_copy(slot, copy);
        }
    }

    /// The slot has a copy.
    pub fn contains(&self, slot: Slot) -> bool {
        self.in_step.contains_key(&slot) || self.apart.contains_key(&slot)
    }

    /// Slots with copies.
    pub fn slots(&self) -> SlotSet {
        self.step_slots.union(&self.apart.keys().copied().collect())
    }

    /// Slots of the copies that are apart, in ascending order.
    pub fn apart(&self) -> impl Iterator<Item = Slot> + '_ {
        self.apart.keys().copied()
    }

    /// Takes the apart copies of which a claim is to be tried: they have changed since.
    pub fn take_unclaimed(&mut self) -> BTreeSet<Slot> {
        std::mem::take(&mut self.unclaimed)
    }

    /// A claim is to be tried of all apart copies: what they wait for may have ended.
    pub fn try_all(&mut self) {
        self.unclaimed.extend(self.apart.keys());
    }

    /// Copy of a slot that is apart.
    pub fn apart_copy(&self, slot: Slot) -> Option<&SlotCopy<V, M>> {
        self.apart.get(&slot)
    }

    /// Copies in step have holes.
    pub fn has_shared_holes(&self) -> bool {
        !self.in_step.is_empty() && !self.shared.holes().is_empty()
    }

    /// A copy of one of `slots` has a hole among `events`.
    pub fn lack(&self, slots: &SlotSet, events: &Interval) -> bool {
        let mut apart = self.apart.iter().filter(|(slot, _)| slots.contains(**slot));
        self.has_shared_holes() && self.shared.holes().meets(events)
            || apart.any(|(_, copy)| copy.holes().meets(events))
    }

    /// Events that copies lack: one set for those in step, and one for each other.
    pub fn all_holes(&self) -> impl Iterator<Item = &VersionVector> {
        self.all_sets().map(|sets| sets.holes)
    }

    /// Copy of a slot with a progress of its own: for a merge, or while it is not merged.
    pub fn leave(&mut self, slot: Slot) -> Option<&mut SlotCopy<V, M>> {
        if let Some(entries) = self.in_step.remove(&slot) {
            self.step_slots.remove(slot);
            self.with_single.remove(&slot);
            let copy = SlotCopy::from_state(CopyState {
                entries,
                progress: self.shared.clone(),
                pending: self.pending.remove(&slot).unwrap_or_default(),
            });
            self.apart.insert(slot, copy);
            self.dirty.places.mark(slot, true);
        }
        let copy = self.apart.get_mut(&slot)?;
        self.dirty.touch(slot);
        self.unclaimed.insert(slot);
        Some(copy)
    }

    /// Brings a merged copy in step, if it has the same progress as those in step, or if none is.
    /// False where it differs or is not there.
    pub fn join(&mut self, slot: Slot) -> bool {
        let Some(copy) = self.apart.get(&slot) else {
            return self.in_step.contains_key(&slot);
        };
        if !self.in_step.is_empty() && *copy.progress() != self.shared {
            return false;
        }
        let Some(copy) = self.apart.remove(&slot) else {
            return false;
        };
        let state = copy.into_state();
        if self.in_step.is_empty() {
            self.shared = state.progress.clone();
            self.shared.mark();
        }
        self.dirty.places.mark(slot, true);
        self.put_in_step(slot, state);
        true
    }

    /// Adds a copy whose sets of events are the shared ones.
    fn put_in_step(&mut self, slot: Slot, state: CopyState<V, M>) {
        let CopyState { entries, pending, .. } = state;
        if !pending.is_empty() {
            self.pending.insert(slot, pending);
        }
        if !entries.single().is_empty() {
            self.with_single.insert(slot);
        }
        self.in_step.insert(slot, entries);
        self.step_slots.insert(slot);
    }

    /// Takes numbers for the slots that have a copy. Gives the slots in which they, or the event
    /// among them, were refused: there the numbers, or the event, are a hole.
    ///
    /// Costs O(log n) in the slots that the event is for, and in those that are apart.
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
        let is_for_step = self.part_for(slots, |shared| shared.has(&VersionVector::of_apart([numbers])));
        let event = numbers.last();
        let mut refused = SlotSet::default();
        for SlotEffect { slot, effect } in effects {
            if slots.contains(slot) && !self.apply(slot, event, effect) {
                refused.insert(slot);
                self.refuse(slot, numbers, event)?;
            }
        }
        if is_for_step && !self.in_step.is_empty() && self.shared.take(numbers).is_err() {
            for slot in self.step_slots.clone().iter() {
                self.leave(slot);
            }
        }
        let apart = self.apart.iter_mut();
        for (slot, copy) in apart.filter(|(slot, _)| slots.contains(**slot)) {
            self.unclaimed.insert(*slot);
            if !refused.contains(*slot) && copy.take(numbers).is_err() {
                copy.need(&VersionVector::of_apart([numbers]))?;
                refused.insert(*slot);
            }
        }
        Ok(refused)
    }

    /// Makes holes of what the copies of `slots` lack of `known`.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where a copy has no room for the holes. Others may have them already; the
    /// node must not take the event that told of `known`.
    pub fn need(&mut self, slots: &SlotSet, known: &VersionVector) -> Result<(), VectorFull> {
        if self.part_for(slots, |shared| shared.has(known)) && !self.in_step.is_empty() {
            self.shared.need(known)?;
        }
        let owned = self.apart.iter_mut().filter(|(slot, _)| slots.contains(**slot));
        for (_, copy) in owned {
            copy.need(known)?;
        }
        Ok(())
    }

    /// As [`Copies::need`], in every copy.
    ///
    /// # Errors
    ///
    /// As [`Copies::need`].
    pub fn need_everywhere(&mut self, known: &VersionVector) -> Result<(), VectorFull> {
        if !self.in_step.is_empty() {
            self.shared.need(known)?;
        }
        self.apart.values_mut().try_for_each(|copy| copy.need(known))
    }

    /// Parts copies in step where events are for `slots`, only some of them, unless all have the events
    /// by `has_events`: the fewer ones leave. True where the events are for all that are in step then.
    ///
    /// Mostly they are for all. An event that is sent again is for one.
    fn part_for(&mut self, slots: &SlotSet, has_events: impl FnOnce(&Progress) -> bool) -> bool {
        if self.step_slots.is_within(slots) {
            return true;
        }
        if has_events(&self.shared) {
            return false;
        }
        let inside = self.step_slots.intersection(slots);
        let outside = self.step_slots.minus(slots);
        let stay = outside.len() < inside.len();
        for slot in if stay { outside } else { inside }.iter() {
            self.leave(slot);
        }
        stay
    }

    /// Drops garbage of a client.
    pub fn drop_garbage(&mut self, slot: Slot, client: &ClientId, garbage: &BTreeSet<EntryId>) {
        self.dirty.touch(slot);
        if let Some(copy) = self.apart.get_mut(&slot) {
            copy.drop_garbage(client, garbage);
        } else if let Some(entries) = self.in_step.get_mut(&slot) {
            entries.drop_garbage(client, garbage);
        }
    }

    /// Covers all of runs that have ended, in the copies that have what was agreed of them. A copy
    /// whose vector has no room keeps the runs.
    pub fn retire(&mut self, retired: &Retired) {
        if !self.in_step.is_empty() {
            // A vector without room stays as it is, here and below.
            let _ = self.shared.retire(retired);
            let covered = self.shared.covered();
            for (slot, entries) in &mut self.in_step {
                entries.drop_covered(covered);
                if let Some(pending) = self.pending.get_mut(slot) {
                    drop_decided(pending, covered, &mut entries.dirty_mut().pending);
                }
                self.dirty.note(*slot, entries);
            }
            self.pending.retain(|_, pending| !pending.is_empty());
        }
        for (slot, copy) in &mut self.apart {
            let _ = copy.retire(retired);
            self.unclaimed.insert(*slot);
            self.dirty.note(*slot, copy.entries());
        }
    }

    /// Sets of events of all copies; those in step are named once.
    pub fn all_sets(&self) -> impl Iterator<Item = CopySets<'_>> {
        let shared = (!self.in_step.is_empty()).then(|| CopySets {
            covered: self.shared.covered(),
            taken: self.shared.taken(),
            holes: self.shared.holes(),
        });
        shared.into_iter().chain(self.apart.values().map(SlotCopy::sets))
    }

    /// Applies an event to one copy. False where it is refused; nothing is changed then.
    fn apply(&mut self, slot: Slot, dot: Dot, effect: Effect<V, M>) -> bool {
        self.dirty.touch(slot);
        if let Some(copy) = self.apart.get_mut(&slot) {
            let applied = match effect {
                Effect::Change(change) => copy.apply(change),
                Effect::Message(pending) => copy.take_message(dot, pending),
            };
            return applied.is_ok();
        }
        let Some(entries) = self.in_step.get_mut(&slot) else {
            return true;
        };
        match effect {
            Effect::Change(Change {
                adds: Some(entry), ..
            }) if entry.names_no_event() => false,
            Effect::Change(change) => {
                let applied = entries.apply(self.shared.covered(), change).is_ok();
                if !entries.single().is_empty() {
                    self.with_single.insert(slot);
                }
                applied
            }
            Effect::Message(_) if self.shared.covered().covers(dot) => true,
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

    /// Takes the numbers before an event that was refused, which is a hole.
    fn refuse(&mut self, slot: Slot, numbers: Interval, event: Dot) -> Result<(), VectorFull> {
        let Some(copy) = self.leave(slot) else {
            return Ok(());
        };
        if let Some(before) = Interval::new(event.run, numbers.first().number, event.number - 1) {
            copy.take(before)?;
        }
        match Interval::one(event) {
            Some(event) => copy.need(&VersionVector::of_apart([event])),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
