//! A session has gone on at two nodes: when they meet, it is one again, with everything that either side has told its client.

use std::collections::BTreeSet;
use std::time::Duration;

use protocol::packet::QoS;
use sim::promises::q1;

use crate::places::{Party, Places, Weather, Who};

const SECOND: Duration = Duration::from_secs(1);

/// Until the nodes have lost each other, and others have gone on.
const PARTED: Duration = Duration::from_secs(4);

/// Until they are one cluster again.
const MERGED: Duration = Duration::from_secs(10);

const QOS: [QoS; 2] = [QoS::AtLeastOnce, QoS::ExactlyOnce];

/// Three nodes that are responsible together; the first one is going to be alone.
fn places(seed: u64) -> Places {
    let mut places = Places::with_nodes(seed, 3, |_| {});
    places.settle();
    places.run(5 * SECOND);
    places
}

/// A publisher at the node that is going to be alone, and one at another.
fn publishers(places: &mut Places) -> [Who; 2] {
    [0, 1].map(|node| places.connect(Party::new(node, &format!("publisher{node}"))))
}

/// Each publishes some messages with this hundred of their numbers, of both QoS.
fn publish(places: &mut Places, publishers: [Who; 2], topic: &str, hundred: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    for round in 0..10 {
        for (node, publisher) in publishers.into_iter().enumerate() {
            let number = hundred * 100 + node as u64 * 50 + round;
            places.publish(publisher, topic, QOS[round as usize % 2], number);
            numbers.push(number);
        }
        places.run(Duration::from_millis(20));
    }
    numbers
}

/// All of these have come; those of QoS 2 once.
fn check(seed: u64, places: &Places, who: Who, numbers: &[u64]) {
    let heard = places.heard(who);
    let all: BTreeSet<u64> = heard.iter().copied().collect();
    let found = q1::check(format!("seed {seed}"), numbers.iter().copied(), &all);
    assert_eq!(found, Ok(()));
    for number in numbers.iter().filter(|number| *number % 2 == 1) {
        let times = heard.iter().filter(|heard| *heard == number).count();
        assert_eq!(times, 1, "seed {seed}: {number}");
    }
}

/// Nothing is left of the split.
fn check_quiet(seed: u64, places: &Places, who: Who) {
    assert_eq!(places.check_rest(who), Ok(()), "seed {seed}");
}

#[test]
fn what_waited_on_both_sides_reaches_a_client_that_was_away() {
    for seed in 0..20 {
        let mut places = places(seed);
        let subscriber = places.connect(Party::durable(seed as usize % 3, "subscriber"));
        let publishers = publishers(&mut places);
        places.subscribe(subscriber, "t", QoS::ExactlyOnce);
        places.lose(subscriber);
        let mut numbers = publish(&mut places, publishers, "t", 1);
        places.run(SECOND);
        places.split(0);
        places.run(PARTED);
        numbers.extend(publish(&mut places, publishers, "t", 2));
        places.run(SECOND);
        let open = publishers.map(|publisher| places.unacknowledged(publisher));
        assert_eq!(open, [0, 0], "both sides serve");
        places.heal();
        places.run(MERGED);
        numbers.extend(publish(&mut places, publishers, "t", 3));
        places.come_back(subscriber);
        places.run(2 * SECOND);
        check(seed, &places, subscriber, &numbers);
        check_quiet(seed, &places, subscriber);
    }
}

#[test]
fn a_client_of_the_smaller_side_gets_what_it_lacks_and_nothing_twice() {
    for seed in 0..20 {
        let mut places = places(seed);
        let subscriber = places.connect(Party::durable(seed as usize % 3, "subscriber"));
        let publishers = publishers(&mut places);
        places.subscribe(subscriber, "t", QoS::ExactlyOnce);
        places.go(subscriber, 0);
        let mut numbers = publish(&mut places, publishers, "t", 1);
        places.split(0);
        places.run(PARTED);
        numbers.extend(publish(&mut places, publishers, "t", 2));
        places.run(SECOND);
        assert!(places.is_connected(subscriber), "seed {seed}");
        places.heal();
        places.run(MERGED);
        numbers.extend(publish(&mut places, publishers, "t", 3));
        places.run(2 * SECOND);
        check(seed, &places, subscriber, &numbers);
        check_quiet(seed, &places, subscriber);
        let present = places.sessions_present(subscriber);
        assert!(present[1..].iter().all(|present| *present), "seed {seed}");
    }
}

