//! How much memory the node holds for others, and how scarce that makes it.
//!
//! Messages are shared by the queues of many sessions, so each counts itself: a [`Held`] is part of it from when it is
//! made until nobody has it any more. Everything else is a number that somebody keeps up to date anyway. What follows
//! from a level is in `broker/src/overload.rs`.
//!
//! Everything counts for what the allocator gives for it (`footprint.rs`); `broker/tests/memory` compares the two.

pub mod footprint;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ids::ConnectionId;

/// How scarce memory is: how much of [`crate::limits::Limits::memory_max`] is in use.
///
/// ```text
///          80 %               90 %               100 %
/// Normal ───────► Scarce ───────────► Critical ────────► Full
///        ◄─────── 75 %   ◄─────────── 85 %     ◄──────── 95 %
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryLevel {
    /// Everything is taken.
    #[default]
    Normal,
    /// Messages that would wait for their receivers, or be retained, are refused.
    Scarce,
    /// And publishers are read from slowly.
    Critical,
    /// And nothing is taken that would have to be kept.
    Full,
}

/// Bytes that the node accounts for, by what they are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Messages in queues and inflight, each once, and their places there.
    pub messages: u64,
    /// Retained messages.
    pub retained: u64,
    /// Keys and values of the state store, and the requests that wait.
    pub store: u64,
    /// Records on their way to the disk, and those that the engine holds until they are in its tables.
    pub writes: u64,
    /// What waits to be written to connections.
    pub outbound: u64,
    /// Packets that have not arrived whole, and the buffers of sockets, TLS and WebSocket.
    pub inbound: u64,
    /// Connections, CONNECTs whose client is not known yet, sessions, subscriptions and wills.
    pub clients: u64,
}

/// The sum over all messages that exist.
#[derive(Debug, Clone, Default)]
pub struct MessageBytes(Arc<AtomicU64>);

/// A message's part of [`MessageBytes`], from when it is counted until it is dropped.
#[derive(Debug, Default)]
pub struct Held(Option<(MessageBytes, u64)>);

/// The node's account.
#[derive(Debug, Default)]
pub struct Memory {
    /// Messages of all kinds, once each.
    pub messages: MessageBytes,
    /// CONNECTs whose clients are not known yet.
    pub connects: MessageBytes,
    /// Requests to the state store that wait.
    pub requests: MessageBytes,
    /// Topics that have aliases.
    pub aliases: MessageBytes,
    /// What waits to be written to connections, as the edge said last.
    pub outbound: u64,
    /// What it holds to read from them, as it said last.
    pub inbound: u64,
    /// What the disk engine holds of records that are durable, as it said last.
    pub engine: u64,
    /// Level at the end of the last step.
    pub level: MemoryLevel,
    /// What subscriptions took when the limit was looked at last.
    pub subscriptions_seen: u64,
    /// It is full since this step began.
    pub is_full_now: bool,
    /// Publishers that are not read from for a moment.
    pub held_back: BTreeSet<ConnectionId>,
}

impl MemoryLevel {
    /// The levels above [`MemoryLevel::Normal`], each with the percentage at which it begins.
    const BEGIN: [(Self, u64); 3] = [(Self::Scarce, 80), (Self::Critical, 90), (Self::Full, 100)];

    /// How many percent less end a level than begin it, so that it does not change with every message.
    const LESS_TO_END: u64 = 5;

    /// Its name, for log lines, metrics and `$SYS`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Scarce => "scarce",
            Self::Critical => "critical",
            Self::Full => "full",
        }
    }

    /// The level after this one, with `used` of `max` bytes in use.
    #[must_use]
    pub fn next(self, used: u64, max: u64) -> Self {
        let is_reached = |(level, percent): &&(Self, u64)| {
            let percent = percent - if *level <= self { Self::LESS_TO_END } else { 0 };
            u128::from(used) * 100 >= u128::from(max) * u128::from(percent)
        };
        let reached = Self::BEGIN.iter().rev().find(is_reached);
        reached.map_or(Self::Normal, |(level, _)| *level)
    }
}

impl MemoryUse {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.messages + self.retained + self.store + self.writes + self.outbound + self.inbound + self.clients
    }
}

impl MessageBytes {
    /// Counts a message of so many bytes.
    pub fn hold(&self, bytes: u64) -> Held {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Held(Some((self.clone(), bytes)))
    }

    /// The bytes of all messages that are counted and not dropped.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Held {
    /// The bytes that are counted.
    pub fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |(_, bytes)| *bytes)
    }

    /// Counts so many bytes instead of those that were.
    pub(crate) fn replace(&mut self, bytes: u64) {
        if let Some((messages, before)) = &mut self.0 {
            messages.0.fetch_add(bytes, Ordering::Relaxed);
            messages.0.fetch_sub(*before, Ordering::Relaxed);
            *before = bytes;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some((messages, bytes)) = &self.0 {
            messages.0.fetch_sub(*bytes, Ordering::Relaxed);
        }
    }
}

/// A copy of a message is one more.
impl Clone for Held {
    fn clone(&self) -> Self {
        self.0
            .as_ref()
            .map_or(Self(None), |(messages, bytes)| messages.hold(*bytes))
    }
}

/// Messages that say the same are equal, counted or not.
impl PartialEq for Held {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Held {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_begins_at_its_percentage_and_ends_five_lower() {
        use MemoryLevel::{Critical, Full, Normal, Scarce};
        let mut level = Normal;
        let mut seen = Vec::new();
        for used in [79, 80, 79, 75, 74, 90, 86, 84, 100, 95, 94, 84, 74, 120, 0] {
            level = level.next(used, 100);
            seen.push((used, level));
        }
        assert_eq!(
            seen,
            [
                (79, Normal),
                (80, Scarce),
                (79, Scarce),
                (75, Scarce),
                (74, Normal),
                (90, Critical),
                (86, Critical),
                (84, Scarce),
                (100, Full),
                (95, Full),
                (94, Critical),
                (84, Scarce),
                (74, Normal),
                (120, Full),
                (0, Normal),
            ]
        );
    }

    #[test]
    fn no_limit_is_never_reached() {
        assert_eq!(
            MemoryLevel::Normal.next(u64::MAX / 2, u64::MAX),
            MemoryLevel::Normal
        );
    }

    #[test]
    fn a_message_counts_until_its_last_holder_drops_it() {
        let messages = MessageBytes::default();
        let held = Arc::new(messages.hold(300));
        let shared = Arc::clone(&held);
        assert_eq!(messages.bytes(), 300);
        let copy = (*held).clone();
        assert_eq!(messages.bytes(), 600, "a copy is one more");
        drop((held, copy));
        assert_eq!(messages.bytes(), 300);
        drop(shared);
        assert_eq!(messages.bytes(), 0);
    }
}
