//! Seeded hashes of level and topic names, 32 bits kept.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;
use hashbrown::HashTable;

/// A place in a hash table: what is found there and the hash it was found by.
///
/// The hash is kept so that a growing table does not read everything that it points to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) hash: u32,
    pub(super) index: u32,
}

/// Hashes names with the caller's seed.
#[derive(Debug)]
pub(super) struct NameHash(FixedState);

impl NameHash {
    pub(super) fn new(seed: u64) -> Self {
        Self(FixedState::with_seed(seed))
    }

    /// The hash of `name` under the parent `parent`.
    pub(super) fn of(&self, parent: u32, name: &str) -> u32 {
        let mut hasher = self.0.build_hasher();
        hasher.write_u32(parent);
        hasher.write(name.as_bytes());
        let hash = hasher.finish();
        u32::try_from(hash >> 32).expect("the upper half has 32 bits")
    }
}

impl Slot {
    /// What a table of slots hashes by: hashbrown takes the bucket from the low bits and a tag from the top 7.
    pub(super) fn spread(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }
}

/// Makes a table smaller of which much is empty.
pub(super) fn give_back(table: &mut HashTable<Slot>) {
    if table.len() < table.capacity() / SPARSE && table.capacity() > SPARSE_MIN {
        table.shrink_to(2 * table.len(), |slot| Slot::spread(slot.hash));
    }
}

/// A table is sparse with so many places for each one that is taken.
const SPARSE: usize = 8;

/// A small table is not worth the work.
const SPARSE_MIN: usize = 1_024;

/// The index of a slab as it is kept in nodes and slots.
pub(super) fn index(position: usize) -> u32 {
    u32::try_from(position).expect("fewer than 2^32 filters fit into memory")
}

/// The reverse of [`index`].
pub(super) fn position(index: u32) -> usize {
    usize::try_from(index).expect("a usize has at least 32 bits")
}
