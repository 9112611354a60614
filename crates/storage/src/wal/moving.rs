//! Moves old entries of replicated logs out of the way.
//!
//! Segments are given back in their order, and one with an entry that is still needed stays. A state store to which nobody
//! writes takes no snapshot, so its last entry is needed for ever, while messages fill segment after segment behind it.

use super::recovery::Segment;
use super::{Content, Wal};
use crate::fault::Fault;

/// Entries are moved out of the oldest segment when the log is so many times longer than they are ...
const SPARSE: u64 = 2;

/// ... and so many whole segments more. Moving takes reading a segment, so it has to be worth it.
const SPARSE_SEGMENTS: u64 = 6;

impl Wal {
    /// If a few entries of replicated logs are all that keeps a long log, writes those of the oldest segment once more at
    /// the end. They count there when they are durable; then the segment is given back.
    pub(crate) fn move_entries(&mut self) -> Result<(), Fault> {
        if self.is_sparse() {
            self.move_oldest()
        } else {
            Ok(())
        }
    }

    /// Makes every segment unnecessary that is not written as new ones are, and waits until their files are gone. Tables hold
    /// everything else.
    pub(crate) fn leave_old_segments(&mut self) -> Result<(), Fault> {
        // In a new segment, so that the log is never without one.
        self.note_checkpoint(self.durable)?;
        self.sync()?;
        while self.full.iter().any(|segment| !self.is_as_new(segment)) {
            self.move_oldest()?;
            self.sync()?;
        }
        self.keeper.settle();
        Ok(())
    }

    fn move_oldest(&mut self) -> Result<(), Fault> {
        let Some(oldest) = self.full.front() else {
            return Ok(());
        };
        let (number, mut entries) = (oldest.number, Vec::new());
        let bytes = self.read_file(number)?;
        self.show(&bytes, number, &mut |_, content| {
            if let Content::Batch(writes) = content {
                entries.extend(writes.into_iter().filter(|write| self.live.is_of(number, write)));
            }
            Ok(())
        })?;
        self.append(&entries)
    }

    /// Whether only its entries keep the oldest segment, and much more than there are entries would go with it.
    fn is_sparse(&self) -> bool {
        let only_entries_keep = |segment: &&Segment| segment.last <= self.checkpoint.through;
        let kept = self.full.iter().take_while(only_entries_keep);
        let kept_bytes: u64 = kept.map(|segment| segment.bytes).sum();
        self.full
            .front()
            .is_some_and(|oldest| self.live.is_in(oldest.number))
            && kept_bytes > SPARSE * self.live.bytes() + SPARSE_SEGMENTS * self.sizes.whole
    }
}

#[cfg(test)]
mod tests;
