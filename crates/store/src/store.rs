//! The store: keys with their values and versions, and everything that a later command may depend on.

use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;
use protocol::Hlc;
use protocol::state_store::Condition;

use crate::command::{Change, Command, CommandAction, Effect, Outcome, Quota, Refusal, Watcher};
use crate::digest;
use crate::entry::KEPT_MIN;
use crate::expiry::Deadlines;
use crate::fencing;
use crate::key::Key;
use crate::retry::{Replies, RetryKey};
use crate::stamp::Stamp;
use crate::tombstone::Tombstones;
use crate::version::Version;
use crate::watch::Watches;

/// A replica's state, built by applying the commands of the log in order.
///
/// For each log entry: [`begin`](Self::begin) with the entry's stamp, then [`apply`](Self::apply) for each of
/// its commands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Store {
    /// The greatest clocks of an entry so far.
    pub(crate) stamp: Stamp,
    /// A wall that neither the clock nor any version that was given is ahead of.
    pub(crate) given_until: u64,
    pub(crate) quota: Quota,
    /// Shared with images: a clone costs nothing, and a change copies what an image still holds.
    pub(crate) keys: OrdMap<Key, Arc<Stored>>,
    /// What all keys count towards the quota.
    pub(crate) bytes: u64,
    /// The sum of the keys' digests.
    pub(crate) digests: u64,
    pub(crate) deadlines: Deadlines,
    pub(crate) tombstones: Tombstones,
    pub(crate) replies: Replies,
    pub(crate) watches: Watches,
}

/// What is stored under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) value: Bytes,
    pub(crate) version: Version,
    /// When the key expires, in milliseconds of group time: from then on it is missing.
    pub(crate) deadline: Option<u64>,
    pub(crate) fencing: Option<Box<Hlc>>,
    /// Of the key and all this: kept, so that an old value need not be read when it is replaced.
    pub(crate) digest: u64,
}

/// A key that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its value.
    pub value: Bytes,
    /// The version at which it was written.
    pub version: Version,
}

/// What else is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Details {
    /// When it expires, in milliseconds since the Unix epoch, as the clock of the last log entry has it.
    pub deadline: Option<u64>,
    /// The fencing token that is stored with it.
    pub fencing: Option<Hlc>,
}

/// How large the store is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Keys, those included that are past their deadline but not deleted yet.
    pub keys: u64,
    /// Bytes of keys, values and the node ids of fencing tokens: what the quota limits.
    pub bytes: u64,
    /// Keys with a deadline.
    pub expiring: u64,
    /// Last versions of keys that are gone.
    pub tombstones: u64,
    /// Outcomes that are remembered for retries.
    pub replies_remembered: u64,
    /// Outcomes that were dropped before their time, because there were too many.
    pub replies_dropped: u64,
    /// Registrations for changes of keys.
    pub watches: u64,
    /// Bytes of the keys of tombstones and registrations, which no quota limits.
    pub remembered_bytes: u64,
}

impl Usage {
    /// The sum of two stores'.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            keys: self.keys + other.keys,
            bytes: self.bytes + other.bytes,
            expiring: self.expiring + other.expiring,
            tombstones: self.tombstones + other.tombstones,
            replies_remembered: self.replies_remembered + other.replies_remembered,
            replies_dropped: self.replies_dropped + other.replies_dropped,
            watches: self.watches + other.watches,
            remembered_bytes: self.remembered_bytes + other.remembered_bytes,
        }
    }
}

/// A SET, its key and retry apart.
struct Write {
    value: Bytes,
    condition: Condition,
    expires_in: Option<u64>,
    timestamp: Hlc,
    fencing: Option<Hlc>,
}

/// A DEL or VDEL, its key and retry apart.
struct Deletion {
    only_if: Option<Bytes>,
    timestamp: Option<Hlc>,
    fencing: Option<Hlc>,
}

impl Store {
    /// An empty store without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a log entry that its leader stamped so.
    ///
    /// The store's clocks are the greatest so far: they do not follow a leader whose clocks are behind. Some of what
    /// they have passed is forgotten here, so much that an entry after a long silence takes no longer than another.
    pub fn begin(&mut self, stamp: Stamp) {
        self.stamp = self.stamp.max(stamp);
        self.given_until = self.given_until.max(self.stamp.clock);
        self.tombstones
            .forget_passed(self.stamp.clock, FORGOTTEN_PER_ENTRY_MAX);
        self.replies
            .forget_passed(self.stamp.time, FORGOTTEN_PER_ENTRY_MAX);
    }

