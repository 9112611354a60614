use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::{ClientId, MadeEvent};
use world::World;

mod exchanges;
mod limits;
mod node;
mod numbered_uses;
mod ring_changes;
mod wills;
mod world;

/// Messages of these tests have no content beside its identity.
type Publishing = super::Publishing<()>;
type PublishingEvent = super::PublishingEvent<()>;
type PublishingAction = super::PublishingAction<()>;

const LIMITS: PublishingLimits = PublishingLimits {
    waiting_max: 1_000,
    waiting_per_connection_max: 100,
    given_up_max: 1_000,
};

fn packet_id(number: u16) -> PacketId {
    PacketId(NonZeroU16::new(number).expect("a sample is no zero"))
}

fn run_of(node: u64, start: u32) -> Run {
    Run {
        node: NodeId(node),
        incarnation: Incarnation(start),
    }
}

fn client_id(client: usize) -> ClientId {
    ClientId::new(format!("press-{client}").as_bytes()).expect("a short id")
}

/// Step of a history.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Delivers one of the messages under way.
    Deliver(Index),
    /// A client publishes under a free packet id.
    Publish {
        client: usize,
        id: u16,
    },
    Connect {
        client: usize,
        node: usize,
    },
    Disconnect {
        client: usize,
    },
    /// A client loses its connection and all it knows of its messages.
    Forget {
        client: usize,
    },
    Pubrel {
        client: usize,
        id: u16,
    },
    Crash {
        node: usize,
    },
    /// The others give up those who have crashed.
    Detect,
    Restart {
        node: usize,
    },
    /// The routes of a node are merged.
    MergeRoutes {
        node: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = || 0..world::CLIENTS;
    let node = || 0..world::NODES;
    let id = || 1..=2_u16;
    let step = prop_oneof![
        30 => any::<Index>().prop_map(Step::Deliver),
        10 => (client(), id()).prop_map(|(client, id)| Step::Publish { client, id }),
        6 => (client(), node()).prop_map(|(client, node)| Step::Connect { client, node }),
        1 => client().prop_map(|client| Step::Disconnect { client }),
        1 => client().prop_map(|client| Step::Forget { client }),
        4 => (client(), id()).prop_map(|(client, id)| Step::Pubrel { client, id }),
        2 => node().prop_map(|node| Step::Crash { node }),
        3 => Just(Step::Detect),
        3 => node().prop_map(|node| Step::Restart { node }),
        3 => node().prop_map(|node| Step::MergeRoutes { node }),
    ];
    proptest::collection::vec(step, 0..250)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// No message under two numbers, none without one once PUBREC was sent, numbers in their order:
    /// the world asserts it where it happens.
    #[test]
    fn a_message_has_one_number_and_is_not_lost(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.come_to_rest();
        world.assert_at_rest();
    }
}
