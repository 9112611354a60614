//! Copy of a slot: its entries, its version vector, and the merge rule.
//!
//! ```text
//! entries = (Ea and Eb) + (Ea not in Vb) + (Eb not in Va)
//! V       = Va union Vb
//! ```
//!
//! An entry that a copy covers and lacks was removed there. So two copies merge without tombstones,
//! in any order and any number of times. What a copy has taken and not claimed stays outside of its
//! vector, and what it knows to exist and lacks is a hole. A copy with a hole claims nothing.
//!
//! *Invariant*: covered events, taken events and holes are disjoint; a pending message is a taken
//! event; an entry is of a covered or of a taken event.

use std::collections::BTreeMap;

use cluster::session_plane::Hlc;

use crate::dirty::DirtySet;
use crate::join::{Joined, join};
use crate::progress::Progress;
use crate::queue_limits::QueueValue;
use crate::retiring::{CopySets, Retired};
use crate::slot_entries::{Change, Covered, SingleDotsFull, SlotEntries};
use crate::{Birth, ClientId, Dot, Entry, EntryKind, Fact, Interval, VectorFull, VersionVector};

mod difference;
mod parts;

pub(crate) use difference::CopyDifference;
pub(crate) use parts::CopyState;
pub use parts::{ClientDot, ClientEntry, CopyParts, CopyPartsError, MERGED_COPIES_MAX, PendingMessage};

/// Pending messages of one copy at most. See [`TakeError`] for what happens beyond.
///
/// A merge may exceed it: it keeps the pending messages of both copies, each within the limit.
pub const PENDING_MAX: usize = 65_536;

/// Entries of one slot at one node, and how far the node is with their events.
///
/// A copy has a vector of its own only while it has missed something. [`SlotCopy::into_whole`]
/// gives the entries of a copy that has the vector of its node, and [`SlotCopy::whole`] makes it a
/// copy again. In between the node keeps [`SlotEntries`] alone, and one vector for all its whole
/// copies: an event costs nothing in slots that it is not for.
///
/// A change costs O(log n) in the entries of the slot. So does a merge of a difference for each client
/// that differs; a merge of whole copies is one pass over both. An entry takes about 120 bytes and its
/// value.
///
/// `V` is the value of entries, `M` the content of pending messages; neither is read here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotCopy<V, M> {
    entries: SlotEntries<V>,
    progress: Progress,
    pending: BTreeMap<Dot, Pending<M>>,
}

/// Message that was taken and not claimed: sessions that it matches may be unknown yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending<M> {
    /// Hybrid logical clock of the message.
    pub clock: Hlc,
    /// Content, or a reference to it.
    pub message: M,
}

/// Session that a claimed message matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matched<V> {
    /// Client whose session it is, or the key of a shared group.
    pub client: ClientId,
    /// Birth that the matching subscription names; for a shared group [`Birth::of_group_message`].
    pub birth: Birth,
    /// Value of the message's entry.
    pub value: V,
}

