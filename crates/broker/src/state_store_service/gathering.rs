//! When a leader proposes its next entry.
//!
//! What comes while an entry is on its way goes into the next one. Were that proposed as soon as the first is decided, those who are
//! answered then would just miss it: half of them would be in each entry, and each entry costs every node a sync and some messages.
//! So the leader waits for them, but not longer than the last entry took, and not while such waiting turns out to be in vain:
//! clients that are far away, or have nothing more to ask, are not waited for.

use std::time::{Duration, Instant};

use crate::now::Now;

/// Whether to wait for more commands before the next entry is proposed.
#[derive(Debug)]
pub(super) struct Gathering {
    /// Commands of the entry that was proposed last, and when.
    last: usize,
    proposed_at: Option<Instant>,
    /// So many commands are waited for until then.
    wanted: usize,
    until: Option<Instant>,
    /// For so many entries nobody is waited for.
    pause: u32,
    /// For how many it will be if waiting is in vain once more.
    next_pause: u32,
}

/// An entry that took longer says nothing about how soon clients ask again.
const WAIT_MAX: Duration = Duration::from_millis(5);

/// While waiting is in vain it is tried with one entry of so many.
const PAUSE_MAX: u32 = 64;

impl Default for Gathering {
    fn default() -> Self {
        Self {
            last: 0,
            proposed_at: None,
            wanted: 0,
            until: None,
            pause: 0,
            next_pause: 1,
        }
    }
}

impl Gathering {
    /// An entry with so many commands is on its way.
    pub(super) fn proposed(&mut self, now: Now, commands: usize) {
        self.last = commands;
        self.proposed_at = Some(now.instant);
        self.until = None;
    }

    /// It is decided, and so many commands have come meanwhile.
    pub(super) fn decided(&mut self, now: Now, open: usize) {
        let Some(proposed_at) = self.proposed_at.take() else {
            return;
        };
        // Not all: some clients may be gone.
        self.wanted = ((self.last + open) * 3).div_ceil(4);
        if open >= self.wanted {
            return;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        let took = now.instant.saturating_duration_since(proposed_at);
        self.until = Some(now.instant + took.min(WAIT_MAX));
    }

    /// Whether so many commands are to be proposed now.
    pub(super) fn is_over(&mut self, now: Now, open: usize) -> bool {
        let Some(until) = self.until else {
            return true;
        };
        if open >= self.wanted {
            self.next_pause = 1;
        } else if until <= now.instant {
            self.pause = self.next_pause;
            self.next_pause = (self.next_pause * 2).min(PAUSE_MAX);
        } else {
            return false;
        }
        self.until = None;
        true
    }

    /// When [`Gathering::is_over`] is to be asked again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    static ORIGIN: LazyLock<Instant> = LazyLock::new(crate::now::epoch);

    fn at(micros: u64) -> Now {
        Now {
            instant: *ORIGIN + Duration::from_micros(micros),
            wall: 0,
        }
    }

    /// An entry with ten commands, which took a millisecond, and so many that came meanwhile.
    fn after_ten(gathering: &mut Gathering, began: u64, open: usize) {
        gathering.proposed(at(began), 10);
        gathering.decided(at(began + 1_000), open);
    }

    #[test]
    fn who_was_answered_is_waited_for() {
        let mut gathering = Gathering::default();
        after_ten(&mut gathering, 0, 10);
        assert!(!gathering.is_over(at(1_000), 10));
        assert!(!gathering.is_over(at(1_900), 14));
        assert!(gathering.is_over(at(1_900), 15));
        assert_eq!(gathering.deadline(), None);
    }

    #[test]
    fn nobody_is_waited_for_longer_than_the_last_entry_took() {
        let mut gathering = Gathering::default();
        after_ten(&mut gathering, 0, 0);
        assert_eq!(gathering.deadline(), Some(at(2_000).instant));
        assert!(!gathering.is_over(at(1_999), 1));
        assert!(gathering.is_over(at(2_000), 1));
    }

    #[test]
    fn a_single_client_does_not_wait() {
        let mut gathering = Gathering::default();
        gathering.proposed(at(0), 1);
        gathering.decided(at(1_000), 0);
        assert!(gathering.is_over(at(1_001), 1));
    }

    #[test]
    fn waiting_in_vain_becomes_rare_and_waiting_that_pays_does_not() {
        let mut gathering = Gathering::default();
        let mut waits = |comes: usize| {
            let entries = (0..1_000).filter(|entry| {
                let began = entry * 10_000;
                after_ten(&mut gathering, began, 0);
                let waited = gathering.deadline().is_some();
                assert!(gathering.is_over(at(began + 9_000), comes));
                waited
            });
            entries.count()
        };
        assert_eq!(waits(5), 6 + 1_000 / 65);
        assert!(waits(10) > 900);
        assert_eq!(waits(10), 1_000);
    }
}
