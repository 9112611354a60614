//! Clocks of a group: one that versions follow, one that deadlines follow.
//!
//! Each log entry carries both, as its leader had them, so that every replica computes the same. They are separate because they
//! answer separate questions. Versions are compared with what clients write into their requests, so they follow the wall clock.
//! A lease is a promise about time that passes, so it must not depend on what anybody sets a wall clock to.
//!
//! Invariant: neither goes back within a store; where an entry is behind, the store keeps what it had.

/// Both clocks of a group at one moment, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Wall clock that versions follow, since the Unix epoch; at most [`WALL_MAX`](crate::WALL_MAX).
    pub clock: u64,
    /// Group time: begins with the wall clock of the first leader and advances by the monotonic clocks of leaders; at most
    /// [`WALL_MAX`](crate::WALL_MAX).
    pub time: u64,
}

impl Stamp {
    /// Stamp of a group's first entry: its time begins with the wall clock.
    pub fn first(wall: u64) -> Self {
        Self {
            clock: wall,
            time: wall,
        }
    }

    /// The later of each clock.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            clock: self.clock.max(other.clock),
            time: self.time.max(other.time),
        }
    }

    /// Group time of a wall time, reckoned from this moment; what has passed is at most this moment.
    pub fn time_of(self, wall: u64) -> u64 {
        if wall >= self.clock {
            self.time.saturating_add(wall - self.clock)
        } else {
            self.time.saturating_sub(self.clock - wall)
        }
    }

    /// Wall time of a group time, reckoned from this moment, in milliseconds since the Unix epoch.
    pub fn wall_of(self, time: u64) -> u64 {
        Self {
            clock: self.time,
            time: self.clock,
        }
        .time_of(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_one_clock_are_found_on_the_other() {
        let stamp = Stamp {
            clock: 1_000,
            time: 700,
        };
        for (wall, time) in [(1_000, 700), (1_030, 730), (400, 100)] {
            assert_eq!(stamp.time_of(wall), time);
            assert_eq!(stamp.wall_of(time), wall);
        }
        assert_eq!(stamp.time_of(0), 0);
        assert_eq!(stamp.time_of(u64::MAX), u64::MAX - 300);
        assert_eq!(stamp.wall_of(u64::MAX), u64::MAX);
    }

    #[test]
    fn each_clock_keeps_the_later_value() {
        let (a, b) = (Stamp { clock: 1, time: 9 }, Stamp { clock: 2, time: 8 });
        assert_eq!(a.max(b), Stamp { clock: 2, time: 9 });
    }
}
