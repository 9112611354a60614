//! Keys that come back from a backup, as they were.
//!
//! A key keeps the version that it had, and what is written to it from then on gets a greater one, as ever. Keys of which the backup has
//! nothing, because they were gone already, get versions above the floor ([`Image::floor`](crate::Image::floor)).

use std::sync::Arc;

use bytes::Bytes;

use crate::command::{Change, Effect, Outcome, Refusal};
use crate::key::Key;
use crate::key_record::KeyRecord;
use crate::store::{Store, Stored, notify};
use crate::version::Version;

impl Store {
    /// Lets keys that are made from here on get greater versions than this.
    pub(crate) fn raise_floor(&mut self, floor: Version) -> Outcome {
        self.tombstones.raise_floor(floor, self.stamp.clock);
        self.note_given(floor);
        Outcome::Done
    }

    /// Puts a key back. Said twice it does nothing the second time.
    ///
    /// Answers [`Outcome::ConditionFailed`] if something as new is there or was, [`Outcome::Missing`] if its time is over.
    pub(crate) fn reinstate(&mut self, record: &KeyRecord, effects: &mut Vec<Effect>) -> Outcome {
        let key = &record.key;
        assert!(!key.is_empty(), "a record with an empty key is not read");
        self.expire_if_due(key, effects);
        let there = self.keys.get(&key[..]);
        let last = there.map(|stored| stored.version);
        if let Some(stored) = last.or_else(|| self.tombstones.of(key))
            && stored >= record.version
        {
            return Outcome::ConditionFailed { stored };
        }
        if record
            .deadline
            .is_some_and(|deadline| deadline <= self.stamp.clock)
        {
            if last.is_none() {
                self.tombstones.take(key);
                self.tombstones
                    .insert(Key::new(key), record.version, self.stamp.clock);
                self.note_given(record.version);
            }
            return Outcome::Missing;
        }
        // Whoever has the greater token was the last who was let in.
        let token_there = there.and_then(|stored| stored.fencing.as_deref());
        let token = token_there.max(record.fencing.as_ref());
        let fencing = token.map(|token| Box::new(token.detached()));
        let value = Bytes::copy_from_slice(&record.value);
        let deadline = record.deadline.map(|deadline| self.stamp.time_of(deadline));
        let stored = Stored::new(key, value, record.version, deadline, fencing);
        let (old_size, old_digest, old_deadline) =
            there.map_or((0, 0, None), |old| (old.size(key), old.digest, old.deadline));
        let bytes = (self.bytes - old_size).saturating_add(stored.size(key));
        let is_full = last.is_none() && self.keys.len() as u64 >= self.quota.keys_max
            || bytes > self.bytes && bytes > self.quota.bytes_max;
        if is_full {
            return Outcome::Refused(Refusal::QuotaExceeded);
        }
        if last.is_none() {
            self.tombstones.take(key);
        }
        self.bytes = bytes;
        self.digests = self.digests.wrapping_sub(old_digest).wrapping_add(stored.digest);
        let (key, version) = (Key::new(key), stored.version);
        self.note_given(version);
        self.deadlines.change(&key, old_deadline, stored.deadline);
        let value = &stored.value;
        let change = || Change::Set { value: value.clone() };
        notify(&self.watches, &record.key, version, change, effects);
        self.keys.insert(key, Arc::new(stored));
        Outcome::Stored { version }
    }
}

#[cfg(test)]
mod tests;
