//! Answers of others that hold for a while, so that they are not asked again by every client that comes back.
//!
//! What was asked about is kept as a fingerprint only: a keyed hash, whose key is made when the server starts. There is a limit to
//! what is remembered; beyond it the oldest is forgotten.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use aws_lc_rs::rand;

/// Makes fingerprints of credentials.
#[derive(Debug)]
pub(super) struct Fingerprints {
    key: hmac::Key,
}

/// What stands for some credentials, and cannot be turned back into them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fingerprint([u8; 32]);

/// What is known of some credentials, for a while.
#[derive(Debug)]
pub(super) struct Remembered<T> {
    entries: BTreeMap<Fingerprint, Entry<T>>,
    /// Oldest first. One whose number is not that of its entry was replaced.
    order: VecDeque<(u64, Fingerprint)>,
    next_number: u64,
    entries_max: usize,
}

#[derive(Debug)]
struct Entry<T> {
    number: u64,
    until: Instant,
    value: T,
}

impl Fingerprints {
    pub(super) fn new() -> Self {
        let mut key = [0; 32];
        rand::fill(&mut key).expect("the system has random numbers");
        Self {
            key: hmac::Key::new(HMAC_SHA256, &key),
        }
    }

    /// Of these parts, in this order. One that is not there is another one than one that is empty.
    pub(super) fn of(&self, parts: &[Option<&[u8]>]) -> Fingerprint {
        let mut sum = hmac::Context::with_key(&self.key);
        for part in parts {
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            sum.update(&length.to_be_bytes());
            sum.update(part.unwrap_or_default());
        }
        Fingerprint(sum.sign().as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}

impl<T> Remembered<T> {
    pub(super) fn new(entries_max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            order: VecDeque::new(),
            next_number: 0,
            entries_max,
        }
    }

    pub(super) fn insert(&mut self, of: Fingerprint, value: T, until: Instant) {
        let number = self.next_number;
        self.next_number += 1;
        self.entries.insert(of, Entry { number, until, value });
        self.order.push_back((number, of));
        while self.order.len() > self.entries_max {
            let Some((number, of)) = self.order.pop_front() else {
                return;
            };
            if self.entries.get(&of).is_some_and(|entry| entry.number == number) {
                self.entries.remove(&of);
            }
        }
    }

    pub(super) fn get(&self, of: Fingerprint, now: Instant) -> Option<&T> {
        let entry = self.entries.get(&of)?;
        (now < entry.until).then_some(&entry.value)
    }

    pub(super) fn forget_all(&mut self) {
        self.entries.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock;

    fn fingerprints<const N: usize>(of: [&[u8]; N]) -> [Fingerprint; N] {
        let fingerprints = Fingerprints::new();
        of.map(|part| fingerprints.of(&[Some(part)]))
    }

    #[test]
    fn other_credentials_have_other_fingerprints() {
        let fingerprints = Fingerprints::new();
        let all: Vec<Vec<Option<&[u8]>>> = vec![
            vec![Some(b"ab"), Some(b"c")],
            vec![Some(b"a"), Some(b"bc")],
            vec![Some(b"abc")],
            vec![Some(b"abc"), Some(b"")],
            vec![Some(b"abc"), None],
            vec![None, Some(b"abc")],
            vec![],
        ];
        for (index, one) in all.iter().enumerate() {
            assert_eq!(fingerprints.of(one), fingerprints.of(one));
            for other in &all[index + 1..] {
                assert_ne!(fingerprints.of(one), fingerprints.of(other), "{one:?} {other:?}");
            }
            assert_ne!(
                fingerprints.of(one),
                Fingerprints::new().of(one),
                "another server"
            );
        }
    }

    #[test]
    fn what_was_said_holds_for_its_time() {
        let now = clock::instant();
        let [one, other] = fingerprints([b"one", b"other"]);
        let mut remembered = Remembered::new(10);
        let until = now + Duration::from_secs(5);
        remembered.insert(one, 1, until);
        assert_eq!(remembered.get(one, now), Some(&1));
        assert_eq!(remembered.get(other, now), None);
        assert_eq!(remembered.get(one, until), None);
        remembered.insert(one, 2, until + Duration::from_secs(1));
        assert_eq!(remembered.get(one, until), Some(&2));
        remembered.forget_all();
        assert_eq!(remembered.get(one, now), None);
    }

    #[test]
    fn the_oldest_is_forgotten_at_the_limit() {
        let now = clock::instant();
        let until = now + Duration::from_secs(5);
        let [one, two, three] = fingerprints([b"one", b"two", b"three"]);
        let mut remembered = Remembered::new(2);
        remembered.insert(one, 1, until);
        remembered.insert(two, 2, until);
        remembered.insert(three, 3, until);
        let values = [one, two, three].map(|of| remembered.get(of, now).copied());
        assert_eq!(values, [None, Some(2), Some(3)]);
        for again in 4..100 {
            remembered.insert(three, again, until);
        }
        assert_eq!(remembered.get(three, now), Some(&99));
        assert_eq!(remembered.order.len(), 2);
    }
}
