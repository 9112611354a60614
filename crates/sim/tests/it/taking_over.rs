//! When a node is lost, others go on with its durable sessions.

use std::time::Duration;

use protocol::packet::QoS;

use crate::places::{Party, Places, Who};

const SECOND: Duration = Duration::from_secs(1);

/// A node is taken for dead after two seconds; then others go on.
const TAKEN_OVER: Duration = Duration::from_secs(4);

/// The client goes to where its session is, which is one place.
fn find(places: &mut Places, who: Who) -> usize {
    let holders = places.holders(who);
    assert_eq!(holders.len(), 1, "{holders:?}");
    places.go_to(who, holders[0]);
    holders[0]
}

#[test]
fn a_durable_session_goes_on_with_everything_at_another_node() {
    for seed in 0..20 {
        let mut places = Places::running(seed, 3, |_| {});
        let subscriber = places.connect(Party::durable(0, "subscriber"));
        let publisher = places.connect(Party::durable(1, "publisher"));
        for (filter, qos) in [("a", QoS::AtLeastOnce), ("b", QoS::ExactlyOnce)] {
            places.subscribe(subscriber, filter, qos);
        }
        places.lose(subscriber);
        for number in 0..20 {
            places.publish(publisher, "a", QoS::AtLeastOnce, number);
            places.publish(publisher, "b", QoS::ExactlyOnce, 100 + number);
        }
        places.run(SECOND);
        assert_eq!(places.unacknowledged(publisher), 0);
        places.kill(0);
        places.run(TAKEN_OVER);
        places.come_back(subscriber);
        find(&mut places, subscriber);
        places.publish(publisher, "a", QoS::AtLeastOnce, 20);
        places.publish(publisher, "b", QoS::ExactlyOnce, 120);
        places.run(SECOND);
        let of = |first| {
            places
                .heard(subscriber)
                .into_iter()
                .filter(move |number| number / 100 == first)
        };
        assert_eq!(
            of(0).collect::<Vec<_>>(),
            (0..=20).collect::<Vec<_>>(),
            "seed {seed}"
        );
        assert_eq!(
            of(1).collect::<Vec<_>>(),
            (100..=120).collect::<Vec<_>>(),
            "seed {seed}"
        );
    }
}

#[test]
fn a_node_that_was_lost_and_comes_back_leaves_its_sessions_to_others() {
    for seed in 0..20 {
        let mut places = Places::running(seed, 3, |_| {});
        let subscriber = places.connect(Party::durable(0, "subscriber"));
        let publisher = places.connect(Party::durable(1, "publisher"));
        places.subscribe(subscriber, "a", QoS::ExactlyOnce);
        places.lose(subscriber);
        places.publish(publisher, "a", QoS::ExactlyOnce, 0);
        places.run(SECOND);
        places.crash(0, 5 * SECOND);
        places.run(TAKEN_OVER);
        places.publish(publisher, "a", QoS::ExactlyOnce, 1);
        places.run(10 * SECOND);
        assert_eq!(places.copies(0).superseded, 1, "seed {seed}");
        places.come_back(subscriber);
        let holder = find(&mut places, subscriber);
        assert_ne!(holder, 0, "seed {seed}");
        places.publish(publisher, "a", QoS::ExactlyOnce, 2);
        places.run(SECOND);
        assert_eq!(places.heard(subscriber), [0, 1, 2], "seed {seed}");
        for node in 0..3 {
            let copies = places.copies(node);
            assert_eq!(
                (copies.under_replicated, copies.to_clean_up),
                (0, 0),
                "seed {seed} at {node}"
            );
        }
    }
}
