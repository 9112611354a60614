//! Decoded parts that are no copy are refused by name.

use cluster::session_plane::Hlc;

use super::refusals::{entry_of, parts};
use super::*;
use crate::copy::PENDING_MAX;
use crate::copy::tests::history::{client, dot};
use crate::copy::tests::vector_of;
use crate::slot_entries::SINGLE_DOTS_MAX;
use crate::{ClientDot, CopyParts, CopyPartsError, Dot, Pending, PendingMessage, SlotCopy, VersionVector};

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
