//! Version vector: the set of events that a copy has decided upon.
//!
//! A vector is exact: for each run the intervals of its numbers, not only the highest one (Parker et al., Detection of Mutual
//! Inconsistency in Distributed Systems, 1983; intervals as in Malkhi and Terry, Concise Version Vectors in WinFS, 2005). A
//! copy that has missed nothing has one interval for each run, from 1 on.
//!
//! Events of a node are ordered by start, then by number, so an interval may hold whole runs. When all runs of a node up to one
//! start are retired ([`Retiring`](crate::Retiring)), they are one interval, from the first possible event on: the floor of the node. It joins
//! with the run that follows. So a vector has as many intervals as there are nodes, not starts.
//!
//! *Invariant*: intervals are sorted, and no two overlap or touch. So equal sets are equal values, and union, difference and
//! comparison are one pass over both.

use std::cmp::Ordering;

use cluster::{Incarnation, NodeId};

use crate::{Dot, EVENT_NUMBER_MAX, Run};

/// Intervals of one vector at most. A longer vector is refused and changes nothing.
pub const INTERVALS_MAX: usize = 4_096;

/// Events of one node without a gap: numbers of one run, or all up to the last of several runs.
///
/// The event after the last possible one of a run is the first of the node's next start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interval {
    first: Dot,
    last: Dot,
}

impl Interval {
    /// The numbers 1 to `last` of `run`. None where that is no number.
    pub fn up_to(run: Run, last: u64) -> Option<Interval> {
        Interval::new(run, 1, last)
    }

    /// The numbers `first` to `last` of `run`. None if `first` is 0 or above `last`.
    pub fn new(run: Run, first: u64, last: u64) -> Option<Interval> {
        Interval::between(Dot { run, number: first }, Dot { run, number: last })
    }

    /// The one number of `dot`. None if that is 0.
    pub fn one(dot: Dot) -> Option<Interval> {
        Interval::between(dot, dot)
    }

    /// Every event of a node from `first` to `last`. None if they are of two nodes, in another order,
    /// or no events.
    pub fn between(first: Dot, last: Dot) -> Option<Interval> {
        let is_one = first.run.node == last.run.node && first <= last;
        (is_one && first.number > 0 && last.number > 0).then_some(Interval { first, last })
    }

    /// Everything of the starts `from` to `up_to` of a node. None if `from` is above `up_to`.
    pub fn of_runs(node: NodeId, from: Incarnation, up_to: Incarnation) -> Option<Interval> {
        let dot = |incarnation, number| Dot {
            run: Run { node, incarnation },
            number,
        };
        Interval::between(dot(from, 1), dot(up_to, u64::MAX))
    }

    /// First event.
    pub fn first(&self) -> Dot {
        self.first
    }

    /// Last event.
    pub fn last(&self) -> Dot {
        self.last
    }

    /// Node that made the events.
    pub fn node(&self) -> NodeId {
        self.first.run.node
    }

    /// The interval ends before `other` begins, with a gap between them.
    pub(crate) fn is_apart_before(&self, other: &Interval) -> bool {
        match next(self.last) {
            Some(next) => next < other.first,
            None => self.node() < other.node(),
        }
    }

    /// The interval ends before `other` begins.
    fn is_before(&self, other: &Interval) -> bool {
        self.last < other.first
    }

    /// Events of both.
    fn intersection(&self, other: &Interval) -> Option<Interval> {
        Interval::between(self.first.max(other.first), self.last.min(other.last))
    }

    /// The part from the begin of a run on.
    fn prefix(&self) -> Option<Interval> {
        if self.first.number == 1 {
            return Some(*self);
        }
        let run = Run {
            incarnation: Incarnation(self.first.run.incarnation.0.checked_add(1)?),
            ..self.first.run
        };
        Interval::between(Dot { run, number: 1 }, self.last)
    }
}

