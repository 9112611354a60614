//! Answers of a holder: when they begin, and what they are as of then.

use cluster::session_plane::Hlc;

use super::*;
use crate::copy::tests::history::{client, dot};
use crate::copy::tests::vector_of;
use crate::{
    Birth, Change, ClientEntry, CopyParts, Dot, Entry, EntryKind, Fact, Pending, PendingMessage, Run,
    SlotCopy, SlotSet, VersionVector,
};

const BYTES_MAX: usize = 1_000;

fn dots(dots: &[Dot]) -> VersionVector {
    vector_of(&dots.iter().copied().collect())
}

fn ask(question: u64, positions: &[RunPosition]) -> AskSlot {
    AskSlot {
        id: answer_id(question),
        positions: positions.to_vec(),
        lacking: VersionVector::default(),
    }
}

fn answer_id(question: u64) -> AnswerId {
    AnswerId {
        slot: slot(SLOT),
        question: QuestionId(question),
    }
}

fn change(of: Dot, removes: &[Dot], value: Option<Value>) -> Change<Value> {
    let birth = Birth {
        dot: of,
        clock: Hlc::ZERO,
        is_clean: false,
    };
    let adds = value.map(|value| Entry {
        birth,
        clock: Hlc::ZERO,
        fact: Fact::Connection,
        value,
    });
    Change {
        dot: of,
        client: client(0),
        removes: removes.to_vec(),
        adds,
    }
}

/// Copy with connections of these dots, which covers `covered`.
fn copy_of(covered: &[Dot], entries: &[Dot]) -> Sample {
    let entry = |dot: &Dot| ClientEntry {
        client: client(0),
        dot: *dot,
        entry: change(*dot, &[], Some(0)).adds.expect("it adds"),
    };
    let parts = CopyParts {
        covered: dots(covered),
        taken: VersionVector::default(),
        holes: VersionVector::default(),
        pending: Vec::new(),
        single: Vec::new(),
        entries: entries.iter().map(entry).collect(),
    };
    SlotCopy::from_parts(parts).expect("a copy")
}

fn connections(copy: &Sample) -> Vec<Dot> {
    let client = client(0);
    let live = copy.live(client.as_bytes(), EntryKind::Connection);
    live.map(|(dot, _)| dot).collect()
}

fn begin(holder: &mut Holder<Value, ()>, received: impl Fn(Run) -> Option<u64>) -> usize {
    let mut actions = Vec::new();
    holder.begin_ready(received, |_| Held::default(), &mut actions);
    actions.len()
}

#[test]
fn an_answer_begins_when_each_present_run_was_taken_up_to_its_position() {
    let mut holder = Holder::new(holder_limits(BYTES_MAX));
    let (one, gone) = (dot(1, 1).run, dot(2, 1).run);
    let at = |run| RunPosition { run, number: 7 };
    holder
        .receive_question(node(1), ask(1, &[at(one), at(gone)]))
        .expect("room");
    let received = |number| move |run: Run| (run == one).then_some(number);
    assert_eq!(begin(&mut holder, received(6)), 0);
    assert!(holder.is_asked(slot(SLOT)));
    assert!(!holder.is_answering(slot(SLOT)));
    assert_eq!(begin(&mut holder, received(7)), 1);
    assert!(holder.is_answering(slot(SLOT)));
    assert!(!holder.is_answering(slot(SLOT + 1)));
    assert_eq!(begin(&mut holder, received(8)), 0, "once");
}

#[test]
fn answers_beyond_the_limit_wait() {
    let mut holder = Holder::new(holder_limits(BYTES_MAX));
    for peer in 1..=3 {
        holder.receive_question(node(peer), ask(1, &[])).expect("room");
    }
    assert_eq!(begin(&mut holder, |_| None), 2);
    assert_eq!(begin(&mut holder, |_| None), 0);
    holder.give_up(node(1));
    assert_eq!(begin(&mut holder, |_| None), 1);
}

#[test]
fn a_later_question_voids_the_earlier_one() {
    let mut holder = Holder::new(holder_limits(BYTES_MAX));
    holder.receive_question(node(1), ask(2, &[])).expect("room");
    begin(&mut holder, |_| None);
    holder.receive_question(node(1), ask(1, &[])).expect("ignored");
    assert!(holder.is_answering(slot(SLOT)));
    holder.receive_drop(node(1), answer_id(1));
    assert!(holder.is_answering(slot(SLOT)));
    holder.receive_question(node(1), ask(3, &[])).expect("room");
    assert!(!holder.is_answering(slot(SLOT)));
    assert_eq!(holder.receive_merged(node(1), answer_id(2)), Ok(None));
    holder.receive_drop(node(1), answer_id(3));
    assert!(!holder.is_asked(slot(SLOT)));
}

