//! Bad input: it is refused by name, and changes nothing.

use cluster::session_plane::Hlc;

use super::*;
use crate::copy::tests::history::{client, dot};
use crate::copy::tests::vector_of;
use crate::{
    Birth, ClientEntry, CopyParts, CopyPartsError, Dot, Entry, EntryId, EntryKind, Fact, MisplacedEntry,
    SlotCopy, VersionVector,
};

fn dots(dots: &[Dot]) -> VersionVector {
    vector_of(&dots.iter().copied().collect())
}

fn id(dot: Dot) -> EntryId {
    EntryId {
        kind: EntryKind::Connection,
        dot,
    }
}

pub(super) fn listed(dot: Dot) -> ListedEntry<Value> {
    let birth = Birth {
        dot,
        clock: Hlc::ZERO,
        is_clean: false,
    };
    let entry = Entry {
        birth,
        clock: Hlc::ZERO,
        fact: Fact::Connection,
        value: 0,
    };
    ListedEntry { dot, entry }
}

pub(super) fn entry_of(of: u8, dot: Dot) -> ClientEntry<Value> {
    let ListedEntry { dot, entry } = listed(dot);
    let client = client(of);
    ClientEntry { client, dot, entry }
}

pub(super) fn parts() -> CopyParts<Value, ()> {
    CopyParts {
        covered: dots(&[dot(0, 1)]),
        taken: dots(&[dot(0, 2)]),
        holes: dots(&[dot(0, 3)]),
        pending: Vec::new(),
        single: Vec::new(),
        entries: vec![
            entry_of(1, dot(0, 1)),
            entry_of(2, dot(0, 1)),
            entry_of(3, dot(0, 1)),
        ],
    }
}

/// Asker that has asked, and the holder of `parts`.
pub(super) struct Scene {
    pub(super) asking: Asker<Value, ()>,
    pub(super) holding: Holder<Value, ()>,
    mine: Sample,
    theirs: Sample,
}

type Part = SlotPart<Value, ()>;

impl Scene {
    /// Both copies differ in the shared entries of the clients 1 and 2.
    pub(super) fn new(staged_bytes_max: usize) -> Scene {
        let limits = AskerLimits {
            staged_bytes_max,
            ..asker_limits(400)
        };
        let mut mine = parts();
        mine.entries.push(entry_of(4, dot(0, 1)));
        let mut theirs = parts();
        theirs.covered = dots(&[dot(0, 1), dot(1, 1), dot(1, 2)]);
        theirs.entries.remove(0);
        theirs.entries.push(entry_of(3, dot(1, 1)));
        theirs.entries.push(entry_of(3, dot(1, 2)));
        let mut asking = Asker::new(limits);
        asking.begin(slot(SLOT), &BTreeSet::from([node(2)]));
        Scene {
            asking,
            holding: Holder::new(holder_limits(400)),
            mine: SlotCopy::from_parts(mine).expect("a copy"),
            theirs: SlotCopy::from_parts(theirs).expect("a copy"),
        }
    }

    fn ask(&mut self) -> AskSlot {
        let mut actions = Vec::new();
        let mine = &self.mine;
        self.asking
            .ask(|_| Some(Vec::new()), |_| Some(mine.covered()), &mut actions);
        match actions.pop().map(|action| action.message) {
            Some(Message::AskSlots(ask)) => ask.each().next().expect("one slot"),
            other => panic!("{other:?}"),
        }
    }

    /// Puts the question; gives the first part.
    pub(super) fn begin(&mut self) -> Part {
        let ask = self.ask();
        let mut actions = Vec::new();
        self.holding.receive_question(node(1), ask).expect("room");
        let held = |_: &AskSlot| Held::of_copy(&self.theirs);
        self.holding.begin_ready(|_| None, held, &mut actions);
        part_of(actions)
    }

