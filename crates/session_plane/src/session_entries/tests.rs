use std::collections::BTreeMap;

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use proptest::prelude::*;

use super::*;
use crate::{AssignedMessage, ClientId, ConnectionOrder, Ended, Interval, MemberTerms, Run, WillTerms};

/// Entry with its identity.
pub(crate) type Identified<V> = (EntryId, Entry<V>);

/// Entries of one client that count, as the model has the rule: everything is searched.
pub(crate) fn naive_live<V: Clone>(
    entries: &[Identified<V>],
    covers: impl Fn(Dot) -> bool,
) -> Vec<Identified<V>> {
    let is_session = |(id, _): &&Identified<V>| id.kind == EntryKind::Session;
    let sessions: Vec<&Identified<V>> = entries.iter().filter(is_session).collect();
    let starts = entries
        .iter()
        .filter(|(id, _)| matches!(id.kind, EntryKind::Session | EntryKind::End))
        .map(|(_, entry)| entry);
    let clean_starts = starts.filter(|start| start.birth.is_clean);
    let latest = clean_starts.max_by_key(|start| (start.birth.clock, start.birth.dot));
    let is_beaten = |dot: Dot, session: &Entry<V>| {
        let has_ended = entries
            .iter()
            .any(|(_, entry)| ended_of(entry).is_some_and(|ended| ended.seen().covers(dot)));
        has_ended
            || latest.is_some_and(|latest| {
                session.birth.dot != latest.birth.dot && session.clock < latest.birth.clock
            })
    };
    let has_session = |birth: Dot| {
        let mut with_birth = sessions.iter().filter(|(_, session)| session.birth.dot == birth);
        with_birth.any(|(id, session)| !is_beaten(id.dot, session))
    };
    let belongs = |entry: &Entry<V>| has_session(entry.birth.dot) || !covers(entry.birth.dot);
    let wills: Vec<&Identified<V>> = entries
        .iter()
        .filter(|(id, entry)| naive_will_counts(entries, id.dot, entry, &covers))
        .collect();
    let has_will = |connection| {
        let mut terms = wills.iter().filter_map(|(_, entry)| terms_of(entry));
        terms.any(|terms| terms.connection == connection)
    };
    let has_member_before = |clock: Hlc| {
        let is_member = |entry: &Entry<V>| entry.member_since().is_some_and(|since| since < clock);
        entries.iter().any(|(_, entry)| is_member(entry))
    };
    let message_counts = |id: &EntryId, entry: &Entry<V>| match entry.birth.dot == id.dot {
        true => has_member_before(entry.clock),
        false => belongs(entry),
    };
    let has_message = |dot: Dot| {
        let is_message = |id: &EntryId| id.kind == EntryKind::Message && id.dot == dot;
        let message = entries.iter().find(|(id, _)| is_message(id));
        message.map_or(!covers(dot), |(id, entry)| message_counts(id, entry))
    };
    let counts = |(id, entry): &&Identified<V>| match &entry.fact {
        Fact::Connection | Fact::End(_) | Fact::Member(_) | Fact::Presence => true,
        Fact::Retained | Fact::Cleared => true,
        Fact::Assignment(assigned) => has_message(assigned.message),
        Fact::Message => message_counts(id, entry),
        Fact::Session { .. } => !is_beaten(id.dot, entry),
        Fact::Will(_) => wills.iter().any(|(will, _)| will == id),
        Fact::ConnectionEnd { connection } => has_will(*connection),
        Fact::WillNumber { will } => wills.iter().any(|(id, _)| id.dot == *will),
        Fact::Subscription | Fact::Received | Fact::Expiry { .. } | Fact::Delivery { .. } => belongs(entry),
    };
    entries.iter().filter(counts).cloned().collect()
}

/// Entries of a topic that are not later than a clear.
fn naive_cleared<V>(entries: &[Identified<V>]) -> BTreeSet<EntryId> {
    let of_kind = |kind: EntryKind| entries.iter().filter(move |(id, _)| id.kind == kind);
    let of_topic = of_kind(EntryKind::Retained).chain(of_kind(EntryKind::Cleared));
    let is_cleared = |(id, entry): &&Identified<V>| {
        let mut clears = of_kind(EntryKind::Cleared);
        clears.any(|(clear, cleared)| (cleared.clock, clear.dot) >= (entry.clock, id.dot))
    };
    of_topic.filter(is_cleared).map(|(id, _)| *id).collect()
}

