//! Reading of copies, and claims: pending messages get their entries where no hole is.

use std::collections::BTreeMap;

use super::Copies;
use super::cohorts::CohortClaim;
use crate::copy::CopyState;
use crate::progress::Progress;
use crate::queue_limits::QueueValue;
use crate::transfer::Held;
use crate::{
    ClientId, Dot, Entry, EntryId, Matched, Pending, PendingMessage, Slot, SlotCopy, SlotEntries, SlotSet,
    VectorFull, VersionVector,
};

/// Copy of one slot, as it stands.
#[derive(Debug)]
pub struct CopyRef<'a, V> {
    /// Slot of the copy.
    pub slot: Slot,
    /// Entries and single covered dots.
    pub entries: &'a SlotEntries<V>,
    /// V: events that the copy has decided upon.
    pub covered: &'a VersionVector,
    /// Events that the copy has and has not claimed.
    pub taken: &'a VersionVector,
    /// Events that the copy lacks.
    pub holes: &'a VersionVector,
}

/// Message that a claim has queued for a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimedMessage {
    /// Slot of the session.
    pub slot: Slot,
    /// Client whose session it is.
    pub client: ClientId,
    /// Event of the PUBLISH.
    pub message: Dot,
}

impl<V: Ord + QueueValue, M> Copies<V, M> {
    /// Copy of a slot.
    pub fn get(&self, slot: Slot) -> Option<CopyRef<'_, V>> {
        let entries = self.entries.get(&slot)?;
        let progress = self.cohorts.progress(slot)?;
        Some(copy_ref(slot, entries, progress))
    }

    /// Events that the copy of a slot lacks.
    pub fn holes(&self, slot: Slot) -> Option<&VersionVector> {
        self.cohorts.progress(slot).map(Progress::holes)
    }

    /// Entry of a client, whether or not it counts.
    pub fn entry(&self, client: &ClientId, id: EntryId) -> Option<&Entry<V>> {
        let copy = self.get(Slot::of_client(client.as_bytes()))?;
        copy.entries.session(client.as_bytes())?.get(id)
    }

    /// Claims what the copies of `slots` have taken, where no hole is. The caller sees to it that these have
    /// merged. Gives the messages that were queued.
    ///
    /// `matches` finds the sessions that a message matches, in the copy as it stands. A claim costs
    /// O(log n) in the slots with pending messages, and looks at no other slot.
    pub fn claim(
        &mut self,
        slots: &SlotSet,
        mut matches: impl FnMut(&CopyRef<'_, V>, Dot, &Pending<M>) -> Vec<Matched<V>>,
    ) -> Vec<ClaimedMessage> {
        let mut queued = Vec::new();
        for CohortClaim { slots, before } in self.cohorts.claim(slots) {
            let pending = self.pending.keys().copied();
            for slot in pending
                .filter(|slot| slots.contains(*slot))
                .collect::<Vec<Slot>>()
            {
                self.claim_pending(slot, &before, &mut matches, &mut queued);
            }
            let single = self.with_single.iter().copied();
            for slot in single.filter(|slot| slots.contains(*slot)).collect::<Vec<Slot>>() {
                self.drop_covered(slot);
            }
        }
        self.cohorts.unite();
        queued
    }

    /// Gives pending messages of a slot, whose cohort has claimed them, their entries.
    fn claim_pending(
        &mut self,
        slot: Slot,
        before: &Progress,
        matches: &mut impl FnMut(&CopyRef<'_, V>, Dot, &Pending<M>) -> Vec<Matched<V>>,
        queued: &mut Vec<ClaimedMessage>,
    ) {
        let Some(mut copy) = self.take_out(slot) else {
            return;
        };
        copy = SlotCopy::from_state(CopyState {
            progress: before.clone(),
            ..copy.into_state()
        });
        let claimed = copy.claim(|copy, message, pending| {
            let at = copy_ref(slot, copy.entries(), copy.progress());
            let matched = matches(&at, message, pending);
            queued.extend(matched.iter().map(|matched| ClaimedMessage {
                slot,
                client: matched.client.clone(),
                message,
            }));
            matched
        });
        debug_assert!(claimed.is_ok(), "its cohort has no hole, and had room");
        self.dirty.touch(slot);
        let CopyState { entries, pending, .. } = copy.into_state();
        self.put(slot, entries, pending);
    }

    /// Drops single dots that the cohort has come to cover.
    fn drop_covered(&mut self, slot: Slot) {
        let (Some(entries), Some(progress)) = (self.entries.get_mut(&slot), self.cohorts.progress(slot))
        else {
            return;
        };
        entries.drop_covered(progress.covered());
        self.dirty.touch(slot);
        if entries.single().is_empty() {
            self.with_single.remove(&slot);
        }
    }

    /// Pending messages of a slot, in ascending order of their dots.
    pub fn pending(&self, slot: Slot) -> impl Iterator<Item = (Dot, &Pending<M>)> {
        let of_slot = self.pending.get(&slot).into_iter().flat_map(BTreeMap::iter);
        of_slot.map(|(dot, pending)| (*dot, pending))
    }

    /// Pending message of a slot.
    pub fn pending_message(&self, slot: Slot, message: Dot) -> Option<&Pending<M>> {
        self.pending.get(&slot)?.get(&message)
    }

    /// Events that a copy of this node covers or has taken.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where they are too scattered to name.
    pub fn known(&self) -> Result<VersionVector, VectorFull> {
        let mut known = VersionVector::default();
        for sets in self.all_sets() {
            known.unite(sets.covered)?;
            known.unite(sets.taken)?;
        }
        Ok(known)
    }
}

impl<V: Ord + QueueValue, M: Clone> Copies<V, M> {
    /// Copy of a slot as an answer about it begins.
    pub(in crate::plane) fn held(&self, slot: Slot) -> Held<V, M> {
        let Some(copy) = self.get(slot) else {
            return Held::default();
        };
        let mut held = Held::whole(copy.entries, copy.covered);
        held.begin.taken = copy.taken.clone();
        held.begin.holes = copy.holes.clone();
        let pending = self.pending(slot).map(|(dot, pending)| PendingMessage {
            dot,
            pending: pending.clone(),
        });
        held.pending = pending.collect();
        held
    }
}

fn copy_ref<'a, V>(slot: Slot, entries: &'a SlotEntries<V>, progress: &'a Progress) -> CopyRef<'a, V> {
    CopyRef {
        slot,
        entries,
        covered: progress.covered(),
        taken: progress.taken(),
        holes: progress.holes(),
    }
}
