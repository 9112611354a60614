//! A second implementation of the contract, as simple as possible: plain maps, nothing is ever forgotten, every
//! question is answered by looking at everything.

use std::collections::BTreeMap;

use store::{Change, CommandAction, Condition, Dialect, Outcome, Quota, Refusal, Version, Watcher};

/// A timestamp: wall, counter, node.
type Stamp = (u64, u64, String);

/// Who is told what about which key: `(watcher, dialect, key, new value or None, version)`.
pub(crate) type Told = (Watcher, Dialect, Vec<u8>, Option<Vec<u8>>, Version);

#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) clock: u64,
    pub(crate) time: u64,
    pub(crate) keys: BTreeMap<Vec<u8>, Row>,
    /// The last version of every key that ever was.
    last: BTreeMap<Vec<u8>, Version>,
    decided: Vec<([u8; 16], u64, Outcome)>,
    pub(crate) watches: BTreeMap<(Vec<u8>, Watcher), Dialect>,
    quota: Quota,
    told: Vec<Told>,
}

#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) value: Vec<u8>,
    pub(crate) version: Version,
    pub(crate) deadline: Option<u64>,
    token: Option<Stamp>,
}

fn stamp(hlc: &protocol::Hlc) -> Stamp {
    (hlc.wall, hlc.counter, hlc.node.as_str().to_owned())
}

impl Model {
    pub(crate) fn begin(&mut self, entry: store::Stamp) {
        if entry.clock > self.clock {
            self.clock = entry.clock;
        }
        if entry.time > self.time {
            self.time = entry.time;
        }
    }

    pub(crate) fn apply(&mut self, action: &CommandAction) -> (Outcome, Vec<Told>) {
        let outcome = self.outcome(action);
        (outcome, std::mem::take(&mut self.told))
    }

    fn outcome(&mut self, action: &CommandAction) -> Outcome {
        let retry = match action {
            CommandAction::Set { retry, .. }
            | CommandAction::Delete { retry, .. }
            | CommandAction::Unwatch { retry, .. } => *retry,
            _ => None,
        };
        let Some(retry) = retry else {
            return self.execute(action);
        };
        // Ending a registration can be done again without harm, and is.
        let outcome = matches!(action, CommandAction::Unwatch { .. }).then(|| self.execute(action));
        let is_same =
            |(hash, until, _): &&([u8; 16], u64, Outcome)| *hash == retry.hash && *until > self.time;
        if let Some((_, _, decided)) = self.decided.iter().rev().find(is_same) {
            return *decided;
        }
        let outcome = outcome.unwrap_or_else(|| self.execute(action));
        let until = self.time + retry.remembered.min(3_600_000);
        self.decided.push((retry.hash, until, outcome));
        outcome
    }

    fn execute(&mut self, action: &CommandAction) -> Outcome {
        match action {
            CommandAction::Set { key, .. } | CommandAction::Delete { key, .. } => {
                self.expire(key);
                if matches!(action, CommandAction::Set { .. }) {
                    self.set(action)
                } else {
                    self.delete(action)
                }
            }
            CommandAction::Watch {
                key,
                watcher,
                dialect,
                ..
            } => {
                self.watches.insert((key.to_vec(), *watcher), *dialect);
                Outcome::Watching
            }
            CommandAction::Unwatch { key, watcher, .. } => {
                match self.watches.remove(&(key.to_vec(), *watcher)) {
                    Some(_) => Outcome::Unwatched,
                    None => Outcome::NotWatched,
                }
            }
            CommandAction::EndWatches { watcher } => {
                self.watches.retain(|(_, other), _| other != watcher);
                Outcome::Done
            }
            CommandAction::EndIncarnations { node, below } => {
                self.watches
                    .retain(|(_, other), _| other.node != *node || other.incarnation >= *below);
                Outcome::Done
            }
            CommandAction::Expire { keys } => {
                keys.iter().for_each(|key| self.expire(key));
                Outcome::Done
            }
            CommandAction::Configure { quota } => {
                self.quota = *quota;
                Outcome::Done
            }
            CommandAction::Reinstate { .. } | CommandAction::RaiseFloor { .. } => {
                unreachable!("no step of a history")
            }
        }
    }