fn terms_of<V>(entry: &Entry<V>) -> Option<WillTerms> {
    match &entry.fact {
        Fact::Will(terms) => Some(**terms),
        _ => None,
    }
}

fn ended_of<V>(entry: &Entry<V>) -> Option<&Ended> {
    match &entry.fact {
        Fact::End(ended) => Some(ended),
        _ => None,
    }
}

/// The entry is a will that counts, as the model has the rule.
fn naive_will_counts<V>(
    entries: &[Identified<V>],
    dot: Dot,
    will: &Entry<V>,
    covers: impl Fn(Dot) -> bool,
) -> bool {
    let Some(terms) = terms_of(will) else {
        return false;
    };
    let has = |fact: Fact| entries.iter().any(|(_, entry)| entry.fact == fact);
    let is_resumed = entries.iter().any(|(_, session)| {
        session.fact.kind() == EntryKind::Session
            && (session.birth.dot == will.birth.dot || !session.birth.is_clean)
            && terms.delayed_since.is_some_and(|since| session.clock > since)
    });
    let was_resumed = entries.iter().any(|(_, entry)| {
        let resumed = ended_of(entry).and_then(Ended::resumed);
        terms
            .delayed_since
            .is_some_and(|since| resumed.is_some_and(|resumed| resumed > since))
    });
    let connection = terms.connection;
    let is_open = entries
        .iter()
        .any(|(id, _)| id.kind == EntryKind::Connection && id.dot == connection);
    let is_left = is_open || has(Fact::ConnectionEnd { connection }) || !covers(connection);
    is_left && (has(Fact::WillNumber { will: dot }) || !is_resumed && !was_resumed)
}

pub(super) fn dot(number: u64) -> Dot {
    let run = Run {
        node: NodeId(1),
        incarnation: Incarnation(1),
    };
    Dot { run, number }
}

/// Clock and Clean Start are functions of the dot, as for any birth.
fn birth(number: u64) -> Birth {
    Birth {
        dot: dot(number),
        clock: Hlc::at(number / 2),
        is_clean: number.is_multiple_of(3),
    }
}

/// End that has seen all of a run up to the event `seen`.
fn end_of_session(seen: Dot, resumed: Option<u64>) -> Fact {
    let mut vector = VersionVector::default();
    if let Some(interval) = Interval::up_to(seen.run, seen.number) {
        vector.insert(interval).expect("it is one");
    }
    Fact::End(Box::new(
        Ended::new(vector, resumed.map(Hlc::at)).expect("a prefix"),
    ))
}

/// Facts of any kind. Wills and what names something come more often.
pub(crate) fn facts<S: Strategy<Value = Dot> + 'static>(dots: impl Fn() -> S) -> impl Strategy<Value = Fact> {
    let plain = [
        Fact::Session { connected: None },
        Fact::Connection,
        Fact::Subscription,
        Fact::Message,
        Fact::Received,
        Fact::Expiry { connected: None },
        Fact::Presence,
        Fact::Retained,
        Fact::Cleared,
    ];
    let assigned = (dots(), dots()).prop_map(|(message, presence)| AssignedMessage { message, presence });
    let terms = (dots(), proptest::option::of(0..8_u64));
    prop_oneof![
        5 => proptest::sample::select(plain.to_vec()),
        2 => terms.prop_map(|(connection, since)| Fact::Will(Box::new(WillTerms {
            connection,
            delayed_since: since.map(Hlc::at),
        }))),
        1 => (dots(), proptest::option::of(0..8_u64))
            .prop_map(|(seen, resumed)| end_of_session(seen, resumed)),
        1 => (0..8_u64).prop_map(|clock| Fact::Session { connected: Some(Hlc::at(clock)) }),
        1 => (dots(), 0..8_u64).prop_map(|(dot, clock)| Fact::Expiry {
            connected: Some(ConnectionOrder::of_connection(dot, Hlc::at(clock))),
        }),
        1 => dots().prop_map(|connection| Fact::ConnectionEnd { connection }),
        1 => dots().prop_map(|will| Fact::WillNumber { will }),
        1 => dots().prop_map(|message| Fact::Delivery { message }),
        1 => proptest::option::of(0..8_u64).prop_map(member),
        1 => assigned.prop_map(|assigned| Fact::Assignment(Box::new(assigned))),
    ]
}

