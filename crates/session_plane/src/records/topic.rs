//! Record of a topic: all its entries, under one key.
//!
//! A topic has one entry nearly always, and a write replaces it. So a write is one record in the place of
//! the one before, where each entry of a session has a record of its own.
//!
//! ```text
//! topic, number of entries | dot, entry without its content, content if it has one
//! ```

use bytes::Bytes;

use super::RecordValue;
use super::batch::stored;
use crate::wire::{Field, Reader, WireError, Writer};
use crate::{Dot, Entry, EntryId};

/// Entry of a topic as its record has it.
#[derive(Debug)]
pub(super) struct TopicEntry {
    pub(super) dot: Dot,
    pub(super) entry: Entry<Bytes>,
    pub(super) content: Option<Bytes>,
}

impl TopicEntry {
    /// Entry with this identity.
    pub(super) fn of<V: RecordValue>(id: EntryId, entry: &Entry<V>) -> TopicEntry {
        TopicEntry {
            dot: id.dot,
            entry: stored(entry),
            content: entry.value.content(),
        }
    }

    /// Bytes of the values.
    pub(super) fn bytes(&self) -> usize {
        self.entry.value.len() + self.content.as_ref().map_or(0, Bytes::len)
    }
}

impl Field for TopicEntry {
    const BYTES_MIN: usize = Dot::BYTES_MIN + Entry::<Bytes>::BYTES_MIN + bool::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.dot);
        writer.put(&self.entry);
        writer.put(&self.content.is_some());
        if let Some(content) = &self.content {
            writer.put_bytes(content);
        }
    }

    fn take(reader: &mut Reader) -> Result<TopicEntry, WireError> {
        let dot = reader.take("dot of an entry")?;
        let entry = reader.take("entry")?;
        let has_content = reader.take("content of an entry")?;
        let content = if has_content { Some(reader.bytes()?) } else { None };
        Ok(TopicEntry { dot, entry, content })
    }
}
