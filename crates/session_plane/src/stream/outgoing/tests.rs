use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::NodeState;
use crate::stream::tests::{OWN, node, routing, run, slot};
use naive::{Naive, SAMPLE_SLOTS};
use world::World;

mod late_copies;
mod limits;
mod naive;
mod world;

/// Step of a history.
#[derive(Debug, Clone)]
enum Step {
    /// A change for some of the sample slots, and for some nodes.
    Push(Vec<Index>, BTreeSet<u64>),
    SendEvents(u64, usize),
    SendPosition(u64),
    Confirm(u64, Index),
    SendResends(u64),
    ConfirmResend(u64, Index),
    BreakConnection(u64),
    /// Gives a present peer up, or welcomes an absent one.
    Toggle(u64),
    /// Gives a peer up, and pushes a change before the marker.
    GiveUpLate(u64),
    ChangeState(u64, NodeState),
    ConfirmWrongly(u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let peer = || 2..=5_u64;
    let states = prop_oneof![Just(NodeState::Running), Just(NodeState::Joining)];
    let slots = proptest::collection::vec(any::<Index>(), 0..3);
    let nodes = proptest::collection::btree_set(1..=5_u64, 0..3);
    let step = prop_oneof![
        8 => (slots, nodes).prop_map(|(slots, nodes)| Step::Push(slots, nodes)),
        6 => (peer(), 1..6_usize).prop_map(|(peer, count)| Step::SendEvents(peer, count)),
        2 => peer().prop_map(Step::SendPosition),
        6 => (1..=5_u64, any::<Index>()).prop_map(|(peer, to)| Step::Confirm(peer, to)),
        3 => (1..=5_u64).prop_map(Step::SendResends),
        3 => (1..=5_u64, any::<Index>()).prop_map(|(peer, which)| Step::ConfirmResend(peer, which)),
        1 => peer().prop_map(Step::BreakConnection),
        3 => peer().prop_map(Step::Toggle),
        1 => peer().prop_map(Step::GiveUpLate),
        1 => (peer(), states).prop_map(|(peer, state)| Step::ChangeState(peer, state)),
        1 => (peer(), 0..40_u64).prop_map(|(peer, number)| Step::ConfirmWrongly(peer, number)),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_stream_is_as_the_naive_one(steps in steps(), copies_min in 1..=3_usize) {
        let mut world = World::new(copies_min);
        for step in &steps {
            world.step(step);
            world.assert_equals_naive();
        }
        world.come_to_rest();
        world.assert_equals_naive();
        world.assert_at_rest();
    }
}