fn member(since: Option<u64>) -> Fact {
    let client = ClientId::new(b"press").expect("short");
    let since = since.map(Hlc::at);
    Fact::Member(Box::new(MemberTerms { client, since }))
}

/// Entries of any kind, with births and names among the same dots.
fn samples() -> impl Strategy<Value = BTreeMap<EntryId, Entry<u64>>> {
    let sample = (
        facts(|| (1..12_u64).prop_map(dot)),
        1..12_u64,
        1..12_u64,
        0..3_u64,
    );
    let entry = sample.prop_map(|(fact, number, of, value)| {
        let entry = Entry {
            birth: birth(of),
            clock: Hlc::at(number / 2),
            fact,
            value,
        };
        (entry.id(dot(number)), entry)
    });
    proptest::collection::vec(entry, 0..24).prop_map(|entries| entries.into_iter().collect())
}

fn dots() -> impl Strategy<Value = BTreeSet<Dot>> {
    proptest::collection::btree_set((1..12_u64).prop_map(dot), 0..12)
}

fn entries_of(entries: &BTreeMap<EntryId, Entry<u64>>) -> SessionEntries<u64> {
    let mut session = SessionEntries::default();
    for (id, entry) in entries {
        session.insert(id.dot, entry.clone());
    }
    session
}

fn listed(entries: &BTreeMap<EntryId, Entry<u64>>) -> Vec<Identified<u64>> {
    let listed = entries.iter().map(|(id, entry)| (*id, entry.clone()));
    listed.collect()
}

fn is_naive_beater(kind: EntryKind) -> bool {
    matches!(kind, EntryKind::Session | EntryKind::End | EntryKind::Cleared)
}

/// One of `others` beats an entry for ever. `with_sessions`: sessions that are there decide about wills, too,
/// and so does a number.
fn naive_is_beaten(others: &[Identified<u64>], id: EntryId, entry: &Entry<u64>, with_sessions: bool) -> bool {
    match &entry.fact {
        Fact::Session { .. } => {
            let is_start = |of: &EntryId| matches!(of.kind, EntryKind::Session | EntryKind::End);
            let starts = others.iter().filter(|(of, _)| is_start(of));
            let births = starts.map(|(_, other)| other.birth);
            let latest = births
                .filter(|birth| birth.is_clean)
                .max_by_key(|birth| (birth.clock, birth.dot));
            let is_older =
                latest.is_some_and(|start| start.dot != entry.birth.dot && entry.clock < start.clock);
            let mut ends = others.iter().filter_map(|(_, other)| ended_of(other));
            is_older || ends.any(|ended| ended.seen().covers(id.dot))
        }
        Fact::Retained | Fact::Cleared => {
            let mut clears = others.iter().filter(|(of, _)| of.kind == EntryKind::Cleared);
            clears.any(|(of, clear)| (entry.clock, id.dot) <= (clear.clock, of.dot))
        }
        Fact::Will(terms) => {
            let is_numbered = |(_, other): &Identified<u64>| other.fact == Fact::WillNumber { will: id.dot };
            let ends = others
                .iter()
                .filter(|(of, _)| with_sessions || of.kind == EntryKind::End);
            let mut bare: Vec<Identified<u64>> = ends.cloned().collect();
            bare.retain(|other| !is_numbered(other));
            let connection = (
                EntryId {
                    kind: EntryKind::Connection,
                    dot: terms.connection,
                },
                Entry {
                    fact: Fact::Connection,
                    ..entry.clone()
                },
            );
            bare.push(connection);
            let is_void = !naive_will_counts(&bare, id.dot, entry, |_| true);
            is_void || with_sessions && others.iter().any(is_numbered)
        }
        _ => false,
    }
}

