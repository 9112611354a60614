//! Asking again, closing of numbers, and what ends a transfer.

use super::*;
use crate::copy::tests::history::dot;
use crate::copy::tests::vector_of;
use crate::{Dot, EVENT_NUMBER_MAX, VersionVector};

/// Asker of one slot with holders that answer with nothing but what a test says.
struct Scene {
    asker: Asker<Value, ()>,
    copy: Sample,
    holders: BTreeMap<NodeId, Holder<Value, ()>>,
    begins: BTreeMap<NodeId, AnswerBegin>,
}

/// QoS 2 number of a run.
fn number(run: u64, number: u64) -> Dot {
    dot(run, EVENT_NUMBER_MAX + number)
}

fn dots(dots: &[Dot]) -> VersionVector {
    vector_of(&dots.iter().copied().collect())
}

fn merged_begin() -> AnswerBegin {
    AnswerBegin {
        has_merged_all: true,
        ..AnswerBegin::default()
    }
}

impl Scene {
    /// The nodes 2 to 4 hold, and the copy lacks `holes`.
    fn new(holes: &[Dot]) -> Scene {
        let peers: BTreeSet<NodeId> = (2..=4).map(node).collect();
        let mut asker = Asker::new(asker_limits(100));
        asker.begin(slot(SLOT), &peers);
        let holder = |peer: &NodeId| (*peer, Holder::new(holder_limits(100)));
        Scene {
            asker,
            copy: Sample::new(dots(holes)),
            holders: peers.iter().map(holder).collect(),
            begins: peers.iter().map(|peer| (*peer, merged_begin())).collect(),
        }
    }

    fn peers(&self) -> BTreeSet<NodeId> {
        self.holders.keys().copied().collect()
    }

    fn ask(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        let copy = &self.copy;
        self.asker
            .ask(|_| Some(Vec::new()), |_| Some(copy.covered()), &mut actions);
        actions
    }

    /// Delivers what `of` is sent and what it sends, until it answers no more.
    fn deliver(&mut self, actions: Vec<Action>, of: u64) -> Vec<Action> {
        let (mut under_way, mut others) = (VecDeque::from(actions), Vec::new());
        while let Some(action) = under_way.pop_front() {
            if action.to != node(of) {
                others.push(action);
                continue;
            }
            for answer in self.answer(action) {
                let Message::SlotPart(part) = answer.message else {
                    panic!("a holder sends parts")
                };
                let mut next = Vec::new();
                self.asker
                    .receive_part(node(of), part, &mut self.copy, &mut next)
                    .map(drop)
                    .expect("the next part");
                under_way.extend(next);
            }
        }
        others
    }

    /// Messages with which the receiver of `action` answers.
    fn answer(&mut self, action: Action) -> Vec<Action> {
        let mut answers = Vec::new();
        let holder = self.holders.get_mut(&action.to).expect("a holder");
        let begin = self.begins.get(&action.to).expect("a holder");
        match action.message {
            Message::AskSlots(ask) => {
                for ask in ask.each() {
                    holder.receive_question(node(1), ask).expect("room");
                }
                let held = |_: &AskSlot| Held {
                    begin: begin.clone(),
                    ..Held::default()
                };
                holder.begin_ready(|_| None, held, &mut answers);
            }
            Message::AskPart(ask) => holder
                .receive_ask_part(node(1), &ask, None, &mut answers)
                .expect("the next part"),
            Message::SlotsMerged(merged) => {
                for id in merged.answers() {
                    holder.receive_merged(node(1), id).expect("an answer");
                }
            }
            Message::DropQuestion(id) => holder.receive_drop(node(1), id),
            Message::SlotDigests(_) | Message::SlotPart(_) | Message::Offer { .. } => {
                unreachable!("not for a holder")
            }
        }
        answers
    }

    fn deliver_all(&mut self) {
        let mut actions = self.ask();
        for _ in 0..2 {
            for of in 2..=4 {
                if self.holders.contains_key(&node(of)) {
                    actions = self.deliver(actions, of);
                }
            }
        }
        assert_eq!(actions, []);
    }

