//! Looks for an order.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::{Model, Operation, Tolerance, Violation};

/// A place in the search: what is in order already, and what the key is then.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    done: Done,
    model: Model,
}

/// A set of operations.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Done(Vec<u64>);

impl Done {
    fn none(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    fn contains(&self, place: usize) -> bool {
        self.0[place / 64] & 1 << (place % 64) != 0
    }

    fn with(&self, place: usize) -> Self {
        let mut with = self.clone();
        with.0[place / 64] |= 1 << (place % 64);
        with
    }
}

/// Whether there is an order of a key's operations in which one copy answers as clients were told.
///
/// The key did not exist before.
///
/// What nobody was told about is first put only where something else cannot be explained without it; that finds nearly every order, and
/// soon. If there is none, all orders are tried, up to 300,000 states of the key. After that it is not known, and counts as explained.
///
/// # Errors
/// There is none. The violation has the longest order that was found.
pub fn check(history: &[Operation], tolerance: Tolerance) -> Result<(), Violation> {
    explain(history, tolerance).map(|_| ())
}

/// What is known of a history that no violation was found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Explained {
    /// There is an order.
    Fully,
    /// No order was found, and not all were tried.
    NotKnown,
}

/// As [`check`], and says whether the search came to an end.
///
/// # Errors
/// As [`check`].
pub fn explain(history: &[Operation], tolerance: Tolerance) -> Result<Explained, Violation> {
    explain_within(history, tolerance, TRIED_MAX)
}

/// As [`explain`], up to so many states of the key.
///
/// # Errors
/// As [`check`].
pub fn explain_within(
    history: &[Operation],
    tolerance: Tolerance,
    tried_max: usize,
) -> Result<Explained, Violation> {
    let search = Search::new(history, tolerance, tried_max);
    if search.find(Search::sparing).is_ok() {
        return Ok(Explained::Fully);
    }
    match search.find(Search::all) {
        Err(NotFound::Nowhere(violation)) => Err(violation),
        Ok(()) => Ok(Explained::Fully),
        Err(NotFound::SoFar) => Ok(Explained::NotKnown),
    }
}

/// States of a key that are looked at: a few seconds' worth.
const TRIED_MAX: usize = 300_000;

/// So many operations that nobody was told about may come together before one that needs them.
const UNKNOWN_TOGETHER_MAX: usize = 2;

struct Search<'a> {
    history: &'a [Operation],
    by_start: Vec<usize>,
    tolerance: Tolerance,
    tried_max: usize,
}

enum NotFound {
    /// There is no order.
    Nowhere(Violation),
    /// It was looked for long enough.
    SoFar,
}

/// Operations in their order, and where they lead.
type Way = (Vec<usize>, Place);

impl<'a> Search<'a> {
    fn new(history: &'a [Operation], tolerance: Tolerance, tried_max: usize) -> Self {
        let mut by_start: Vec<usize> = (0..history.len()).collect();
        by_start.sort_by_key(|place| history[*place].invoked);
        Self {
            history,
            by_start,
            tolerance,
            tried_max,
        }
    }

    /// Goes all ways that `ways` knows from each place, the last one first.
    fn find(&self, ways: impl Fn(&Self, &Place, &[usize]) -> Vec<Way>) -> Result<(), NotFound> {
        let first = Place {
            done: Done::none(self.history.len()),
            model: Model::default(),
        };
        let mut steps = Steps::default();
        let mut longest = (0, None);
        let mut seen = HashSet::from([first.clone()]);
        let mut open = vec![(first, 0, None)];
        while let Some((at, len, last)) = open.pop() {
            let candidates = self.next(&at.done);
            // What nobody was told about may as well never have been executed.
            if candidates.iter().all(|place| self.is_unknown(*place)) {
                return Ok(());
            }
            if len > longest.0 {
                longest = (len, last);
            }
            if seen.len() > self.tried_max {
                return Err(NotFound::SoFar);
            }
            for (added, to) in ways(self, &at, &candidates) {
                if seen.insert(to.clone()) {
                    let len = len + added.len();
                    let last = added
                        .into_iter()
                        .fold(last, |last, place| Some(steps.add(last, place)));
                    open.push((to, len, last));
                }
            }
        }
        let order = steps.up_to(longest.1);
        let none = Done::none(self.history.len());
        let done = order.iter().fold(none, |done, place| done.with(*place));
        let stuck = self.next(&done);
        Err(NotFound::Nowhere(Violation { order, stuck }))
    }

