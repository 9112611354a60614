//! Interests of this node, in the order of their latest changes.

use std::collections::{BTreeMap, BTreeSet};

use super::error::InterestsFull;
use super::message::{Interest, InterestChange, InterestChanges};
use super::{InterestLimits, TopicFilter};

/// Filters of this node.
///
/// *Invariant*: each filter is in the log once, at the position of its latest change.
#[derive(Debug, Default)]
pub(super) struct OwnInterests {
    /// Position of the last change; 0 before the first.
    last: u64,
    filters: BTreeMap<TopicFilter, OwnInterest>,
    log: BTreeMap<u64, TopicFilter>,
    /// Positions of filters that are of no interest.
    removed: BTreeSet<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OwnInterest {
    position: u64,
    interest: Option<Interest>,
}

impl OwnInterests {
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Filters, with those of no interest.
    pub(super) fn len(&self) -> usize {
        self.filters.len()
    }

    /// Sets what is wanted of a filter; gives the position that says so.
    pub(super) fn set(
        &mut self,
        filter: &TopicFilter,
        interest: Option<Interest>,
        max: usize,
    ) -> Result<u64, InterestsFull> {
        let before = self.filters.get(filter).copied();
        match before {
            Some(before) if before.interest == interest => return Ok(before.position),
            None if interest.is_none() => return Ok(self.last),
            None if self.filters.len() >= max => return Err(InterestsFull { max }),
            _ => {}
        }
        if let Some(before) = before {
            self.log.remove(&before.position);
            self.removed.remove(&before.position);
        }
        self.last += 1;
        let position = self.last;
        let own = OwnInterest { position, interest };
        self.filters.insert(filter.clone(), own);
        self.log.insert(position, filter.clone());
        if interest.is_none() {
            self.removed.insert(position);
        }
        Ok(position)
    }

    /// Changes behind a position, as many as one message has.
    ///
    /// They go up to the next change, which is not among them. So what is told again from the same position
    /// goes as far at least: the log loses changes in front, and gets others at its end.
    pub(super) fn changes(&self, after: u64, limits: &InterestLimits) -> InterestChanges {
        let mut told = InterestChanges {
            after,
            up_to: after,
            is_all: true,
            changes: Vec::new(),
        };
        let mut bytes = 0;
        for (position, filter) in self.log.range(after + 1..) {
            if told.changes.len() >= limits.changes_max || bytes >= limits.bytes_max {
                told.up_to = position - 1;
                told.is_all = false;
                return told;
            }
            bytes += filter.as_bytes().len();
            told.changes.push(InterestChange {
                filter: filter.clone(),
                interest: self.filters.get(filter).and_then(|own| own.interest),
            });
        }
        told.up_to = self.last;
        told
    }

    /// Forgets filters of no interest whose change everybody knows.
    pub(super) fn forget_removed(&mut self, told: u64) {
        while let Some(position) = self.removed.first().copied().filter(|position| *position <= told) {
            self.removed.remove(&position);
            if let Some(filter) = self.log.remove(&position) {
                self.filters.remove(&filter);
            }
        }
    }
}
