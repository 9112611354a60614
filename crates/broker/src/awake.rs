//! Awake time: a clock that stands while the node itself does.
//!
//! A node that stood still does not know for how long nobody has answered, so silences of others are measured in this time.

use std::time::{Duration, Instant};

/// Time between two looks that counts at most. A node of a cluster looks at least as often.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Time for which a node has looked.
#[derive(Debug)]
pub(crate) struct Awake {
    time: Duration,
    looked_at: Instant,
}

impl Awake {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            time: Duration::ZERO,
            looked_at: now,
        }
    }

    /// Lets time pass. True where the node stood still since it looked last: it looks far more often than that.
    pub(crate) fn look(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.looked_at);
        self.looked_at = now;
        self.time += passed.min(LOOK_EVERY);
        passed > 2 * LOOK_EVERY
    }

    /// Lets all time pass: nobody else is silent meanwhile.
    pub(crate) fn look_alone(&mut self, now: Instant) {
        self.time += now.saturating_duration_since(self.looked_at);
        self.looked_at = now;
    }

    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// Moment of the last look.
    pub(crate) fn looked_at(&self) -> Instant {
        self.looked_at
    }
}