    /// Any operation may come next. What ended soonest is last.
    fn all(&self, at: &Place, candidates: &[usize]) -> Vec<Way> {
        let mut candidates = candidates.to_vec();
        candidates.sort_by_key(|place| Reverse(self.history[*place].ended()));
        let ways = candidates.into_iter().flat_map(|place| {
            let after = self.after(at, place);
            after.map(move |to| (vec![place], to))
        });
        ways.collect()
    }

    /// One that was answered comes next, and before it what it needs of the others.
    fn sparing(&self, at: &Place, candidates: &[usize]) -> Vec<Way> {
        let mut candidates = candidates.to_vec();
        candidates.sort_by_key(|place| Reverse(self.history[*place].ended()));
        let (unknown, known): (Vec<usize>, Vec<usize>) =
            candidates.into_iter().partition(|place| self.is_unknown(*place));
        let mut ways = Vec::new();
        for place in known {
            let mut starts: Vec<Way> = vec![(Vec::new(), at.clone())];
            for _ in 0..=UNKNOWN_TOGETHER_MAX {
                let before = ways.len();
                for (added, from) in &starts {
                    ways.extend(self.after(from, place).map(|to| (with(added, place), to)));
                }
                if ways.len() > before {
                    break;
                }
                starts = self.with_one_more(&starts, &unknown);
            }
        }
        ways
    }

    /// All ways that go on with something that nobody was told about and that changes the key.
    fn with_one_more(&self, ways: &[Way], unknown: &[usize]) -> Vec<Way> {
        let mut more = Vec::new();
        for (added, from) in ways {
            for place in unknown.iter().filter(|place| !added.contains(place)) {
                let changed = self.after(from, *place).filter(|to| to.model != from.model);
                more.extend(changed.map(|to| (with(added, *place), to)));
            }
        }
        more
    }

    fn after(&self, at: &Place, place: usize) -> impl Iterator<Item = Place> + use<> {
        let done = at.done.with(place);
        let models = at.model.after(&self.history[place], self.tolerance).into_iter();
        models.map(move |model| Place {
            done: done.clone(),
            model,
        })
    }

    fn is_unknown(&self, place: usize) -> bool {
        self.history[place].answered.is_none()
    }

    /// The operations that may come next: those that began before all others ended.
    fn next(&self, done: &Done) -> Vec<usize> {
        let mut next = Vec::new();
        let mut first_end = u64::MAX;
        for place in self
            .by_start
            .iter()
            .copied()
            .filter(|place| !done.contains(*place))
        {
            if self.history[place].invoked > first_end {
                break;
            }
            first_end = first_end.min(self.history[place].ended());
            next.push(place);
        }
        next
    }
}

fn with(added: &[usize], place: usize) -> Vec<usize> {
    let mut with = added.to_vec();
    with.push(place);
    with
}

/// Orders that were tried; each is told by its last step.
#[derive(Debug, Default)]
struct Steps(Vec<(Option<usize>, usize)>);

impl Steps {
    fn add(&mut self, before: Option<usize>, place: usize) -> usize {
        self.0.push((before, place));
        self.0.len() - 1
    }

    fn up_to(&self, last: Option<usize>) -> Vec<usize> {
        let mut order: Vec<usize> = std::iter::successors(last, |step| self.0[*step].0)
            .map(|step| self.0[step].1)
            .collect();
        order.reverse();
        order
    }
}
