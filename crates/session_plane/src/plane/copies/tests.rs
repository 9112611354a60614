//! Copies that share their sets of events are what as many copies with sets of their own are.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::copy::tests::history::{Event, client, dot, histories, run};
use crate::copy::tests::{Value, entry_of, matched, vector_of};
use crate::{Birth, Fact, Matched};
use cluster::session_plane::Hlc;

mod records;

type Sample = Copies<Value, ()>;
type Naive = BTreeMap<Slot, SlotCopy<Value, ()>>;

const SLOTS: u16 = 3;

/// Step of a node with copies of a few slots.
#[derive(Debug, Clone)]
enum Step {
    /// Takes the numbers up to an event, which is for `of` those of `slots`.
    Take {
        event: Index,
        more: u64,
        slots: u8,
        of: u8,
    },
    Need(u8, Vec<Index>),
    Claim(u8),
    Merge(u16, u16),
    Make(u16, Vec<Index>),
    Remove(u16),
}

fn slot(number: u16) -> Slot {
    Slot::new(number).expect("a sample is in range")
}

fn set(bits: u8) -> SlotSet {
    let slots = (0..SLOTS).filter(|number| bits >> number & 1 == 1);
    slots.map(slot).collect()
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let some = || proptest::collection::vec(any::<Index>(), 0..5);
    // Mostly all slots, as in a cluster that is at rest.
    let mask = || prop_oneof![3 => Just(0xFF_u8), 1 => any::<u8>()];
    let take = (any::<Index>(), 0..4_u64, mask(), any::<u8>());
    let take = take.prop_map(|(event, more, slots, of)| Step::Take {
        event,
        more,
        slots,
        of,
    });
    let step = prop_oneof![
        10 => take,
        2 => (mask(), some()).prop_map(|(slots, known)| Step::Need(slots, known)),
        6 => mask().prop_map(Step::Claim),
        1 => (0..SLOTS, 0..SLOTS).prop_map(|(one, other)| Step::Merge(one, other)),
        1 => (0..SLOTS, some()).prop_map(|(slot, known)| Step::Make(slot, known)),
        1 => (0..SLOTS).prop_map(Step::Remove),
    ];
    proptest::collection::vec(step, 0..50)
}

fn effect(event: &Event) -> Effect<Value, ()> {
    match &event.change {
        Some(change) => Effect::Change(change.clone()),
        None => Effect::Message(Pending {
            clock: event.clock,
            message: (),
        }),
    }
}

fn known(history: &[Event], some: &[Index]) -> VersionVector {
    let dots = some.iter().map(|index| index.get(history).dot);
    vector_of(&dots.collect())
}

fn take(copies: &mut Sample, naive: &mut Naive, event: &Event, taken: &TakenNumbers<'_, Value, ()>) {
    for (slot, copy) in naive.iter_mut().filter(|(slot, _)| taken.slots.contains(**slot)) {
        if taken.effects.iter().any(|of| of.slot == *slot) {
            crate::copy::tests::take_event(copy, event);
        }
        copy.take(taken.numbers).expect("few intervals");
    }
    let refused = copies.take(taken.clone());
    assert_eq!(refused, Ok(SlotSet::default()));
}

fn step(copies: &mut Sample, naive: &mut Naive, history: &[Event], step: &Step) {
    match step {
        Step::Take {
            event,
            more,
            slots,
            of,
        } => {
            let event = event.get(history);
            let first = event.dot.number.saturating_sub(*more).max(1);
            let slots = set(*slots);
            let taken = TakenNumbers {
                numbers: Interval::new(event.dot.run, first, event.dot.number).expect("ascending"),
                slots: &slots,
                effects: effects(&set(*of), &effect(event)),
            };
            take(copies, naive, event, &taken);
        }
        Step::Need(slots, some) => {
            let (slots, known) = (set(*slots), known(history, some));
            copies.need(&slots, &known).expect("few intervals");
            for (_, copy) in naive.iter_mut().filter(|(slot, _)| slots.contains(**slot)) {
                copy.need(&known).expect("few intervals");
            }
        }
        Step::Claim(slots) => claim(copies, naive, &set(*slots)),
        Step::Merge(one, other) => {
            let Some(other) = naive.get(&slot(*other)).cloned() else {
                return;
            };
            copies.change(slot(*one), |copy| {
                copy.merge(other.clone()).expect("few intervals");
            });
            if let Some(copy) = naive.get_mut(&slot(*one)) {
                copy.merge(other).expect("few intervals");
            }
        }
        Step::Make(number, some) => {
            let known = known(history, some);
            copies.make(&SlotSet::from_iter([slot(*number)]), known.clone());
            naive.entry(slot(*number)).or_insert_with(|| SlotCopy::new(known));
        }
        Step::Remove(number) => {
            copies.remove(slot(*number));
            naive.remove(&slot(*number));
        }
    }
}

