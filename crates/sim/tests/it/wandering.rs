//! Clients connect to any node, and find their sessions.

use std::time::Duration;

use protocol::packet::QoS;

use crate::places::{Party, Places, Who};

const SECOND: Duration = Duration::from_secs(1);

/// Sessions that are connected to each node.
fn sessions(places: &Places) -> [usize; 3] {
    [0, 1, 2].map(|node| places.machine(node).node().gauges().sessions_connected)
}

fn publish(places: &mut Places, publisher: Who, numbers: std::ops::Range<u64>) {
    for number in numbers {
        places.publish(publisher, "a", QoS::AtLeastOnce, number);
    }
}

#[test]
fn a_durable_session_is_found_from_every_node() {
    let mut places = Places::running(1, 3, |_| {});
    let publisher = places.connect(Party::durable(2, "publisher"));
    let subscriber = places.connect(Party::durable(0, "subscriber"));
    places.subscribe(subscriber, "a", QoS::AtLeastOnce);
    for round in 0..6 {
        publish(&mut places, publisher, round * 10..round * 10 + 10);
        places.run(Duration::from_millis(50));
        places.go(subscriber, usize::try_from(round % 3).expect("few"));
        assert_eq!(places.session_present(subscriber), Some(true), "round {round}");
        places.run(Duration::from_millis(50));
        assert_eq!(places.connections(subscriber), 1, "round {round}");
    }
    places.run(SECOND);
    assert_eq!(places.heard(subscriber), Vec::from_iter(0..60));
    assert_eq!(sessions(&places), [0, 0, 2], "it is where its client is");
}

#[test]
fn a_passing_client_has_one_connection_wherever_it_goes() {
    let mut places = Places::running(2, 3, |_| {});
    let client = places.connect(Party::new(0, "client"));
    for node in [1, 2, 2, 0, 1] {
        places.go(client, node);
        assert_eq!(places.session_present(client), Some(false));
        places.run(Duration::from_millis(10));
        assert_eq!(places.connections(client), 1);
        let mut expected = [0; 3];
        expected[node] = 1;
        assert_eq!(sessions(&places), expected);
    }
}

#[test]
fn whoever_connects_to_two_nodes_at_once_keeps_one_connection() {
    for seed in 0..20 {
        let mut places = Places::running(seed, 3, |_| {});
        let (one, other) = (
            places.appear(Party::new(0, "me")),
            places.appear(Party::new(1, "me")),
        );
        places.step();
        // Whoever is refused does not try again.
        places.forget(one);
        places.forget(other);
        places.run(SECOND);
        assert_eq!(
            places.connections(one) + places.connections(other),
            1,
            "seed {seed}"
        );
    }
}

#[test]
fn a_client_at_another_node_does_all_that_clients_do() {
    let mut places = Places::running(3, 3, |_| {});
    let client = places.connect(Party::durable(0, "client"));
    places.go(client, 1);
    let publisher = places.connect(Party::durable(2, "publisher"));
    places.subscribe(client, "a", QoS::ExactlyOnce);
    places.subscribe(publisher, "b", QoS::ExactlyOnce);
    for number in 0..200 {
        places.publish(publisher, "a", QoS::ExactlyOnce, number);
        places.publish(client, "b", QoS::ExactlyOnce, number);
    }
    places.run(2 * SECOND);
    let all = Vec::from_iter(0..200);
    assert_eq!(
        (places.heard(client), places.heard(publisher)),
        (all.clone(), all)
    );
    assert_eq!(
        (places.unacknowledged(client), places.unacknowledged(publisher)),
        (0, 0)
    );
}

