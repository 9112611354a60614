//! A bucket that fills evenly: what strangers may do so often at once, and then once in each interval.

use std::time::{Duration, Instant};

/// A full one, until something is taken.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// In which one comes back.
    interval: Duration,
    /// In which an empty one fills.
    within: Duration,
    /// When it is full again. In the past it is full already.
    full_at: Option<Instant>,
}

impl Bucket {
    /// Holds as many as there are intervals in `within`.
    pub(crate) fn new(interval: Duration, within: Duration) -> Self {
        Self {
            interval,
            within,
            full_at: None,
        }
    }

    /// Takes one; false if there is none.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.map_or(now, |at| at.max(now)) + self.interval;
        let holds_one = full_at <= now + self.within;
        if holds_one {
            self.full_at = Some(full_at);
        }
        holds_one
    }

    /// When it is full again, if something was taken.
    pub(crate) fn full_at(&self) -> Option<Instant> {
        self.full_at
    }
}
