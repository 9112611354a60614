//! Contents of messages on the disk: how many records name each.
//!
//! *Invariant*: a content has a record if, and only if, a record of a queue or a pending message
//! names it.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::RecordBatch;
use crate::Dot;

/// Number of records that name each content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContentUses {
    /// No number is 0.
    uses: BTreeMap<Dot, u64>,
}

impl ContentUses {
    /// One more record names the content.
    pub(super) fn add(&mut self, dot: Dot) {
        *self.uses.entry(dot).or_insert(0) += 1;
    }

    /// Number of records that name the content.
    fn of(&self, dot: Dot) -> u64 {
        self.uses.get(&dot).copied().unwrap_or(0)
    }

    /// One record less names the content, unless it has none.
    fn drop_one(&mut self, dot: Dot) {
        if let Some(uses) = self.uses.get_mut(&dot) {
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(&dot);
            }
        }
    }
}

/// Changes of one batch. What comes back into use in the batch stays where it is.
#[derive(Debug, Default)]
pub(crate) struct ContentChanges {
    /// Uses before the batch, of what it touches.
    before: BTreeMap<Dot, u64>,
    /// Contents that a new record of the batch names.
    named: BTreeMap<Dot, Bytes>,
}

impl ContentChanges {
    /// A record of the batch is new, and names this content, if any.
    pub(crate) fn add(&mut self, uses: &mut ContentUses, dot: Dot, content: Option<Bytes>) {
        if let Some(content) = content {
            self.before.entry(dot).or_insert(uses.of(dot));
            self.named.entry(dot).or_insert(content);
            uses.add(dot);
        }
    }

    /// A record of the event is removed by the batch.
    pub(crate) fn remove(&mut self, uses: &mut ContentUses, dot: Dot) {
        self.before.entry(dot).or_insert(uses.of(dot));
        uses.drop_one(dot);
    }

    /// Writes the contents that are new, and removes those that nothing names any more.
    pub(crate) fn finish(mut self, uses: &ContentUses, batch: &mut RecordBatch) {
        for (dot, before) in self.before {
            match (before, uses.of(dot)) {
                (0, 1..) => {
                    let content = self.named.remove(&dot);
                    batch.put_content(dot, &content.unwrap_or_default());
                }
                (1.., 0) => batch.remove_content(dot),
                _ => {}
            }
        }
    }
}
