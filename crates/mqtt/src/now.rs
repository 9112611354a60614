//! The present, as the caller read it from its clocks.

use std::time::{Duration, Instant};

use cluster::peers::Reading;

/// The clocks at one moment: the monotonic one for timeouts, the wall clock for what is written to disk.
///
/// An [`Instant`] means nothing after a restart, so deadlines are stored as Unix milliseconds and converted
/// with the `Now` of the moment they are written or read.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Monotonic; only differences matter.
    pub instant: Instant,
    /// Milliseconds since the Unix epoch, as the nodes of the cluster agree.
    pub wall: u64,
    /// Milliseconds since the Unix epoch, as this machine's own clock has it. Nodes that follow one clock agree on it, right or
    /// wrong; only own clocks are witnesses that do not depend on each other.
    pub system_wall: u64,
}

impl Now {
    /// The Unix milliseconds of `instant`.
    pub fn wall_of(&self, instant: Instant) -> u64 {
        if instant >= self.instant {
            self.wall.saturating_add(millis(instant - self.instant))
        } else {
            self.wall.saturating_sub(millis(self.instant - instant))
        }
    }

    /// The monotonic time of `wall` Unix milliseconds. What has passed, perhaps before this machine was started, is
    /// now; what is too far away to be a monotonic time is in a hundred years.
    pub fn instant_of(&self, wall: u64) -> Instant {
        self.after(Duration::from_millis(wall.saturating_sub(self.wall)))
    }

    /// The monotonic time `delay` from now; at most a hundred years.
    pub fn after(&self, delay: Duration) -> Instant {
        self.instant + delay.min(FAR_AWAY)
    }
}

impl From<Now> for Reading {
    fn from(now: Now) -> Self {
        Self {
            at: now.instant,
            wall: now.wall,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Longer than any interval of MQTT, which are at most 2^32 - 1 seconds that count (136 years is "never").
const FAR_AWAY: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// The origin of time in tests: one real instant, to which they add.
#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
pub(crate) fn epoch() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_survives_the_way_to_disk_and_back() {
        let written = Now {
            instant: epoch(),
            wall: 1_000_000,
            system_wall: 1_000_000,
        };
        let deadline = written.after(Duration::from_secs(60));
        let wall = written.wall_of(deadline);
        assert_eq!(wall, 1_060_000);

        let read = Now {
            instant: written.instant + Duration::from_secs(5),
            wall: 1_020_000,
            system_wall: 1_020_000,
        };
        assert_eq!(read.instant_of(wall), read.instant + Duration::from_secs(40));
    }

    #[test]
    fn what_has_passed_is_now() {
        let now = Now {
            instant: epoch(),
            wall: 1_000_000,
            system_wall: 1_000_000,
        };
        assert_eq!(now.instant_of(5), now.instant);
    }

    #[test]
    fn no_wall_time_overflows() {
        let now = Now {
            instant: epoch(),
            wall: 1_000_000,
            system_wall: 1_000_000,
        };
        assert!(now.instant_of(u64::MAX) > now.instant);
    }
}
