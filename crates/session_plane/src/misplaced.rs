//! Misplaced entries: those of a kind that their slot does not have.
//!
//! [`Slot::RETAINED`] has retained messages and clears of topics and nothing else, and no other slot has
//! any. Readers go by that: nobody looks for sessions among topics, and a topic is not taken for the client of that name.
//! What a peer sends is checked where it is read, and records where they are read.

use crate::{EntryKind, Slot, SlotSet};

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
    if is_of_topics == kind.is_of_topic() {
        Ok(())
    } else {
        Err(MisplacedEntry { slot, kind })
    }
}

/// As [`check_kind`], of all slots that an event or a message is for. Costs one lookup, however many there are.
///
/// # Errors
///
/// [`MisplacedEntry`] with the first slot that has none.
pub(crate) fn check_slots(slots: &SlotSet, kind: EntryKind) -> Result<(), MisplacedEntry> {
    let misplaced = if kind.is_of_topic() {
        slots.iter().find(|slot| *slot != Slot::RETAINED)
    } else {
        slots.contains(Slot::RETAINED).then_some(Slot::RETAINED)
    };
    misplaced.map_or(Ok(()), |slot| check_kind(slot, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_topics_and_nothing_else_are_in_their_slot() {
        for kind in EntryKind::ALL {
            let is_of_topic = [EntryKind::Retained, EntryKind::Cleared].contains(&kind);
            for slot in [Slot::ROUTES, Slot::of_client(b"press")] {
                assert_eq!(check_kind(slot, kind).is_ok(), !is_of_topic, "{kind:?}");
            }
            assert_eq!(check_kind(Slot::RETAINED, kind).is_ok(), is_of_topic, "{kind:?}");
        }
        let client = Slot::of_client(b"press");
        for slots in [
            vec![],
            vec![client],
            vec![Slot::RETAINED],
            vec![client, Slot::ROUTES, Slot::RETAINED],
        ] {
            let set: SlotSet = slots.iter().copied().collect();
            for kind in EntryKind::ALL {
                let each = set.iter().try_for_each(|slot| check_kind(slot, kind));
                assert_eq!(check_slots(&set, kind), each, "{kind:?} {slots:?}");
            }
        }
        let error = check_kind(Slot::RETAINED, EntryKind::Session).expect_err("no topic has it");
        assert_eq!(error.to_string(), "Slot(4097) has no Session entries");
    }
}
