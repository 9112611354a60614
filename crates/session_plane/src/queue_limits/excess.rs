//! Excess: messages of a queue that are dropped by the next events.
//!
//! First go messages that are larger than a queue may be, then those that have expired, then the oldest or the
//! newest ones. Each is the least that has to go: what stays is within the limits.
//!
//! *Invariant*: what is found is the begin of one sequence. So the events that follow drop the rest of it, and
//! the number of messages that are found makes no difference to the result.

use std::collections::BTreeMap;

use super::{QueueFull, QueueLimits, QueueSize};
use crate::Dot;
use crate::feed::QueueKey;

/// Message of a queue that counts in its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedWeight {
    /// Place in the queue.
    pub key: QueueKey,
    /// Bytes for which it counts.
    pub bytes: u64,
    /// Unix milliseconds at which it expires.
    pub expires_at: Option<u64>,
}

/// Message that is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Victim {
    /// Event of the message.
    pub message: Dot,
    /// Bytes for which it has counted.
    pub bytes: u64,
    /// Reason.
    pub reason: DropReason,
}

/// Reason for which a message is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// It has more bytes than a queue may have, or the queue has.
    QueueBytes,
    /// The queue has more messages than it may.
    QueueMessages,
    /// The queue was full, and the message has expired.
    Expired,
}

/// What a queue has beyond its limits, as far as it is dropped now.
///
/// Memory for the m messages that are found at most, and O(log m) for each message of the queue.
#[derive(Debug)]
pub struct Excess<'a> {
    limits: &'a QueueLimits,
    /// Messages of each kind that are kept at most, and victims in all.
    found_max: usize,
    /// Wall clock.
    wall: u64,
    /// Size of the messages that are not too large.
    size: QueueSize,
    too_large: Firsts,
    expired: Firsts,
    others: Firsts,
}

/// Messages that go first of their kind.
#[derive(Debug)]
struct Firsts {
    full: QueueFull,
    bytes: BTreeMap<QueueKey, u64>,
}

impl<'a> Excess<'a> {
    /// Excess of an empty queue, when the wall clock is at `wall`. It finds `found_max` messages at most.
    pub fn new(limits: &'a QueueLimits, wall: u64, found_max: usize) -> Excess<'a> {
        let firsts = |full| Firsts {
            full,
            bytes: BTreeMap::new(),
        };
        Excess {
            limits,
            found_max,
            wall,
            size: QueueSize::default(),
            too_large: firsts(QueueFull::DropOldest),
            expired: firsts(QueueFull::DropOldest),
            others: firsts(limits.full),
        }
    }

    /// Adds a message of the queue, in any order.
    pub fn add(&mut self, message: QueuedWeight) {
        let QueuedWeight {
            key,
            bytes,
            expires_at,
        } = message;
        if bytes > self.limits.bytes_max {
            return self.too_large.add(key, bytes, self.found_max);
        }
        self.size.add(QueueSize { messages: 1, bytes });
        if expires_at.is_some_and(|at| at <= self.wall) {
            self.expired.add(key, bytes, self.found_max);
        } else {
            self.others.add(key, bytes, self.found_max);
        }
    }

    /// Messages to drop, in their order.
    pub fn victims(self) -> Vec<Victim> {
        let (limits, found_max, mut left) = (self.limits, self.found_max, self.size);
        let victim = |message: QueueKey, bytes, reason| Victim {
            message: message.dot,
            bytes,
            reason,
        };
        let too_large = self.too_large.in_order();
        let mut victims: Vec<Victim> = too_large
            .map(|(key, bytes)| victim(key, bytes, DropReason::QueueBytes))
            .collect();
        let expired = self.expired.in_order().map(|of| (of, true));
        let others = self.others.in_order().map(|of| (of, false));
        for ((key, bytes), is_expired) in expired.chain(others) {
            let reason = match (left.is_beyond(limits), is_expired) {
                (false, _) => break,
                (true, true) => DropReason::Expired,
                (true, false) if left.messages > limits.messages_max() => DropReason::QueueMessages,
                (true, false) => DropReason::QueueBytes,
            };
            left.subtract(QueueSize { messages: 1, bytes });
            victims.push(victim(key, bytes, reason));
        }
        victims.truncate(found_max);
        victims
    }
}

impl Firsts {
    /// Adds a message, and forgets the one that goes last when there are more than `count_max`.
    fn add(&mut self, key: QueueKey, bytes: u64, count_max: usize) {
        self.bytes.insert(key, bytes);
        if self.bytes.len() > count_max {
            match self.full {
                QueueFull::DropOldest => self.bytes.pop_last(),
                QueueFull::DropNewest => self.bytes.pop_first(),
            };
        }
    }

    fn in_order(self) -> impl Iterator<Item = (QueueKey, u64)> {
        let (oldest, newest) = match self.full {
            QueueFull::DropOldest => (self.bytes, BTreeMap::new()),
            QueueFull::DropNewest => (BTreeMap::new(), self.bytes),
        };
        oldest.into_iter().chain(newest.into_iter().rev())
    }
}