/// Transfer from `holder` to `asker`; `meanwhile` changes the holder's copy behind the header.
fn transfer(
    asker: &mut Sample,
    holder: &mut Sample,
    held: impl Fn(Held<Value, ()>) -> Held<Value, ()>,
    mut meanwhile: impl FnMut(&mut Sample),
) -> Option<Served> {
    let mut asking = Asker::new(asker_limits(BYTES_MAX));
    let mut holding = Holder::new(holder_limits(BYTES_MAX));
    asking.begin(slot(SLOT), &BTreeSet::from([node(2)]));
    let mut actions: Vec<Action> = Vec::new();
    asking.ask(|_| Some(Vec::new()), |_| Some(asker.covered()), &mut actions);
    while let Some(action) = actions.pop() {
        match action.message {
            Message::AskSlots(ask) => {
                for ask in ask.each() {
                    holding.receive_question(node(1), ask).expect("room");
                }
                let copy = &*holder;
                holding.begin_ready(|_| None, |_| held(Held::of_copy(copy)), &mut actions);
                meanwhile(holder);
            }
            Message::AskPart(ask) => holding
                .receive_ask_part(node(1), &ask, Some(holder.entries()), &mut actions)
                .expect("the next part"),
            Message::SlotPart(part) => {
                asking
                    .receive_part(node(2), part, asker, &mut actions)
                    .map(drop)
                    .expect("the next part");
            }
            Message::SlotsMerged(merged) => {
                let id = merged.answers().next().expect("one slot");
                return holding.receive_merged(node(1), id).expect("an answer");
            }
            Message::SlotDigests(_) | Message::DropQuestion(_) | Message::Offer { .. } => {
                unreachable!("nothing ends")
            }
        }
    }
    None
}

/// The holder removes a connection after its answer has begun, and covers that. The answer does
/// not cover the removal: a copy that had not heard of the connection gets it by the stream.
#[test]
fn vectors_and_single_dots_are_as_of_the_begin() {
    let mut asker = copy_of(&[dot(0, 1)], &[dot(0, 1)]);
    let mut holder = copy_of(&[dot(0, 1)], &[dot(0, 1)]);
    let removal = change(dot(1, 1), &[dot(0, 1), dot(2, 1)], None);
    transfer(
        &mut asker,
        &mut holder,
        |held| held,
        |holder| {
            holder.apply(removal.clone()).expect("room");
        },
    );
    assert_eq!(*asker.covered(), dots(&[dot(0, 1)]));
    assert!(asker.taken().is_empty());
    assert!(!asker.covers(client(0).as_bytes(), dot(2, 1)));
    assert_eq!(connections(&asker), [], "entries may be later");
}

#[test]
fn an_answer_brings_pending_messages_and_single_dots() {
    let mut holder = Sample::new(dots(&[dot(2, 2)]));
    let (clock, message) = (Hlc::ZERO, ());
    holder
        .take_message(dot(0, 1), Pending { clock, message })
        .expect("room");
    holder.apply(change(dot(1, 1), &[dot(2, 1)], None)).expect("room");
    let mut asker = Sample::new(VersionVector::default());
    let expected = holder.clone();
    transfer(&mut asker, &mut holder, |held| held, |_| ());
    assert_eq!(asker, expected);
}

/// Rule `own-unconfirmed`: as if the asker had taken the events by stream.
#[test]
fn an_answer_brings_the_holders_own_unconfirmed_events() {
    let mut holder = copy_of(&[dot(1, 4)], &[]);
    let mut asker = copy_of(&[dot(0, 1)], &[dot(0, 1)]);
    let (clock, message) = (Hlc::ZERO, ());
    let pending = Pending { clock, message };
    let own = vec![
        OwnEvent::Change(change(dot(1, 1), &[dot(0, 1)], Some(5))),
        OwnEvent::Message(PendingMessage {
            dot: dot(1, 2),
            pending,
        }),
        OwnEvent::Change(change(dot(1, 4), &[], Some(5))),
    ];
    let held = |mut held: Held<Value, ()>| {
        held.own.clone_from(&own);
        held.begin.own = dots(&[dot(1, 1), dot(1, 2), dot(1, 3)]);
        held
    };
    transfer(&mut asker, &mut holder, held, |_| ());
    assert_eq!(*asker.covered(), dots(&[dot(0, 1), dot(1, 4)]));
    assert_eq!(*asker.taken(), dots(&[dot(1, 1), dot(1, 2), dot(1, 3)]));
    let pending: Vec<Dot> = asker.pending().map(|(dot, _)| dot).collect();
    assert_eq!(pending, [dot(1, 2)]);
    assert_eq!(connections(&asker), [dot(1, 1)], "the holder has removed 1:4");
}

/// Two owners may match a message with different subscriptions.
#[test]
fn of_two_values_of_an_entry_the_greater_one_stays() {
    for (mine, theirs) in [(3, 4), (4, 3)] {
        let with = |value| {
            let mut copy = Sample::new(VersionVector::default());
            copy.apply(change(dot(0, 1), &[], Some(value))).expect("room");
            copy.claim(|_, _, _| Vec::new()).expect("whole");
            copy
        };
        let (mut asker, mut holder) = (with(mine), with(theirs));
        transfer(&mut asker, &mut holder, |held| held, |_| ());
        assert_eq!(asker, with(4), "{mine} and {theirs}");
    }
}

