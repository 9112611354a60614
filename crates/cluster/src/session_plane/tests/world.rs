//! Nodes that each have a copy of one record, write to it without asking each other, and hear of each other's writes late, twice, in any order or never; and what
//! each of them must hold by the set of the writes that it has heard of.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::session_plane::record::{Applied, NotTaken};
use crate::session_plane::retirement::{Action, Event, Retired, Retirement};

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A node does what it can do to its copy, while its clock says so.
    Act { node: u8, choice: u8, wall: u64 },
    /// A node hears of a write, of all that were ever made.
    Apply { node: u8, delta: prop::sample::Index },
    /// A node gets a copy, of all that there ever were.
    Merge { node: u8, copy: prop::sample::Index },
    /// A node starts again, as another actor.
    Restart { node: u8 },
    /// All nodes compare their copies, and enough time passes. A tombstone goes, or actors that have ended do; but some nodes are not told.
    Settle { told: u8 },
    /// A node that does not own the record any more deletes its copy, after another one has got it.
    CleanUp { node: u8 },
}

pub(super) fn steps(count: usize) -> impl Strategy<Value = Vec<Step>> {
    let index = any::<prop::sample::Index>;
    let step = prop_oneof![
        12 => (0..4_u8, any::<u8>(), 0..20_u64).prop_map(|(node, choice, wall)| Step::Act { node, choice, wall }),
        12 => (0..4_u8, index()).prop_map(|(node, delta)| Step::Apply { node, delta }),
        6 => (0..4_u8, index()).prop_map(|(node, copy)| Step::Merge { node, copy }),
        2 => (0..4_u8).prop_map(|node| Step::Restart { node }),
        2 => any::<u8>().prop_map(|told| Step::Settle { told }),
        1 => (0..4_u8).prop_map(|node| Step::CleanUp { node }),
    ];
    prop::collection::vec(step, 0..count)
}

/// One write, as seen from outside.
#[derive(Debug, Clone)]
struct Write<V> {
    delta: Delta<V>,
    /// The writer's copy right after it.
    copy: Record<V>,
    /// The writes that the writer had heard of, this one included.
    heard: BTreeSet<usize>,
}

struct Node<V> {
    copy: Record<V>,
    writer: Writer,
    heard: BTreeSet<usize>,
}

pub(super) struct World<V> {
    nodes: Vec<Node<V>>,
    writes: Vec<Write<V>>,
    /// Writes from before the last tombstone that went, which are not on their way any more.
    over: usize,
    copies: Vec<(Record<V>, BTreeSet<usize>)>,
    ended: BTreeSet<Actor>,
    /// Clocks may leave out what others still name, and so seem to have seen less.
    has_retired: bool,
    now: Instant,
    number: u64,
}

const GRACE: Duration = Duration::from_secs(60);

#[expect(
    clippy::disallowed_methods,
    reason = "any moment will do: only differences matter"
)]
pub(super) fn origin() -> Instant {
    Instant::now()
}

impl<V: Numbered> World<V> {
    pub(super) fn new(nodes: usize) -> World<V> {
        let node = |id: usize| Node {
            copy: Record::absent(),
            writer: writer(id as u64 + 1),
            heard: BTreeSet::new(),
        };
        World {
            nodes: (0..nodes).map(node).collect(),
            writes: Vec::new(),
            over: 0,
            copies: Vec::new(),
            ended: BTreeSet::new(),
            has_retired: false,
            now: origin(),
            number: 0,
        }
    }

    /// Plays steps; after each of them every node holds what it must.
    pub(super) fn play(&mut self, steps: &[Step]) {
        for step in steps {
            self.step(step);
            self.check();
        }
    }

    /// Every node hears of everything: all copies are one.
    pub(super) fn converge(&mut self) {
        for _ in 0..2 {
            for from in 0..self.nodes.len() {
                let (copy, heard) = (self.nodes[from].copy.clone(), self.nodes[from].heard.clone());
                for to in 0..self.nodes.len() {
                    self.merge(to, &copy, &heard);
                }
            }
        }
        let first = self.nodes[0].copy.clone();
        for node in &self.nodes {
            assert_eq!(node.copy, first, "copies differ after everything was heard of");
        }
    }

