//! Kills the server at random moments while 50 connections write to it, starts it again on the same data, and
//! looks at what is there.
//!
//! What was acknowledged must be there; what is there must have been sent; versions never go back; a later
//! write of a connection is never there without the earlier ones. Writes whose answer never came may be there
//! or not. `kill -9` loses what the process had not handed to the operating system; what the operating system
//! had not handed to the disk is the simulated disk's part.
//!
//! A moment is a random number of acknowledgements after the start of the round, so nothing waits for a clock.
//! `STATEHOLD_CRASH_ROUNDS` sets how many rounds there are, `STATEHOLD_CRASH_SEED` which moments.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says why it fails by failing"
)]

mod queue;
mod retained;
mod store;
mod subscriptions;
#[path = "../support/support.rs"]
mod support;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Condvar, Mutex};
use std::thread;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use support::server::Server;
use support::wire::TIMEOUT;

/// Counts acknowledgements, so that the kill comes after a given number of them.
#[derive(Debug, Default)]
struct Progress {
    acknowledged: Mutex<u64>,
    more: Condvar,
}

impl Progress {
    fn acknowledged(&self) {
        *self.acknowledged.lock().unwrap() += 1;
        self.more.notify_one();
    }

    /// Returns after `count` acknowledgements.
    fn wait(&self, count: u64) {
        let guard = self.acknowledged.lock().unwrap();
        let (guard, timeout) = self
            .more
            .wait_timeout_while(guard, TIMEOUT, |done| *done < count)
            .unwrap();
        assert!(
            !timeout.timed_out(),
            "only {} of {count} acknowledgements came",
            *guard
        );
    }
}

/// Everybody who writes: 38 + 6 + 2 + 4 = 50 connections, and those of three consumers.
#[derive(Debug)]
struct Load {
    stores: Vec<store::Writer>,
    queues: Vec<queue::Pair>,
    retained: Vec<retained::Writer>,
    subscriptions: Vec<subscriptions::Writer>,
}

impl Load {
    fn new(server: &Server) -> Self {
        let load = Self {
            stores: (0..38).map(store::Writer::new).collect(),
            queues: (0..6).map(queue::Pair::new).collect(),
            retained: (0..2).map(retained::Writer::new).collect(),
            subscriptions: (0..4).map(subscriptions::Writer::new).collect(),
        };
        for pair in &load.queues {
            pair.prepare(server.mqtt());
        }
        load
    }

    /// Writes on all connections until the server is killed after `count` acknowledgements.
    fn run(&mut self, server: &mut Server, count: u64) {
        let (address, progress) = (server.mqtt(), &Progress::default());
        thread::scope(|scope| {
            // What ends each of them is the end of its connection, so the errors say nothing.
            for writer in &mut self.stores {
                scope.spawn(move || writer.load(address, progress).unwrap_err());
            }
            for pair in &mut self.queues {
                pair.load(scope, address, progress);
            }
            for writer in &mut self.retained {
                scope.spawn(move || writer.load(address, progress).unwrap_err());
            }
            for writer in &mut self.subscriptions {
                scope.spawn(move || writer.load(address, progress).unwrap_err());
            }
            progress.wait(count);
            server.kill();
        });
    }

    /// Looks at everything after the restart.
    fn check(&mut self, server: &Server) {
        let address = server.mqtt();
        store::check(&mut self.stores, address).unwrap();
        for pair in &mut self.queues {
            pair.check(address).unwrap();
        }
        for writer in &mut self.retained {
            writer.check(address).unwrap();
        }
        for writer in &mut self.subscriptions {
            writer.check(address).unwrap();
        }
    }
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let rounds: u32 = variable("STATEHOLD_CRASH_ROUNDS").unwrap_or(ROUNDS);
    let seed = variable("STATEHOLD_CRASH_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
    println!("STATEHOLD_CRASH_SEED={seed} STATEHOLD_CRASH_ROUNDS={rounds}");
    let mut random = SmallRng::seed_from_u64(seed);

    let mut server = Server::start_with(SETTINGS);
    let mut load = Load::new(&server);
    for round in 1..=rounds {
        let count = random.random_range(1..=ACKNOWLEDGEMENTS_MAX);
        load.run(&mut server, count);
        server.start_again();
        load.check(&server);
        println!("round {round}: killed after {count} acknowledgements");
    }
    let writes: u64 = load.stores.iter().map(store::Writer::acknowledged).sum();
    println!("{writes} acknowledged writes of keys were checked");
    assert!(writes > 0);
}

/// The checks above are worth something: they notice when the data of a whole round are gone.
#[test]
fn a_lost_round_is_noticed() {
    let mut server = Server::start();
    let mut load = Load::new(&server);
    load.run(&mut server, 200);
    let earlier = tempfile::TempDir::new().unwrap();
    server.copy_data(earlier.path());
    server.start_again();
    load.check(&server);
    load.run(&mut server, 2_000);
    server.replace_data(earlier.path());
    server.start_again();

    let noticed = |name: &str, check: &mut dyn FnMut()| {
        let check = std::panic::AssertUnwindSafe(check);
        assert!(
            std::panic::catch_unwind(check).is_err(),
            "{name}: a lost round went unnoticed"
        );
    };
    let address = server.mqtt();
    noticed("keys", &mut || store::check(&mut load.stores, address).unwrap());
    noticed("retained messages", &mut || {
        load.retained[0].check(address).unwrap();
    });
    noticed("messages", &mut || load.queues[4].check(address).unwrap());
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value} is no number")),
    )
}

/// A snapshot after every few thousand writes, so that some of the kills come while one is taken.
const SETTINGS: &str = "[snapshot]\nlog_bytes_min = \"64KiB\"\n";

/// What CI can afford.
const ROUNDS: u32 = 100;

/// A round's kill comes at the latest here: far enough for more than one snapshot, near enough that a round takes
/// about a second.
const ACKNOWLEDGEMENTS_MAX: u64 = 4_000;
