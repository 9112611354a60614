//! One node is cut off from all others, or stands still, for about as long as it takes to be missed, again and again: when it is back, some may have taken it for lost and others
//! not. Or it is cut off for about twice as long: then it goes on by itself. Each run is decided by its seed.
//!
//! Not here: what reaches nobody because a node goes on by itself that has no copy.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::{Duration, Instant};

use cluster::random::Random;
use protocol::packet::QoS;
use sim::promises::{q1, s1};

use crate::places::{Party, Places, Weather, Who, all_of, number, qos_of};
use crate::progress::Seeds;

const SECOND: Duration = Duration::from_secs(1);

/// For how many milliseconds a node is away that is missed, or not.
const MISSED: Range<usize> = 1_400..2_700;

/// For how many one that goes on by itself, or does not.
const ALONE: Range<usize> = 3_000..5_500;

const SEEDS: u64 = 8;

/// How often a node is away in a run.
const TIMES: u64 = 5;

/// How often all publish from one of these moments on to the next.
const ROUNDS: u64 = 40;

/// How a node is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Away {
    /// Its clients are with it.
    CutOff,
    StandsStill,
}

/// One run.
struct Storm {
    away: Away,
    nodes: usize,
    places: Places,
    random: Random,
    publishers: Vec<Who>,
    subscribers: Vec<Who>,
    round: u64,
}

impl Storm {
    fn new(nodes: usize, away: Away, seed: u64) -> Self {
        let mut places = Places::running(seed, nodes, |_| {});
        let publishers = (0..nodes).map(|node| places.connect(Party::new(node, &format!("publisher{node}"))));
        let publishers = publishers.collect();
        let subscribers = (0..6).map(|number| {
            let subscriber = places.connect(Party::durable(number % nodes, &format!("subscriber{number}")));
            places.subscribe(subscriber, "t/#", QoS::ExactlyOnce);
            // Some are not where their sessions are.
            places.go(subscriber, number * 2 % nodes);
            subscriber
        });
        let subscribers = subscribers.collect();
        places.run(SECOND);
        places.weather = Weather::of_storm(seed);
        Self {
            away,
            nodes,
            places,
            random: Random::new(seed ^ 0x0063_7574_6f66_6600),
            publishers,
            subscribers,
            round: 0,
        }
    }

    fn rage(&mut self, times: &Range<usize>) {
        for _ in 0..TIMES {
            let node = self.random.between(0, self.nodes);
            let long = self.random.between(times.start, times.end) as u64;
            let back = self.places.now + Duration::from_millis(long);
            match self.away {
                Away::CutOff => self.places.split(node),
                Away::StandsStill => self.places.pause(node),
            }
            for _ in 0..ROUNDS {
                self.publish();
                let pause = self.random.between(1, 150) as u64;
                let until = self.places.now + Duration::from_millis(pause);
                if back <= until {
                    self.bring_back(node, back);
                }
                self.run_until(until);
            }
            self.bring_back(node, back);
            self.places.run(8 * SECOND);
        }
        self.places.weather = Weather::FINE;
        self.places.run(20 * SECOND);
    }

    /// The node is there again at this moment.
    fn bring_back(&mut self, node: usize, back: Instant) {
        self.run_until(back);
        self.places.heal();
        self.places.wake(node);
    }

    fn run_until(&mut self, until: Instant) {
        let time = until.saturating_duration_since(self.places.now);
        self.places.run(time);
    }

    fn publish(&mut self) {
        for (node, publisher) in self.publishers.iter().enumerate() {
            let number = number(node, self.round);
            self.places.publish(*publisher, "t/x", qos_of(number), number);
        }
        self.round += 1;
    }

    /// Q1 and S1; says how many of QoS 2 came twice.
    fn look(&self) -> Result<usize, String> {
        for publisher in &self.publishers {
            let open = self.places.unacknowledged(*publisher);
            if open > 0 {
                return Err(format!("{open} of {publisher:?} are not acknowledged"));
            }
        }
        let nodes: Vec<usize> = (0..self.nodes).collect();
        let mut twice = 0;
        for subscriber in &self.subscribers {
            let name = subscriber.name(&self.places);
            self.places.check_rest(*subscriber)?;
            for present in self.places.sessions_present(*subscriber).iter().skip(1) {
                s1::check_present(&name, Some(true), *present)?;
            }
            let heard = self.places.heard(*subscriber);
            let all: BTreeSet<u64> = heard.iter().copied().collect();
            q1::check(&name, all_of(&nodes, self.round), &all)?;
            let is_exactly_once = |number: &&u64| qos_of(**number) == QoS::ExactlyOnce;
            twice +=
                heard.iter().filter(is_exactly_once).count() - all.iter().filter(is_exactly_once).count();
        }
        Ok(twice)
    }
}

/// How many of QoS 2 came twice, of all storms.
fn nothing_is_lost(nodes: usize, away: Away, times: &Range<usize>) -> usize {
    let mut twice = 0;
    let broken: Vec<_> = Seeds::new("storms of nodes that are cut off", 0..SEEDS)
        .filter_map(|seed| {
            let mut storm = Storm::new(nodes, away, seed);
            storm.rage(times);
            let found = storm.look().map(|count| twice += count);
            found.err().map(|why| format!("seed {seed}: {why}"))
        })
        .collect();
    assert!(
        broken.is_empty(),
        "{} of {SEEDS} of {nodes} nodes, {away:?}: {broken:#?}",
        broken.len()
    );
    twice
}

#[test]
fn a_node_of_three_is_cut_off_for_about_as_long_as_it_takes_to_be_missed() {
    assert_eq!(nothing_is_lost(3, Away::CutOff, &MISSED), 0);
}

#[test]
fn a_node_of_five_is_cut_off_for_about_as_long_as_it_takes_to_be_missed() {
    assert_eq!(nothing_is_lost(5, Away::CutOff, &MISSED), 0);
}

#[test]
fn a_node_of_three_stands_still_for_about_as_long_as_it_takes_to_be_missed() {
    assert_eq!(nothing_is_lost(3, Away::StandsStill, &MISSED), 0);
}

#[test]
fn a_node_of_three_is_cut_off_for_about_as_long_as_it_takes_to_go_on_by_itself() {
    assert_eq!(nothing_is_lost(3, Away::CutOff, &ALONE), 0);
}
