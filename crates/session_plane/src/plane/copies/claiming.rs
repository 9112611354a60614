//! Reading of copies, and claims: pending messages get their entries where no hole is.

use std::collections::BTreeMap;

use super::Copies;
use crate::copy::CopyState;
use crate::queue_limits::QueueValue;
use crate::transfer::Held;
use crate::{
    ClaimError, ClientId, Dot, Entry, EntryId, Matched, Pending, PendingMessage, Slot, SlotCopy, SlotEntries,
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

impl<V> CopyRef<'_, V> {
    /// The copy has decided upon or taken all that is `known` to exist.
    pub fn has_all(&self, known: &VersionVector) -> bool {
        known.minus(self.covered).is_within(self.taken)
    }
}

impl<V: Ord + QueueValue, M> Copies<V, M> {
    /// Copy of a slot.
    pub fn get(&self, slot: Slot) -> Option<CopyRef<'_, V>> {
        if let Some(copy) = self.apart.get(&slot) {
            return Some(copy_ref(slot, copy));
        }
        self.in_step.get(&slot).map(|entries| CopyRef {
            slot,
            entries,
            covered: self.shared.covered(),
            taken: self.shared.taken(),
            holes: self.shared.holes(),
        })
    }

    /// Entry of a client, whether or not it counts.
    pub fn entry(&self, client: &ClientId, id: EntryId) -> Option<&Entry<V>> {
        let copy = self.get(Slot::of_client(client.as_bytes()))?;
        copy.entries.session(client.as_bytes())?.get(id)
    }

    /// Claims what the copies in step have taken, if they have no hole. Gives the messages that
    /// were queued.
    ///
    /// `matches` finds the sessions that a message matches, in the copy as it stands. A claim costs
    /// O(log n) in the slots with pending messages, and looks at no other slot.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where the shared vector would be too long. Nothing is changed.
    pub fn claim_shared(
        &mut self,
        mut matches: impl FnMut(&CopyRef<'_, V>, Dot, &Pending<M>) -> Vec<Matched<V>>,
    ) -> Result<Vec<ClaimedMessage>, VectorFull> {
        let mut queued = Vec::new();
        if !self.shared.holes().is_empty() || self.shared.taken().is_empty() {
            return Ok(queued);
        }
        let before = (!self.pending.is_empty()).then(|| self.shared.clone());
        self.shared.claim()?;
        for (slot, pending) in std::mem::take(&mut self.pending) {
            let Some(entries) = self.in_step.remove(&slot) else {
                continue;
            };
            let mut copy = SlotCopy::from_state(CopyState {
                entries,
                progress: before.clone().unwrap_or_default(),
                pending,
            });
            // The vector was found to have room, so the claim has it too.
            let result = claim(slot, &mut copy, &mut matches, &mut queued);
            debug_assert!(result.is_ok(), "a copy in step has no hole");
            self.dirty.touch(slot);
            self.in_step.insert(slot, copy.into_state().entries);
        }
        // Copies that were ahead may be in step now.
        self.try_all();
        for slot in std::mem::take(&mut self.with_single) {
            if let Some(entries) = self.in_step.get_mut(&slot) {
                entries.drop_covered(self.shared.covered());
                self.dirty.touch(slot);
                if !entries.single().is_empty() {
                    self.with_single.insert(slot);
                }
            }
        }
        Ok(queued)
    }

    /// Claims what one apart copy has taken. The caller sees to it that the copy has merged.
    ///
    /// # Errors
    ///
    /// [`ClaimError`] where nothing may be claimed.
    pub fn claim_apart(
        &mut self,
        slot: Slot,
        mut matches: impl FnMut(&CopyRef<'_, V>, Dot, &Pending<M>) -> Vec<Matched<V>>,
    ) -> Result<Vec<ClaimedMessage>, ClaimError> {
        let mut queued = Vec::new();
        if let Some(copy) = self.apart.get_mut(&slot) {
            self.dirty.touch(slot);
            claim(slot, copy, &mut matches, &mut queued)?;
        }
        Ok(queued)
    }

    /// Pending messages of a slot, in ascending order of their dots.
    pub fn pending(&self, slot: Slot) -> impl Iterator<Item = (Dot, &Pending<M>)> {
        let apart = self.apart.get(&slot).into_iter().flat_map(SlotCopy::pending);
        let in_step = self.pending.get(&slot).into_iter().flat_map(BTreeMap::iter);
        apart.chain(in_step.map(|(dot, pending)| (*dot, pending)))
    }

    /// Pending message of a slot.
    pub fn pending_message(&self, slot: Slot, message: Dot) -> Option<&Pending<M>> {
        let apart = self
            .apart
            .get(&slot)
            .and_then(|copy| copy.pending_message(message));
        apart.or_else(|| self.pending.get(&slot)?.get(&message))
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
        if let Some(copy) = self.apart.get(&slot) {
            return Held::of_copy(copy);
        }
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

fn copy_ref<V: Ord + QueueValue, M>(slot: Slot, copy: &SlotCopy<V, M>) -> CopyRef<'_, V> {
    CopyRef {
        slot,
        entries: copy.entries(),
        covered: copy.covered(),
        taken: copy.taken(),
        holes: copy.holes(),
    }
}

fn claim<V: Ord + QueueValue, M>(
    slot: Slot,
    copy: &mut SlotCopy<V, M>,
    matches: &mut impl FnMut(&CopyRef<'_, V>, Dot, &Pending<M>) -> Vec<Matched<V>>,
    queued: &mut Vec<ClaimedMessage>,
) -> Result<(), ClaimError> {
    copy.claim(|copy, message, pending| {
        let matched = matches(&copy_ref(slot, copy), message, pending);
        queued.extend(matched.iter().map(|matched| ClaimedMessage {
            slot,
            client: matched.client.clone(),
            message,
        }));
        matched
    })
}
