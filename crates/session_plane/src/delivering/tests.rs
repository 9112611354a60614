use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use proptest::prelude::*;

use super::packet_ids::preferred_id;
use super::*;
use crate::feed::{DeliveryChanges, FeedDelivery, KnownDelivery, QueueKey};
use crate::publishing::PacketId;
use crate::{ClientId, Dot, GroupId, Run};
use world::World;

mod answers;
mod exchanges;
mod moves;
mod node;
mod resuming;
mod rivals;
mod unstored;
mod world;

const ONCE: DeliveryQos = DeliveryQos::ExactlyOnce;
const LEAST: DeliveryQos = DeliveryQos::AtLeastOnce;

fn packet_id(number: u16) -> PacketId {
    PacketId(NonZeroU16::new(number).expect("a sample is no zero"))
}

fn run_of(node: u64, start: u32) -> Run {
    Run {
        node: NodeId(node),
        incarnation: Incarnation(start),
    }
}

fn dot(node: u64, number: u64) -> Dot {
    let run = run_of(node, 1);
    Dot { run, number }
}

fn client_id(client: usize) -> ClientId {
    ClientId::new(format!("panel-{client}").as_bytes()).expect("a short id")
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
    /// A node hears that one of its events is durable.
    Hear {
        node: usize,
        at: usize,
    },
    /// The owner of a client's feed tells what has changed.
    Feed {
        client: usize,
    },
    /// A client reads a packet.
    Read {
        client: usize,
    },
    /// A node reads a packet of a client.
    Answer {
        client: usize,
    },
    Publish {
        node: usize,
        client: usize,
        qos: DeliveryQos,
    },
    /// A shared group gives a message.
    Give {
        client: usize,
        qos: DeliveryQos,
        at: usize,
    },
    /// A node has a message for a client that is not stored.
    Request {
        client: usize,
    },
    /// The socket of a client is full, or is not any more.
    Pause {
        client: usize,
        is_paused: bool,
    },
    /// Every node knows an acknowledgement of a group's message, or a move.
    GroupKnows {
        node: usize,
    },
    /// An owner removes a message.
    Expire {
        client: usize,
        at: usize,
    },
    /// A copy has decided that a message matches nobody.
    Mismatch {
        client: usize,
        node: usize,
        at: usize,
    },
    Connect {
        client: usize,
        node: usize,
    },
    Disconnect {
        client: usize,
    },
    Crash {
        node: usize,
    },
    /// Nodes give up those that have crashed.
    Detect,
    Restart {
        node: usize,
    },
    /// Only nodes that are both in `side`, or both not, reach each other.
    Split {
        side: u8,
    },
    Heal,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = || 0..world::CLIENTS;
    let node = || 0..world::NODES;
    let qos = || prop_oneof![1 => Just(LEAST), 2 => Just(ONCE)];
    let step = prop_oneof![
        20 => (node(), node()).prop_map(|(from, to)| Step::Deliver { from, to }),
        25 => Just(Step::DeliverEach),
        30 => (node(), 0..4_usize).prop_map(|(node, at)| Step::Hear { node, at }),
        20 => client().prop_map(|client| Step::Feed { client }),
        20 => client().prop_map(|client| Step::Read { client }),
        20 => client().prop_map(|client| Step::Answer { client }),
        8 => (node(), client(), qos()).prop_map(|(node, client, qos)| Step::Publish { node, client, qos }),
        2 => (client(), qos(), 0..6_usize).prop_map(|(client, qos, at)| Step::Give { client, qos, at }),
        4 => node().prop_map(|node| Step::GroupKnows { node }),
        4 => client().prop_map(|client| Step::Request { client }),
        1 => (client(), any::<bool>()).prop_map(|(client, is_paused)| Step::Pause { client, is_paused }),
        1 => (client(), 0..8_usize).prop_map(|(client, at)| Step::Expire { client, at }),
        1 => (client(), node(), 0..8_usize)
            .prop_map(|(client, node, at)| Step::Mismatch { client, node, at }),
        5 => (client(), node()).prop_map(|(client, node)| Step::Connect { client, node }),
        1 => client().prop_map(|client| Step::Disconnect { client }),
        1 => node().prop_map(|node| Step::Crash { node }),
        2 => Just(Step::Detect),
        1 => node().prop_map(|node| Step::Restart { node }),
        1 => (1..(1_u8 << (world::NODES - 1))).prop_map(|side| Step::Split { side }),
        1 => Just(Step::Heal),
    ];
    proptest::collection::vec(step, 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    /// Promises Q1 and Q2 to clients: the world asserts what must not happen where it happens, and at rest
    /// that no message is lost and no packet id is left.
    #[test]
    fn a_qos_2_message_comes_once_and_no_message_is_lost(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.come_to_rest();
        world.assert_at_rest();
    }
}
