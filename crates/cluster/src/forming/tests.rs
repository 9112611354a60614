//! Nodes that form a cluster, over starts in any order, crashes, lost contact and statements that are lost, doubled and reordered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::{Action, Event, Forming, Founder, Founding, Stage, Statement, Step, Waiting};
use crate::NodeId;
use crate::random::Random;

fn founder(node: u64) -> Founder {
    Founder {
        node: NodeId(node),
        address: format!("n{node}:1").parse().expect("an address"),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "any moment will do: only differences matter"
)]
fn origin() -> Instant {
    Instant::now()
}

/// Machines, and what is on the way between them.
struct World {
    now: Instant,
    random: Random,
    size: usize,
    /// By node; `None`: it is down.
    running: BTreeMap<NodeId, Option<Forming>>,
    disks: BTreeMap<NodeId, Stage>,
    /// Asked for and not durable.
    persisting: BTreeMap<NodeId, Stage>,
    contacts: BTreeSet<(NodeId, NodeId)>,
    on_the_way: Vec<(NodeId, NodeId, Statement)>,
    formed: BTreeMap<NodeId, Founding>,
}

impl World {
    fn new(seed: u64, nodes: u64, size: usize) -> Self {
        let ids = (1..=nodes).map(NodeId);
        Self {
            now: origin(),
            random: Random::new(seed),
            size,
            running: ids.clone().map(|node| (node, None)).collect(),
            disks: ids.map(|node| (node, Stage::Waiting)).collect(),
            persisting: BTreeMap::new(),
            contacts: BTreeSet::new(),
            on_the_way: Vec::new(),
            formed: BTreeMap::new(),
        }
    }

    fn start(&mut self, node: NodeId) {
        let stage = self.disks[&node].clone();
        let forming = Forming::new(self.now, founder(node.0), self.size, 1, stage);
        self.running.insert(node, Some(forming));
        self.step(node, Event::Timeout);
    }

    fn crash(&mut self, node: NodeId) {
        self.running.insert(node, None);
        // What was on its way to the disk may have got there.
        if let Some(stage) = self.persisting.remove(&node)
            && self.random.between(0, 2) == 0
        {
            self.write(node, stage);
        }
        let others: Vec<_> = self.running.keys().copied().collect();
        others.into_iter().for_each(|other| self.part(node, other));
    }

    fn meet(&mut self, a: NodeId, b: NodeId) {
        let both_run = self.running[&a].is_some() && self.running[&b].is_some();
        if a != b && both_run && self.contacts.insert((a.min(b), a.max(b))) {
            self.step(a, Event::Met(founder(b.0)));
            self.step(b, Event::Met(founder(a.0)));
        }
    }

    fn part(&mut self, a: NodeId, b: NodeId) {
        if self.contacts.remove(&(a.min(b), a.max(b))) {
            self.step(a, Event::Lost(b));
            self.step(b, Event::Lost(a));
        }
    }

    fn step(&mut self, node: NodeId, event: Event) {
        let Some(Some(forming)) = self.running.get_mut(&node) else {
            return;
        };
        let mut actions = Vec::new();
        forming.step(self.now, event, &mut actions);
        for action in actions {
            match action {
                Action::Tell(to, statement) => self.on_the_way.push((node, to, statement)),
                Action::Persist(stage) => {
                    let before = self.persisting.insert(node, stage);
                    assert_eq!(before, None, "one at a time");
                }
                Action::Formed(founding) => {
                    assert_eq!(
                        self.disks[&node],
                        Stage::Bound(Step::Formed, founding.clone()),
                        "durable before it is used"
                    );
                    self.formed.insert(node, founding);
                }
            }
        }
    }

    /// No node is ever in two clusters, and nobody forms one without the promises of all.
    fn write(&mut self, node: NodeId, stage: Stage) {
        if let (Stage::Bound(_, before), Stage::Bound(_, after)) = (&self.disks[&node], &stage) {
            assert!(before.is_same(after), "{node} was bound to another cluster");
        }
        if let Stage::Bound(Step::Formed, founding) = &stage {
            for member in founding.ids() {
                assert!(
                    matches!(&self.disks[&member], Stage::Bound(_, theirs) if theirs.is_same(founding)),
                    "{member} has not promised"
                );
            }
        }
        self.disks.insert(node, stage);
    }

    fn persist(&mut self, node: NodeId) {
        if let Some(stage) = self.persisting.remove(&node) {
            self.write(node, stage);
            self.step(node, Event::Persisted);
        }
    }

    fn deliver(&mut self) {
        if self.on_the_way.is_empty() {
            return;
        }
        let place = self.random.between(0, self.on_the_way.len());
        let (from, to, statement) = match self.random.between(0, 4) {
            0 => self.on_the_way[place].clone(),
            _ => self.on_the_way.swap_remove(place),
        };
        if self.random.between(0, 5) > 0 {
            self.step(to, Event::Told(from, statement));
        }
    }

    fn any(&mut self) -> NodeId {
        let place = self.random.between(0, self.running.len());
        *self.running.keys().nth(place).expect("within")
    }

    fn act(&mut self) {
        let (a, b) = (self.any(), self.any());
        match self.random.between(0, 40) {
            0 => self.crash(a),
            1..4 => self.part(a, b),
            4..8 if self.running[&a].is_none() => self.start(a),
            8..16 => self.meet(a, b),
            16..22 => self.persist(a),
            22..26 => {
                self.now += Duration::from_millis(200);
                self.step(a, Event::Timeout);
            }
            _ => self.deliver(),
        }
    }

