//! How far an import is: a line on stderr, if that is a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use server::clock;

/// A line that is written anew from time to time.
#[derive(Debug)]
pub(super) struct Progress {
    is_shown: bool,
    what: &'static str,
    /// How many there are, as far as one knows.
    total: Option<u64>,
    done: u64,
    begun: Instant,
    shown: Option<Instant>,
}

/// People do not read faster.
const EVERY: Duration = Duration::from_millis(200);

/// Characters of the bar.
const BAR_CHARS: u64 = 24;

impl Progress {
    /// `what`: in the plural, as in "keys".
    pub(super) fn new(what: &'static str, total: Option<u64>, is_quiet: bool) -> Self {
        Self {
            is_shown: !is_quiet && std::io::stderr().is_terminal(),
            what,
            total,
            done: 0,
            begun: clock::instant(),
            shown: None,
        }
    }

    /// One more is read.
    pub(super) fn advance(&mut self, left_out: u64) {
        self.done += 1;
        if !self.is_shown {
            return;
        }
        let now = clock::instant();
        if self.shown.is_none_or(|shown| now - shown >= EVERY) {
            self.shown = Some(now);
            self.show(&self.line(now - self.begun, left_out));
        }
    }

    /// The line goes away.
    pub(super) fn end(&self) {
        if self.shown.is_some() {
            self.show("");
        }
    }

    fn show(&self, line: &str) {
        // Progress that cannot be shown is no reason to stop.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }

    fn line(&self, since: Duration, left_out: u64) -> String {
        let Self { what, done, .. } = self;
        let rate = *done as f64 / since.as_secs_f64().max(0.001);
        let left_out = match left_out {
            0 => String::new(),
            count => format!("  {count} left out"),
        };
        // What is counted while it is read may be less than what comes.
        let Some(total) = self.total.filter(|total| total >= done && *total > 0) else {
            return format!("{done} {what}  {rate:.0}/s{left_out}");
        };
        let filled = usize::try_from(done * BAR_CHARS / total).unwrap_or(0);
        let bar = format!("{:.<width$}", "#".repeat(filled), width = BAR_CHARS as usize);
        let seconds = (total - done) as f64 / rate.max(0.001);
        format!("[{bar}] {done} of {total} {what}  {rate:.0}/s  {seconds:.0} s to go{left_out}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(total: Option<u64>, done: u64, left_out: u64) -> String {
        let mut progress = Progress::new("keys", total, true);
        progress.done = done;
        progress.line(Duration::from_secs(10), left_out)
    }

    #[test]
    fn a_total_that_is_known_is_a_bar() {
        assert_eq!(
            line(Some(4_000), 1_000, 2),
            "[######..................] 1000 of 4000 keys  100/s  30 s to go  2 left out"
        );
        assert_eq!(line(None, 1_000, 0), "1000 keys  100/s");
        assert_eq!(line(Some(10), 11, 0), "11 keys  1/s");
    }
}
