//! How long to wait before the next attempt to connect.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Limits of the wait between attempts to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffLimits {
    /// The first wait; doubled with each attempt that fails.
    pub wait_min: Duration,
    /// The longest wait.
    pub wait_max: Duration,
    /// A connection that lasted this long makes the next wait the first again.
    pub stable_after: Duration,
}

impl Default for BackoffLimits {
    /// 100 ms, 30 s, 10 s.
    fn default() -> Self {
        Self {
            wait_min: Duration::from_millis(100),
            wait_max: Duration::from_secs(30),
            stable_after: Duration::from_secs(10),
        }
    }
}

/// Exponential backoff with jitter: a wait is drawn from the upper half of its interval, so that clients that
/// lost the same server do not come back at once.
#[derive(Debug)]
pub(super) struct Backoff {
    limits: BackoffLimits,
    attempts: u32,
    connected_at: Option<Instant>,
    random: SmallRng,
}

impl Backoff {
    pub(super) fn new(limits: BackoffLimits, seed: u64) -> Self {
        Self {
            limits,
            attempts: 0,
            connected_at: None,
            random: SmallRng::seed_from_u64(seed),
        }
    }

    pub(super) fn connected(&mut self, now: Instant) {
        self.connected_at = Some(now);
    }

    /// The wait before the next attempt.
    pub(super) fn next_wait(&mut self, now: Instant) -> Duration {
        if let Some(connected_at) = self.connected_at.take()
            && now.saturating_duration_since(connected_at) >= self.limits.stable_after
        {
            self.attempts = 0;
        }
        let factor = 1_u32 << self.attempts.min(20);
        let interval = self
            .limits
            .wait_min
            .saturating_mul(factor)
            .min(self.limits.wait_max);
        self.attempts = self.attempts.saturating_add(1);
        interval.mul_f64(self.random.random_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff(seed: u64) -> Backoff {
        Backoff::new(BackoffLimits::default(), seed)
    }

    #[test]
    fn waits_double_up_to_the_limit_and_stay_in_the_upper_half() {
        let now = crate::core::tests::origin();
        let mut backoff = backoff(1);
        let mut interval = Duration::from_millis(100);
        for _ in 0..40 {
            let wait = backoff.next_wait(now);
            assert!(
                wait >= interval / 2 && wait <= interval,
                "{wait:?} is not in the upper half of {interval:?}"
            );
            interval = (interval * 2).min(Duration::from_secs(30));
        }
    }

    #[test]
    fn only_a_connection_that_lasted_starts_over() {
        let now = crate::core::tests::origin();
        let mut backoff = backoff(2);
        for _ in 0..5 {
            backoff.next_wait(now);
        }
        backoff.connected(now);
        assert!(backoff.next_wait(now + Duration::from_secs(1)) > Duration::from_secs(1));
        backoff.connected(now);
        assert!(backoff.next_wait(now + Duration::from_secs(10)) <= Duration::from_millis(100));
    }

    #[test]
    fn the_seed_decides() {
        let now = crate::core::tests::origin();
        let waits = |seed| (0..5).map(|_| backoff(seed).next_wait(now)).collect::<Vec<_>>();
        assert_eq!(waits(3), waits(3));
        assert_ne!(backoff(3).next_wait(now), backoff(4).next_wait(now));
    }
}
