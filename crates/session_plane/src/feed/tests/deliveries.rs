//! Packet ids in feeds: when an owner tells them, and what the node of the connection makes of it.

use super::sink::{Front, OWNER, of, sent};
use super::source::{OTHER, Owner, event_at, limits, question};
use super::*;

/// Delivery `number` of an older connection, which names message `of`.
fn told(number: u64, of: u64, is_gone: bool) -> FeedDelivery<Value> {
    let (dot, message) = (dot(1, number), dot(0, of));
    FeedDelivery {
        dot,
        known: KnownDelivery { message, is_gone },
        value: number,
    }
}

pub(super) fn assign(owner: &mut Owner, number: u64, of: u64) -> Vec<FeedMessage<Value>> {
    let (delivery, message) = (dot(1, number), dot(0, of));
    owner.apply(delivery, &[], Some(Fact::Delivery { message }));
    let client = client(0);
    owner.step(SourceEvent::DeliveryAdded {
        client,
        delivery,
        message,
    })
}

/// Changes of deliveries in the one message of an owner.
#[track_caller]
pub(super) fn changes(messages: &[FeedMessage<Value>]) -> DeliveryChanges<Value> {
    let [FeedMessage::Items(items)] = messages else {
        panic!("{messages:?} is not one message of items");
    };
    items.deliveries.clone()
}

fn gone(number: u64) -> DeliveryChanges<Value> {
    DeliveryChanges {
        gone: vec![dot(1, number)],
        ..DeliveryChanges::default()
    }
}

fn added(deliveries: &[FeedDelivery<Value>]) -> DeliveryChanges<Value> {
    DeliveryChanges {
        added: deliveries.to_vec(),
        ..DeliveryChanges::default()
    }
}

/// The story of rule `release-gone`: a client has received a message under a packet id, and its
/// connection is lost. Another copy had decided that the message matched nobody.
#[test]
fn a_packet_id_whose_message_goes_with_a_merge_is_told_until_it_is_free() {
    let mut owner = Owner::new();
    owner.publish(2);
    assign(&mut owner, 1, 2);
    let answer = owner.open(question(1, 0));
    assert_eq!(changes(&answer), added(&[told(1, 2, false)]));

    let mut mismatched = Owner::new();
    mismatched.apply(dot(0, 2), &[], None);
    owner.step(SourceEvent::CopyUnmerged(Owner::slot()));
    owner.copy.merge(mismatched.copy).expect("room");
    let merged = owner.step(SourceEvent::CopyReady(Owner::slot()));
    assert_eq!(changes(&merged), gone(1));

    let completed = event_at(FRONT);
    owner.apply(completed, &[dot(1, 1)], None);
    let (client, delivery) = (client(0), dot(1, 1));
    let removed = SourceEvent::DeliveryRemoved {
        client,
        delivery,
        by: completed,
    };
    assert_eq!(owner.step(removed), [], "the receiver has removed it");
    let next = owner.open(question(2, 0));
    assert_eq!(
        changes(&next),
        DeliveryChanges::default(),
        "the packet id is free"
    );
}

#[test]
fn a_delivery_without_its_message_is_told_as_gone_at_the_begin() {
    let mut owner = Owner::new();
    owner.publish(2);
    assign(&mut owner, 1, 2);
    owner.remove(2, event_at(OTHER));
    let answer = owner.open(question(1, 0));
    assert_eq!(changes(&answer), added(&[told(1, 2, true)]));
}

#[test]
fn a_delivery_whose_message_may_still_come_is_not_gone() {
    let mut owner = Owner::new();
    owner.open(question(1, 0));
    assert_eq!(changes(&assign(&mut owner, 1, 3)), added(&[told(1, 3, false)]));
    assert_eq!(owner.step(SourceEvent::CopyReady(Owner::slot())), []);
    owner.apply(dot(0, 3), &[], None);
    let ready = owner.step(SourceEvent::CopyReady(Owner::slot()));
    assert_eq!(changes(&ready), gone(1));
}

#[test]
fn the_removal_of_a_delivery_by_another_is_told_with_its_event() {
    let mut owner = Owner::new();
    owner.open(question(1, 0));
    assign(&mut owner, 1, 2);
    let (client, delivery, by) = (client(0), dot(1, 1), event_at(OTHER));
    owner.apply(by, &[delivery], None);
    let told = owner.step(SourceEvent::DeliveryRemoved { client, delivery, by });
    let [FeedMessage::Items(items)] = &told[..] else {
        panic!("{told:?} tells of no removal");
    };
    assert_eq!(items.deliveries.ended, [delivery]);
    assert!(items.removed_by.covers(by));
}

