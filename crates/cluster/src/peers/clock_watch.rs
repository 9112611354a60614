//! Whether the clock of another node keeps within the allowed skew for as long as both are connected.
//!
//! Leases of keys and versions rest on clocks that differ by little. They are compared when two nodes meet, and then with every answer to a
//! ping: a clock that was right in the beginning may run away. An answer that took long says little, and one alone may be wrong, so only
//! several in a row end a connection. Whoever connects again is asked for its clock first.

/// Watches the clock of one peer. All times are in milliseconds.
#[derive(Debug, Clone)]
pub struct ClockWatch {
    skew_max: u64,
    /// How many answers in a row were off.
    off: u32,
}

/// After so many answers in a row with a clock that is off by too much, a connection ends.
const OFF_MAX: u32 = 3;

impl ClockWatch {
    /// The clocks were right when the nodes met.
    pub fn new(skew_max: u64) -> Self {
        Self { skew_max, off: 0 }
    }

    /// Takes an answer. False if the connection has to end. `trip`: how long the answer took.
    #[must_use]
    pub fn answered(&mut self, clock_ahead: i64, trip: u64) -> bool {
        if is_clock_within(clock_ahead, trip, self.skew_max) {
            self.off = 0;
        } else {
            self.off += 1;
        }
        self.off < OFF_MAX
    }
}

/// Whether clocks differ by no more than is allowed. The other's was read somewhere within the trip: half of that may be the network's.
pub fn is_clock_within(clock_ahead: i64, trip: u64, skew_max: u64) -> bool {
    clock_ahead.unsigned_abs() <= skew_max.saturating_add(trip / 2)
}

/// By how many milliseconds another clock is ahead, if it was read in the middle of a round trip that ended at `received`.
pub fn clock_offset(received: u64, trip: u64, theirs: u64) -> i64 {
    let here = received.saturating_sub(trip / 2);
    let difference = i128::from(theirs) - i128::from(here);
    i64::try_from(difference).unwrap_or(if difference > 0 { i64::MAX } else { i64::MIN + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the connection lives after answers with these offsets, each of which took as long.
    fn lives(offsets: &[i64], trip: u64) -> bool {
        let mut watch = ClockWatch::new(500);
        offsets.iter().all(|ahead| watch.answered(*ahead, trip))
    }

    #[test]
    fn a_clock_that_runs_away_is_noticed_in_either_direction() {
        assert!(lives(&[0, 200, 400, 500, 500, 500, 500], 0));
        for ahead in [501, -501, i64::MAX, i64::MIN + 1] {
            assert!(lives(&[0, ahead, ahead], 0), "{ahead}");
            assert!(!lives(&[0, ahead, ahead, ahead], 0), "{ahead}");
        }
    }

    #[test]
    fn an_answer_that_is_wrong_alone_or_took_long_is_no_reason() {
        assert!(lives(&[600, 600, 0, 600, 600, 0], 0));
        assert!(lives(&[600; 10], 200));
        assert!(!lives(&[601; 3], 200));
    }
}
