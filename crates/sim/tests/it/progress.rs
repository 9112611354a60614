//! Seeds of a test, one after the other, with a word about progress.
//!
//! The iterator writes to standard error itself, since a test harness keeps back what the macros print. If the code that plays a seed panics, the
//! iterator names that seed. It reads no clock: a line comes with each tenth of the seeds.

use std::io::Write as _;
use std::ops::Range;

/// Iterator over seeds that reports its progress.
#[derive(Debug)]
pub(crate) struct Seeds {
    name: &'static str,
    all: Range<u64>,
    next: u64,
}

/// Lines that a whole run prints.
const LINES: u64 = 10;

impl Seeds {
    /// Seeds of a range, for the test that `name` names. With `SEEDS_TIMES=100` in the environment there are a
    /// hundred times as many.
    pub(crate) fn new(name: &'static str, all: Range<u64>) -> Self {
        let times = std::env::var("SEEDS_TIMES")
            .ok()
            .and_then(|times| times.parse().ok());
        let end = all.start + (all.end - all.start) * times.unwrap_or(1);
        let all = all.start..end;
        Self {
            name,
            next: all.start,
            all,
        }
    }

    /// Seed that is played now, if one is.
    fn current(&self) -> Option<u64> {
        (self.next > self.all.start).then(|| self.next - 1)
    }
}

impl Iterator for Seeds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let (done, count) = (self.next - self.all.start, self.all.end - self.all.start);
        if done > 0 && done * LINES / count > (done - 1) * LINES / count {
            write_line(&format!("{}: {done} of {count} seeds", self.name));
        }
        let seed = self.next;
        (seed < self.all.end).then(|| {
            self.next += 1;
            seed
        })
    }
}

impl Drop for Seeds {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(seed) = self.current()
        {
            write_line(&format!("{}: panicked at seed {seed}", self.name));
        }
    }
}

fn write_line(text: &str) {
    // Nobody reads it if this fails, and the run goes on.
    writeln!(std::io::stderr(), "{text}").ok();
}

#[cfg(test)]
mod tests {
    use super::Seeds;

    #[test]
    fn all_seeds_come_once_in_order() {
        for count in [1, 7, 10, 25] {
            let seeds: Vec<u64> = Seeds::new("test of seeds", 5..5 + count).collect();
            assert_eq!(seeds, (5..5 + count).collect::<Vec<_>>());
        }
        assert_eq!(Seeds::new("test of no seeds", 3..3).next(), None);
    }
}