    /// Everything is removed, everybody hears of it, and time passes: nothing is left, not even the memory of it.
    pub(super) fn end_all(&mut self) {
        self.converge();
        self.write(0, 0, |record, writer, wall, _| end(record, writer, wall));
        self.step(&Step::Settle { told: u8::MAX });
        for node in &self.nodes {
            assert!(node.copy.is_absent(), "{:?}", node.copy);
        }
    }

    pub(super) fn reached(&self) -> Vec<Record<V>> {
        self.copies.iter().map(|(copy, _)| copy.clone()).collect()
    }

    fn step(&mut self, step: &Step) {
        let place = |node: &u8| usize::from(*node) % self.nodes.len();
        match step {
            Step::Act { node, choice, wall } => {
                let node = place(node);
                self.write(node, *wall, |record, writer, wall, number| {
                    V::act(record, writer, wall, *choice, number)
                });
            }
            Step::Apply { node, delta } => {
                if self.over < self.writes.len() {
                    let at = self.over + delta.index(self.writes.len() - self.over);
                    self.apply(place(node), at);
                }
            }
            Step::Merge { node, copy } => {
                if !self.copies.is_empty() {
                    let (copy, heard) = self.copies[copy.index(self.copies.len())].clone();
                    self.merge(place(node), &copy, &heard);
                }
            }
            Step::Restart { node } => {
                let node = place(node);
                let ended = self.nodes[node].writer.actor();
                let next = actor(ended.node.0, ended.incarnation.0 + 1);
                self.nodes[node].writer = Writer::new(next);
                self.ended.insert(ended);
            }
            Step::Settle { told } => self.settle(*told),
            Step::CleanUp { node } => self.clean_up(place(node)),
        }
    }

    fn write(
        &mut self,
        node: usize,
        wall: u64,
        act: impl FnOnce(&mut Record<V>, &mut Writer, u64, u64) -> Option<Delta<V>>,
    ) {
        self.number += 1;
        let writing = &mut self.nodes[node];
        let seen = writing.copy.hlc();
        let Some(delta) = act(&mut writing.copy, &mut writing.writer, wall, self.number) else {
            return;
        };
        assert!(delta.hlc > seen, "a write is not later than what it has seen");
        for write in &self.writes {
            let is_new = write.delta.last.actor != delta.last.actor
                || write.delta.last.counter + delta.dots() <= delta.last.counter;
            assert!(is_new, "a dot was used twice");
        }
        writing.heard.insert(self.writes.len());
        let (copy, heard) = (writing.copy.clone(), writing.heard.clone());
        self.copies.push((copy.clone(), heard.clone()));
        self.writes.push(Write { delta, copy, heard });
    }

    fn apply(&mut self, to: usize, at: usize) {
        let Write { delta, copy, heard } = self.writes[at].clone();
        let node = &mut self.nodes[to];
        let merged = joined(&node.copy, &copy);
        match node.copy.apply(&delta) {
            Ok(Applied::Taken) => {
                assert_eq!(node.copy, merged, "a write and the copy that has it are another");
                node.heard.extend(heard);
                self.copies.push((node.copy.clone(), node.heard.clone()));
            }
            Ok(Applied::SeenBefore) => assert!(node.heard.contains(&at)),
            Err(NotTaken::Behind) => assert!(self.has_retired || !node.heard.is_superset(&heard)),
            Err(error) => panic!("{error}"),
        }
    }

    fn merge(&mut self, to: usize, copy: &Record<V>, heard: &BTreeSet<usize>) {
        let node = &mut self.nodes[to];
        let causality = node.copy.clone().merge(copy).unwrap();
        let (has_more, has_less) = (!node.heard.is_superset(heard), !heard.is_superset(&node.heard));
        let expected = match (has_less, has_more) {
            (false, false) => Causality::Equal,
            (true, false) => Causality::After,
            (false, true) => Causality::Before,
            (true, true) => Causality::Concurrent,
        };
        assert!(
            causality == expected || self.has_retired,
            "{causality:?}, and not {expected:?}: {:?} and {copy:?}",
            node.copy
        );
        node.copy.merge(copy).unwrap();
        node.heard.extend(heard);
        self.copies.push((node.copy.clone(), node.heard.clone()));
    }

