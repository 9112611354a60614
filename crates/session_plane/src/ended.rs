//! End of a session: what the entry says that a session leaves in its place (rule `end-covers`).
//!
//! Each CONNECT writes the session's entry anew. A copy that has missed the last of these has an
//! older one, which the removals of the end do not name. So the end carries what its maker had
//! decided upon, and beats each session's entry in it. The rule of reading takes the union of all
//! ends ([`SessionEntries::live`](crate::SessionEntries::live)).
//!
//! *Invariants*: what was seen are prefixes: with a number of a run come all lower ones. There are
//! at most [`SEEN_MAX`] of them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use cluster::NodeId;
use cluster::session_plane::Hlc;

use crate::{Interval, VersionVector};

/// Prefixes that one end carries at most. Those beyond are left out: the end beats less.
///
/// A left out session's entry may come back with a copy that has missed the end of its session. The
/// runs with the most later runs of their node go first: such a copy was away for all of these.
pub const SEEN_MAX: usize = 128;

/// What the end of a session knows of the entries that CONNECTs have written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ended {
    seen: VersionVector,
    resumed: Option<Hlc>,
}

/// Parts are no end of a session. Nothing was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EndedError {
    /// More prefixes than [`SEEN_MAX`].
    #[error("the end of a session has seen {count} runs, at most {SEEN_MAX}")]
    TooManyRuns {
        /// Prefixes that were given.
        count: usize,
    },
    /// With a number of a run come all lower ones.
    #[error("the end of a session has seen events of a run without the first")]
    NoPrefix,
}

impl Ended {
    /// End that has seen the events `seen`. `resumed` is the clock of the last CONNECT that resumed a
    /// session; None if there was none.
    ///
    /// # Errors
    ///
    /// [`EndedError`] where `seen` is too long, or has events of a run without its first.
    pub fn new(seen: VersionVector, resumed: Option<Hlc>) -> Result<Ended, EndedError> {
        let count = seen.intervals().len();
        if count > SEEN_MAX {
            Err(EndedError::TooManyRuns { count })
        } else if seen.prefixes() != seen {
            Err(EndedError::NoPrefix)
        } else {
            Ok(Ended { seen, resumed })
        }
    }

    /// End of a maker that has `decided` upon these events.
    pub(crate) fn of_decided(decided: &VersionVector, resumed: Option<Hlc>) -> Ended {
        let seen = longest(decided.prefixes());
        Ended { seen, resumed }
    }

    /// Takes in what an end knows that this one replaces.
    pub(crate) fn unite(&mut self, replaced: &Ended) {
        self.seen = longest(self.seen.united(&replaced.seen));
        self.resumed = self.resumed.max(replaced.resumed);
    }

    /// Events that the end beats: of each run the lowest, without a gap.
    pub fn seen(&self) -> &VersionVector {
        &self.seen
    }

    /// Clock of the last CONNECT that resumed a session, or began one without Clean Start. A will with a delay
    /// that is older is void.
    pub fn resumed(&self) -> Option<Hlc> {
        self.resumed
    }
}

impl Ord for Ended {
    /// Order of entries under one identity, without another meaning.
    fn cmp(&self, other: &Ended) -> Ordering {
        let seen = self.seen.intervals().cmp(other.seen.intervals());
        seen.then_with(|| self.resumed.cmp(&other.resumed))
    }
}

impl PartialOrd for Ended {
    fn partial_cmp(&self, other: &Ended) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The prefixes, without those whose nodes have the most later ones, down to [`SEEN_MAX`].
fn longest(prefixes: VersionVector) -> VersionVector {
    if prefixes.intervals().len() <= SEEN_MAX {
        return prefixes;
    }
    let mut later_of_node: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, Interval)> = Vec::with_capacity(prefixes.intervals().len());
    for interval in prefixes.intervals().iter().rev() {
        let later = later_of_node.entry(interval.node()).or_default();
        ranked.push((*later, *interval));
        *later += 1;
    }
    ranked.sort_unstable();
    ranked.truncate(SEEN_MAX);
    VersionVector::of_apart(ranked.into_iter().map(|(_, interval)| interval))
}

