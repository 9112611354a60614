//! Starts of a data directory: which of two copies of it went on from which.
//!
//! Each start has a number, which rises, and a random nonce. A directory keeps the nonces of its last starts, and shows them in
//! [`Hello`](super::Hello). A peer keeps the last start that it has met, on its disk. A directory that was put back to an older copy
//! shows less than that start, or another nonce for its number: what the node did after the copy was taken is missing.
//!
//! A copy that was taken during the last start shows the same nonces as the original. There the log tells
//! (`replica/missing.rs`).

use bytes::{Buf, BufMut};

use crate::Incarnation;

/// Start of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Its number.
    pub incarnation: Incarnation,
    /// Drawn for it, so that two starts with one number differ.
    pub nonce: u64,
}

/// Last starts of a data directory, up to the present one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starts {
    newest: Incarnation,
    /// Of the last starts, the newest at the end; never empty.
    nonces: Vec<u64>,
}

/// Starts that are remembered. A copy that is older than that many starts shows a lower number in any case.
const STARTS_MAX: usize = 16;

impl Starts {
    /// First start of an empty directory.
    pub fn first(nonce: u64) -> Self {
        Self {
            newest: Incarnation(1),
            nonces: vec![nonce],
        }
    }

    /// Starts of a directory whose earlier nonces are not known.
    pub fn only(start: Start) -> Self {
        Self {
            newest: start.incarnation,
            nonces: vec![start.nonce],
        }
    }

    /// The same with one more start. `None`: there is no higher number.
    pub fn with_next(mut self, nonce: u64) -> Option<Self> {
        self.newest = Incarnation(self.newest.0.checked_add(1)?);
        if self.nonces.len() == STARTS_MAX {
            self.nonces.remove(0);
        }
        self.nonces.push(nonce);
        Some(self)
    }

    /// The present start.
    pub fn newest(&self) -> Start {
        let nonce = self.nonces.last().expect("there is a start");
        Start {
            incarnation: self.newest,
            nonce: *nonce,
        }
    }

    /// Whether a start lies in the past of this directory, as far as the directory knows.
    pub fn include(&self, start: Start) -> bool {
        let Some(age) = self.newest.0.checked_sub(start.incarnation.0) else {
            return false;
        };
        let known = self.nonces.iter().rev().nth(age as usize);
        known.is_none_or(|nonce| *nonce == start.nonce)
    }

    /// Appends number u32, count u8, and the nonces (u64 each), big endian.
    pub fn encode(&self, to: &mut impl BufMut) {
        to.put_u32(self.newest.0);
        to.put_u8(u8::try_from(self.nonces.len()).expect("a few starts"));
        self.nonces.iter().for_each(|nonce| to.put_u64(*nonce));
    }

    /// Takes what [`Starts::encode`] wrote. `None`: it is damaged.
    pub fn decode(from: &mut &[u8]) -> Option<Self> {
        let newest = Incarnation(from.try_get_u32().ok()?);
        let count = usize::from(from.try_get_u8().ok()?);
        if !(1..=STARTS_MAX).contains(&count) {
            return None;
        }
        let nonces = (0..count)
            .map(|_| from.try_get_u64().ok())
            .collect::<Option<_>>()?;
        Some(Self { newest, nonces })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(starts: Starts, nonces: impl IntoIterator<Item = u64>) -> Starts {
        let next = |starts: Starts, nonce| starts.with_next(nonce).expect("a higher number");
        nonces.into_iter().fold(starts, next)
    }

    fn start(incarnation: u32, nonce: u64) -> Start {
        Start {
            incarnation: Incarnation(incarnation),
            nonce,
        }
    }

    #[test]
    fn a_directory_has_its_past_and_no_other() {
        let starts = started(Starts::first(11), [12, 13]);
        assert_eq!(starts.newest(), start(3, 13));
        for (number, nonce) in [(1, 11), (2, 12), (3, 13)] {
            assert!(starts.include(start(number, nonce)));
            assert!(!starts.include(start(number, 99)), "another one had that number");
        }
        assert!(!starts.include(start(4, 14)), "it was not started so often");
    }

    #[test]
    fn an_older_copy_shows_it_however_often_it_is_started() {
        let copy = started(Starts::first(11), [12]);
        let original = started(copy.clone(), [13]);
        for more in 0..12 {
            let copy = started(copy.clone(), (0..more).map(|start| 100 + start));
            assert!(!copy.include(original.newest()), "after {more} starts");
        }
    }

    #[test]
    fn what_is_too_long_ago_is_believed() {
        let starts = started(Starts::first(11), 12..40);
        assert!(!starts.include(start(14, 99)));
        assert!(starts.include(start(13, 99)));
        assert_eq!(starts.nonces.len(), STARTS_MAX);
    }

    #[test]
    fn the_highest_number_is_the_last() {
        let last = Starts::only(start(u32::MAX, 7));
        assert_eq!(last.with_next(8), None);
    }

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let starts = started(Starts::first(11), 12..40);
        let mut bytes = Vec::new();
        starts.encode(&mut bytes);
        assert_eq!(Starts::decode(&mut &bytes[..]), Some(starts));
        for length in 0..bytes.len() {
            assert_eq!(Starts::decode(&mut &bytes[..length]), None);
        }
        assert_eq!(Starts::decode(&mut &b"\0\0\0\x01\0"[..]), None);
        bytes[4] = 17;
        bytes.extend([0; 8]);
        assert_eq!(Starts::decode(&mut &bytes[..]), None);
    }
}
