use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::stream::tests::{OWN, node, routing, run, slot};
use crate::stream::{OutgoingLimits, OutgoingStream, StreamMessage};
use crate::{Dot, NodeState};
use world::World;

mod flushes;
mod refusals;
mod world;

/// Node that receives.
const RECEIVER: NodeId = NodeId(2);

/// Slots that are looked at; they differ in their owners. The last one is of every node.
const SAMPLE_SLOTS: [u16; 7] = [0, 700, 1_500, 2_100, 3_000, 4_000, 4_096];

/// Step of a history.
#[derive(Debug, Clone)]
enum Step {
    Push(Index),
    SendEvents(usize),
    SendPosition,
    /// An event is lost between the nodes.
    LoseEvent,
    BreakConnection,
    Persist(Index),
    Confirm,
    SendStable,
    /// Another peer is given up, or welcomed.
    ToggleOther(u64),
    /// The receiver is given up, and welcomed again.
    WelcomeAnew,
    Flush(Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => any::<Index>().prop_map(Step::Push),
        6 => (1..6_usize).prop_map(Step::SendEvents),
        3 => Just(Step::SendPosition),
        1 => Just(Step::LoseEvent),
        2 => Just(Step::BreakConnection),
        4 => any::<Index>().prop_map(Step::Persist),
        4 => Just(Step::Confirm),
        3 => Just(Step::SendStable),
        2 => (3..=5_u64).prop_map(Step::ToggleOther),
        1 => Just(Step::WelcomeAnew),
        4 => any::<Index>().prop_map(Step::Flush),
    ];
    proptest::collection::vec(step, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_stream_takes_each_number_by_its_ring(steps in steps(), events_max in 0..12_usize) {
        let mut world = World::new(events_max);
        for step in &steps {
            world.step(step);
            world.assert_equals_naive();
        }
        world.come_to_rest();
        world.assert_equals_naive();
        world.assert_has_all();
    }
}
