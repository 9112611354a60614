use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::LazyLock;
use std::time::Duration;

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use proptest::prelude::*;

use super::*;
use crate::publishing::{ContentId, DueWill, NumberedWill, PublishingLimits, RouteConfirmation, WillNumber};
use crate::queue_limits::QueueValue;
use crate::{
    Birth, ClientId, DecidingNode, Entry, EntryKind, Fact, Interval, MadeEvent, Slot, VersionVector,
    WillTerms,
};
use world::World;

mod firing;
mod known_will;
mod leaving;
mod node;
mod world;

/// Messages of these tests have no content beside its identity.
type Publishing = crate::Publishing<()>;
type PublishingEvent = crate::publishing::PublishingEvent<()>;
type PublishingAction = crate::publishing::PublishingAction<()>;

/// Instant of the first step: only differences matter.
#[expect(clippy::disallowed_methods, reason = "an instant to count from")]
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Delay of every will that has one.
const DELAY: Duration = Duration::from_secs(16);

fn run_of(node: u64, start: u32) -> Run {
    Run {
        node: NodeId(node),
        incarnation: Incarnation(start),
    }
}

fn client_id(client: usize) -> ClientId {
    ClientId::new(format!("press-{client}").as_bytes()).expect("a short id")
}

/// Value of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Nothing,
    Text { content: ContentId, delay: Duration },
    End { delay: Option<Duration> },
    Number(WillNumber),
}

impl WillValue for Value {
    fn will_part(&self) -> Option<WillPart> {
        match *self {
            Value::Nothing => None,
            Value::Text { content, delay } => Some(WillPart::Text { content, delay }),
            Value::End { delay } => Some(WillPart::End { delay }),
            Value::Number(number) => Some(WillPart::Number(number)),
        }
    }
}

impl QueueValue for Value {
    fn queue_bytes(&self) -> u64 {
        0
    }

