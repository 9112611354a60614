//! The entries of all replicated logs, put together from the write-ahead log. Only a start needs them.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use cluster::{Keyspace, Write};

use crate::Visit;

/// Entries by key.
#[derive(Debug, Default)]
pub(super) struct LogView(BTreeMap<Bytes, Bytes>);

impl LogView {
    /// Applies a write, if it is about the log.
    pub(super) fn note(&mut self, write: &Write) {
        if !is_of_log(write) {
            return;
        }
        match write {
            Write::Put { key, value, .. } => {
                self.0.insert(key.clone(), value.clone());
            }
            Write::Remove { key, .. } | Write::RemoveOnce { key, .. } => {
                self.0.remove(key);
            }
            Write::RemoveRange { from, to, .. } | Write::RemoveRangeOnce { from, to, .. } => {
                if from < to {
                    let mut rest = self.0.split_off(from);
                    self.0.append(&mut rest.split_off(to));
                }
            }
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.0.get(key).cloned()
    }

    /// Visits entries from `from` (included) to `to` (excluded), in order.
    pub(super) fn visit(&self, from: &[u8], to: Option<&[u8]>, visit: &mut Visit<'_>) {
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        for (key, value) in self.0.range::<[u8], _>((Bound::Included(from), to)) {
            if visit(key, value.clone()).is_break() {
                return;
            }
        }
    }
}

/// Whether a write is about log entries.
pub(super) fn is_of_log(write: &Write) -> bool {
    let (Write::Put { keyspace, .. }
    | Write::Remove { keyspace, .. }
    | Write::RemoveOnce { keyspace, .. }
    | Write::RemoveRange { keyspace, .. }
    | Write::RemoveRangeOnce { keyspace, .. }) = write;
    *keyspace == Keyspace::Log
}
