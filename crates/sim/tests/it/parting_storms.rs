//! Three or five nodes are split into sides again and again, or one stands still, for longer than it takes to miss the others, while clients publish and subscribe on all of them: each run
//! is decided by its seed. Between two splits all is brought together. Of five nodes one side may have no copy of a session.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::random::Random;
use protocol::packet::QoS;
use sim::promises::q1;

use crate::places::{Party, Places, Weather, Who};
use crate::progress::Seeds;

const SECOND: Duration = Duration::from_secs(1);

/// Storms of each kind.
const SEEDS: u64 = 8;

const SPLITS: u64 = 4;

const QOS: [QoS; 2] = [QoS::AtLeastOnce, QoS::ExactlyOnce];

/// Who goes to other nodes during a split, also to the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restless {
    Nobody,
    Publishers,
    Subscribers,
}

/// One run.
struct Storm {
    nodes: usize,
    places: Places,
    random: Random,
    publishers: Vec<Who>,
    restless: Restless,
    subscribers: Vec<Who>,
    published: u64,
    /// Whether nodes also come and go many times.
    flaps: bool,
}

impl Storm {
    fn new(seed: u64, nodes: usize, restless: Restless) -> Self {
        let mut places = Places::with_nodes(seed, nodes, |_| {});
        places.settle();
        places.run(5 * SECOND);
        let publisher = |node: usize| {
            let name = format!("publisher{node}");
            if restless == Restless::Publishers {
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
            restless,
            subscribers,
            published: 0,
            flaps: false,
        }
    }

    /// A node comes and goes: it is back for less than it takes to bring all together.
    fn flap(&mut self) {
        let node = self.random.between(0, self.nodes);
        for _ in 0..self.random.between(2, 5) {
            self.places.part(&BTreeSet::from([node]));
            let apart = self.random.between(200, 4_000) as u64;
            self.publish_for(Duration::from_millis(apart));
            self.places.heal();
            let together = self.random.between(10, 800) as u64;
            self.publish_for(Duration::from_millis(together));
        }
    }

    fn rage(&mut self) {
        for _ in 0..SPLITS {
            if self.flaps {
                self.flap();
            }
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
        if self.random.between(0, 3) == 0 {
            self.places.pause(first);
            return Some(first);
        }
        self.places.part(&side);
        None
    }

    fn publish_for(&mut self, time: Duration) {
        let end = self.places.now + time;
        while self.places.now < end {
            for publisher in self.publishers.clone() {
                if self.restless == Restless::Publishers {
                    self.set_out_at_times(publisher, 20);
                }
                if self.random.between(0, 3) > 0 {
                    self.published += 1;
                    let qos = QOS[self.published as usize % 2];
                    self.places.publish(publisher, "t/x", qos, self.published);
                }
            }
            if self.restless == Restless::Subscribers {
                for subscriber in self.subscribers.clone() {
                    self.set_out_at_times(subscriber, 60);
                }
            }
            let pause = self.random.between(1, 200) as u64;
            self.places.run(Duration::from_millis(pause));
        }
    }

    fn set_out_at_times(&mut self, who: Who, one_in: usize) {
        if self.random.between(0, one_in) == 0 {
            let elsewhere = self.random.between(0, self.nodes);
            self.places.set_out(who, elsewhere);
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

    /// Q1, Q2 and S1.
    fn look(&self) -> Result<(), String> {
        for publisher in &self.publishers {
            let open = self.places.unacknowledged(*publisher);
            if open > 0 {
                return Err(format!("{open} of {publisher:?} are not acknowledged"));
            }
        }
        self.subscribers
            .iter()
            .try_for_each(|subscriber| self.look_at(*subscriber))
    }

    /// What one subscriber has got.
    fn look_at(&self, subscriber: Who) -> Result<(), String> {
        let name = subscriber.name(&self.places);
        self.places.check_rest(subscriber)?;
        let broken = |what: &str, count: usize| match count {
            0 => Ok(()),
            count => Err(format!("{name}: {count} {what}")),
        };
        let heard = self.places.heard(subscriber);
        let all: BTreeSet<u64> = heard.iter().copied().collect();
        let forgotten = self.places.forgotten(subscriber).difference(&all);
        let had: BTreeSet<u64> = forgotten.chain(&all).copied().collect();
        q1::check(&name, 1..=self.published, &had)?;
        broken(
            "messages are begun and not released",
            self.places.unreleased(subscriber),
        )?;
        broken("messages were begun and forgotten", had.len() - all.len())?;
        if let [_, later @ ..] = self.places.sessions_present(subscriber) {
            let lost = later.iter().filter(|is_present| !**is_present);
            broken("times told that it has no session", lost.count())?;
        }
        if self.restless == Restless::Publishers {
            // What a publisher sends again on the other side comes from both.
            return Ok(());
        }
        let exactly_once = |number: &&u64| *number % 2 == 1;
        let twice = heard.iter().filter(exactly_once).count() - all.iter().filter(exactly_once).count();
        broken("messages of QoS 2 came twice", twice)
    }
}

/// Plays storms and gathers what they break.
fn play(name: &'static str, storm: impl Fn(u64) -> Storm) {
    let broken: Vec<String> = Seeds::new(name, 0..SEEDS)
        .filter_map(|seed| {
            let mut storm = storm(seed);
            storm.rage();
            storm.look().err().map(|why| format!("seed {seed}: {why}"))
        })
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

fn flapping(seed: u64, nodes: usize, restless: Restless) -> Storm {
    Storm {
        flaps: true,
        ..Storm::new(seed, nodes, restless)
    }
}

#[test]
fn nothing_acknowledged_on_either_side_is_lost_or_comes_twice() {
    play("splits of three nodes", |seed| {
        Storm::new(seed, 3, Restless::Nobody)
    });
}

#[test]
fn nothing_acknowledged_is_lost_of_publishers_that_go_from_side_to_side() {
    play("splits with restless publishers", |seed| {
        Storm::new(seed, 3, Restless::Publishers)
    });
}

#[test]
fn nothing_acknowledged_is_lost_of_subscribers_that_go_from_side_to_side() {
    play("splits with restless subscribers", |seed| {
        Storm::new(seed, 3, Restless::Subscribers)
    });
}

#[test]
fn nothing_acknowledged_is_lost_of_five_nodes() {
    play("splits of five nodes", |seed| {
        Storm::new(seed, 5, Restless::Nobody)
    });
}

#[test]
fn nothing_acknowledged_is_lost_of_subscribers_that_go_from_side_to_side_of_five_nodes() {
    play("splits of five nodes with restless subscribers", |seed| {
        Storm::new(seed, 5, Restless::Subscribers)
    });
}

#[test]
fn nothing_acknowledged_is_lost_by_nodes_that_come_and_go_again_and_again() {
    play("three nodes that flap", |seed| {
        flapping(seed, 3, Restless::Nobody)
    });
}

#[test]
fn nothing_acknowledged_is_lost_by_five_nodes_that_come_and_go_again_and_again() {
    play("five nodes that flap", |seed| flapping(seed, 5, Restless::Nobody));
}
