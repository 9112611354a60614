//! The only place that knows what time it is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cluster::NodeId;
use cluster::peers::{AgreedClock, ClockNews, DOUBTED_FOR, Reading};
use mqtt::now::Now;
use storage::ClockMark;

/// Both clocks at one moment.
pub fn now() -> Now {
    let wall = wall();
    Now {
        instant: instant(),
        wall,
        system_wall: wall,
    }
}

/// The node's clock: the wall clock that the nodes of its cluster agree on ([`AgreedClock`]).
#[derive(Debug, Clone)]
pub struct Clock {
    /// Also read by the thread of the disk.
    agreed: Arc<Mutex<AgreedClock>>,
    /// By how many milliseconds the system's clock is ahead, as a test has it.
    #[cfg(test)]
    ahead: Arc<std::sync::atomic::AtomicU64>,
}

impl Clock {
    /// Begins with the system's time. `skew_max`: differences above it are doubted first.
    pub fn new(skew_max: Duration) -> Self {
        Self::beginning(skew_max, now())
    }

    /// Begins with the system's time, but not before what the mark in the data directory says. Time that may have passed after the mark
    /// was written counts as passed: so nothing lives longer than its deadline says, and what is left may be shorter by [`MARK_INTERVAL`].
    pub(crate) fn going_on_from(mark: Option<ClockMark>, skew_max: Duration) -> Self {
        Self::beginning(skew_max, not_before(mark, now()))
    }

    fn beginning(skew_max: Duration, now: Now) -> Self {
        let agreed = AgreedClock::new(skew_max, now.into());
        Self {
            agreed: Arc::new(Mutex::new(agreed)),
            #[cfg(test)]
            ahead: Arc::default(),
        }
    }

    /// The present.
    pub fn now(&self) -> Now {
        let system = self.system();
        let (wall, news) = self.agreed().read(system.into());
        if let Some(news) = news {
            tell(news);
        }
        Now { wall, ..system }
    }

    /// What the system's clocks say, whatever the node goes by: for other nodes.
    pub(crate) fn system(&self) -> Now {
        let now = now();
        #[cfg(test)]
        let wall = now.wall + self.ahead.load(std::sync::atomic::Ordering::Relaxed);
        #[cfg(test)]
        let now = Now {
            wall,
            system_wall: wall,
            ..now
        };
        now
    }

    /// Another node's system clock said this.
    pub(crate) fn hear(&self, node: NodeId, said: Reading) {
        self.agreed().hear(node, said);
    }

    /// These nodes have a say, this one among them, and those have none any more.
    pub(crate) fn set_members(&self, members: usize, removed: &[NodeId]) {
        let mut agreed = self.agreed();
        agreed.set_members(members);
        removed.iter().for_each(|node| agreed.forget(*node));
    }

    /// From here on the system's clock is ahead by so many milliseconds.
    #[cfg(test)]
    pub(crate) fn set_forward(&self, by: u64) {
        self.ahead.store(by, std::sync::atomic::Ordering::Relaxed);
    }

    /// What a thread left that panicked while it read the clock is a clock all the same.
    fn agreed(&self) -> MutexGuard<'_, AgreedClock> {
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell(news: ClockNews) {
    let seconds = |ahead: i64| Duration::from_millis(ahead.unsigned_abs()).as_secs_f64();
    let way = |ahead: i64| if ahead > 0 { "ahead" } else { "behind" };
    match news {
        ClockNews::Doubted { ahead } => tracing::warn!(
            seconds = seconds(ahead),
            way = way(ahead),
            "the system's clock has jumped: time goes on as before, and follows if the clock stays there for {} s; check NTP",
            DOUBTED_FOR.as_secs()
        ),
        ClockNews::Reassured => tracing::info!("the system's clock is back where it was"),
        ClockNews::Believed { ahead } => tracing::warn!(
            seconds = seconds(ahead),
            way = way(ahead),
            "the system's clock stays where it jumped to: time follows it now; leases are not affected"
        ),
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
        assert!(Clock::going_on_from(mark(hour, true), Duration::ZERO).now().wall >= system.wall + 3_600_000);
    }
}