/// Copy of its own with what a copy has, for the matcher of the tests of copies.
fn matched_in(copy: &CopyRef<'_, Value>, message: Dot, pending: &Pending<()>) -> Vec<Matched<Value>> {
    let copy = SlotCopy::whole(copy.entries.clone(), copy.covered.clone());
    matched(&copy, message, pending)
}

fn claim(copies: &mut Sample, naive: &mut Naive, slots: &SlotSet) {
    let mut queued = copies.claim(slots, matched_in);
    let mut expected = Vec::new();
    for (slot, copy) in naive.iter_mut().filter(|(slot, _)| slots.contains(**slot)) {
        let claimed = copy.claim(|copy, message, pending| {
            let found = matched(copy, message, pending);
            expected.extend(found.iter().map(|matched| ClaimedMessage {
                slot: *slot,
                client: matched.client.clone(),
                message,
            }));
            found
        });
        assert_eq!(claimed.is_ok(), copy.is_whole());
    }
    queued.sort();
    expected.sort();
    assert_eq!(queued, expected);
    assert_eq!(cohorts(copies), distinct_sets(naive), "equal sets are shared");
}

/// Number of cohorts.
fn cohorts<V: Ord + QueueValue, M>(copies: &Copies<V, M>) -> usize {
    copies.all_sets().count()
}

fn distinct_sets(naive: &Naive) -> usize {
    let sets = naive
        .values()
        .map(|copy| [copy.covered(), copy.taken(), copy.holes()]);
    sets.collect::<BTreeSet<_>>().len()
}

fn assert_same(copies: &Sample, naive: &Naive) {
    assert_eq!(copies.slots(), naive.keys().copied().collect());
    for (slot, expected) in naive {
        let copy = copies.get(*slot).expect("the slot has a copy");
        assert_eq!(copy.entries, expected.entries());
        let sets = [copy.covered, copy.taken, copy.holes];
        assert_eq!(sets, [expected.covered(), expected.taken(), expected.holes()]);
        assert!(copies.pending(*slot).eq(expected.pending()));
        let same = copies.clone().change(*slot, |copy| copy == expected);
        assert_eq!(same, Some(true));
    }
    let mut known = VersionVector::default();
    for copy in naive.values() {
        known.unite(copy.covered()).expect("few intervals");
        known.unite(copy.taken()).expect("few intervals");
    }
    assert_eq!(copies.known(), Ok(known));
}

/// Copies of all slots, without holes.
fn all_whole() -> (Sample, Naive) {
    let (mut copies, mut naive) = (Sample::default(), Naive::default());
    copies.make(&set(7), VersionVector::default());
    for slot in (0..SLOTS).map(slot) {
        naive.insert(slot, SlotCopy::new(VersionVector::default()));
    }
    (copies, naive)
}

proptest! {
    #[test]
    fn copies_are_as_if_each_had_its_own_sets(history in histories(), steps in steps()) {
        let (mut copies, mut naive) = all_whole();
        for each in &steps {
            step(&mut copies, &mut naive, &history, each);
            assert_same(&copies, &naive);
        }
    }
}

/// The same effect in each slot.
fn effects<V: Clone, M: Clone>(slots: &SlotSet, effect: &Effect<V, M>) -> Vec<SlotEffect<V, M>> {
    let of = |slot| SlotEffect {
        slot,
        effect: effect.clone(),
    };
    slots.iter().map(of).collect()
}

fn taken(first: u64, last: u64, slots: &SlotSet) -> TakenNumbers<'_, Value, ()> {
    TakenNumbers {
        numbers: Interval::new(run(0), first, last).expect("ascending"),
        slots,
        effects: Vec::new(),
    }
}

/// Slots whose copies have taken an event.
fn with_taken(copies: &Sample, event: Dot) -> SlotSet {
    let has_taken = |slot: &Slot| copies.get(*slot).is_some_and(|copy| copy.taken.covers(event));
    copies.slots().iter().filter(has_taken).collect()
}

#[test]
fn a_hole_that_closes_leaves_the_copies_together() {
    let (mut copies, _) = all_whole();
    let known = vector_of(&[dot(0, 1)].into());
    copies.need(&set(7), &known).expect("room");
    assert_eq!(copies.take(taken(2, 3, &set(7))), Ok(SlotSet::default()));
    assert_eq!(copies.claim(&set(7), matched_in), Vec::new());
    assert!(copies.get(slot(0)).is_some_and(|copy| copy.covered.is_empty()));
    assert_eq!(copies.take(taken(1, 1, &set(7))), Ok(SlotSet::default()));
    assert_eq!(copies.claim(&set(7), matched_in), Vec::new());
    assert_eq!(cohorts(&copies), 1);
    let copy = copies.get(slot(0));
    assert!(copy.is_some_and(|copy| copy.covered.covers(dot(0, 3))));
}