#[cfg(test)]
mod tests {
    use cluster::Incarnation;
    use proptest::prelude::*;

    use super::*;
    use crate::{Dot, Run};

    fn run(node: u64, incarnation: u32) -> Run {
        Run {
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
        }
    }

    fn vector_of(intervals: impl IntoIterator<Item = Option<Interval>>) -> VersionVector {
        let mut vector = VersionVector::default();
        for interval in intervals {
            vector
                .insert(interval.expect("ascending"))
                .expect("samples are small");
        }
        vector
    }

    fn intervals() -> impl Strategy<Value = VersionVector> {
        let one = (1..3_u64, 1..4_u32, 1..6_u64, 0..4_u64);
        let one = one.prop_map(|(node, incarnation, first, more)| {
            Interval::new(run(node, incarnation), first, first + more)
        });
        proptest::collection::vec(one, 0..10).prop_map(vector_of)
    }

    /// The event and all before it, of its run.
    fn is_prefix_in(vector: &VersionVector, dot: Dot) -> bool {
        (1..=dot.number).all(|number| vector.covers(Dot { number, ..dot }))
    }

    proptest! {
        #[test]
        fn an_end_has_seen_what_no_gap_is_before(
            decided in intervals(),
            earlier in intervals(),
            resumed in proptest::option::of(0..4_u64),
            before in proptest::option::of(0..4_u64),
        ) {
            let resumed = resumed.map(Hlc::at);
            let replaced = Ended::of_decided(&earlier, before.map(Hlc::at));
            let mut ended = Ended::of_decided(&decided, resumed);
            ended.unite(&replaced);
            for (node, incarnation, number) in
                (1..3).flat_map(|node| (1..4).flat_map(move |of| (1..12).map(move |number| (node, of, number))))
            {
                let dot = Dot { run: run(node, incarnation), number };
                let is_seen = is_prefix_in(&decided, dot) || is_prefix_in(&earlier, dot);
                prop_assert_eq!(ended.seen().covers(dot), is_seen);
            }
            prop_assert_eq!(ended.resumed(), resumed.max(before.map(Hlc::at)));
            prop_assert_eq!(Ended::new(ended.seen().clone(), ended.resumed()), Ok(ended));
        }
    }

    /// Node 1 has started often, node 2 once.
    #[test]
    fn runs_with_the_most_later_ones_are_left_out() {
        let starts = SEEN_MAX as u32 + 2;
        let often = (1..=starts).map(|start| Interval::up_to(run(1, start), 5));
        let decided = vector_of(often.chain([Interval::up_to(run(2, 1), 5)]));
        let mut ended = Ended::of_decided(&decided, None);
        assert_eq!(ended.seen().intervals().len(), SEEN_MAX);
        let has = |ended: &Ended, node, start| {
            let run = run(node, start);
            ended.seen().covers(Dot { run, number: 5 })
        };
        let check = |ended: &Ended| {
            assert!(has(ended, 2, 1), "it has no later run");
            assert!((4..=starts).all(|start| has(ended, 1, start)));
            assert!((1..4).all(|start| !has(ended, 1, start)));
        };
        check(&ended);
        let older = Ended::of_decided(
            &vector_of((1..4).map(|start| Interval::up_to(run(1, start), 5))),
            None,
        );
        ended.unite(&older);
        check(&ended);
    }

    #[test]
    fn parts_that_are_no_end_are_refused() {
        let gap = vector_of([Interval::new(run(1, 1), 2, 4)]);
        assert_eq!(Ended::new(gap, None), Err(EndedError::NoPrefix));
        let count = SEEN_MAX + 1;
        let long = vector_of((1..=count as u64).map(|node| Interval::up_to(run(node, 1), 1)));
        assert_eq!(Ended::new(long, None), Err(EndedError::TooManyRuns { count }));
    }
}
