//! A hash table of slots, in parts.
//!
//! A table that grows moves everything that is in it: 30 ms for two million slots, in the middle of one SUBSCRIBE. Parts grow one
//! by one, so that no more is moved at once than one of them has.

use hashbrown::HashTable;

/// A place in a hash table: what is found there and the hash it was found by.
///
/// The hash is kept so that a growing table does not read everything that it points to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) hash: u32,
    pub(super) index: u32,
}

/// Slots by their hashes.
#[derive(Debug)]
pub(super) struct Table {
    parts: Box<[HashTable<Slot>; PARTS]>,
    /// The memory of all parts.
    bytes: usize,
}

/// With four million slots a part has 65,536, which are moved in about a millisecond.
const PARTS: usize = 64;

/// A part is chosen by bits of the hash that it does not look at itself: below them are those of the bucket, above them
/// those of the tag.
const PART_SHIFT: u32 = 17;

/// A part is sparse with so many places for each one that is taken.
const SPARSE: usize = 8;

/// A small part is not worth the work.
const SPARSE_MIN: usize = 64;

impl Table {
    pub(super) fn new() -> Self {
        Self {
            parts: Box::new([const { HashTable::new() }; PARTS]),
            bytes: 0,
        }
    }

    /// Adds a slot.
    pub(super) fn insert(&mut self, slot: Slot) {
        let part = &mut self.parts[part_of(slot.hash)];
        let before = part.allocation_size();
        part.insert_unique(spread(slot.hash), slot, |slot| spread(slot.hash));
        self.bytes += part.allocation_size() - before;
    }

    /// Finds the index of a slot with this hash.
    pub(super) fn find(&self, hash: u32, is_it: impl FnMut(&Slot) -> bool) -> Option<u32> {
        let part = &self.parts[part_of(hash)];
        part.find(spread(hash), is_it).map(|slot| slot.index)
    }

    /// Takes out the slot with this hash and index; false if there is none.
    pub(super) fn remove(&mut self, hash: u32, index: u32) -> bool {
        let part = &mut self.parts[part_of(hash)];
        let before = part.allocation_size();
        let Ok(slot) = part.find_entry(spread(hash), |slot| slot.index == index) else {
            return false;
        };
        slot.remove();
        if part.len() < part.capacity() / SPARSE && part.capacity() > SPARSE_MIN {
            part.shrink_to(2 * part.len(), |slot| spread(slot.hash));
        }
        self.bytes = self.bytes + part.allocation_size() - before;
        true
    }

    /// The memory of all slots, taken or not.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(HashTable::len).sum()
    }
}

fn part_of(hash: u32) -> usize {
    (hash >> PART_SHIFT) as usize % PARTS
}

/// What a part hashes by: hashbrown takes the bucket from the low bits and a tag from the top 7.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Well spread, and no two the same.
    fn hash(number: u32) -> u32 {
        number.wrapping_mul(0x9E37_79B1)
    }

    #[test]
    fn slots_are_found_until_they_are_taken_out_and_memory_is_given_back() {
        const SLOTS: u32 = 100_000;
        let mut table = Table::new();
        for index in 0..SLOTS {
            let hash = hash(index);
            table.insert(Slot { hash, index });
        }
        let most = table.bytes();
        assert!(
            most >= u64::from(SLOTS) * size_of::<Slot>() as u64,
            "{most} bytes"
        );
        for index in 0..SLOTS {
            assert_eq!(table.find(hash(index), |slot| slot.index == index), Some(index));
            assert!(table.remove(hash(index), index));
            assert!(!table.remove(hash(index), index));
        }
        assert_eq!(table.len(), 0);
        assert!(table.bytes() < most / 50, "{} of {most} bytes", table.bytes());
    }

    #[test]
    fn no_insertion_moves_more_than_one_part() {
        let mut table = Table::new();
        let mut moved_max = 0;
        for index in 0..200_000 {
            let hash = hash(index);
            let (before, part) = (table.bytes(), table.parts[part_of(hash)].len());
            table.insert(Slot { hash, index });
            if table.bytes() != before {
                moved_max = moved_max.max(part);
            }
        }
        assert!((1..8_192).contains(&moved_max), "{moved_max} slots moved at once");
    }
}
