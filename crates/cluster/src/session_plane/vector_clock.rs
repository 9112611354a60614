//! Which writes a copy of a record has seen, and which of two copies has seen more.
//!
//! An actor numbers what it writes to one record, and a copy takes an actor's writes in their order. So the highest number of each actor says
//! which writes a copy has seen: the version vector of Parker et al. (Detection of Mutual Inconsistency in Distributed Systems, 1983), with the
//! dots of Preguiça et al. (Dotted Version Vectors, 2010). There is one exception, for which each actor has runs of numbers instead of one: an actor
//! that had given its copy away, and writes again without having got all of it back, must neither use a number twice nor claim to have seen what it has not.
//!
//! *Invariant*: joining never counts up. Only a new event does, and only for the actor whose event it is: clocks of copies that have
//! seen the same are equal, so that repairing them comes to an end.

use std::num::NonZeroU64;

use crate::{Incarnation, NodeId};

/// Runs in one clock at most. It would take as many starts of nodes that all wrote to the record, without one of them being
/// retired ([`VectorClock::retire_before`]). What would make a clock longer is refused, and changes nothing.
pub const RUNS_MAX: usize = 4_096;

/// Who writes: a node between one of its starts and the next. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Actor {
    /// Which node; never zero.
    pub node: NodeId,
    /// Which of its starts.
    pub incarnation: Incarnation,
}

/// One write to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dot {
    /// Whose.
    pub actor: Actor,
    /// Its number among those of the actor, from 1.
    pub counter: u64,
}

/// How one clock stands to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Causality {
    /// Both have seen the same.
    Equal,
    /// The other has seen all of this one, and more.
    Before,
    /// This one has seen all of the other, and more.
    After,
    /// Each has seen what the other has not.
    Concurrent,
}

/// The writes that a copy has seen. Most clocks have one run or two: one needs no memory of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VectorClock(Runs);

/// The clock would need more than [`RUNS_MAX`] runs, or a counter is at its end. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a vector clock has no room for another actor or event")]
pub struct ClockFull;

/// Sorted, with a gap between two of one actor. One is `One`, everything else `Many`; no node has id 0, which tells them apart in memory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Runs {
    One(Run),
    Many(Box<[Run]>),
}

/// Events of one actor that follow each other, first and last included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    node: NonZeroU64,
    incarnation: u32,
    first: u64,
    last: u64,
}

impl VectorClock {
    /// Nothing was seen.
    pub fn new() -> VectorClock {
        VectorClock(Runs::Many(Box::default()))
    }

    /// Counts one more event of an actor: the one that follows `floor`, or the last one that was seen if that is higher.
    pub fn increment(&mut self, actor: Actor, floor: u64) -> Result<Dot, ClockFull> {
        let last = self.counter(actor).max(floor);
        let counter = last.checked_add(1).ok_or(ClockFull)?;
        let dot = Dot { actor, counter };
        self.see(dot, 1)?;
        Ok(dot)
    }

    /// Takes note of so many events of an actor, of which `last` is the last.
    fn see(&mut self, last: Dot, count: u64) -> Result<(), ClockFull> {
        let first = last.counter.saturating_sub(count).saturating_add(1);
        if let [.., run] = self.runs_mut()
            && run.actor() == last.actor
            && run.last.checked_add(1) == Some(first)
        {
            run.last = last.counter;
            return Ok(());
        }
        self.join(&[Run::new(last.actor, first, last.counter)])
    }

    /// Has seen what either has seen: the join of both. It counts nothing up.
    pub fn merge(&mut self, other: &VectorClock) -> Result<(), ClockFull> {
        if self.covers(other) {
            return Ok(());
        }
        self.join(other.runs())
    }

    /// Retires all runs but the last one of this actor, if something of it was seen: for when nobody can have a clock with one of the others that has not seen what this actor did after that. Says
    /// whether there were any.
    pub fn retire_before(&mut self, actor: Actor) -> bool {
        let last = self.run_from(actor, u64::MAX).copied();
        let Some(last) = last.filter(|_| self.runs().len() > 1) else {
            return false;
        };
        self.0 = Runs::One(last);
        true
    }

    /// How this clock stands to another.
    pub fn compare(&self, other: &VectorClock) -> Causality {
        match (self.covers(other), other.covers(self)) {
            (true, true) => Causality::Equal,
            (false, true) => Causality::Before,
            (true, false) => Causality::After,
            (false, false) => Causality::Concurrent,
        }
    }

