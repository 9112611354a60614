//! Log entries that wait until the log takes them: so many bytes may be proposed and not applied, and no more.

use std::collections::VecDeque;

use store::EntryBuilder;

/// An entry to which nothing is added any more.
#[derive(Debug)]
pub(super) struct FullEntry {
    pub(super) builder: EntryBuilder,
    /// How many commands are in it.
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

/// Bytes that wait at most; a command that comes then is not taken. An entry may have the largest packet of MQTT in it, of 256 MiB.
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

    /// Bytes of the one that is next.
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

    /// Makes it so that no more is taken, or again.
    #[cfg(test)]
    pub(super) fn pretend(&mut self, is_at_limit: bool) {
        self.bytes = if is_at_limit { BYTES_MAX } else { 0 };
    }

    /// Whether no more is taken.
    pub(super) fn is_at_limit(&self) -> bool {
        self.bytes >= BYTES_MAX
    }
}
