//! Deadlines of many thousand keys.
//!
//! Each key has at most one deadline. Setting, ending and popping cost O(log n); nothing happens per tick. A deadline that
//! moves with every packet (keep alive) is not moved here: the owner remembers when it last saw the client, and when
//! the key comes due it schedules the key again if that was not long enough ago. So activity costs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// The deadlines of keys such as sessions or connections.
#[derive(Debug)]
pub struct Timers<K> {
    /// In order of time, then key.
    order: BTreeSet<(Instant, K)>,
    deadlines: BTreeMap<K, Instant>,
}

impl<K: Ord + Copy> Timers<K> {
    /// No deadline.
    pub const fn new() -> Self {
        Self {
            order: BTreeSet::new(),
            deadlines: BTreeMap::new(),
        }
    }

    /// Sets the deadline of `key`, instead of the one it may have.
    pub fn schedule(&mut self, key: K, at: Instant) {
        if let Some(earlier) = self.deadlines.insert(key, at) {
            self.order.remove(&(earlier, key));
        }
        self.order.insert((at, key));
    }

    /// Forgets the deadline of `key`; false if it had none.
    pub fn cancel(&mut self, key: K) -> bool {
        match self.deadlines.remove(&key) {
            Some(at) => self.order.remove(&(at, key)),
            None => false,
        }
    }

    /// Takes the earliest key whose deadline has come. Called until it returns `None`; a key that is scheduled again for
    /// a later time in between does not come back.
    pub fn due(&mut self, now: Instant) -> Option<K> {
        let (at, key) = *self.order.first()?;
        if at > now {
            return None;
        }
        self.order.remove(&(at, key));
        self.deadlines.remove(&key);
        Some(key)
    }

    /// When the next key comes due.
    pub fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// The deadline of `key`.
    pub fn get(&self, key: K) -> Option<Instant> {
        self.deadlines.get(&key).copied()
    }

    /// How many keys have a deadline.
    pub fn len(&self) -> usize {
        self.deadlines.len()
    }

    /// True if none has.
    pub fn is_empty(&self) -> bool {
        self.deadlines.is_empty()
    }
}

impl<K: Ord + Copy> Default for Timers<K> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::now::epoch;

    #[test]
    fn a_rescheduled_key_comes_due_once_at_its_last_deadline() {
        let (t0, second) = (epoch(), Duration::from_secs(1));
        let mut timers = Timers::new();
        timers.schedule(7, t0 + second);
        timers.schedule(7, t0 + 3 * second);
        timers.schedule(8, t0 + 2 * second);
        assert_eq!(timers.next(), Some(t0 + 2 * second));
        assert_eq!(timers.due(t0 + second), None);
        assert_eq!(timers.due(t0 + 5 * second), Some(8));
        assert_eq!(timers.due(t0 + 5 * second), Some(7));
        assert_eq!(timers.due(t0 + 5 * second), None);
        assert!(timers.is_empty());
    }

    proptest! {
        #[test]
        fn timers_behave_like_a_sorted_list(calls in prop::collection::vec((0..4_u8, 0..6_u8, 0..20_u64), 0..80)) {
            let t0 = epoch();
            let mut timers = Timers::new();
            let mut model: Vec<(Instant, u8)> = vec![];
            for (call, key, seconds) in calls {
                let at = t0 + Duration::from_secs(seconds);
                match call {
                    0 | 1 => {
                        model.retain(|(_, other)| *other != key);
                        model.push((at, key));
                        timers.schedule(key, at);
                    }
                    2 => {
                        let before = model.len();
                        model.retain(|(_, other)| *other != key);
                        prop_assert_eq!(timers.cancel(key), model.len() < before);
                    }
                    _ => {
                        model.sort();
                        let expected = model.first().copied().filter(|(due, _)| *due <= at);
                        if expected.is_some() {
                            model.remove(0);
                        }
                        prop_assert_eq!(timers.due(at), expected.map(|(_, key)| key));
                    }
                }
                prop_assert_eq!(timers.next(), model.iter().map(|(due, _)| *due).min());
                prop_assert_eq!(timers.len(), model.len());
            }
        }
    }
}
