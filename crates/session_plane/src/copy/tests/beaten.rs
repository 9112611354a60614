//! What a copy had beaten stays beaten where another copy has dropped what beats it.

use super::*;
use crate::{ClientEntry, CopyParts, Ended, WillTerms};

/// Event that both copies have decided upon.
fn beater() -> Dot {
    dot(0, 1)
}

/// Event that both have taken, and have not decided upon.
fn beaten() -> Dot {
    dot(1, 1)
}

fn birth(dot: Dot, clock: Hlc, is_clean: bool) -> Birth {
    Birth { dot, clock, is_clean }
}

fn end(seen: &[Dot], resumed: Option<Hlc>) -> Fact {
    let seen = vector_of(&seen.iter().copied().collect());
    Fact::End(Box::new(Ended::new(seen, resumed).expect("a prefix")))
}

/// Entry that beats, and the one that it beats.
struct Case {
    beats: Entry<Value>,
    is_beaten: Entry<Value>,
}

fn cases() -> Vec<Case> {
    let old = birth(beaten(), Hlc::at(5), false);
    let case = |beats: Fact, clean: bool, is_beaten: Fact| Case {
        beats: entry_of(beats, birth(beater(), Hlc::at(10), clean), Hlc::at(10), beater()),
        is_beaten: entry_of(is_beaten, old, Hlc::at(5), beaten()),
    };
    let terms = WillTerms {
        connection: dot(2, 9),
        delayed_since: Some(Hlc::at(5)),
    };
    vec![
        case(Fact::Cleared, false, Fact::Retained),
        case(
            Fact::Session { connected: None },
            true,
            Fact::Session { connected: None },
        ),
        case(end(&[beaten()], None), false, Fact::Session { connected: None }),
        case(end(&[], Some(Hlc::at(8))), false, Fact::Will(Box::new(terms))),
    ]
}

fn copy_with(covered: &[Dot], entries: Vec<ClientEntry<Value>>) -> Sample {
    let parts = CopyParts {
        covered: vector_of(&covered.iter().copied().collect()),
        taken: vector_of(&BTreeSet::from([beaten()])),
        holes: VersionVector::default(),
        pending: Vec::new(),
        single: Vec::new(),
        entries,
    };
    SlotCopy::from_parts(parts).expect("a copy")
}

fn id_of(NaiveEntry { kind, dot, .. }: NaiveEntry) -> EntryId {
    EntryId { kind, dot }
}

fn assert_gone(merged: &Sample, case: &Case, how: &str) {
    let entries: Vec<EntryId> = entries_of(merged).into_iter().map(id_of).collect();
    assert_eq!(entries, [], "{how}: {:?}", case.is_beaten.fact);
    assert!(
        merged.covers(client(0).as_bytes(), beaten()),
        "{how}: it may not come again"
    );
}

#[test]
fn what_was_beaten_goes_with_what_had_beaten_it() {
    for case in cases() {
        let entry = |dot: Dot, entry: &Entry<Value>| ClientEntry {
            client: client(0),
            dot,
            entry: entry.clone(),
        };
        let had = copy_with(
            &[beater()],
            vec![entry(beater(), &case.beats), entry(beaten(), &case.is_beaten)],
        );
        let dropped = copy_with(&[beater()], Vec::new());
        assert_gone(&merged(&had, &dropped), &case, "a whole copy");
        assert_gone(&merged(&dropped, &had), &case, "the other way round");
        for (clients, shared) in [
            (vec![client(0)], true),
            (vec![client(0)], false),
            (Vec::new(), false),
        ] {
            let mut merged = had.clone();
            let dots = if shared {
                BTreeSet::from([beater()])
            } else {
                BTreeSet::new()
            };
            let difference = CopyDifference {
                copy: dropped.clone(),
                clients: clients.into_iter().collect(),
                shared: vector_of(&dots),
            };
            merged.merge_difference(difference).expect("room");
            assert_gone(&merged, &case, "a difference");
        }
    }
}

/// What a later clear beats, too, is garbage of that one: it goes when every member knows both.
#[test]
fn what_is_beaten_by_others_too_stays() {
    let clear = |of: Dot, clock: u64| ClientEntry {
        client: client(0),
        dot: of,
        entry: entry_of(
            Fact::Cleared,
            birth(of, Hlc::at(clock), false),
            Hlc::at(clock),
            of,
        ),
    };
    let message = ClientEntry {
        client: client(0),
        dot: beaten(),
        entry: entry_of(
            Fact::Retained,
            birth(beaten(), Hlc::at(5), false),
            Hlc::at(5),
            beaten(),
        ),
    };
    let had = copy_with(&[beater()], vec![clear(beater(), 10), message]);
    let other = copy_with(&[beater(), dot(2, 1)], vec![clear(dot(2, 1), 20)]);
    let both = merged(&had, &other);
    let dots: BTreeSet<Dot> = entries_of(&both).iter().map(|entry| entry.dot).collect();
    assert_eq!(
        dots,
        BTreeSet::from([beaten(), dot(2, 1)]),
        "garbage of the later clear"
    );
}
