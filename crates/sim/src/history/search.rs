//! Looks for an order.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::{Model, Operation, Violation};

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
/// `skew`: by how many nanoseconds the servers' clocks may differ from that of the history. The key did not exist before.
///
/// # Errors
/// There is none. The violation has the longest order that was found.
pub fn check(history: &[Operation], skew: u64) -> Result<(), Violation> {
    let mut by_start: Vec<usize> = (0..history.len()).collect();
    by_start.sort_by_key(|place| history[*place].invoked);
    let first = Place {
        done: Done::none(history.len()),
        model: Model::default(),
    };
    let mut steps = Steps::default();
    let mut longest = (0, None);
    let mut seen = HashSet::from([first.clone()]);
    let mut ways = vec![(first, 0, None)];
    while let Some((at, len, last)) = ways.pop() {
        let mut candidates = next(&at.done, history, &by_start);
        // What nobody was told about may as well never have been executed.
        if candidates.iter().all(|place| history[*place].answered.is_none()) {
            return Ok(());
        }
        if len > longest.0 {
            longest = (len, last);
        }
        // The last one that is put here is tried first: what ended soonest.
        candidates.sort_by_key(|place| Reverse(history[*place].ended()));
        for place in candidates {
            for model in at.model.after(&history[place], skew) {
                let way = Place {
                    done: at.done.with(place),
                    model,
                };
                if seen.insert(way.clone()) {
                    ways.push((way, len + 1, Some(steps.add(last, place))));
                }
            }
        }
    }
    let order = steps.up_to(longest.1);
    let done = order
        .iter()
        .fold(Done::none(history.len()), |done, place| done.with(*place));
    let stuck = next(&done, history, &by_start);
    Err(Violation { order, stuck })
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

/// The operations that may come next: those that began before all others ended.
fn next(done: &Done, history: &[Operation], by_start: &[usize]) -> Vec<usize> {
    let mut next = Vec::new();
    let mut first_end = u64::MAX;
    for place in by_start.iter().copied().filter(|place| !done.contains(*place)) {
        if history[place].invoked > first_end {
            break;
        }
        first_end = first_end.min(history[place].ended());
        next.push(place);
    }
    next
}
