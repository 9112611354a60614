//! Small cluster of planes for tests: links that are cut, processes that are started anew, and disks.
//!
//! What is sent arrives within a step, and what a step has changed is on the disk at its end, unless the
//! disk stands still. So no event of a node whose disk works is lost, and the entries that no event has
//! removed are known exactly. Each node keeps a mirror, as a
//! node of the product keeps its search structure: from a restart on by changes alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{Incarnation, NodeId};

use super::values::Text;
use crate::interests::InterestChange;
use crate::membership::MembershipConfig;
use crate::plane::{
    CopyRef, Limits, Matching, Now, Plane, PlaneAction, PlaneConfig, PlaneImage, PlaneMessage, RetainedEntry,
    Timing,
};
use crate::stream::{IncomingLimits, OutgoingLimits};
use crate::transfer::{AskerLimits, HolderLimits};
use crate::{
    ClientId, Dot, Matched, NodeState, Pending, RecordBatch, RecordWrite, RecordsReader, Run, Slot, SlotSet,
};

pub(super) type TestPlane = Plane<Text, (), Nobody>;
pub(super) type TestMessage = PlaneMessage<Text, ()>;

const SILENCE_MAX: u64 = 500;
/// Milliseconds of a step.
const STEP: u64 = 20;
/// Steps in which a cluster without faults comes to rest.
const REST: usize = 1_000;

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// No session matches anything.
#[derive(Debug)]
pub(super) struct Nobody;

impl Matching<Text, ()> for Nobody {
    fn matches(&self, _: &CopyRef<'_, Text>, _: Dot, _: &Pending<()>) -> Vec<Matched<Text>> {
        Vec::new()
    }

    fn subscribe(&mut self, _: &ClientId, _: &[&Text]) {}

    fn point(&self, _: &Text) -> Option<u64> {
        None
    }

    fn nodes(&self, (): &()) -> BTreeSet<NodeId> {
        BTreeSet::new()
    }

    fn learn(&mut self, _: NodeId, _: InterestChange) {}

    fn forget(&mut self, _: NodeId) {}

    fn interests(&self, _: NodeId) -> usize {
        0
    }

    fn slots(&self, _: &CopyRef<'_, Text>, (): &()) -> SlotSet {
        SlotSet::default()
    }
}

/// What a topic retains, as a node of the product has it beside the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mirrored {
    pub(super) dot: Dot,
    pub(super) text: Text,
}

/// Topics that have entries. None where a clear is read.
pub(super) type Mirror = BTreeMap<ClientId, Option<Mirrored>>;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) plane: TestPlane,
    pub(super) mirror: Mirror,
    /// Topics that were told to have changed in the last step.
    pub(super) told: BTreeSet<ClientId>,
    disk: BTreeMap<Bytes, Bytes>,
    starts: u32,
}

/// Direction between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    from: u64,
    to: u64,
}

#[derive(Debug)]
pub(super) struct World {
    now: u64,
    pub(super) nodes: BTreeMap<u64, Node>,
    /// Milliseconds by which the wall clock of a node is ahead.
    skew: BTreeMap<u64, u64>,
    cut: BTreeSet<Way>,
    /// What is sent there stays on its way.
    held: BTreeSet<Way>,
    /// Nodes whose disks stand still.
    stalled: BTreeSet<u64>,
    connected: BTreeSet<Way>,
    sent: BTreeMap<Way, VecDeque<(Run, TestMessage)>>,
    pub(super) durable: BTreeSet<Dot>,
}

impl World {
    pub(super) fn new(count: u64, skew: &[u64]) -> World {
        let mut world = World {
            now: 0,
            nodes: BTreeMap::new(),
            skew: (1..).zip(skew.iter().copied()).collect(),
            cut: BTreeSet::new(),
            held: BTreeSet::new(),
            stalled: BTreeSet::new(),
            connected: BTreeSet::new(),
            sent: BTreeMap::new(),
            durable: BTreeSet::new(),
        };
        for id in 1..=count {
            let plane = new_plane(world.at(id), id, 1, count, &BTreeMap::new());
            let node = Node {
                plane,
                mirror: Mirror::new(),
                told: BTreeSet::new(),
                disk: BTreeMap::new(),
                starts: 1,
            };
            world.nodes.insert(id, node);
        }
        world
    }

    pub(super) fn node(&mut self, id: u64) -> &mut Node {
        self.nodes.get_mut(&id).expect("a node of the world")
    }

    pub(super) fn plane(&self, id: u64) -> &TestPlane {
        &self.nodes[&id].plane
    }

    pub(super) fn at(&self, id: u64) -> Now {
        Now {
            monotonic: *ORIGIN + Duration::from_millis(self.now),
            wall: 1_000_000 + self.now + self.skew.get(&id).copied().unwrap_or(0),
        }
    }