proptest! {
    #[test]
    fn entries_that_count_are_those_of_the_naive_rule(entries in samples(), covered in dots()) {
        let session = entries_of(&entries);
        let covers = |dot| covered.contains(&dot);
        let live = EntryKind::ALL.into_iter().flat_map(|kind| {
            let of_kind = session.live(kind, covers);
            of_kind.map(move |(dot, entry)| (EntryId { kind, dot }, entry.clone()))
        });
        let identified: Vec<Identified<u64>> = entries.into_iter().collect();
        prop_assert_eq!(live.collect::<Vec<_>>(), naive_live(&identified, covers));
    }

    #[test]
    fn garbage_is_what_is_covered_and_does_not_count(
        entries in samples(),
        vector in dots(),
        single in dots(),
    ) {
        let session = entries_of(&entries);
        let covered = |dot| vector.contains(&dot);
        let covers = |dot| vector.contains(&dot) || single.contains(&dot);
        let identified: Vec<Identified<u64>> = entries.into_iter().collect();
        let mut live = naive_live(&identified, covers);
        live.retain(|(id, _)| id.kind != EntryKind::End);
        let cleared = naive_cleared(&identified);
        let goes = cleared.iter().all(|id| covered(id.dot));
        let is_garbage = |id: &EntryId| {
            let is_live = live.iter().any(|(counting, _)| counting == id);
            covered(id.dot) && !is_live || goes && cleared.contains(id)
        };
        let expected: BTreeSet<EntryId> =
            identified.iter().map(|(id, _)| *id).filter(|id| is_garbage(id)).collect();
        prop_assert_eq!(session.garbage(covered, covers), expected);
    }

    /// A plane does not look for garbage among entries of the only session.
    #[test]
    fn entries_of_the_only_session_are_no_garbage(entries in samples()) {
        let session = entries_of(&entries);
        let garbage = session.garbage(|_| true, |_| true);
        if let Some(only) = session.only_birth() {
            let of_groups = [EntryKind::Member, EntryKind::Presence, EntryKind::Assignment];
            let is_of_session = |kind: EntryKind| !kind.is_of_topic() && !of_groups.contains(&kind);
            // The event of a birth makes a session and nothing else.
            let of_only = |id: &&EntryId| entries[*id].birth == only && id.dot != only.dot;
            let mut of_only = garbage.iter().filter(of_only);
            prop_assert!(!of_only.any(|id| is_of_session(id.kind)), "{:?}", garbage);
        }
    }

    /// What counts does not depend on the garbage, as long as all of it goes at once.
    #[test]
    fn dropping_all_garbage_changes_nothing_that_counts(entries in samples()) {
        let before = entries_of(&entries);
        let mut after = before.clone();
        let all = |_| true;
        after.drop_garbage(&before.garbage(all, all), |_| {});
        let is_checked = |kind: &EntryKind| *kind != EntryKind::End && !kind.is_of_topic();
        for kind in EntryKind::ALL.into_iter().filter(is_checked) {
            prop_assert!(before.live(kind, all).eq(after.live(kind, all)), "{:?}", kind);
        }
        prop_assert!(after.garbage(all, all).is_empty());
        prop_assert_eq!(after.last_clear(), None);
        let read = before.latest_of_topic().filter(|(id, _)| id.kind == EntryKind::Retained);
        prop_assert_eq!(after.latest_of_topic(), read);
    }

    #[test]
    fn a_merge_keeps_what_neither_has_removed(
        mine in samples(),
        mine_covered in dots(),
        theirs in samples(),
        theirs_covered in dots(),
    ) {
        let merged = entries_of(&mine).merge(
            |dot| mine_covered.contains(&dot),
            entries_of(&theirs),
            |dot| theirs_covered.contains(&dot),
        );
        let ids: BTreeSet<EntryId> = mine.keys().chain(theirs.keys()).copied().collect();
        let mut expected = BTreeMap::new();
        for id in ids {
            let kept = match (mine.get(&id), theirs.get(&id)) {
                (Some(mine), Some(theirs)) => Some(mine.max(theirs)),
                (Some(mine), None) => (!theirs_covered.contains(&id.dot)).then_some(mine),
                (None, theirs) => theirs.filter(|_| !mine_covered.contains(&id.dot)),
            };
            expected.extend(kept.map(|entry| (id, entry.clone())));
        }
        let gone: BTreeMap<EntryId, Entry<u64>> = mine
            .into_iter()
            .chain(theirs)
            .filter(|(id, _)| !expected.contains_key(id) && is_naive_beater(id.kind))
            .collect();
        let (before, now) = (listed(&gone), listed(&expected));
        expected.retain(|id, entry| {
            !naive_is_beaten(&before, *id, entry, false) || naive_is_beaten(&now, *id, entry, true)
        });
        prop_assert_eq!(merged, entries_of(&expected));
    }

    #[test]
    fn a_removal_takes_the_entries_of_its_dot(entries in samples(), number in 1..12_u64) {
        let mut session = entries_of(&entries);
        session.remove(dot(number), |_| {});
        let left: BTreeMap<EntryId, Entry<u64>> = entries
            .into_iter()
            .filter(|(id, _)| id.dot != dot(number))
            .collect();
        prop_assert_eq!(session.len(), left.len());
        prop_assert_eq!(session, entries_of(&left));
    }
}