    fn ask_again(&mut self, holes: &[Dot]) {
        let peers = self.peers();
        self.asker.ask_again(slot(SLOT), &dots(holes), &peers);
    }

    fn has_answers_about(&self, holes: &[Dot]) -> bool {
        self.asker.has_answers_about(slot(SLOT), &dots(holes))
    }

    fn close(&mut self, holes: &[Dot]) {
        let peers = self.peers();
        self.asker.begin_closing(slot(SLOT), &dots(holes), &peers);
    }

    fn try_close(&mut self, limits: &ClosingLimits) -> bool {
        let closed = self.asker.close(slot(SLOT), limits, &mut self.copy);
        closed.expect("one interval for each run")
    }

    fn is_merged(&self) -> bool {
        self.asker.is_merged(slot(SLOT))
    }
}

#[test]
fn a_number_is_closed_when_all_have_answered_since_the_question() {
    let mut scene = Scene::new(&[dot(0, 1), dot(0, 2)]);
    let first = scene.ask();
    scene.close(&[dot(0, 1)]);
    let under_way: Vec<Action> = (2..=4).fold(first, |actions, of| scene.deliver(actions, of));
    assert_eq!(under_way, []);
    assert!(!scene.is_merged(), "the answers are to an earlier question");
    assert!(!scene.try_close(&ClosingLimits::default()));
    scene.deliver_all();
    assert!(scene.is_merged());
    assert!(scene.try_close(&ClosingLimits::default()));
    assert_eq!(*scene.copy.holes(), dots(&[dot(0, 2)]));
    assert!(!scene.try_close(&ClosingLimits::default()), "once");
}

#[test]
fn the_question_names_the_numbers_that_are_lacking() {
    let mut scene = Scene::new(&[dot(0, 1), number(1, 3)]);
    scene.close(&[dot(0, 1), number(1, 3)]);
    let asked = scene.ask();
    let lacking = asked.iter().map(|action| match &action.message {
        Message::AskSlots(ask) => ask.lacking.clone(),
        other => panic!("{other:?}"),
    });
    assert_eq!(lacking.collect::<Vec<_>>(), vec![dots(&[number(1, 3)]); 3]);
}

#[test]
fn later_numbers_of_a_present_run_are_not_closed() {
    let mut scene = Scene::new(&[dot(0, 1), dot(0, 2), dot(1, 5)]);
    scene.close(&[dot(0, 1), dot(0, 2), dot(1, 5)]);
    scene.deliver_all();
    let run = dot(0, 1).run;
    let limits = ClosingLimits {
        present: vec![RunPosition { run, number: 1 }],
        reserved: VersionVector::default(),
    };
    assert!(scene.try_close(&limits));
    assert_eq!(*scene.copy.holes(), dots(&[dot(0, 2)]));
}

#[test]
fn holders_have_answered_about_the_holes_that_they_were_asked_for() {
    let mut scene = Scene::new(&[dot(0, 1)]);
    scene.deliver_all();
    assert!(scene.has_answers_about(&[]));
    assert!(!scene.has_answers_about(&[dot(0, 1)]), "nobody was asked for it");
    scene.ask_again(&[dot(0, 1)]);
    assert!(!scene.has_answers_about(&[dot(0, 1)]), "nobody has answered");
    scene.deliver_all();
    assert!(scene.has_answers_about(&[dot(0, 1)]));
    let later = [dot(0, 1), dot(0, 2)];
    assert!(!scene.has_answers_about(&later), "one is known since");
}

#[test]
fn what_was_answered_before_a_node_came_or_went_says_nothing_about_holes() {
    for is_met in [true, false] {
        let mut scene = Scene::new(&[dot(0, 1)]);
        scene.ask_again(&[dot(0, 1)]);
        scene.deliver_all();
        if is_met {
            scene.asker.meet(node(4));
            scene.deliver_all();
        } else {
            let others: BTreeSet<NodeId> = [node(2), node(3)].into();
            scene.asker.give_up(node(4), &others);
        }
        assert!(scene.is_merged());
        assert!(!scene.has_answers_about(&[dot(0, 1)]));
    }
}

