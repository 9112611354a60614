use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::{EntryId, SessionEntries};
use history::{CLIENTS, Event, client, dot, histories};
use naive::{Naive, NaiveEntry, NaiveMessage, SingleDot};

mod beaten;
pub(crate) mod history;
mod limits;
pub(crate) mod naive;
mod pages;

pub(crate) type Value = u64;
pub(crate) type Sample = SlotCopy<Value, ()>;

pub(crate) const COPIES: usize = 3;

/// Step of one copy.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    TakeEvent(Index),
    TakeInterval(Index, u64),
    Need(Vec<Index>),
    Claim,
    Close(Vec<Index>),
    Merge(Index),
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let some = || proptest::collection::vec(any::<Index>(), 0..6);
    let step = prop_oneof![
        8 => any::<Index>().prop_map(Step::TakeEvent),
        2 => (any::<Index>(), 0..4_u64).prop_map(|(first, more)| Step::TakeInterval(first, more)),
        1 => some().prop_map(Step::Need),
        3 => Just(Step::Claim),
        1 => some().prop_map(Step::Close),
        2 => any::<Index>().prop_map(Step::Merge),
    ];
    proptest::collection::vec((0..COPIES, step), 0..60)
}

/// Rule `since`: a message matches subscriptions that are earlier.
fn matches(kind: EntryKind, subscribed: Hlc, published: Hlc) -> bool {
    kind == EntryKind::Subscription && subscribed < published
}

fn message_entry(birth: Birth, clock: Hlc, dot: Dot) -> Entry<Value> {
    entry_of(Fact::Message, birth, clock, dot)
}

pub(crate) fn entry_of(fact: Fact, birth: Birth, clock: Hlc, dot: Dot) -> Entry<Value> {
    let value = dot.number;
    Entry {
        birth,
        clock,
        fact,
        value,
    }
}

pub(crate) fn matched(copy: &Sample, dot: Dot, pending: &Pending<()>) -> Vec<Matched<Value>> {
    matched_in(copy.entries(), copy.covered(), dot, pending.clock)
}

fn matched_in(
    entries: &SlotEntries<Value>,
    covered: &VersionVector,
    dot: Dot,
    clock: Hlc,
) -> Vec<Matched<Value>> {
    let mut matched = Vec::new();
    for (client, _) in entries.sessions() {
        for (_, entry) in entries.live(covered, client.as_bytes(), EntryKind::Subscription) {
            if matches(EntryKind::Subscription, entry.clock, clock) {
                matched.push(Matched {
                    client: client.clone(),
                    birth: entry.birth,
                    value: dot.number,
                });
            }
        }
    }
    matched
}

pub(crate) fn take_event(copy: &mut Sample, event: &Event) {
    let taken = match &event.change {
        Some(change) => copy.apply(change.clone()),
        None => {
            let (clock, message) = (event.clock, ());
            copy.take_message(event.dot, Pending { clock, message })
        }
    };
    taken.expect("histories are short");
}

pub(crate) fn vector_of(dots: &BTreeSet<Dot>) -> VersionVector {
    let mut vector = VersionVector::default();
    for dot in dots {
        let one = Interval::one(*dot).expect("dots of events");
        vector.insert(one).expect("histories are short");
    }
    vector
}

pub(crate) fn dots_of(vector: &VersionVector) -> BTreeSet<Dot> {
    let dots = |interval: &Interval| {
        let run = interval.first().run;
        let numbers = interval.first().number..=interval.last().number;
        numbers.map(move |number| Dot { run, number })
    };
    vector.intervals().iter().flat_map(dots).collect()
}

/// Copies, and the naive copy beside each.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) copy: Sample,
    pub(crate) naive: Naive,
}

impl Pair {
    fn new() -> Pair {
        Pair {
            copy: SlotCopy::new(VersionVector::default()),
            naive: Naive::default(),
        }
    }