fn entry(fact: Fact, number: u64, birth: Birth) -> Identified<u64> {
    let entry = Entry {
        birth,
        clock: Hlc::at(number / 2),
        fact,
        value: 0,
    };
    (entry.id(dot(number)), entry)
}

fn session_of(entries: impl IntoIterator<Item = Identified<u64>>) -> SessionEntries<u64> {
    entries_of(&entries.into_iter().collect())
}

#[test]
fn a_clean_start_beats_older_sessions_with_all_they_have() {
    let (older, clean) = (birth(1), birth(6));
    let session = session_of([
        entry(Fact::Session { connected: None }, 1, older),
        entry(Fact::Subscription, 2, older),
        entry(Fact::Connection, 3, older),
        entry(Fact::Session { connected: None }, 6, clean),
        entry(Fact::Subscription, 7, clean),
    ]);
    let live = |kind| -> Vec<u64> { session.live(kind, |_| true).map(|(dot, _)| dot.number).collect() };
    assert_eq!(live(EntryKind::Session), [6]);
    assert_eq!(live(EntryKind::Subscription), [7]);
    assert_eq!(live(EntryKind::Connection), [3], "a connection counts alone");
}

/// The older session is of another side, where it was written anew before the clean one began.
#[test]
fn an_end_beats_what_its_session_has_beaten() {
    let (older, clean) = (birth(1), birth(6));
    let mut session = session_of([
        entry(Fact::Session { connected: None }, 1, older),
        entry(Fact::Message, 2, older),
        entry(end_of_session(dot(0), None), 9, clean),
    ]);
    let all = |_| true;
    assert_eq!(session.live(EntryKind::Session, all).count(), 0);
    assert_eq!(session.live(EntryKind::Message, all).count(), 0);
    let garbage = session.garbage(all, all);
    assert_eq!(garbage.len(), 3, "the end goes with what it beats");
    session.drop_garbage(&garbage, |_| {});
    assert!(session.is_empty());
}

/// The last CONNECT was missed here, and the end names that one only.
#[test]
fn an_end_beats_each_entry_of_a_session_that_it_has_seen() {
    let session = |seen| {
        session_of([
            entry(Fact::Session { connected: None }, 2, birth(1)),
            entry(Fact::Message, 3, birth(1)),
            entry(end_of_session(dot(seen), None), 9, birth(1)),
        ])
    };
    assert_eq!(
        live(&session(1), EntryKind::Session),
        [2],
        "it was resumed elsewhere"
    );
    assert_eq!(live(&session(1), EntryKind::Message), [3]);
    assert_eq!(live(&session(2), EntryKind::Session), []);
    assert_eq!(live(&session(2), EntryKind::Message), []);
    let garbage = session(2).garbage(|_| true, |_| true);
    assert_eq!(garbage.len(), 3, "the end goes with what it beats");
}