    /// Lets a plane do something, and applies its actions.
    pub(super) fn act<T>(
        &mut self,
        id: u64,
        act: impl FnOnce(&mut TestPlane, Now, &mut Vec<PlaneAction<Text, ()>>) -> T,
    ) -> T {
        let (at, mut actions) = (self.at(id), Vec::new());
        let done = act(&mut self.node(id).plane, at, &mut actions);
        for action in actions {
            match action {
                PlaneAction::Send { to, message } => self.send(Way { from: id, to: to.0 }, message),
                PlaneAction::Durable(dot) => {
                    self.durable.insert(dot);
                }
                PlaneAction::GaveUp { run, .. } => self.break_off(id, run.node.0),
                PlaneAction::EndRun(why) => panic!("{id} ends its run: {why}"),
                PlaneAction::Changed(changed) => panic!("a topic is no session: {changed:?}"),
                _ => {}
            }
        }
        done
    }

    /// Cuts the links between the nodes of `side` and all others.
    pub(super) fn split(&mut self, side: &[u64]) {
        let ids: Vec<u64> = self.nodes.keys().copied().collect();
        for one in side {
            for other in ids.iter().filter(|other| !side.contains(other)) {
                self.break_off(*one, *other);
                for way in ways(*one, *other) {
                    self.cut.insert(way);
                }
            }
        }
    }

    pub(super) fn heal(&mut self) {
        self.cut.clear();
    }

    /// Holds what a node sends to another one.
    pub(super) fn hold(&mut self, from: u64, to: u64) {
        self.held.insert(Way { from, to });
    }

    /// Lets arrive what was held.
    pub(super) fn release(&mut self) {
        self.held.clear();
    }

    /// Stalls the disk of a node.
    pub(super) fn stall(&mut self, id: u64) {
        self.stalled.insert(id);
    }

    pub(super) fn is_stalled(&self, id: u64) -> bool {
        self.stalled.contains(&id)
    }

    /// Lets all disks go on.
    pub(super) fn end_stalls(&mut self) {
        self.stalled.clear();
    }

    /// Starts a process anew, with what its disk has.
    pub(super) fn restart(&mut self, id: u64) {
        let count = u64::try_from(self.nodes.len()).expect("few");
        for other in 1..=count {
            self.break_off(id, other);
        }
        let at = self.at(id);
        let node = self.node(id);
        node.starts += 1;
        node.plane = new_plane(at, id, node.starts, count, &node.disk);
        node.mirror = read_all(&node.plane);
        assert!(node.plane.take_retained_changes().is_empty());
    }

    pub(super) fn pass(&mut self, steps: usize) {
        (0..steps).for_each(|_| self.step());
    }

    pub(super) fn rest(&mut self) {
        for _ in 0..REST {
            if self.is_at_rest() {
                return;
            }
            self.step();
        }
        panic!("no rest: {self:?}");
    }

    pub(super) fn step(&mut self) {
        self.now += STEP;
        let ids: Vec<u64> = self.nodes.keys().copied().collect();
        self.connect(&ids);
        for id in &ids {
            self.receive_all(*id);
            self.act(*id, |plane, at, actions| {
                if plane.deadline() <= at.monotonic {
                    plane.tick(at, actions);
                }
            });
            self.send_streams(*id);
            self.persist(*id);
            self.node(*id).look();
        }
    }

    fn connect(&mut self, ids: &[u64]) {
        for from in ids {
            for to in ids.iter().filter(|to| *to > from) {
                let [way, back] = ways(*from, *to);
                if self.cut.contains(&way) || !self.connected.insert(way) {
                    continue;
                }
                for Way { from, to } in [way, back] {
                    self.act(from, |plane, at, actions| {
                        plane.connected(at, NodeId(to), actions);
                    });
                }
            }
        }
    }

    fn break_off(&mut self, one: u64, other: u64) {
        for way in ways(one, other) {
            self.connected.remove(&way);
            self.sent.remove(&way);
        }
    }

    fn send(&mut self, way: Way, message: TestMessage) {
        let Way { from, to } = way;
        if self.connected.contains(&ways(from.min(to), from.max(to))[0]) {
            let run = self.nodes[&from].plane.run();
            self.sent.entry(way).or_default().push_back((run, message));
        }
    }

    fn receive_all(&mut self, id: u64) {
        let ids: Vec<u64> = self.nodes.keys().copied().collect();
        for from in ids {
            let way = Way { from, to: id };
            if self.held.contains(&way) {
                continue;
            }
            while let Some((run, message)) = self.sent.get_mut(&way).and_then(VecDeque::pop_front) {
                let received = self.act(id, |plane, at, actions| plane.receive(at, run, message, actions));
                if let Err(error) = received {
                    assert!(error.is_ordinary(), "{id} refuses what {from} sends: {error}");
                }
            }
        }
    }

    fn send_streams(&mut self, id: u64) {
        let ids: Vec<u64> = self.nodes.keys().copied().collect();
        for to in ids.into_iter().filter(|to| *to != id) {
            while let Some(message) = self.node(id).plane.next_message(NodeId(to)) {
                self.send(Way { from: id, to }, message);
            }
        }
    }

