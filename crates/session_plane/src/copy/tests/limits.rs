//! Limits of a copy: what is beyond is refused whole.

use std::collections::BTreeSet;

use cluster::session_plane::Hlc;

use super::history::{dot, run};
use super::{Sample, change, matched, vector_of};
use crate::copy::PENDING_MAX;
use crate::slot_entries::SINGLE_DOTS_MAX;
use crate::version_vector::INTERVALS_MAX;
use crate::{Dot, Fact, Interval, Pending, SingleDotsFull, TakeError, VectorFull, VersionVector};

#[test]
fn a_dot_without_a_number_is_no_event() {
    let mut copy = Sample::new(VersionVector::default());
    let before = copy.clone();
    let change = change(dot(0, 0), &[dot(0, 1)], Some(Fact::Connection));
    assert_eq!(copy.apply(change), Err(TakeError::NoEvent));
    let message = dot(0, 0);
    let named = super::change(dot(1, 1), &[dot(0, 1)], Some(Fact::Delivery { message }));
    assert_eq!(copy.apply(named), Err(TakeError::NoEvent));
    assert_eq!(copy, before);
}

#[test]
fn removals_beyond_the_limit_are_refused_whole() {
    let mut copy = Sample::new(VersionVector::default());
    let removes: Vec<Dot> = (1..=SINGLE_DOTS_MAX as u64 + 1)
        .map(|number| dot(0, number))
        .collect();
    let before = copy.clone();
    let refused = copy.apply(change(dot(1, 1), &removes, None));
    assert_eq!(refused, Err(TakeError::SingleDotsFull(SingleDotsFull)));
    assert_eq!(copy, before);
    copy.apply(change(dot(1, 1), &removes[1..], None))
        .expect("exactly the limit");
    copy.apply(change(dot(1, 2), &removes[1..], None))
        .expect("nothing new");
    assert_eq!(copy.entries().single().len(), SINGLE_DOTS_MAX);
}

#[test]
fn messages_beyond_the_limit_are_refused_whole() {
    let mut copy = Sample::new(VersionVector::default());
    let (clock, message) = (Hlc::ZERO, ());
    for number in 1..=PENDING_MAX as u64 {
        let pending = Pending { clock, message };
        copy.take_message(dot(0, number), pending).expect("room");
    }
    let before = copy.clone();
    let more = dot(0, PENDING_MAX as u64 + 1);
    assert_eq!(
        copy.take_message(more, Pending { clock, message }),
        Err(TakeError::PendingFull)
    );
    assert_eq!(copy, before);
    copy.take_message(dot(0, 1), Pending { clock, message })
        .expect("it is pending already");
    copy.claim(matched).expect("whole");
    copy.take_message(more, Pending { clock, message })
        .expect("room again");
}

#[test]
fn a_copy_that_would_be_too_scattered_refuses_whole() {
    let every_other = |from: u64| (0..INTERVALS_MAX as u64).map(move |at| dot(0, from + 2 * at));
    let mut copy = Sample::new(vector_of(&every_other(1).collect()));
    let other = Sample::new(vector_of(&every_other(3 * INTERVALS_MAX as u64).collect()));
    let before = copy.clone();
    assert_eq!(copy.merge(other), Err(VectorFull));
    assert_eq!(
        copy.need(&vector_of(&BTreeSet::from([dot(1, 1)]))),
        Err(VectorFull)
    );
    assert_eq!(copy, before);
    let mut whole = Sample::new(VersionVector::default());
    whole
        .take(Interval::up_to(run(0), 9_000).expect("ascending"))
        .expect("one interval");
    whole.merge(copy).expect("what one has is no hole of both");
    assert!(whole.is_whole());
}

#[test]
fn a_hole_in_the_middle_of_holes_needs_room() {
    let known = Interval::up_to(run(0), 2 * INTERVALS_MAX as u64 + 1).expect("ascending");
    let mut all = VersionVector::default();
    all.insert(known).expect("one interval");
    let mut copy = Sample::new(all);
    for at in 1..INTERVALS_MAX as u64 {
        copy.take(Interval::one(dot(0, 2 * at)).expect("an event"))
            .expect("room");
    }
    let last = dot(0, 2 * INTERVALS_MAX as u64);
    let before = copy.clone();
    assert_eq!(
        copy.apply(change(last, &[], None)),
        Err(TakeError::VectorFull(VectorFull))
    );
    assert_eq!(copy, before);
    copy.apply(change(dot(0, 1), &[], None)).expect("it closes a gap");
}
