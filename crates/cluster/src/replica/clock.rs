//! Raft counts ticks. Here ticks are derived from `now`, and the replica says when the next one matters, so that nothing
//! wakes up for a tick in which nothing happens. The election timeout is drawn from the replica's own seeded generator.

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

/// SplitMix64: enough to spread timeouts, and the same numbers on every machine.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A number from `low` (included) to `high` (excluded).
    pub(super) fn between(&mut self, low: usize, high: usize) -> usize {
        assert!(low < high, "the range holds at least one number");
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        low + (mixed % (high - low) as u64) as usize
    }
}
