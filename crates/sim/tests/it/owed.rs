//! What is published on a side of a split where nobody has the session that it is for, by a node that loses its power before the sides meet.

use std::collections::BTreeSet;
use std::time::Duration;

use protocol::packet::QoS;
use sim::promises::q1;

use crate::places::{Party, Places, Who};

const SECOND: Duration = Duration::from_secs(1);

const NODES: usize = 5;

/// Until the nodes have lost each other, and others have gone on.
const PARTED: Duration = Duration::from_secs(6);

/// Until they are one cluster again.
const MERGED: Duration = Duration::from_secs(15);

const QOS: [QoS; 2] = [QoS::AtLeastOnce, QoS::ExactlyOnce];

/// Five nodes, and a durable subscriber, of whose session two nodes have nothing. Says which.
fn places(seed: u64) -> (Places, Who, BTreeSet<usize>) {
    let mut places = Places::with_nodes(seed, NODES, |_| {});
    places.settle();
    places.run(5 * SECOND);
    let subscriber = places.connect(Party::durable(seed as usize % NODES, "subscriber"));
    places.subscribe(subscriber, "t", QoS::ExactlyOnce);
    places.run(5 * SECOND);
    let owners = places.owners(subscriber);
    let without: BTreeSet<usize> = (0..NODES).filter(|node| !owners.contains(node)).take(2).collect();
    (places, subscriber, without)
}

/// Publishes at a node, until all are acknowledged.
fn publish(places: &mut Places, node: usize, numbers: std::ops::Range<u64>) {
    let publisher = places.connect(Party::new(node, &format!("publisher{}", numbers.start)));
    for number in numbers {
        places.publish(publisher, "t", QOS[number as usize % 2], number);
        places.run(Duration::from_millis(10));
    }
    places.run(SECOND);
    assert_eq!(places.unacknowledged(publisher), 0, "this side serves");
}

/// All have come; those of QoS 2 once.
fn check(seed: u64, places: &Places, who: Who, count: u64) {
    let heard = places.heard(who);
    let all: BTreeSet<u64> = heard.iter().copied().collect();
    assert_eq!(q1::check(format!("seed {seed}"), 1..count, &all), Ok(()));
    for number in (1..count).filter(|number| number % 2 == 1) {
        let times = heard.iter().filter(|heard| **heard == number).count();
        assert_eq!(times, 1, "seed {seed}: {number}");
    }
}

#[test]
fn it_is_there_after_a_restart_of_the_publishers_node() {
    for seed in 0..20 {
        let (mut places, subscriber, without) = places(seed);
        let [first, other] = [without.first(), without.last()].map(|node| *node.expect("two nodes"));
        places.part(&without);
        places.run(PARTED);
        publish(&mut places, first, 1..21);
        let node = if seed % 3 == 2 { other } else { first };
        places.crash(node, SECOND);
        places.run(4 * SECOND);
        places.heal();
        places.run(MERGED);
        publish(&mut places, other, 21..31);
        places.run(2 * SECOND);
        check(seed, &places, subscriber, 31);
    }
}

#[test]
fn it_comes_once_if_both_nodes_restart_while_it_is_given() {
    for seed in 0..20 {
        let (mut places, subscriber, without) = places(seed);
        let first = *without.first().expect("two nodes");
        places.part(&without);
        places.run(PARTED);
        publish(&mut places, first, 1..21);
        places.heal();
        // While they find each other.
        places.run(Duration::from_millis(50 * seed));
        let owner = places.owners(subscriber).into_iter().nth(seed as usize % 3);
        for node in [Some(first), owner.filter(|_| seed % 2 == 1)]
            .into_iter()
            .flatten()
        {
            places.crash(node, SECOND);
        }
        places.run(MERGED);
        places.come_back(subscriber);
        places.run(5 * SECOND);
        check(seed, &places, subscriber, 21);
    }
}

#[test]
fn a_node_that_starts_again_still_knows_what_the_other_side_wants() {
    for seed in 0..20 {
        let (mut places, subscriber, without) = places(seed);
        let first = *without.first().expect("two nodes");
        places.part(&without);
        places.run(PARTED);
        publish(&mut places, first, 1..6);
        for node in without.iter().filter(|node| seed % 2 == 0 || **node == first) {
            places.crash(*node, SECOND);
        }
        places.run(2 * PARTED);
        publish(&mut places, first, 6..16);
        places.heal();
        places.run(MERGED);
        publish(&mut places, first, 16..21);
        places.run(2 * SECOND);
        check(seed, &places, subscriber, 21);
    }
}