    fn expires_at(&self) -> Option<u64> {
        None
    }
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
    Connect(Connecting),
    /// DISCONNECT with reason code 0 on the last connection of a client.
    Disconnect {
        client: usize,
    },
    /// The first connection of a client ends without DISCONNECT.
    Lose {
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
    Heal,
    /// A node gives up those whom it does not reach.
    GiveUp {
        at: usize,
    },
    /// Two nodes meet that have given each other up.
    Meet {
        one: usize,
        other: usize,
    },
    /// Time passes, and all nodes give up and meet whom they can.
    Detect,
    Wait,
}

/// CONNECT with a will.
#[derive(Debug, Clone, Copy)]
struct Connecting {
    client: usize,
    node: usize,
    is_clean: bool,
    is_delayed: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = || 0..world::CLIENTS;
    let node = || 0..world::NODES;
    let connect = (client(), node(), proptest::bool::weighted(0.2), any::<bool>());
    let connect = connect.prop_map(|(client, node, is_clean, is_delayed)| Connecting {
        client,
        node,
        is_clean,
        is_delayed,
    });
    let step = prop_oneof![
        20 => (node(), node()).prop_map(|(from, to)| Step::Deliver { from, to }),
        12 => Just(Step::DeliverEach),
        4 => Just(Step::DeliverAll),
        6 => connect.prop_map(Step::Connect),
        2 => client().prop_map(|client| Step::Disconnect { client }),
        4 => client().prop_map(|client| Step::Lose { client }),
        1 => node().prop_map(|node| Step::Crash { node }),
        1 => node().prop_map(|node| Step::Restart { node }),
        1 => (1..(1_u8 << (world::NODES - 1))).prop_map(|side| Step::Split { side }),
        1 => Just(Step::Heal),
        6 => node().prop_map(|at| Step::GiveUp { at }),
        3 => (node(), node()).prop_map(|(one, other)| Step::Meet { one, other }),
        3 => Just(Step::Detect),
        3 => Just(Step::Wait),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// Promise W1: the world asserts what must not happen where it happens, and at rest that no will is
    /// lost.
    #[test]
    fn a_will_is_published_once_on_each_side(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.come_to_rest();
        world.assert_at_rest();
    }
}

/// Will of client 1 after a split: nodes 1 and 3 route it, and nodes 0 and 2 have given it another number.
///
/// The client connected at node 3, and that connection has ended.
fn published_on_one_side() -> World {
    let connect = |node, is_delayed| {
        Step::Connect(Connecting {
            client: 1,
            node,
            is_clean: false,
            is_delayed,
        })
    };
    let mut world = World::new();
    for step in [
        connect(3, true),
        connect(0, false),
        Step::Split { side: 0b0101 },
        Step::GiveUp { at: 3 },
        Step::DeliverAll,
        Step::Detect,
        Step::DeliverAll,
        Step::Heal,
        Step::Wait,
        Step::Wait,
        Step::Deliver { from: 1, to: 3 },
        Step::Deliver { from: 3, to: 1 },
        Step::Deliver { from: 3, to: 1 },
    ] {
        world.step(&step);
    }
    world
}

/// Loses nodes 1 and 3 when node 2 has got `packets` messages of node 1 at most.
fn assert_published_once(mut world: World, packets: usize) {
    let lost = [Step::Crash { node: 1 }, Step::Crash { node: 3 }];
    let delivered = std::iter::repeat_n(Step::Deliver { from: 1, to: 2 }, packets);
    let rest = [Step::Detect, Step::DeliverAll];
    for step in lost.into_iter().chain(delivered).chain(rest) {
        world.step(&step);
    }
    world.come_to_rest();
    world.assert_at_rest();
}

/// A short history that was found hard: a node meets one that routes a will, and hears of the route before
/// it has the number. Then all nodes that have the number are lost.
#[test]
fn a_node_that_comes_while_a_will_is_routed_has_the_number_first() {
    for packets in 0..8 {
        let mut world = published_on_one_side();
        world.step(&Step::Meet { one: 2, other: 1 });
        assert_published_once(world, packets);
    }
}

/// The same where all nodes have met each other.
#[test]
fn a_whole_cluster_has_the_number_of_a_will_before_its_route_goes_on() {
    for packets in 0..8 {
        let mut world = published_on_one_side();
        world.step(&Step::Detect);
        assert_published_once(world, packets);
    }
}

/// A session is resumed at node 3, and ended there by a clean start. On the other side of the split its
/// delayed will was published for a node that was given up, and armed again. The will is void when both
/// sides meet: the end of the session says that it was resumed.
#[test]
fn mqtt_3_1_3_9_a_will_that_was_armed_again_is_void_when_its_session_was_resumed_elsewhere() {
    let connect = |node, is_clean| {
        Step::Connect(Connecting {
            client: 0,
            node,
            is_clean,
            is_delayed: node == 0,
        })
    };
    let mut world = World::new();
    for step in [
        connect(0, false),
        Step::DeliverAll,
        Step::Split { side: 0b0110 },
        Step::Crash { node: 2 },
        Step::Detect,
        Step::DeliverAll,
        Step::Wait,
        Step::Split { side: 0b0011 },
        Step::Wait,
        Step::Detect,
        connect(3, false),
        Step::DeliverAll,
        Step::Disconnect { client: 0 },
        Step::Lose { client: 0 },
        connect(3, true),
    ] {
        world.step(&step);
    }
    world.come_to_rest();
    world.assert_at_rest();
}

/// Will of client 1 at two primary owners that do not see each other: node 1 sees node 0, node 2 sees
/// node 0, and node 3 is down. Node 0 has the number of node 2 first, and the later one of node 1 then.
fn numbered_by_two_primary_owners() -> World {
    let deliver = |from, to| std::iter::repeat_n(Step::Deliver { from, to }, 12);
    let connect = Connecting {
        client: 1,
        node: 2,
        is_clean: false,
        is_delayed: true,
    };
    let apart = [
        Step::Split { side: 0b0010 },
        Step::Crash { node: 3 },
        Step::Detect,
        Step::Connect(connect),
        Step::DeliverAll,
        Step::Lose { client: 1 },
        Step::DeliverAll,
        Step::Wait,
        Step::Heal,
        Step::Meet { one: 0, other: 1 },
        Step::DeliverAll,
    ];
    let numbered = [Step::Wait, Step::Deliver { from: 2, to: 0 }, Step::Wait];
    let both_at_node_0 = deliver(1, 0);
    let mut world = World::new();
    for step in apart.into_iter().chain(numbered).chain(both_at_node_0) {
        world.step(&step);
    }
    world
}

/// Node 1 learns of the number of node 2 and asks for it, when node 0 has not heard of the route yet.
/// Node 0 hears of it before node 1 has the answer. Then node 2 is lost.
#[test]
fn a_node_with_two_numbers_of_a_will_hears_of_a_route_that_another_node_knew() {
    let mut world = numbered_by_two_primary_owners();
    for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
        (0..12).for_each(|_| world.step(&Step::Deliver { from, to }));
    }
    world.step(&Step::Crash { node: 2 });
    world.step(&Step::DeliverAll);
    world.come_to_rest();
    world.assert_at_rest();
}