    pub(super) fn persist(&mut self, id: u64) {
        if self.is_stalled(id) {
            return;
        }
        let mut batch = RecordBatch::default();
        let node = self.node(id);
        let point = node.plane.persist_point(&mut batch);
        for write in batch.into_writes() {
            match write {
                RecordWrite::Put { key, value } => {
                    node.disk.insert(key, value);
                }
                RecordWrite::Remove { key } => {
                    node.disk.remove(&key);
                }
                RecordWrite::RemoveRange { from, to } => node.disk.retain(|key, _| *key < from || *key >= to),
            }
        }
        self.act(id, |plane, _, actions| plane.persisted(point, actions))
            .expect("points are in order");
    }

    fn is_at_rest(&self) -> bool {
        self.nodes.values().all(|node| {
            let copy = node.plane.copy(Slot::RETAINED);
            let has_all = copy
                .as_ref()
                .is_some_and(|copy| copy.holes.is_empty() && copy.taken.is_empty());
            let is_running =
                node.plane.state() == NodeState::Running && node.plane.membership().is_complete();
            let topics = copy.iter().flat_map(|copy| copy.entries.sessions());
            let mut topics = topics.map(|(topic, _)| topic);
            let has_garbage = topics.any(|topic| !node.plane.garbage(Slot::RETAINED, topic).is_empty());
            is_running
                && has_all
                && !has_garbage
                && node.plane.is_merged(Slot::RETAINED)
                && node.plane.kept_events() == 0
        })
    }
}

impl Node {
    /// Brings the mirror up to date by what has changed, which is all that differs.
    pub(super) fn look(&mut self) {
        self.told = self.plane.take_retained_changes();
        for topic in &self.told {
            let retained = self.plane.retained(topic).map(mirrored);
            if retained.is_some() || self.plane.is_cleared(topic) {
                self.mirror.insert(topic.clone(), retained);
            } else {
                self.mirror.remove(topic);
            }
        }
        assert_eq!(self.mirror, read_all(&self.plane), "of {:?}", self.told);
    }
}

fn mirrored(entry: RetainedEntry<'_, Text>) -> Mirrored {
    let (dot, text) = (entry.dot, *entry.value);
    Mirrored { dot, text }
}

/// What all topics retain, read page by page.
pub(super) fn read_all(plane: &TestPlane) -> Mirror {
    let mut all = Mirror::new();
    loop {
        let last = all.keys().next_back().cloned();
        let page: Vec<_> = plane.retained_after(last.as_ref()).take(2).collect();
        if page.is_empty() {
            return all;
        }
        for of in page {
            assert_eq!(plane.retained(of.topic), of.entry);
            assert_eq!(plane.is_cleared(of.topic), of.entry.is_none());
            let before = all.insert(of.topic.clone(), of.entry.map(mirrored));
            assert_eq!(before, None, "a page begins behind the one before");
        }
    }
}

/// Both directions between two nodes, the one from the lower first.
fn ways(one: u64, other: u64) -> [Way; 2] {
    let (from, to) = (one.min(other), one.max(other));
    [Way { from, to }, Way { from: to, to: from }]
}

fn new_plane(now: Now, id: u64, start: u32, count: u64, disk: &BTreeMap<Bytes, Bytes>) -> TestPlane {
    let mut records = RecordsReader::default();
    for (key, value) in disk {
        records.read(key.clone(), value).expect("the disk is not damaged");
    }
    let image = PlaneImage::of_records(records).expect("the disk has all of the copies");
    let run = Run {
        node: NodeId(id),
        incarnation: Incarnation(start),
    };
    Plane::new(now, &config(run, count), image, Nobody).expect("a cluster")
}

fn config(run: Run, count: u64) -> PlaneConfig {
    let millis = Duration::from_millis;
    PlaneConfig {
        membership: MembershipConfig {
            run,
            members: (1..=count).map(NodeId).collect(),
            silence_max: millis(SILENCE_MAX),
            gone_after: millis(SILENCE_MAX / 5),
            found_after: millis(2 * SILENCE_MAX),
            offer_every: millis(SILENCE_MAX / 4),
        },
        slots: Some(SlotSet::from_iter([Slot::ROUTES, Slot::RETAINED])),
        timing: Timing {
            heartbeat_every: millis(SILENCE_MAX / 5),
            ask_after: millis(SILENCE_MAX / 10),
            ask_again_after: millis(SILENCE_MAX * 2 / 3),
            close_after: millis(SILENCE_MAX * 2),
            offer_every: millis(SILENCE_MAX / 2),
        },
        limits: Limits {
            outgoing: OutgoingLimits {
                events_max: 1_000,
                bytes_max: 1 << 22,
                rings_max: 64,
                copies_min: 1,
            },
            incoming: IncomingLimits {
                events_max: 20,
                bytes_max: 1 << 20,
            },
            asker: AskerLimits {
                slots_per_peer_max: 4,
                slots_max: 8,
                slots_per_question_max: 3,
                comparing_max: 2,
                staged_bytes_max: 1 << 20,
                question_bytes_max: 400,
            },
            holder: HolderLimits {
                slots_per_peer_max: 4,
                answers_max: 8,
                part_bytes_max: 600,
            },
        },
    }
}