    pub(crate) fn step(&mut self, history: &[Event], others: &[Pair], step: &Step) {
        let one = |index: &Index| &history[index.index(history.len())];
        let some = |indexes: &[Index]| indexes.iter().map(|index| one(index).dot).collect();
        match step {
            Step::TakeEvent(index) => {
                take_event(&mut self.copy, one(index));
                self.naive.take_event(one(index));
            }
            Step::TakeInterval(first, more) => self.take_interval(history, one(first).dot, *more),
            Step::Need(indexes) => {
                let dots: BTreeSet<Dot> = some(indexes);
                self.copy.need(&vector_of(&dots)).expect("histories are short");
                self.naive.needed.extend(dots);
            }
            Step::Claim => {
                let claimed = self.copy.claim(matched);
                assert_eq!(claimed.is_ok(), self.naive.claim());
            }
            Step::Close(indexes) => {
                let mut dots: BTreeSet<Dot> = some(indexes);
                dots.retain(|dot| {
                    !history
                        .iter()
                        .any(|event| event.dot == *dot && event.adds_beater())
                });
                self.copy.close(&vector_of(&dots)).expect("histories are short");
                self.naive.close(&dots);
            }
            Step::Merge(index) => {
                let other = &others[index.index(others.len())];
                self.copy.merge(other.copy.clone()).expect("histories are short");
                self.naive.merge(&other.naive);
            }
        }
    }

    /// Takes numbers without what their events do. An entry that beats others is never missed alone: a copy
    /// that drops it drops what it beats, too.
    fn take_interval(&mut self, history: &[Event], first: Dot, more: u64) {
        let events = Interval::new(first.run, first.number, first.number + more);
        let events = events.expect("ascending");
        let is_taken = |dot: Dot| events.first() <= dot && dot <= events.last();
        if history
            .iter()
            .any(|event| is_taken(event.dot) && event.adds_beater())
        {
            return;
        }
        self.copy.take(events).expect("histories are short");
        for number in events.first().number..=events.last().number {
            self.naive.take(Dot { number, ..first });
        }
    }
}

/// Entries with their whole identity, in ascending order.
pub(crate) fn entries_of(copy: &Sample) -> BTreeSet<NaiveEntry> {
    let of_session = |(client, entries): (&ClientId, &SessionEntries<Value>)| {
        let of_entry = |(id, entry): (EntryId, &Entry<Value>)| NaiveEntry {
            client: client.clone(),
            kind: id.kind,
            dot: id.dot,
            entry: entry.clone(),
        };
        entries.iter().map(of_entry).collect::<Vec<NaiveEntry>>()
    };
    copy.entries().sessions().flat_map(of_session).collect()
}

fn live_of(copy: &Sample) -> BTreeSet<NaiveEntry> {
    let mut live = BTreeSet::new();
    for client in (0..CLIENTS).map(client) {
        for kind in EntryKind::ALL {
            let entries = copy.live(client.as_bytes(), kind);
            live.extend(entries.map(|(dot, entry)| NaiveEntry {
                client: client.clone(),
                kind,
                dot,
                entry: entry.clone(),
            }));
        }
    }
    live
}

#[track_caller]
pub(crate) fn assert_equals_naive(pair: &Pair) {
    let Pair { copy, naive } = pair;
    assert_eq!(dots_of(copy.covered()), naive.covered);
    assert_eq!(dots_of(copy.taken()), naive.taken);
    assert_eq!(dots_of(copy.holes()), naive.holes());
    let pending = copy.pending().map(|(dot, pending)| NaiveMessage {
        clock: pending.clock,
        dot,
    });
    assert_eq!(pending.collect::<BTreeSet<NaiveMessage>>(), naive.pending);
    let single = copy.entries().single();
    let dots = single.iter().flat_map(|(client, dots)| {
        let client = client.clone();
        dots.iter().map(move |dot| SingleDot {
            client: client.clone(),
            dot: *dot,
        })
    });
    assert_eq!(dots.collect::<BTreeSet<SingleDot>>(), naive.single);
    assert_eq!(single.len(), naive.single.len());
    assert_eq!(entries_of(copy), naive.entries.iter().cloned().collect());
    assert!(copy.entries().sessions().all(|(_, entries)| !entries.is_empty()));
    assert_eq!(live_of(copy), naive.live());
}

