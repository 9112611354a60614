//! What the parts of a store take in memory beside the bytes of keys and values: by the sizes of structs, and of the nodes of the
//! collections that hold them.
//!
//! `crates/broker/tests/memory` compares it with the allocator.

use std::sync::Arc;

use imbl::OrdMap;
use protocol::state_store::Dialect;

use crate::command::Watcher;
use crate::key::Key;
use crate::retry::Remembered;
use crate::store::{Stored, Usage};
use crate::version::Version;

impl Usage {
    /// All that is held, in bytes.
    pub fn memory(&self) -> u64 {
        self.bytes
            + self.remembered_bytes
            + self.keys * KEY
            + self.expiring * DEADLINE
            + self.tombstones * TOMBSTONE
            + self.replies_remembered * REPLY
            + self.watches * WATCH
    }
}

/// A key: its place, and what is stored under it.
const KEY: u64 = (shared_entry::<Key, Arc<Stored>>() + COUNTERS + size_of::<Stored>()) as u64;

/// When a key expires.
const DEADLINE: u64 = ordered_entry::<(u64, Key)>() as u64;

/// The last version of a key that is gone, by key and by version.
const TOMBSTONE: u64 = (shared_entry::<Key, Version>() + ordered_entry::<(Version, Key)>()) as u64;

/// The outcome of a request, in a list, and its number in a table with a control byte, seven eighths full when it grows: two
/// thirds on average.
const REPLY: u64 = (size_of::<Remembered>() + (size_of::<(u64, u64)>() + 1) * 3 / 2) as u64;

/// A connection that watches a key: the key's place, the node of its map of watchers, and the key in the connection's list. Most
/// keys have one watcher.
const WATCH: u64 = (shared_entry::<Key, OrdMap<Watcher, Dialect>>()
    + shared_node::<Watcher, Dialect>()
    + ordered_entry::<Key>()) as u64;

/// An entry of an `OrdMap`, with its part of the nodes.
const fn shared_entry<K, V>() -> usize {
    shared_node::<K, V>() / (SHARED_ENTRIES * 2 / 3)
}

/// A leaf of an `OrdMap` with its bounds.
const fn shared_node<K, V>() -> usize {
    COUNTERS + 2 * size_of::<usize>() + SHARED_ENTRIES * size_of::<(K, V)>()
}

/// An entry of a `BTreeSet`, with its part of the nodes, which have room for eleven, a parent and a length.
const fn ordered_entry<K>() -> usize {
    (2 * size_of::<usize>() + 11 * size_of::<K>()) / 7
}

/// The counters of an `Arc`.
const COUNTERS: usize = 2 * size_of::<usize>();

/// Room of a leaf of an `OrdMap` (imbl). Leaves are two thirds full on average, as in every B-tree that splits in halves.
const SHARED_ENTRIES: usize = 16;
