//! Requests find the leaders of their groups, also new ones, and are executed once.

use std::time::{Duration, Instant};

use crate::client::Response;
use crate::world::{DELAY, Place, STEP, World, key_of};

/// Which of the messages are commands for a leader.
const COMMANDS: u8 = 2;

const SECOND: Duration = Duration::from_secs(1);

/// Node 0 leads group 0 and so on.
fn spread(seed: u64) -> World {
    let mut world = World::new(seed);
    world.run(10 * SECOND, World::is_spread);
    assert!(world.is_spread());
    world
}

/// Steps until so many responses came. The last is when that was.
fn await_responses(world: &mut World, at: Place, count: usize) -> (Vec<Response>, Instant) {
    let mut responses = world.responses(at);
    let end = world.now + 3 * SECOND;
    while responses.len() < count {
        assert!(world.now < end, "no answer: {responses:?}");
        world.step();
        responses.extend(world.responses(at));
    }
    (responses, world.now)
}

#[test]
fn who_waits_for_a_new_leader_asks_it_within_a_round_trip() {
    let mut seen = 0;
    for seed in 1..=8 {
        let mut world = spread(seed);
        let at = world.client(1, "c");
        world.kill(0);
        world.ask(at, "c", 1, &["SET", &key_of(0), "v"]);
        world.ask(at, "c", 2, &["GET", &key_of(0)]);
        world.ask(at, "c", 3, &["SET", &key_of(1), "v"]);
        let (responses, answered_at) = await_responses(&mut world, at, 1);
        assert_eq!(responses[0].number, 3, "group 1 has its leader");
        assert!(answered_at < world.now + 20 * DELAY);

        world.run(3 * SECOND, |world| world.leaders()[0].is_some());
        let elected_at = world.now;
        if world.leaders()[0] == Some(1) {
            // Its own node leads: nobody is asked.
            continue;
        }
        seen += 1;
        let sent_before = world.sent.len();
        let (_, answered_at) = await_responses(&mut world, at, 2);
        let sent = world.sent[sent_before..].iter();
        let asked = sent
            .filter(|sent| (sent.from, sent.to, sent.group, sent.kind) == (1, 2, 0, COMMANDS))
            .map(|sent| sent.at)
            .next();
        let asked = asked.expect("the new leader is asked");
        assert!(asked + DELAY <= elected_at + 2 * DELAY + 2 * STEP, "seed {seed}");
        assert!(answered_at <= elected_at + 10 * DELAY, "seed {seed}");
    }
    assert!(seen > 0, "another node was elected in some run");
}

#[test]
fn a_request_that_was_answered_is_answered_the_same_by_the_next_leader_and_another_node() {
    let mut world = spread(1);
    let at = world.client(1, "c");
    let key = key_of(0);
    world.ask(at, "c", 1, &["SET", &key, "v", "NX"]);
    let (first, _) = await_responses(&mut world, at, 1);
    assert_eq!(first[0].payload, "+OK\r\n");
    world.machine(1).lose(at.connection);
    world.kill(0);
    let at = world.client(2, "c");
    world.ask(at, "c", 1, &["SET", &key, "v", "NX"]);
    let (second, _) = await_responses(&mut world, at, 1);
    assert_eq!(first, second);
    world.ask(at, "c", 2, &["SET", &key, "v", "NX"]);
    let (another, _) = await_responses(&mut world, at, 1);
    assert_eq!(another[0].payload, ":-1\r\n");
}

#[test]
fn a_request_that_comes_by_two_nodes_at_once_is_executed_once() {
    for wait in 0..8 {
        let mut world = spread(1);
        let key = key_of(0);
        let here = world.client(1, "c");
        // It stays connected to both, as after a split that neither has noticed.
        let there = world.client(2, "c");
        world.ask(here, "c", 1, &["SET", &key, "v", "NX"]);
        world.run(wait * STEP, |_| false);
        world.ask(there, "c", 1, &["SET", &key, "v", "NX"]);
        let (first, _) = await_responses(&mut world, here, 1);
        let (second, _) = await_responses(&mut world, there, 1);
        assert_eq!(first[0].payload, "+OK\r\n", "{wait}");
        assert_eq!(first, second, "{wait}");
    }
}

#[test]
fn requests_of_a_client_for_a_key_are_executed_in_their_order_while_the_leader_changes() {
    const REQUESTS: u16 = 120;

    for is_killed in [false, true] {
        let mut world = spread(3);
        let at = world.client(1, "c");
        let key = key_of(0);
        let mut responses = Vec::new();
        for number in 1..=REQUESTS {
            world.ask(at, "c", number, &["SET", &key, &number.to_string()]);
            match number {
                40 if is_killed => world.kill(0),
                40 => world.machine(0).stop(),
                _ => {}
            }
            world.step();
            responses.extend(world.responses(at));
        }
        let missing = usize::from(REQUESTS) - responses.len();
        responses.extend(await_responses(&mut world, at, missing).0);
        responses.sort_by_key(|response| response.number);
        let counters = responses.iter().map(|response| {
            assert_eq!(response.payload, "+OK\r\n", "{response:?}");
            let version = response.version.as_deref().unwrap_or_default();
            let mut parts = version.split(':').map_while(|part| part.parse::<u64>().ok());
            (parts.next(), parts.next())
        });
        let counters: Vec<_> = counters.collect();
        assert!(
            counters.is_sorted_by(|first, second| first < second),
            "{counters:?}"
        );
        world.ask(at, "c", REQUESTS + 1, &["GET", &key]);
        let (last, _) = await_responses(&mut world, at, 1);
        assert_eq!(last[0].payload, format!("$3\r\n{REQUESTS}\r\n"));
    }
}
