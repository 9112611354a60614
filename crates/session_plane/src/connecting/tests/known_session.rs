use super::node::{session, vector};
use super::*;
use crate::EntryId;
use crate::copy::MERGED_COPIES_MAX;
use crate::copy::tests::history::{Event as HistoryEvent, histories};
use crate::copy::tests::take_event;
use crate::slot_entries::SINGLE_DOTS_MAX;

/// Entries of a copy that a claim reads.
fn read(copy: &Sample) -> BTreeMap<EntryId, Entry<Value>> {
    let session = copy.entries().session(client(0).as_bytes());
    let entries = session.into_iter().flat_map(|session| session.iter());
    let is_read = |id: &EntryId| {
        !matches!(
            id.kind,
            EntryKind::Message
                | EntryKind::Delivery
                | EntryKind::Member
                | EntryKind::Presence
                | EntryKind::Assignment
                | EntryKind::Retained
                | EntryKind::Cleared
        )
    };
    entries
        .filter(|(id, _)| is_read(id))
        .map(|(id, entry)| (id, entry.clone()))
        .collect()
}

fn copy_of(history: &[HistoryEvent], has: impl Fn(usize) -> bool, claims: bool) -> Sample {
    let mut copy = Sample::new(VersionVector::default());
    for (_, event) in history.iter().enumerate().filter(|(at, _)| has(*at)) {
        take_event(&mut copy, event);
    }
    if claims {
        copy.claim(|_, _, _| Vec::new()).expect("there are no holes");
    }
    copy
}

proptest! {
    /// The merge of what two owners tell is what the merge of their copies would tell.
    #[test]
    fn answers_merge_as_copies_do(
        history in histories(),
        mine in any::<u64>(),
        theirs in any::<u64>(),
        claims in any::<(bool, bool)>(),
    ) {
        let mut copy = copy_of(&history, |at| mine >> (at % 64) & 1 == 1, claims.0);
        let other = copy_of(&history, |at| theirs >> (at % 64) & 1 == 1, claims.1);
        let mut known = KnownSession::of_copy(&copy, &client(0));
        known.merge(KnownSession::of_copy(&other, &client(0))).expect("short vectors");
        copy.merge(other).expect("short vectors");
        prop_assert_eq!(&known, &KnownSession::of_copy(&copy, &client(0)));
        let entries: BTreeMap<EntryId, Entry<Value>> =
            known.entries().iter().map(|(id, entry)| (id, entry.clone())).collect();
        prop_assert_eq!(entries, read(&copy));
    }
}

fn dots(session: &KnownSession<Value>) -> Vec<Dot> {
    session.entries().iter().map(|(id, _)| id.dot).collect()
}

#[test]
fn routes_tell_of_an_end_that_owners_have_not_seen() {
    let birth = birth_of(dot(1, 1));
    let mut known = session(&[
        (dot(1, 1), Fact::Session { connected: None }, birth),
        (dot(1, 2), Fact::Subscription, birth),
        (dot(1, 3), Fact::Connection, birth),
    ]);
    let covered = vector(&[dot(1, 4)]);
    let routes = KnownSession::from_parts(covered, BTreeSet::new(), Vec::new()).expect("routes");
    known.join_routes(&routes);
    assert_eq!(dots(&known), [dot(1, 3)], "routes have no connections");
}

/// The owners may have closed the number of the new entry.
#[test]
fn a_session_that_was_written_anew_in_the_routes_stays() {
    let birth = birth_of(dot(1, 1));
    let mut known = session(&[
        (dot(1, 1), Fact::Session { connected: None }, birth),
        (dot(1, 6), Fact::Connection, birth),
    ]);
    let anew = (
        dot(1, 5),
        entry_of(Fact::Session { connected: None }, birth, Hlc::at(5), dot(1, 5)),
    );
    let covered = vector(&[dot(1, 5)]);
    let routes = KnownSession::from_parts(covered, BTreeSet::new(), vec![anew]).expect("routes");
    known.join_routes(&routes);
    assert_eq!(dots(&known), [dot(1, 1), dot(1, 6)]);
}

#[test]
fn routes_do_not_bring_back_what_owners_have_removed() {
    let birth = birth_of(dot(1, 1));
    let covered = vector(&[dot(1, 9)]);
    let mut known = KnownSession::from_parts(covered, BTreeSet::new(), Vec::new()).expect("an answer");
    known.join_routes(&session(&[
        (dot(1, 1), Fact::Session { connected: None }, birth),
        (dot(2, 1), Fact::Session { connected: None }, birth_of(dot(2, 1))),
    ]));
    assert_eq!(dots(&known), [dot(2, 1)], "owners do not know this one");
}

#[test]
fn parts_that_no_owner_gives_are_refused() {
    let parts = |dot: Dot, fact: Fact| {
        let entry = entry_of(fact, birth_of(dot), Hlc::ZERO, dot);
        KnownSession::from_parts(VersionVector::default(), BTreeSet::new(), vec![(dot, entry)])
    };
    assert_eq!(
        parts(dot(1, 0), Fact::Session { connected: None }),
        Err(KnownSessionError::NoEvent)
    );
    let connection = dot(1, 0);
    let end = parts(dot(1, 1), Fact::ConnectionEnd { connection });
    assert_eq!(end, Err(KnownSessionError::NoEvent));
    let kind = EntryKind::Message;
    let message = parts(dot(1, 1), Fact::Message);
    assert_eq!(message, Err(KnownSessionError::UnexpectedKind { kind }));
    let covered = KnownSession::<Value>::from_parts(vector(&[dot(1, 4)]), [dot(1, 4)].into(), Vec::new());
    let beside = KnownSessionError::SingleDotCovered { dot: dot(1, 4) };
    assert_eq!(covered, Err(beside));
}

/// A merge keeps the single dots of both copies, so a copy may have more than it takes itself.
#[test]
fn an_answer_has_as_many_single_dots_as_a_merged_copy() {
    let with = |count: usize| {
        let single = (1..=count as u64).map(|number| dot(1, number)).collect();
        KnownSession::<Value>::from_parts(VersionVector::default(), single, Vec::new())
    };
    let most = SINGLE_DOTS_MAX * MERGED_COPIES_MAX;
    assert!(with(most).is_ok());
    let count = most + 1;
    assert_eq!(with(count), Err(KnownSessionError::TooManySingleDots { count }));
}
