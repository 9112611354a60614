//! Full entries of a leader that wait until the log takes them.
//!
//! The log takes a limited number of bytes that are proposed and not applied. An entry beyond it waits here, the oldest first, and
//! is proposed as soon as there is room. Beyond [`BYTES_MAX`] commands are not taken: the node that keeps one gives it again.

use std::collections::VecDeque;

use store::EntryBuilder;

/// Entry to which nothing is added any more.
#[derive(Debug)]
pub(super) struct FullEntry {
    pub(super) builder: EntryBuilder,
    /// Number of commands in it.
    pub(super) commands: usize,
    /// One of them asks for the disk, whatever the server's durability is.
    pub(super) needs_disk: bool,
}

/// Entries that wait, the oldest first.
#[derive(Debug, Default)]
pub(super) struct FullEntries {
    entries: VecDeque<FullEntry>,
    bytes: usize,
}

/// Bytes that wait before no more is taken. The largest packet of MQTT, of 256 MiB, fits behind whatever is below the limit; so twice as
/// much may wait, and counts as memory of this node.
const BYTES_MAX: usize = 256 << 20;

impl FullEntries {
    pub(super) fn push(&mut self, entry: FullEntry) {
        self.bytes += entry.builder.len_bytes();
        self.entries.push_back(entry);
    }

    pub(super) fn pop(&mut self) -> Option<FullEntry> {
        let entry = self.entries.pop_front()?;
        self.bytes -= entry.builder.len_bytes();
        Some(entry)
    }

    /// Bytes of the entry that is next.
    pub(super) fn first_bytes(&self) -> Option<usize> {
        self.entries.front().map(|entry| entry.builder.len_bytes())
    }

    /// Bytes of all.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Pretends that as much waits as is taken, or nothing.
    #[cfg(test)]
    pub(super) fn pretend(&mut self, is_at_limit: bool) {
        self.bytes = if is_at_limit { BYTES_MAX } else { 0 };
    }

    /// Whether no more is taken.
    pub(super) fn is_at_limit(&self) -> bool {
        self.bytes >= BYTES_MAX
    }
}