#[test]
fn copies_that_numbers_are_not_for_are_divided_and_united() {
    for (first, then) in [(0b011, 0b100), (0b100, 0b011)] {
        let (mut copies, _) = all_whole();
        assert_eq!(copies.take(taken(1, 3, &set(first))), Ok(SlotSet::default()));
        assert_eq!(with_taken(&copies, dot(0, 3)), set(first));
        assert_eq!(cohorts(&copies), 2);
        // The others have these numbers, and are not divided.
        assert_eq!(copies.take(taken(1, 3, &set(0b001))), Ok(SlotSet::default()));
        assert_eq!(cohorts(&copies), if first == 0b011 { 2 } else { 3 });
        assert_eq!(copies.take(taken(1, 3, &set(then))), Ok(SlotSet::default()));
        copies.claim(&set(0), matched_in);
        assert_eq!(cohorts(&copies), 1);
    }
}

/// Some have not merged.
#[test]
fn copies_that_may_not_claim_lag_behind() {
    let (mut copies, _) = all_whole();
    assert_eq!(copies.take(taken(1, 3, &set(7))), Ok(SlotSet::default()));
    copies.claim(&set(0b101), matched_in);
    assert_eq!(with_taken(&copies, dot(0, 3)), set(0b010));
    assert_eq!(cohorts(&copies), 2);
    copies.claim(&set(7), matched_in);
    assert_eq!(cohorts(&copies), 1);
}

#[test]
fn an_event_that_is_refused_is_a_hole_in_its_slot_alone() {
    let (mut copies, _) = all_whole();
    let birth = Birth {
        dot: dot(0, 1),
        clock: Hlc::ZERO,
        is_clean: false,
    };
    let fact = Fact::Delivery { message: dot(0, 0) };
    let change = Change {
        dot: dot(0, 3),
        client: client(1),
        removes: Vec::new(),
        adds: Some(entry_of(fact, birth, Hlc::ZERO, dot(0, 3))),
    };
    for is_alone in [false, true] {
        if is_alone {
            let behind = vector_of(&[dot(1, 1)].into());
            copies.need(&set(0b010), &behind).expect("room");
        }
        let mut copies = copies.clone();
        let all = set(7);
        let mut numbers = taken(1, 3, &all);
        numbers.effects = effects(&[slot(1)].into_iter().collect(), &Effect::Change(change.clone()));
        assert_eq!(copies.take(numbers), Ok(set(0b010)));
        let refused = copies.get(slot(1)).expect("a copy");
        assert!(refused.holes.covers(dot(0, 3)) && !refused.holes.covers(dot(0, 2)));
        assert_eq!(refused.taken.last_event(run(0)), 2);
        let other = copies.get(slot(0)).expect("a copy");
        assert!(other.holes.is_empty() && other.taken.covers(dot(0, 3)));
    }
}

#[test]
fn pending_messages_beyond_the_limit_are_refused() {
    let (mut copies, _) = all_whole();
    let message = || {
        Effect::Message(Pending {
            clock: Hlc::ZERO,
            message: (),
        })
    };
    let all = set(7);
    for number in 1..=PENDING_MAX as u64 + 1 {
        let mut numbers = taken(number, number, &all);
        numbers.effects = effects(&[slot(0)].into_iter().collect(), &message());
        let is_beyond = number > PENDING_MAX as u64;
        let refused = if is_beyond { set(1) } else { set(0) };
        assert_eq!(copies.take(numbers), Ok(refused), "{number}");
    }
    assert_eq!(copies.slots_with_holes(), set(1));
    assert_eq!(copies.pending(slot(0)).count(), PENDING_MAX);
}

/// A node that goes by changes alone learns of topics that go with their copy.
#[test]
fn topics_change_with_their_copy() {
    let slots = SlotSet::from_iter([Slot::RETAINED]);
    let retain = |copies: &mut Sample, of: u8, removes: Vec<Dot>| {
        let number = u64::from(of);
        let is_removal = !removes.is_empty();
        let dot = dot(0, number);
        let birth = Birth {
            dot,
            clock: Hlc::ZERO,
            is_clean: false,
        };
        let change = Change {
            dot,
            client: client(if is_removal { of - 1 } else { of }),
            removes,
            adds: (!is_removal).then(|| entry_of(Fact::Retained, birth, Hlc::ZERO, dot)),
        };
        let taken = TakenNumbers {
            numbers: Interval::new(run(0), number, number).expect("one number"),
            slots: &slots,
            effects: effects(&slots, &Effect::Change(change)),
        };
        assert_eq!(copies.take(taken), Ok(SlotSet::default()));
    };
    let mut copies = Sample::default();
    copies.make(&slots, VersionVector::default());
    retain(&mut copies, 1, Vec::new());
    assert_eq!(copies.take_topics(), BTreeSet::from([client(1)]));
    retain(&mut copies, 2, Vec::new());
    retain(&mut copies, 3, vec![dot(0, 2)]);
    copies.remove(Slot::RETAINED);
    copies.make(&slots, VersionVector::default());
    assert_eq!(copies.take_topics(), BTreeSet::from([client(1), client(2)]));
    assert_eq!(copies.take_topics(), BTreeSet::new());
}
