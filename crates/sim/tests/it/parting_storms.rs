//! Three nodes are split into sides again and again, or one stands still, for longer than it takes to miss the others, while clients publish and subscribe on all of them: each run is
//! decided by its seed. Between two splits all is brought together.
//!
//! Not here: more than three nodes, of which one side may have no copy of a session.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::random::Random;
use protocol::packet::QoS;
use sim::promises::q1;

use crate::places::{Party, Places, Weather, Who};

const SECOND: Duration = Duration::from_secs(1);

const SEEDS: u64 = 60;

const SPLITS: u64 = 4;

const QOS: [QoS; 2] = [QoS::AtLeastOnce, QoS::ExactlyOnce];

/// One run.
struct Storm {
    nodes: usize,
    places: Places,
    random: Random,
    publishers: Vec<Who>,
    /// These go to other nodes as well, also to the other side.
    are_publishers_restless: bool,
    subscribers: Vec<Who>,
    /// For each message from 1 on the subscribers that it is for.
    published: Vec<BTreeSet<Who>>,
    /// The nodes that are apart from the others, and who has each session.
    side: BTreeSet<usize>,
    owners: Vec<BTreeSet<usize>>,
}

impl Storm {
    fn new(seed: u64, are_publishers_restless: bool) -> Self {
        let nodes = 3;
        let mut places = Places::with_nodes(seed, nodes, |_| {});
        places.settle();
        places.run(5 * SECOND);
        let publisher = |node: usize| {
            let name = format!("publisher{node}");
            if are_publishers_restless {
                Party::durable(node, &name)
            } else {
                Party::new(node, &name)
            }
        };
        let publishers = (0..nodes).map(|node| places.connect(publisher(node))).collect();
        let subscribers = (0..6)
            .map(|number| {
                let name = format!("subscriber{number}");
                let subscriber = places.connect(Party::durable(number % nodes, &name));
                places.subscribe(subscriber, "t/#", QoS::ExactlyOnce);
                subscriber
            })
            .collect();
        places.run(SECOND);
        places.weather = Weather::of_storm(seed);
        Self {
            nodes,
            places,
            random: Random::new(seed ^ 0x7061_7274),
            publishers,
            are_publishers_restless,
            subscribers,
            published: Vec::new(),
            side: BTreeSet::new(),
            owners: Vec::new(),
        }
    }

    fn rage(&mut self) {
        for _ in 0..SPLITS {
            let paused = self.part();
            let long = self.random.between(2_500, 9_000) as u64;
            self.publish_for(Duration::from_millis(long));
            self.places.heal();
            if let Some(node) = paused {
                self.places.wake(node);
            }
            let after = self.random.between(0, 4_000) as u64;
            self.publish_for(Duration::from_millis(after));
            self.places.run(12 * SECOND);
            self.wander();
        }
        self.places.weather = Weather::FINE;
        self.places.run(15 * SECOND);
        for subscriber in self.subscribers.clone() {
            self.places.come_back(subscriber);
        }
        self.places.run(10 * SECOND);
    }

    /// Some nodes are alone, or with one other; or one stands still, which is said.
    fn part(&mut self) -> Option<usize> {
        let first = self.random.between(0, self.nodes);
        let mut side = BTreeSet::from([first]);
        if self.nodes > 3 && self.random.between(0, 2) == 0 {
            side.insert((first + 1) % self.nodes);
        }
        let owners = self.subscribers.iter().map(|who| self.places.owners(*who));
        self.owners = owners.collect();
        if self.random.between(0, 3) == 0 {
            self.places.pause(first);
            return Some(first);
        }
        self.places.part(&side);
        self.side = side;
        None
    }

    /// Who gets what is published at a node: of more nodes than have copies, those on one side may all have none.
    fn receivers(&self, node: usize) -> BTreeSet<Who> {
        let is_same_side = |other: &usize| self.side.contains(other) == self.side.contains(&node);
        let all = self.subscribers.iter().zip(&self.owners);
        let reached = all.filter(|(_, owners)| owners.iter().any(is_same_side));
        reached.map(|(who, _)| *who).collect()
    }

    fn publish_for(&mut self, time: Duration) {
        let end = self.places.now + time;
        while self.places.now < end {
            for (node, publisher) in self.publishers.clone().into_iter().enumerate() {
                if self.are_publishers_restless && self.random.between(0, 20) == 0 {
                    let elsewhere = self.random.between(0, self.nodes);
                    self.places.set_out(publisher, elsewhere);
                }
                if self.random.between(0, 3) > 0 {
                    self.published.push(self.receivers(node));
                    let number = self.published.len() as u64;
                    let qos = QOS[number as usize % 2];
                    self.places.publish(publisher, "t/x", qos, number);
                }
            }
            let pause = self.random.between(1, 200) as u64;
            self.places.run(Duration::from_millis(pause));
        }
    }

    /// Some go away, and some go elsewhere.
    fn wander(&mut self) {
        for subscriber in self.subscribers.clone() {
            match self.random.between(0, 4) {
                0 if self.places.is_connected(subscriber) => self.places.lose(subscriber),
                1 => {
                    self.places.come_back(subscriber);
                    let node = self.random.between(0, self.nodes);
                    self.places.set_out(subscriber, node);
                }
                _ => {}
            }
        }
        self.places.run(3 * SECOND);
    }

    /// Q1, and how many messages of QoS 2 came twice.
    fn look(&self) -> Result<usize, String> {
        for publisher in &self.publishers {
            let open = self.places.unacknowledged(*publisher);
            if open > 0 {
                return Err(format!("{open} of {publisher:?} are not acknowledged"));
            }
        }
        let mut twice = 0;
        for subscriber in &self.subscribers {
            let name = subscriber.name(&self.places);
            let holders = self.places.holders(*subscriber);
            if holders.len() != 1 {
                return Err(format!("{name} is held by {holders:?}"));
            }
            let heard = self.places.heard(*subscriber);
            let all: BTreeSet<u64> = heard.iter().copied().collect();
            let published = self.published.iter().zip(1..);
            let is_for = |(receivers, _): &(&BTreeSet<Who>, u64)| receivers.contains(subscriber);
            let acknowledged = published.filter(is_for).map(|(_, number)| number);
            q1::check(&name, acknowledged, &all)?;
            let exactly_once = heard.iter().filter(|number| *number % 2 == 1);
            twice += exactly_once.count() - all.iter().filter(|number| *number % 2 == 1).count();
        }
        Ok(twice)
    }
}

/// How many messages of QoS 2 came twice, and of how many that came.
fn all_get_everything(are_publishers_restless: bool) -> (usize, usize) {
    let (mut twice, mut published) = (0, 0);
    let broken: Vec<_> = (0..SEEDS)
        .filter_map(|seed| {
            let mut storm = Storm::new(seed, are_publishers_restless);
            storm.rage();
            published += storm.published.len() * storm.subscribers.len();
            let found = storm.look().map(|count| twice += count);
            found.err().map(|why| format!("seed {seed}: {why}"))
        })
        .collect();
    assert!(broken.is_empty(), "{} of {SEEDS}: {broken:#?}", broken.len());
    (twice, published)
}

#[test]
fn nothing_acknowledged_on_either_side_is_lost() {
    let (twice, published) = all_get_everything(false);
    assert_eq!(twice, 0, "of {published}");
}

#[test]
fn nothing_acknowledged_is_lost_of_publishers_that_go_from_side_to_side() {
    // What a publisher sends again on the other side comes from both.
    all_get_everything(true);
}
