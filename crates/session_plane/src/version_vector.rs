//! Version vector: the set of events that a copy has decided upon.
//!
//! A vector is exact: for each run the intervals of its numbers, not only the highest one (Parker et al., Detection of Mutual
//! Inconsistency in Distributed Systems, 1983; intervals as in Malkhi and Terry, Concise Version Vectors in WinFS, 2005). A
//! copy that has missed nothing has one interval for each run, from 1 on.
//!
//! *Invariant*: intervals are sorted by run and number, and no two of a run overlap or touch. So equal sets are equal values,
//! and union, difference and comparison are one pass over both.

use std::cmp::Ordering;

use cluster::NodeId;

use crate::{Dot, Run};

/// Intervals of one vector at most. A longer vector is refused and changes nothing.
pub const INTERVALS_MAX: usize = 4_096;

/// Numbers of one run without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interval {
    /// Run that made the events.
    pub run: Run,
    /// Lowest number; at least 1.
    pub first: u64,
    /// Highest number; not below `first`.
    pub last: u64,
}

impl Interval {
    /// The numbers 1 to `last` of `run`. None where that is no number.
    pub fn up_to(run: Run, last: u64) -> Option<Interval> {
        Interval::new(run, 1, last)
    }

    /// The numbers `first` to `last` of `run`. None if `first` is 0 or above `last`.
    pub fn new(run: Run, first: u64, last: u64) -> Option<Interval> {
        (1 <= first && first <= last).then_some(Interval { run, first, last })
    }

    /// The one number of `dot`. None if that is 0.
    pub fn one(dot: Dot) -> Option<Interval> {
        Interval::new(dot.run, dot.number, dot.number)
    }

    /// First event.
    pub fn first_dot(&self) -> Dot {
        let (run, number) = (self.run, self.first);
        Dot { run, number }
    }

    /// Last event.
    pub fn last_dot(&self) -> Dot {
        let (run, number) = (self.run, self.last);
        Dot { run, number }
    }

    /// Node that made the events.
    pub fn node(&self) -> NodeId {
        self.run.node
    }

    /// The interval ends before `other` begins, with a gap between them.
    fn is_apart_before(&self, other: &Interval) -> bool {
        match self.run.cmp(&other.run) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.last < other.first - 1,
        }
    }

    /// The interval ends before `other` begins.
    fn is_before(&self, other: &Interval) -> bool {
        (self.run, self.last) < (other.run, other.first)
    }
}

/// The vector would need more than [`INTERVALS_MAX`] intervals. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a version vector has no room for more than {INTERVALS_MAX} intervals")]
pub struct VectorFull;

/// Set of events, as intervals of numbers for each run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct VersionVector {
    intervals: Vec<Interval>,
}

impl VersionVector {
    /// Intervals in ascending order.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// The vector has no event.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// The event is in the set.
    pub fn covers(&self, dot: Dot) -> bool {
        let key = (dot.run, dot.number);
        let index = self
            .intervals
            .partition_point(|interval| (interval.run, interval.last) < key);
        let interval = self.intervals.get(index);
        interval.is_some_and(|interval| interval.run == dot.run && interval.first <= dot.number)
    }

    /// Highest number of `run` in the set; 0 if there is none.
    pub fn last(&self, run: Run) -> u64 {
        let after = self.intervals.partition_point(|interval| interval.run <= run);
        let interval = after.checked_sub(1).and_then(|index| self.intervals.get(index));
        interval
            .filter(|interval| interval.run == run)
            .map_or(0, |interval| interval.last)
    }

    /// Adds an interval.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where the vector would become too long.
    pub fn insert(&mut self, new: Interval) -> Result<(), VectorFull> {
        let start = self
            .intervals
            .partition_point(|interval| interval.is_apart_before(&new));
        let touched = self.intervals[start..].partition_point(|interval| !new.is_apart_before(interval));
        if touched == 0 && self.intervals.len() >= INTERVALS_MAX {
            return Err(VectorFull);
        }
        let end = start + touched;
        let (mut first, mut last) = (new.first, new.last);
        for interval in &self.intervals[start..end] {
            first = first.min(interval.first);
            last = last.max(interval.last);
        }
        let joined = Interval { first, last, ..new };
        self.intervals.splice(start..end, [joined]);
        Ok(())
    }

