//! Retired runs: what all members had of them, and where a vector may cover them as a whole.

use cluster::{Incarnation, NodeId};

use super::after;
use crate::{Interval, VectorFull, VersionVector};

/// Runs of one node that have ended, and every event of them that any member has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retired {
    runs: Interval,
    events: VersionVector,
}

impl Retired {
    /// The lowest of the runs, as far as `events` and all `others` are the same. None where they
    /// differ in the first one.
    pub(super) fn same<'a>(
        runs: Interval,
        events: &VersionVector,
        others: impl IntoIterator<Item = &'a VersionVector>,
    ) -> Option<Retired> {
        let mut same = runs;
        for other in others {
            same = before_difference(same, events, other)?;
        }
        let events = events.within(&same);
        Some(Retired { runs: same, events })
    }

    /// Node whose runs they are.
    pub fn node(&self) -> NodeId {
        self.runs.node()
    }

    /// Last of the runs.
    pub fn up_to(&self) -> Incarnation {
        self.runs.last().run.incarnation
    }

    /// Covers the runs as a whole, as far as the vector has exactly their events, and all of the runs
    /// before. False where nothing changes.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where the vector would be too long. Nothing is changed.
    pub fn apply(&self, vector: &mut VersionVector) -> Result<bool, VectorFull> {
        let from = after(vector.floor(self.node()));
        let is_next = |from: &Incarnation| *from >= self.runs.first().run.incarnation;
        let runs = from
            .filter(is_next)
            .and_then(|from| Interval::of_runs(self.node(), from, self.up_to()));
        let same = runs.and_then(|runs| before_difference(runs, vector, &self.events));
        let Some(same) = same else { return Ok(false) };
        vector.insert(same)?;
        Ok(true)
    }
}

/// The lowest of `runs` of which both have the same events. None where they differ in the first.
fn before_difference(runs: Interval, one: &VersionVector, other: &VersionVector) -> Option<Interval> {
    let (one, other) = (one.within(&runs), other.within(&runs));
    let (more, less) = (one.minus(&other), other.minus(&one));
    let differing = [more, less];
    let first = differing.iter().filter_map(|events| events.intervals().first());
    let Some(first) = first.map(Interval::first).min() else {
        return Some(runs);
    };
    let up_to = first.run.incarnation.0.checked_sub(1)?;
    Interval::of_runs(runs.node(), runs.first().run.incarnation, Incarnation(up_to))
}