    /// Applies a command. What it keeps of the command's bytes it copies, so that a log entry's memory is free
    /// afterwards. A value of a mebibyte or more stays where it is: [`decode_entry`](crate::decode_entry) leaves nearly
    /// nothing else there. Effects are appended.
    pub fn apply(&mut self, command: Command, effects: &mut Vec<Effect>) -> Outcome {
        match command.action {
            CommandAction::Set {
                key,
                value,
                condition,
                expires_in,
                timestamp,
                fencing,
                retry,
            } => {
                let write = Write {
                    value,
                    condition,
                    expires_in,
                    timestamp,
                    fencing,
                };
                self.once(retry, |store| store.set(&key, &write, effects))
            }
            CommandAction::Delete {
                key,
                only_if,
                timestamp,
                fencing,
                retry,
            } => {
                let deletion = Deletion {
                    only_if,
                    timestamp,
                    fencing,
                };
                self.once(retry, |store| store.delete(&key, &deletion, effects))
            }
            CommandAction::Watch {
                key,
                watcher,
                dialect,
                retry: _,
            } => match self.watches.watch(&key, watcher, dialect) {
                Ok(()) => Outcome::Watching,
                Err(refusal) => Outcome::Refused(refusal),
            },
            CommandAction::Unwatch { key, watcher, retry } => {
                let was_watching = self.watches.unwatch(&key, watcher);
                let outcome = if was_watching {
                    Outcome::Unwatched
                } else {
                    Outcome::NotWatched
                };
                self.once(retry, |_| outcome)
            }
            CommandAction::EndWatches { watcher } => {
                self.watches.end(watcher);
                Outcome::Done
            }
            CommandAction::EndIncarnations { node, below } => {
                self.watches.end_incarnations(node, below);
                Outcome::Done
            }
            CommandAction::Expire { keys } => {
                for key in keys {
                    self.expire_if_due(&key, effects);
                }
                Outcome::Done
            }
            CommandAction::Configure { quota } => self.configure(quota),
            CommandAction::Reinstate { record } => self.reinstate(&record, effects),
            CommandAction::RaiseFloor { floor } => self.raise_floor(floor),
        }
    }

    /// What is stored under a key at `now`, in milliseconds of group time. A key past its deadline is missing; a `now` behind
    /// the store's time does not bring it back.
    pub fn get(&self, key: &[u8], now: u64) -> Option<Found> {
        let now = now.max(self.stamp.time);
        let stored = self.keys.get(key).filter(|stored| !stored.is_due(now))?;
        Some(Found {
            value: stored.value.clone(),
            version: stored.version,
        })
    }

    /// What else is known of a key that is not past its deadline at `now`, in milliseconds of group time.
    pub fn details(&self, key: &[u8], now: u64) -> Option<Details> {
        let now = now.max(self.stamp.time);
        let stored = self.keys.get(key).filter(|stored| !stored.is_due(now))?;
        Some(Details {
            deadline: stored.deadline.map(|deadline| self.stamp.wall_of(deadline)),
            fencing: stored.fencing.as_deref().cloned(),
        })
    }

    /// When the next key expires, in milliseconds of group time.
    pub fn next_expiry(&self) -> Option<u64> {
        self.deadlines.next()
    }

    /// The keys that are past their deadline at `now` (milliseconds of group time), at most `max`, the longest due first: what
    /// the leader proposes to [`Expire`](CommandAction::Expire).
    pub fn expired(&self, now: u64, max: usize) -> Vec<Bytes> {
        let now = now.max(self.stamp.time);
        self.deadlines.due(now).take(max).map(Key::to_bytes).collect()
    }

    /// Whether the outcome of a request is remembered: sent again, it changes nothing.
    pub fn remembers(&self, retry: &RetryKey) -> bool {
        self.replies.outcome(retry, self.stamp.time).is_some()
    }

    /// How large the store is.
    pub fn usage(&self) -> Usage {
        Usage {
            keys: self.keys.len() as u64,
            bytes: self.bytes,
            expiring: self.deadlines.len() as u64,
            tombstones: self.tombstones.len() as u64,
            replies_remembered: self.replies.len() as u64,
            replies_dropped: self.replies.dropped,
            watches: self.watches.len() as u64,
            remembered_bytes: (self.tombstones.bytes() + self.watches.bytes()) as u64,
        }
    }

