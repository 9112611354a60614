//! Questions that a holder refuses by name; nothing changes.

use super::refusals::Scene;
use super::*;
use crate::copy::tests::history::{client, dot};
use crate::{SlotCopy, VersionVector};

#[test]
fn questions_that_cannot_be_next_are_refused() {
    let mut scene = Scene::new(10_000);
    let part = scene.begin();
    let ask = scene.receive(part);
    let change = |change: fn(&mut AskPart)| {
        let mut changed = ask.clone();
        change(&mut changed);
        changed
    };
    let (expected, found) = (1, 2);
    scene.refuse_question(
        &change(|ask| ask.part = 2),
        AskError::PartOutOfOrder { expected, found },
    );
    scene.refuse_question(
        &change(|ask| ask.id.question = QuestionId(9)),
        AskError::UnknownAnswer,
    );
    scene.refuse_question(
        &change(|ask| ask.id.slot = slot(SLOT + 1)),
        AskError::UnknownAnswer,
    );
    for wanted in [Wanted::Header, Wanted::More, Wanted::Groups { after: client(1) }] {
        let mut changed = ask.clone();
        changed.wanted = wanted;
        scene.refuse_question(&changed, AskError::Unexpected);
    }
    let merged = scene.holding.receive_merged(node(1), ask.id);
    assert_eq!(merged, Err(AskError::Unexpected), "nothing was compared");
    scene.answer(&ask);
    let mut again = ask.clone();
    again.part = 2;
    scene.refuse_question(&again, AskError::Unexpected);
}

/// Question for a range, as the sample asks it, and changed.
#[track_caller]
fn check_range(change: impl FnOnce(&mut ClientRange, &mut Vec<SessionBlocks>), expected: AskError) {
    let mut scene = Scene::new(10_000);
    let part = scene.part(1);
    let ask = scene.receive(part);
    let mut changed = ask.clone();
    let Wanted::Sessions(asked) = &mut changed.wanted else {
        panic!("{ask:?}")
    };
    let Except::Blocks(blocks) = &mut asked.except else {
        panic!("{asked:?}")
    };
    assert_eq!(blocks.len(), 4);
    change(&mut asked.range, blocks);
    scene.refuse_question(&changed, expected);
    scene.answer(&ask);
}

#[test]
fn ranges_in_disorder_are_refused() {
    let (empty, disorder) = (AskError::EmptyRange, AskError::ClientsNotAscending);
    let both = |range: &mut ClientRange, of: u8| {
        (range.after, range.up_to) = (Some(client(of)), Some(client(of)));
    };
    check_range(|range, _| both(range, 3), empty);
    check_range(|_, blocks| blocks.swap(0, 1), disorder);
    check_range(|range, _| range.after = Some(client(1)), disorder);
    check_range(|range, _| range.up_to = Some(client(2)), disorder);
}

#[test]
fn blocks_in_disorder_are_refused() {
    let disorder = AskError::BlocksNotAscending;
    check_range(|_, blocks| blocks[0].blocks.clear(), disorder);
    check_range(
        |_, blocks| blocks[0].blocks = vec![blocks[0].blocks[0]; 2],
        disorder,
    );
    let long = AskError::TooLong;
    check_range(
        |_, blocks| blocks[0].blocks = vec![blocks[0].blocks[0]; 1_025],
        long,
    );
    let many = |_: &mut ClientRange, sessions: &mut Vec<SessionBlocks>| {
        let blocks = sessions[0].blocks.clone();
        *sessions = (10..40_u8)
            .map(|of| SessionBlocks {
                client: client(of),
                blocks: blocks.clone(),
            })
            .collect();
    };
    check_range(many, long);
}

#[test]
fn too_many_questions_are_refused() {
    let mut holding: Holder<Value, ()> = Holder::new(holder_limits(400));
    let ask = |number| AskSlot {
        id: AnswerId {
            slot: slot(number),
            question: QuestionId(1),
        },
        positions: Vec::new(),
        lacking: VersionVector::default(),
    };
    for number in 0..4 {
        holding.receive_question(node(1), ask(number)).expect("room");
    }
    let (peer, slots_max) = (node(1), 4);
    assert_eq!(
        holding.receive_question(node(1), ask(4)),
        Err(AskError::TooManySlots { peer, slots_max })
    );
    holding.receive_question(node(2), ask(4)).expect("another peer");
    let position = RunPosition {
        run: dot(0, 1).run,
        number: 1,
    };
    let mut long = ask(4);
    long.positions = vec![position; 101];
    assert_eq!(
        holding.receive_question(node(2), long),
        Err(AskError::TooManyPositions { count: 101 })
    );
    assert_eq!(
        holding.receive_merged(node(1), ask(0).id),
        Err(AskError::NotBegun)
    );
}

/// Passes messages between an asker and a holder without copies. Gives the answers that were merged.
fn exchange(asker: &mut Asker<Value, ()>, holder: &mut Holder<Value, ()>) -> Vec<AnswerId> {
    let mut copy = SlotCopy::new(VersionVector::default());
    let (mut messages, mut merged) = (Vec::new(), Vec::new());
    asker.ask(|_| Some(Vec::new()), |_| Some(copy.covered()), &mut messages);
    while let Some(TransferAction { message, .. }) = messages.pop() {
        match message {
            TransferMessage::AskSlots(ask) => {
                for ask in ask.each() {
                    holder
                        .receive_question(node(1), ask)
                        .expect("the holder has room");
                }
                holder.begin_ready(|_| None, |_| Held::default(), &mut messages);
            }
            TransferMessage::AskPart(ask) => {
                let asked = holder.receive_ask_part(node(1), &ask, None, &mut messages);
                asked.expect("the next part");
            }
            TransferMessage::SlotPart(part) => {
                let received = asker.receive_part(node(2), part, &mut copy, &mut messages);
                received.expect("the next part");
            }
            TransferMessage::SlotsMerged(of) => merged.extend(of.answers()),
            TransferMessage::SlotDigests(_)
            | TransferMessage::DropQuestion(_)
            | TransferMessage::Offer { .. } => unreachable!(),
        }
    }
    merged
}

/// Its holder keeps the answer until then.
#[test]
fn a_merged_answer_counts_as_a_question_until_its_holder_is_told() {
    let mut asker: Asker<Value, ()> = Asker::new(asker_limits(400));
    let answers_max = 8;
    let mut holder: Holder<Value, ()> = Holder::new(HolderLimits {
        answers_max,
        ..holder_limits(400)
    });
    let holders = BTreeSet::from([node(2)]);
    for number in 0..9 {
        asker.begin(slot(number), &holders);
    }
    let merged = exchange(&mut asker, &mut holder);
    assert_eq!(merged.len(), 4);
    assert_eq!(exchange(&mut asker, &mut holder), []);
    for id in &merged[..3] {
        let served = holder.receive_merged(node(1), *id);
        assert!(served.expect("its answer").is_some());
        asker.reported(node(2), *id);
    }
    assert_eq!(exchange(&mut asker, &mut holder).len(), 3);
    asker.restart_connection(node(2));
    holder.restart_connection(node(1));
    assert_eq!(exchange(&mut asker, &mut holder).len(), 2);
    assert!(asker.has_all());
}
