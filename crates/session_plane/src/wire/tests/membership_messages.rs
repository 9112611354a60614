//! Messages of the membership that are drawn at random.

use cluster::NodeId;
use proptest::collection::btree_map;
use proptest::prelude::*;

use super::Replication;
use super::samples::runs;
use crate::membership::{Answer, Confirm, Handshake, Introduction, Side, Stay};
use crate::{NodeState, PresentNode, Run, SwimIncarnation, View};

pub(super) fn messages() -> BoxedStrategy<Replication> {
    prop_oneof![
        introductions().prop_map(|offer| Replication::Handshake(Handshake::Offer(offer))),
        (introductions(), stays()).prop_map(|(introduction, offer)| {
            Replication::Handshake(Handshake::Answer(Answer { introduction, offer }))
        }),
        confirms().prop_map(|confirm| Replication::Handshake(Handshake::Confirm(confirm))),
        stays().prop_map(Replication::Conviction),
    ]
    .boxed()
}

pub(super) fn views() -> BoxedStrategy<View> {
    let nodes = btree_map(1..200_u64, (runs(), incarnations(), states()), 1..9);
    nodes
        .prop_map(|nodes| {
            let nodes = nodes
                .into_iter()
                .map(|(node, (run, incarnation, state))| PresentNode {
                    run: Run {
                        node: NodeId(node),
                        ..run
                    },
                    incarnation,
                    state,
                });
            View::new(nodes.collect()).expect("nodes of a view")
        })
        .boxed()
}

fn introductions() -> BoxedStrategy<Introduction> {
    let sides = (1..=100_usize, 1..=u64::MAX);
    (runs(), states(), incarnations(), sides)
        .prop_map(|(run, state, incarnation, (nodes, lowest))| Introduction {
            run,
            state,
            incarnation,
            side: Side {
                nodes,
                lowest: NodeId(lowest),
            },
        })
        .boxed()
}

fn confirms() -> BoxedStrategy<Confirm> {
    let minority = proptest::option::of((1..=u64::MAX).prop_map(NodeId));
    (introductions(), incarnations(), stays(), minority)
        .prop_map(|(introduction, offer, answer, minority)| Confirm {
            introduction,
            offer,
            answer,
            minority,
        })
        .boxed()
}

fn stays() -> BoxedStrategy<Stay> {
    (runs(), incarnations())
        .prop_map(|(run, incarnation)| Stay { run, incarnation })
        .boxed()
}

fn incarnations() -> BoxedStrategy<SwimIncarnation> {
    any::<u32>().prop_map(SwimIncarnation).boxed()
}

fn states() -> BoxedStrategy<NodeState> {
    proptest::sample::select(vec![
        NodeState::Joining,
        NodeState::Running,
        NodeState::MergeMinority,
        NodeState::Merging,
    ])
    .boxed()
}