/// Two sides end sessions of one client that the other side has begun.
#[test]
fn ends_beat_what_one_of_them_has_seen() {
    let session = session_of([
        entry(Fact::Session { connected: None }, 4, birth(4)),
        entry(end_of_session(dot(2), None), 8, birth(1)),
        entry(end_of_session(dot(5), None), 9, birth(2)),
        entry(Fact::Session { connected: None }, 7, birth(7)),
    ]);
    assert_eq!(live(&session, EntryKind::Session), [7]);
}

#[test]
fn a_later_end_takes_over_what_ends_before_have_seen() {
    let other = Dot {
        run: Run {
            node: NodeId(2),
            ..dot(1).run
        },
        number: 4,
    };
    let session = session_of([
        entry(end_of_session(other, Some(6)), 8, birth(1)),
        entry(Fact::Session { connected: None }, 10, birth(9)),
        entry(Fact::Session { connected: None }, 9, birth(9)),
    ]);
    let mut decided = VersionVector::default();
    for (first, last) in [(1, 2), (5, 10)] {
        let interval = Interval::new(dot(1).run, first, last).expect("ascending");
        decided.insert(interval).expect("there is room");
    }
    let ending = session.ending(&decided).expect("there is a session");
    assert_eq!(ending.birth, birth(9), "it was begun clean");
    let Fact::End(ended) = ending.fact else {
        panic!("{:?} is no end", ending.fact);
    };
    assert!(ended.seen().covers(other) && ended.seen().covers(dot(2)));
    assert!(!ended.seen().covers(dot(5)), "there is a gap before");
    assert_eq!(
        ended.resumed(),
        Some(Hlc::at(6)),
        "the CONNECT of 10 came earlier"
    );
    let none = session_of([entry(end_of_session(other, None), 8, birth(1))]);
    assert_eq!(none.ending(&decided), None);
}

/// What makes a delayed will void goes with the end: the last CONNECT that resumed a session, or began one
/// without Clean Start.
#[test]
fn a_new_end_knows_when_its_session_was_resumed() {
    let resumed = |is_clean: bool, dots: [u64; 2]| {
        let birth = Birth { is_clean, ..birth(2) };
        let sessions = dots.map(|number| entry(Fact::Session { connected: None }, number, birth));
        let ending = session_of(sessions).ending(&VersionVector::default());
        match ending.expect("there is a session").fact {
            Fact::End(ended) => ended.resumed(),
            _ => None,
        }
    };
    assert_eq!(resumed(true, [2, 8]), Some(Hlc::at(4)));
    assert_eq!(resumed(true, [2, 2]), None, "by its first CONNECT");
    assert_eq!(
        resumed(false, [2, 2]),
        Some(Hlc::at(1)),
        "an older will stays void"
    );
}

#[test]
fn an_entry_counts_while_its_session_may_still_come() {
    let session = session_of([entry(Fact::Subscription, 2, birth(1))]);
    assert_eq!(session.live(EntryKind::Subscription, |_| false).count(), 1);
    assert_eq!(session.live(EntryKind::Subscription, |_| true).count(), 0);
}

fn live(session: &SessionEntries<u64>, kind: EntryKind) -> Vec<u64> {
    let all = |_| true;
    session.live(kind, all).map(|(dot, _)| dot.number).collect()
}

fn will(connection: u64, number: u64, delayed_since: Option<u64>) -> Identified<u64> {
    let terms = WillTerms {
        connection: dot(connection),
        delayed_since: delayed_since.map(Hlc::at),
    };
    entry(Fact::Will(Box::new(terms)), number, birth(1))
}

fn end(connection: u64, number: u64) -> Identified<u64> {
    let connection = dot(connection);
    entry(Fact::ConnectionEnd { connection }, number, birth(1))
}

fn number(will: u64, number: u64) -> Identified<u64> {
    entry(Fact::WillNumber { will: dot(will) }, number, birth(1))
}

