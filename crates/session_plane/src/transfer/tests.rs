use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cluster::NodeId;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::copy::tests::history::{Event, histories};
use crate::copy::tests::{
    Pair, Sample, Step as CopyStep, Value, assert_equals_naive, copy_of, play, steps as copy_steps,
};
use crate::stream::tests::{node, slot};
use pair::Exchanged;
use world::World;

mod answers;
mod beaters;
mod bytes;
mod closing;
mod handover;
mod pair;
mod parts;
mod questions;
mod refusals;
mod world;

impl TransferBytes for Value {
    fn bytes(&self) -> usize {
        size_of::<Value>()
    }
}

impl TransferValue for Value {
    fn append_digest(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_be_bytes());
    }
}

impl TransferBytes for () {
    fn bytes(&self) -> usize {
        0
    }
}

type Action = TransferAction<Value, ()>;
type Message = TransferMessage<Value, ()>;

/// Slot of the samples.
const SLOT: u16 = 9;

fn asker_limits(bytes_max: usize) -> AskerLimits {
    AskerLimits {
        slots_per_peer_max: 4,
        slots_max: 8,
        slots_per_question_max: 3,
        comparing_max: 8,
        staged_bytes_max: usize::MAX,
        question_bytes_max: bytes_max,
    }
}

fn holder_limits(part_bytes_max: usize) -> HolderLimits {
    HolderLimits {
        slots_per_peer_max: 4,
        answers_max: 2,
        part_bytes_max,
    }
}

/// Copy of the samples' slot as an answer begins with it, with a digest if it has nothing but entries.
fn held_with_digest(copy: &Sample) -> Held<Value, ()> {
    let held = Held::of_copy(copy);
    let digest = held.is_plain().then(|| digest_of(slot(SLOT), copy.entries()));
    Held { digest, ..held }
}

/// Step of the asker between two messages of a transfer.
fn asker_steps() -> impl Strategy<Value = VecDeque<CopyStep>> {
    let step = prop_oneof![
        4 => any::<Index>().prop_map(CopyStep::TakeEvent),
        1 => (any::<Index>(), 0..4_u64).prop_map(|(first, more)| CopyStep::TakeInterval(first, more)),
        1 => Just(CopyStep::Claim),
    ];
    proptest::collection::vec_deque(step, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// The asker changes meanwhile, and the holder does not.
    #[test]
    fn a_transfer_is_the_naive_merge(
        history in histories(),
        steps in copy_steps(),
        between in asker_steps(),
        bytes_max in 1..400_usize,
    ) {
        let pairs = play(&history, &steps);
        let mut exchanged = Exchanged::new(pairs[0].clone(), bytes_max);
        exchanged.run(&pairs[1], &history, between);
        assert_equals_naive(&exchanged.asker);
    }
}

/// Step of a cluster.
#[derive(Debug, Clone)]
enum Step {
    Take(usize, Index),
    Claim(usize),
    Ask(usize),
    Deliver(Index),
    /// A message comes twice.
    Repeat(Index),
    /// The second message between two nodes comes before the first.
    Reorder(Index),
    GiveUp(usize, usize),
    Reconnect(usize, usize),
    AskAgain(usize),
    Offer(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = || 0..world::NODES;
    let step = prop_oneof![
        6 => (one(), any::<Index>()).prop_map(|(node, event)| Step::Take(node, event)),
        2 => one().prop_map(Step::Claim),
        5 => one().prop_map(Step::Ask),
        24 => any::<Index>().prop_map(Step::Deliver),
        1 => any::<Index>().prop_map(Step::Repeat),
        1 => any::<Index>().prop_map(Step::Reorder),
        2 => (one(), one()).prop_map(|(node, other)| Step::GiveUp(node, other)),
        1 => (one(), one()).prop_map(|(node, other)| Step::Reconnect(node, other)),
        1 => one().prop_map(Step::AskAgain),
        1 => (one(), one()).prop_map(|(node, other)| Step::Offer(node, other)),
    ];
    proptest::collection::vec(step, 0..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn all_copies_come_to_be_one(history in histories(), steps in steps(), bytes_max in 1..400_usize) {
        let mut world = World::new(&history, bytes_max);
        for step in &steps {
            world.step(step);
        }
        world.come_to_rest();
        world.assert_all_equal();
    }

    /// Without messages, whose entries depend on what a copy had when it claimed them.
    #[test]
    fn all_copies_come_to_be_the_copy_that_has_seen_everything(
        mut history in histories(),
        steps in steps(),
        bytes_max in 1..400_usize,
    ) {
        history.retain(|event| event.change.is_some());
        prop_assume!(!history.is_empty());
        let mut world = World::new(&history, bytes_max);
        for step in &steps {
            world.step(step);
        }
        world.come_to_rest();
        world.assert_all_equal();
        prop_assert_eq!(world.copy(0), &copy_of(&history, u32::MAX));
    }
}
