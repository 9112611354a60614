//! Others have copies of durable sessions.

use std::time::Duration;

use protocol::packet::QoS;

use crate::places::{Party, Places};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn every_owner_has_a_copy() {
    let mut places = Places::running(1, 3, |_| {});
    let subscribers: Vec<_> = (0..9)
        .map(|number| places.connect(Party::durable(number % 3, &format!("subscriber{number}"))))
        .collect();
    for subscriber in &subscribers {
        places.subscribe(*subscriber, "a", QoS::AtLeastOnce);
    }
    places.run(SECOND);
    for node in 0..3 {
        let copies = places.copies(node);
        assert_eq!((copies.copies, copies.under_replicated), (6, 0), "at {node}");
        assert_eq!(copies.sent_whole, 0);
    }
    places.disconnect(subscribers[0]);
    places.run(SECOND);
    assert_eq!(places.copies(1).copies, 6, "it outlives its connection");
}

#[test]
fn an_acknowledgement_waits_for_the_disks_of_all_owners() {
    let mut places = Places::running(2, 3, |_| {});
    let subscriber = places.connect(Party::durable(0, "subscriber"));
    let publisher = places.connect(Party::new(0, "publisher"));
    places.subscribe(subscriber, "a", QoS::AtLeastOnce);
    places.weather.frozen_disk = Some(1);
    places.publish(publisher, "a", QoS::AtLeastOnce, 1);
    places.run(SECOND);
    assert_eq!(places.unacknowledged(publisher), 1);
    places.weather.frozen_disk = None;
    places.run(Duration::from_millis(50));
    assert_eq!(places.unacknowledged(publisher), 0);
    places.kill(1);
    places.publish(publisher, "a", QoS::AtLeastOnce, 2);
    places.run(4 * SECOND);
    assert_eq!(
        places.unacknowledged(publisher),
        0,
        "nobody waits for a node that is lost"
    );
}

#[test]
fn nodes_that_have_copies_of_each_others_sessions_do_not_wait_for_each_other() {
    let mut places = Places::running(3, 3, |_| {});
    let subscribers = [0, 1, 2].map(|node| {
        let subscriber = places.connect(Party::durable(node, &format!("subscriber{node}")));
        places.subscribe(subscriber, "a", QoS::ExactlyOnce);
        subscriber
    });
    let publishers = [0, 1, 2].map(|node| places.connect(Party::durable(node, &format!("publisher{node}"))));
    for number in 0..300 {
        for publisher in publishers {
            places.publish(publisher, "a", QoS::ExactlyOnce, number);
        }
        places.run(Duration::from_millis(2));
    }
    places.run(Duration::from_millis(100));
    for publisher in publishers {
        assert_eq!(places.unacknowledged(publisher), 0);
    }
    for subscriber in subscribers {
        assert_eq!(places.heard(subscriber).len(), 900);
    }
}

#[test]
fn nor_do_they_when_more_is_on_its_way_to_each_other_than_is_sent_at_a_time() {
    const MESSAGES: u64 = 100;

    let mut places = Places::running(3, 3, |_| {});
    let subscribers = [0, 1].map(|node| {
        let subscriber = places.connect(Party::durable(node, &format!("subscriber{node}")));
        places.subscribe(subscriber, &format!("to{node}"), QoS::AtLeastOnce);
        subscriber
    });
    let publishers = [0, 1].map(|node| {
        let party = Party::new(node, &format!("publisher{node}")).with_message_bytes(100_000);
        places.connect(party)
    });
    for number in 0..MESSAGES {
        for (node, publisher) in publishers.into_iter().enumerate() {
            places.publish(publisher, &format!("to{}", 1 - node), QoS::AtLeastOnce, number);
        }
    }
    places.run(5 * SECOND);
    for (publisher, subscriber) in publishers.into_iter().zip(subscribers) {
        assert_eq!(places.unacknowledged(publisher), 0);
        assert_eq!(places.heard(subscriber).len() as u64, MESSAGES);
    }
}

#[test]
fn a_node_that_comes_back_is_brought_up_to_date() {
    let mut places = Places::running(4, 3, |_| {});
    let subscriber = places.connect(Party::durable(0, "subscriber"));
    let publisher = places.connect(Party::durable(1, "publisher"));
    places.subscribe(subscriber, "a", QoS::AtLeastOnce);
    places.lose(subscriber);
    places.crash(2, 5 * SECOND);
    for number in 0..20 {
        places.publish(publisher, "a", QoS::AtLeastOnce, number);
    }
    places.run(4 * SECOND);
    assert_eq!(places.unacknowledged(publisher), 0);
    places.run(10 * SECOND);
    assert!(places.copies(0).sent_whole > 0);
    for node in 0..3 {
        let copies = places.copies(node);
        assert_eq!((copies.under_replicated, copies.to_clean_up), (0, 0), "at {node}");
    }
    assert_eq!(places.copies(2).copies, 2);
}

#[test]
fn copies_stay_while_their_holder_starts_again() {
    for seed in 0..10 {
        let mut places = Places::running(seed, 3, |_| {});
        let subscriber = places.connect(Party::durable(0, "subscriber"));
        places.subscribe(subscriber, "a", QoS::AtLeastOnce);
        places.run(SECOND);
        places.crash(0, Duration::from_millis(100 + 10 * seed));
        for _ in 0..5_000 {
            places.step();
            for node in [1, 2] {
                assert_eq!(places.copies(node).copies, 1, "seed {seed} at {node}");
            }
        }
        assert_eq!(places.copies(0).under_replicated, 0, "seed {seed}");
    }
}
