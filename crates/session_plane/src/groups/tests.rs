use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use proptest::prelude::*;

use super::*;
use crate::{AssignedMessage, Birth, Dot, Run};
use world::World;

mod sink;
mod source;
mod world;

fn run_of(node: u64, start: u32) -> Run {
    Run {
        node: NodeId(node),
        incarnation: Incarnation(start),
    }
}

fn run(node: u64) -> Run {
    run_of(node, 1)
}

fn dot(node: u64, number: u64) -> Dot {
    let run = run(node);
    Dot { run, number }
}

fn birth(number: u64) -> Birth {
    Birth {
        dot: dot(9, number),
        clock: Hlc::at(number),
        is_clean: false,
    }
}

fn group() -> GroupId {
    GroupId::new(b"presses").expect("a short name")
}

/// Step of a history.
#[derive(Debug, Clone)]
enum Step {
    /// Delivers the next message of a link.
    Deliver {
        from: usize,
        to: usize,
    },
    /// Delivers one message of each link.
    DeliverEach,
    /// Delivers all that can be delivered.
    DeliverAll,
    Connect {
        client: usize,
        node: usize,
    },
    Close {
        client: usize,
    },
    Subscribe {
        client: usize,
    },
    Unsubscribe {
        client: usize,
    },
    EndSession {
        client: usize,
    },
    Publish {
        node: usize,
        part: usize,
    },
    /// The client acknowledges one message.
    Acknowledge {
        client: usize,
    },
    Crash {
        node: usize,
    },
    Restart {
        node: usize,
    },
    /// Only nodes that are both in `side`, or both not, reach each other.
    Split {
        side: u8,
    },
    Cut {
        one: usize,
        other: usize,
    },
    Heal,
    /// Two nodes have a new connection: what was under way is lost.
    Renew {
        one: usize,
        other: usize,
    },
    /// A node gives up those whom it does not reach.
    GiveUp {
        at: usize,
    },
    /// Two nodes meet that have given each other up.
    Meet {
        one: usize,
        other: usize,
    },
    /// All nodes give up and meet whom they can.
    Detect,
    /// A node drops what does not count, if nothing is under way.
    Collect {
        node: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = || 0..world::CLIENTS;
    let node = || 0..world::NODES;
    let pair = || (node(), node());
    let step = prop_oneof![
        20 => pair().prop_map(|(from, to)| Step::Deliver { from, to }),
        12 => Just(Step::DeliverEach),
        3 => Just(Step::DeliverAll),
        3 => (client(), node()).prop_map(|(client, node)| Step::Connect { client, node }),
        3 => client().prop_map(|client| Step::Close { client }),
        3 => client().prop_map(|client| Step::Subscribe { client }),
        1 => client().prop_map(|client| Step::Unsubscribe { client }),
        1 => client().prop_map(|client| Step::EndSession { client }),
        10 => (node(), 0..world::PARTS).prop_map(|(node, part)| Step::Publish { node, part }),
        8 => client().prop_map(|client| Step::Acknowledge { client }),
        2 => node().prop_map(|node| Step::Crash { node }),
        2 => node().prop_map(|node| Step::Restart { node }),
        1 => (1..(1_u8 << (world::NODES - 1))).prop_map(|side| Step::Split { side }),
        4 => pair().prop_map(|(one, other)| Step::Cut { one, other }),
        1 => Just(Step::Heal),
        2 => pair().prop_map(|(one, other)| Step::Renew { one, other }),
        6 => node().prop_map(|at| Step::GiveUp { at }),
        3 => pair().prop_map(|(one, other)| Step::Meet { one, other }),
        2 => Just(Step::Detect),
        1 => node().prop_map(|node| Step::Collect { node }),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Promise G1: the world asserts what must not happen where it happens, and at rest that no message
    /// is lost.
    #[test]
    fn a_message_of_a_group_reaches_one_member(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.come_to_rest();
        world.assert_at_rest();
    }
}
