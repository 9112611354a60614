//! Parts of a copy, as a peer or the disk gives them: checked once, then a [`SlotCopy`].

use std::collections::{BTreeMap, BTreeSet};

use super::{PENDING_MAX, Pending, SlotCopy};
use crate::progress::Progress;
use crate::queue_limits::QueueValue;
use crate::slot_entries::SINGLE_DOTS_MAX;
use crate::{ClientId, Dot, Entry, SlotEntries, VersionVector};

/// Copies whose pending messages and single dots one copy may have together.
///
/// A merge keeps what both copies have, each within the limit. A slot has six owners at most, and
/// two sides of a split have theirs. Parts of more are refused.
pub const MERGED_COPIES_MAX: usize = 8;

/// Entry of a slot, with its whole identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientEntry<V> {
    /// Client whose entry it is.
    pub client: ClientId,
    /// Event that made the entry.
    pub dot: Dot,
    /// The entry.
    pub entry: Entry<V>,
}

/// Covered dot of one client, beside a vector.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientDot {
    /// Client for which the dot is covered.
    pub client: ClientId,
    /// Event that the copy has decided upon for that client.
    pub dot: Dot,
}

/// Pending message with its dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingMessage<M> {
    /// Event of the PUBLISH.
    pub dot: Dot,
    /// The message.
    pub pending: Pending<M>,
}

/// Everything that a copy consists of.
///
/// An entry may be of an event that is neither covered nor taken: entries of an answer may be later
/// than its vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyParts<V, M> {
    /// V: events that the copy has decided upon.
    pub covered: VersionVector,
    /// Events that the copy has and has not claimed.
    pub taken: VersionVector,
    /// Events that are known to exist, and that the copy lacks.
    pub holes: VersionVector,
    /// Pending messages, in any order.
    pub pending: Vec<PendingMessage<M>>,
    /// Single covered dots, in any order.
    pub single: Vec<ClientDot>,
    /// Entries, in any order.
    pub entries: Vec<ClientEntry<V>>,
}

/// State of a copy, between the copies of a node and a [`SlotCopy`].
#[derive(Debug)]
pub(crate) struct CopyState<V, M> {
    pub(crate) entries: SlotEntries<V>,
    pub(crate) progress: Progress,
    pub(crate) pending: BTreeMap<Dot, Pending<M>>,
}

/// Parts are no copy. Nothing was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CopyPartsError {
    /// An event is in two of the three sets.
    #[error("covered events, taken events and holes overlap")]
    SetsOverlap,
    /// A dot with the number 0 is no event.
    #[error("no event has the number 0")]
    NoEvent,
    /// A pending message is a taken event.
    #[error("the pending message {dot:?} was not taken")]
    PendingNotTaken {
        /// Event of the message.
        dot: Dot,
    },
    /// More pending messages than [`MERGED_COPIES_MAX`] copies have.
    #[error("a copy has {count} pending messages, at most {}", PENDING_MAX * MERGED_COPIES_MAX)]
    TooManyPending {
        /// Messages that were given.
        count: usize,
    },
    /// A single dot is beside the vector.
    #[error("the vector covers the single dot {dot:?}")]
    SingleDotCovered {
        /// Event that is covered twice.
        dot: Dot,
    },
    /// More single dots than [`MERGED_COPIES_MAX`] copies have.
    #[error("a copy has {count} single dots, at most {}", SINGLE_DOTS_MAX * MERGED_COPIES_MAX)]
    TooManySingleDots {
        /// Dots that were given.
        count: usize,
    },
}

impl<V: Ord + QueueValue, M> SlotCopy<V, M> {
    /// Copy of these parts.
    ///
    /// # Errors
    ///
    /// [`CopyPartsError`] where they break an invariant or a limit of copies.
    pub fn from_parts(parts: CopyParts<V, M>) -> Result<SlotCopy<V, M>, CopyPartsError> {
        let progress =
            Progress::of_sets(parts.covered, parts.taken, parts.holes).ok_or(CopyPartsError::SetsOverlap)?;
        check_pending(&progress, &parts.pending)?;
        check_single(&progress, &parts.single)?;
        if parts.entries.iter().any(has_no_event) {
            return Err(CopyPartsError::NoEvent);
        }
        let pending: BTreeMap<Dot, Pending<M>> = parts
            .pending
            .into_iter()
            .map(|message| (message.dot, message.pending))
            .collect();
        Ok(SlotCopy {
            entries: SlotEntries::of_parts(parts.entries, parts.single),
            progress,
            pending,
        })
    }
}

/// The entry is of no event, or names none.
fn has_no_event<V>(entry: &ClientEntry<V>) -> bool {
    entry.dot.number == 0 || entry.entry.names_no_event()
}

fn check_pending<M>(progress: &Progress, pending: &[PendingMessage<M>]) -> Result<(), CopyPartsError> {
    let count = pending.len();
    if count > PENDING_MAX * MERGED_COPIES_MAX {
        return Err(CopyPartsError::TooManyPending { count });
    }
    let mut dots = pending.iter().map(|message| message.dot);
    match dots.find(|dot| !progress.taken().covers(*dot)) {
        Some(dot) => Err(CopyPartsError::PendingNotTaken { dot }),
        None => Ok(()),
    }
}

fn check_single(progress: &Progress, single: &[ClientDot]) -> Result<(), CopyPartsError> {
    let count = single.len();
    if count > SINGLE_DOTS_MAX * MERGED_COPIES_MAX {
        return Err(CopyPartsError::TooManySingleDots { count });
    }
    if single.iter().any(|single| single.dot.number == 0) {
        return Err(CopyPartsError::NoEvent);
    }
    let mut dots = single.iter().map(|single| single.dot);
    match dots.find(|dot| progress.covered().covers(*dot)) {
        Some(dot) => Err(CopyPartsError::SingleDotCovered { dot }),
        None => Ok(()),
    }
}

impl<V, M> SlotCopy<V, M> {
    /// Copy with a state that keeps the invariants of copies.
    pub(crate) fn from_state(state: CopyState<V, M>) -> SlotCopy<V, M> {
        let CopyState {
            entries,
            progress,
            pending,
        } = state;
        SlotCopy {
            entries,
            progress,
            pending,
        }
    }

    /// State of the copy.
    pub(crate) fn into_state(self) -> CopyState<V, M> {
        CopyState {
            entries: self.entries,
            progress: self.progress,
            pending: self.pending,
        }
    }

    /// Takes the topics, or the clients and groups with subscriptions, that have changed since this was asked
    /// last.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<ClientId> {
        self.entries.dirty_mut().take_changed()
    }

    /// Sets of events of the copy.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }
}
