//! What nodes say of copies is damaged on its way: nobody waits for it for ever.

use std::time::Duration;

use protocol::packet::QoS;

use crate::places::{Party, Places, Who};

const SECOND: Duration = Duration::from_secs(1);

/// As in broker/src/copies/messages.rs.
const OFFER: u8 = 2;
const CHANGES: u8 = 4;
const WHOLE: u8 = 5;

/// Damages the first message of this kind about copies in a frame between nodes (broker/src/routes/messages.rs), where the session's number, or how many positions follow, is past.
fn damage(frame: &mut [u8], kind: u8) -> bool {
    const ITEMS_AT: usize = 26;
    const COPIES: u8 = 8;
    let is_items = frame.len() > ITEMS_AT && frame[1..6] == [0xFF, 0xFF, 0xFF, 0xFE, 33];
    let mut at = ITEMS_AT;
    while is_items && at + 12 < frame.len() {
        let length = frame[at + 8..at + 12].try_into().map(u32::from_be_bytes);
        let item = at + 12;
        if frame[item] == COPIES && frame[item + 2] == kind {
            // The length of a client id; of changes the number of positions.
            let place = if kind == CHANGES { item + 7 } else { item + 15 };
            frame[place..place + 2].fill(0xFF);
            return true;
        }
        at = item + length.expect("4 bytes") as usize;
    }
    false
}

/// A subscriber that is away, with a session at the first node, and a publisher there.
fn scene(seed: u64) -> (Places, Who, Who) {
    let mut places = Places::running(seed, 3, |_| {});
    let subscriber = places.connect(Party::durable(0, "subscriber"));
    places.subscribe(subscriber, "a", QoS::AtLeastOnce);
    places.lose(subscriber);
    let publisher = places.connect(Party::new(0, "publisher"));
    places.run(SECOND);
    (places, subscriber, publisher)
}

/// A node lacks something, since it was away.
fn come_back_without(places: &mut Places, publisher: Who) {
    places.crash(2, 5 * SECOND);
    for number in 0..5 {
        places.publish(publisher, "a", QoS::AtLeastOnce, number);
    }
    places.run(4 * SECOND);
    assert_eq!(places.unacknowledged(publisher), 0);
}

/// Everything is acknowledged, and all run.
fn check_serving(places: &mut Places, publisher: Who) {
    places.run(10 * SECOND);
    places.publish(publisher, "a", QoS::AtLeastOnce, 100);
    places.run(SECOND);
    assert!(places.tampered > 0);
    assert_eq!(places.unacknowledged(publisher), 0);
    for node in 0..3 {
        assert!(places.is_running(node), "{node}");
    }
}

#[test]
fn a_node_that_cannot_read_a_session_is_not_waited_for() {
    let (mut places, _, publisher) = scene(1);
    places.tampers = Some(|frame| damage(frame, WHOLE));
    come_back_without(&mut places, publisher);
    check_serving(&mut places, publisher);
    assert!(places.tampered < 10, "{} were sent", places.tampered);
}

#[test]
fn a_node_that_cannot_read_an_offer_is_not_waited_for() {
    let (mut places, _, publisher) = scene(2);
    places.tampers = Some(|frame| damage(frame, OFFER));
    come_back_without(&mut places, publisher);
    check_serving(&mut places, publisher);
}

#[test]
fn a_session_that_could_not_be_read_is_sent_again() {
    let (mut places, subscriber, publisher) = scene(3);
    places.tampers = Some(|frame| damage(frame, WHOLE));
    come_back_without(&mut places, publisher);
    places.until("a message was changed", |places| places.tampered > 0);
    places.tampers = None;
    check_serving(&mut places, publisher);
    assert!(places.owners(subscriber).contains(&2));
}

#[test]
fn a_copy_that_has_missed_changes_is_brought_up_to_date() {
    let (mut places, subscriber, publisher) = scene(4);
    places.tampers = Some(|frame| damage(frame, CHANGES));
    places.publish(publisher, "a", QoS::AtLeastOnce, 1);
    places.until("a message was changed", |places| places.tampered > 0);
    places.tampers = None;
    places.run(SECOND);
    assert_eq!(places.unacknowledged(publisher), 0);
    places.kill(0);
    places.run(5 * SECOND);
    places.come_back(subscriber);
    places.go(subscriber, 1);
    places.run(2 * SECOND);
    assert_eq!(places.heard(subscriber), [1]);
}