    /// Everything works from here on.
    fn calm(&mut self) {
        let nodes: Vec<_> = self.running.keys().copied().collect();
        for node in &nodes {
            if self.running[node].is_none() {
                self.start(*node);
            }
        }
        for _ in 0..10 {
            self.now += Duration::from_secs(1);
            for a in &nodes {
                nodes.iter().for_each(|b| self.meet(*a, *b));
                self.step(*a, Event::Timeout);
                self.persist(*a);
            }
            for (from, to, statement) in std::mem::take(&mut self.on_the_way) {
                self.step(to, Event::Told(from, statement));
            }
        }
    }
}

#[test]
fn as_many_as_are_wanted_form_one_cluster_whatever_happens_before() {
    for seed in 0..2_000 {
        let size = 1 + (seed % 5) as usize;
        let mut world = World::new(seed, size as u64, size);
        for _ in 0..300 {
            world.act();
        }
        world.calm();
        for node in 1..=size as u64 {
            let Stage::Bound(Step::Formed, founding) = &world.disks[&NodeId(node)] else {
                panic!("seed {seed}: {node} is not formed");
            };
            assert_eq!(founding.founders().len(), size, "seed {seed}");
        }
    }
}

#[test]
fn no_two_clusters_share_a_node_when_there_are_too_many() {
    let mut formed = 0;
    for seed in 0..2_000 {
        let mut world = World::new(seed, 5, 3);
        for _ in 0..400 {
            world.act();
        }
        let clusters: BTreeSet<_> = world.formed.values().map(Founding::ids).collect();
        let members: Vec<_> = clusters.iter().flatten().collect();
        let distinct: BTreeSet<_> = members.iter().collect();
        assert_eq!(members.len(), distinct.len(), "seed {seed}: {clusters:?}");
        formed += clusters.len();
    }
    assert!(formed > 100, "{formed} clusters: the test shows nothing");
}

/// A node with id 1 of a cluster of `size` that has met these.
fn waiting(size: usize, met: &[u64], event: Option<Event>) -> Waiting {
    let now = origin();
    let mut forming = Forming::new(now, founder(1), size, 1, Stage::Waiting);
    let met = met.iter().map(|node| Event::Met(founder(*node)));
    let mut actions = Vec::new();
    met.chain(event)
        .for_each(|event| forming.step(now, event, &mut actions));
    assert!(!actions.iter().any(|action| matches!(action, Action::Persist(_))));
    forming.waiting()
}

#[test]
fn a_node_knows_what_it_waits_for() {
    let missing = Waiting::Missing {
        met: vec![founder(2)],
        missing: 1,
    };
    assert_eq!(waiting(3, &[2], None), missing);
    let all = vec![founder(2), founder(3)];
    assert_eq!(waiting(3, &[2, 3], None), Waiting::Unequal(all.clone()));
    assert_eq!(waiting(2, &[2, 3], None), Waiting::TooMany(all));
    let foreign = Event::Foreign(founder(3).address);
    assert_eq!(
        waiting(3, &[2], Some(foreign)),
        Waiting::Foreign(founder(3).address)
    );
}

#[test]
fn nothing_is_formed_while_somebody_may_be_at_an_address_that_was_given() {
    let addresses = BTreeSet::from([founder(9).address]);
    let unanswered = Event::Unanswered(addresses.clone());
    assert_eq!(
        waiting(1, &[], Some(unanswered.clone())),
        Waiting::Unanswered(addresses)
    );
    let now = origin();
    let mut forming = Forming::new(now, founder(1), 1, 1, Stage::Waiting);
    let mut actions = Vec::new();
    forming.step(now, unanswered, &mut actions);
    assert!(!actions.iter().any(|action| matches!(action, Action::Persist(_))));
    forming.step(now, Event::Unanswered(BTreeSet::new()), &mut actions);
    assert!(actions.iter().any(|action| matches!(action, Action::Persist(_))));
}

#[test]
fn a_node_that_missed_the_end_hears_of_it_from_any_member() {
    let now = origin();
    let founding = Founding::new(vec![founder(1), founder(2), founder(3)], 1).expect("possible");
    let promised = Stage::Bound(Step::Promised, founding.clone());
    let mut forming = Forming::new(now, founder(1), 3, 1, promised);
    let mut actions = Vec::new();
    forming.step(now, Event::Met(founder(2)), &mut actions);
    let formed = Stage::Bound(Step::Formed, founding);
    let said = Statement {
        sees: vec![founder(2)],
        stage: formed.clone(),
    };
    forming.step(now, Event::Told(NodeId(2), said), &mut actions);
    assert!(actions.contains(&Action::Persist(formed)));
}

#[test]
fn a_node_that_is_taken_in_belongs_to_the_cluster_and_one_that_is_bound_does_not_change() {
    let now = origin();
    let founding = Founding::new(vec![founder(2), founder(3)], 1).expect("possible");
    let formed = Stage::Bound(Step::Formed, founding);
    let said = Statement {
        sees: vec![founder(2)],
        stage: formed.clone(),
    };
    let other = Founding::new(vec![founder(1), founder(4)], 1).expect("possible");
    let told = |stage: Stage, met: u64| {
        let mut forming = Forming::new(now, founder(1), 2, 1, stage);
        let mut actions = Vec::new();
        forming.step(now, Event::Met(founder(met)), &mut actions);
        forming.step(now, Event::Told(NodeId(2), said.clone()), &mut actions);
        actions.contains(&Action::Persist(formed.clone()))
    };
    assert!(told(Stage::Waiting, 2));
    // There is no connection to who says it.
    assert!(!told(Stage::Waiting, 3));
    assert!(!told(Stage::Bound(Step::Promised, other), 2));
}
