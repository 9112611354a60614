//! Wills of sessions that end with their connection: each is published once, whatever becomes of the node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster::random::Random;
use mqtt::authorization::Right;
use protocol::packet::QoS;
use sim::machine::MachineConfig;
use sim::promises::w1::{Fate, Wills};

use crate::places::{Party, Places, Weather, Who};

/// How long it takes until a node is taken for dead, and others have done what they are to.
const LOSS: Duration = Duration::from_secs(4);

/// Nodes that are responsible together, and a subscriber to all wills at the first one, which stays.
fn places(count: usize, seed: u64, change: fn(&mut MachineConfig)) -> (Places, Who) {
    let mut places = Places::running(seed, count, change);
    let subscriber = places.connect(Party::new(0, "subscriber"));
    places.subscribe(subscriber, "wills", QoS::AtLeastOnce);
    (places, subscriber)
}

fn with_will(places: &mut Places, node: usize, number: u64) -> Who {
    places.connect(Party::new(node, &format!("mortal{number}")).with_will("wills", number))
}

#[test]
fn the_wills_of_a_node_that_dies_are_published_once() {
    let (mut places, subscriber) = places(3, 2, |_| {});
    for number in 0..20 {
        with_will(&mut places, 2, number);
    }
    places.kill(2);
    places.run(LOSS);
    let mut heard = places.heard(subscriber);
    heard.sort_unstable();
    assert_eq!(heard, (0..20).collect::<Vec<_>>());
}

#[test]
fn those_of_a_node_that_starts_again_at_once_are_published_too() {
    for seed in 0..10 {
        let (mut places, subscriber) = places(3, seed, |_| {});
        for number in 0..5 {
            let mortal = with_will(&mut places, 2, number);
            places.forget(mortal);
        }
        places.crash(2, Duration::from_millis(50 + 100 * seed));
        places.run(2 * LOSS);
        let mut heard = places.heard(subscriber);
        heard.sort_unstable();
        assert_eq!(heard, [0, 1, 2, 3, 4], "seed {seed}");
    }
}

#[test]
fn who_has_said_goodbye_or_was_lost_before_has_no_will_any_more_when_its_node_dies() {
    let (mut places, subscriber) = places(3, 3, |_| {});
    for number in 0..10 {
        let mortal = with_will(&mut places, 2, number);
        if number % 2 == 0 {
            places.disconnect(mortal);
        } else {
            places.lose(mortal);
        }
    }
    places.run(Duration::from_millis(20));
    assert_eq!(places.heard(subscriber), [1, 3, 5, 7, 9], "by its own node");
    places.kill(2);
    places.run(LOSS);
    assert_eq!(places.heard(subscriber), [1, 3, 5, 7, 9]);
}

#[test]
fn a_will_that_was_published_while_its_node_was_away_is_published_when_its_connection_is_lost() {
    for (seed, is_lost_at_once) in [(0, false), (1, true), (2, false), (3, true)] {
        let (mut places, subscriber) = places(3, seed, |_| {});
        let mortals: Vec<_> = (0..6).map(|number| with_will(&mut places, 2, number)).collect();
        places.pause(2);
        places.run(LOSS);
        let mut heard = places.heard(subscriber);
        heard.sort_unstable();
        assert_eq!(
            heard,
            [0, 1, 2, 3, 4, 5],
            "seed {seed}: nobody knows that it will be back"
        );
        places.wake(2);
        if !is_lost_at_once {
            places.run(2 * LOSS);
        }
        mortals.into_iter().for_each(|mortal| places.lose(mortal));
        places.run(2 * LOSS);
        let mut again = places.heard(subscriber).split_off(6);
        again.sort_unstable();
        assert_eq!(again, [0, 1, 2, 3, 4, 5], "seed {seed}");
        let mortal = with_will(&mut places, 2, 7);
        places.lose(mortal);
        places.run(LOSS);
        assert_eq!(places.heard(subscriber)[12..], [7], "seed {seed}");
    }
}

