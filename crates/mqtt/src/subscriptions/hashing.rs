//! Seeded hashes of level and topic names, 32 bits kept.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;

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

/// The index of a slab as it is kept in nodes and slots.
pub(super) fn index(position: usize) -> u32 {
    u32::try_from(position).expect("fewer than 2^32 filters fit into memory")
}

/// The reverse of [`index`].
pub(super) fn position(index: u32) -> usize {
    usize::try_from(index).expect("a usize has at least 32 bits")
}