#[test]
fn more_than_the_window_of_a_tunnel_waits_at_the_client() {
    // No subscriber misses anything of QoS 0 because it does not keep up.
    let mut places = Places::running(4, 3, |config| config.limits.outbound_bytes_max = 64 << 20);
    let client = places.connect(Party::durable(0, "client"));
    places.go(client, 1);
    let subscriber = places.connect(Party::durable(0, "subscriber"));
    places.subscribe(subscriber, "b", QoS::AtLeastOnce);
    for number in 0..20_000 {
        places.publish(client, "b", QoS::AtMostOnce, number);
    }
    places.run(10 * SECOND);
    let is_all = places.heard(subscriber).into_iter().eq(0..20_000);
    assert!(is_all, "{} messages", places.heard(subscriber).len());
}

#[test]
fn a_client_at_another_node_gets_what_its_socket_takes_and_then_the_rest() {
    let mut places = Places::running(4, 3, |config| config.limits.outbound_bytes_max = 4_096);
    let client = places.connect(Party::durable(0, "client"));
    places.go(client, 1);
    places.subscribe(client, "a", QoS::AtLeastOnce);
    let publisher = places.connect(Party::durable(2, "publisher"));
    publish(&mut places, publisher, 0..1_000);
    places.run(10 * SECOND);
    let is_all = places.heard(client).into_iter().eq(0..1_000);
    assert!(is_all, "{} messages", places.heard(client).len());
}

#[test]
fn a_session_ends_from_another_node() {
    let mut places = Places::running(5, 3, |_| {});
    let client = places.connect(Party::durable(0, "client"));
    let publisher = places.connect(Party::durable(2, "publisher"));
    places.subscribe(client, "a", QoS::AtLeastOnce);
    places.lose(client);
    publish(&mut places, publisher, 0..10);
    places.run(SECOND);
    let again = places.connect(Party::durable(1, "client").clean());
    assert_eq!(places.session_present(again), Some(false));
    places.run(SECOND);
    assert_eq!(sessions(&places), [0, 1, 1], "it is where its client is");
    assert!(places.heard(again).is_empty());
    assert_eq!(places.check_rest(again), Ok(()));
}

#[test]
fn a_session_that_has_just_ended_keeps_nobody_waiting_because_of_its_copies() {
    for seed in 0..20 {
        let mut places = Places::running(seed, 3, |_| {});
        let client = places.connect(Party::durable(0, "client").with_expiry(1));
        places.run(SECOND);
        places.weather.delay_max = Duration::from_millis(40);
        places.weather.slow_disks = true;
        places.lose(client);
        places.run(SECOND + Duration::from_millis(seed * 5));
        let again = places.connect(Party::durable(1, "client"));
        assert_eq!(places.refusals(again), 0, "seed {seed}");
    }
}

#[test]
fn the_front_is_lost_and_the_session_stays() {
    let mut places = Places::running(6, 3, |_| {});
    let client = places.connect(Party::durable(0, "client"));
    let publisher = places.connect(Party::durable(2, "publisher"));
    places.subscribe(client, "a", QoS::AtLeastOnce);
    places.go(client, 1);
    places.kill(1);
    publish(&mut places, publisher, 0..10);
    places.run(4 * SECOND);
    places.go(client, 2);
    assert_eq!(places.session_present(client), Some(true));
    places.run(SECOND);
    assert_eq!(places.heard(client), Vec::from_iter(0..10));
}

#[test]
fn the_holder_restarts_and_its_clients_elsewhere_come_back() {
    let mut places = Places::running(7, 3, |_| {});
    let client = places.connect(Party::durable(0, "client"));
    let publisher = places.connect(Party::durable(2, "publisher"));
    places.subscribe(client, "a", QoS::AtLeastOnce);
    places.go(client, 1);
    places.crash(0, Duration::from_millis(500));
    publish(&mut places, publisher, 0..10);
    places.run(10 * SECOND);
    assert_eq!(places.session_present(client), Some(true));
    assert_eq!(places.heard(client), Vec::from_iter(0..10));
}

#[test]
fn two_connections_of_a_client_in_a_split_become_one() {
    let mut places = Places::running(8, 3, |_| {});
    let one = places.connect(Party::new(0, "me"));
    places.forget(one);
    places.isolate(0, 6 * SECOND);
    places.run(4 * SECOND);
    let other = places.connect(Party::new(1, "me"));
    places.forget(other);
    assert_eq!(places.connections(one) + places.connections(other), 2);
    places.run(10 * SECOND);
    assert_eq!(places.connections(one) + places.connections(other), 1);
}