#[test]
fn subscriptions_of_the_smaller_side_go_on_and_what_was_taken_away_does_not_come_back() {
    for seed in 0..20 {
        let mut places = places(seed);
        let subscriber = places.connect(Party::durable(seed as usize % 3, "subscriber"));
        let publishers = publishers(&mut places);
        places.subscribe(subscriber, "before", QoS::ExactlyOnce);
        places.subscribe(subscriber, "gone", QoS::ExactlyOnce);
        places.go(subscriber, 0);
        places.run(SECOND);
        places.split(0);
        places.run(PARTED);
        places.subscribe(subscriber, "new", QoS::ExactlyOnce);
        places.unsubscribe(subscriber, "gone");
        let mut numbers = publish(&mut places, [publishers[0]; 2], "new", 1);
        places.run(SECOND);
        places.heal();
        numbers.extend(publish(&mut places, [publishers[0]; 2], "new", 2));
        places.run(MERGED);
        let before = places.heard(subscriber).len();
        publish(&mut places, publishers, "gone", 3);
        places.run(SECOND);
        assert_eq!(places.heard(subscriber).len(), before, "seed {seed}");
        numbers.extend(publish(&mut places, publishers, "new", 4));
        numbers.extend(publish(&mut places, publishers, "before", 5));
        places.run(2 * SECOND);
        check(seed, &places, subscriber, &numbers);
        check_quiet(seed, &places, subscriber);
    }
}

#[test]
fn a_session_that_was_begun_anew_on_one_side_is_the_one_that_stays() {
    for (seed, node) in (0..20).map(|seed| (seed, seed as usize % 2)) {
        let mut places = places(seed);
        let subscriber = places.connect(Party::durable(2, "subscriber"));
        let publishers = publishers(&mut places);
        places.subscribe(subscriber, "before", QoS::ExactlyOnce);
        places.lose(subscriber);
        places.split(0);
        places.run(PARTED);
        publish(&mut places, publishers, "before", 1);
        let anew = places.connect(Party::durable(node, "subscriber").clean());
        places.subscribe(anew, "new", QoS::ExactlyOnce);
        let numbers = publish(&mut places, [publishers[node]; 2], "new", 2);
        places.run(SECOND);
        places.lose(anew);
        places.heal();
        places.run(MERGED);
        publish(&mut places, publishers, "before", 3);
        let found = places.connect(Party::durable(1, "subscriber"));
        places.run(2 * SECOND);
        assert_eq!(places.session_present(found), Some(true), "seed {seed}");
        let mut heard = places.heard(anew);
        heard.extend(places.heard(found));
        assert!(
            heard.iter().all(|number| numbers.contains(number)),
            "seed {seed}: {heard:?}"
        );
        let all: BTreeSet<u64> = heard.into_iter().collect();
        let missing = q1::check(format!("seed {seed}"), numbers, &all);
        assert_eq!(missing, Ok(()));
        check_quiet(seed, &places, found);
    }
}

#[test]
fn a_session_that_was_begun_on_both_sides_has_what_both_have() {
    for seed in 0..20 {
        let mut places = places(seed);
        let publishers = publishers(&mut places);
        places.split(0);
        places.run(PARTED);
        let sides = [0, 1].map(|node| places.connect(Party::durable(node, "subscriber")));
        let mut numbers = Vec::new();
        for (side, filter) in sides.into_iter().zip(["a", "b"]) {
            places.subscribe(side, filter, QoS::ExactlyOnce);
            places.lose(side);
        }
        for (node, filter) in ["a", "b"].into_iter().enumerate() {
            numbers.extend(publish(
                &mut places,
                [publishers[node]; 2],
                filter,
                1 + node as u64,
            ));
        }
        places.run(SECOND);
        if seed % 2 == 0 {
            places.crash(0, SECOND);
            places.run(2 * SECOND);
        }
        places.heal();
        places.run(MERGED);
        for (node, filter) in ["a", "b"].into_iter().enumerate() {
            numbers.extend(publish(
                &mut places,
                [publishers[1 - node]; 2],
                filter,
                3 + node as u64,
            ));
        }
        let found = places.connect(Party::durable(2, "subscriber"));
        places.run(2 * SECOND);
        check(seed, &places, found, &numbers);
        check_quiet(seed, &places, found);
    }
}

/// The node that holds the session says so to another one, and the session begins to give way before that one opens a tunnel.
#[test]
fn a_client_whose_session_gives_way_is_let_in_once() {
    for seed in 0..20 {
        let mut places = Places::running(seed, 5, |_| {});
        let publishers = [0, 2].map(|node| places.connect(Party::new(node, &format!("publisher{node}"))));
        let subscriber = places.connect(Party::durable(1, "subscriber"));
        places.subscribe(subscriber, "t", QoS::ExactlyOnce);
        places.run(SECOND);
        places.weather = Weather::of_storm(seed);
        places.part(&BTreeSet::from([0, 1]));
        places.run(SECOND / 2);
        places.set_out(subscriber, 0);
        let numbers = publish(&mut places, publishers, "t", 1);
        places.run(Duration::from_millis(1_600 + seed * 50));
        places.heal();
        places.run(MERGED);
        check(seed, &places, subscriber, &numbers);
        assert_eq!(
            places.sessions_present(subscriber),
            [false, true],
            "seed {seed}: one CONNACK before, and one after"
        );
        assert_eq!(places.unreleased(subscriber), 0, "seed {seed}");
    }
}
