//! A clock for the silence of others, which stands while this node itself does: who is not awake does not know for how long nobody has answered.

use std::time::{Duration, Instant};

use super::link::PROBE_IDLE;

/// For how long a node has looked, without the times when it was not awake itself.
#[derive(Debug)]
pub(super) struct Awake {
    time: Duration,
    looked_at: Instant,
}

impl Awake {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            time: Duration::ZERO,
            looked_at: now,
        }
    }

    /// Time passes. Whether this node stood still since it looked last: it looks far more often than that.
    pub(super) fn look(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.looked_at);
        self.looked_at = now;
        self.time += passed.min(PROBE_IDLE);
        passed > 2 * PROBE_IDLE
    }

    pub(super) fn time(&self) -> Duration {
        self.time
    }

    /// When it looked last.
    pub(super) fn looked_at(&self) -> Instant {
        self.looked_at
    }
}
