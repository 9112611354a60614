//! Misplaced entries: those of a kind that their slot does not have.
//!
//! [`Slot::RETAINED`] has retained messages and nothing else, and no other slot has any. Readers go by
//! that: nobody looks for sessions among topics, and a topic is not taken for the client of that name.
//! What a peer sends is checked where it is read, and records where they are read.

use crate::{EntryKind, Slot};

/// An entry, or a message that would become one, is of a kind that its slot does not have. Nothing was
/// changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{slot:?} has no {kind:?} entries")]
pub struct MisplacedEntry {
    /// Slot of the entry.
    pub slot: Slot,
    /// Kind of the entry.
    pub kind: EntryKind,
}

/// Checks that a slot has entries of this kind.
///
/// # Errors
///
/// [`MisplacedEntry`] where it has none.
pub(crate) fn check_kind(slot: Slot, kind: EntryKind) -> Result<(), MisplacedEntry> {
    let is_of_topics = slot == Slot::RETAINED;
    if is_of_topics == (kind == EntryKind::Retained) {
        Ok(())
    } else {
        Err(MisplacedEntry { slot, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retained_messages_and_nothing_else_are_in_their_slot() {
        for kind in EntryKind::ALL {
            let is_retained = kind == EntryKind::Retained;
            for slot in [Slot::ROUTES, Slot::of_client(b"press")] {
                assert_eq!(check_kind(slot, kind).is_ok(), !is_retained, "{kind:?}");
            }
            assert_eq!(check_kind(Slot::RETAINED, kind).is_ok(), is_retained, "{kind:?}");
        }
        let error = check_kind(Slot::RETAINED, EntryKind::Session).expect_err("no topic has it");
        assert_eq!(error.to_string(), "Slot(4097) has no Session entries");
    }
}
