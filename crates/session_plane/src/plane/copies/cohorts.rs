//! Cohorts: copies that have met the same events share the sets of these.
//!
//! A node owns thousands of slots, and mostly knows the same of all of them. While copies merge, a few
//! cohorts are left: those that have merged, and those that have not. So numbers that are taken, and holes
//! that come and go, cost a step for each cohort, in memory and on the disk, and not for each slot.
//!
//! ```text
//!            insert             divide: events are for a part of it
//!   (none) ----------> cohort <-------------------------------------> cohorts
//!                               unite: they have the same sets
//! ```
//!
//! *Invariants*: a slot is in one cohort at most, and a cohort has a slot. Refused input changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::dirty::DirtySet;
use crate::progress::Progress;
use crate::records::{CohortId, RecordBatch};
use crate::{CopySets, Slot, SlotSet, VectorFull, VersionVector};

/// Copies with the same sets of events.
#[derive(Debug, Clone)]
struct Cohort {
    progress: Progress,
    slots: SlotSet,
    /// The disk has a record of this cohort, maybe an older one.
    is_on_disk: bool,
}

/// Cohorts of the copies of a node.
#[derive(Debug, Clone, Default)]
pub(super) struct Cohorts {
    cohorts: BTreeMap<CohortId, Cohort>,
    /// By the number of the slot.
    of_slots: Vec<Option<CohortId>>,
    /// Cohort that a copy was set to last: the next one often has the same sets.
    last_set: Option<CohortId>,
    /// Slots that have another cohort than on the disk, or none.
    moved: DirtySet<Slot>,
    /// Cohorts of the disk that are no more.
    removed: BTreeSet<CohortId>,
    /// The disk has a record of shared sets, as it was written before there were cohorts.
    has_older: bool,
}

/// Whether a cohort has taken events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Taken,
    /// There was no room: they are holes.
    Refused,
}

/// Cohort that claims what it has taken.
#[derive(Debug)]
pub(super) struct CohortClaim {
    pub(super) slots: SlotSet,
    /// Sets of events before the claim.
    pub(super) before: Progress,
}

impl Cohorts {
    /// Cohort of a slot as a restart reads it, and the sets of that cohort.
    pub(super) fn read(&mut self, slot: Slot, id: CohortId, progress: Progress) {
        let cohort = self.cohorts.entry(id).or_insert_with(|| Cohort {
            progress,
            slots: SlotSet::default(),
            is_on_disk: true,
        });
        cohort.slots.insert(slot);
        self.set_id(slot, Some(id));
    }

    /// Puts a slot with these sets into a cohort. Its record was written before there were cohorts.
    pub(super) fn read_older(&mut self, slot: Slot, progress: Progress) {
        self.moved.mark(slot, true);
        self.add_to_same(slot, progress);
    }

    /// The disk has a record of shared sets, or none.
    pub(super) fn set_older(&mut self, has_older: bool) {
        self.has_older = has_older;
    }

    /// Puts slots without a copy into a cohort with these sets.
    pub(super) fn insert(&mut self, slots: SlotSet, progress: Progress) {
        if slots.is_empty() {
            return;
        }
        let id = self.free_id();
        for slot in slots.iter() {
            self.moved.mark(slot, false);
            self.set_id(slot, Some(id));
        }
        self.add(id, slots, progress);
    }

    /// Deletes a slot. True where the disk has a record of its copy.
    pub(super) fn remove(&mut self, slot: Slot) -> bool {
        let Some(id) = self.id(slot) else {
            return false;
        };
        self.set_id(slot, None);
        self.take_from(id, &SlotSet::from_iter([slot]));
        self.moved.forget(&slot)
    }

    /// Sets of the copy of a slot.
    pub(super) fn progress(&self, slot: Slot) -> Option<&Progress> {
        let cohort = self.cohorts.get(&self.id(slot)?);
        cohort.map(|cohort| &cohort.progress)
    }

    /// Gives the copy of a slot, which is there, these sets.
    pub(super) fn set(&mut self, slot: Slot, progress: Progress) {
        let Some(id) = self.id(slot) else { return };
        if self.has(id, &progress) {
            return;
        }
        self.moved.mark(slot, true);
        self.take_from(id, &SlotSet::from_iter([slot]));
        self.add_to_same(slot, progress);
    }

