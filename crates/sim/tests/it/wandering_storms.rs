//! Clients that connect to one node after the other, while nodes start again and connections between them break: each run is decided by its seed.
//!
//! Nodes where sessions of publishers are held do not start again: what a publisher has to say again to another run of its node is not recognised.

use std::time::Duration;

use cluster::random::Random;
use protocol::packet::QoS;
use sim::promises::s1;

use crate::places::{Party, Places, QOS, Weather, Who, all_of, number, qos_of};
use crate::progress::Seeds;

const SECOND: Duration = Duration::from_secs(1);

const SEEDS: u64 = 12;

const ROUNDS: u64 = 80;

/// Publishers begin at the first nodes, one at each.
const PUBLISHERS: [usize; 2] = [0, 1];

/// One run.
struct Storm {
    nodes: usize,
    places: Places,
    random: Random,
    publishers: [Who; 2],
    subscribers: Vec<(Who, QoS)>,
    /// Their sessions end with their connections.
    passing: Vec<Who>,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let nodes = if seed.is_multiple_of(3) { 5 } else { 3 };
        let mut places = Places::running(seed, nodes, |_| {});
        let publishers =
            PUBLISHERS.map(|node| places.connect(Party::durable(node, &format!("publisher{node}"))));
        let subscribers = (0..4)
            .map(|number| {
                let subscriber =
                    places.connect(Party::durable(number % nodes, &format!("subscriber{number}")));
                let qos = QOS[number / 2];
                places.subscribe(subscriber, "t/#", qos);
                (subscriber, qos)
            })
            .collect();
        let passing = (0..3)
            .map(|number| places.connect(Party::new(number, &format!("passing{number}"))))
            .collect();
        Self {
            nodes,
            places,
            random: Random::new(seed ^ 0x7761_6E64_6572),
            publishers,
            subscribers,
            passing,
        }
    }

    fn all(&self) -> Vec<Who> {
        let subscribers = self.subscribers.iter().map(|(who, _)| *who);
        let durable = self.publishers.iter().copied().chain(subscribers);
        durable.chain(self.passing.iter().copied()).collect()
    }

    fn rage(&mut self, weather: Weather) -> Result<(), String> {
        self.places.weather = weather;
        for round in 0..ROUNDS {
            for (publisher, node) in self.publishers.into_iter().zip(PUBLISHERS) {
                let number = number(node, round);
                self.places.publish(publisher, "t/x", qos_of(number), number);
            }
            if self.random.between(0, 3) == 0 {
                let all = self.all();
                let who = all[self.random.between(0, all.len())];
                let node = self.random.between(0, self.nodes);
                self.places.set_out(who, node);
            }
            let mortal = self.random.between(PUBLISHERS.len(), self.nodes);
            let millis = self.random.between(1, 60) as u64;
            self.places.storm(Duration::from_millis(millis), mortal);
            self.look_for_connections()?;
        }
        self.places.weather = Weather::FINE;
        self.places.run(10 * SECOND);
        self.look_for_connections()
    }

    /// S1: whoever is connected has one connection.
    fn look_for_connections(&self) -> Result<(), String> {
        let all = self.all().into_iter();
        let mut connected = all.filter(|who| self.places.is_connected(*who));
        connected.try_for_each(|who| {
            let nodes = self.places.nodes_with(who).into_iter();
            s1::check_alone(nodes.map(|node| (node as u64, who.name(&self.places))))
        })
    }

    fn look(&self) -> Result<(), String> {
        for who in self.all() {
            let name = who.name(&self.places);
            if !self.places.is_connected(who) {
                return Err(format!("{name} does not get in"));
            }
            let is_durable = !self.passing.contains(&who);
            for (place, present) in self.places.sessions_present(who).iter().enumerate() {
                s1::check_present(&name, Some(is_durable && place > 0), *present)?;
            }
        }
        for (place, publisher) in self.publishers.iter().enumerate() {
            if self.places.unacknowledged(*publisher) > 0 {
                return Err(format!("publisher {place} was not answered"));
            }
        }
        for (subscriber, granted) in &self.subscribers {
            self.places
                .check_heard(*subscriber, *granted, all_of(&PUBLISHERS, ROUNDS), |_| true)?;
        }
        Ok(())
    }
}

fn run(seed: u64, change: fn(Weather) -> Weather) -> Result<(), String> {
    let mut storm = Storm::new(seed);
    storm.rage(change(Weather::random(seed)))?;
    storm.look()
}

fn all_keep_their_promises(change: fn(Weather) -> Weather) {
    let broken: Vec<_> = Seeds::new("storms of wandering clients", 0..SEEDS)
        .filter_map(|seed| run(seed, change).err().map(|why| format!("seed {seed}: {why}")))
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn clients_find_their_sessions_and_miss_nothing_wherever_they_go() {
    all_keep_their_promises(|weather| Weather {
        splits: false,
        crashes: false,
        ..weather
    });
}

#[test]
fn clients_find_their_sessions_and_miss_nothing_while_nodes_start_again() {
    all_keep_their_promises(|weather| Weather {
        splits: false,
        crashes: true,
        ..weather
    });
}
