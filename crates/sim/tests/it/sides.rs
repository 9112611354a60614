//! Sides of a split, each of which serves all clients: also those whose sessions only nodes of the other side have.

use std::collections::BTreeSet;
use std::time::Duration;

use protocol::packet::QoS;

use crate::places::{Party, Places, Who};

const SECOND: Duration = Duration::from_secs(1);

const SEEDS: u64 = 6;

const NODES: usize = 5;

/// Clients of a side: of five nodes, two have no copy of one slot of ten.
const CLIENTS: u64 = 40;

/// Until the nodes have lost each other, and others have gone on.
const PARTED: Duration = Duration::from_secs(6);

/// Until they are one cluster again.
const MERGED: Duration = Duration::from_secs(15);

/// Connects clients at one node after the other, and subscribes each to a topic of its own.
fn connect(places: &mut Places, nodes: &BTreeSet<usize>, side: &str) -> Vec<Who> {
    let nodes = nodes.iter().copied().cycle();
    nodes
        .zip(0..CLIENTS)
        .map(|(node, number)| {
            let who = places.connect(Party::durable(node, &format!("{side}{number}")));
            places.subscribe(who, &format!("{side}/{number}"), QoS::ExactlyOnce);
            who
        })
        .collect()
}

/// Publishes a message to each client of a side, and looks whether it comes while the sides are apart.
fn publish(places: &mut Places, seed: u64, node: usize, side: &str, clients: &[Who], message: u64) {
    let publisher = places.connect(Party::new(node, &format!("{side}-publisher{message}")));
    for number in 0..CLIENTS {
        places.publish(publisher, &format!("{side}/{number}"), QoS::ExactlyOnce, message);
    }
    places.run(4 * SECOND);
    assert_eq!(
        places.unacknowledged(publisher),
        0,
        "seed {seed}: side {side} acknowledges"
    );
    for (number, who) in clients.iter().enumerate() {
        let times = places
            .heard(*who)
            .iter()
            .filter(|heard| **heard == message)
            .count();
        assert_eq!(times, 1, "seed {seed}: {side}{number} hears {message}");
    }
}

/// Splits the cluster: each side serves. Nodes of the smaller side lose their power: it serves again. So does
/// each node behind the merge.
#[test]
fn each_side_serves_clients_whose_sessions_the_other_one_has() {
    for seed in 0..SEEDS {
        let mut places = Places::with_nodes(seed, NODES, |_| {});
        places.settle();
        places.run(5 * SECOND);
        let smaller: BTreeSet<usize> = [seed as usize % NODES, (seed as usize + 2) % NODES].into();
        let larger: BTreeSet<usize> = (0..NODES).filter(|node| !smaller.contains(node)).collect();
        places.part(&smaller);
        places.run(PARTED);
        let [first, last] = [&smaller, &larger].map(|side| *side.first().expect("nodes"));
        let small = connect(&mut places, &smaller, "small");
        publish(&mut places, seed, first, "small", &small, 1);
        let large = connect(&mut places, &larger, "large");
        publish(&mut places, seed, last, "large", &large, 2);
        for node in smaller.iter().filter(|node| seed % 2 == 0 || **node == first) {
            places.crash(*node, SECOND);
        }
        places.until("CONNACK anew", |places| {
            small.iter().all(|who| places.is_connected(*who))
        });
        publish(&mut places, seed, first, "small", &small, 3);
        places.heal();
        places.run(MERGED);
        for who in &large {
            places.go(*who, first);
        }
        publish(&mut places, seed, last, "small", &small, 4);
        publish(&mut places, seed, last, "large", &large, 5);
    }
}