#[test]
fn a_named_delivery_is_not_told_again() {
    let mut owner = Owner::new();
    assign(&mut owner, 1, 2);
    let mut open = question(1, 0);
    open.deliveries = BTreeMap::from([(dot(1, 1), told(1, 2, false).known)]);
    assert_eq!(changes(&owner.open(open)), DeliveryChanges::default());
}

#[test]
fn a_feed_with_too_many_deliveries_ends() {
    let mut owner = Owner::new();
    owner.open(question(1, 0));
    assign(&mut owner, 1, 2);
    assign(&mut owner, 2, 2);
    let reason = CloseReason::TooManyDeliveries;
    let ended = |feed| FeedMessage::Closed {
        feed: FeedId(feed),
        reason,
    };
    assert_eq!(assign(&mut owner, 3, 2), [ended(1)]);
    assert!(owner.source.is_empty());
    assert_eq!(owner.open(question(2, 0)), [ended(2)]);
}

#[test]
fn an_owner_refuses_deliveries_by_name() {
    let mut owner = Owner::new();
    let (peer, from, feed) = (FRONT, FRONT, FeedId(1));
    let refusal = |owner: &mut Owner, deliveries: &[FeedDelivery<Value>]| {
        let mut open = question(1, 0);
        open.deliveries = deliveries.iter().map(|told| (told.dot, told.known)).collect();
        owner.try_step(SourceEvent::Opened { from, open })
    };
    let too_many = FeedError::TooManyDeliveries {
        peer,
        feed,
        deliveries: 3,
        deliveries_max: limits().deliveries_max,
    };
    let three = [1, 2, 3].map(|number| told(number, 2, false));
    assert_eq!(refusal(&mut owner, &three), Err(too_many));
    let no_event = Err(FeedError::NoEvent { peer, feed });
    assert_eq!(refusal(&mut owner, &[told(0, 2, false)]), no_event);
    assert_eq!(refusal(&mut owner, &[told(1, 0, false)]), no_event);
    assert!(owner.source.is_empty());
}

/// Message `number` of feed 1 with these deliveries.
fn telling(number: u64, deliveries: DeliveryChanges<Value>) -> FeedItems<Value> {
    FeedItems {
        deliveries,
        ..of(number, &[])
    }
}

#[test]
fn a_sink_refuses_deliveries_by_name() {
    let (peer, feed) = (OWNER, FeedId(1));
    let check = |deliveries: &[FeedDelivery<Value>], error: FeedError| {
        let mut front = Front::new();
        let known = telling(0, added(&[told(1, 2, false)]));
        front.receive(known).expect("the first");
        assert_eq!(front.receive(telling(1, added(deliveries))), Err(error));
        front.receive(telling(1, gone(1))).expect("nothing was changed");
    };
    let no_event = FeedError::NoEvent { peer, feed };
    check(&[told(0, 2, false)], no_event);
    check(&[told(2, 0, false)], no_event);
    let delivery = dot(1, 1);
    check(
        &[told(1, 2, false)],
        FeedError::DeliveryRepeated { peer, feed, delivery },
    );
    let (deliveries, deliveries_max) = (3, 2);
    let too_many = FeedError::TooManyDeliveries {
        peer,
        feed,
        deliveries,
        deliveries_max,
    };
    check(&[told(2, 2, false), told(3, 2, false)], too_many);
}

#[test]
fn a_sink_passes_on_what_is_new_and_names_what_is_left() {
    let mut front = Front::new();
    let two = added(&[told(1, 2, false), told(2, 3, true)]);
    let passed = front.receive(telling(0, two.clone())).expect("there is room");
    let deliver = |deliveries| SinkAction::Deliver {
        client: client(0),
        deliveries,
        items: Vec::new(),
    };
    assert_eq!(passed, [deliver(two)]);
    assert_eq!(front.receive(telling(1, gone(2))), Ok(Vec::new()), "it is known");
    let (client, delivery) = (client(0), dot(1, 1));
    let ended = SinkEvent::DeliveryEnded { client, delivery };
    assert_eq!(front.try_step(ended), Ok(Vec::new()));
    assert_eq!(front.receive(telling(2, gone(1))), Ok(Vec::new()), "it has ended");
    let opened = front.try_step(SinkEvent::OwnerLost(OWNER)).expect("no input");
    let sent = sent(&opened);
    let [(_, FeedMessage::Open(open))] = &sent[..] else {
        panic!("{sent:?} opens no feed");
    };
    assert_eq!(
        open.deliveries,
        BTreeMap::from([(dot(1, 2), told(2, 3, true).known)])
    );
}