pub(crate) fn play(history: &[Event], steps: &[(usize, Step)]) -> Vec<Pair> {
    let mut pairs = vec![Pair::new(); COPIES];
    for (at, step) in steps {
        let others = pairs.clone();
        pairs[*at].step(history, &others, step);
    }
    pairs
}

fn merged(one: &Sample, other: &Sample) -> Sample {
    let mut merged = one.clone();
    merged.merge(other.clone()).expect("histories are short");
    merged
}

/// What `theirs` has beyond what `mine` has of shared events, and all of some clients more.
fn difference(
    mine: &Sample,
    theirs: &Sample,
    shared: VersionVector,
    more: impl Iterator<Item = ClientId>,
) -> CopyDifference<Value, ()> {
    let (mine, entries) = (mine.entries(), theirs.entries());
    let differs = |client: &ClientId| {
        let of = |copy: &SlotEntries<Value>, is_shared: bool| {
            let session = copy.session(client.as_bytes()).into_iter();
            let entries = session.flat_map(SessionEntries::iter);
            let entries = entries.filter(|(id, _)| !is_shared || shared.covers(id.dot));
            let entries = entries.map(|(id, entry)| (id, entry.clone()));
            entries.collect::<BTreeMap<EntryId, Entry<Value>>>()
        };
        entries.single().of_client(client.as_bytes()).is_some() || of(mine, true) != of(entries, false)
    };
    let known = mine
        .sessions()
        .chain(entries.sessions())
        .map(|(client, _)| client);
    let known = known.chain(entries.single().iter().map(|(client, _)| client));
    let clients: BTreeSet<ClientId> = known
        .filter(|client| differs(client))
        .cloned()
        .chain(more)
        .collect();
    let mut part = theirs.clone();
    part.entries = SlotEntries::of_parts(listed(theirs, &clients), single_of(theirs));
    CopyDifference {
        copy: part,
        clients,
        shared,
    }
}

fn listed(copy: &Sample, clients: &BTreeSet<ClientId>) -> Vec<ClientEntry<Value>> {
    let sessions = copy
        .entries()
        .sessions()
        .filter(|(client, _)| clients.contains(*client));
    let entries = sessions.flat_map(|(client, session)| {
        session.iter().map(|(id, entry)| ClientEntry {
            client: client.clone(),
            dot: id.dot,
            entry: entry.clone(),
        })
    });
    entries.collect()
}

fn single_of(copy: &Sample) -> Vec<ClientDot> {
    let single = copy.entries().single().iter().flat_map(|(client, dots)| {
        dots.iter().map(|dot| ClientDot {
            client: client.clone(),
            dot: *dot,
        })
    });
    single.collect()
}