    fn set(&mut self, action: &CommandAction) -> Outcome {
        let CommandAction::Set {
            key,
            value,
            condition,
            expires_in,
            timestamp,
            fencing,
            ..
        } = action
        else {
            unreachable!("only called for a SET");
        };
        let row = self.keys.get(&key[..]).cloned();
        let given = fencing.as_ref().map(stamp);
        let mut token = given.clone();
        if let Some(row) = &row {
            if let Some(refusal) = fence(row, given.as_ref()) {
                return Outcome::Refused(refusal);
            }
            let is_allowed = match condition {
                Condition::None => true,
                Condition::NotExists => false,
                Condition::NotExistsOrEqual => row.value == *value,
                Condition::NotExistsOrEqualTo(other) => row.value == *other,
            };
            if !is_allowed {
                return Outcome::ConditionFailed { stored: row.version };
            }
            if token.is_none() || row.token > token {
                token.clone_from(&row.token);
            }
        }
        let before = (self.keys.len() as u64, self.bytes());
        let version = self.next(key, Some((timestamp.wall, timestamp.counter)));
        let deadline = expires_in.map(|expires_in| self.time + expires_in);
        let new = Row {
            value: value.to_vec(),
            version,
            deadline,
            token,
        };
        let previous = self.keys.insert(key.to_vec(), new);
        let after = (self.keys.len() as u64, self.bytes());
        let has_too_many_keys = after.0 > before.0 && after.0 > self.quota.keys_max;
        let has_too_many_bytes = after.1 > before.1 && after.1 > self.quota.bytes_max;
        if has_too_many_keys || has_too_many_bytes {
            self.keys.remove(&key[..]);
            self.keys
                .extend(previous.map(|previous| (key.to_vec(), previous)));
            return Outcome::Refused(Refusal::QuotaExceeded);
        }
        self.last.insert(key.to_vec(), version);
        self.tell(key, Some(value), version);
        Outcome::Stored { version }
    }

    fn delete(&mut self, action: &CommandAction) -> Outcome {
        let CommandAction::Delete {
            key,
            only_if,
            timestamp,
            fencing,
            ..
        } = action
        else {
            unreachable!("only called for a DELETE");
        };
        let Some(row) = self.keys.get(&key[..]).cloned() else {
            return Outcome::Missing;
        };
        if let Some(refusal) = fence(&row, fencing.as_ref().map(stamp).as_ref()) {
            return Outcome::Refused(refusal);
        }
        if only_if.as_ref().is_some_and(|value| row.value != *value) {
            return Outcome::OtherValue { stored: row.version };
        }
        self.remove(
            key,
            timestamp
                .as_ref()
                .map(|timestamp| (timestamp.wall, timestamp.counter)),
        );
        Outcome::Deleted { version: row.version }
    }

    fn expire(&mut self, key: &[u8]) {
        let deadline = self.keys.get(key).and_then(|row| row.deadline);
        if deadline.is_some_and(|deadline| deadline <= self.time) {
            self.remove(key, None);
        }
    }

    fn remove(&mut self, key: &[u8], timestamp: Option<(u64, u64)>) {
        let version = self.next(key, timestamp);
        self.keys.remove(key);
        self.last.insert(key.to_vec(), version);
        self.tell(key, None, version);
    }

    /// Section 4 of the contract, word by word.
    fn next(&self, key: &[u8], timestamp: Option<(u64, u64)>) -> Version {
        let (request_wall, request_counter) = timestamp.unwrap_or_default();
        let last = self
            .last
            .get(key)
            .map_or((0, 0), |last| (last.wall, u64::from(last.counter)));
        if self.clock > request_wall && self.clock > last.0 {
            return Version {
                wall: self.clock,
                counter: 1,
            };
        }
        let wall = self.clock.max(request_wall).max(last.0);
        let mut counter = 0;
        if request_wall == wall {
            counter = counter.max(request_counter);
        }
        if last.0 == wall {
            counter = counter.max(last.1);
        }
        if counter >= 2_147_483_647 {
            return Version {
                wall: wall + 1,
                counter: 1,
            };
        }
        Version {
            wall,
            counter: u32::try_from(counter + 1).unwrap(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        let token = |row: &Row| row.token.as_ref().map_or(0, |(_, _, node)| node.len());
        self.keys
            .iter()
            .map(|(key, row)| (key.len() + row.value.len() + token(row)) as u64)
            .sum()
    }

    fn tell(&mut self, key: &[u8], value: Option<&[u8]>, version: Version) {
        for ((watched, watcher), dialect) in &self.watches {
            if watched == key {
                self.told.push((
                    *watcher,
                    *dialect,
                    key.to_vec(),
                    value.map(<[u8]>::to_vec),
                    version,
                ));
            }
        }
    }

    /// The keys that are there at `now`.
    pub(crate) fn alive(&self, now: u64) -> impl Iterator<Item = (&Vec<u8>, &Row)> {
        let now = now.max(self.time);
        self.keys
            .iter()
            .filter(move |(_, row)| row.deadline.is_none_or(|deadline| deadline > now))
    }
}

fn fence(row: &Row, given: Option<&Stamp>) -> Option<Refusal> {
    match (&row.token, given) {
        (Some(_), None) => Some(Refusal::FencingTokenRequired),
        (Some(stored), Some(given)) if given < stored => Some(Refusal::FencingTokenLower),
        _ => None,
    }
}

/// An effect of the store in the model's words.
pub(crate) fn told(effect: store::Effect) -> Told {
    let store::Effect::Changed {
        watcher,
        dialect,
        key,
        change,
        version,
    } = effect;
    let value = match change {
        Change::Set { value } => Some(value.to_vec()),
        Change::Delete => None,
    };
    (watcher, dialect, key.to_vec(), value, version)
}
