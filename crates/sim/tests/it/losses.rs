//! Five nodes, of which three lose their power or stand still, and durable sessions that began at these. Two of them are away at a time at most: each
//! session is at three nodes. Nothing is missed or overtaken then, and nothing of QoS 2 comes twice.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use cluster::random::Random;
use protocol::packet::QoS;

use crate::places::{Party, Places, QOS, Weather, Who, all_of, number, qos_of};
use crate::progress::Seeds;

const SECOND: Duration = Duration::from_secs(1);

const NODES: usize = 5;

/// Those that stay.
const STAYING: usize = 2;

/// For how many milliseconds a node is away at most; after two thousand it is lost.
const AWAY_MAX: usize = 8_000;

/// For how many it is away if it is back just when it is missed.
const MISSED: Range<usize> = 1_500..3_000;

/// The others miss it somewhere in this time.
const MISSING: Range<usize> = 1_500..2_100;

const SEEDS: u64 = 16;

const ROUNDS: u64 = 150;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// One node is away, for any time after which it is clear whether it was missed.
    One,
    /// One is back just when it is missed.
    JustMissed,
    /// Two go away at one moment, and come back when they do.
    TwoAtOnce,
    /// A second one goes away while the first one is.
    Overlapping,
}

/// One run.
struct Storm {
    trouble: Trouble,
    places: Places,
    random: Random,
    subscribers: Vec<(Who, QoS)>,
    publishers: [Who; STAYING],
    /// Nobody else goes away before that.
    quiet_until: Instant,
    /// The nodes that stand still, and until when.
    paused: BTreeMap<usize, Instant>,
}

impl Storm {
    fn new(trouble: Trouble, seed: u64) -> Self {
        let mut places = Places::running(seed, NODES, |_| {});
        let mut subscribers = Vec::new();
        for number in 0..6 {
            let name = format!("subscriber{number}");
            let subscriber = places.connect(Party::durable(STAYING + number % 3, &name));
            let qos = QOS[number / 3];
            places.subscribe(subscriber, "t/#", qos);
            places.go(subscriber, number % STAYING);
            subscribers.push((subscriber, qos));
        }
        let publishers = [0, 1].map(|node| places.connect(Party::durable(node, &format!("publisher{node}"))));
        places.weather = Weather::of_storm(seed);
        Self {
            trouble,
            quiet_until: places.now,
            places,
            random: Random::new(seed),
            subscribers,
            publishers,
            paused: BTreeMap::new(),
        }
    }

    fn rage(&mut self) {
        for round in 0..ROUNDS {
            for (node, publisher) in self.publishers.into_iter().enumerate() {
                let number = number(node, round);
                self.places.publish(publisher, "t/x", qos_of(number), number);
            }
            if self.random.between(0, 5) == 0 {
                self.trouble();
            }
            let pause = self.random.between(1, 400) as u64;
            self.run(Duration::from_millis(pause));
        }
        self.places.weather = Weather::FINE;
        self.run(10 * SECOND);
        self.places.run(10 * SECOND);
    }

    /// Something happens to a node or two.
    fn trouble(&mut self) {
        if self.places.now < self.quiet_until {
            return;
        }
        let node = self.random.between(STAYING, NODES);
        let other = STAYING + (node - STAYING + self.random.between(1, NODES - STAYING)) % (NODES - STAYING);
        let back = match self.trouble {
            Trouble::One => self.lose_somehow(node, 10..AWAY_MAX),
            Trouble::JustMissed => self.lose_somehow(node, MISSED),
            Trouble::TwoAtOnce => {
                let back = self.lose_somehow(node, 10..AWAY_MAX);
                back.max(self.lose_somehow(other, 10..AWAY_MAX))
            }
            Trouble::Overlapping => {
                let back = self.lose_somehow(node, 10..AWAY_MAX);
                let between = self.random.between(1, MISSED.end) as u64;
                self.run(Duration::from_millis(between));
                back.max(self.lose_somehow(other, 10..AWAY_MAX))
            }
        };
        // Until all have what they are to have.
        self.quiet_until = back + 3 * SECOND;
    }

    /// A node stands still or loses its power; says when it is there again.
    fn lose_somehow(&mut self, node: usize, away: Range<usize>) -> Instant {
        let is_clear = |away: &usize| self.trouble != Trouble::One || !MISSING.contains(away);
        let mut draws = std::iter::repeat_with(|| self.random.between(away.start, away.end));
        let away = draws.find(is_clear).expect("there are others");
        let away = Duration::from_millis(away as u64);
        if self.random.between(0, 3) == 0 {
            self.places.pause(node);
            self.paused.insert(node, self.places.now + away);
        } else {
            self.places.crash(node, away);
        }
        self.places.now + away
    }

    fn run(&mut self, time: Duration) {
        let end = self.places.now + time;
        while self.places.now < end {
            self.places.step();
            let now = self.places.now;
            let awake = self.paused.extract_if(.., |_, until| *until < now);
            for node in awake.map(|(node, _)| node).collect::<Vec<_>>() {
                self.places.wake(node);
            }
        }
    }

    /// Q1, Q2 and Q3.
    fn look(&self) -> Result<(), String> {
        for publisher in self.publishers {
            let open = self.places.unacknowledged(publisher);
            if open > 0 {
                return Err(format!("{open} of {publisher:?} are not acknowledged"));
            }
        }
        for (subscriber, granted) in &self.subscribers {
            self.places.check_rest(*subscriber)?;
            self.places
                .check_heard(*subscriber, *granted, all_of(&[0, 1], ROUNDS), |_| true)?;
        }
        Ok(())
    }
}

fn nothing_is_lost_or_doubled_or_overtaken(trouble: Trouble) {
    let broken: Vec<_> = Seeds::new("storms of lost nodes", 0..SEEDS)
        .filter_map(|seed| {
            let mut storm = Storm::new(trouble, seed);
            storm.rage();
            storm.look().err().map(|why| format!("seed {seed}: {why}"))
        })
        .collect();
    assert!(
        broken.is_empty(),
        "{} of {SEEDS} {trouble:?}: {broken:#?}",
        broken.len()
    );
}

#[test]
fn one_node_is_lost() {
    nothing_is_lost_or_doubled_or_overtaken(Trouble::One);
}

#[test]
fn a_node_is_back_just_when_it_is_missed() {
    nothing_is_lost_or_doubled_or_overtaken(Trouble::JustMissed);
}

#[test]
fn two_nodes_are_lost_at_one_moment() {
    nothing_is_lost_or_doubled_or_overtaken(Trouble::TwoAtOnce);
}

#[test]
fn a_node_is_lost_while_another_one_is_away() {
    nothing_is_lost_or_doubled_or_overtaken(Trouble::Overlapping);
}