    /// Adds every event of `other`.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where the vector would become too long.
    pub fn unite(&mut self, other: &VersionVector) -> Result<(), VectorFull> {
        let united = self.united(other);
        if united.intervals.len() > INTERVALS_MAX {
            return Err(VectorFull);
        }
        *self = united;
        Ok(())
    }

    /// Events that are in one of both sets. Has at most as many intervals as both together.
    pub(crate) fn united(&self, other: &VersionVector) -> VersionVector {
        let mut joined: Vec<Interval> = Vec::with_capacity(self.intervals.len().max(other.intervals.len()));
        for interval in sorted(&self.intervals, &other.intervals) {
            match joined.last_mut() {
                Some(before) if !before.is_apart_before(&interval) => {
                    before.last = before.last.max(interval.last);
                }
                _ => joined.push(interval),
            }
        }
        VersionVector { intervals: joined }
    }

    /// Of each run the events without a gap from the first on.
    pub(crate) fn prefixes(&self) -> VersionVector {
        let prefixes = self.intervals.iter().filter(|interval| interval.first == 1);
        VersionVector::of_apart(prefixes.copied())
    }

    /// Set of these intervals, which lie apart from each other.
    pub(crate) fn of_apart(intervals: impl IntoIterator<Item = Interval>) -> VersionVector {
        let mut intervals: Vec<Interval> = intervals.into_iter().collect();
        intervals.sort_unstable();
        VersionVector { intervals }
    }

    /// Events of this set that `other` lacks; of what is known to exist and what a copy covers, the holes.
    ///
    /// Has at most as many intervals as both together.
    pub fn minus(&self, other: &VersionVector) -> VersionVector {
        let mut left = Vec::new();
        let mut others = other.intervals.iter().peekable();
        for interval in &self.intervals {
            let mut rest = Some(*interval);
            while others.next_if(|taken| taken.is_before(interval)).is_some() {}
            while let (Some(part), Some(taken)) = (rest, others.peek()) {
                if part.is_before(taken) {
                    break;
                }
                left.extend(Interval::new(part.run, part.first, taken.first.saturating_sub(1)));
                rest = taken
                    .last
                    .checked_add(1)
                    .and_then(|next| Interval::new(part.run, next, part.last));
                if rest.is_some() {
                    others.next();
                }
            }
            left.extend(rest);
        }
        VersionVector { intervals: left }
    }

    /// Events that are in both sets. Has at most as many intervals as both together.
    pub fn intersection(&self, other: &VersionVector) -> VersionVector {
        self.minus(&self.minus(other))
    }

    /// No event of this set is in `other`.
    pub fn is_disjoint(&self, other: &VersionVector) -> bool {
        self.minus(other) == *self
    }

    /// Each event of this set is in `other`.
    pub fn is_within(&self, other: &VersionVector) -> bool {
        self.minus(other).is_empty()
    }
}