/// Event of the node that follows on `dot`. None behind the last number of the last start.
fn next(dot: Dot) -> Option<Dot> {
    if let Some(number) = dot.number.checked_add(1) {
        return Some(Dot { number, ..dot });
    }
    let incarnation = Incarnation(dot.run.incarnation.0.checked_add(1)?);
    let node = dot.run.node;
    Some(Dot {
        run: Run { node, incarnation },
        number: 1,
    })
}

/// Event of the node that `dot` follows on. None before the first number of start 0.
fn previous(dot: Dot) -> Option<Dot> {
    if dot.number > 1 {
        let number = dot.number - 1;
        return Some(Dot { number, ..dot });
    }
    let incarnation = Incarnation(dot.run.incarnation.0.checked_sub(1)?);
    let node = dot.run.node;
    Some(Dot {
        run: Run { node, incarnation },
        number: u64::MAX,
    })
}

/// The vector would need more than [`INTERVALS_MAX`] intervals. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a version vector has no room for more than {INTERVALS_MAX} intervals")]
pub struct VectorFull;

/// Set of events, as intervals for each node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
        self.interval_of(dot).is_some()
    }

    /// Interval of the set that has the event.
    pub(crate) fn interval_of(&self, dot: Dot) -> Option<&Interval> {
        self.from(dot).filter(|interval| interval.first <= dot)
    }

    /// The set has an event of the interval.
    pub fn meets(&self, events: &Interval) -> bool {
        self.from(events.first)
            .is_some_and(|interval| interval.first <= events.last)
    }

    /// First interval that does not end before `dot`.
    fn from(&self, dot: Dot) -> Option<&Interval> {
        let index = self.intervals.partition_point(|interval| interval.last < dot);
        self.intervals.get(index)
    }

    /// Highest number of an event of `run` in the set, QoS 2 numbers aside; 0 if there is none. Of a
    /// retired run the highest possible.
    pub fn last_event(&self, run: Run) -> u64 {
        let number = EVENT_NUMBER_MAX;
        let highest = Dot { run, number };
        let after = self
            .intervals
            .partition_point(|interval| interval.first <= highest);
        let interval = after.checked_sub(1).and_then(|index| self.intervals.get(index));
        interval.map_or(0, |interval| match interval.last.run.cmp(&run) {
            Ordering::Less => 0,
            Ordering::Equal => interval.last.number.min(EVENT_NUMBER_MAX),
            Ordering::Greater => EVENT_NUMBER_MAX,
        })
    }

    /// The set has an event of a later run of the node.
    pub(crate) fn has_later_run(&self, run: Run) -> bool {
        let last = Dot {
            run,
            number: u64::MAX,
        };
        let after = self.intervals.partition_point(|interval| interval.last <= last);
        let next = self.intervals.get(after);
        next.is_some_and(|interval| interval.last.run.node == run.node)
    }

    /// QoS 2 numbers of the set, but for those of runs that it has as a whole.
    ///
    /// Has at most as many intervals as the set.
    pub fn qos2_numbers(&self) -> VersionVector {
        let numbers = self.intervals.iter().filter_map(|interval| {
            let run = interval.last.run;
            let upper_half = Interval::new(run, EVENT_NUMBER_MAX + 1, u64::MAX)?;
            let is_whole = interval.last.number == u64::MAX;
            interval.intersection(&upper_half).filter(|_| !is_whole)
        });
        VersionVector {
            intervals: numbers.collect(),
        }
    }

    /// Floor of a node: the highest start up to which every event of the node is in the set.
    pub fn floor(&self, node: NodeId) -> Option<Incarnation> {
        let incarnation = Incarnation(0);
        let first = Dot {
            run: Run { node, incarnation },
            number: 1,
        };
        let lowest = self.from(first).filter(|interval| interval.first == first)?;
        let last = lowest.last;
        if last.number == u64::MAX {
            Some(last.run.incarnation)
        } else {
            last.run.incarnation.0.checked_sub(1).map(Incarnation)
        }
    }

    /// Events of this set that are in `events`.
    pub fn within(&self, events: &Interval) -> VersionVector {
        let start = self
            .intervals
            .partition_point(|interval| interval.last < events.first);
        let parts = self.intervals.iter().skip(start);
        let parts = parts.map_while(|interval| interval.intersection(events));
        VersionVector {
            intervals: parts.collect(),
        }
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
        let joined = Interval { first, last };
        self.intervals.splice(start..end, [joined]);
        Ok(())
    }

    /// Adds every event of `other`.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where the vector would become too long.
    pub fn unite(&mut self, other: &VersionVector) -> Result<(), VectorFull> {
        if let [one] = other.intervals[..] {
            return self.insert(one);
        }
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
        VersionVector::of_apart(self.intervals.iter().filter_map(Interval::prefix))
    }

    /// Set of these intervals, which lie apart from each other.
    pub(crate) fn of_apart(intervals: impl IntoIterator<Item = Interval>) -> VersionVector {
        let mut intervals: Vec<Interval> = intervals.into_iter().collect();
        intervals.sort_unstable();
        assert!(
            intervals.is_sorted_by(Interval::is_apart_before),
            "intervals touch: {intervals:?}"
        );
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
                left.extend(previous(taken.first).and_then(|last| Interval::between(part.first, last)));
                rest = next(taken.last).and_then(|first| Interval::between(first, part.last));
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
            let run = interval.first().run;
            let numbers = interval.first().number..=interval.last().number;
            numbers.map(move |number| Dot { run, number })
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
                prop_assert_eq!(vector.last_event(run(of)), last.unwrap_or(0));
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

    /// Bounds of intervals, and in each half of a run a number between them that is no bound.
    fn bounds() -> BTreeSet<Dot> {
        let middle = EVENT_NUMBER_MAX;
        let lower = [1, 2, 3, 4, 5, 1_000, middle];
        let numbers = lower
            .into_iter()
            .chain([middle + 1, middle + 1_000, u64::MAX - 1, u64::MAX]);
        let starts = [0, 1, 2, u32::MAX];
        let dots = (1..3).flat_map(|node| starts.map(|start| (node, start)));
        dots.flat_map(|(node, start)| {
            let (node, incarnation) = (NodeId(node), Incarnation(start));
            let run = Run { node, incarnation };
            numbers.clone().map(move |number| Dot { run, number })
        })
        .collect()
    }

    /// Intervals over several runs.
    fn ranges() -> impl Strategy<Value = Vec<Interval>> {
        let is_bound = |dot: &Dot| ![1_000, EVENT_NUMBER_MAX + 1_000].contains(&dot.number);
        let bounds: Vec<Dot> = bounds().into_iter().filter(is_bound).collect();
        let bound = || proptest::sample::select(bounds.clone());
        let one = (bound(), bound()).prop_filter_map("of one node", |(one, other)| {
            Interval::between(one.min(other), one.max(other))
        });
        proptest::collection::vec(one, 0..8)
    }

    /// Events of a vector among [`bounds`].
    fn probed(vector: &VersionVector) -> BTreeSet<Dot> {
        bounds().into_iter().filter(|dot| vector.covers(*dot)).collect()
    }

    fn is_in(intervals: &[Interval], dot: Dot) -> bool {
        intervals
            .iter()
            .any(|interval| interval.first() <= dot && dot <= interval.last())
    }

    proptest! {
        #[test]
        fn ranges_of_runs_are_sets_of_events(one in ranges(), other in ranges()) {
            let (left, right) = (vector_of(&one), vector_of(&other));
            let set = |intervals: &[Interval]| -> BTreeSet<Dot> {
                bounds().into_iter().filter(|dot| is_in(intervals, *dot)).collect()
            };
            let (left_dots, right_dots) = (set(&one), set(&other));
            prop_assert_eq!(&probed(&left), &left_dots);
            prop_assert_eq!(probed(&left.united(&right)), &left_dots | &right_dots);
            prop_assert_eq!(probed(&left.minus(&right)), &left_dots - &right_dots);
            prop_assert_eq!(probed(&left.intersection(&right)), &left_dots & &right_dots);
            prop_assert_eq!(left.is_within(&right), left_dots.is_subset(&right_dots));
            prop_assert_eq!(left.is_disjoint(&right), left_dots.is_disjoint(&right_dots));
            let parts = left.minus(&right).united(&left.intersection(&right));
            prop_assert_eq!(&parts, &left, "equal sets are equal vectors");
            for pair in left.minus(&right).intervals().windows(2) {
                prop_assert!(pair[0].is_apart_before(&pair[1]), "{:?} touch", pair);
            }
            for window in &other {
                let inside = bounds().into_iter().filter(|dot| is_in(&[*window], *dot));
                let inside: BTreeSet<Dot> = inside.filter(|dot| left_dots.contains(dot)).collect();
                prop_assert_eq!(left.meets(window), !inside.is_empty());
                prop_assert_eq!(probed(&left.within(window)), inside);
            }
        }

        #[test]
        fn prefixes_and_floors_are_those_of_the_set(intervals in ranges()) {
            let vector = vector_of(&intervals);
            let prefixes = vector.prefixes();
            for dot in bounds() {
                let (of_run, of_node): (Vec<Dot>, Vec<Dot>) = bounds()
                    .into_iter()
                    .filter(|other| other.run.node == dot.run.node && other.run <= dot.run)
                    .partition(|other| other.run == dot.run);
                let below = of_run.iter().filter(|other| other.number <= dot.number);
                let is_prefix = below.copied().all(|below| vector.covers(below));
                prop_assert_eq!(prefixes.covers(dot), is_prefix, "{:?}", dot);
                let events = of_run.iter().filter(|other| !other.is_qos2_number() && vector.covers(**other));
                let last = events.map(|other| other.number).max();
                prop_assert_eq!(vector.last_event(dot.run), last.unwrap_or(0));
                // Between start 2 and the last possible one lies what is no bound.
                if dot.run.incarnation.0 <= 2 {
                    let is_floor = of_run.iter().chain(&of_node).all(|below| vector.covers(*below));
                    prop_assert_eq!(vector.floor(dot.run.node) >= Some(dot.run.incarnation), is_floor);
                }
            }
        }
    }

    /// The floor of a node and the run that follows are one interval.
    #[test]
    fn a_floor_takes_no_interval_of_its_own() {
        let node = NodeId(1);
        let present = Run {
            node,
            incarnation: Incarnation(8),
        };
        let floor = Interval::of_runs(node, Incarnation(0), Incarnation(7)).expect("ascending");
        let vector = vector_of(&[floor, Interval::up_to(present, 5).expect("a number")]);
        assert_eq!(vector.intervals().len(), 1);
        assert_eq!(vector.floor(node), Some(Incarnation(7)));
        assert_eq!(vector.floor(NodeId(2)), None);
        assert!(!vector.covers(Dot {
            run: present,
            number: 6
        }));
    }

    /// A run has two kinds of numbers, and a set may have a part of either.
    #[test]
    fn qos_2_numbers_are_those_of_the_upper_half() {
        let middle = EVENT_NUMBER_MAX;
        let numbers = |intervals: &[(u64, u64)]| {
            let intervals: Vec<Interval> = intervals
                .iter()
                .map(|(first, last)| interval(*first, *last))
                .collect();
            vector_of(&intervals)
        };
        let mixed = numbers(&[(1, 7), (middle + 1, middle + 4), (middle + 9, middle + 9)]);
        let upper = numbers(&[(middle + 1, middle + 4), (middle + 9, middle + 9)]);
        assert_eq!(mixed.qos2_numbers(), upper);
        assert_eq!(numbers(&[(5, middle)]).qos2_numbers(), VersionVector::default());
        assert_eq!(
            numbers(&[(5, middle + 2)]).qos2_numbers(),
            numbers(&[(middle + 1, middle + 2)])
        );
        for from in 0..=1 {
            let retired = Interval::of_runs(run(0).node, Incarnation(from), Incarnation(1));
            let retired = vector_of(&[retired.expect("ascending")]);
            assert_eq!(retired.qos2_numbers(), VersionVector::default());
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