/// Copy that has taken and claimed the events whose bits are set.
pub(crate) fn copy_of(history: &[Event], bits: u32) -> Sample {
    let mut copy = Sample::new(VersionVector::default());
    for (_, event) in history.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1) {
        take_event(&mut copy, event);
    }
    copy.claim(matched).expect("nothing is needed");
    copy
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_copy_is_the_naive_copy_after_every_step(history in histories(), steps in steps()) {
        let mut pairs = vec![Pair::new(); COPIES];
        for (at, step) in &steps {
            let others = pairs.clone();
            pairs[*at].step(&history, &others, step);
            assert_equals_naive(&pairs[*at]);
        }
    }

    /// Of the clients that are not named, the other copy has what this one has of shared events.
    #[test]
    fn a_merge_of_the_difference_is_the_merge(
        history in histories(),
        steps in steps(),
        later in steps(),
        more in proptest::collection::btree_set(0..CLIENTS, 0..3),
    ) {
        let mut pairs = play(&history, &steps);
        let theirs = pairs[1].copy.clone();
        let shared = pairs[0].copy.covered().intersection(theirs.covered());
        for (_, step) in later.iter().filter(|(of, _)| *of == 0) {
            let others = pairs.clone();
            pairs[0].step(&history, &others, step);
        }
        let mine = &pairs[0].copy;
        let difference = difference(mine, &theirs, shared, more.into_iter().map(client));
        let (mut merged, mut by_difference) = (mine.clone(), mine.clone());
        merged.merge(theirs).expect("histories are short");
        by_difference.merge_difference(difference).expect("histories are short");
        prop_assert_eq!(&by_difference, &merged);
        let marked = |copy: &Sample| format!("{:?}", copy.entries().dirty());
        prop_assert_eq!(marked(&by_difference), marked(&merged));
    }

    #[test]
    fn a_merge_is_commutative_associative_and_idempotent(history in histories(), steps in steps()) {
        let pairs = play(&history, &steps);
        let [one, two, three] = [&pairs[0].copy, &pairs[1].copy, &pairs[2].copy];
        prop_assert_eq!(merged(one, two), merged(two, one));
        prop_assert_eq!(merged(&merged(one, two), three), merged(one, &merged(two, three)));
        prop_assert_eq!(&merged(one, one), one);
        let both = merged(one, two);
        prop_assert_eq!(&merged(&both, two), &both);
    }

    /// Without messages, whose entries depend on what a copy had when it claimed them.
    #[test]
    fn merged_copies_are_the_copy_that_has_seen_what_both_have(
        mut history in histories(),
        left in any::<u32>(),
        right in any::<u32>(),
    ) {
        history.retain(|event| event.change.is_some());
        let (one, other) = (copy_of(&history, left), copy_of(&history, right));
        prop_assert_eq!(merged(&one, &other), copy_of(&history, left | right));
    }

    #[test]
    fn nothing_that_was_removed_comes_back(history in histories(), steps in steps()) {
        let pairs = play(&history, &steps);
        for (one, other) in [(0, 1), (1, 2), (2, 0)] {
            let (one, other) = (&pairs[one].copy, &pairs[other].copy);
            let before = entries_of(one);
            let after = entries_of(&merged(one, other));
            for entry in after.iter().filter(|entry| one.covers(entry.client.as_bytes(), entry.dot)) {
                let was_there = before.iter().any(|each| {
                    (&each.client, each.kind, each.dot) == (&entry.client, entry.kind, entry.dot)
                });
                prop_assert!(was_there, "{:?} came back", entry);
            }
        }
    }
}

/// Takes an event for a copy that shares the vector of its node.
fn take_shared(entries: &mut SlotEntries<Value>, covered: &mut VersionVector, event: &Event) {
    let dot = event.dot;
    match &event.change {
        Some(change) => entries
            .apply(covered, change.clone())
            .expect("histories are short"),
        None => {
            for Matched { client, birth, .. } in matched_in(entries, covered, dot, event.clock) {
                let entry = message_entry(birth, event.clock, dot);
                entries.add(covered, &client, dot, entry);
            }
        }
    }
    covered
        .insert(Interval::one(dot).expect("dots of events"))
        .expect("histories are short");
    entries.drop_covered(covered);
}

proptest! {
    #[test]
    fn a_shared_vector_gives_what_an_own_one_does(history in histories(), bits in any::<u32>()) {
        let mut own = Sample::new(VersionVector::default());
        let (mut entries, mut covered) = (SlotEntries::default(), VersionVector::default());
        for (_, event) in history.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1) {
            take_event(&mut own, event);
            own.claim(matched).expect("nothing is needed");
            take_shared(&mut entries, &mut covered, event);
        }
        prop_assert_eq!(own.into_whole(&covered), Ok(entries));
    }
}

fn change(of: Dot, removes: &[Dot], adds: Option<Fact>) -> Change<Value> {
    let birth = Birth {
        dot: of,
        clock: Hlc::ZERO,
        is_clean: false,
    };
    Change {
        dot: of,
        client: client(0),
        removes: removes.to_vec(),
        adds: adds.map(|fact| entry_of(fact, birth, Hlc::ZERO, of)),
    }
}

