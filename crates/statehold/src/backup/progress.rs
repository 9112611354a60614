//! How far a long command is, on stderr, if somebody watches.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use server::clock;

/// A line that is written over and over.
#[derive(Debug)]
pub(super) struct Progress {
    is_shown: bool,
    last: Option<Instant>,
}

/// Nobody reads faster.
const EVERY: Duration = Duration::from_millis(200);

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            is_shown: std::io::stderr().is_terminal(),
            last: None,
        }
    }

    /// Says how far it is, now and then.
    pub(super) fn at(&mut self, words: impl FnOnce() -> String) {
        let now = clock::instant();
        if !self.is_shown || self.last.is_some_and(|last| now.duration_since(last) < EVERY) {
            return;
        }
        self.last = Some(now);
        // What cannot be shown is no failure.
        let _ = write!(std::io::stderr(), "\r\x1b[K{}", words());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.last.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
