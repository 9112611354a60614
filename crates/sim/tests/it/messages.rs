//! What is published at one node reaches the subscribers at the others, whatever happens between them.

use std::time::Duration;

use protocol::packet::QoS;

use crate::places::{Party, Places, Weather};

const SECOND: Duration = Duration::from_secs(1);

/// Three nodes that know each other.
fn places(seed: u64) -> Places {
    let mut places = Places::new(seed, |_| {});
    places.settle();
    places
}

#[test]
fn a_message_reaches_a_subscriber_at_another_node() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let mut places = places(1);
        let subscriber = places.connect(Party::new(0, "subscriber"));
        let publisher = places.connect(Party::new(1, "publisher"));
        places.subscribe(subscriber, "a/+", qos);
        for number in 0..10 {
            places.publish(publisher, "a/b", qos, number);
        }
        places.run(SECOND);
        assert_eq!(places.heard(subscriber), (0..10).collect::<Vec<_>>(), "{qos:?}");
        assert_eq!(places.unacknowledged(publisher), 0);
    }
}

#[test]
fn a_message_crosses_to_each_node_once_and_reaches_all_its_sessions() {
    let mut places = places(2);
    let subscribers: Vec<_> = (0..12)
        .map(|number| places.connect(Party::new(number % 3, &format!("subscriber{number}"))))
        .collect();
    let publisher = places.connect(Party::new(1, "publisher"));
    for subscriber in &subscribers {
        places.subscribe(*subscriber, "a/#", QoS::AtLeastOnce);
    }
    for number in 0..20 {
        places.publish(publisher, "a/b", QoS::AtLeastOnce, number);
    }
    places.run(SECOND);
    for subscriber in subscribers {
        assert_eq!(places.heard(subscriber), (0..20).collect::<Vec<_>>());
    }
}

#[test]
fn who_was_told_that_it_is_subscribed_gets_what_is_published_at_any_node() {
    for seed in 0..20 {
        let mut places = Places::new(seed, |_| {});
        places.settle();
        places.weather = Weather {
            delay_max: Duration::from_millis(20),
            ..Weather::FINE
        };
        let publishers: Vec<_> = (0..3)
            .map(|node| places.connect(Party::new(node, &format!("publisher{node}"))))
            .collect();
        for round in 0..5 {
            let name = format!("subscriber{round}");
            let subscriber = places.connect(Party::new(round % 3, &name));
            let topic = format!("news/{round}");
            places.subscribe(subscriber, &topic, QoS::AtLeastOnce);
            // `subscribe` has waited for SUBACK and not for anything else.
            for (number, publisher) in (0..).zip(&publishers) {
                places.publish(*publisher, &topic, QoS::AtMostOnce, number);
            }
            places.run(SECOND);
            let mut heard = places.heard(subscriber);
            heard.sort_unstable();
            assert_eq!(heard, [0, 1, 2], "seed {seed} round {round}");
        }
    }
}

#[test]
fn a_subscription_waits_for_a_node_that_says_nothing_until_that_is_given_up() {
    let mut places = places(3);
    let subscriber = places.connect(Party::new(0, "subscriber"));
    places.split(2);
    let before = places.now;
    places.subscribe(subscriber, "a", QoS::AtLeastOnce);
    let waited = places.now - before;
    assert!(
        waited > SECOND && waited < 3 * SECOND,
        "until that one is given up: {waited:?}"
    );
    let before = places.now;
    places.subscribe(subscriber, "b", QoS::AtLeastOnce);
    assert!(
        places.now - before < Duration::from_millis(50),
        "a node that is not reached is not waited for"
    );
}

#[test]
fn a_subscription_does_not_wait_for_messages_on_their_way_to_the_disk_of_another_node() {
    let mut places = places(13);
    let durable = places.connect(Party::durable(0, "durable"));
    let client = places.connect(Party::new(1, "client"));
    places.subscribe(durable, "a", QoS::AtLeastOnce);
    places.weather.frozen_disk = Some(0);
    places.publish(client, "a", QoS::AtLeastOnce, 1);
    places.run(SECOND);
    let before = places.now;
    places.subscribe(client, "b", QoS::AtLeastOnce);
    assert!(places.now - before < Duration::from_millis(10));
    assert_eq!(places.unacknowledged(client), 1);
}