#[test]
fn an_answer_that_began_abandoned_is_late() {
    for is_abandoned in [true, false] {
        let mut copies = [copy_of(&[], &[]), copy_of(&[], &[])];
        let [asker, holder] = &mut copies;
        let held = |held: Held<Value, ()>| Held { is_abandoned, ..held };
        let served = transfer(asker, holder, held, |_| ());
        assert_eq!(
            served,
            Some(Served {
                slot: slot(SLOT),
                owner: node(1),
                is_late: is_abandoned
            })
        );
    }
}

/// What the node takes as an owner is not in an answer that began before.
#[test]
fn an_answer_is_not_late_once_a_ring_names_the_node_again() {
    for (regained, is_late) in [(SLOT, false), (SLOT + 1, true)] {
        let mut holder: Holder<Value, ()> = Holder::new(holder_limits(BYTES_MAX));
        holder.receive_question(node(1), ask(1, &[])).expect("room");
        let held = |_: &AskSlot| Held {
            is_abandoned: true,
            ..Held::default()
        };
        holder.begin_ready(|_| None, held, &mut Vec::new());
        holder.regain(&SlotSet::from_iter([slot(regained)]));
        let compare = AskPart {
            id: answer_id(1),
            part: 1,
            wanted: Wanted::Compare {
                covered: VersionVector::default(),
            },
        };
        let asked = holder.receive_ask_part(node(1), &compare, None, &mut Vec::new());
        asked.expect("the next part");
        let served = holder.receive_merged(node(1), answer_id(1)).expect("an answer");
        assert_eq!(served.map(|served| served.is_late), Some(is_late));
    }
}

/// The answer is merged, and nothing that beats others is gone.
const MERGED: PartReceived<Value> = PartReceived::Merged { removed: Vec::new() };

/// Begin of an answer with a digest, and what the asker of `mine` makes of it.
fn receive_digest(mine: &mut Sample, theirs: &Sample) -> PartReceived<Value> {
    let mut asking: Asker<Value, ()> = Asker::new(asker_limits(BYTES_MAX));
    let mut holding: Holder<Value, ()> = Holder::new(holder_limits(BYTES_MAX));
    asking.begin(slot(SLOT), &BTreeSet::from([node(2)]));
    let mut actions = Vec::new();
    asking.ask(|_| Some(Vec::new()), |_| Some(mine.covered()), &mut actions);
    holding.receive_question(node(1), ask(1, &[])).expect("room");
    let mut answers = Vec::new();
    holding.begin_ready(|_| None, |_| held_with_digest(theirs), &mut answers);
    let Some(Message::SlotDigests(digests)) = answers.pop().map(|action| action.message) else {
        panic!("the copy has nothing but entries");
    };
    let begin = (&digests.begin, &digests.slots[0]);
    let received = asking.receive_digest(node(2), answer_id(1), begin, mine, &mut Vec::new());
    let received = received.expect("the begin");
    let is_merged = received == MERGED;
    assert_eq!(asking.is_merged(slot(SLOT)), is_merged);
    assert!(holding.receive_merged(node(1), answer_id(1)).is_ok());
    received
}

#[test]
fn a_copy_with_equal_entries_is_merged_when_the_answer_begins() {
    let both = [dot(0, 1), dot(1, 1)];
    let mut mine = copy_of(&both, &[dot(0, 1)]);
    let theirs = copy_of(&[dot(0, 1), dot(2, 1)], &[dot(0, 1)]);
    assert_eq!(receive_digest(&mut mine, &theirs), MERGED);
    assert_eq!(mine.covered(), &dots(&[dot(0, 1), dot(1, 1), dot(2, 1)]));
    assert_eq!(connections(&mine), [dot(0, 1)]);
    let fewer = copy_of(&both, &[]);
    assert_eq!(
        receive_digest(&mut mine, &fewer),
        PartReceived::Staged,
        "one is removed"
    );
    let other = copy_of(&both, &[dot(1, 1)]);
    assert_eq!(
        receive_digest(&mut mine, &other),
        PartReceived::Staged,
        "as many, and others"
    );
}

/// The holder has decided upon an event that the asker has only taken: the entry of the one does not stand for
/// that of the other.
#[test]
fn an_entry_of_an_event_that_is_not_shared_is_compared() {
    let mut mine = copy_of(&[], &[]);
    mine.apply(change(dot(0, 1), &[], Some(0))).expect("room");
    let theirs = copy_of(&[dot(0, 1)], &[dot(0, 1)]);
    assert_eq!(receive_digest(&mut mine, &theirs), PartReceived::Staged);
    assert_eq!(connections(&mine), [dot(0, 1)]);
}