    /// Receives a part; gives the question for the next one.
    pub(super) fn receive(&mut self, part: Part) -> AskPart {
        let mut actions = Vec::new();
        self.asking
            .receive_part(node(2), part, &mut self.mine, &mut actions)
            .expect("the next part");
        match actions.pop().map(|action| action.message) {
            Some(Message::AskPart(ask)) => ask,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn answer(&mut self, ask: &AskPart) -> Part {
        let mut actions = Vec::new();
        self.holding
            .receive_ask_part(node(1), ask, Some(self.theirs.entries()), &mut actions)
            .expect("the next part");
        part_of(actions)
    }

    /// Part `number` of the answer.
    pub(super) fn part(&mut self, number: usize) -> Part {
        let mut part = self.begin();
        for _ in 0..number {
            let ask = self.receive(part);
            part = self.answer(&ask);
        }
        part
    }

    #[track_caller]
    fn refuse(&mut self, part: Part, expected: PartError) {
        let before = self.mine.clone();
        let mut actions = Vec::new();
        let id = part.id;
        let refused = self
            .asking
            .receive_part(node(2), part, &mut self.mine, &mut actions);
        assert_eq!(refused, Err(expected));
        assert_eq!(self.mine, before);
        assert!(!self.asking.is_merged(slot(SLOT)));
        if expected != PartError::UnknownQuestion {
            let dropped: Vec<Message> = actions.into_iter().map(|action| action.message).collect();
            assert_eq!(dropped, [Message::DropQuestion(id)], "it is asked for anew");
            self.ask();
        }
    }

    #[track_caller]
    pub(super) fn refuse_question(&mut self, ask: &AskPart, expected: AskError) {
        let mut actions = Vec::new();
        let entries = Some(self.theirs.entries());
        let refused = self.holding.receive_ask_part(node(1), ask, entries, &mut actions);
        assert_eq!(refused, Err(expected));
        assert_eq!(actions, []);
    }
}

fn part_of(mut actions: Vec<Action>) -> Part {
    assert_eq!(actions.len(), 1);
    match actions.pop().map(|action| action.message) {
        Some(Message::SlotPart(part)) => part,
        other => panic!("{other:?}"),
    }
}

/// Checks that part `number` is refused after `change`.
#[track_caller]
fn check(number: usize, change: impl FnOnce(&mut Part), expected: PartError) {
    let mut scene = Scene::new(10_000);
    let mut part = scene.part(number);
    change(&mut part);
    scene.refuse(part, expected);
}

fn groups(part: &mut Part) -> &mut Vec<Group> {
    match &mut part.content {
        PartContent::Groups(part) => &mut part.groups,
        other => panic!("{other:?}"),
    }
}

fn sessions(part: &mut Part) -> &mut SessionsPart<Value> {
    match &mut part.content {
        PartContent::Sessions(part) => part,
        other => panic!("{other:?}"),
    }
}

fn header(part: &mut Part) -> &mut HeaderPart<Value, ()> {
    match &mut part.content {
        PartContent::Header(part) => part,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_sample_is_a_transfer_of_three_parts() {
    let mut scene = Scene::new(10_000);
    let mut part = scene.part(2);
    assert_eq!(sessions(&mut part).sessions.len(), 3);
    let mut actions = Vec::new();
    let merged = scene
        .asking
        .receive_part(node(2), part, &mut scene.mine, &mut actions);
    let removed = Vec::new();
    assert_eq!(merged, Ok(PartReceived::Merged { removed }));
    let clients: Vec<_> = scene
        .mine
        .entries()
        .sessions()
        .map(|(id, _)| id.clone())
        .collect();
    assert_eq!(clients, [client(2), client(3)]);
}

#[test]
fn a_part_with_an_entry_that_its_slot_does_not_have_is_refused() {
    for fact in [Fact::Retained, Fact::Cleared] {
        let (slot, kind) = (slot(SLOT), fact.kind());
        let misplaced = PartError::Misplaced(MisplacedEntry { slot, kind });
        let misplace = |part: &mut Part| {
            let mut listed = sessions(part).sessions.iter_mut().flat_map(|of| &mut of.entries);
            listed.next().expect("an entry").entry.fact = fact;
        };
        check(2, misplace, misplaced);
    }
}

#[test]
fn an_answer_to_no_question_is_refused() {
    let unknown = PartError::UnknownQuestion;
    check(0, |part| part.id.question = QuestionId(2), unknown);
    check(0, |part| part.id.question = QuestionId(0), unknown);
}

#[test]
fn an_answer_that_is_void_changes_nothing() {
    let mut scene = Scene::new(10_000);
    let part = scene.begin();
    scene.asking.restart_connection(node(2));
    scene.ask();
    let before = scene.mine.clone();
    let mut actions = Vec::new();
    let mut receive = |from, part| {
        scene
            .asking
            .receive_part(node(from), part, &mut scene.mine, &mut actions)
    };
    assert_eq!(receive(2, part.clone()), Ok(PartReceived::Void));
    assert_eq!(receive(3, part), Ok(PartReceived::Void));
    assert_eq!(actions, []);
    assert_eq!(scene.mine, before);
}

#[test]
fn parts_out_of_order_are_refused() {
    for (found, number) in [(1, 0), (0, 1), (7, 2)] {
        let expected = PartError::PartOutOfOrder {
            expected: number,
            found,
        };
        check(number as usize, |part| part.part = found, expected);
    }
    let other = PartContent::Groups(GroupsPart { groups: Vec::new() });
    check(0, |part| part.content = other.clone(), PartError::Unexpected);
    check(2, |part| part.content = other, PartError::Unexpected);
    let misplaced = PartError::MisplacedBegin;
    check(0, |part| header(part).begin = None, misplaced);
}

#[test]
fn groups_in_disorder_are_refused() {
    let disorder = PartError::ClientsNotAscending;
    check(1, |part| groups(part).clear(), disorder);
    let behind_the_end = |part: &mut Part| {
        let end = groups(part)[0].clone();
        groups(part).push(end);
    };
    check(1, behind_the_end, disorder);
    let two = |first: u8, second: u8| {
        move |part: &mut Part| {
            let groups = groups(part);
            let end = groups[0].clone();
            groups.clear();
            groups.extend([first, second].map(|last| Group {
                last: Some(client(last)),
                ..end.clone()
            }));
            groups.push(end);
        }
    };
    check(1, two(2, 2), disorder);
    check(1, two(2, 1), disorder);
}

#[test]
fn sessions_in_disorder_are_refused() {
    let disorder = PartError::ClientsNotAscending;
    check(2, |part| sessions(part).sessions.swap(0, 1), disorder);
    check(2, |part| sessions(part).up_to = Some(client(1)), disorder);
    let has_rest_of_none = |part: &mut Part| {
        sessions(part).sessions.clear();
        sessions(part).has_rest = true;
    };
    check(2, has_rest_of_none, disorder);
    let twice = |part: &mut Part| {
        let last = sessions(part).sessions[2].clone();
        sessions(part).sessions.push(last);
    };
    check(2, twice, disorder);
}

#[test]
fn differences_that_answer_no_block_are_refused() {
    let wrong = PartError::WrongBlocks {
        expected: 1,
        found: 0,
    };
    check(2, |part| sessions(part).sessions[0].blocks.clear(), wrong);
    let disorder = PartError::EntriesNotAscending;
    let kept = |dots: &'static [(u64, u64)]| {
        move |part: &mut Part| {
            let check = EntryCheck(0);
            let kept = dots.iter().map(|(run, number)| KeptEntry {
                id: id(dot(*run, *number)),
                check,
            });
            sessions(part).sessions[0].blocks[0] = BlockAnswer::Kept(kept.collect());
        }
    };
    check(2, kept(&[(0, 1), (0, 1)]), disorder);
    check(2, kept(&[(0, 2)]), disorder);
    check(2, |part| sessions(part).sessions[1].entries.swap(0, 1), disorder);
}

#[test]
fn an_answer_that_is_no_copy_is_refused() {
    let begin = |change: fn(&mut AnswerBegin)| {
        let mut scene = Scene::new(10_000);
        let mut part = scene.begin();
        let header = header(&mut part);
        header.begin.as_mut().map(change);
        let ask = scene.receive(part);
        let part = scene.answer(&ask);
        let ask = scene.receive(part);
        let part = scene.answer(&ask);
        scene.refuse(part, PartError::NoCopy(CopyPartsError::SetsOverlap));
    };
    begin(|begin| begin.taken = begin.covered.clone());
    begin(|begin| begin.holes = begin.covered.clone());
    let zero = |part: &mut Part| {
        let entries = &mut sessions(part).sessions[1].entries;
        entries.insert(0, listed(dot(0, 0)));
    };
    check(2, zero, PartError::NoCopy(CopyPartsError::NoEvent));
    let names_zero = |part: &mut Part| {
        let entries = &mut sessions(part).sessions[1].entries;
        let connection = dot(0, 0);
        let last = entries.last_mut().expect("an entry differs");
        last.entry.fact = Fact::ConnectionEnd { connection };
    };
    check(2, names_zero, PartError::NoCopy(CopyPartsError::NoEvent));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut scene = Scene::new(200);
    let part = scene.part(1);
    let mut before = Scene::new(10_000);
    let bytes = before.begin().bytes() + part.bytes();
    assert!(bytes > 200, "{bytes}");
    let bytes_max = 200;
    scene.refuse(part, PartError::StagingFull { bytes, bytes_max });
}
