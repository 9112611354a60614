//! Bad input and limits: what is refused is named, and changes nothing.

use super::sink::{Front, OWNER, key_of, of};
use super::source::{Owner, limits, question};
use super::*;

/// The items are refused, and the next ones are taken as if they had not come.
#[track_caller]
fn check(items: FeedItems<Value>, error: FeedError) {
    let mut front = Front::new();
    front.receive(of(0, &[1])).expect("the first");
    assert_eq!(front.receive(items), Err(error));
    let delivered = front.receive(of(1, &[3])).expect("the next");
    assert!(
        matches!(&delivered[..], [SinkAction::Deliver { .. }]),
        "{delivered:?}"
    );
}

#[test]
fn items_that_are_not_the_next_are_refused() {
    let (peer, feed) = (OWNER, FeedId(1));
    let out_of_order = |found| FeedError::OutOfOrder {
        peer,
        feed,
        expected: 1,
        found,
    };
    check(of(0, &[1]), out_of_order(0));
    check(of(2, &[2]), out_of_order(2));
    let key = key_of(2);
    check(of(1, &[3, 2]), FeedError::NotAscending { peer, feed, key });
    let key = key_of(1);
    check(of(1, &[1]), FeedError::Repeated { peer, feed, key });
    let key = key_of(4);
    check(of(1, &[3, 4]), FeedError::BeyondWindow { peer, feed, key });
}

#[test]
fn items_of_no_feed_are_refused() {
    let mut items = of(1, &[2]);
    items.feed = FeedId(2);
    let feed = items.feed;
    check(items, FeedError::UnknownFeed { peer: OWNER, feed });
    let mut front = Front::new();
    front.owner = NodeId(2);
    let (peer, feed) = (NodeId(2), FeedId(1));
    assert_eq!(
        front.receive(of(0, &[1])),
        Err(FeedError::UnknownFeed { peer, feed })
    );
}

#[test]
fn items_of_a_feed_that_has_ended_are_void() {
    let mut front = Front::new();
    let client = client(0);
    front.try_step(SinkEvent::Ended { client }).expect("it may end");
    assert_eq!(front.receive(of(0, &[1])), Ok(Vec::new()));
}

#[test]
fn removals_of_too_scattered_events_are_refused() {
    let scattered: Vec<Dot> = (0..4_096).map(|at| dot(0, 2 * at + 1)).collect();
    let mut front = Front::new();
    let mut items = of(0, &[1]);
    items.removed_by = VersionVector::clone(&known(&scattered));
    front.receive(items.clone()).expect("a vector has room");
    items.number = 1;
    items.items.clear();
    items.removed_by = VersionVector::clone(&known(&[dot(1, 1)]));
    let (peer, feed) = (OWNER, FeedId(1));
    assert_eq!(front.receive(items), Err(FeedError::TooScattered { peer, feed }));
    front.receive(of(1, &[2])).expect("nothing was changed");
}

#[test]
fn a_node_feeds_a_bounded_number_of_clients() {
    let mut front = Front::new();
    let mut actions: Vec<SinkAction<Value>> = Vec::new();
    let begun = front
        .sink
        .begin(queue_of(1), vec![OWNER], &known(&[]), &mut actions);
    assert_eq!(begun, Err(FeedsFull { feeds_max: 1 }));
    assert_eq!(actions, []);
    front
        .sink
        .begin(queue_of(0), vec![OWNER], &known(&[]), &mut actions)
        .expect("a client that connects anew needs no room");
}

#[test]
fn an_owner_refuses_by_name() {
    let mut owner = Owner::new();
    let (peer, from, feed) = (FRONT, FRONT, FeedId(2));
    let unknown = FeedError::UnknownFeed { peer, feed };
    assert_eq!(owner.try_step(SourceEvent::Closed { from, feed }), Err(unknown));
    owner.open(question(2, 0));
    let granted = |items| SourceEvent::WindowGranted {
        from,
        feed,
        window: window(items),
    };
    assert_eq!(
        owner.try_step(granted(2)),
        Err(FeedError::WindowGoesBack { peer, feed })
    );
    let open = question(2, 0);
    let goes_back = FeedError::FeedGoesBack {
        peer,
        feed,
        last: feed,
    };
    assert_eq!(owner.try_step(SourceEvent::Opened { from, open }), Err(goes_back));
    let mut open = question(3, 0);
    open.held = (1..6).map(key_of).collect();
    let too_many = FeedError::TooManyHeld {
        peer,
        feed: FeedId(3),
        held: 5,
        held_max: limits().held_max,
    };
    assert_eq!(owner.try_step(SourceEvent::Opened { from, open }), Err(too_many));
    assert_eq!(owner.source.len(), 1);
    owner.step(SourceEvent::Closed { from, feed });
    assert_eq!(owner.step(granted(9)), [], "it was under way");
}

#[test]
fn an_owner_serves_a_bounded_number_of_feeds() {
    let mut owner = Owner::new();
    owner.begin(&queue_of(1));
    owner.open(question(1, 0));
    owner.open(question(2, 1));
    let reason = CloseReason::Full;
    let feed = FeedId(3);
    assert_eq!(owner.open(question(3, 2)), [FeedMessage::Closed { feed, reason }]);
    let replaced = owner.open(question(4, 1));
    assert!(matches!(&replaced[..], [FeedMessage::Items(_)]), "{replaced:?}");
    assert_eq!(
        owner.source.len(),
        2,
        "a later feed replaces the one of its client"
    );
    owner.step(SourceEvent::PeerLost(FRONT));
    assert!(owner.source.is_empty());
    assert_eq!(owner.open(question(1, 0)).len(), 1, "its next run begins anew");
}
