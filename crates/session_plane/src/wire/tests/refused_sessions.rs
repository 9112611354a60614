//! Answers to claims that no owner gives are refused by what is wrong with them.

use std::collections::BTreeSet;

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};

use super::refusals::refusal;
use super::*;
use crate::connecting::{KnownSessionError, SessionAnswer};
use crate::copy::MERGED_COPIES_MAX;
use crate::slot_entries::SINGLE_DOTS_MAX;
use crate::transfer::ListedEntry;
use crate::wire::field::Field;
use crate::{Birth, Dot, Entry, EntryKind, Fact, Interval, Run, VersionVector};

/// Form of an answer that has the session.
const SESSION: u8 = 0;

fn dot(number: u64) -> Dot {
    let run = Run {
        node: NodeId(1),
        incarnation: Incarnation(7),
    };
    Dot { run, number }
}

fn listed(fact: Fact, number: u64) -> ListedEntry<Bytes> {
    let entry = Entry {
        birth: Birth {
            dot: dot(1),
            clock: Hlc::ZERO,
            is_clean: false,
        },
        clock: Hlc::ZERO,
        fact,
        value: Bytes::new(),
    };
    ListedEntry {
        dot: dot(number),
        entry,
    }
}

/// Fields of an answer. The vector has the numbers up to 3.
fn answer(single: &[Dot], listed: &[ListedEntry<Bytes>]) -> Bytes {
    let mut covered = VersionVector::default();
    let interval = Interval::up_to(dot(3).run, 3).expect("numbers");
    covered.insert(interval).expect("one interval");
    let mut writer = Writer::new(Kind::Session);
    writer.put(&dot(1));
    writer.put_number(1);
    writer.put_byte(SESSION);
    writer.put(&covered);
    writer.put_list(single.iter());
    writer.put_list(listed.iter());
    writer.finish().slice(FRAME_BYTES..)
}

/// Field and fault for which an answer is refused.
fn refused(single: &[Dot], listed: &[ListedEntry<Bytes>]) -> (&'static str, Fault) {
    refusal(Kind::Session, &answer(single, listed))
}

#[test]
fn entries_are_in_ascending_order_of_kinds_and_dots() {
    let (session, subscription) = (Fact::Session { connected: None }, Fact::Subscription);
    let entries = [
        listed(session.clone(), 9),
        listed(subscription.clone(), 2),
        listed(subscription, 4),
    ];
    let message = [&[VERSION, Kind::Session.number()][..], &answer(&[], &entries)].concat();
    let Ok(Message::Connecting(ConnectingMessage::Session(SessionAnswer { session: read, .. }))) =
        decode(&message)
    else {
        panic!("an answer");
    };
    assert_eq!(read.entries().len(), 3);
    let [first, second, third] = entries;
    let wrong = [
        [second.clone(), first.clone(), third.clone()],
        [first.clone(), third.clone(), second.clone()],
        [first.clone(), second.clone(), second],
        [listed(session, 9), first, third],
    ];
    for entries in wrong {
        let expected = ("session", Fault::NotAscending);
        assert_eq!(refused(&[], &entries), expected, "{entries:?}");
    }
}

/// Of two entries under one identity a session would keep the greater one.
#[test]
fn an_entry_comes_once() {
    let one = listed(Fact::Subscription, 4);
    let mut other = one.clone();
    other.entry.value = Bytes::from_static(b"other");
    assert_eq!(refused(&[], &[one, other]), ("session", Fault::NotAscending));
}

#[test]
fn a_queue_is_not_in_an_answer() {
    let delivery = Fact::Delivery { message: dot(2) };
    for (fact, kind) in [
        (Fact::Message, EntryKind::Message),
        (delivery, EntryKind::Delivery),
    ] {
        let fault = Fault::Session(KnownSessionError::UnexpectedKind { kind });
        assert_eq!(refused(&[], &[listed(fact, 4)]), ("session", fault));
    }
}

#[test]
fn single_dots_are_ascending_and_beside_the_vector() {
    let expected = ("single dots", Fault::NotAscending);
    assert_eq!(refused(&[dot(6), dot(5)], &[]), expected);
    assert_eq!(refused(&[dot(6), dot(6)], &[]), expected);
    let fault = Fault::Session(KnownSessionError::SingleDotCovered { dot: dot(3) });
    assert_eq!(refused(&[dot(3), dot(5)], &[]), ("session", fault));
}

#[test]
fn an_answer_has_so_many_single_dots_at_most() {
    let most = SINGLE_DOTS_MAX * MERGED_COPIES_MAX;
    let dots: Vec<Dot> = (5..).map(dot).take(most + 1).collect();
    let fault = KnownSessionError::TooManySingleDots { count: most + 1 };
    assert_eq!(refused(&dots, &[]), ("session", Fault::Session(fault)));
    let message = [&[VERSION, Kind::Session.number()][..], &answer(&dots[1..], &[])].concat();
    let Ok(Message::Connecting(ConnectingMessage::Session(answer))) = decode(&message) else {
        panic!("an answer");
    };
    let read: BTreeSet<Dot> = answer.session.single().collect();
    assert!(read.iter().eq(&dots[1..]));
}

#[test]
fn lists_of_an_answer_are_no_longer_than_their_message() {
    let count = 1 << 40;
    let long = [0x80, 0x80, 0x80, 0x80, 0x80, 0x20];
    let begin = [0, 0, 0, 0, 0, 0, 0, 0, 1, 7, 1, 1, SESSION, 0];
    let too_many = |bytes| Fault::TooMany { count, bytes };
    let single = [&begin[..], &long, &[0; 5]].concat();
    assert_eq!(refusal(Kind::Session, &single), ("single dots", too_many(5)));
    let entries = [&begin[..], &[0], &long, &[0; 5]].concat();
    assert_eq!(
        refusal(Kind::Session, &entries),
        ("entries of a session", too_many(5))
    );
    // Bytes for one of the shortest entries, and nearly for the second.
    let shortest = <ListedEntry<Bytes> as Field>::BYTES_MIN;
    let entries = [&begin[..], &[0, 2], &vec![0; 2 * shortest - 1]].concat();
    let fault = Fault::TooMany {
        count: 2,
        bytes: 2 * shortest - 1,
    };
    assert_eq!(refusal(Kind::Session, &entries), ("entries of a session", fault));
}

#[test]
fn rounds_count_from_one_and_forms_are_known() {
    let run = [0, 0, 0, 0, 0, 0, 0, 0, 1, 7];
    let ask = [&[0][..], &run, &[1, 0, 0]].concat();
    assert_eq!(refusal(Kind::AskSession, &ask), ("round", Fault::Zero));
    let ask = [&[0][..], &run, &[0, 1, 0]].concat();
    let of_no_event = ("connection that asks", Fault::Zero);
    assert_eq!(refusal(Kind::AskSession, &ask), of_no_event);
    let answer = |round, form| [&run[..], &[1, round, form]].concat();
    assert_eq!(refusal(Kind::Session, &answer(0, 1)), ("round", Fault::Zero));
    let unknown = ("form of an answer", Fault::UnknownForm { found: 3 });
    assert_eq!(refusal(Kind::Session, &answer(1, 3)), unknown);
    let released = [&run[..], &[1, 1, 1, 2]].concat();
    let unknown = ("agreement", Fault::UnknownForm { found: 2 });
    assert_eq!(refusal(Kind::Released, &released), unknown);
    let release = [&run[..], &[1, 2]].concat();
    let unknown = ("claimant", Fault::UnknownForm { found: 2 });
    assert_eq!(refusal(Kind::Release, &release), unknown);
}