/// Intervals of both, in ascending order of their beginnings.
fn sorted<'a>(one: &'a [Interval], other: &'a [Interval]) -> impl Iterator<Item = Interval> + 'a {
    let (mut one, mut other) = (one.iter().copied().peekable(), other.iter().copied().peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(mine), Some(theirs)) if mine <= theirs => one.next(),
        (Some(_), None) => one.next(),
        _ => other.next(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cluster::{Incarnation, NodeId};
    use proptest::prelude::*;

    use super::*;

    fn run(number: u64) -> Run {
        Run {
            node: NodeId(1 + number),
            incarnation: Incarnation(1),
        }
    }

    fn interval(first: u64, last: u64) -> Interval {
        Interval::new(run(0), first, last).expect("a sample is an interval")
    }

    fn vector_of(intervals: &[Interval]) -> VersionVector {
        let mut vector = VersionVector::default();
        for interval in intervals {
            vector.insert(*interval).expect("samples are small");
        }
        vector
    }

    fn naive(intervals: &[Interval]) -> BTreeSet<Dot> {
        let dots = |interval: &Interval| {
            let run = interval.run;
            (interval.first..=interval.last).map(move |number| Dot { run, number })
        };
        intervals.iter().flat_map(dots).collect()
    }

    fn samples() -> impl Strategy<Value = Vec<Interval>> {
        let one = (0..3_u64, 1..30_u64, 0..8_u64)
            .prop_map(|(of, first, more)| Interval::new(run(of), first, first + more).expect("ascending"));
        proptest::collection::vec(one, 0..12)
    }

    proptest! {
        #[test]
        fn a_vector_is_the_set_of_its_events(intervals in samples()) {
            let vector = vector_of(&intervals);
            let dots = naive(&intervals);
            prop_assert_eq!(&naive(vector.intervals()), &dots);
            for of in 0..4 {
                for number in 0..40 {
                    let dot = Dot { run: run(of), number };
                    prop_assert_eq!(vector.covers(dot), dots.contains(&dot));
                }
                let last = dots.iter().filter(|dot| dot.run == run(of)).map(|dot| dot.number).max();
                prop_assert_eq!(vector.last(run(of)), last.unwrap_or(0));
            }
        }

        #[test]
        fn equal_sets_are_equal_vectors(intervals in samples(), by in any::<prop::sample::Index>()) {
            let mut turned = intervals.clone();
            if !turned.is_empty() {
                let middle = by.index(turned.len());
                turned.rotate_left(middle);
            }
            let vector = vector_of(&turned);
            prop_assert_eq!(&vector, &vector_of(&intervals));
            for pair in vector.intervals().windows(2) {
                prop_assert!(pair[0].is_apart_before(&pair[1]), "{:?} touch", pair);
            }
        }

        #[test]
        fn union_and_difference_are_those_of_sets(one in samples(), other in samples()) {
            let (left, right) = (vector_of(&one), vector_of(&other));
            let (left_dots, right_dots) = (naive(&one), naive(&other));
            let mut union = left.clone();
            union.unite(&right).expect("samples are small");
            prop_assert_eq!(naive(union.intervals()), &left_dots | &right_dots);
            let mut both = one;
            both.extend(other);
            prop_assert_eq!(union, vector_of(&both));
            prop_assert_eq!(naive(left.minus(&right).intervals()), &left_dots - &right_dots);
            prop_assert_eq!(left.is_within(&right), left_dots.is_subset(&right_dots));
            prop_assert_eq!(naive(left.intersection(&right).intervals()), &left_dots & &right_dots);
            prop_assert_eq!(left.is_disjoint(&right), left_dots.is_disjoint(&right_dots));
        }
    }

    #[test]
    fn numbers_at_the_end_of_their_range_are_kept_apart() {
        let all = vector_of(&[interval(1, u64::MAX)]);
        let but_last = vector_of(&[interval(1, u64::MAX - 1)]);
        assert_eq!(all.minus(&but_last), vector_of(&[interval(u64::MAX, u64::MAX)]));
        assert!(but_last.minus(&all).is_empty());
        assert_eq!(
            vector_of(&[interval(u64::MAX, u64::MAX), interval(1, u64::MAX - 1)]),
            all
        );
    }

    #[test]
    fn zero_and_reversed_bounds_are_no_interval() {
        assert_eq!(Interval::new(run(0), 0, 4), None);
        assert_eq!(Interval::new(run(0), 5, 4), None);
        assert_eq!(Interval::up_to(run(0), 0), None);
        let zero = Dot {
            run: run(0),
            number: 0,
        };
        assert_eq!(Interval::one(zero), None);
    }

    #[test]
    fn a_vector_that_is_full_refuses_and_stays_as_it_is() {
        let scattered: Vec<Interval> = (0..INTERVALS_MAX as u64)
            .map(|at| interval(2 * at + 1, 2 * at + 1))
            .collect();
        let mut full = vector_of(&scattered);
        let before = full.clone();
        let beyond = interval(3 * INTERVALS_MAX as u64, 3 * INTERVALS_MAX as u64);
        assert_eq!(full.insert(beyond), Err(VectorFull));
        assert_eq!(full.unite(&vector_of(&[beyond])), Err(VectorFull));
        assert_eq!(full, before);
        full.insert(interval(2, 2))
            .expect("what closes a gap needs no room");
        assert_eq!(full.intervals().len(), INTERVALS_MAX - 1);
    }
}