/// An event was not taken. Nothing was changed.
///
/// The node must not confirm the event for this slot. Before it takes a later event of the run, it
/// makes this one a hole with [`SlotCopy::need`], or waits until this one was taken. The sender
/// gives the event again, or a merge brings its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    /// The copy is too scattered to say exactly what it has.
    #[error(transparent)]
    VectorFull(#[from] VectorFull),
    /// The copy has too many removals of events that are to come.
    #[error(transparent)]
    SingleDotsFull(#[from] SingleDotsFull),
    /// A dot with the number 0 is no event.
    #[error("no event has the number 0")]
    NoEvent,
    /// The copy has [`PENDING_MAX`] pending messages.
    #[error("a copy has no room for more than {PENDING_MAX} pending messages")]
    PendingFull,
}

/// What was taken was not claimed. Nothing was changed: it stays taken, and messages stay pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The copy has a hole; it may lack a subscription.
    #[error("a copy with a hole claims nothing")]
    HasHole,
    /// The vector would be too long.
    #[error(transparent)]
    VectorFull(#[from] VectorFull),
}

impl<V: Ord + QueueValue, M> SlotCopy<V, M> {
    /// Copy that a node makes when it becomes an owner: all that the node knows is a hole.
    pub fn new(known: VersionVector) -> SlotCopy<V, M> {
        SlotCopy {
            entries: SlotEntries::default(),
            progress: Progress::lacking(known),
            pending: BTreeMap::new(),
        }
    }

    /// Copy without holes, with the vector `covered`.
    pub fn whole(entries: SlotEntries<V>, covered: VersionVector) -> SlotCopy<V, M> {
        SlotCopy {
            entries,
            progress: Progress::whole(covered),
            pending: BTreeMap::new(),
        }
    }

    /// Entries of a copy that is whole and has claimed everything, with exactly the vector
    /// `node_covered`.
    ///
    /// # Errors
    ///
    /// The copy as it was, where it needs a vector of its own.
    pub fn into_whole(self, node_covered: &VersionVector) -> Result<SlotEntries<V>, Box<SlotCopy<V, M>>> {
        let has_claimed_all = self.is_whole() && self.progress.taken().is_empty();
        if has_claimed_all && self.progress.covered() == node_covered {
            Ok(self.entries)
        } else {
            Err(Box::new(self))
        }
    }

    /// Makes holes of what the copy lacks of `known`: events of which the node has heard.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where the holes would be too scattered. Nothing is changed. The node must not
    /// take the event that told of `known`, or the copy could claim it without what it depends on.
    pub fn need(&mut self, known: &VersionVector) -> Result<(), VectorFull> {
        self.progress.need(known)
    }

    /// Marks events as taken that change nothing in this slot.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where the copy would be too scattered. Nothing is changed; what [`TakeError`]
    /// says holds for these events.
    pub fn take(&mut self, events: Interval) -> Result<(), VectorFull> {
        self.progress.take(events)
    }

    /// Takes an event that changes a session: the change shows at once.
    ///
    /// # Errors
    ///
    /// [`TakeError`] where there is no room.
    pub fn apply(&mut self, change: Change<V>) -> Result<(), TakeError> {
        if change.adds.as_ref().is_some_and(Entry::names_no_event) {
            return Err(TakeError::NoEvent);
        }
        let to_come = self.entries.removals_to_come(self.progress.covered(), &change)?;
        take_one(&mut self.progress, change.dot)?;
        self.entries.apply_with(self.progress.covered(), change, to_come);
        Ok(())
    }

    /// Takes a message: it is pending until it is claimed. One that is decided upon or pending
    /// already is not kept again.
    ///
    /// # Errors
    ///
    /// [`TakeError`] where there is no room.
    pub fn take_message(&mut self, dot: Dot, pending: Pending<M>) -> Result<(), TakeError> {
        if self.progress.covered().covers(dot) || self.pending.contains_key(&dot) {
            return Ok(());
        }
        if self.pending.len() >= PENDING_MAX {
            return Err(TakeError::PendingFull);
        }
        take_one(&mut self.progress, dot)?;
        self.pending.insert(dot, pending);
        self.entries.dirty_mut().pending.mark(dot, false);
        Ok(())
    }

    /// Claims all that was taken: pending messages get their entries, and the vector is extended.
    ///
    /// `matches` finds the sessions that a message matches, in the copy as it stands. It is called
    /// in the order of clocks. The caller sees to it that the copy has merged with all holders.
    ///
    /// # Errors
    ///
    /// [`ClaimError`] where nothing may be claimed.
    pub fn claim(
        &mut self,
        mut matches: impl FnMut(&SlotCopy<V, M>, Dot, &Pending<M>) -> Vec<Matched<V>>,
    ) -> Result<(), ClaimError> {
        if !self.is_whole() {
            return Err(ClaimError::HasHole);
        }
        let claimed = self.progress.claimed()?;
        let mut pending: Vec<(Dot, Pending<M>)> = std::mem::take(&mut self.pending).into_iter().collect();
        pending.sort_by_key(|(dot, pending)| (pending.clock, *dot));
        for (dot, pending) in &pending {
            self.entries.dirty_mut().pending.mark(*dot, true);
            for matched in matches(self, *dot, pending) {
                self.add_message(*dot, pending.clock, matched);
            }
        }
        self.progress = claimed;
        self.entries.drop_covered(self.progress.covered());
        Ok(())
    }

    /// Covers those of `numbers` that are holes: every member has said that it lacks them.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where the vector would be too long. The holes stay.
    pub fn close(&mut self, numbers: &VersionVector) -> Result<(), VectorFull> {
        self.progress.close(numbers)?;
        self.entries.drop_covered(self.progress.covered());
        Ok(())
    }

    /// Covers all of runs that have ended, where the copy has exactly what was agreed of them. Any other
    /// copy has to merge: it would read a removal into each entry that it is to get.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where the vector would be too long. Nothing is changed, and the runs stay.
    pub fn retire(&mut self, retired: &Retired) -> Result<(), VectorFull> {
        self.progress.retire(retired)?;
        let covered = self.progress.covered();
        drop_decided(&mut self.pending, covered, &mut self.entries.dirty_mut().pending);
        self.entries.drop_covered(covered);
        Ok(())
    }

    /// Merges another copy of the slot by the merge rule, in one pass over both.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where a vector would be too long. Nothing is changed: the copy has not merged
    /// with this holder, so it claims nothing, and the node asks the holder again.
    pub fn merge(&mut self, other: SlotCopy<V, M>) -> Result<(), VectorFull> {
        let merged = self.progress.merged(&other.progress)?;
        self.entries.merge(
            self.progress.covered(),
            other.entries,
            other.progress.covered(),
            merged.covered(),
        );
        self.finish_merge(other.pending, merged);
        Ok(())
    }

    /// Merges another copy of the slot, of which only what differs is known. The result is that of
    /// [`SlotCopy::merge`]. Gives the entries that beat others and that the merge has removed.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] as there. Nothing is changed.
    pub(crate) fn merge_difference(
        &mut self,
        other: CopyDifference<V, M>,
    ) -> Result<Vec<ClientEntry<V>>, VectorFull> {
        let unshared = other.unshared(&self.progress);
        let (theirs, clients) = (other.copy, other.clients);
        let merged = self.progress.merged(&theirs.progress)?;
        let covered = Covered {
            mine: self.progress.covered(),
            theirs: theirs.progress.covered(),
            both: merged.covered(),
        };
        let removed = self
            .entries
            .merge_clients(theirs.entries, &clients, covered, &unshared);
        self.finish_merge(theirs.pending, merged);
        Ok(removed)
    }

    /// Ends a merge of entries: merges pending messages, and takes the merged sets of events.
    fn finish_merge(&mut self, theirs: BTreeMap<Dot, Pending<M>>, merged: Progress) {
        let dirty = &mut self.entries.dirty_mut().pending;
        let stays = |at: Joined<Dot, Pending<M>>| {
            let (had_message, stays) = (at.mine.is_some(), !merged.covered().covers(at.key));
            if had_message != stays {
                dirty.mark(at.key, had_message);
            }
            let pending = at.mine.or(at.theirs).filter(|_| stays)?;
            Some((at.key, pending))
        };
        let pending = join(std::mem::take(&mut self.pending), theirs);
        self.pending = pending.filter_map(stays).collect();
        self.progress = merged;
    }

    /// V: events that the copy has decided upon.
    pub fn covered(&self) -> &VersionVector {
        self.progress.covered()
    }

    /// Events that the copy has and has not claimed.
    pub fn taken(&self) -> &VersionVector {
        self.progress.taken()
    }

    /// Events that are known to exist, and that the copy neither covers nor has taken.
    pub fn holes(&self) -> &VersionVector {
        self.progress.holes()
    }

    /// What the copy has decided upon, has taken, and lacks.
    pub fn sets(&self) -> CopySets<'_> {
        CopySets {
            covered: self.covered(),
            taken: self.taken(),
            holes: self.holes(),
        }
    }

    /// The copy covers or has taken each of these events.
    pub fn has_all(&self, events: &VersionVector) -> bool {
        self.progress.has(events)
    }

    /// The copy has no hole.
    pub fn is_whole(&self) -> bool {
        self.progress.holes().is_empty()
    }

    /// Pending messages, in ascending order of their dots.
    pub fn pending(&self) -> impl Iterator<Item = (Dot, &Pending<M>)> {
        self.pending.iter().map(|(dot, pending)| (*dot, pending))
    }

    /// Entries and single covered dots.
    pub fn entries(&self) -> &SlotEntries<V> {
        &self.entries
    }

    /// The copy has decided upon the event `dot` as far as `client` is concerned.
    pub fn covers(&self, client: &[u8], dot: Dot) -> bool {
        self.entries.covers(self.progress.covered(), client, dot)
    }

    /// Entries of `kind` of a client that count
    /// ([`SessionEntries::live`](crate::SessionEntries::live)).
    pub fn live(&self, client: &[u8], kind: EntryKind) -> impl Iterator<Item = (Dot, &Entry<V>)> {
        self.entries.live(self.progress.covered(), client, kind)
    }

    fn add_message(&mut self, dot: Dot, clock: Hlc, matched: Matched<V>) {
        let entry = Entry {
            birth: matched.birth,
            clock,
            fact: Fact::Message,
            value: matched.value,
        };
        self.entries
            .add(self.progress.covered(), &matched.client, dot, entry);
    }
}

/// Drops pending messages that the vector has come to cover, and marks them in `dirty`.
pub(crate) fn drop_decided<M>(
    pending: &mut BTreeMap<Dot, Pending<M>>,
    covered: &VersionVector,
    dirty: &mut DirtySet<Dot>,
) {
    pending.retain(|dot, _| {
        let stays = !covered.covers(*dot);
        if !stays {
            dirty.mark(*dot, true);
        }
        stays
    });
}

/// Marks one event as taken.
fn take_one(progress: &mut Progress, dot: Dot) -> Result<(), TakeError> {
    let event = Interval::one(dot).ok_or(TakeError::NoEvent)?;
    Ok(progress.take(event)?)
}

#[cfg(test)]
pub(crate) mod tests;