#[test]
fn a_node_that_was_away_for_a_moment_publishes_the_wills_of_those_who_went_meanwhile() {
    for millis in [500, 1_200, 1_700] {
        let (mut places, subscriber) = places(3, millis, |_| {});
        let mortal = with_will(&mut places, 2, 7);
        places.pause(2);
        places.run(Duration::from_millis(millis));
        places.wake(2);
        places.lose(mortal);
        places.run(Duration::from_millis(50));
        assert_eq!(places.heard(subscriber), [7], "{millis} ms");
        places.run(2 * LOSS);
        assert_eq!(places.heard(subscriber), [7], "{millis} ms");
    }
}

#[test]
fn what_a_client_may_publish_is_asked_when_its_will_is_published() {
    for (rules, expected) in [
        ("client=* connect publish=wills subscribe=#", vec![7]),
        ("client=* connect subscribe=#", vec![]),
    ] {
        let policies = |config: &mut MachineConfig| {
            config.policies = sim::transcript::policies(&["client=* connect publish=wills subscribe=#"])
                .expect("the rules are understood");
        };
        let (mut places, subscriber) = places(3, 11, policies);
        with_will(&mut places, 2, 7);
        places.kill(2);
        for node in [0, 1] {
            places.set_policies(node, &[rules]);
        }
        places.run(LOSS);
        assert_eq!(places.heard(subscriber), expected, "{rules}");
        let denied = [0, 1].map(|node| places.machine(node).node().counters().denied[Right::Will as usize]);
        assert_eq!(denied.iter().sum::<u64>(), 1 - expected.len() as u64, "{rules}");
    }
}

/// Clients with wills come and go at five nodes that die and come back; the first one stays.
struct Storm {
    places: Places,
    subscriber: Who,
    random: Random,
    next: u64,
    /// By node.
    connected: BTreeMap<usize, Vec<(Who, u64)>>,
    wills: Wills,
}

const STORM_NODES: usize = 5;

impl Storm {
    fn new(seed: u64) -> Self {
        let (mut places, subscriber) = places(STORM_NODES, seed, |_| {});
        places.weather = Weather {
            delay_max: Duration::from_millis([0, 2, 10, 40][seed as usize % 4]),
            ..Weather::FINE
        };
        Self {
            places,
            subscriber,
            random: Random::new(seed),
            next: 1,
            connected: BTreeMap::new(),
            wills: Wills::default(),
        }
    }

    fn rage(&mut self) {
        for _ in 0..60 {
            match self.random.between(0, 12) {
                0..7 => self.connect(),
                7 => self.part(Fate::SaidGoodbye),
                8 => self.part(Fate::Lost),
                9 => self.pause(),
                _ => self.crash(),
            }
            let pause = self.random.between(0, 400) as u64;
            self.places.run(Duration::from_millis(pause));
        }
        self.places.run(5 * LOSS);
    }

    fn node(&mut self) -> Option<usize> {
        let node = self.random.between(1, STORM_NODES);
        self.places.is_there(node).then_some(node)
    }

    fn connect(&mut self) {
        let Some(node) = self.node() else { return };
        let number = self.next;
        self.next += 1;
        let who = with_will(&mut self.places, node, number);
        self.wills.note(number, Fate::Connected);
        self.connected.entry(node).or_default().push((who, number));
    }

    fn part(&mut self, fate: Fate) {
        let Some(node) = self.node() else { return };
        self.part_from(node, fate);
        // It is known everywhere before anybody dies.
        self.places.run(Duration::from_millis(100));
    }

    fn part_from(&mut self, node: usize, fate: Fate) -> Option<u64> {
        let (who, number) = self.connected.get_mut(&node).and_then(Vec::pop)?;
        if fate == Fate::Lost {
            self.wills.note(number, fate);
            self.places.lose(who);
            return Some(number);
        }
        self.wills.note(number, fate);
        self.places.disconnect(who);
        Some(number)
    }

