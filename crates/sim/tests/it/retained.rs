//! Retained messages at three nodes: each has what was written at any.

use std::time::Duration;

use protocol::packet::QoS;

use crate::places::{Party, Places, Who};

const SECOND: Duration = Duration::from_secs(1);

/// Three nodes that run, and a client at each.
fn places(seed: u64) -> (Places, [Who; 3]) {
    let mut places = Places::new(seed, |_| {});
    places.run(5 * SECOND);
    let clients = [0, 1, 2].map(|node| places.connect(Party::durable(node, &format!("client{node}"))));
    (places, clients)
}

/// What a new client finds at each node.
fn found_anywhere(places: &mut Places, filter: &str) -> [Vec<u64>; 3] {
    [0, 1, 2].map(|node| places.found_retained(node, filter))
}

fn cleared(places: &Places, node: usize) -> usize {
    let gauges = places.machine(node).node().gauges();
    gauges.replication.cleared
}

#[test]
fn what_is_retained_at_one_node_is_found_at_all_and_what_is_taken_away_at_none() {
    let (mut places, [one, two, three]) = places(1);
    places.retain(one, "a", QoS::AtLeastOnce, (Some(1), None));
    places.retain(two, "b", QoS::ExactlyOnce, (Some(2), None));
    places.retain(three, "c", QoS::AtMostOnce, (Some(3), None));
    places.run(SECOND);
    assert_eq!(
        found_anywhere(&mut places, "#"),
        [[1, 2, 3], [1, 2, 3], [1, 2, 3]]
    );
    places.retain(three, "a", QoS::AtLeastOnce, (None, None));
    places.retain(one, "b", QoS::AtLeastOnce, (Some(4), None));
    places.run(SECOND);
    assert_eq!(found_anywhere(&mut places, "#"), [[3, 4], [3, 4], [3, 4]]);
}

#[test]
fn an_acknowledgement_waits_until_all_nodes_have_what_is_retained() {
    let (mut places, [one, ..]) = places(2);
    places.weather.frozen_disk = Some(2);
    places.retain(one, "a", QoS::AtLeastOnce, (Some(1), None));
    places.run(SECOND);
    assert_eq!(places.unacknowledged(one), 1);
    places.weather.frozen_disk = None;
    places.run(SECOND / 10);
    assert_eq!(places.unacknowledged(one), 0);
}

#[test]
fn a_node_that_was_away_gets_what_it_has_missed_and_brings_nothing_back() {
    let (mut places, [one, two, _]) = places(3);
    for (topic, number) in [("kept", 1), ("replaced", 2), ("deleted", 3)] {
        places.retain(one, topic, QoS::AtLeastOnce, (Some(number), None));
    }
    places.retain(one, "expired", QoS::AtLeastOnce, (Some(4), None));
    places.run(SECOND);
    places.crash(2, 200 * SECOND);
    places.run(5 * SECOND);
    places.retain(two, "replaced", QoS::AtLeastOnce, (Some(5), None));
    places.retain(two, "deleted", QoS::AtLeastOnce, (None, None));
    places.retain(two, "expired", QoS::AtLeastOnce, (Some(6), Some(10)));
    places.retain(two, "new", QoS::AtLeastOnce, (Some(7), None));
    places.run(100 * SECOND);
    for node in [0, 1] {
        assert_eq!(cleared(&places, node), 1, "the node that is away holds them back");
    }
    places.run(120 * SECOND);
    assert_eq!(
        found_anywhere(&mut places, "#"),
        [[1, 5, 7], [1, 5, 7], [1, 5, 7]]
    );
    places.run(100 * SECOND);
    for node in 0..3 {
        assert_eq!(cleared(&places, node), 0);
    }
    assert_eq!(
        found_anywhere(&mut places, "#"),
        [[1, 5, 7], [1, 5, 7], [1, 5, 7]]
    );
}

#[test]
fn after_a_split_the_later_write_of_each_topic_counts_on_both_sides() {
    let (mut places, [one, _, three]) = places(4);
    places.retain(one, "a", QoS::AtLeastOnce, (Some(1), None));
    places.run(SECOND);
    places.split(2);
    places.run(5 * SECOND);
    places.retain(one, "a", QoS::AtLeastOnce, (Some(2), None));
    places.retain(three, "b", QoS::AtLeastOnce, (Some(3), None));
    places.run(SECOND);
    places.retain(three, "a", QoS::AtLeastOnce, (None, None));
    places.retain(one, "b", QoS::AtLeastOnce, (Some(4), None));
    places.run(SECOND);
    places.heal();
    places.run(10 * SECOND);
    assert_eq!(found_anywhere(&mut places, "#"), [[4], [4], [4]]);
}

#[test]
fn many_messages_are_compared_in_pieces() {
    let (mut places, [one, ..]) = places(5);
    places.crash(2, 30 * SECOND);
    places.run(5 * SECOND);
    for number in 0..3_000 {
        places.retain(one, &format!("t/{number}"), QoS::AtMostOnce, (Some(number), None));
        if number % 100 == 0 {
            places.run(SECOND / 100);
        }
    }
    places.run(40 * SECOND);
    let all: Vec<u64> = (0..3_000).collect();
    for node in 0..3 {
        let editions = places.machine(node).node().retained_editions();
        assert_eq!(editions.len(), all.len());
    }
}