    fn settle(&mut self, told: u8) {
        self.converge();
        let mut retirement = Retirement::new(GRACE);
        let mut actions = Vec::new();
        let key = || RecordKey {
            kind: V::KIND,
            key: Bytes::from_static(b"client"),
        };
        let home = &self.nodes[0].copy;
        let actors = home.retirable(|actor| self.ended.contains(&actor));
        let retirable = Event::Retirable {
            key: key(),
            clock: home.clock().clone(),
            what: match home.is_tombstone() {
                true => Retired::Tombstone,
                false => Retired::Actors(actors),
            },
            holders: (1..=self.nodes.len() as u64).map(NodeId).collect(),
        };
        retirement.step(self.now, retirable, &mut actions);
        for node in &self.nodes {
            retirement.step(self.now, Event::Timeout, &mut actions);
            assert_eq!(actions, []);
            let confirmed = Event::Confirmed {
                key: key(),
                node: node.writer.actor().node,
                clock: node.copy.clock().clone(),
            };
            retirement.step(self.now, confirmed, &mut actions);
        }
        self.now += GRACE;
        assert_eq!(retirement.deadline(), Some(self.now));
        retirement.step(self.now, Event::Timeout, &mut actions);
        assert!(retirement.is_empty());
        for Action::Retire { clock, what, .. } in actions {
            self.retire(&clock, &what, told);
        }
    }

    fn retire(&mut self, clock: &VectorClock, what: &Retired, told: u8) {
        for (node, id) in self.nodes.iter_mut().zip(0..) {
            if told >> id & 1 == 1 && !node.copy.is_absent() {
                node.copy.retire(&mut node.writer, clock, what);
                self.has_retired = true;
            }
            if node.copy.is_absent() {
                node.heard.clear();
            }
        }
        self.copies.clear();
        self.over = self.writes.len();
    }

    fn clean_up(&mut self, node: usize) {
        let other = (node + 1) % self.nodes.len();
        if other == node {
            return;
        }
        let (copy, heard) = (self.nodes[node].copy.clone(), self.nodes[node].heard.clone());
        self.merge(other, &copy, &heard);
        let leaving = &mut self.nodes[node];
        leaving.copy.forget(&mut leaving.writer);
        leaving.heard.clear();
    }

    fn check(&self) {
        for node in &self.nodes {
            let held: BTreeMap<Dot, V> = node
                .copy
                .entries()
                .map(|entry| (entry.dot, entry.value.clone()))
                .collect();
            assert_eq!(held, self.expected(&node.heard), "after {:?}", node.heard);
            for entry in node.copy.entries() {
                assert!(node.copy.clock().contains(entry.dot));
            }
        }
        for (one, _) in &self.copies {
            for node in &self.nodes {
                let is_equal = one.clock() == node.copy.clock();
                assert!(!is_equal || *one == node.copy, "equal clocks, and other copies");
            }
        }
    }

    /// What somebody holds who has heard of these writes, in whichever order.
    fn expected(&self, heard: &BTreeSet<usize>) -> BTreeMap<Dot, V> {
        let heard = || heard.iter().map(|at| &self.writes[*at].delta);
        let mut held: BTreeMap<Dot, V> = heard()
            .flat_map(Delta::entries)
            .map(|entry| (entry.dot, entry.value))
            .collect();
        for (dot, value) in heard().flat_map(|delta| &delta.advanced) {
            if let Some(known) = held.get_mut(dot) {
                *known = value.clone().max(known.clone());
            }
        }
        for dot in heard().flat_map(|delta| &delta.removed) {
            held.remove(dot);
        }
        held
    }
}
