//! Closing of holes: numbers that every member has said it lacks (rule `close-numbers`).

use super::RunPosition;
use super::message::AnswerBegin;
use crate::{Interval, VectorFull, VersionVector};

/// Holes of a copy that are closed if no answer fills them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Closing {
    /// Holes of ordinary events.
    events: VersionVector,
    /// Holes of QoS 2 numbers. Only a holder whose copies have all merged says that none has them.
    numbers: VersionVector,
}

/// Events that are not closed, whatever the answers say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClosingLimits {
    /// For each present run the marker that made this node an owner; later events are under way.
    pub present: Vec<RunPosition>,
    /// QoS 2 numbers that wait to be routed at this node (rule `reserved-stay`).
    pub reserved: VersionVector,
}

impl Closing {
    /// All holes of a copy.
    pub(super) fn of_holes(holes: &VersionVector) -> Closing {
        let numbers = holes.qos2_numbers();
        let events = holes.minus(&numbers);
        Closing { events, numbers }
    }

    /// Leaves out what `answer` does not say to be nowhere.
    pub(super) fn receive(&mut self, answer: &AnswerBegin) {
        if answer.has_merged_all {
            self.numbers = self.numbers.minus(&answer.reserved);
        } else {
            self.numbers = VersionVector::default();
        }
    }

    /// Holes that nobody has.
    pub(super) fn closable(&self, limits: &ClosingLimits) -> Result<VersionVector, VectorFull> {
        let mut later = VersionVector::default();
        for RunPosition { run, number } in &limits.present {
            let first = number.saturating_add(1);
            if let Some(interval) = Interval::new(*run, first, u64::MAX) {
                later.insert(interval)?;
            }
        }
        let mut closable = self.events.minus(&later);
        closable.unite(&self.numbers.minus(&limits.reserved))?;
        Ok(closable)
    }
}
