use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::NodeId;
use cluster::session_plane::Hlc;
use proptest::prelude::*;

use super::*;
use crate::copy::tests::history::{client, dot, run};
use crate::copy::tests::{Sample, Value};
use crate::{ClientId, Dot, EntryKind, Fact, Run, Slot, VersionVector};
use world::{Step, World, steps};

mod deliveries;
mod refusals;
mod sink;
mod source;
mod world;

/// Node of the connections.
const FRONT: NodeId = NodeId(9);

/// Run of that node.
fn front() -> Run {
    run(6)
}

/// Bytes of an item of the samples.
const ITEM_BYTES: u64 = 36;

/// Queues of one copy, which is merged or not.
#[derive(Debug)]
struct CopyQueues<'a> {
    copy: &'a Sample,
    is_merged: bool,
}

impl CopyQueues<'_> {
    fn queue(&self, client: &ClientId) -> BTreeSet<QueueKey> {
        let live = self.copy.live(client.as_bytes(), EntryKind::Message);
        live.map(|(dot, entry)| QueueKey {
            clock: entry.clock,
            dot,
        })
        .collect()
    }
}

impl Queues<Value> for CopyQueues<'_> {
    fn is_owned(&self, _: Slot) -> bool {
        true
    }

    fn has_session(&self, client: &ClientId, birth: Dot) -> bool {
        let mut sessions = self.copy.live(client.as_bytes(), EntryKind::Session);
        sessions.any(|(_, entry)| entry.birth.dot == birth)
    }

    fn read(&self, client: &ClientId, known: &VersionVector) -> Option<BTreeSet<QueueKey>> {
        let is_ready = self.is_merged && self.copy.has_all(known);
        is_ready.then(|| self.queue(client))
    }

    fn value(&self, client: &ClientId, key: QueueKey) -> Option<Value> {
        let mut live = self.copy.live(client.as_bytes(), EntryKind::Message);
        live.find(|(dot, _)| *dot == key.dot)
            .map(|(_, entry)| entry.value)
    }

    fn is_queued(&self, client: &ClientId, message: Dot) -> bool {
        self.queue(client).iter().any(|key| key.dot == message)
    }

    fn deliveries(&self, client: &ClientId) -> BTreeMap<Dot, Dot> {
        let live = self.copy.live(client.as_bytes(), EntryKind::Delivery);
        let message = |fact: &Fact| fact.named().expect("a delivery names its message");
        live.map(|(dot, entry)| (dot, message(&entry.fact))).collect()
    }

    fn delivery(&self, client: &ClientId, delivery: Dot) -> Option<Value> {
        let mut live = self.copy.live(client.as_bytes(), EntryKind::Delivery);
        live.find(|(dot, _)| *dot == delivery)
            .map(|(_, entry)| entry.value)
    }

    fn covers(&self, client: &ClientId, dot: Dot) -> bool {
        self.copy.covers(client.as_bytes(), dot)
    }

    fn known(&self, _: &ClientId) -> VersionVector {
        let mut known = self.copy.covered().clone();
        known.unite(self.copy.taken()).expect("histories are short");
        known
    }
}

/// Queue of a client's session, which began with the first event of a run of its own.
fn queue_of(of: u8) -> QueueId {
    QueueId {
        client: client(of),
        birth: dot(of.into(), 1),
    }
}

fn key(clock: u64, dot: Dot) -> QueueKey {
    let clock = Hlc::at(clock);
    QueueKey { clock, dot }
}

fn window(items: u64) -> Window {
    let bytes = items * ITEM_BYTES;
    Window { items, bytes }
}

fn known(dots: &[Dot]) -> Arc<VersionVector> {
    let dots: BTreeSet<Dot> = dots.iter().copied().collect();
    Arc::new(crate::copy::tests::vector_of(&dots))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    /// The world compares each message and each step with a naive queue.
    #[test]
    fn each_message_is_passed_on_once_and_in_order(
        steps in steps(),
        items in 1..5_u64,
        bytes in 1..160_u64,
    ) {
        let mut world = World::new(Window { items, bytes });
        for step in &steps {
            world.step(step);
        }
        world.come_to_rest();
        world.assert_all_passed_on();
        world.assert_deliveries_known();
    }
}

/// A short history that was found hard: the next owner learns that a packet id is free before it has
/// learned of it.
#[test]
fn a_packet_id_that_another_node_freed_is_told_by_the_next_owner() {
    let mut world = World::new(window(4));
    for step in [
        Step::Publish { run: 0, clock: 1 },
        Step::Assign { run: 0, at: 0 },
        Step::Take { owner: 0, at: 0 },
        Step::Take { owner: 0, at: 0 },
        Step::Deliver {
            to_front: false,
            owner: 0,
        },
        Step::Deliver {
            to_front: true,
            owner: 0,
        },
        Step::Lose { owner: 0 },
        Step::Deliver {
            to_front: false,
            owner: 1,
        },
        Step::Free { owner: 0, at: 0 },
        Step::Take { owner: 1, at: 2 },
        Step::Deliver {
            to_front: true,
            owner: 1,
        },
    ] {
        world.step(&step);
    }
    world.come_to_rest();
    world.assert_all_passed_on();
    world.assert_deliveries_known();
}

/// A short history that was found hard: the owner is lost with a message and its removal under way.
#[test]
fn a_message_that_another_node_removed_is_not_sent_by_the_next_owner() {
    let mut world = World::new(window(4));
    for step in [
        Step::Publish { run: 0, clock: 1 },
        Step::Take { owner: 0, at: 0 },
        Step::Take { owner: 1, at: 0 },
        Step::Deliver {
            to_front: false,
            owner: 0,
        },
        Step::Deliver {
            to_front: true,
            owner: 0,
        },
        Step::Expire { owner: 0, at: 0 },
        Step::Deliver {
            to_front: true,
            owner: 0,
        },
        Step::Lose { owner: 0 },
        Step::Deliver {
            to_front: false,
            owner: 1,
        },
        Step::Deliver {
            to_front: true,
            owner: 1,
        },
    ] {
        world.step(&step);
    }
    assert_eq!(world.passed_on().len(), 1);
    world.come_to_rest();
    world.assert_all_passed_on();
}
