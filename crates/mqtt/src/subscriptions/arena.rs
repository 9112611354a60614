//! Items by index, in chunks.
//!
//! One large list would be copied as a whole when it grows, which takes long and needs twice the memory for that moment,
//! and would keep its memory for ever. Here a chunk comes when it is needed and goes when nothing is in it. New items go
//! to the lowest chunk that has room, so that the last ones become empty.

use std::ops::{Index, IndexMut};

use slab::Slab;

/// Items, each at an index that stays the same until it is removed.
#[derive(Debug)]
pub(super) struct Arena<T> {
    chunks: Vec<Slab<T>>,
    /// All chunks before this one are full.
    has_room: usize,
    len: usize,
    /// Places in all chunks, taken or not.
    capacity: usize,
}

/// Items of a chunk: some 16 KiB of them.
const CHUNK: usize = 256;

impl<T> Arena<T> {
    pub(super) const fn new() -> Self {
        Self {
            chunks: Vec::new(),
            has_room: 0,
            len: 0,
            capacity: 0,
        }
    }

    /// Adds an item; its index.
    pub(super) fn insert(&mut self, item: T) -> usize {
        while self
            .chunks
            .get(self.has_room)
            .is_some_and(|chunk| chunk.len() == CHUNK)
        {
            self.has_room += 1;
        }
        if self.has_room == self.chunks.len() {
            self.chunks.push(Slab::new());
        }
        let chunk = &mut self.chunks[self.has_room];
        let before = chunk.capacity();
        let place = chunk.insert(item);
        self.capacity += chunk.capacity() - before;
        self.len += 1;
        self.has_room * CHUNK + place
    }

    /// Takes an item out.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub(super) fn remove(&mut self, index: usize) -> T {
        let number = index / CHUNK;
        let chunk = &mut self.chunks[number];
        let item = chunk.remove(index % CHUNK);
        if chunk.is_empty() {
            self.capacity -= chunk.capacity();
            *chunk = Slab::new();
        }
        while self.chunks.last().is_some_and(Slab::is_empty) {
            self.chunks.pop();
        }
        self.has_room = self.has_room.min(number).min(self.chunks.len());
        self.len -= 1;
        item
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory of all places.
    pub(super) fn bytes(&self) -> u64 {
        // A free place has the index of the next one where an item's niche leaves no room for it.
        let place = size_of::<T>().next_multiple_of(align_of::<usize>());
        (self.capacity * place) as u64
    }
}

impl<T> Index<usize> for Arena<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK]
    }
}

impl<T> IndexMut<usize> for Arena<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_index_and_free_places_are_used_again() {
        let mut arena = Arena::new();
        let indices: Vec<_> = (0..3 * CHUNK).map(|item| arena.insert(item)).collect();
        assert!(
            indices
                .iter()
                .enumerate()
                .all(|(item, index)| arena[*index] == item)
        );
        assert_eq!(arena.remove(indices[5]), 5);
        assert_eq!(arena.insert(5_000), indices[5]);
        assert_eq!(arena.len(), 3 * CHUNK);
    }

    #[test]
    fn memory_is_given_back() {
        let mut arena = Arena::new();
        let first = arena.insert(7_u64);
        let others: Vec<_> = (0..100 * CHUNK as u64).map(|item| arena.insert(item)).collect();
        let most = arena.bytes();
        assert!(most >= 100 * CHUNK as u64 * 8, "{most} bytes");
        for index in others {
            arena.remove(index);
        }
        assert_eq!(arena[first], 7);
        assert!(arena.bytes() <= CHUNK as u64 * 16, "{} bytes", arena.bytes());
        assert_eq!(arena.chunks.len(), 1);
    }
}
