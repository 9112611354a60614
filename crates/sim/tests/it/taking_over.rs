//! When a node is lost, others go on with its durable sessions.

use std::time::Duration;

use protocol::packet::QoS;

use crate::places::{Party, Places, Who, all_of, number, qos_of};

const SECOND: Duration = Duration::from_secs(1);

/// A node is taken for dead after two seconds; then others go on.
const TAKEN_OVER: Duration = Duration::from_secs(4);

/// A subscriber whose session is at the first node, and a publisher at each other one.
struct Scene {
    places: Places,
    subscriber: Who,
    /// With their nodes.
    publishers: Vec<(usize, Who)>,
    rounds: u64,
}

impl Scene {
    /// The subscriber has subscribed, and is away.
    fn new(seed: u64, nodes: usize) -> Self {
        let mut places = Places::running(seed, nodes, |_| {});
        let subscriber = places.connect(Party::durable(0, "subscriber"));
        places.subscribe(subscriber, "a", QoS::ExactlyOnce);
        places.lose(subscriber);
        let publisher = |node| {
            (
                node,
                places.connect(Party::durable(node, &format!("publisher{node}"))),
            )
        };
        let publishers = (1..nodes).map(publisher).collect();
        let mut scene = Self {
            places,
            subscriber,
            publishers,
            rounds: 0,
        };
        scene.publish(5);
        scene
    }

    /// Each publisher whose node is there publishes, a few times.
    fn publish(&mut self, rounds: u64) {
        for round in self.rounds..self.rounds + rounds {
            for (node, publisher) in &self.publishers {
                let number = number(*node, round);
                if self.places.is_there(*node) {
                    self.places.publish(*publisher, "a", qos_of(number), number);
                }
            }
            self.places.run(Duration::from_millis(20));
        }
        self.rounds += rounds;
    }

    /// Publishers go on until as many nodes store the session as before; gives one of them.
    fn publish_until_stored(&mut self) -> usize {
        for _ in 0..300 {
            self.publish(1);
            let owners = self.places.owners(self.subscriber);
            if owners.len() >= 3 {
                return *owners.first().expect("some");
            }
        }
        panic!("too few nodes store the session");
    }

    /// A node is lost, and its publisher with it. What that was told of.
    fn kill(&mut self, node: usize) -> Vec<u64> {
        self.places.kill(node);
        let lost = self.publishers.extract_if(.., |(of, _)| *of == node);
        let lost: Vec<_> = lost.collect();
        let taken = lost.into_iter().flat_map(|(_, publisher)| {
            let untaken = self.places.untaken(publisher);
            let all = all_of(&[node], self.rounds).collect::<Vec<_>>();
            all.into_iter().filter(move |number| !untaken.contains(number))
        });
        taken.collect()
    }

    /// The subscriber comes back, and finds everything; also this, which was acknowledged to others.
    fn check(mut self, why: &str, taken: Vec<u64>) {
        self.places.come_back(self.subscriber);
        find(&mut self.places, self.subscriber);
        self.publish(2);
        self.places.run(4 * SECOND);
        assert_eq!(self.places.session_present(self.subscriber), Some(true), "{why}");
        for (node, publisher) in &self.publishers {
            assert_eq!(self.places.unacknowledged(*publisher), 0, "{why}, of {node}");
        }
        let nodes: Vec<_> = self.publishers.iter().map(|(node, _)| *node).collect();
        let acknowledged = all_of(&nodes, self.rounds).chain(taken);
        let checked = self
            .places
            .check_heard(self.subscriber, QoS::ExactlyOnce, acknowledged, |_| true);
        assert_eq!(checked, Ok(()), "{why}");
    }
}

/// The client goes to the last node that is there.
fn find(places: &mut Places, who: Who) {
    let mut nodes = (0..places.count()).rev();
    let node = nodes
        .find(|node| places.is_there(*node))
        .expect("some node is there");
    places.go_to(who, node);
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
fn a_node_that_was_lost_and_comes_back_has_what_its_sessions_got_meanwhile() {
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
        places.come_back(subscriber);
        places.go_to(subscriber, 0);
        places.publish(publisher, "a", QoS::ExactlyOnce, 2);
        places.run(SECOND);
        assert_eq!(places.heard(subscriber), [0, 1, 2], "seed {seed}");
        assert_eq!(places.check_rest(subscriber), Ok(()), "seed {seed}");
    }
}

#[test]
fn when_a_second_owner_is_lost_right_after_the_first_was_replaced_others_go_on() {
    for seed in 0..20 {
        let mut scene = Scene::new(seed, 5);
        scene.places.kill(0);
        let owner = scene.publish_until_stored();
        scene.places.run(Duration::from_millis(seed % 10));
        let taken = scene.kill(owner);
        scene.publish_until_stored();
        scene.check(&format!("seed {seed}"), taken);
    }
}

#[test]
fn the_sessions_of_a_node_that_is_stopped_go_on_at_once() {
    for seed in 0..20 {
        let mut scene = Scene::new(seed, 3);
        scene.publish(seed);
        scene.places.stop(0);
        scene.places.run(Duration::from_millis(100));
        scene.publish(5);
        scene.check(&format!("seed {seed}"), Vec::new());
    }
}

