//! The only place that knows what time it is.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use broker::now::Now;
use storage::ClockMark;

/// Both clocks at one moment.
pub fn now() -> Now {
    Now {
        instant: instant(),
        wall: wall(),
    }
}

/// Both clocks, of which the wall clock never goes back.
///
/// When the system's clock is set back, this one goes on at the monotonic clock's pace: no key comes back to life, and
/// no deadline waits for the clock to catch up. When it is set forward, this one follows at once.
#[derive(Debug)]
pub struct Clock {
    /// A moment at which both clocks were right.
    origin: Cell<Now>,
}

impl Clock {
    /// Begins with the system's time.
    pub fn new() -> Self {
        Self {
            origin: Cell::new(now()),
        }
    }

    /// Begins with the system's time, but not before what the mark in the data directory says. Time that may have passed after the mark
    /// was written counts as passed: so nothing lives longer than its deadline says, and what is left may be shorter by [`MARK_INTERVAL`].
    pub(crate) fn going_on_from(mark: Option<ClockMark>) -> Self {
        let system = now();
        Self {
            origin: Cell::new(not_before(mark, system)),
        }
    }

    /// The same clock for another thread.
    pub(crate) fn for_thread(&self) -> Self {
        Self {
            origin: self.origin.clone(),
        }
    }

    /// The present.
    pub fn now(&self) -> Now {
        self.after(now())
    }

    /// From here on it is ahead of the system's by so many milliseconds.
    #[cfg(test)]
    pub(crate) fn set_forward(&self, by: u64) {
        let now = self.now();
        self.origin.set(Now {
            wall: now.wall + by,
            ..now
        });
    }

    fn after(&self, system: Now) -> Now {
        let origin = self.origin.get();
        let steady = origin.wall_of(system.instant);
        if system.wall > steady {
            self.origin.set(system);
            return system;
        }
        Now {
            wall: steady,
            ..system
        }
    }
}

/// How often the highest time that was seen is written to the data directory while nothing else is.
pub(crate) const MARK_INTERVAL: Duration = Duration::from_secs(10);

/// The present of a node whose clock has said what `mark` says.
pub(crate) fn not_before(mark: Option<ClockMark>, system: Now) -> Now {
    let Some(mark) = mark.filter(|mark| mark.wall > system.wall) else {
        return system;
    };
    let unmarked = if mark.is_last {
        Duration::ZERO
    } else {
        MARK_INTERVAL
    };
    let unmarked = u64::try_from(unmarked.as_millis()).expect("it is short");
    Now {
        wall: mark.wall.saturating_add(unmarked),
        ..system
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// The monotonic time. Only differences mean something.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn instant() -> Instant {
    Instant::now()
}

/// Milliseconds since the Unix epoch; 0 on a machine whose clock is set before it.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn wall() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

/// The wall clock, since the Unix epoch.
#[cfg(feature = "otlp")]
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn since_epoch() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_follows_forward_and_never_goes_back() {
        let clock = Clock::new();
        let origin = clock.origin.get();
        let at = |seconds: u64, wall: u64| Now {
            instant: origin.instant + Duration::from_secs(seconds),
            wall,
        };
        let wall = origin.wall;

        assert_eq!(clock.after(at(1, wall + 1_000)).wall, wall + 1_000);
        // Set back by an hour: it goes on.
        assert_eq!(clock.after(at(2, wall - 3_600_000)).wall, wall + 2_000);
        // Set forward by an hour: it follows, and goes on from there when that is taken back.
        assert_eq!(clock.after(at(3, wall + 3_600_000)).wall, wall + 3_600_000);
        assert_eq!(clock.after(at(4, wall + 4_000)).wall, wall + 3_601_000);
    }

    #[test]
    fn a_start_with_an_earlier_clock_goes_on_from_what_was_seen() {
        let system = now();
        let mark = |ahead: i64, is_last| {
            Some(ClockMark {
                wall: system.wall.saturating_add_signed(ahead),
                is_last,
            })
        };
        let hour = 3_600_000;
        let begun = |mark| not_before(mark, system).wall.abs_diff(system.wall);
        assert_eq!(begun(None), 0);
        assert_eq!(begun(mark(-hour, false)), 0, "time has passed while nobody ran");
        assert_eq!(begun(mark(hour, true)), 3_600_000);
        // It may have run for as long after that.
        assert_eq!(begun(mark(hour, false)), 3_610_000);
        assert!(Clock::going_on_from(mark(hour, true)).now().wall >= system.wall + 3_600_000);
    }
}
