//! Which keys expire when.

use std::collections::BTreeSet;

use crate::key::Key;

/// The keys that have a deadline, the next one first. A change costs O(log n), time that passes costs nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Deadlines {
    by_deadline: BTreeSet<(u64, Key)>,
}

impl Deadlines {
    /// Builds the index of all keys at once, which is faster than adding them one by one.
    pub(crate) fn of(mut deadlines: Vec<(u64, Key)>) -> Self {
        deadlines.sort_unstable();
        Self {
            by_deadline: deadlines.into_iter().collect(),
        }
    }

    /// Moves a key from its old deadline, if it had one, to its new one, if it has one.
    pub(crate) fn change(&mut self, key: &Key, old: Option<u64>, new: Option<u64>) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            let was_there = self.by_deadline.remove(&(old, key.clone()));
            assert!(was_there, "a key with a deadline is in the index");
        }
        if let Some(new) = new {
            self.by_deadline.insert((new, key.clone()));
        }
    }

    /// How many keys have a deadline.
    pub(crate) fn len(&self) -> usize {
        self.by_deadline.len()
    }

    /// The next deadline, in milliseconds of group time.
    pub(crate) fn next(&self) -> Option<u64> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }

    /// The keys whose deadline is not after `now`, the longest due first.
    pub(crate) fn due(&self, now: u64) -> impl Iterator<Item = &Key> {
        self.by_deadline
            .iter()
            .take_while(move |(deadline, _)| *deadline <= now)
            .map(|(_, key)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(deadlines: &Deadlines, now: u64) -> Vec<&[u8]> {
        deadlines.due(now).map(Key::as_slice).collect()
    }

    #[test]
    fn keys_are_due_in_the_order_of_their_deadlines() {
        let (a, b, c) = (Key::new(b"a"), Key::new(b"b"), Key::new(b"c"));
        let mut deadlines = Deadlines::of(vec![(30, a.clone()), (10, b.clone())]);
        deadlines.change(&c, None, Some(20));
        assert_eq!(deadlines.next(), Some(10));
        assert_eq!(due(&deadlines, 9), Vec::<&[u8]>::new());
        assert_eq!(due(&deadlines, 30), [b"b", b"c", b"a"]);

        deadlines.change(&b, Some(10), Some(40));
        deadlines.change(&c, Some(20), None);
        deadlines.change(&a, Some(30), Some(30));
        assert_eq!(due(&deadlines, 40), [b"a", b"b"]);
        assert_eq!(deadlines.next(), Some(30));
    }
}