#[test]
fn the_sessions_of_a_node_that_is_removed_from_the_cluster_go_on_at_others() {
    for seed in 0..20 {
        let mut scene = Scene::new(seed, 3);
        scene.publish(seed);
        // It is removed while it runs, or because it has died.
        if seed % 2 == 1 {
            scene.places.kill(0);
        }
        scene.places.remove(0, 1 + seed as usize % 2);
        scene.publish(5);
        scene.places.run(SECOND);
        scene.check(&format!("seed {seed}"), Vec::new());
    }
}

/// Q4. One of QoS 1 may come to two of them: it was on its way to the one that was lost.
#[test]
fn sharers_at_other_nodes_go_on_and_the_one_of_a_lost_node_gets_what_it_had() {
    for seed in 0..20 {
        let mut places = Places::running(seed, 3, |_| {});
        let sharers = [0, 1, 2].map(|node| {
            let sharer = places.connect(Party::durable(node, &format!("sharer{node}")));
            places.subscribe(sharer, "$share/s/a", QoS::ExactlyOnce);
            sharer
        });
        let publisher = places.connect(Party::durable(1, "publisher"));
        let publish = |places: &mut Places, rounds: std::ops::Range<u64>| {
            for round in rounds {
                let number = number(1, round);
                places.publish(publisher, "a", qos_of(number), number);
                places.run(Duration::from_millis(10));
            }
        };
        publish(&mut places, 0..20);
        places.lose(sharers[0]);
        places.run(SECOND);
        places.kill(0);
        publish(&mut places, 20..40);
        places.run(TAKEN_OVER);
        publish(&mut places, 40..60);
        places.come_back(sharers[0]);
        places.set_out(sharers[0], 2);
        places.run(2 * SECOND);
        assert_eq!(places.session_present(sharers[0]), Some(true), "seed {seed}");
        assert_eq!(places.unacknowledged(publisher), 0, "seed {seed}");
        let heard = sharers.map(|sharer| places.heard(sharer));
        assert!(
            heard.iter().all(|heard| !heard.is_empty()),
            "seed {seed}: {heard:?}"
        );
        let mut heard = heard.concat();
        heard.sort_unstable();
        assert_eq!(heard, all_of(&[1], 60).collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn the_will_of_a_durable_session_of_a_lost_node_is_published_once_after_its_delay() {
    for seed in 0..20 {
        let mut places = Places::running(seed, 3, |_| {});
        let subscriber = places.connect(Party::new(1, "subscriber"));
        places.subscribe(subscriber, "wills", QoS::AtLeastOnce);
        let delay = 5 + seed as u32 % 5;
        let [gone, back] = [(1, "gone"), (2, "back")].map(|(number, name)| {
            let party = Party::durable(0, name).with_will("wills", number);
            places.connect(party.with_will_delay(delay))
        });
        let hasty = places.connect(Party::durable(0, "hasty").with_will("wills", 3));
        for who in [gone, back, hasty] {
            places.forget(who);
        }
        // The node is back when all has happened, or never.
        if seed % 2 == 0 {
            places.crash(0, 20 * SECOND);
        } else {
            places.kill(0);
        }
        places.run(TAKEN_OVER);
        assert_eq!(places.heard(subscriber), [3], "seed {seed}");
        places.come_back(back);
        places.set_out(back, 1 + seed as usize % 2);
        // The delay begins when the node is taken for dead, about two seconds after its last word.
        places.run(Duration::from_secs(delay.into()) + SECOND - TAKEN_OVER);
        assert!(places.is_connected(back), "seed {seed}");
        assert_eq!(places.heard(subscriber), [3], "seed {seed}");
        places.run(4 * SECOND);
        assert_eq!(places.heard(subscriber), [3, 1], "seed {seed}");
        places.run(25 * SECOND);
        assert_eq!(places.heard(subscriber), [3, 1], "seed {seed}");
    }
}

#[test]
fn a_session_whose_time_passes_while_its_node_is_away_is_over_everywhere() {
    for seed in 0..20 {
        let mut places = Places::running(seed, 3, |_| {});
        let [short, long] = [("short", 6), ("long", 600)].map(|(name, expiry)| {
            let who = places.connect(Party::durable(0, name).with_expiry(expiry));
            places.subscribe(who, "a", QoS::AtLeastOnce);
            places.lose(who);
            who
        });
        // Others go on with both, or the node is back before it is missed.
        let away = if seed % 2 == 0 { 10 * SECOND } else { SECOND };
        places.run(6 * SECOND - away.min(5 * SECOND) - Duration::from_millis(10 * seed));
        places.crash(0, away);
        places.run(5 * SECOND);
        places.run(15 * SECOND);
        assert!(places.owners(short).is_empty(), "seed {seed}");
        assert_eq!(places.check_rest(long), Ok(()), "seed {seed}");
        for (who, is_there) in [(short, false), (long, true)] {
            places.come_back(who);
            places.set_out(who, seed as usize % 3);
            places.run(SECOND);
            assert_eq!(places.session_present(who), Some(is_there), "seed {seed}");
        }
    }
}