#[test]
fn a_filter_that_is_known_everywhere_does_not_wait() {
    let mut places = places(4);
    places.weather.delay = Duration::from_millis(30);
    let first = places.connect(Party::new(0, "first"));
    let second = places.connect(Party::new(0, "second"));
    let before = places.now;
    places.subscribe(first, "a", QoS::AtLeastOnce);
    assert!(places.now - before >= Duration::from_millis(60));
    let before = places.now;
    places.subscribe(second, "a", QoS::AtLeastOnce);
    assert!(places.now - before < Duration::from_millis(10));
}

#[test]
fn exactly_once_over_connections_that_break() {
    for seed in 0..20 {
        let mut places = places(seed);
        let subscriber = places.connect(Party::durable(0, "subscriber"));
        let publisher = places.connect(Party::durable(1, "publisher"));
        places.subscribe(subscriber, "a", QoS::ExactlyOnce);
        for number in 0..100 {
            places.publish(publisher, "a", QoS::ExactlyOnce, number);
            places.run(Duration::from_millis(number % 5));
            if number % 7 == 0 {
                places.break_link(0, 1);
            }
        }
        places.run(5 * SECOND);
        assert_eq!(
            places.heard(subscriber),
            (0..100).collect::<Vec<_>>(),
            "seed {seed}"
        );
        assert_eq!(places.unacknowledged(publisher), 0);
    }
}

#[test]
fn an_acknowledgement_waits_for_the_disk_of_the_other_node() {
    let mut places = places(5);
    let subscriber = places.connect(Party::durable(0, "subscriber"));
    let publisher = places.connect(Party::new(1, "publisher"));
    places.subscribe(subscriber, "a", QoS::AtLeastOnce);
    places.weather.frozen_disk = Some(0);
    places.publish(publisher, "a", QoS::AtLeastOnce, 1);
    places.run(SECOND);
    assert_eq!(places.unacknowledged(publisher), 1);
    places.weather.frozen_disk = None;
    places.run(Duration::from_millis(50));
    assert_eq!(places.unacknowledged(publisher), 0);
}

#[test]
fn nobody_waits_for_a_node_that_died_and_what_was_for_it_goes_to_the_others() {
    let mut places = places(6);
    let subscribers = [0, 2].map(|node| places.connect(Party::new(node, &format!("subscriber{node}"))));
    let publisher = places.connect(Party::new(1, "publisher"));
    for subscriber in subscribers {
        places.subscribe(subscriber, "a", QoS::AtLeastOnce);
    }
    places.kill(2);
    places.publish(publisher, "a", QoS::AtLeastOnce, 1);
    places.run(SECOND);
    assert_eq!(places.heard(subscribers[0]), [1], "the others go on");
    assert_eq!(places.unacknowledged(publisher), 1);
    places.run(2 * SECOND);
    assert_eq!(places.unacknowledged(publisher), 0);
    places.publish(publisher, "a", QoS::AtLeastOnce, 2);
    places.run(Duration::from_millis(50));
    assert_eq!(places.unacknowledged(publisher), 0);
    assert_eq!(places.heard(subscribers[0]), [1, 2]);
}

#[test]
fn a_node_that_restarts_misses_nothing_for_its_durable_sessions_and_takes_nothing_twice() {
    for seed in 0..20 {
        let mut places = places(seed);
        let subscriber = places.connect(Party::durable(0, "subscriber"));
        let publisher = places.connect(Party::durable(1, "publisher"));
        places.subscribe(subscriber, "a", QoS::ExactlyOnce);
        for number in 0..60 {
            places.publish(publisher, "a", QoS::ExactlyOnce, number);
            places.run(Duration::from_millis(number % 4));
            if number % 20 == 10 {
                places.crash(0, Duration::from_millis(300));
            }
        }
        places.run(5 * SECOND);
        assert_eq!(
            places.heard(subscriber),
            (0..60).collect::<Vec<_>>(),
            "seed {seed}"
        );
        assert_eq!(places.unacknowledged(publisher), 0, "seed {seed}");
    }
}

