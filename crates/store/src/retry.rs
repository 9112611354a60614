//! Outcomes that are remembered for requests whose reply was lost.
//!
//! A client that loses its connection sends its unacknowledged requests again. One that was already decided
//! must not be executed again: it is answered with the outcome of its first try. Outcomes are remembered in the
//! order of the log, each until its own time; when there are [`REPLIES_REMEMBERED_MAX`], the oldest is dropped
//! and counted.

use std::hash::{BuildHasherDefault, Hasher};

use hashbrown::HashMap;
use imbl::Vector;

use crate::command::Outcome;

/// What makes two requests the same, and how long that matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryKey {
    /// A digest of what the request is known by.
    pub hash: [u8; 16],
    /// For how many milliseconds its outcome is to be remembered, counted in group time from its log entry on.
    pub remembered: u64,
}

/// What a request is known by when it comes again.
#[derive(Debug, Clone, Copy)]
pub struct RequestIdentity<'a> {
    /// Who sent it.
    pub client_id: &'a str,
    /// Where its reply goes.
    pub response_topic: &'a str,
    /// Its correlation data.
    pub correlation_data: &'a [u8],
    /// Its payload. A client that gives every request the same correlation data would otherwise be answered
    /// with the outcome of another request.
    pub payload: &'a [u8],
}

impl RetryKey {
    /// How long the outcome of a request without a message expiry is remembered, in milliseconds: ten minutes,
    /// which a client needs at most to come back.
    pub const REMEMBERED_DEFAULT_MS: u64 = 10 * 60 * 1_000;

    /// How long an outcome is remembered at most, in milliseconds: an hour, the session expiry of the official
    /// clients.
    pub const REMEMBERED_MAX_MS: u64 = 60 * 60 * 1_000;

    /// The key of a request with this message expiry (seconds).
    ///
    /// A payload longer than 4 KiB counts by its length and its first and last 2 KiB.
    pub fn new(request: &RequestIdentity<'_>, message_expiry: Option<u32>) -> Self {
        let mut hasher = blake3::Hasher::new();
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        add(request.client_id.as_bytes());
        add(request.response_topic.as_bytes());
        add(request.correlation_data);
        match request.payload.split_at_checked(PAYLOAD_END_LENGTH) {
            Some((first, rest)) if rest.len() > PAYLOAD_END_LENGTH => {
                let (_, last) = rest.split_at(rest.len() - PAYLOAD_END_LENGTH);
                add(&(request.payload.len() as u64).to_le_bytes());
                add(first);
                add(last);
            }
            _ => add(request.payload),
        }
        let mut hash = [0; 16];
        hasher.finalize_xof().fill(&mut hash);
        let remembered =
            message_expiry.map_or(Self::REMEMBERED_DEFAULT_MS, |seconds| u64::from(seconds) * 1_000);
        Self {
            hash,
            remembered: remembered.min(Self::REMEMBERED_MAX_MS),
        }
    }
}

/// How many outcomes are remembered. At 60,000 writes a second that is the last four seconds; about 25 MB.
pub const REPLIES_REMEMBERED_MAX: usize = 1 << 18;

/// How many are forgotten when one comes, so that more go than come.
const FORGOTTEN_PER_OUTCOME: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) hash: [u8; 16],
    /// Until when, in milliseconds of group time.
    pub(crate) until: u64,
    pub(crate) outcome: Outcome,
}

/// The remembered outcomes, the oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replies {
    pub(crate) remembered: Vector<Remembered>,
    /// How many were dropped because there were too many.
    pub(crate) dropped: u64,
    /// The number of the first one that is remembered, counted from the first ever.
    first: u64,
    /// The number of the youngest one whose digest begins with these bytes. Half a digest finds it, the whole
    /// one decides; of two with the same half, the older is not found. Nothing depends on the map's order.
    numbers: HashMap<u64, u64, BuildHasherDefault<HalfDigest>>,
}

