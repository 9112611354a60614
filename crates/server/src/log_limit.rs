//! Keeps lines about many clients at once from filling the log: so many at once, so many a second, and how many were left out. Lines about one
//! client are limited where they are written (`logging/event.rs`).

use std::time::{Duration, Instant};

use crate::bucket::Bucket;

/// For lines of one kind.
#[derive(Debug)]
pub(crate) struct LogLimit {
    lines: Bucket,
    left_out: u64,
}

/// Lines that may be written at once.
const LINES_AT_ONCE: u32 = 100;

/// In which one more may be written.
const LINE_EVERY: Duration = Duration::from_millis(100);

impl LogLimit {
    /// Whether a line may be written, and how many were left out since the last one.
    pub(crate) fn take(&mut self, now: Instant) -> Option<u64> {
        if !self.lines.take(now) {
            self.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Default for LogLimit {
    fn default() -> Self {
        Self {
            lines: Bucket::new(LINE_EVERY, LINE_EVERY * LINES_AT_ONCE),
            left_out: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn some_lines_are_written_and_the_others_are_counted() {
        let (mut limit, start) = (LogLimit::default(), clock::instant());
        let written = (0..1_000).filter_map(|_| limit.take(start));
        assert_eq!(written.collect::<Vec<_>>(), [0; LINES_AT_ONCE as usize]);
        assert_eq!(limit.take(start + LINE_EVERY), Some(900));
        assert_eq!(limit.take(start + LINE_EVERY), None);
        assert_eq!(limit.take(start + Duration::from_secs(60)), Some(1));
    }
}