#[test]
fn qos_2_numbers_are_closed_by_merged_holders_only() {
    for is_merged in [true, false] {
        let mut scene = Scene::new(&[dot(0, 1), number(1, 3)]);
        if let Some(begin) = scene.begins.get_mut(&node(3)) {
            begin.has_merged_all = is_merged;
        }
        scene.close(&[dot(0, 1), number(1, 3)]);
        scene.deliver_all();
        assert!(scene.try_close(&ClosingLimits::default()));
        let left: &[Dot] = if is_merged { &[] } else { &[number(1, 3)] };
        assert_eq!(*scene.copy.holes(), dots(left), "merged: {is_merged}");
    }
}

#[test]
fn reserved_numbers_stay() {
    let mut scene = Scene::new(&[number(1, 3), number(1, 4), number(1, 5)]);
    if let Some(begin) = scene.begins.get_mut(&node(4)) {
        begin.reserved = dots(&[number(1, 4)]);
    }
    scene.close(&[number(1, 3), number(1, 4), number(1, 5)]);
    scene.deliver_all();
    let limits = ClosingLimits {
        reserved: dots(&[number(1, 5)]),
        ..ClosingLimits::default()
    };
    assert!(scene.try_close(&limits));
    assert_eq!(*scene.copy.holes(), dots(&[number(1, 4), number(1, 5)]));
}

#[test]
fn a_handshake_and_the_end_of_a_peer_end_the_closing() {
    for is_met in [true, false] {
        let mut scene = Scene::new(&[dot(0, 1)]);
        scene.close(&[dot(0, 1)]);
        if is_met {
            scene.asker.meet(node(4));
        } else {
            let others: BTreeSet<NodeId> = [node(2), node(3)].into();
            scene.asker.give_up(node(4), &others);
            scene.holders.remove(&node(4));
        }
        scene.deliver_all();
        assert!(scene.is_merged());
        assert!(!scene.try_close(&ClosingLimits::default()));
        assert_eq!(*scene.copy.holes(), dots(&[dot(0, 1)]));
    }
}

#[test]
fn when_a_holder_is_given_up_all_others_are_asked_again() {
    let mut scene = Scene::new(&[]);
    let asked = scene.ask();
    let left = scene.deliver(asked, 2);
    let others: BTreeSet<NodeId> = [node(2), node(3)].into();
    scene.asker.give_up(node(4), &others);
    scene.holders.remove(&node(4));
    let left: Vec<Action> = left.into_iter().filter(|action| action.to != node(4)).collect();
    assert_eq!(scene.deliver(left, 3), []);
    assert!(!scene.is_merged(), "both are to answer again");
    assert!(!scene.asker.has_merged(slot(SLOT)));
    let asked = scene.ask();
    let holders: Vec<NodeId> = asked.iter().map(|action| action.to).collect();
    assert_eq!(holders, [node(2), node(3)]);
    let left = scene.deliver(asked, 2);
    assert_eq!(scene.deliver(left, 3), []);
    assert!(scene.is_merged());
    assert!(scene.asker.has_merged(slot(SLOT)));
}

#[test]
fn a_holder_that_has_answered_is_given_up_without_asking_again() {
    let mut scene = Scene::new(&[]);
    scene.deliver_all();
    let others: BTreeSet<NodeId> = [node(2), node(3)].into();
    scene.asker.give_up(node(4), &others);
    assert!(scene.is_merged());
    assert_eq!(scene.ask(), []);
}

