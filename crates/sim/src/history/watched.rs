//! What those who watch a key were told: promise L3.
//!
//! A [`Watched`] is one registration, from the answer to KEYNOTIFY until it was stopped or its connection was lost. Whatever was committed
//! in between must be there, in the order of versions. What was committed last before a connection was lost may have been lost with it; what
//! is older than something that did arrive may not.

use super::{Call, Operation, Outcome, Version};

/// One registration, and what came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The key.
    pub key: String,
    /// When KEYNOTIFY was answered, in nanoseconds.
    pub registered: u64,
    /// How it ended.
    pub end: End,
    /// In the order in which they came.
    pub changes: Vec<Change>,
}

/// How a registration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// KEYNOTIFY STOP was sent then, and answered.
    Stopped(u64),
    /// The connection was lost.
    Lost,
}

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// When it came.
    pub at: u64,
    /// The new value; `None`: the key was deleted, or expired.
    pub value: Option<String>,
    /// Its `__ts`.
    pub version: Version,
}

impl Watched {
    /// Compares with what all clients asked of the key. How many notifications came twice.
    ///
    /// # Errors
    /// What is missing, wrong, or not in order.
    pub(super) fn check(&self, history: &[Operation]) -> Result<u64, String> {
        let twice = self.check_order()?;
        for change in &self.changes {
            self.check_origin(change, history)?;
        }
        for operation in history {
            self.check_told(operation)?;
        }
        Ok(twice)
    }

    fn check_order(&self) -> Result<u64, String> {
        let mut twice = 0;
        for pair in self.changes.windows(2) {
            let (first, second) = (&pair[0], &pair[1]);
            let is_again = first.version == second.version && first.value == second.value;
            twice += u64::from(is_again);
            if first.version >= second.version && !is_again {
                return Err(self.broken(&format!("{second:?} came after {first:?}")));
            }
        }
        Ok(twice)
    }

    /// A value was set by somebody, under this version if that is known.
    fn check_origin(&self, change: &Change, history: &[Operation]) -> Result<(), String> {
        let Some(told) = &change.value else {
            return Ok(());
        };
        let is_origin = |operation: &Operation| {
            let Call::Set { value, .. } = &operation.call else {
                return false;
            };
            let is_version = match &operation.answered {
                Some((_, Outcome::Stored(version))) => *version == change.version,
                Some(_) => false,
                None => true,
            };
            is_version && value == told && operation.invoked <= change.at
        };
        if history.iter().any(is_origin) {
            return Ok(());
        }
        Err(self.broken(&format!("nobody had asked for {change:?}")))
    }

    /// What was asked after the registration and executed must have been told.
    fn check_told(&self, operation: &Operation) -> Result<(), String> {
        let Some((answered, outcome)) = &operation.answered else {
            return Ok(());
        };
        if operation.invoked <= self.registered {
            return Ok(());
        }
        let is_before_end = matches!(self.end, End::Stopped(at) if *answered < at);
        let later = |version: Version| self.changes.iter().find(|change| change.version > version);
        let is_told = match outcome {
            Outcome::Stored(version) => {
                let is_due = is_before_end || later(*version).is_some();
                let is_it = |change: &Change| change.version == *version && change.value.is_some();
                !is_due || self.changes.iter().any(is_it)
            }
            // The version of the deletion is not known, only that it is next after that of the value.
            Outcome::Deleted(version) => match later(*version) {
                Some(change) => change.value.is_none(),
                None => !is_before_end,
            },
            _ => true,
        };
        if is_told {
            Ok(())
        } else {
            Err(self.broken(&format!("nothing came of {operation}")))
        }
    }

