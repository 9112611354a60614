//! What is counted of copies.

use super::Copies;

/// How many copies there are, and what was done with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyFigures {
    /// Sessions of other nodes that stand by here.
    pub copies: usize,
    /// Sessions of this node of which some owner has no copy, or not all of it.
    pub under_replicated: usize,
    /// Copies that other nodes have and are to delete.
    pub to_clean_up: usize,
    /// Sessions that were taken over from nodes that were lost.
    pub taken_over: u64,
    /// Sessions that other nodes had gone on with when this one came back.
    pub superseded: u64,
    /// Sessions that give way to those of other nodes, and leave them what they have.
    pub giving_way: usize,
    /// Sessions of other nodes whose leavings were taken into those of this one.
    pub merged: u64,
    /// Messages that were taken in.
    pub merged_messages: u64,
    /// Messages that were not, since they were there.
    pub merged_twice: u64,
    /// Subscriptions that were taken in.
    pub merged_subscriptions: u64,
    /// Sessions that have ended, of which nodes that are away do not know.
    pub tombstones: usize,
    /// Those that were not remembered, because there were too many.
    pub tombstones_refused: u64,
    /// Sessions that were sent whole.
    pub sent_whole: u64,
}

impl Copies {
    pub(crate) fn figures(&self) -> CopyFigures {
        CopyFigures {
            copies: self.standing_by.len(),
            under_replicated: self.under_replicated,
            to_clean_up: self.former,
            giving_way: self.giving.len(),
            tombstones: self.tombstones.len(),
            ..self.figures
        }
    }
}
