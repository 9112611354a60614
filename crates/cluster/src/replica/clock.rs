//! Raft counts ticks. Here ticks are derived from `now`, and the replica says when the next one matters, so that nothing
//! wakes up for a tick in which nothing happens.

use std::time::{Duration, Instant};

/// One tick of Raft. Fine enough to spread election timeouts; it costs nothing, as only ticks that matter wake anyone.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// How many ticks have passed.
#[derive(Debug)]
pub(super) struct Clock {
    last: Instant,
}

impl Clock {
    pub(super) fn new(now: Instant) -> Clock {
        Clock { last: now }
    }

    /// The present moment, give or take a tick.
    pub(super) fn now(&self) -> Instant {
        self.last
    }

    /// Ticks since the last call. After a pause of the process at most `ticks_max` are counted, the rest is forgotten.
    pub(super) fn elapsed(&mut self, now: Instant, ticks_max: usize) -> usize {
        let passed = now.saturating_duration_since(self.last);
        let ticks = passed.as_nanos() / TICK.as_nanos();
        if ticks > ticks_max as u128 {
            self.last = now;
            return ticks_max;
        }
        self.last += TICK * ticks as u32;
        ticks as usize
    }

    /// Time passes without ticks.
    pub(super) fn skip_to(&mut self, now: Instant) {
        self.last = self.last.max(now);
    }

    /// When that many more ticks will have passed.
    pub(super) fn after(&self, ticks: usize) -> Instant {
        self.last + TICK * u32::try_from(ticks).unwrap_or(u32::MAX)
    }
}
