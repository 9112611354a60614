//! Five nodes, of which three lose their power or stand still, and durable sessions that began at these. One is away at a time.
//!
//! Not here: two that are lost in one moment, of which a message may be missed when the others notice it in different orders; one that comes
//! back at the very moment when it is missed; splits, since what both sides have written is not brought together yet; and a node that should go on with sessions and is away for a moment just then.

use std::time::{Duration, Instant};

use cluster::random::Random;
use protocol::packet::QoS;

use crate::places::{Party, Places, QOS, Weather, Who, all_of, number, qos_of};

const SECOND: Duration = Duration::from_secs(1);

const NODES: usize = 5;

/// Those that stay.
const STAYING: usize = 2;

/// When the others notice, in milliseconds.
const MISSED: std::ops::Range<u64> = 1_500..3_000;

/// For how many milliseconds a node is away at most; after two thousand it is lost.
const AWAY_MAX: usize = 8_000;

const SEEDS: u64 = 200;

const ROUNDS: u64 = 150;

/// One run.
struct Storm {
    places: Places,
    random: Random,
    subscribers: Vec<(Who, QoS)>,
    publishers: [Who; STAYING],
    /// Nobody else goes away before that.
    quiet_until: Instant,
    /// The node that stands still, and until when.
    paused: Option<(usize, Instant)>,
}

impl Storm {
    fn new(seed: u64) -> Self {
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
        places.weather = Weather {
            delay_max: Duration::from_millis([0, 2, 10, 40][seed as usize % 4]),
            slow_disks: seed & 4 == 0,
            ..Weather::FINE
        };
        Self {
            quiet_until: places.now,
            places,
            random: Random::new(seed),
            subscribers,
            publishers,
            paused: None,
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

    /// Something happens to a node.
    fn trouble(&mut self) {
        if self.places.now < self.quiet_until {
            return;
        }
        let node = self.random.between(STAYING, NODES);
        let away = self.random.between(10, AWAY_MAX) as u64;
        let away = if MISSED.contains(&away) { MISSED.end } else { away };
        match self.random.between(0, 3) {
            0 => {
                self.places.pause(node);
                self.paused = Some((node, self.places.now + Duration::from_millis(away)));
            }
            _ => self.places.crash(node, Duration::from_millis(away)),
        }
        // Until all have what they are to have.
        self.quiet_until = self.places.now + Duration::from_millis(away) + 3 * SECOND;
    }

    fn run(&mut self, time: Duration) {
        let end = self.places.now + time;
        while self.places.now < end {
            self.places.step();
            let now = self.places.now;
            if let Some((node, _)) = self.paused.take_if(|(_, until)| *until < now) {
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
            let holders = self.places.holders(*subscriber);
            if holders.len() != 1 {
                return Err(format!("{subscriber:?} is held by {holders:?}"));
            }
            self.places
                .check_heard(*subscriber, *granted, all_of(&[0, 1], ROUNDS), |_| true)?;
        }
        Ok(())
    }
}

#[test]
fn nothing_acknowledged_is_lost_or_doubled_or_overtaken_whoever_is_lost() {
    let broken: Vec<_> = (0..SEEDS)
        .filter_map(|seed| {
            let mut storm = Storm::new(seed);
            storm.rage();
            storm.look().err().map(|why| format!("seed {seed}: {why}"))
        })
        .collect();
    assert!(broken.is_empty(), "{} of {SEEDS}: {broken:#?}", broken.len());
}