/// This copy has taken an entry. The other one has decided upon it, and upon its removal, since they were
/// compared: no client differs in what is shared.
#[test]
fn a_difference_without_clients_removes_what_the_other_copy_has_removed() {
    let adds = change(dot(0, 1), &[], Some(Fact::Connection));
    let stays = change(dot(2, 1), &[], Some(Fact::Presence));
    let mut mine = Sample::new(VersionVector::default());
    let mut theirs = mine.clone();
    for copy in [&mut mine, &mut theirs] {
        copy.apply(adds.clone()).expect("room");
    }
    mine.apply(stays).expect("room");
    theirs.apply(change(dot(1, 1), &[dot(0, 1)], None)).expect("room");
    theirs.claim(matched).expect("whole");
    let shared = VersionVector::default();
    let difference = difference(&mine, &theirs, shared, std::iter::empty());
    assert!(difference.clients.is_empty(), "nothing is shared");
    let merged = merged(&mine, &theirs);
    mine.merge_difference(difference).expect("room");
    assert_eq!(mine, merged);
    let kinds = entries_of(&mine).len();
    assert_eq!(kinds, 1, "the one that the other copy has not seen");
}

#[test]
fn a_removal_may_come_before_its_event() {
    let mut copy = Sample::new(VersionVector::default());
    copy.apply(change(dot(1, 1), &[dot(0, 1)], None)).expect("room");
    assert!(copy.covers(&[0], dot(0, 1)));
    assert!(!copy.covers(&[1], dot(0, 1)), "the dot is of one client");
    copy.apply(change(dot(0, 1), &[], Some(Fact::Connection)))
        .expect("room");
    assert_eq!(entries_of(&copy), BTreeSet::new());
    copy.claim(matched).expect("whole");
    assert!(copy.entries().single().is_empty(), "the vector covers it");
}

#[test]
fn a_copy_with_a_hole_claims_nothing() {
    let mut copy = Sample::new(vector_of(&BTreeSet::from([dot(0, 1)])));
    let (clock, message) = (Hlc::ZERO, ());
    copy.take_message(dot(1, 1), Pending { clock, message })
        .expect("room");
    assert_eq!(copy.claim(matched), Err(ClaimError::HasHole));
    assert_eq!(copy.pending().count(), 1);
    copy.close(&vector_of(&BTreeSet::from([dot(0, 1)])))
        .expect("room");
    assert_eq!(copy.claim(matched), Ok(()));
    assert_eq!(copy.pending().count(), 0);
}

#[test]
fn pending_messages_are_claimed_in_the_order_of_clocks() {
    let mut copy = Sample::new(VersionVector::default());
    for (run, number, wall) in [(0, 1, 7), (0, 2, 9), (1, 1, 5), (2, 1, 7)] {
        let (clock, message) = (Hlc::at(wall), ());
        copy.take_message(dot(run, number), Pending { clock, message })
            .expect("room");
    }
    let mut order = Vec::new();
    let claimed = copy.claim(|_, dot, _| {
        order.push(dot);
        Vec::new()
    });
    assert_eq!(claimed, Ok(()));
    assert_eq!(order, [dot(1, 1), dot(0, 1), dot(2, 1), dot(0, 2)]);
}

#[test]
fn a_copy_that_is_whole_shares_the_vector_of_its_node() {
    let mut copy = Sample::new(VersionVector::default());
    copy.apply(change(dot(0, 1), &[], Some(Fact::Connection)))
        .expect("room");
    let node = vector_of(&BTreeSet::from([dot(0, 1)]));
    let unclaimed = copy.into_whole(&VersionVector::default());
    let mut copy = *unclaimed.expect_err("an event is taken beside the vector");
    copy.claim(matched).expect("whole");
    let entries = copy.clone().into_whole(&node).expect("the same vector");
    assert_eq!(Sample::whole(entries, node.clone()), copy);
    copy.need(&vector_of(&BTreeSet::from([dot(2, 1)]))).expect("room");
    assert!(copy.into_whole(&node).is_err());
}
