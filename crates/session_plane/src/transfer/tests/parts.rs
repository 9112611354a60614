//! Decoded parts that are no copy are refused by name.

use cluster::session_plane::Hlc;

use super::refusals::{entry_of, listed, parts};
use super::*;
use crate::copy::PENDING_MAX;
use crate::copy::tests::history::{client, dot};
use crate::copy::tests::vector_of;
use crate::slot_entries::SINGLE_DOTS_MAX;
use crate::{
    Change, ClientDot, CopyParts, CopyPartsError, Dot, EntryKind, Fact, MisplacedEntry, Pending,
    PendingMessage, Slot, SlotCopy, VersionVector,
};

fn dots(dots: &[Dot]) -> VersionVector {
    vector_of(&dots.iter().copied().collect())
}

fn message(dot: Dot) -> PendingMessage<()> {
    let (clock, message) = (Hlc::ZERO, ());
    let pending = Pending { clock, message };
    PendingMessage { dot, pending }
}

#[track_caller]
fn check_parts(change: impl FnOnce(&mut CopyParts<Value, ()>), expected: CopyPartsError) {
    let mut changed = parts();
    change(&mut changed);
    assert_eq!(SlotCopy::from_parts(changed), Err(expected));
}

#[test]
fn parts_that_are_no_copy_are_refused() {
    let overlap = CopyPartsError::SetsOverlap;
    check_parts(|parts| parts.taken = dots(&[dot(0, 1)]), overlap);
    check_parts(|parts| parts.holes = dots(&[dot(0, 1)]), overlap);
    check_parts(|parts| parts.holes = dots(&[dot(0, 2)]), overlap);
    let no_event = CopyPartsError::NoEvent;
    check_parts(|parts| parts.entries.push(entry_of(1, dot(0, 0))), no_event);
    let single = |dot| ClientDot {
        client: client(1),
        dot,
    };
    check_parts(|parts| parts.single.push(single(dot(0, 0))), no_event);
    check_parts(
        |parts| parts.single.push(single(dot(0, 1))),
        CopyPartsError::SingleDotCovered { dot: dot(0, 1) },
    );
    check_parts(
        |parts| parts.pending.push(message(dot(0, 3))),
        CopyPartsError::PendingNotTaken { dot: dot(0, 3) },
    );
    let count = 8 * PENDING_MAX + 1;
    check_parts(
        |parts| parts.pending = vec![message(dot(0, 2)); count],
        CopyPartsError::TooManyPending { count },
    );
    let count = 8 * SINGLE_DOTS_MAX + 1;
    check_parts(
        |parts| parts.single = vec![single(dot(0, 2)); count],
        CopyPartsError::TooManySingleDots { count },
    );
    assert!(SlotCopy::from_parts(parts()).is_ok());
}

/// Parts of each form that brings an entry of the fact.
fn parts_with(fact: &Fact) -> Vec<PartContent<Value, ()>> {
    let mut listed = listed(dot(0, 1));
    listed.entry.fact = fact.clone();
    let change = Change {
        dot: dot(0, 1),
        client: client(1),
        removes: Vec::new(),
        adds: Some(listed.entry.clone()),
    };
    let session = SessionDifference {
        client: client(1),
        blocks: Vec::new(),
        entries: vec![listed.clone()],
    };
    vec![
        PartContent::Header(header_of(Vec::new(), vec![OwnEvent::Change(change)])),
        PartContent::Sessions(SessionsPart {
            sessions: vec![session],
            up_to: None,
            has_rest: false,
        }),
        PartContent::Rest(RestPart {
            entries: vec![listed],
            has_rest: false,
        }),
    ]
}

fn header_of(pending: Vec<PendingMessage<()>>, own: Vec<OwnEvent<Value, ()>>) -> HeaderPart<Value, ()> {
    HeaderPart {
        begin: None,
        pending,
        single: Vec::new(),
        own,
        is_last: true,
    }
}

fn check_slot(slot: Slot, content: PartContent<Value, ()>) -> Result<(), MisplacedEntry> {
    let question = QuestionId(1);
    let (id, part) = (AnswerId { slot, question }, 0);
    SlotPart { id, part, content }.check_kinds()
}

#[test]
fn each_form_of_a_part_is_checked_for_the_kinds_of_its_slot() {
    for fact in [Fact::Retained, Fact::Cleared, Fact::Subscription] {
        let kind = fact.kind();
        for slot in [Slot::RETAINED, Slot::ROUTES, slot(SLOT)] {
            let is_placed = (slot == Slot::RETAINED) == (fact != Fact::Subscription);
            let expected = is_placed.then_some(()).ok_or(MisplacedEntry { slot, kind });
            for content in parts_with(&fact) {
                assert_eq!(check_slot(slot, content.clone()), expected, "{content:?}");
            }
        }
    }
    let (slot, kind) = (Slot::RETAINED, EntryKind::Message);
    let refused = Err(MisplacedEntry { slot, kind });
    let pending = header_of(vec![message(dot(0, 1))], Vec::new());
    assert_eq!(check_slot(slot, PartContent::Header(pending)), refused);
    let own = header_of(Vec::new(), vec![OwnEvent::Message(message(dot(0, 1)))]);
    assert_eq!(check_slot(slot, PartContent::Header(own)), refused);
}
