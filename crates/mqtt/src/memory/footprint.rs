//! What a thing really takes from the allocator, by its structs and its parts of variable length.
//!
//! Every part of the account is made of these, so that a limit in bytes is one. `broker/tests/memory` compares the account
//! with what was allocated, for each family of state.

use protocol::Text;
use protocol::properties::MessageProperties;

/// A block of so many bytes, as the allocator rounds it up (`mi_bin` of mimalloc; jemalloc has the same sizes): multiples of
/// 16 bytes, then four sizes between a power of two and the next one, then whole pages.
pub const fn block(bytes: usize) -> u64 {
    let step = match bytes {
        0..=8 => 8,
        9..=128 => 16,
        129..=CLASSES_MAX => 1 << ((bytes - 1).ilog2() - 2),
        _ => PAGE,
    };
    bytes.next_multiple_of(step) as u64
}

/// A text in memory of its own that has clones: they share a counter.
pub fn cloned_text(text: &Text) -> u64 {
    if text.is_empty() {
        0
    } else {
        block(text.len()) + COUNTER
    }
}

/// A text in memory of its own.
pub fn text(text: &Text) -> u64 {
    block(text.len())
}

/// An entry of a `BTreeMap`, with its part of the nodes: they are somewhat more than half full, as the keys come in
/// order or not.
pub const fn tree_entry<K, V>() -> u64 {
    let node = NODE_ENTRIES * (size_of::<K>() + size_of::<V>()) + NODE_HEAD;
    block(node) / NODE_ENTRIES_FILLED as u64
}

/// A `BTreeMap` of so many entries: its first node is there as a whole.
pub const fn tree<K, V>(entries: usize) -> u64 {
    let entries = match entries {
        0 => 0,
        1..NODE_ENTRIES_FILLED => NODE_ENTRIES_FILLED,
        many => many,
    };
    entries as u64 * tree_entry::<K, V>()
}

/// So many places of a `Vec` or a `VecDeque`.
pub const fn places<T>(capacity: usize) -> u64 {
    block(capacity * size_of::<T>())
}

/// The parts of a message's properties that have memory of their own.
pub fn properties(properties: &MessageProperties) -> u64 {
    let texts = [&properties.content_type, &properties.response_topic];
    let texts: u64 = texts.into_iter().flatten().map(text).sum();
    let data = properties
        .correlation_data
        .as_ref()
        .map_or(0, |data| block(data.len()));
    texts + data + block(properties.user_properties.encoded().len())
}

/// The largest block that shares its page with others.
const CLASSES_MAX: usize = 512 << 10;

/// What the system gives memory by.
const PAGE: usize = 4 << 10;

/// The counter of `bytes::Bytes` that has clones, in a block of its own.
const COUNTER: u64 = 24;

/// How many entries a node has room for, and how many are in it on average.
const NODE_ENTRIES: usize = 11;
const NODE_ENTRIES_FILLED: usize = 7;

/// A node's parent and length.
const NODE_HEAD: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_the_size_that_the_allocator_gives() {
        let sizes = [0, 1, 9, 17, 128, 129, 160, 161, 448, 449, 60_000, 65_537, 600_000];
        let blocks = sizes.map(block);
        let given = [
            0, 8, 16, 32, 128, 160, 160, 192, 448, 512, 65_536, 81_920, 602_112,
        ];
        assert_eq!(blocks, given);
    }
}
