//! Snapshots: the store's state as bytes, and back.
//!
//! [`Store::image`] takes constant time: the maps share their nodes with the image, and the store copies what it
//! changes while the image is alive. The image goes to another thread, which turns it into chunks.
//!
//! Version 2 is one stream of bytes, cut into chunks anywhere, with the numbers and byte strings of `codec.rs`:
//!
//! ```text
//! stream    = 0x02  clock time quota dropped floor  counts  key* tombstone* reply* watch*  0xED
//! quota     = keys_max bytes_max
//! dropped   = how many remembered outcomes were dropped before their time
//! floor     = 0x00 | 0x01 version: what new keys must be greater than
//! counts    = keys tombstones replies watches                  version 1 has no time: it is that of its clock
//! key       = flags key value version [deadline] [fencing]      flags: bit 0 deadline, 1 fencing
//! tombstone = key version
//! reply     = hash (16 bytes) until outcome                     until and deadlines: group time
//! watch     = key watcher dialect
//! ```
//!
//! Keys and tombstones are in the order of their keys, watches in the order of key and watcher, replies in the
//! order in which they were decided. Checksums are the business of the file that holds the chunks.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use imbl::{OrdMap, Vector};
use protocol::state_store::Dialect;

use crate::command::{Quota, Watcher};
use crate::key::Key;
use crate::key_record::KeyRecord;
use crate::retry::Remembered;
use crate::stamp::Stamp;
use crate::store::{Store, Stored};
use crate::version::Version;

mod read;
mod write;

pub use read::{RestoreError, Restoring};
pub use write::Chunks;

/// A frozen view of a store.
#[derive(Debug, Clone)]
pub struct Image {
    stamp: Stamp,
    quota: Quota,
    replies_dropped: u64,
    floor: Option<Version>,
    keys: OrdMap<Key, Arc<Stored>>,
    tombstones: OrdMap<Key, Version>,
    replies: Vector<Remembered>,
    watches: OrdMap<Key, OrdMap<Watcher, Dialect>>,
    watches_count: u64,
}

impl Store {
    /// The state as it is, for a snapshot. Takes constant time.
    pub fn image(&self) -> Image {
        Image {
            stamp: self.stamp,
            quota: self.quota,
            replies_dropped: self.replies.dropped,
            floor: self.tombstones.floor,
            keys: self.keys.clone(),
            tombstones: self.tombstones.versions.clone(),
            replies: self.replies.remembered.clone(),
            watches: self.watches.by_key.clone(),
            watches_count: self.watches.len() as u64,
        }
    }

    /// The store that an image was taken of. The chunks come in their order.
    pub fn restore(chunks: impl Iterator<Item = Bytes>) -> Result<Self, RestoreError> {
        read::restore(chunks)
    }
}

impl Image {
    /// How many keys the image has.
    pub fn keys(&self) -> u64 {
        self.keys.len() as u64
    }

    /// The clock of the store, in milliseconds since the Unix epoch.
    pub fn clock(&self) -> u64 {
        self.stamp.clock
    }

    /// No key that is not in the image was ever given a version greater than this: what is remembered of keys that are gone, and
    /// what the clock has passed, of which nothing is remembered.
    pub fn floor(&self) -> Version {
        let passed = Version {
            wall: self.stamp.clock,
            counter: 1,
        };
        let remembered = self.tombstones.values().max().copied();
        remembered.max(self.floor).max(Some(passed)).unwrap_or(passed)
    }

    /// The keys behind a key, in their order: as many as have about `bytes_max` together, and one at least if there is one.
    pub fn keys_after(&self, after: Option<&[u8]>, bytes_max: usize) -> Vec<KeyRecord> {
        let from = after.map(Key::new);
        let from = from.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let (mut records, mut bytes) = (Vec::new(), 0);
        for (key, stored) in self.keys.range::<_, Key>((from, Bound::Unbounded)) {
            bytes += key.as_slice().len() + stored.value.len();
            records.push(KeyRecord::of(key, stored, self.stamp));
            if bytes >= bytes_max {
                break;
            }
        }
        records
    }

    /// The image as bytes, in chunks of at most [`CHUNK_BYTES_MAX`].
    pub fn into_chunks(self) -> Chunks {
        self.into_chunks_of(CHUNK_BYTES_MAX)
    }

    /// The same in chunks of at most `bytes_max`.
    pub fn into_chunks_of(self, bytes_max: usize) -> Chunks {
        Chunks::new(self, bytes_max.clamp(1, CHUNK_BYTES_MAX))
    }
}

/// How long a chunk of a snapshot is at most.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;

/// The format that is written.
const VERSION: u8 = 2;

/// The one that was written before deadlines had a clock of their own.
const VERSION_OF_ONE_CLOCK: u8 = 1;

/// What the stream ends with.
const END: u8 = 0xed;

#[cfg(test)]
mod tests;