    /// A digest of the state: equal stores have equal ones. Takes constant time.
    ///
    /// The keys count with everything that is stored under them, the rest by its numbers. It is meant to find replicas
    /// that differ by accident; it is no protection against somebody who makes two stores with one digest.
    pub fn digest(&self) -> u64 {
        digest::of_store(self)
    }

    /// Whether a connection of this node watches a key.
    pub fn has_watches_of(&self, node: u64) -> bool {
        self.watches.has_any_of(node)
    }

    /// Which keys a connection watches.
    pub fn watched_by(&self, watcher: Watcher) -> Vec<Bytes> {
        self.watches.by(watcher).map(Bytes::copy_from_slice).collect()
    }

    /// The greatest clocks of a log entry so far.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// A wall that no version is behind which the store has given so far, in milliseconds since the Unix epoch.
    pub fn given_until(&self) -> u64 {
        self.given_until
    }

    /// The limits.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// Executes a command, unless its outcome is remembered.
    fn once(&mut self, retry: Option<RetryKey>, execute: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        let Some(retry) = retry else {
            return execute(self);
        };
        if let Some(outcome) = self.replies.outcome(&retry, self.stamp.time) {
            return outcome;
        }
        let outcome = execute(self);
        self.replies.remember(&retry, outcome, self.stamp.time);
        outcome
    }

    fn configure(&mut self, quota: Quota) -> Outcome {
        self.quota = quota;
        Outcome::Done
    }

    fn set(&mut self, key: &Bytes, write: &Write, effects: &mut Vec<Effect>) -> Outcome {
        assert!(
            !key.is_empty(),
            "a request with an empty key is refused where it is parsed"
        );
        self.expire_if_due(key, effects);
        let Some(slot) = self.keys.get_mut(&key[..]) else {
            return self.create(key, write, effects);
        };
        if let Err(refusal) = fencing::check(slot.fencing.as_deref(), write.fencing.as_ref()) {
            return Outcome::Refused(refusal);
        }
        if !write.is_allowed_over(&slot.value) {
            return Outcome::ConditionFailed { stored: slot.version };
        }
        let last = Some(slot.version);
        let version = Version::next(self.stamp.clock, Some(&write.timestamp), last);
        // Not older than the one that is stored: it has just been checked.
        let fencing = write.fencing.as_ref().map(|token| Box::new(token.detached()));
        let stored = Stored::written(key, write, version, self.stamp.time, fencing);

        let bytes = self.bytes - slot.size(key) + stored.size(key);
        if bytes > self.bytes && bytes > self.quota.bytes_max {
            return Outcome::Refused(Refusal::QuotaExceeded);
        }
        self.bytes = bytes;
        self.digests = self.digests.wrapping_sub(slot.digest).wrapping_add(stored.digest);
        if slot.deadline != stored.deadline {
            self.deadlines
                .change(&Key::new(key), slot.deadline, stored.deadline);
        }
        *slot = Arc::new(stored);
        self.given_until = self.given_until.max(version.wall);
        let value = &slot.value;
        notify(
            &self.watches,
            key,
            version,
            || Change::Set { value: value.clone() },
            effects,
        );
        Outcome::Stored { version }
    }

    fn create(&mut self, key: &Bytes, write: &Write, effects: &mut Vec<Effect>) -> Outcome {
        let size = size(key, &write.value, write.fencing.as_ref());
        let is_full = self.keys.len() as u64 >= self.quota.keys_max
            || self.bytes.saturating_add(size) > self.quota.bytes_max;
        if is_full {
            return Outcome::Refused(Refusal::QuotaExceeded);
        }
        let last = self.tombstones.take(key);
        let version = self.next_version(Some(&write.timestamp), last);
        let fencing = write.fencing.as_ref().map(|token| Box::new(token.detached()));
        let stored = Stored::written(key, write, version, self.stamp.time, fencing);
        let change = || Change::Set {
            value: stored.value.clone(),
        };
        notify(&self.watches, key, version, change, effects);

        let key = Key::new(key);
        self.bytes += size;
        self.digests = self.digests.wrapping_add(stored.digest);
        self.deadlines.change(&key, None, stored.deadline);
        self.keys.insert(key, Arc::new(stored));
        Outcome::Stored { version }
    }