#[test]
fn who_is_met_or_offers_is_asked() {
    let mut scene = Scene::new(&[]);
    scene.deliver_all();
    scene.asker.meet(node(3));
    assert!(!scene.asker.has_merged_all());
    let asked: Vec<NodeId> = scene.ask().iter().map(|action| action.to).collect();
    assert_eq!(asked, [node(3)]);
    scene.asker.restart_connection(node(3));
    scene.deliver_all();
    assert!(scene.asker.has_merged_all());
    scene.asker.receive_offer(node(2), slot(SLOT));
    assert!(!scene.asker.has_all());
    scene.asker.receive_offer(node(2), slot(SLOT + 1));
    let asked: Vec<NodeId> = scene.ask().iter().map(|action| action.to).collect();
    assert_eq!(asked, [node(2)]);
}

#[test]
fn the_end_of_an_ownership_drops_its_questions() {
    let mut scene = Scene::new(&[]);
    scene.ask();
    let mut actions = Vec::new();
    scene.asker.end(slot(SLOT), &mut actions);
    assert_eq!(actions.len(), 3);
    assert!(
        actions
            .iter()
            .all(|action| matches!(action.message, Message::DropQuestion(_)))
    );
    assert!(!scene.is_merged());
    assert_eq!(scene.ask(), []);
}

#[test]
fn questions_wait_until_the_markers_of_all_peers_are_there() {
    let mut asker: Asker<Value, ()> = Asker::new(asker_limits(100));
    asker.begin(slot(SLOT), &BTreeSet::from([node(2)]));
    let mut actions = Vec::new();
    asker.ask(|_| None, |_| None, &mut actions);
    assert_eq!(actions, []);
    let position = RunPosition {
        run: dot(2, 1).run,
        number: 7,
    };
    asker.ask(|_| Some(vec![position]), |_| None, &mut actions);
    let [
        Action {
            message: Message::AskSlots(ask),
            ..
        },
    ] = actions.as_slice()
    else {
        panic!("one question: {actions:?}")
    };
    assert_eq!(ask.positions, [position]);
}

#[test]
fn questions_beyond_the_limits_wait_in_the_asker() {
    let mut asker: Asker<Value, ()> = Asker::new(asker_limits(100));
    for number in 0..20 {
        asker.begin(slot(number), &BTreeSet::from([node(2), node(3), node(4)]));
    }
    let mut actions = Vec::new();
    asker.ask(|_| Some(Vec::new()), |_| None, &mut actions);
    let of = |peer| slots_asked_of(&actions, node(peer));
    assert_eq!((of(2), of(3), of(4)), (3, 3, 2));
    let mut more = Vec::new();
    asker.restart_connection(node(3));
    asker.restart_connection(node(4));
    asker.give_up(node(3), &BTreeSet::from([node(2), node(4)]));
    asker.ask(|_| Some(Vec::new()), |_| None, &mut more);
    let of = |peer| slots_asked_of(&more, node(peer));
    assert_eq!(
        (of(2), of(3), of(4)),
        (0, 0, 4),
        "four for each peer, eight in all; one of them is no whole question"
    );
}

#[test]
fn slots_of_which_the_same_is_said_are_in_one_question() {
    let mut asker: Asker<Value, ()> = Asker::new(asker_limits(100));
    for number in 0..4 {
        asker.begin(slot(number), &BTreeSet::from([node(2)]));
    }
    let positions = |slot: crate::Slot| {
        let run = dot(2, 1).run;
        let number = u64::from(slot.number() % 2);
        Some(vec![RunPosition { run, number }])
    };
    let mut actions = Vec::new();
    asker.ask(positions, |_| None, &mut actions);
    let asked: Vec<usize> = actions
        .iter()
        .map(|action| match &action.message {
            Message::AskSlots(ask) => ask.slots.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(asked, [2, 2]);
}

/// Slots that the questions to a holder are for. None has more than it may.
fn slots_asked_of(actions: &[Action], holder: NodeId) -> usize {
    let slots = actions.iter().filter(|action| action.to == holder).map(|action| {
        let Message::AskSlots(ask) = &action.message else {
            panic!("{action:?}");
        };
        assert!(ask.slots.len() <= 3, "{ask:?}");
        ask.slots.len()
    });
    slots.sum()
}
