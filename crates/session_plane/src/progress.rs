//! Progress of a copy: what it has decided upon, what it has taken, and what it lacks.
//!
//! *Invariant*: the three sets are disjoint, and none is longer than a vector may be. What would
//! need a longer one is refused whole, and nothing is changed.

use crate::dirty::DirtySet;
use crate::retiring::Retired;
use crate::version_vector::INTERVALS_MAX;
use crate::{Interval, VectorFull, VersionVector};

/// Sets of events that a copy has met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// V: events that the copy has decided upon.
    covered: VersionVector,
    /// Events that the copy has and has not claimed.
    taken: VersionVector,
    /// Events that are known to exist and are neither covered nor taken.
    holes: VersionVector,
    /// The sets differ from the disk.
    dirty: DirtySet<()>,
}

impl Progress {
    /// Progress of a copy without holes.
    pub(crate) fn whole(covered: VersionVector) -> Progress {
        Progress {
            covered,
            ..Progress::default()
        }
    }

    /// Progress of a copy that has nothing of what its node knows.
    pub(crate) fn lacking(known: VersionVector) -> Progress {
        Progress {
            holes: known,
            ..Progress::default()
        }
    }

    /// Progress with these sets. None where an event is in two of them.
    pub(crate) fn of_sets(
        covered: VersionVector,
        taken: VersionVector,
        holes: VersionVector,
    ) -> Option<Progress> {
        let is_disjoint =
            covered.is_disjoint(&taken) && covered.is_disjoint(&holes) && taken.is_disjoint(&holes);
        is_disjoint.then_some(Progress {
            covered,
            taken,
            holes,
            dirty: DirtySet::default(),
        })
    }

    pub(crate) fn covered(&self) -> &VersionVector {
        &self.covered
    }

    pub(crate) fn taken(&self) -> &VersionVector {
        &self.taken
    }

    pub(crate) fn holes(&self) -> &VersionVector {
        &self.holes
    }

    /// Each of these events is covered or taken.
    pub(crate) fn has(&self, events: &VersionVector) -> bool {
        events.minus(&self.covered).is_within(&self.taken)
    }

    /// Each of these events is covered, taken or a hole.
    pub(crate) fn knows(&self, events: &VersionVector) -> bool {
        self.unmet(events).is_within(&self.holes)
    }

    /// Makes holes of what the copy lacks of `known`.
    pub(crate) fn need(&mut self, known: &VersionVector) -> Result<(), VectorFull> {
        let lacking = self.unmet(known);
        if lacking.is_within(&self.holes) {
            return Ok(());
        }
        self.mark();
        self.holes.unite(&lacking)
    }

    /// Events that are neither covered nor taken.
    fn unmet(&self, events: &VersionVector) -> VersionVector {
        events.minus(&self.covered).minus(&self.taken)
    }

    /// Marks events as taken, unless they are covered.
    pub(crate) fn take(&mut self, events: Interval) -> Result<(), VectorFull> {
        self.mark();
        if !self.covered.meets(&events) && !self.holes.meets(&events) {
            // The next events of a stream change no other set.
            return self.taken.insert(events);
        }
        let mut new = VersionVector::default();
        new.insert(events)?;
        let new = new.minus(&self.covered);
        let holes = bounded(self.holes.minus(&new))?;
        self.taken.unite(&new)?;
        self.holes = holes;
        Ok(())
    }

    /// Covers those of `numbers` that are holes: nobody has them.
    pub(crate) fn close(&mut self, numbers: &VersionVector) -> Result<(), VectorFull> {
        let left = self.holes.minus(numbers);
        let closed = self.holes.minus(&left);
        let holes = bounded(left)?;
        self.covered.unite(&closed)?;
        self.holes = holes;
        self.mark();
        Ok(())
    }

    /// Covers all of runs that have ended, where the copy has what was agreed of them.
    pub(crate) fn retire(&mut self, retired: &Retired) -> Result<(), VectorFull> {
        if retired.apply(&mut self.covered)? {
            self.taken = self.taken.minus(&self.covered);
            self.holes = self.holes.minus(&self.covered);
            self.mark();
        }
        Ok(())
    }

    /// Claims all that was taken.
    pub(crate) fn claim(&mut self) -> Result<(), VectorFull> {
        if !self.taken.is_empty() {
            self.covered.unite(&self.taken)?;
            self.taken = VersionVector::default();
            self.mark();
        }
        Ok(())
    }

    /// Progress after a claim of all that was taken.
    pub(crate) fn claimed(&self) -> Result<Progress, VectorFull> {
        let mut claimed = self.clone();
        claimed.claim()?;
        Ok(claimed)
    }

    /// Progress of the merge of two copies.
    pub(crate) fn merged(&self, other: &Progress) -> Result<Progress, VectorFull> {
        let mut covered = self.covered.clone();
        covered.unite(&other.covered)?;
        let mut taken = self.taken.minus(&covered);
        taken.unite(&other.taken.minus(&covered))?;
        let lacking = |holes: &VersionVector| holes.minus(&covered).minus(&taken);
        let mut holes = lacking(&self.holes);
        holes.unite(&lacking(&other.holes))?;
        let mut dirty = self.dirty.clone();
        dirty.mark((), true);
        Ok(Progress {
            covered,
            taken,
            holes,
            dirty,
        })
    }

    /// The sets have changed since this was asked last, and differ from the disk.
    pub(crate) fn take_dirty(&mut self) -> bool {
        !self.dirty.take().is_empty()
    }

    /// The sets differ from the disk.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Marks the sets: they are to be written.
    pub(crate) fn mark(&mut self) {
        self.dirty.mark((), true);
    }
}

/// The vector, unless a difference has made it longer than a vector may be.
fn bounded(vector: VersionVector) -> Result<VersionVector, VectorFull> {
    if vector.intervals().len() > INTERVALS_MAX {
        Err(VectorFull)
    } else {
        Ok(vector)
    }
}
