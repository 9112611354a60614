//! The log of what took long: requests of clients as the node tells of them, writes to the disk, and turns of the node's thread.
//!
//! A line about a client says how long the disk and the node's thread took meanwhile, at the longest. What is left went to other nodes, or to
//! finding out who the client is. There are so many lines a second of each operation; all are counted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use broker::{SlowKind, SlowOperation};

use crate::log_limit::LogLimit;
use crate::metrics::Counts;
use crate::observed::verb_name;
use crate::reporting::{Place, Whereabouts};

/// What took long, and what is not written.
#[derive(Debug)]
pub(crate) struct SlowLog {
    /// From when on something is slow.
    after: Duration,
    kinds: BTreeMap<&'static str, Kind>,
    disk: Recent,
    turns: Recent,
}

/// What one operation was counted for. Each has lines of its own, so that none hides another.
#[derive(Debug, Default)]
struct Kind {
    count: u64,
    lines: LogLimit,
}

/// The last few that took noticeably long: when they ended, and how long they took.
#[derive(Debug, Default)]
struct Recent {
    last: [Option<(Instant, Duration)>; RECENT],
    next: usize,
}

/// More than there are in the time that something is slow in.
const RECENT: usize = 32;

/// What is shorter than this part of what is slow explains nothing.
const NOTICEABLE: u32 = 16;

/// As metrics name what took long.
const OPERATIONS: [&str; 6] = ["request", "publish", "connect", "subscribe", "disk", "turn"];

impl SlowLog {
    /// `after`: from when on something is slow; `None`: nothing is.
    pub(crate) fn new(after: Option<Duration>) -> Self {
        Self {
            after: after.unwrap_or(Duration::MAX),
            kinds: OPERATIONS.map(|operation| (operation, Kind::default())).into(),
            disk: Recent::default(),
            turns: Recent::default(),
        }
    }

    /// How often, by operation.
    pub(crate) fn counts(&self) -> Counts {
        let kinds = self.kinds.iter();
        kinds.map(|(operation, kind)| (*operation, kind.count)).collect()
    }

    /// The disk has taken so long for a batch that ended now.
    pub(crate) fn disk(&mut self, now: Instant, took: Duration) {
        if took < self.after / NOTICEABLE {
            return;
        }
        self.disk.push(now, took);
        if let Some(left_out) = self.count("disk", took, now) {
            let took_ms = millis(took);
            tracing::warn!(took_ms, left_out, "the disk took long for a batch of writes");
        }
    }

    /// The node's thread has taken so long for what it did in one go, which ended now.
    pub(crate) fn turn(&mut self, now: Instant, took: Duration) {
        if took < self.after / NOTICEABLE {
            return;
        }
        self.turns.push(now, took);
        if let Some(left_out) = self.count("turn", took, now) {
            let took_ms = millis(took);
            tracing::warn!(
                took_ms,
                left_out,
                "the node's thread was busy for long, or was not let run"
            );
        }
    }

    /// The node tells of a client that has waited long, until now.
    pub(crate) fn operation(&mut self, now: Instant, slow: &SlowOperation, place: Option<&Place>) {
        let (operation, verb) = match slow.kind {
            SlowKind::Request(verb) => ("request", Some(verb_name(verb))),
            SlowKind::Publish => ("publish", None),
            SlowKind::Connect => ("connect", None),
            SlowKind::Subscribe => ("subscribe", None),
        };
        let Some(left_out) = self.count(operation, slow.took, now) else {
            return;
        };
        let since = now.checked_sub(slow.took).unwrap_or(now);
        let at = Whereabouts::of(place);
        let key = slow.key.as_ref().map(|key| String::from_utf8_lossy(key));
        tracing::warn!(
            operation,
            verb,
            client_id = %slow.client_id,
            peer = at.peer,
            key = key.as_deref(),
            took_ms = millis(slow.took),
            disk_ms = self.disk.longest_since(since).map(millis),
            turn_ms = self.turns.longest_since(since).map(millis),
            left_out,
            "a client has waited long"
        );
    }

    /// Counts it if it is slow. `Some`: a line may be written, with how many were left out before it, if any were.
    fn count(&mut self, operation: &'static str, took: Duration, now: Instant) -> Option<Option<u64>> {
        if took < self.after {
            return None;
        }
        let kind = self.kinds.entry(operation).or_default();
        kind.count += 1;
        let left_out = kind.lines.take(now)?;
        Some((left_out > 0).then_some(left_out))
    }
}

impl Default for SlowLog {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Recent {
    fn push(&mut self, ended: Instant, took: Duration) {
        self.last[self.next] = Some((ended, took));
        self.next = (self.next + 1) % RECENT;
    }

    /// The longest of those that ended after a moment.
    fn longest_since(&self, since: Instant) -> Option<Duration> {
        let ended = self.last.iter().flatten().filter(|(ended, _)| *ended >= since);
        ended.map(|(_, took)| *took).max()
    }
}

fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const AFTER: Duration = Duration::from_millis(160);

    fn count_of(log: &SlowLog, operation: &str) -> u64 {
        log.counts()[operation]
    }

    #[test]
    fn what_is_slow_is_counted_and_what_is_not_is_not() {
        let (mut log, now) = (SlowLog::new(Some(AFTER)), clock::instant());
        for took in [AFTER / 2, AFTER, AFTER * 2] {
            log.disk(now, took);
        }
        log.turn(now, AFTER);
        assert_eq!((count_of(&log, "disk"), count_of(&log, "turn")), (2, 1));
        assert_eq!(log.counts().keys().count(), OPERATIONS.len());
    }

    #[test]
    fn without_the_setting_nothing_is_slow() {
        let (mut log, now) = (SlowLog::new(None), clock::instant());
        log.disk(now, Duration::from_secs(1_000_000));
        assert_eq!(count_of(&log, "disk"), 0);
    }

    #[test]
    fn a_line_knows_the_longest_of_what_went_on_meanwhile() {
        let (mut log, start) = (SlowLog::new(Some(AFTER)), clock::instant());
        let at = |millis: u64| start + Duration::from_millis(millis);
        // Too short to explain anything, long, and before.
        for (ended, took) in [(100, 90), (300, 50), (400, 80), (500, 9)] {
            log.disk(at(ended), Duration::from_millis(took));
        }
        assert_eq!(log.disk.longest_since(at(200)), Some(Duration::from_millis(80)));
        assert_eq!(log.disk.longest_since(at(401)), None);
        // Only so many are remembered, the latest.
        for ended in 0..100 {
            log.turn(at(ended), AFTER);
        }
        assert_eq!(log.turns.last.iter().flatten().count(), RECENT);
        assert_eq!(log.turns.longest_since(at(99)), Some(AFTER));
    }
}