    fn delete(&mut self, key: &Bytes, deletion: &Deletion, effects: &mut Vec<Effect>) -> Outcome {
        self.expire_if_due(key, effects);
        let Some(stored) = self.keys.get(&key[..]) else {
            return Outcome::Missing;
        };
        if let Err(refusal) = fencing::check(stored.fencing.as_deref(), deletion.fencing.as_ref()) {
            return Outcome::Refused(refusal);
        }
        if deletion
            .only_if
            .as_ref()
            .is_some_and(|value| *value != stored.value)
        {
            return Outcome::OtherValue {
                stored: stored.version,
            };
        }
        let version = stored.version;
        self.remove(key, deletion.timestamp.as_ref(), effects);
        Outcome::Deleted { version }
    }

    /// Deletes a key that is past its deadline. Whatever comes next finds it missing, and those who watch it
    /// have been told.
    pub(crate) fn expire_if_due(&mut self, key: &Bytes, effects: &mut Vec<Effect>) {
        // No search for a key that cannot be due.
        let is_any_due = self
            .deadlines
            .next()
            .is_some_and(|deadline| deadline <= self.stamp.time);
        if is_any_due
            && self
                .keys
                .get(&key[..])
                .is_some_and(|stored| stored.is_due(self.stamp.time))
        {
            self.remove(key, None, effects);
        }
    }

    fn next_version(&mut self, timestamp: Option<&Hlc>, last: Option<Version>) -> Version {
        let version = Version::next(self.stamp.clock, timestamp, last);
        self.note_given(version);
        version
    }

    pub(crate) fn note_given(&mut self, version: Version) {
        self.given_until = self.given_until.max(version.wall);
    }

    /// Deletes a key that exists.
    fn remove(&mut self, key: &Bytes, timestamp: Option<&Hlc>, effects: &mut Vec<Effect>) {
        let (held, stored) = self
            .keys
            .remove_with_key(&key[..])
            .expect("the caller has found the key");
        let version = self.next_version(timestamp, Some(stored.version));
        self.bytes -= stored.size(key);
        self.digests = self.digests.wrapping_sub(stored.digest);
        self.deadlines.change(&held, stored.deadline, None);
        self.tombstones.insert(held, version, self.stamp.clock);
        notify(&self.watches, key, version, || Change::Delete, effects);
    }
}

impl Stored {
    /// Made of a SET that is executed at `time`.
    fn written(key: &[u8], write: &Write, version: Version, time: u64, fencing: Option<Box<Hlc>>) -> Self {
        let deadline = write.expires_in.map(|expires_in| time.saturating_add(expires_in));
        let value = if write.value.len() >= KEPT_MIN {
            write.value.clone()
        } else {
            Bytes::copy_from_slice(&write.value)
        };
        Self::new(key, value, version, deadline, fencing)
    }

    pub(crate) fn new(
        key: &[u8],
        value: Bytes,
        version: Version,
        deadline: Option<u64>,
        fencing: Option<Box<Hlc>>,
    ) -> Self {
        let digest = digest::of_key(key, &value, version, deadline, fencing.as_deref());
        Self {
            value,
            version,
            deadline,
            fencing,
            digest,
        }
    }

    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// What the key counts towards the quota.
    pub(crate) fn size(&self, key: &[u8]) -> u64 {
        size(key, &self.value, self.fencing.as_deref())
    }
}

impl Write {
    /// Whether the condition is met by a key that has this value.
    fn is_allowed_over(&self, stored: &Bytes) -> bool {
        match &self.condition {
            Condition::None => true,
            Condition::NotExists => false,
            Condition::NotExistsOrEqual => self.value == stored,
            Condition::NotExistsOrEqualTo(value) => value == stored,
        }
    }
}

pub(crate) fn size(key: &[u8], value: &[u8], fencing: Option<&Hlc>) -> u64 {
    key.len() as u64 + value.len() as u64 + fencing::size(fencing)
}

/// Tells everybody who watches the key.
pub(crate) fn notify(
    watches: &Watches,
    key: &Bytes,
    version: Version,
    change: impl Fn() -> Change,
    effects: &mut Vec<Effect>,
) {
    for (watcher, dialect) in watches.of(key) {
        effects.push(Effect::Changed {
            watcher,
            dialect,
            key: key.clone(),
            change: change(),
            version,
        });
    }
}

/// How many tombstones and how many remembered outcomes are forgotten at the begin of an entry, at most: less
/// than a millisecond.
const FORGOTTEN_PER_ENTRY_MAX: usize = 1_024;

#[cfg(test)]
mod tests;