    /// A node is away for a while, shorter or longer than it takes to be given up; some connections may break meanwhile.
    fn pause(&mut self) {
        let Some(node) = self.node() else { return };
        self.places.pause(node);
        let away = self.random.between(100, 6_000) as u64;
        self.places.run(Duration::from_millis(away));
        for (_, number) in self.connected.get(&node).into_iter().flatten() {
            self.wills.note_given_up(*number);
        }
        self.places.wake(node);
        for _ in 0..self.random.between(0, 3) {
            self.part_from(node, Fate::Lost);
        }
        self.places.run(LOSS);
    }

    /// One node is cut off from the others for a while, in which connections are lost on both sides. False if the subscriber was not on the side that went on: it may
    /// have heard wills of that side, and hears them again.
    fn split(&mut self) -> bool {
        for _ in 0..4 {
            self.connect();
        }
        let alone = self.random.between(1, STORM_NODES);
        self.places.split(alone);
        let healed_at = self.places.now + LOSS;
        // Whoever is in touch publishes at once: what is on its way then is not known to others.
        self.places.run(Duration::from_millis(1_200));
        for _ in 0..self.random.between(0, 6) {
            let pause = self.random.between(0, 1_000) as u64;
            self.places.run(Duration::from_millis(pause));
            let node = self.random.between(1, STORM_NODES);
            let number = self.part_from(node, Fate::Lost);
            // It may have been published on the other side, or on both.
            if let Some(number) = number.filter(|_| node == alone) {
                self.wills.note_given_up(number);
            }
        }
        // Everybody knows: of a shorter split each node has an opinion of its own.
        let left = healed_at.saturating_duration_since(self.places.now);
        self.places.run(left);
        self.places.heal();
        let merged = self.run_and_note_who_merges(alone);
        for node in 1..STORM_NODES {
            self.part_from(node, Fate::Lost);
        }
        self.places.run(LOSS);
        !merged.contains(&0)
    }

    /// Time passes. The node that was cut off, and whoever is not RUNNING meanwhile, was taken for dead: also others, of whom it has said that they are.
    fn run_and_note_who_merges(&mut self, alone: usize) -> BTreeSet<usize> {
        let until = self.places.now + 2 * LOSS;
        let mut merged = BTreeSet::from([alone]);
        while self.places.now < until {
            self.places.step();
            merged.extend((0..STORM_NODES).filter(|node| !self.places.is_running(*node)));
        }
        for (node, connected) in &self.connected {
            for (_, number) in connected.iter().filter(|_| merged.contains(node)) {
                self.wills.note_given_up(*number);
            }
        }
        merged
    }

    fn crash(&mut self) {
        let Some(node) = self.node() else { return };
        for (who, number) in self.connected.remove(&node).unwrap_or_default() {
            self.places.forget(who);
            self.wills.note(number, Fate::Died);
        }
        let down = self.random.between(10, 8_000) as u64;
        self.places.crash(node, Duration::from_millis(down));
        self.places.run(LOSS);
    }
}

#[test]
fn each_will_is_published_once_whoever_dies() {
    for seed in 0..8 {
        let mut storm = Storm::new(seed);
        storm.rage();
        let heard = storm.places.heard(storm.subscriber);
        if let Err(broken) = storm.wills.check(&heard) {
            panic!("seed {seed}: {broken}");
        }
    }
}

#[test]
fn each_will_is_heard_once_on_the_larger_side_whoever_is_cut_off() {
    let mut checked = 0;
    for seed in 0..6 {
        let mut storm = Storm::new(seed);
        while storm.split() && storm.next < 40 {
            let heard = storm.places.heard(storm.subscriber);
            if let Err(broken) = storm.wills.check(&heard) {
                panic!("seed {seed}: {broken}");
            }
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}

#[test]
fn a_will_outlives_its_node_and_an_owner() {
    for seed in 0..10 {
        let (mut places, subscriber) = places(4, seed, |_| {});
        for number in 0..10 {
            with_will(&mut places, 3, number);
        }
        places.kill(2);
        let between = 300 * seed;
        places.run(Duration::from_millis(between));
        places.kill(3);
        places.run(2 * LOSS);
        let mut heard = places.heard(subscriber);
        heard.sort_unstable();
        assert_eq!(heard, Vec::from_iter(0..10), "seed {seed}");
    }
}