impl Replies {
    /// The outcome of the request's first try, if it is remembered.
    pub(crate) fn outcome(&self, retry: &RetryKey, time: u64) -> Option<Outcome> {
        let number = self.numbers.get(&first_half(&retry.hash))?;
        let position = usize::try_from(number - self.first).ok()?;
        let remembered = self.remembered.get(position)?;
        let is_remembered = remembered.hash == retry.hash && remembered.until > time;
        is_remembered.then_some(remembered.outcome)
    }

    /// Remembers an outcome of this group time, for an hour at most.
    pub(crate) fn remember(&mut self, retry: &RetryKey, outcome: Outcome, time: u64) {
        if retry.remembered == 0 {
            return;
        }
        let until = time.saturating_add(retry.remembered.min(RetryKey::REMEMBERED_MAX_MS));
        self.forget_passed(time, FORGOTTEN_PER_OUTCOME);
        if self.remembered.len() == REPLIES_REMEMBERED_MAX {
            self.forget_first();
            self.dropped += 1;
        }
        self.push(Remembered {
            hash: retry.hash,
            until,
            outcome,
        });
    }

    /// Adds an outcome as the youngest.
    pub(crate) fn push(&mut self, remembered: Remembered) {
        let number = self.first + self.remembered.len() as u64;
        self.numbers.insert(first_half(&remembered.hash), number);
        self.remembered.push_back(remembered);
    }

    /// Forgets the oldest whose time is over, at most `max`. One that is over, but younger than one that is not,
    /// goes later; it is not found any more.
    pub(crate) fn forget_passed(&mut self, time: u64, max: usize) {
        let is_passed = |first: &Remembered| first.until <= time;
        for _ in 0..max {
            if !self.remembered.front().is_some_and(is_passed) {
                break;
            }
            self.forget_first();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.remembered.len()
    }

    fn forget_first(&mut self) {
        let Some(first) = self.remembered.pop_front() else {
            return;
        };
        // The same request may have been decided anew after its time was over.
        let half = first_half(&first.hash);
        if self.numbers.get(&half) == Some(&self.first) {
            self.numbers.remove(&half);
        }
        self.first += 1;
    }
}

impl PartialEq for Replies {
    fn eq(&self, other: &Self) -> bool {
        self.dropped == other.dropped && self.remembered == other.remembered
    }
}

/// Half a digest is as good as its hash: whoever wants many to meet in one bucket must try a million requests for each.
#[derive(Debug, Clone, Copy, Default)]
struct HalfDigest(u64);

impl Hasher for HalfDigest {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, half: u64) {
        self.0 = half;
    }

    fn write(&mut self, bytes: &[u8]) {
        let _ = bytes;
        unreachable!("only halves of digests are hashed");
    }
}

fn first_half(hash: &[u8; 16]) -> u64 {
    let half = u128::from_be_bytes(*hash) >> 64;
    u64::try_from(half).expect("half of 128 bits")
}

