//! One copy of one key, asked by one client after the other.

use super::{Call, Condition, MILLISECOND, Operation, Outcome, Tolerance, Version};

/// What is known of a key, after some operations.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Model {
    stored: Option<Stored>,
    /// Versions rise: the next one is above this.
    floor: Version,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Stored {
    value: String,
    /// Not known while nobody was told.
    version: Option<Version>,
    token: Option<Version>,
    ends: Option<Ends>,
}

/// When something ends that was stored for a time: the time counts from when the SET was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Ends {
    earliest: u64,
    latest: u64,
}

impl Model {
    /// What the key may be after `operation`, if it was answered as it was; nothing: it was not.
    pub(super) fn after(&self, operation: &Operation, tolerance: Tolerance) -> Vec<Self> {
        let mut after = Vec::new();
        for before in self.at(operation, tolerance) {
            after.extend(before.answers(operation));
        }
        after
    }

    /// What the key may be when the operation is executed: its time may be over, or not.
    fn at(&self, operation: &Operation, tolerance: Tolerance) -> Vec<Self> {
        let Some(ends) = self.stored.as_ref().and_then(|stored| stored.ends) else {
            return vec![self.clone()];
        };
        let mut at = Vec::new();
        if operation.invoked <= ends.latest.saturating_add(tolerance.late) {
            at.push(self.clone());
        }
        if operation.ended().saturating_add(tolerance.early) >= ends.earliest {
            at.push(Self {
                stored: None,
                floor: self.floor,
            });
        }
        at
    }

    fn answers(&self, operation: &Operation) -> Option<Self> {
        let outcome = operation.answered.as_ref().map(|(_, outcome)| outcome);
        match &operation.call {
            Call::Get => self.get(outcome),
            Call::List => self.list(outcome),
            Call::Set { token, .. } | Call::Delete { token, .. } if self.is_fenced(*token) => {
                matches!(outcome, None | Some(Outcome::Fenced)).then(|| self.clone())
            }
            Call::Set { .. } => self.set(operation, outcome),
            Call::Delete { only, .. } => self.delete(only.as_deref(), outcome),
        }
    }

    fn is_fenced(&self, token: Option<Version>) -> bool {
        let stored = self.stored.as_ref().and_then(|stored| stored.token);
        stored.is_some_and(|stored| token.is_none_or(|token| token < stored))
    }

    fn get(&self, outcome: Option<&Outcome>) -> Option<Self> {
        match (&self.stored, outcome) {
            (_, None) => Some(self.clone()),
            (Some(stored), Some(Outcome::Found(value, version))) if stored.value == *value => {
                self.with_version(*version)
            }
            (None, Some(Outcome::Missing)) => Some(self.clone()),
            _ => None,
        }
    }

    fn list(&self, outcome: Option<&Outcome>) -> Option<Self> {
        let is_as_answered = match outcome {
            None => true,
            Some(Outcome::Listed) => self.stored.is_some(),
            Some(outcome) => self.stored.is_none() && *outcome == Outcome::Missing,
        };
        is_as_answered.then(|| self.clone())
    }

    fn set(&self, operation: &Operation, outcome: Option<&Outcome>) -> Option<Self> {
        let Call::Set {
            value,
            condition,
            lives,
            token,
        } = &operation.call
        else {
            return None;
        };
        let is_met = match (condition, &self.stored) {
            (Condition::Always, _) | (_, None) => true,
            (Condition::Missing, Some(_)) => false,
            (Condition::MissingOr(value), Some(stored)) => stored.value == *value,
        };
        let version = match outcome {
            None if is_met => None,
            None => return Some(self.clone()),
            Some(Outcome::NotMet(version)) if !is_met => return self.with_version(*version),
            Some(Outcome::Stored(version)) if is_met && *version > self.floor => Some(*version),
            Some(_) => return None,
        };
        let before = self.stored.as_ref().and_then(|stored| stored.token);
        Some(Self {
            stored: Some(Stored {
                value: value.clone(),
                version,
                token: before.max(*token),
                ends: lives.map(|lives| Ends {
                    earliest: operation
                        .invoked
                        .saturating_add(lives.saturating_mul(MILLISECOND)),
                    latest: operation
                        .ended()
                        .saturating_add(lives.saturating_mul(MILLISECOND)),
                }),
            }),
            floor: version.unwrap_or(self.floor),
        })
    }

    fn delete(&self, only: Option<&str>, outcome: Option<&Outcome>) -> Option<Self> {
        let Some(stored) = &self.stored else {
            return matches!(outcome, None | Some(Outcome::Missing)).then(|| self.clone());
        };
        if only.is_some_and(|only| stored.value != only) {
            return match outcome {
                None => Some(self.clone()),
                Some(Outcome::NotMet(version)) => self.with_version(*version),
                Some(_) => None,
            };
        }
        let before = match outcome {
            None => self.clone(),
            Some(Outcome::Deleted(version)) => self.with_version(*version)?,
            Some(_) => return None,
        };
        Some(Self {
            stored: None,
            floor: before.floor,
        })
    }

    /// The same, when somebody was told the version of what is stored.
    fn with_version(&self, version: Version) -> Option<Self> {
        let stored = self.stored.as_ref()?;
        match stored.version {
            Some(known) => (known == version).then(|| self.clone()),
            None => (version > self.floor).then(|| Self {
                stored: Some(Stored {
                    version: Some(version),
                    ..stored.clone()
                }),
                floor: version,
            }),
        }
    }
}
