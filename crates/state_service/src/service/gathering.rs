//! When a leader proposes its next entry.
//!
//! What comes while an entry is on its way goes into the next one. Were that proposed as soon as the first is decided, those who are
//! answered then would just miss it: half of them would be in each entry, and each entry costs every node a sync and some messages.
//! So the leader waits for them, but not longer than three entries take, and not while such waiting turns out to be in vain:
//! clients that are far away, or have nothing more to ask, are not waited for.

use std::time::{Duration, Instant};

use mqtt::now::Now;

/// Whether to wait for more commands before the next entry is proposed.
#[derive(Debug)]
pub(super) struct Gathering {
    /// Commands of the entry that was proposed last, and when.
    last: usize,
    proposed_at: Option<Instant>,
    /// How long an entry takes, on average; zero: none is decided yet.
    usual: Duration,
    /// So many commands are waited for until then.
    wanted: usize,
    until: Option<Instant>,
    /// Enough came for the entry that is on its way, and would not have without waiting.
    has_waited: bool,
    /// For so many entries nobody is waited for.
    pause: u32,
    /// For how many it will be if waiting is in vain once more.
    next_pause: u32,
}

/// Nobody is waited for longer, however slow the disks are.
const WAIT_MAX: Duration = Duration::from_millis(5);

/// While clients are waited for they are told, ask again, and what they ask comes by way of other nodes: as much as three entries take where an
/// entry has all of them, and processors are shared.
const WAIT_ENTRIES: u32 = 3;

/// Of ten commands that are expected so many are enough: some clients may be gone.
const ENOUGH_OF_TEN: usize = 9;

/// Who was waited for and is in an entry does not ask while it is on its way. If more come meanwhile than one for so many of its commands,
/// they are clients that do not wait for answers, and there is no end to them: waiting was in vain.
const OTHERS_MIN_PART: usize = 4;

/// An entry counts for one part in so many of the average, and for twice the average at most: one that the disk held up says
/// nothing about how soon clients ask again.
const USUAL_OF: u32 = 8;

/// While waiting is in vain it is tried with one entry of so many.
const PAUSE_MAX: u32 = 64;

impl Default for Gathering {
    fn default() -> Self {
        Self {
            last: 0,
            proposed_at: None,
            usual: Duration::ZERO,
            wanted: 0,
            until: None,
            has_waited: false,
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
        self.took(now.instant.saturating_duration_since(proposed_at));
        if std::mem::take(&mut self.has_waited) {
            if open * OTHERS_MIN_PART > self.last {
                self.waited_in_vain();
            } else {
                self.next_pause = 1;
            }
        }
        self.wanted = ((self.last + open) * ENOUGH_OF_TEN).div_ceil(10);
        if open >= self.wanted {
            return;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        self.until = Some(now.instant + (self.usual * WAIT_ENTRIES).min(WAIT_MAX));
    }

    /// Whether so many commands are to be proposed now.
    pub(super) fn is_over(&mut self, now: Now, open: usize) -> bool {
        let Some(until) = self.until else {
            return true;
        };
        if open >= self.wanted {
            self.has_waited = true;
        } else if until <= now.instant {
            self.waited_in_vain();
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

    fn waited_in_vain(&mut self) {
        self.pause = self.next_pause;
        self.next_pause = (self.next_pause * 2).min(PAUSE_MAX);
    }

    fn took(&mut self, took: Duration) {
        self.usual = if self.usual.is_zero() {
            took
        } else {
            let counted = took.min(self.usual * 2);
            (self.usual * (USUAL_OF - 1) + counted) / USUAL_OF
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    static ORIGIN: LazyLock<Instant> = LazyLock::new(crate::epoch);

    fn at(micros: u64) -> Now {
        Now {
            instant: *ORIGIN + Duration::from_micros(micros),
            wall: 0,
            system_wall: 0,
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
        assert!(!gathering.is_over(at(1_900), 17));
        assert!(gathering.is_over(at(1_900), 18));
        assert_eq!(gathering.deadline(), None);
    }

    #[test]
    fn nobody_is_waited_for_longer_than_three_entries_take() {
        let mut gathering = Gathering::default();
        after_ten(&mut gathering, 0, 0);
        assert_eq!(gathering.deadline(), Some(at(4_000).instant));
        assert!(!gathering.is_over(at(3_999), 1));
        assert!(gathering.is_over(at(4_000), 1));
    }

    #[test]
    fn an_entry_that_the_disk_held_up_lets_nobody_wait_for_longer() {
        let mut gathering = Gathering::default();
        after_ten(&mut gathering, 0, 10);
        gathering.proposed(at(10_000), 10);
        gathering.decided(at(1_000_000), 0);
        assert_eq!(gathering.deadline(), Some(at(1_000_000 + 3 * 1_125).instant));
    }

    #[test]
    fn where_entries_are_slow_nobody_is_waited_for_as_long() {
        let mut gathering = Gathering::default();
        gathering.proposed(at(0), 10);
        gathering.decided(at(100_000), 0);
        assert_eq!(gathering.deadline(), Some(at(105_000).instant));
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

    /// Clients that ask without waiting for answers: each entry has what came since the one before.
    #[test]
    fn clients_that_come_at_random_times_are_seldom_waited_for() {
        let mut gathering = Gathering::default();
        let (mut clock, mut taken, mut waited) = (0, 0, 0);
        // One comes every 100 us, and an entry takes a millisecond.
        let came = |clock: u64, taken: u64| usize::try_from(clock / 100 - taken).unwrap();
        for _ in 0..1_000 {
            let commands = came(clock, taken);
            taken += commands as u64;
            gathering.proposed(at(clock), commands);
            clock += 1_000;
            gathering.decided(at(clock), came(clock, taken));
            waited += u32::from(gathering.deadline().is_some());
            while !gathering.is_over(at(clock), came(clock, taken)) {
                clock += 100;
            }
        }
        assert!(waited < 50, "{waited}");
    }
}