    /// Puts a slot into the cohort of the last one, if that has the same sets, or into a new one.
    fn add_to_same(&mut self, slot: Slot, progress: Progress) {
        let last_set = self.last_set.filter(|last| self.has(*last, &progress));
        let id = last_set.unwrap_or_else(|| self.free_id());
        self.set_id(slot, Some(id));
        self.last_set = Some(id);
        match self.cohorts.get_mut(&id) {
            Some(cohort) => {
                cohort.slots.insert(slot);
            }
            None => self.add(id, SlotSet::from_iter([slot]), progress),
        }
    }

    /// Slots with copies.
    pub(super) fn slots(&self) -> SlotSet {
        let mut cohorts = self.cohorts.values();
        let first = cohorts
            .next()
            .map_or_else(SlotSet::default, |of| of.slots.clone());
        cohorts.fold(first, |slots, cohort| slots.union(&cohort.slots))
    }

    /// Sets of each cohort, with its slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&SlotSet, CopySets<'_>)> {
        let cohorts = self.cohorts.values();
        cohorts.map(|cohort| (&cohort.slots, sets(&cohort.progress)))
    }

    /// Changes the sets of the copies of `slots`. Gives those that have refused events. A cohort that
    /// `is_same` names is not divided for a change that does nothing.
    ///
    /// # Errors
    ///
    /// That of `change`. Some cohorts may be changed.
    pub(super) fn change(
        &mut self,
        slots: &SlotSet,
        is_same: impl Fn(&Progress) -> bool,
        mut change: impl FnMut(&mut Progress) -> Result<Taken, VectorFull>,
    ) -> Result<SlotSet, VectorFull> {
        let mut refused = SlotSet::default();
        for id in self.ids() {
            let Some(id) = self.divide_for(id, slots, &is_same) else {
                continue;
            };
            let Some(cohort) = self.cohorts.get_mut(&id) else {
                continue;
            };
            if change(&mut cohort.progress)? == Taken::Refused {
                refused = refused.union(&cohort.slots);
            }
        }
        Ok(refused)
    }

    /// Changes the sets of all copies.
    ///
    /// # Errors
    ///
    /// That of `change`. Some cohorts may be changed.
    pub(super) fn change_all(
        &mut self,
        change: impl FnMut(&mut Progress) -> Result<(), VectorFull>,
    ) -> Result<(), VectorFull> {
        self.cohorts
            .values_mut()
            .map(|cohort| &mut cohort.progress)
            .try_for_each(change)
    }

    /// Claims what the cohorts have taken, for copies among `slots` that have no hole. One without room for
    /// that leaves everything taken, as a hole does.
    pub(super) fn claim(&mut self, slots: &SlotSet) -> Vec<CohortClaim> {
        let mut claims = Vec::new();
        for id in self.ids() {
            let may_claim = self.cohorts.get(&id).is_some_and(|cohort| {
                let sets = sets(&cohort.progress);
                !sets.taken.is_empty() && sets.holes.is_empty()
            });
            let divided = may_claim.then(|| self.divide_for(id, slots, |_| false));
            let Some(cohort) = divided.flatten().and_then(|id| self.cohorts.get_mut(&id)) else {
                continue;
            };
            let before = cohort.progress.clone();
            if cohort.progress.claim().is_ok() {
                let slots = cohort.slots.clone();
                claims.push(CohortClaim { slots, before });
            }
        }
        claims
    }

    /// Unites cohorts that have come to have the same sets.
    pub(super) fn unite(&mut self) {
        if self.cohorts.len() < 2 {
            return;
        }
        let mut same: BTreeMap<[&VersionVector; 3], Vec<CohortId>> = BTreeMap::new();
        for (id, cohort) in &self.cohorts {
            let sets = sets(&cohort.progress);
            let key = [sets.covered, sets.taken, sets.holes];
            same.entry(key).or_default().push(*id);
        }
        let same: Vec<Vec<CohortId>> = same.into_values().filter(|ids| ids.len() > 1).collect();
        for mut ids in same {
            ids.sort_by_key(|id| self.cohorts.get(id).map_or(0, |cohort| cohort.slots.len()));
            let into = ids.pop();
            for (from, into) in ids.into_iter().zip(std::iter::repeat(into).flatten()) {
                self.move_all(from, into);
            }
        }
    }

    /// Records differ from the disk.
    pub(super) fn is_dirty(&self) -> bool {
        let mut cohorts = self.cohorts.values();
        let is_other = |cohort: &Cohort| !cohort.is_on_disk || cohort.progress.is_dirty();
        self.has_older || !self.moved.is_empty() || !self.removed.is_empty() || cohorts.any(is_other)
    }

    /// Appends what differs from the disk, which has it from here on.
    pub(super) fn write_records(&mut self, batch: &mut RecordBatch) {
        if std::mem::take(&mut self.has_older) {
            batch.remove_shared();
        }
        for id in std::mem::take(&mut self.removed) {
            if !self.cohorts.contains_key(&id) {
                batch.remove_cohort(id);
            }
        }
        for (id, cohort) in &mut self.cohorts {
            let is_dirty = cohort.progress.take_dirty();
            if is_dirty || !cohort.is_on_disk {
                batch.put_cohort(*id, &cohort.progress);
                cohort.is_on_disk = true;
            }
        }
        for slot in self.moved.take().into_keys() {
            if let Some(id) = self.id(slot) {
                batch.put_copy(slot, id);
            }
        }
    }

    /// Cohort of a slot.
    fn id(&self, slot: Slot) -> Option<CohortId> {
        self.of_slots.get(usize::from(slot.number())).copied().flatten()
    }

    fn set_id(&mut self, slot: Slot, id: Option<CohortId>) {
        let at = usize::from(slot.number());
        if self.of_slots.len() <= at {
            self.of_slots.resize(at + 1, None);
        }
        self.of_slots[at] = id;
    }

    fn ids(&self) -> Vec<CohortId> {
        self.cohorts.keys().copied().collect()
    }

    fn has(&self, id: CohortId, progress: &Progress) -> bool {
        let cohort = self.cohorts.get(&id);
        cohort.is_some_and(|cohort| cohort.progress == *progress)
    }

    /// First id that no cohort has.
    fn free_id(&self) -> CohortId {
        let used = self.cohorts.keys().zip(0..);
        let first = used.take_while(|(id, number)| id.0 == *number).count();
        CohortId(first as u64)
    }

    fn add(&mut self, id: CohortId, slots: SlotSet, progress: Progress) {
        let cohort = Cohort {
            progress,
            slots,
            is_on_disk: false,
        };
        self.cohorts.insert(id, cohort);
    }

    /// Takes slots out of a cohort, which goes with the last one.
    fn take_from(&mut self, id: CohortId, slots: &SlotSet) {
        let Some(cohort) = self.cohorts.get_mut(&id) else {
            return;
        };
        cohort.slots = cohort.slots.minus(slots);
        if cohort.slots.is_empty() {
            if cohort.is_on_disk {
                self.removed.insert(id);
            }
            self.cohorts.remove(&id);
        }
    }

    /// Divides a cohort, so that one has just those of its slots that are in `slots`. Gives that one. None where
    /// there is nothing to be changed.
    fn divide_for(
        &mut self,
        id: CohortId,
        slots: &SlotSet,
        is_same: impl Fn(&Progress) -> bool,
    ) -> Option<CohortId> {
        let cohort = self.cohorts.get(&id)?;
        if cohort.slots.is_within(slots) {
            return Some(id);
        }
        let inside = cohort.slots.intersection(slots);
        if inside.is_empty() || is_same(&cohort.progress) {
            return None;
        }
        let outside = cohort.slots.minus(&inside);
        let progress = cohort.progress.clone();
        let new = self.free_id();
        let stays = outside.len() < inside.len();
        let moves = if stays { outside } else { inside };
        self.take_from(id, &moves);
        for slot in moves.iter() {
            self.moved.mark(slot, true);
            self.set_id(slot, Some(new));
        }
        self.add(new, moves, progress);
        Some(if stays { id } else { new })
    }

    fn move_all(&mut self, from: CohortId, into: CohortId) {
        let Some(moves) = self.cohorts.get(&from).map(|cohort| cohort.slots.clone()) else {
            return;
        };
        self.take_from(from, &moves);
        for slot in moves.iter() {
            self.moved.mark(slot, true);
            self.set_id(slot, Some(into));
        }
        if let Some(cohort) = self.cohorts.get_mut(&into) {
            cohort.slots = cohort.slots.union(&moves);
        }
    }
}

fn sets(progress: &Progress) -> CopySets<'_> {
    CopySets {
        covered: progress.covered(),
        taken: progress.taken(),
        holes: progress.holes(),
    }
}
