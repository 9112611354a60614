//! Splits of every shape, one after the other in each run, while clients publish, subscribe and retain at all nodes. After each run nothing that was acknowledged is missing, each
//! session is stored alike by its owners, and all nodes have the same retained messages: of each topic the latest.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::random::Random;
use cluster::session_plane::lifecycle::NodeState;
use protocol::packet::QoS;
use sim::promises::q1;

use crate::places::{Party, Places, QOS, Who};
use crate::progress::Seeds;

/// For up to how many milliseconds a client thinks that is slow.
const SLOW: usize = 400;

const SECOND: Duration = Duration::from_secs(1);

const SEEDS: u64 = 3;

/// In these, two nodes of five that the others did not hear took each other for lost.
const FAILED_ONCE: [u64; 4] = [15, 17, 24, 29];

/// Until nodes that do not hear each other have lost each other, and more.
const LONG: Duration = Duration::from_secs(5);

/// Until everything is as it was before.
const CALM: Duration = Duration::from_secs(15);

/// What happens to the nodes.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// These and the others do not hear each other.
    Sides(&'static [&'static [usize]]),
    /// These hear the others, and are not heard by them.
    Unheard(&'static [usize]),
    /// These do not hear the others, and are heard by them.
    Unhearing(&'static [usize]),
    /// The first node comes and goes, many times in a short while.
    Flapping,
    /// Another side parts before the first split is forgotten.
    TwoInARow,
    /// The first node is alone for long, and what it has is of old.
    Stale,
    /// The first node loses its power, and once more when it is in this state again.
    KilledAgain(NodeState),
    /// The first node is alone, and loses its power when it is in this state after that.
    AloneAndKilled(NodeState),
}

/// One run.
struct Split {
    shape: Shape,
    places: Places,
    random: Random,
    publishers: Vec<Who>,
    subscribers: Vec<Who>,
    /// For each message from 1 on the subscribers that it is for.
    published: Vec<BTreeSet<Who>>,
    /// What was retained last at each node.
    retained: Vec<Option<u64>>,
    sides: Vec<BTreeSet<usize>>,
    owners: Vec<BTreeSet<usize>>,
}

impl Split {
    fn new(shape: Shape, nodes: usize, slowness: usize, seed: u64) -> Self {
        let mut places = Places::running(seed, nodes, |_| {});
        let publisher = |node: usize| Party::durable(node, &format!("publisher{node}"));
        let publishers = (0..nodes).map(|node| places.connect(publisher(node))).collect();
        let subscribers = (0..nodes)
            .map(|node| {
                let subscriber =
                    places.connect(Party::durable(node, &format!("subscriber{node}")).slow(slowness));
                places.subscribe(subscriber, "t/#", QoS::ExactlyOnce);
                subscriber
            })
            .collect();
        places.run(SECOND);
        Self {
            shape,
            places,
            random: Random::new(seed ^ 0x7368_6170),
            publishers,
            subscribers,
            published: Vec::new(),
            retained: vec![None; nodes],
            sides: Vec::new(),
            owners: Vec::new(),
        }
    }

    fn happen(&mut self) {
        self.publish_for(SECOND);
        let owners = self.subscribers.iter().map(|who| self.places.owners(*who));
        self.owners = owners.collect();
        match self.shape {
            Shape::Sides(sides) => self.part(sides, LONG),
            Shape::Unheard(side) => self.cut(|nodes| across(side, nodes).collect(), side),
            Shape::Unhearing(side) => {
                let back = |nodes| across(side, nodes).map(|(of, other)| (other, of));
                self.cut(|nodes| back(nodes).collect(), side);
            }
            Shape::Flapping => {
                for _ in 0..12 {
                    let [apart, together] = [1_200, 900].map(|most| self.random.between(50, most) as u64);
                    self.part(&[&[0]], Duration::from_millis(apart));
                    self.publish_for(Duration::from_millis(together));
                }
            }
            Shape::TwoInARow => {
                self.part(&[&[0]], LONG);
                let between = self.random.between(100, 3_000) as u64;
                self.publish_for(Duration::from_millis(between));
                self.part(&[&[1]], LONG);
            }
            Shape::Stale => self.part(&[&[0]], 40 * SECOND),
            Shape::KilledAgain(state) => {
                self.places.crash(0, 4 * SECOND);
                self.kill_when(state);
            }
            Shape::AloneAndKilled(state) => {
                self.part(&[&[0]], LONG);
                self.kill_when(state);
            }
        }
        self.sides.clear();
        self.publish_for(SECOND);
        self.places.run(CALM);
    }

    /// These sides do not hear each other for a while.
    fn part(&mut self, sides: &[&[usize]], time: Duration) {
        for side in sides {
            let side: BTreeSet<usize> = side.iter().copied().collect();
            self.places.part(&side);
            self.sides.push(side);
        }
        self.publish_for(time);
        self.places.heal();
    }

    /// Nothing gets from the first to the second of each pair, for a while.
    fn cut(&mut self, pairs: impl Fn(usize) -> Vec<(usize, usize)>, side: &[usize]) {
        self.places.cut_ways(pairs(self.retained.len()));
        self.sides.push(side.iter().copied().collect());
        self.publish_for(LONG);
        self.places.heal();
    }

    /// The first node loses its power as soon as it is in a state, as it says itself.
    fn kill_when(&mut self, state: NodeState) {
        for _ in 0..30_000 {
            if self.random.between(0, 100) == 0 {
                self.publish_for(Duration::from_millis(1));
            }
            self.places.step();
            if self.places.is_there(0) && self.places.own_state(0) == Some(state) {
                self.places.crash(0, 3 * SECOND);
                return self.publish_for(LONG);
            }
        }
        panic!("the node never was {state:?}");
    }

    /// Who gets what is published at a node: of more nodes than have copies, those on one side may all have none.
    fn receivers(&self, node: usize) -> BTreeSet<Who> {
        let is_same_side = |other: &usize| {
            let mut sides = self.sides.iter();
            sides.all(|side| side.contains(other) == side.contains(&node))
        };
        let all = self.subscribers.iter().zip(&self.owners);
        let reached = all.filter(|(_, owners)| self.sides.is_empty() || owners.iter().any(is_same_side));
        reached.map(|(who, _)| *who).collect()
    }

    fn publish_for(&mut self, time: Duration) {
        let end = self.places.now + time;
        while self.places.now < end {
            let node = self.random.between(0, self.publishers.len());
            let publisher = self.publishers[node];
            self.published.push(self.receivers(node));
            let number = self.published.len() as u64;
            self.places
                .publish(publisher, "t/x", QOS[number as usize % 2], number);
            if self.random.between(0, 4) == 0 {
                self.retained[node] = (self.random.between(0, 3) > 0).then_some(number);
                let topic = format!("r/{node}");
                self.places
                    .retain(publisher, &topic, QoS::AtLeastOnce, (self.retained[node], None));
            }
            let pause = self.random.between(1, 150) as u64;
            let left = end.saturating_duration_since(self.places.now);
            self.places.run(left.min(Duration::from_millis(pause)));
        }
    }

    fn look(&mut self) -> Result<(), String> {
        for node in 0..self.publishers.len() {
            if !self.places.is_running(node) {
                return Err(format!("node {node} is not RUNNING"));
            }
            let open = self.places.unacknowledged(self.publishers[node]);
            if open > 0 {
                return Err(format!("{open} of node {node} are not acknowledged"));
            }
        }
        for subscriber in &self.subscribers {
            let name = subscriber.name(&self.places);
            self.places.check_rest(*subscriber)?;
            let heard: BTreeSet<u64> = self.places.heard(*subscriber).into_iter().collect();
            let published = self.published.iter().zip(1..);
            let is_for = |(receivers, _): &(&BTreeSet<Who>, u64)| receivers.contains(subscriber);
            let acknowledged = published.filter(is_for).map(|(_, number)| number);
            q1::check(&name, acknowledged, &heard)?;
        }
        let mut wanted: Vec<u64> = self.retained.iter().flatten().copied().collect();
        wanted.sort_unstable();
        for node in 0..self.publishers.len() {
            let found = self.places.found_retained(node, "r/#");
            if found != wanted {
                return Err(format!(
                    "{found:?} are retained at node {node}, and {wanted:?} should be"
                ));
            }
        }
        Ok(())
    }
}

/// Each node of a side with each of the others.
fn across(side: &[usize], nodes: usize) -> impl Iterator<Item = (usize, usize)> {
    let others = move |of: &usize| {
        let of = *of;
        let others = (0..nodes).filter(|other| !side.contains(other));
        others.map(move |other| (of, other))
    };
    side.iter().flat_map(others)
}

fn nothing_is_lost_and_nothing_comes_back(shape: Shape, nodes: usize) {
    nothing_is_lost_in(Seeds::new("splits of a shape", 0..SEEDS), shape, (nodes, 0));
}

fn nothing_is_lost_in(seeds: impl Iterator<Item = u64>, shape: Shape, (nodes, slowness): (usize, usize)) {
    let mut count = 0;
    let broken: Vec<_> = seeds
        .filter_map(|seed| {
            count += 1;
            let mut split = Split::new(shape, nodes, slowness, seed);
            split.happen();
            split.look().err().map(|why| format!("seed {seed}: {why}"))
        })
        .collect();
    assert!(
        broken.is_empty(),
        "{} of {count} {shape:?}: {broken:#?}",
        broken.len()
    );
}

#[test]
fn one_node_and_the_others() {
    nothing_is_lost_and_nothing_comes_back(Shape::Sides(&[&[0]]), 3);
    nothing_is_lost_and_nothing_comes_back(Shape::Sides(&[&[0]]), 5);
}

/// What they were sent on the smaller side and have not answered, they keep: they take no message for that which is another one.
#[test]
fn clients_that_answer_late() {
    for nodes in [3, 5] {
        for shape in [Shape::Sides(&[&[0]]), Shape::Unheard(&[0])] {
            nothing_is_lost_in(
                Seeds::new("clients that answer late", 0..2 * SEEDS),
                shape,
                (nodes, SLOW),
            );
        }
    }
}

#[test]
fn two_nodes_and_three() {
    nothing_is_lost_and_nothing_comes_back(Shape::Sides(&[&[0, 1]]), 5);
}

#[test]
fn two_halves() {
    nothing_is_lost_and_nothing_comes_back(Shape::Sides(&[&[0, 1]]), 4);
}

#[test]
fn three_ways() {
    nothing_is_lost_and_nothing_comes_back(Shape::Sides(&[&[0], &[1]]), 3);
    nothing_is_lost_and_nothing_comes_back(Shape::Sides(&[&[0], &[1, 2]]), 5);
}

#[test]
fn a_node_that_hears_nobody() {
    nothing_is_lost_and_nothing_comes_back(Shape::Unhearing(&[0]), 3);
    nothing_is_lost_and_nothing_comes_back(Shape::Unhearing(&[0]), 5);
}

#[test]
fn a_node_that_nobody_hears() {
    nothing_is_lost_and_nothing_comes_back(Shape::Unheard(&[0]), 3);
    nothing_is_lost_and_nothing_comes_back(Shape::Unheard(&[0]), 5);
}

#[test]
fn two_nodes_that_do_not_hear_the_others() {
    nothing_is_lost_and_nothing_comes_back(Shape::Unhearing(&[0, 1]), 3);
    nothing_is_lost_and_nothing_comes_back(Shape::Unhearing(&[0, 1]), 4);
    nothing_is_lost_and_nothing_comes_back(Shape::Unhearing(&[0, 1]), 5);
}

#[test]
fn two_nodes_that_the_others_do_not_hear() {
    nothing_is_lost_and_nothing_comes_back(Shape::Unheard(&[0, 1]), 3);
    nothing_is_lost_and_nothing_comes_back(Shape::Unheard(&[0, 1]), 4);
    nothing_is_lost_in(
        Seeds::new("nodes that are not heard", 0..SEEDS).chain(FAILED_ONCE),
        Shape::Unheard(&[0, 1]),
        (5, 0),
    );
}

#[test]
fn a_node_that_comes_and_goes() {
    nothing_is_lost_and_nothing_comes_back(Shape::Flapping, 3);
}

#[test]
fn two_splits_in_a_row() {
    nothing_is_lost_and_nothing_comes_back(Shape::TwoInARow, 3);
}

#[test]
fn a_node_with_what_is_of_old() {
    nothing_is_lost_and_nothing_comes_back(Shape::Stale, 3);
}

#[test]
fn a_node_that_is_killed_while_it_joins() {
    nothing_is_lost_and_nothing_comes_back(Shape::KilledAgain(NodeState::Joining), 3);
}

#[test]
fn a_node_that_is_killed_while_it_brings_what_it_has() {
    nothing_is_lost_and_nothing_comes_back(Shape::AloneAndKilled(NodeState::MergeMinority), 3);
    nothing_is_lost_and_nothing_comes_back(Shape::AloneAndKilled(NodeState::Merging), 3);
}
