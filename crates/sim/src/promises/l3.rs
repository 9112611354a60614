//! L3: every change committed after KEYNOTIFY was answered and before the connection ends is notified at least once, in the order of versions;
//! in steady state once.
//!
//! Looked at from outside: what a client was notified of on one connection is compared with what others were told of their writes.
//!
//! - Versions of a key's notifications rise strictly on a connection: none twice, none late.
//! - A write that was asked for after the registration was answered, and that was answered, is among them: if a later one is (no gaps), or if
//!   the connection is still there when everything has come to rest.
//! - A node that was cut off and takes over another one's store tells of the last change of each key only: what lies between may be left out.
//! - What was notified last is what is stored then: this covers ends of leases, and writes whose answers were lost.

use std::collections::BTreeMap;

use super::l1::Histories;
use crate::history::{Operation, Outcome, Version};

/// A change of a key, as a client is notified of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Set,
    Delete,
}

/// Who watches which key: a client's name, which connection of it, and the key.
pub(crate) type Watch = (String, u64, String);

/// What all watching clients know.
#[derive(Debug, Default)]
pub(crate) struct Notifications {
    watches: BTreeMap<Watch, Watched>,
    count: u64,
}

/// What a client was told about a key on one connection.
#[derive(Debug, Default)]
struct Watched {
    /// When its first registration was answered.
    since: Option<u64>,
    /// It does not hear of everything from here on: it has asked for a STOP, or the connection is gone.
    until: Option<u64>,
    /// Its node took over the store of another one meanwhile.
    has_skipped: bool,
    notified: Vec<(Version, Change)>,
}

impl Notifications {
    /// KEYNOTIFY was answered with +OK.
    pub(crate) fn registered(&mut self, at: u64, watch: Watch) {
        let watched = self.watches.entry(watch).or_default();
        if watched.until.is_none() {
            watched.since.get_or_insert(at);
        }
    }

    /// The client asks to hear no more of a key.
    pub(crate) fn stopping(&mut self, at: u64, watch: &Watch) {
        let watched = self.watches.entry(watch.clone()).or_default();
        watched.until.get_or_insert(at);
    }

    /// A connection of a client is gone.
    pub(crate) fn ended(&mut self, at: u64, client: &str, connection: u64) {
        for ((name, number, _), watched) in &mut self.watches {
            if name == client && *number == connection {
                watched.until.get_or_insert(at);
            }
        }
    }

    /// The node of a client takes over the store of another one. Also where the client has asked for a STOP: it may not be executed yet.
    pub(crate) fn skipped(&mut self, client: &str, connection: u64) {
        for ((name, number, _), watched) in &mut self.watches {
            if name == client && *number == connection {
                watched.has_skipped = true;
            }
        }
    }

    /// A client is notified of a change.
    pub(crate) fn notified(&mut self, watch: Watch, version: Version, change: Change) -> Result<(), String> {
        let (name, connection, key) = watch.clone();
        self.count += 1;
        let watched = self.watches.entry(watch).or_default();
        if let Some((last, _)) = watched.notified.last()
            && *last >= version
        {
            return Err(format!(
                "L3: {name} was notified of {key} at {version:?} after {last:?}, on its connection {connection}"
            ));
        }
        watched.notified.push((version, change));
        Ok(())
    }