#[test]
fn nobody_else_gets_or_ends_a_session_from_another_node() {
    let mut places = Places::running(9, 3, |config| config.authenticates = true);
    let mine = places.connect(Party::durable(0, "durable").known_as("me"));
    places.subscribe(mine, "a", QoS::AtLeastOnce);
    let passing = places.connect(Party::new(0, "passing").known_as("me"));
    let tunnelled = places.connect(Party::durable(0, "tunnelled").known_as("me"));
    places.go(tunnelled, 1);
    let before = sessions(&places);
    for (name, node) in [
        ("durable", 1),
        ("passing", 2),
        ("tunnelled", 1),
        ("tunnelled", 2),
        ("tunnelled", 0),
    ] {
        for thief in [
            Party::new(node, name),
            Party::new(node, name).clean(),
            Party::durable(node, name),
        ] {
            let thief = places.appear(thief.known_as("somebody else"));
            places.run(Duration::from_millis(20));
            places.forget(thief);
            assert!(places.is_denied(thief), "{name} at {node}");
            places.run(Duration::from_millis(20));
        }
    }
    assert_eq!(sessions(&places), before);
    for who in [mine, passing, tunnelled] {
        assert_eq!(places.connections(who), 1);
    }
    // It is still who it was.
    places.forget(mine);
    let again = places.connect(Party::durable(2, "durable").known_as("me"));
    assert_eq!(places.session_present(again), Some(true));
}

/// Whoever was asked before it knew of the loss has said that it has nothing; the session goes on at one node all the same.
#[test]
fn a_client_that_connects_before_the_loss_of_its_session_s_node_is_known_misses_nothing() {
    for number in 0..8 {
        for node in [1, 2] {
            let mut places = Places::running(10 + number, 3, |_| {});
            let client = places.connect(Party::durable(0, &format!("client{number}")));
            places.subscribe(client, "a", QoS::AtLeastOnce);
            let publishers =
                [1, 2].map(|node| places.connect(Party::durable(node, &format!("publisher{node}"))));
            places.kill(0);
            for (publisher, first) in publishers.into_iter().zip([0, 100]) {
                publish(&mut places, publisher, first..first + 20);
            }
            places.go(client, node);
            assert_eq!(
                places.session_present(client),
                Some(true),
                "client{number} at {node}"
            );
            places.run(2 * SECOND);
            let mut heard = places.heard(client);
            heard.sort_unstable();
            assert_eq!(
                heard,
                Vec::from_iter((0..20).chain(100..120)),
                "client{number} at {node}"
            );
        }
    }
}

/// The other nodes are lost at one moment: that of the one must not end the search while the session is still thought to be at the other one.
#[test]
fn a_client_that_connects_to_a_node_that_is_cut_off_finds_its_session_in_the_copy_there() {
    for (holder, cut_off) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let mut places = Places::running(30, 3, |_| {});
        let client = places.connect(Party::durable(holder, "client"));
        places.subscribe(client, "a", QoS::AtLeastOnce);
        let publisher = places.connect(Party::durable(cut_off, "publisher"));
        places.isolate(cut_off, 8 * SECOND);
        publish(&mut places, publisher, 0..10);
        places.run(SECOND);
        places.go(client, cut_off);
        assert_eq!(places.refusals(client), 0, "{holder} {cut_off}");
        let seen = places.sessions_present(client);
        assert!(
            seen[1..].iter().all(|is_present| *is_present),
            "{holder} {cut_off}: {seen:?}"
        );
        places.run(10 * SECOND);
        let mut heard = places.heard(client);
        heard.sort_unstable();
        heard.dedup();
        assert_eq!(heard, Vec::from_iter(0..10), "{holder} {cut_off}");
    }
}