#[test]
fn a_shared_subscription_over_three_nodes_gives_each_message_to_one_sharer() {
    let mut places = places(7);
    let sharers: Vec<_> = (0..6)
        .map(|number| places.connect(Party::new(number % 3, &format!("sharer{number}"))))
        .collect();
    for sharer in &sharers {
        places.subscribe(*sharer, "$share/s/a/#", QoS::AtLeastOnce);
    }
    let publishers: Vec<_> = (0..3)
        .map(|node| places.connect(Party::new(node, &format!("publisher{node}"))))
        .collect();
    places.run(SECOND);
    for number in 0..300 {
        places.publish(publishers[number as usize % 3], "a/b", QoS::AtLeastOnce, number);
    }
    places.run(2 * SECOND);
    let heard: Vec<_> = sharers.iter().map(|sharer| places.heard(*sharer)).collect();
    for of_one in &heard {
        assert!(
            (40..=60).contains(&of_one.len()),
            "{:?}",
            heard.iter().map(Vec::len).collect::<Vec<_>>()
        );
    }
    let mut all: Vec<_> = heard.concat();
    all.sort_unstable();
    assert_eq!(all, (0..300).collect::<Vec<_>>());
}

#[test]
fn a_node_without_sharers_any_more_says_so_and_another_one_gets_the_message() {
    for seed in 0..20 {
        let mut places = places(seed);
        places.weather.delay = Duration::from_millis(20);
        let sharers = [0, 2].map(|node| places.connect(Party::new(node, &format!("sharer{node}"))));
        let publisher = places.connect(Party::new(1, "publisher"));
        for sharer in sharers {
            places.subscribe(sharer, "$share/s/a", QoS::AtLeastOnce);
        }
        places.run(SECOND);
        for number in 0..10 {
            places.publish(publisher, "a", QoS::AtLeastOnce, number);
        }
        places.disconnect(sharers[0]);
        places.run(2 * SECOND);
        assert_eq!(places.unacknowledged(publisher), 0);
        let mut heard = places.heard(sharers[1]);
        heard.sort_unstable();
        assert_eq!(heard, (0..10).collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn a_will_reaches_other_nodes() {
    let mut places = places(8);
    let subscriber = places.connect(Party::new(0, "subscriber"));
    places.subscribe(subscriber, "wills", QoS::AtLeastOnce);
    let mortal = places.connect(Party::new(1, "mortal").with_will("wills", 7));
    places.lose(mortal);
    places.run(SECOND);
    assert_eq!(places.heard(subscriber), [7]);
}

#[test]
fn a_node_that_starts_lets_nobody_publish_before_it_knows_what_the_others_want() {
    for seed in 0..20 {
        let mut places = places(seed);
        places.weather.delay = Duration::from_millis(20);
        let subscriber = places.connect(Party::durable(0, "subscriber"));
        let publisher = places.connect(Party::durable(1, "publisher"));
        places.subscribe(subscriber, "a", QoS::AtLeastOnce);
        places.crash(1, Duration::from_millis(100));
        for number in 0..10 {
            places.publish(publisher, "a", QoS::AtLeastOnce, number);
        }
        places.run(2 * SECOND);
        assert_eq!(places.unacknowledged(publisher), 0);
        assert_eq!(
            places.heard(subscriber),
            (0..10).collect::<Vec<_>>(),
            "seed {seed}"
        );
    }
}

#[test]
fn a_node_that_starts_does_not_wait_for_one_that_is_dead() {
    let mut places = places(11);
    let publisher = places.connect(Party::durable(1, "publisher"));
    places.kill(0);
    places.crash(1, Duration::from_millis(100));
    places.publish(publisher, "a", QoS::AtLeastOnce, 1);
    places.run(3 * SECOND);
    assert_eq!(places.unacknowledged(publisher), 0);
}

#[test]
fn wills_of_clients_whose_node_was_killed_reach_other_nodes_when_it_is_back() {
    let mut places = places(12);
    let subscriber = places.connect(Party::new(0, "subscriber"));
    places.subscribe(subscriber, "wills", QoS::AtLeastOnce);
    let mortal = places.connect(Party::durable(1, "mortal").with_will("wills", 7));
    places.forget(mortal);
    places.crash(1, Duration::from_millis(100));
    places.run(2 * SECOND);
    assert_eq!(places.heard(subscriber), [7]);
}
