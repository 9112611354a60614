//! Random publishers and subscribers at three nodes, while everything goes wrong between them: each run is decided by its seed.

use std::time::Duration;

use protocol::packet::QoS;
use sim::machine::MachineConfig;

use crate::places::{Party, Places, QOS, Weather, Who, all_of, number, publisher_of, qos_of};
use crate::progress::Seeds;

const SECOND: Duration = Duration::from_secs(1);

/// The node that may lose its power.
const MORTAL: usize = 2;

const SEEDS: u64 = 40;

const ROUNDS: u64 = 60;

/// One run.
struct Storm {
    seed: u64,
    places: Places,
    subscribers: Vec<(Who, QoS)>,
    /// With their nodes.
    publishers: [(Who, usize); 2],
}

impl Storm {
    /// Subscribers at all nodes, and publishers at two of them.
    fn new(seed: u64, publishers: [usize; 2], change: fn(&mut MachineConfig)) -> Self {
        let mut places = Places::new(seed, change);
        places.settle();
        let mut subscribers = Vec::new();
        for number in 0..6 {
            let (node, name) = (number % 3, format!("subscriber{number}"));
            // Those that are not durable would end with their node.
            let is_durable = number % 2 == 0 || node == MORTAL;
            let party = if is_durable { Party::durable } else { Party::new };
            let subscriber = places.connect(party(node, &name));
            let qos = QOS[number / 3];
            places.subscribe(subscriber, "t/#", qos);
            subscribers.push((subscriber, qos));
        }
        let publishers = publishers.map(|node| {
            let party = Party::durable(node, &format!("publisher{node}"));
            (places.connect(party), node)
        });
        Self {
            seed,
            places,
            subscribers,
            publishers,
        }
    }

    fn rage(&mut self) {
        let places = &mut self.places;
        places.weather = Weather::random(self.seed);
        for round in 0..ROUNDS {
            for (publisher, node) in self.publishers {
                let number = number(node, round);
                places.publish(publisher, "t/x", qos_of(number), number);
            }
            places.storm(Duration::from_millis(20), MORTAL);
        }
        places.weather = Weather::FINE;
        places.heal();
        places.run(6 * SECOND);
    }

    /// Looks whether everybody has got everything: Q1, Q2 and Q3.
    fn look(&self) -> Result<(), String> {
        let seed = self.seed;
        for (publisher, node) in self.publishers {
            if self.places.unacknowledged(publisher) > 0 {
                return Err(format!("seed {seed}: not acknowledged at {node}"));
            }
        }
        let nodes = self.publishers.map(|(_, node)| node);
        for (subscriber, granted) in &self.subscribers {
            // A client that has to ask again of another run of its node is not recognised.
            let comes_once = |number| publisher_of(number) != MORTAL;
            self.places
                .check_heard(*subscriber, *granted, all_of(&nodes, ROUNDS), comes_once)
                .map_err(|broken| format!("seed {seed}: {broken}"))?;
        }
        Ok(())
    }
}

fn run(seed: u64, publishers: [usize; 2], change: fn(&mut MachineConfig)) -> Result<(), String> {
    let mut storm = Storm::new(seed, publishers, change);
    storm.rage();
    storm.look()
}

fn all_keep_their_promises(publishers: [usize; 2]) {
    let broken: Vec<_> = Seeds::new("storms of three nodes", 0..SEEDS)
        .filter_map(|seed| run(seed, publishers, |_| {}).err())
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

fn is_found_out(defect: fn(&mut MachineConfig)) -> bool {
    Seeds::new("storms with a defect", 0..SEEDS).any(|seed| run(seed, [0, 1], defect).is_err())
}

#[test]
fn nothing_acknowledged_is_lost_or_doubled_or_overtaken_whatever_the_network_does() {
    all_keep_their_promises([0, 1]);
}

#[test]
fn nothing_acknowledged_is_lost_or_overtaken_when_the_publishers_node_loses_its_power() {
    all_keep_their_promises([0, MORTAL]);
}

#[test]
fn a_node_that_confirms_before_it_is_durable_is_found_out() {
    assert!(is_found_out(|config| config.acknowledges_before_sync = true));
}