    /// Whether everything that `other` has seen was seen.
    pub fn covers(&self, other: &VectorClock) -> bool {
        let mut runs = other.runs().iter();
        runs.all(|run| {
            let ours = self.run_from(run.actor(), run.first);
            ours.is_some_and(|ours| run.last <= ours.last)
        })
    }

    /// Whether there is an event that both have seen.
    pub fn has_common(&self, other: &VectorClock) -> bool {
        self.runs().iter().any(|run| {
            let theirs = other.run_from(run.actor(), run.last);
            theirs.is_some_and(|theirs| run.first <= theirs.last)
        })
    }

    /// The number of the last event of an actor that was seen; 0 if none was.
    pub fn counter(&self, actor: Actor) -> u64 {
        self.run_from(actor, u64::MAX).map_or(0, |run| run.last)
    }

    /// The actors of which something was seen, in order; one that has several runs comes several times.
    pub fn actors(&self) -> impl ExactSizeIterator<Item = Actor> + '_ {
        self.runs().iter().map(Run::actor)
    }

    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.runs().is_empty()
    }

    /// A clock of runs; `None`: they are too many, out of order, or without a gap where they need one.
    pub(super) fn from_runs(runs: Vec<Run>) -> Option<VectorClock> {
        let is_sorted = runs.is_sorted_by(|one, next| {
            let has_gap = one.last < next.first && one.last + 1 < next.first;
            one.actor() < next.actor() || (one.actor() == next.actor() && has_gap)
        });
        (is_sorted && runs.len() <= RUNS_MAX).then(|| VectorClock::of(runs))
    }

    pub(super) fn runs(&self) -> &[Run] {
        match &self.0 {
            Runs::One(run) => std::slice::from_ref(run),
            Runs::Many(runs) => runs,
        }
    }

    fn of(mut runs: Vec<Run>) -> VectorClock {
        match runs.as_mut_slice() {
            [run] => VectorClock(Runs::One(*run)),
            _ => VectorClock(Runs::Many(runs.into_boxed_slice())),
        }
    }

    fn runs_mut(&mut self) -> &mut [Run] {
        match &mut self.0 {
            Runs::One(run) => std::slice::from_mut(run),
            Runs::Many(runs) => runs,
        }
    }

    /// The last run of an actor that begins at `counter` or before.
    fn run_from(&self, actor: Actor, counter: u64) -> Option<&Run> {
        let runs = self.runs();
        let after = runs.partition_point(|run| (run.actor(), run.first) <= (actor, counter));
        runs[..after].last().filter(|run| run.actor() == actor)
    }

    fn join(&mut self, theirs: &[Run]) -> Result<(), ClockFull> {
        let mut all: Vec<Run> = Vec::with_capacity(self.runs().len() + theirs.len());
        all.extend_from_slice(self.runs());
        all.extend_from_slice(theirs);
        all.sort_unstable_by_key(|run| (run.actor(), run.first));
        let mut joined: Vec<Run> = Vec::with_capacity(all.len());
        for run in all {
            match joined.last_mut() {
                Some(last) if last.actor() == run.actor() && run.first <= last.last.saturating_add(1) => {
                    last.last = last.last.max(run.last);
                }
                _ => joined.push(run),
            }
        }
        if joined.len() > RUNS_MAX {
            return Err(ClockFull);
        }
        *self = VectorClock::of(joined);
        Ok(())
    }
}

impl Default for VectorClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Run {
    /// `first` is at least 1, and at most `last`; the node is not 0.
    pub(super) fn new(actor: Actor, first: u64, last: u64) -> Run {
        assert!(0 < first && first <= last, "a run has an event");
        Run {
            node: NonZeroU64::new(actor.node.0).expect("no node has id 0"),
            incarnation: actor.incarnation.0,
            first,
            last,
        }
    }

    pub(super) fn actor(&self) -> Actor {
        Actor {
            node: NodeId(self.node.get()),
            incarnation: Incarnation(self.incarnation),
        }
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }
}

impl std::fmt::Debug for VectorClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let runs = self.runs().iter();
        let runs = runs.map(|run| format!("{}:{}-{}", run.actor(), run.first, run.last));
        f.debug_set().entries(runs).finish()
    }
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.node, self.incarnation)
    }
}

