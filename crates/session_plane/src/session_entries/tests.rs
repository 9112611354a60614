use std::collections::BTreeSet;

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use proptest::prelude::*;

use super::*;
use crate::Run;

/// Entry with its identity.
pub(crate) type Identified<V> = (EntryId, Entry<V>);

/// Entries of one client that count, as the model has the rule: everything is searched.
pub(crate) fn naive_live<V: Clone>(
    entries: &[Identified<V>],
    covers: impl Fn(Dot) -> bool,
) -> Vec<Identified<V>> {
    let is_session = |(id, _): &&Identified<V>| id.kind == EntryKind::Session;
    let sessions: Vec<&Entry<V>> = entries
        .iter()
        .filter(is_session)
        .map(|(_, entry)| entry)
        .collect();
    let starts = entries
        .iter()
        .filter(|(id, _)| matches!(id.kind, EntryKind::Session | EntryKind::End))
        .map(|(_, entry)| entry);
    let clean_starts = starts.filter(|start| start.birth.is_clean);
    let latest = clean_starts.max_by_key(|start| (start.birth.clock, start.birth.dot));
    let is_beaten = |session: &Entry<V>| {
        latest
            .is_some_and(|latest| session.birth.dot != latest.birth.dot && session.clock < latest.birth.clock)
    };
    let has_session = |birth: Dot| {
        let mut with_birth = sessions.iter().filter(|session| session.birth.dot == birth);
        with_birth.any(|session| !is_beaten(session))
    };
    let counts = |(id, entry): &&Identified<V>| match id.kind {
        EntryKind::Connection | EntryKind::Will | EntryKind::End => true,
        EntryKind::Session => !is_beaten(entry),
        EntryKind::Subscription | EntryKind::Message | EntryKind::Delivery | EntryKind::Received => {
            has_session(entry.birth.dot) || !covers(entry.birth.dot)
        }
    };
    entries.iter().filter(counts).cloned().collect()
}

fn dot(number: u64) -> Dot {
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

/// Entries of any kind, with births among the same dots.
fn samples() -> impl Strategy<Value = BTreeMap<EntryId, Entry<u64>>> {
    let sample = (
        proptest::sample::select(EntryKind::ALL.to_vec()),
        1..12_u64,
        1..12_u64,
        0..3_u64,
    );
    let entry = sample.prop_map(|(kind, number, of, value)| {
        let id = EntryId {
            kind,
            dot: dot(number),
        };
        let entry = Entry {
            birth: birth(of),
            clock: Hlc::at(number / 2),
            value,
        };
        (id, entry)
    });
    proptest::collection::btree_set(entry, 0..16).prop_map(|entries| entries.into_iter().collect())
}

fn dots() -> impl Strategy<Value = BTreeSet<Dot>> {
    proptest::collection::btree_set((1..12_u64).prop_map(dot), 0..12)
}

fn entries_of(entries: &BTreeMap<EntryId, Entry<u64>>) -> SessionEntries<u64> {
    let mut session = SessionEntries::default();
    for (id, entry) in entries {
        session.insert(*id, entry.clone());
    }
    session
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
        let is_garbage = |id: &EntryId| covered(id.dot) && live.iter().all(|(counting, _)| counting != id);
        let expected: BTreeSet<EntryId> =
            identified.iter().map(|(id, _)| *id).filter(|id| is_garbage(id)).collect();
        prop_assert_eq!(session.garbage(covered, covers), expected);
    }

    /// What counts does not depend on the garbage, as long as all of it goes at once.
    #[test]
    fn dropping_all_garbage_changes_nothing_that_counts(entries in samples()) {
        let before = entries_of(&entries);
        let mut after = before.clone();
        let all = |_| true;
        after.drop_garbage(&before.garbage(all, all));
        for kind in EntryKind::ALL.into_iter().filter(|kind| *kind != EntryKind::End) {
            prop_assert!(before.live(kind, all).eq(after.live(kind, all)), "{:?}", kind);
        }
        prop_assert!(after.garbage(all, all).is_empty());
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
        prop_assert_eq!(merged, entries_of(&expected));
    }

    #[test]
    fn a_removal_takes_the_entries_of_its_dot(entries in samples(), number in 1..12_u64) {
        let mut session = entries_of(&entries);
        session.remove(dot(number));
        let left: BTreeMap<EntryId, Entry<u64>> = entries
            .into_iter()
            .filter(|(id, _)| id.dot != dot(number))
            .collect();
        prop_assert_eq!(session.len(), left.len());
        prop_assert_eq!(session, entries_of(&left));
    }
}

fn entry(kind: EntryKind, number: u64, birth: Birth) -> Identified<u64> {
    let id = EntryId {
        kind,
        dot: dot(number),
    };
    let clock = Hlc::at(number / 2);
    (
        id,
        Entry {
            birth,
            clock,
            value: 0,
        },
    )
}

fn session_of(entries: impl IntoIterator<Item = Identified<u64>>) -> SessionEntries<u64> {
    entries_of(&entries.into_iter().collect())
}

#[test]
fn a_clean_start_beats_older_sessions_with_all_they_have() {
    let (older, clean) = (birth(1), birth(6));
    let session = session_of([
        entry(EntryKind::Session, 1, older),
        entry(EntryKind::Subscription, 2, older),
        entry(EntryKind::Connection, 3, older),
        entry(EntryKind::Session, 6, clean),
        entry(EntryKind::Subscription, 7, clean),
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
        entry(EntryKind::Session, 1, older),
        entry(EntryKind::Message, 2, older),
        entry(EntryKind::End, 9, clean),
    ]);
    let all = |_| true;
    assert_eq!(session.live(EntryKind::Session, all).count(), 0);
    assert_eq!(session.live(EntryKind::Message, all).count(), 0);
    let garbage = session.garbage(all, all);
    assert_eq!(garbage.len(), 3, "the end goes with what it beats");
    session.drop_garbage(&garbage);
    assert!(session.is_empty());
}

#[test]
fn an_entry_counts_while_its_session_may_still_come() {
    let session = session_of([entry(EntryKind::Subscription, 2, birth(1))]);
    assert_eq!(session.live(EntryKind::Subscription, |_| false).count(), 1);
    assert_eq!(session.live(EntryKind::Subscription, |_| true).count(), 0);
}
