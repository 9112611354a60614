//! A session that ends while a node is away which has it, or an older copy of it: it does not come back with that node.

use std::collections::BTreeSet;
use std::time::Duration;

use protocol::packet::QoS;

use crate::places::{Party, Places, Who};

const SECOND: Duration = Duration::from_secs(1);

/// Until others have gone on with what a node has held that is away.
const LOST: Duration = Duration::from_secs(5);

/// Until a node that was away is as the others again.
const BACK: Duration = Duration::from_secs(15);

/// How the client ends its session.
#[derive(Debug, Clone, Copy)]
enum End {
    /// It says goodbye for ever.
    Disconnect,
    /// It begins another one, which ends with its connection.
    CleanStart,
    /// It does not come back in time.
    Expiry,
}

const ENDS: [End; 3] = [End::Disconnect, End::CleanStart, End::Expiry];

/// Three nodes, and a durable subscriber at the first of them.
fn places(seed: u64) -> (Places, Who) {
    places_of(seed, 3)
}

fn places_of(seed: u64, nodes: usize) -> (Places, Who) {
    let mut places = Places::running(seed, nodes, |_| {});
    let who = places.connect(Party::durable(0, "subscriber"));
    places.subscribe(who, "t", QoS::ExactlyOnce);
    places.run(SECOND);
    (places, who)
}

/// The client goes to a node, finds its session there, and ends it.
fn end(seed: u64, places: &mut Places, who: Who, node: usize, how: End) {
    places.go(who, node);
    assert_eq!(places.session_present(who), Some(true), "seed {seed}");
    match how {
        End::Disconnect => places.end_session(who),
        End::CleanStart => {
            places.forget(who);
            let clean = places.connect(Party::new(node, "subscriber").clean());
            places.disconnect(clean);
        }
        End::Expiry => {
            places.forget(who);
            let short = places.connect(Party::durable(node, "subscriber").with_expiry(1));
            assert_eq!(places.session_present(short), Some(true), "seed {seed}");
            places.disconnect(short);
            places.run(2 * SECOND);
        }
    }
    places.run(SECOND / 2);
}

/// Nobody has anything of the session.
fn check_gone(seed: u64, places: &mut Places, who: Who, node: usize) {
    let publisher = places.connect(Party::new(node, "publisher"));
    places.publish(publisher, "t", QoS::AtLeastOnce, 1);
    places.run(SECOND);
    assert_eq!(places.unacknowledged(publisher), 0, "seed {seed}");
    assert_eq!(places.owners(who), BTreeSet::new(), "seed {seed}");
    let again = places.connect(Party::durable(node, "subscriber"));
    places.run(SECOND);
    assert_eq!(places.session_present(again), Some(false), "seed {seed}");
    assert!(places.heard(again).is_empty(), "seed {seed}");
    assert_eq!(places.check_rest(again), Ok(()), "seed {seed}");
}

#[test]
fn it_does_not_come_back_with_the_node_where_it_was() {
    for seed in 0..10 {
        let (mut places, who) = places(seed);
        places.crash(0, LOST + 10 * SECOND);
        places.run(LOST);
        end(
            seed,
            &mut places,
            who,
            1 + seed as usize % 2,
            ENDS[seed as usize % 3],
        );
        places.run(10 * SECOND + BACK);
        check_gone(seed, &mut places, who, seed as usize % 3);
    }
}

/// Its client has been there all the time, and nothing has changed since the other node has its copy.
#[test]
fn it_does_not_come_back_with_a_node_that_has_gone_on_with_all_of_it() {
    for seed in 0..10 {
        let (mut places, who) = places(seed);
        places.isolate(1 + seed as usize % 2, LOST + 10 * SECOND);
        places.run(LOST + 2 * SECOND);
        places.end_session(who);
        places.run(10 * SECOND + BACK);
        check_gone(seed, &mut places, who, seed as usize % 3);
    }
}

#[test]
fn it_does_not_come_back_with_two_nodes_of_five() {
    for seed in 0..10 {
        let (mut places, who) = places_of(seed, 5);
        let owners: Vec<usize> = places.owners(who).into_iter().filter(|node| *node != 0).collect();
        // The node of its client, and one that stores it.
        let other = owners[seed as usize % owners.len()];
        let pause = Duration::from_millis(200 * (seed % 10));
        places.crash(0, LOST + 10 * SECOND);
        places.run(pause);
        places.crash(other, LOST + (5 + seed % 10) as u32 * SECOND);
        places.run(LOST);
        let node = (1..5).find(|node| *node != other).expect("five nodes");
        end(seed, &mut places, who, node, ENDS[seed as usize % 3]);
        places.run(15 * SECOND + BACK);
        check_gone(seed, &mut places, who, seed as usize % 5);
    }
}

#[test]
fn it_does_not_come_back_where_it_ended_after_all_have_restarted() {
    for seed in 0..12 {
        let (mut places, who) = places(seed);
        places.crash(0, LOST + 10 * SECOND);
        places.run(LOST);
        end(seed, &mut places, who, 1, ENDS[seed as usize % 3]);
        places.crash(1, SECOND);
        places.crash(2, 2 * SECOND);
        places.run(10 * SECOND + BACK);
        check_gone(seed, &mut places, who, seed as usize % 3);
    }
}

#[test]
fn it_does_not_come_back_if_the_node_where_it_ended_is_lost_next() {
    for seed in 0..12 {
        let (mut places, who) = places(seed);
        places.crash(0, LOST + 6 * SECOND);
        places.run(LOST);
        end(seed, &mut places, who, 1, ENDS[seed as usize % 3]);
        places.crash(1, 25 * SECOND);
        places.run(25 * SECOND + BACK);
        check_gone(seed, &mut places, who, seed as usize % 3);
    }
}

#[test]
fn it_does_not_come_back_from_a_side_where_nobody_used_it() {
    for seed in 0..10 {
        let (mut places, who) = places(seed);
        let publisher = places.connect(Party::new(0, "publisher0"));
        places.split(0);
        places.run(LOST);
        // The smaller side keeps this for it.
        places.publish(publisher, "t", QoS::ExactlyOnce, 7);
        places.run(SECOND);
        end(seed, &mut places, who, 1, ENDS[seed as usize % 3]);
        places.heal();
        places.run(BACK);
        check_gone(seed, &mut places, who, seed as usize % 3);
    }
}

#[test]
fn one_that_a_client_has_used_on_the_other_side_stays() {
    for seed in 0..10 {
        let (mut places, who) = places(seed);
        let publisher = places.connect(Party::new(0, "publisher0"));
        places.split(0);
        places.run(LOST);
        end(seed, &mut places, who, 1, ENDS[seed as usize % 2]);
        let other = places.connect(Party::durable(0, "subscriber"));
        assert_eq!(places.session_present(other), Some(true), "seed {seed}");
        if seed % 4 < 2 {
            places.lose(other);
        }
        places.publish(publisher, "t", QoS::ExactlyOnce, 7);
        places.run(SECOND);
        places.heal();
        places.run(BACK);
        places.come_back(other);
        places.run(2 * SECOND);
        assert_eq!(places.session_present(other), Some(true), "seed {seed}");
        assert_eq!(places.heard(other), [7], "seed {seed}");
        assert_eq!(places.check_rest(other), Ok(()), "seed {seed}");
    }
}