impl std::fmt::Display for Dot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.actor, self.counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(node: u64, incarnation: u32) -> Actor {
        Actor {
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
        }
    }

    /// A clock that has seen so many events of each node.
    fn clock(counts: &[(u64, u64)]) -> VectorClock {
        let mut clock = VectorClock::new();
        for (node, count) in counts {
            let last = Dot {
                actor: actor(*node, 1),
                counter: *count,
            };
            clock.see(last, *count).unwrap();
        }
        clock
    }

    #[test]
    fn a_clock_is_small_and_one_actor_needs_no_memory_of_its_own() {
        assert_eq!(size_of::<VectorClock>(), 32);
        assert!(matches!(clock(&[(1, 5)]).0, Runs::One(_)));
        assert!(matches!(clock(&[(1, 5), (2, 1)]).0, Runs::Many(_)));
    }

    #[test]
    fn clocks_are_equal_before_after_or_concurrent() {
        let (old, new, other) = (clock(&[(1, 1)]), clock(&[(1, 2)]), clock(&[(2, 1)]));
        assert_eq!(old.compare(&old), Causality::Equal);
        assert_eq!(old.compare(&new), Causality::Before);
        assert_eq!(new.compare(&old), Causality::After);
        assert_eq!(new.compare(&other), Causality::Concurrent);
        assert_eq!(VectorClock::new().compare(&old), Causality::Before);
    }

    #[test]
    fn an_incarnation_is_another_actor() {
        let mut first = clock(&[(1, 1)]);
        let mut second = first.clone();
        first.increment(actor(1, 2), 0).unwrap();
        second.increment(actor(1, 3), 0).unwrap();
        assert_eq!(first.compare(&second), Causality::Concurrent);
    }

    #[test]
    fn events_are_counted_from_the_floor_and_nothing_below_it_is_claimed() {
        let mut clock = VectorClock::new();
        let dot = |counter| Dot {
            actor: actor(1, 1),
            counter,
        };
        assert_eq!(clock.increment(actor(1, 1), 7), Ok(dot(8)));
        assert_eq!(clock.increment(actor(1, 1), 7), Ok(dot(9)));
        assert_eq!(clock.runs(), [Run::new(actor(1, 1), 8, 9)]);
        let old = self::clock(&[(1, 5)]);
        assert_eq!(clock.compare(&old), Causality::Concurrent);
        clock.merge(&old).unwrap();
        let below = Run::new(actor(1, 1), 1, 5);
        assert_eq!(clock.runs(), [below, Run::new(actor(1, 1), 8, 9)]);
        clock.see(dot(7), 2).unwrap();
        assert_eq!(clock, self::clock(&[(1, 9)]));
    }

    #[test]
    fn clocks_have_something_in_common_if_both_have_seen_the_same_event() {
        assert!(clock(&[(1, 5), (2, 1)]).has_common(&clock(&[(1, 1), (3, 1)])));
        assert!(!clock(&[(1, 5)]).has_common(&clock(&[(2, 5)])));
        let mut later = VectorClock::new();
        later.increment(actor(1, 1), 7).unwrap();
        assert!(!clock(&[(1, 7)]).has_common(&later));
        assert!(!later.has_common(&clock(&[(1, 7)])));
        assert!(clock(&[(1, 8)]).has_common(&later));
        assert!(later.has_common(&clock(&[(1, 8)])));
    }

    #[test]
    fn a_full_clock_refuses_and_stays_as_it_was() {
        let actors = (1..=RUNS_MAX as u64).map(|node| Run::new(actor(node, 1), 1, 1));
        let mut full = VectorClock::from_runs(actors.collect()).unwrap();
        let before = full.clone();
        assert_eq!(full.merge(&clock(&[(u64::MAX, 1)])), Err(ClockFull));
        assert_eq!(full.increment(actor(u64::MAX, 1), 0), Err(ClockFull));
        assert_eq!(full, before);
        assert!(full.increment(actor(1, 1), 0).is_ok());
        let mut at_the_end = clock(&[(1, u64::MAX)]);
        assert_eq!(at_the_end.increment(actor(1, 1), 0), Err(ClockFull));
    }

    #[test]
    fn what_is_retired_leaves_the_last_run_of_who_has_seen_it() {
        let mut long = clock(&[(1, 3), (2, 4)]);
        long.increment(actor(1, 1), 20).unwrap();
        long.increment(actor(1, 1), 20).unwrap();
        let (before, mut short) = (long.clone(), long);
        assert!(
            !short.retire_before(actor(3, 1)),
            "it has seen nothing of that one"
        );
        assert!(short.retire_before(actor(1, 1)));
        assert_eq!(short.actors().len(), 1);
        assert_eq!((short.counter(actor(1, 1)), short.counter(actor(2, 1))), (22, 0));
        // One that has not retired yet has seen all of it, and knows it as the same.
        assert_eq!(before.compare(&short), Causality::After);
        assert!(short.has_common(&before));
        assert!(
            !short.retire_before(actor(1, 1)),
            "there is nothing left to retire"
        );
    }
}