#[test]
fn a_will_counts_while_its_connection_is_there_or_has_left_it() {
    let open = session_of([entry(Fact::Connection, 2, birth(2)), will(2, 3, None)]);
    assert_eq!(live(&open, EntryKind::Will), [3]);
    let left = session_of([will(2, 3, None), end(2, 4)]);
    assert_eq!(live(&left, EntryKind::Will), [3]);
    let dropped = session_of([will(2, 3, None)]);
    assert_eq!(live(&dropped, EntryKind::Will), []);
    assert_eq!(
        dropped.live(EntryKind::Will, |_| false).count(),
        1,
        "it may still come"
    );
}

#[test]
fn the_removal_of_a_will_ends_what_stands_beside_it() {
    let mut session = session_of([will(2, 3, None), end(2, 4), number(3, 5)]);
    assert_eq!(live(&session, EntryKind::ConnectionEnd), [4]);
    assert_eq!(live(&session, EntryKind::WillNumber), [5]);
    session.remove(dot(3), |_| {});
    assert_eq!(live(&session, EntryKind::ConnectionEnd), []);
    assert_eq!(live(&session, EntryKind::WillNumber), []);
    assert_eq!(session.garbage(|_| true, |_| true).len(), 2);
}

/// The will is armed again under a new event, while its connection ends elsewhere.
#[test]
fn an_end_holds_for_a_will_that_is_armed_again() {
    let session = session_of([will(2, 6, None), end(2, 4), number(3, 5)]);
    assert_eq!(live(&session, EntryKind::Will), [6]);
    assert_eq!(live(&session, EntryKind::ConnectionEnd), [4]);
    assert_eq!(
        live(&session, EntryKind::WillNumber),
        [],
        "it is of the first one"
    );
}

#[test]
fn a_delayed_will_is_void_once_the_session_is_resumed() {
    let resumed = entry(Fact::Session { connected: None }, 8, birth(1));
    let since = |clock| [will(2, 3, Some(clock)), end(2, 4), resumed.clone()];
    assert_eq!(
        live(&session_of(since(4)), EntryKind::Will),
        [3],
        "by its own CONNECT"
    );
    assert_eq!(live(&session_of(since(3)), EntryKind::Will), []);
    let numbered = since(3).into_iter().chain([number(3, 9)]);
    assert_eq!(live(&session_of(numbered), EntryKind::Will), [3], "it goes out");
    let at_once = [will(2, 3, None), end(2, 4), resumed];
    assert_eq!(live(&session_of(at_once), EntryKind::Will), [3]);
}

#[test]
fn a_delayed_will_is_void_by_an_end_that_knows_of_a_later_connect() {
    let ended = |resumed| {
        session_of([
            will(2, 3, Some(3)),
            end(2, 4),
            entry(end_of_session(dot(0), resumed), 9, birth(1)),
        ])
    };
    assert_eq!(live(&ended(None), EntryKind::Will), [3]);
    assert_eq!(live(&ended(Some(3)), EntryKind::Will), [3], "by its own CONNECT");
    assert_eq!(live(&ended(Some(4)), EntryKind::Will), []);
}

#[test]
fn a_will_is_removed_with_all_that_stands_beside_it() {
    let session = session_of([
        will(2, 3, None),
        end(2, 4),
        number(3, 5),
        will(6, 7, None),
        end(6, 8),
        number(7, 9),
    ]);
    assert_eq!(
        session.will_of_connection(dot(2)),
        BTreeSet::from([3, 4, 5].map(dot))
    );
}

/// The client may have the packet id, and would take the next message under it for the first.
#[test]
fn a_delivery_counts_without_its_message() {
    let delivery = || entry(Fact::Delivery { message: dot(2) }, 3, birth(1));
    let gone = session_of([entry(Fact::Session { connected: None }, 1, birth(1)), delivery()]);
    assert_eq!(live(&gone, EntryKind::Delivery), [3]);
    assert!(gone.garbage(|_| true, |_| true).is_empty());
    let ended = session_of([entry(Fact::Message, 2, birth(1)), delivery()]);
    assert_eq!(live(&ended, EntryKind::Delivery), []);
}
