//! How fast one client may publish.
//!
//! Each message takes as much time as the limits allow for it. A client that is more than a second ahead of that is not read
//! from until it is no more: nothing is lost, its own sending blocks, and nobody else notices.

use std::time::{Duration, Instant};

use crate::limits::Limits;

/// How far a client may be ahead: what came in one go after a quiet time does not make it wait.
const AHEAD_MAX: Duration = Duration::from_secs(1);

/// What one client has used of its rates.
#[derive(Debug)]
pub struct Pace {
    messages: Rate,
    bytes: Rate,
    /// Nothing is read until the timer comes.
    pub is_paused: bool,
}

#[derive(Debug)]
struct Rate {
    /// 0: any.
    per_second: u32,
    /// When everything that has come would have come at exactly this rate.
    reached: Instant,
}

impl Pace {
    /// None if the limits allow any rate.
    pub fn new(now: Instant, limits: &Limits) -> Option<Box<Self>> {
        let rate = |per_second| Rate {
            per_second,
            reached: now,
        };
        let is_limited = limits.publish_rate_max > 0 || limits.publish_bytes_rate_max > 0;
        is_limited.then(|| {
            Box::new(Self {
                messages: rate(limits.publish_rate_max),
                bytes: rate(limits.publish_bytes_rate_max),
                is_paused: false,
            })
        })
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Counts a message of so many bytes; until when the client has to wait, if it was too fast.
    pub fn take(&mut self, now: Instant, bytes: usize) -> Option<Instant> {
        let until = [self.messages.take(now, 1), self.bytes.take(now, bytes)];
        until.into_iter().flatten().max()
    }
}

impl Rate {
    fn take(&mut self, now: Instant, units: usize) -> Option<Instant> {
        if self.per_second == 0 {
            return None;
        }
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        self.reached = self.reached.max(now) + Duration::from_secs(1) * units / self.per_second;
        self.reached.checked_sub(AHEAD_MAX).filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "an `Instant` cannot be made in another way; only differences matter"
    )]
    fn origin() -> Instant {
        Instant::now()
    }

    fn pace(now: Instant, publish_rate_max: u32, publish_bytes_rate_max: u32) -> Box<Pace> {
        let limits = Limits {
            publish_rate_max,
            publish_bytes_rate_max,
            ..Limits::default()
        };
        Pace::new(now, &limits).expect("there is a limit")
    }

    #[test]
    fn a_second_ahead_is_allowed_and_then_the_rate() {
        let now = origin();
        let mut pace = pace(now, 10, 0);
        assert!((0..10).all(|_| pace.take(now, 1_000_000).is_none()));
        let step = Duration::from_millis(100);
        assert_eq!(pace.take(now, 1), Some(now + step));
        assert_eq!(pace.take(now + step, 1), Some(now + 2 * step));
        let quiet = now + Duration::from_secs(60);
        assert!((0..10).all(|_| pace.take(quiet, 1).is_none()), "and not a minute");
        assert_eq!(pace.take(quiet, 1), Some(quiet + step));
    }

    #[test]
    fn bytes_count_by_themselves() {
        let now = origin();
        let mut pace = pace(now, 1_000, 1_000);
        assert_eq!(pace.take(now, 1_000), None);
        assert_eq!(pace.take(now, 500), Some(now + Duration::from_millis(500)));
    }

    #[test]
    fn the_largest_message_at_the_lowest_rate_is_no_overflow() {
        let now = origin();
        let mut pace = pace(now, 1, 1);
        assert!(pace.take(now, usize::MAX).is_some());
        assert!(pace.take(now, usize::MAX).is_some());
    }

    #[test]
    fn without_a_limit_nothing_is_kept() {
        assert!(Pace::new(origin(), &Limits::default()).is_none());
    }
}