    fn broken(&self, how: &str) -> String {
        let Self {
            key, registered, end, ..
        } = self;
        format!("L3: who watched {key} from {registered} on ({end:?}): {how}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Condition;

    fn set(value: &str, invoked: u64, version: u64) -> Operation {
        let outcome = Outcome::Stored((version, 1));
        Operation::answered(call(value), invoked, invoked + 1, outcome)
    }

    fn call(value: &str) -> Call {
        Call::Set {
            value: value.into(),
            condition: Condition::Always,
            lives: None,
            token: None,
        }
    }

    fn deleted(invoked: u64, version: u64) -> Operation {
        let call = Call::Delete {
            only: None,
            token: None,
        };
        Operation::answered(call, invoked, invoked + 1, Outcome::Deleted((version, 1)))
    }

    /// A value of `-` is a deletion.
    fn watched(end: End, changes: &[(&str, u64)]) -> Watched {
        let change = |(value, version): &(&str, u64)| Change {
            at: 100,
            value: (*value != "-").then(|| (*value).to_owned()),
            version: (*version, 1),
        };
        Watched {
            key: "key".into(),
            registered: 5,
            end,
            changes: changes.iter().map(change).collect(),
        }
    }

    const STOPPED: End = End::Stopped(50);

    #[test]
    fn all_that_was_changed_is_told() {
        let history = [set("a", 10, 1), deleted(20, 1), set("b", 30, 3)];
        let told = watched(STOPPED, &[("a", 1), ("-", 2), ("b", 3)]);
        assert_eq!(told.check(&history), Ok(0));
        // What was changed before, while it was registered, or after, may be missing.
        let history = [set("a", 5, 1), set("b", 50, 2)];
        assert_eq!(watched(STOPPED, &[]).check(&history), Ok(0));
    }

    #[test]
    fn a_missing_change_is_found() {
        let history = [set("a", 10, 1), set("b", 20, 2), set("c", 30, 3)];
        for missing in [
            &[("b", 2), ("c", 3)][..],
            &[("a", 1), ("c", 3)],
            &[("a", 1), ("b", 2)],
        ] {
            assert!(watched(STOPPED, missing).check(&history).is_err(), "{missing:?}");
        }
        let history = [set("a", 10, 1), deleted(20, 1), set("b", 30, 3)];
        for missing in [&[("a", 1), ("b", 3)][..], &[("a", 1)]] {
            assert!(watched(STOPPED, missing).check(&history).is_err(), "{missing:?}");
        }
    }

    #[test]
    fn only_the_last_changes_may_be_lost_with_a_connection() {
        let history = [set("a", 10, 1), set("b", 20, 2), deleted(30, 2)];
        assert_eq!(watched(End::Lost, &[("a", 1)]).check(&history), Ok(0));
        assert_eq!(watched(End::Lost, &[]).check(&history), Ok(0));
        assert!(watched(End::Lost, &[("b", 2)]).check(&history).is_err());
    }

    #[test]
    fn an_order_that_is_not_that_of_versions_is_found() {
        let history = [set("a", 10, 1), set("b", 20, 2)];
        assert!(watched(STOPPED, &[("b", 2), ("a", 1)]).check(&history).is_err());
        assert!(
            watched(STOPPED, &[("a", 1), ("b", 2), ("a", 1)])
                .check(&history)
                .is_err()
        );
        let again = watched(STOPPED, &[("a", 1), ("a", 1), ("b", 2)]);
        assert_eq!(again.check(&history), Ok(1));
    }

    #[test]
    fn a_change_that_nobody_asked_for_is_found() {
        let history = [set("a", 10, 1)];
        assert!(watched(STOPPED, &[("a", 1), ("b", 2)]).check(&history).is_err());
        assert!(watched(STOPPED, &[("a", 1), ("a", 2)]).check(&history).is_err());
        let unknown = [set("a", 10, 1), Operation::unknown(call("b"), 20)];
        assert_eq!(watched(STOPPED, &[("a", 1), ("b", 2)]).check(&unknown), Ok(0));
        let not_yet = [set("a", 10, 1), Operation::unknown(call("b"), 200)];
        assert!(watched(STOPPED, &[("a", 1), ("b", 2)]).check(&not_yet).is_err());
    }
}