    /// How many notifications there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Everything is quiet. `stored`: the version of a key in the store, if it is there; `None` if that is not known.
    pub(crate) fn check(
        &self,
        histories: &Histories,
        stored: impl Fn(&str) -> Option<Option<Version>>,
    ) -> Result<(), String> {
        for ((name, connection, key), watched) in &self.watches {
            let at = || format!("{name}, connection {connection}, {key}");
            for operation in histories.of(key) {
                if let Some(missed) = watched.misses(operation) {
                    return Err(format!(
                        "L3: {} was not notified of {missed}: {operation}\nbut of {:?}",
                        at(),
                        watched.notified
                    ));
                }
            }
            let is_watching = watched.since.is_some() && watched.until.is_none();
            if is_watching
                && let Some((last, change)) = watched.notified.last()
                && let Some(stored) = stored(key)
            {
                let expected = (*change == Change::Set).then_some(*last);
                if stored != expected {
                    return Err(format!(
                        "L3: {} was told last of {change:?} at {last:?}, but {stored:?} is stored",
                        at()
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Watched {
    /// What of an operation should have been notified and was not.
    fn misses(&self, operation: &Operation) -> Option<&'static str> {
        self.since.filter(|since| operation.invoked > *since)?;
        let (answered, outcome) = operation.answered.as_ref()?;
        if self.has_skipped || self.until.is_some_and(|until| *answered > until) {
            return None;
        }
        let is_watching = self.until.is_none();
        match outcome {
            Outcome::Stored(version) => {
                let last = self.notified.last().map(|(version, _)| version);
                let is_due = is_watching || last.is_some_and(|last| last >= version);
                let is_there = self.notified.contains(&(*version, Change::Set));
                (is_due && !is_there).then_some("a SET")
            }
            Outcome::Deleted(before) => {
                let next = self.notified.iter().find(|(version, _)| version > before);
                let is_missed = next.map_or(is_watching, |(_, change)| *change != Change::Delete);
                is_missed.then_some("a deletion")
            }
            Outcome::Found(..)
            | Outcome::Missing
            | Outcome::Listed
            | Outcome::NotMet(_)
            | Outcome::Fenced => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Call, Condition};

    fn watch() -> Watch {
        ("watcher".to_owned(), 1, "key".to_owned())
    }

    /// Writes of versions at moments, of which the client was notified so.
    fn holds(
        writes: &[(u64, Outcome)],
        notified: &[(u64, Change)],
        until: Option<u64>,
        stored: Option<u64>,
    ) -> bool {
        let (mut histories, mut notifications) = (Histories::default(), Notifications::default());
        notifications.registered(100, watch());
        for (at, outcome) in writes {
            let call = match outcome {
                Outcome::Deleted(_) => Call::Delete {
                    only: None,
                    token: None,
                },
                _ => Call::Set {
                    value: String::new(),
                    condition: Condition::Always,
                    lives: None,
                    token: None,
                },
            };
            let place = histories.asked(*at, "key", call);
            histories.answered(at + 5, "key", place, outcome.clone());
        }
        if let Some(until) = until {
            notifications.ended(until, "watcher", 1);
        }
        let all = notified
            .iter()
            .try_for_each(|(version, change)| notifications.notified(watch(), (*version, 0), *change));
        let stored = stored.map(|version| (version, 0));
        all.and_then(|()| notifications.check(&histories, |_| Some(stored)))
            .is_ok()
    }

    fn set(at: u64, version: u64) -> (u64, Outcome) {
        (at, Outcome::Stored((version, 0)))
    }

    #[test]
    fn everything_in_order_holds() {
        let writes = [
            set(110, 1),
            set(120, 2),
            (130, Outcome::Deleted((2, 0))),
            set(140, 4),
        ];
        let notified = [
            (1, Change::Set),
            (2, Change::Set),
            (3, Change::Delete),
            (4, Change::Set),
        ];
        assert!(holds(&writes, &notified, None, Some(4)));
        // What was stored before the registration need not come, and may.
        assert!(holds(&[set(90, 1)], &[], None, Some(1)));
        assert!(holds(&[set(90, 1)], &[(1, Change::Set)], None, Some(1)));
    }

    #[test]
    fn what_is_missing_is_found() {
        let writes = [set(110, 1), set(120, 2)];
        assert!(!holds(&writes, &[(1, Change::Set)], None, Some(2)));
        assert!(!holds(&writes, &[], None, Some(2)));
        // Also if the connection ended, when a later one came.
        assert!(!holds(&writes, &[(2, Change::Set)], Some(200), Some(2)));
        assert!(holds(&writes, &[(1, Change::Set)], Some(200), Some(2)));
        let deleted = [set(110, 1), (120, Outcome::Deleted((1, 0)))];
        assert!(!holds(&deleted, &[(1, Change::Set)], None, None));
        assert!(!holds(
            &deleted,
            &[(1, Change::Set), (3, Change::Set)],
            None,
            Some(3)
        ));
    }

    #[test]
    fn twice_and_out_of_order_are_found() {
        let writes = [set(110, 1), set(120, 2)];
        for versions in [[1, 1, 2].as_slice(), &[2, 1], &[1, 2, 1]] {
            let notified: Vec<_> = versions.iter().map(|version| (*version, Change::Set)).collect();
            assert!(!holds(&writes, &notified, None, Some(2)), "{versions:?}");
        }
    }

    #[test]
    fn the_last_one_is_what_is_stored() {
        assert!(!holds(&[], &[(1, Change::Set)], None, None));
        assert!(!holds(
            &[],
            &[(1, Change::Set), (2, Change::Delete)],
            None,
            Some(1)
        ));
        assert!(!holds(&[], &[(1, Change::Set)], None, Some(2)));
    }
}