/// How much of the start and of the end of a long payload counts.
const PAYLOAD_END_LENGTH: usize = 2_048;

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: RequestIdentity<'_> = RequestIdentity {
        client_id: "client",
        response_topic: "reply",
        correlation_data: b"7",
        payload: b"payload",
    };

    fn retry(hash: u8, remembered: u64) -> RetryKey {
        RetryKey {
            hash: [hash; 16],
            remembered,
        }
    }

    #[test]
    fn the_key_depends_on_every_part_and_on_where_one_ends() {
        let hash = |request: RequestIdentity<'_>| RetryKey::new(&request, None).hash;
        assert_eq!(hash(REQUEST), hash(REQUEST));
        let others = [
            RequestIdentity {
                client_id: "clientr",
                response_topic: "eply",
                ..REQUEST
            },
            RequestIdentity {
                response_topic: "repl",
                ..REQUEST
            },
            RequestIdentity {
                correlation_data: b"8",
                ..REQUEST
            },
            RequestIdentity {
                payload: b"payloae",
                ..REQUEST
            },
        ];
        for other in others {
            assert_ne!(hash(other), hash(REQUEST), "{other:?}");
        }
    }

    #[test]
    fn a_long_payload_counts_by_its_length_and_its_ends() {
        let hash = |payload: &[u8]| RetryKey::new(&RequestIdentity { payload, ..REQUEST }, None).hash;
        let long = vec![0; 10_000];
        let mut other_start = long.clone();
        other_start[2_047] = 1;
        let mut other_end = long.clone();
        other_end[10_000 - 2_048] = 1;
        let mut other_length = long.clone();
        other_length.push(0);
        for other in [other_start, other_end, other_length] {
            assert_ne!(hash(&other), hash(&long));
        }
    }

    #[test]
    fn the_message_expiry_decides_how_long_up_to_an_hour() {
        let remembered = |message_expiry| RetryKey::new(&REQUEST, message_expiry).remembered;
        assert_eq!(remembered(Some(10)), 10_000);
        assert_eq!(remembered(Some(0)), 0);
        assert_eq!(remembered(None), RetryKey::REMEMBERED_DEFAULT_MS);
        assert_eq!(remembered(Some(u32::MAX)), RetryKey::REMEMBERED_MAX_MS);
    }

    #[test]
    fn an_outcome_is_remembered_until_its_time_is_over() {
        let mut replies = Replies::default();
        replies.remember(&retry(1, 10), Outcome::Missing, 10);
        assert_eq!(replies.outcome(&retry(1, 99), 19), Some(Outcome::Missing));
        assert_eq!(replies.outcome(&retry(1, 99), 20), None);
        assert_eq!(replies.outcome(&retry(2, 99), 10), None);
        replies.remember(&retry(3, 0), Outcome::Missing, 10);
        assert_eq!(replies.len(), 1);
        replies.forget_passed(20, 9);
        assert_eq!(replies.len(), 0);
    }

    #[test]
    fn a_request_that_is_decided_anew_outlives_its_first_outcome() {
        let mut replies = Replies::default();
        replies.remember(&retry(9, 100), Outcome::Done, 0);
        replies.remember(&retry(1, 20), Outcome::Missing, 0);
        replies.remember(&retry(1, 90), Outcome::NotWatched, 30);
        replies.forget_passed(100, 9);
        assert_eq!(replies.outcome(&retry(1, 0), 110), Some(Outcome::NotWatched));
        assert_eq!(replies.len(), 1);
    }

    #[test]
    fn the_oldest_is_dropped_and_counted_when_there_are_too_many() {
        let mut replies = Replies::default();
        let retry = |number: u128| RetryKey {
            hash: (number << 64).to_be_bytes(),
            remembered: 100,
        };
        for number in 0..=REPLIES_REMEMBERED_MAX as u128 {
            replies.remember(&retry(number), Outcome::Done, 0);
        }
        assert_eq!((replies.len(), replies.dropped), (REPLIES_REMEMBERED_MAX, 1));
        assert_eq!(replies.outcome(&retry(0), 0), None);
        assert_eq!(replies.outcome(&retry(1), 0), Some(Outcome::Done));
    }

    #[test]
    fn forgetting_many_takes_several_steps_and_more_go_than_come() {
        let mut replies = Replies::default();
        for number in 1..=10 {
            replies.remember(&retry(number, 20), Outcome::Done, 0);
        }
        replies.forget_passed(30, 4);
        assert_eq!(replies.len(), 6);
        replies.remember(&retry(11, 99), Outcome::Done, 30);
        assert_eq!(replies.len(), 5);
        assert_eq!(replies.outcome(&retry(10, 99), 30), None);
    }

    #[test]
    fn half_a_digest_is_not_enough_to_be_the_same_request() {
        let mut replies = Replies::default();
        let retry = |number: u128| RetryKey {
            hash: number.to_be_bytes(),
            remembered: 100,
        };
        replies.remember(&retry(1), Outcome::Done, 0);
        assert_eq!(replies.outcome(&retry(2), 0), None);
        replies.remember(&retry(2), Outcome::Missing, 0);
        assert_eq!(replies.outcome(&retry(2), 0), Some(Outcome::Missing));
        assert_eq!(replies.outcome(&retry(1), 0), None, "the younger one is found");
    }
}
