//! What a node gives for a backup, another one has after it is put back.

use broker::backups::{
    CarriedDelivery, CarriedSession, CarriedSubscription, Item, RetainedItem, SessionItem, SessionPart, Tally,
};
use broker::{Administration, Event};
use bytes::Bytes;
use mqtt::ids::ConnectionId;
use mqtt::limits::Limits;
use mqtt::records::queue::{self, QueueRecord};
use protocol::packet::{Disconnect, PacketId, Publish, QoS, SubscriptionId, SubscriptionOptions};
use protocol::properties::MessageProperties;
use protocol::topic::SubscriptionFilter;
use protocol::{Packet, ReasonCode, Text, TopicName};
use smallvec::SmallVec;

use crate::inspection::World;
use crate::records::released;

fn publish(world: &mut World, by: ConnectionId, topic: &'static str, qos: QoS, id: u16) {
    let publish = Publish {
        dup: false,
        qos,
        retain: false,
        topic: Text::from_static(topic),
        packet_id: PacketId::new(id),
        topic_alias: None,
        subscription_ids: SmallVec::new(),
        properties: MessageProperties::default(),
        payload: Bytes::copy_from_slice(&id.to_be_bytes()),
    };
    world.receive(by, Packet::Publish(Box::new(publish)));
}

fn sessions(world: &World) -> Vec<SessionItem> {
    let (mut all, mut from) = (Vec::new(), Some(String::new()));
    while let Some(place) = from {
        let piece = world.node.sessions_for_backup(world.now, &place);
        all.extend(piece.found);
        from = piece.next;
    }
    all
}

fn retained(world: &World) -> Vec<RetainedItem> {
    let (mut all, mut after) = (Vec::new(), Some(Vec::new()));
    while let Some(place) = after {
        let piece = world.node.retained_for_backup(world.now, &place);
        all.extend(piece.found);
        after = piece.next;
    }
    all
}

/// Two clients that are away with messages for them, of which one has sent a message of QoS 2 that it has not released.
fn filled() -> World {
    let mut world = World::new();
    let pump = world.connect("pump", &["work/#", "$share/s/shared"]);
    let valve = world.connect("valve", &["work/1"]);
    let other = world.connect("other", &[]);
    publish(&mut world, pump, "elsewhere", QoS::ExactlyOnce, 7);
    // One is in flight when the connection ends, the others wait.
    publish(&mut world, other, "work/1", QoS::AtLeastOnce, 1);
    for connection in [pump, valve] {
        world.receive(
            connection,
            Packet::Disconnect(Disconnect::new(ReasonCode::Success)),
        );
        world.step(Event::Lost { connection });
    }
    for id in 2..5 {
        publish(&mut world, other, "work/1", QoS::AtLeastOnce, id);
    }
    publish(&mut world, other, "shared", QoS::AtLeastOnce, 9);
    world.retain(other, "plant/1", "on");
    world.retain(other, "$other/1", "hidden");
    world.receive(other, Packet::Disconnect(Disconnect::new(ReasonCode::Success)));
    world.step(Event::Lost { connection: other });
    world
}

/// Without the session's number, which is that of its node.
fn comparable(mut item: SessionItem) -> SessionItem {
    item.record = [&item.record[..1], &item.record[9..]].concat().into();
    item
}

fn restore(world: &mut World, items: Vec<Item>) -> Tally {
    world.administer(1, Administration::Restore { items });
    assert_eq!(world.restored.len(), 1, "it is answered once");
    world.restored.remove(0)
}

#[test]
fn sessions_and_retained_messages_come_back_as_they_were_and_once() {
    let from = filled();
    let (all, messages) = (sessions(&from), retained(&from));
    assert_eq!((all.len(), messages.len()), (3, 2));
    assert_eq!(from.node.contents().sessions, 3);
    let items = || {
        let messages = messages.iter().cloned().map(Item::Retained);
        messages
            .chain(all.iter().cloned().map(Item::Session))
            .collect::<Vec<_>>()
    };
    let mut into = World::new();
    let tally = restore(&mut into, items());
    assert_eq!(
        tally,
        Tally {
            restored: 5,
            ..Tally::default()
        }
    );
    assert_eq!(retained(&into), messages);
    let came: Vec<_> = sessions(&into).into_iter().map(comparable).collect();
    let went: Vec<_> = all.iter().cloned().map(comparable).collect();
    assert_eq!(came, went);
    let tally = restore(&mut into, items());
    assert_eq!(
        tally,
        Tally {
            there: 5,
            ..Tally::default()
        }
    );
}

/// A delivery as older clusters have stored it: the message has an id.
#[test]
fn what_an_older_cluster_knows_messages_by_is_passed_over() {
    let from = filled();
    let mut into = World::new();
    let now = into.now;
    let mut item = sessions(&from).pop().expect("there are three");
    let (key, value) = released("v4/queue-id.bin");
    item.parts = vec![SessionPart::Delivery(key.slice(8..), value)];
    let tally = restore(&mut into, vec![Item::Session(item)]);
    assert_eq!(tally.restored, 1, "{tally:?}");
    let came = sessions(&into).pop().expect("it is there");
    let [SessionPart::Delivery(suffix, value)] = came.parts.as_slice() else {
        panic!("{came:?}");
    };
    let key = [&[0; 8], suffix.as_ref()].concat();
    let (_, _, record) = queue::decode(&key, value.clone(), now).expect("a record");
    let QueueRecord::Waiting(delivery) = record else {
        panic!("{record:?} does not wait");
    };
    assert_eq!(delivery.message.topic.as_str(), "t");
}

#[test]
fn sessions_that_find_no_room_are_counted() {
    let from = filled();
    let mut into = World::with(Limits {
        sessions_max: 2,
        ..Limits::default()
    });
    let items = || sessions(&from).into_iter().map(Item::Session).collect::<Vec<_>>();
    let tally = restore(&mut into, items());
    assert_eq!((tally.restored, tally.refused), (2, 1));
    let tally = restore(&mut into, items());
    assert_eq!((tally.there, tally.refused), (2, 1));
    assert_eq!(sessions(&into).len(), 2);
}

#[test]
fn a_session_of_another_server_has_its_subscriptions_and_what_waits() {
    let waiting = |qos, dup, payload: &'static str| {
        let publish = Publish {
            dup,
            qos,
            retain: false,
            topic: Text::from_static("work/1"),
            packet_id: None,
            topic_alias: None,
            subscription_ids: SubscriptionId::new(7).into_iter().collect(),
            properties: MessageProperties {
                message_expiry: Some(60),
                ..MessageProperties::default()
            },
            payload: Bytes::from_static(payload.as_bytes()),
        };
        let topic = TopicName::parse(publish.topic.clone()).expect("a topic");
        CarriedDelivery::Waiting(topic, Box::new(publish))
    };
    let carried = CarriedSession {
        client_id: Text::from_static("pump"),
        expiry: 3_600,
        subscriptions: vec![CarriedSubscription {
            filter: SubscriptionFilter::parse(Text::from_static("work/#")).expect("a filter"),
            options: SubscriptionOptions::default(),
            id: SubscriptionId::new(7),
        }],
        deliveries: vec![
            CarriedDelivery::Released(PacketId::new(5).expect("not 0")),
            waiting(QoS::AtLeastOnce, true, "was sent"),
            waiting(QoS::AtMostOnce, false, "is not kept"),
            waiting(QoS::ExactlyOnce, false, "waits"),
        ],
    };
    let mut into = World::new();
    let item = carried.item(into.now);
    let tally = restore(&mut into, vec![Item::Session(item.clone())]);
    assert_eq!(tally.restored, 1, "{tally:?}");
    let mut there = sessions(&into);
    let there = there.pop().expect("it is there");
    assert_eq!(comparable(there.clone()), comparable(item));
    let kinds = there.parts.iter().map(|part| match part {
        SessionPart::Subscription(..) => 's',
        SessionPart::Received(_) => 'r',
        SessionPart::Delivery(..) => 'd',
    });
    // What has QoS 0 has no place in a queue.
    assert_eq!(kinds.collect::<String>(), "sddd");
}

#[test]
fn what_cannot_be_read_is_counted_and_nothing_of_it_is_there() {
    let from = filled();
    let mut into = World::new();
    let mut items = Vec::new();
    for mut item in sessions(&from) {
        item.record = item.record.slice(..item.record.len() - 1);
        items.push(Item::Session(item));
    }
    for mut item in retained(&from) {
        item.value = item.value.slice(1..);
        items.push(Item::Retained(item));
    }
    let tally = restore(&mut into, items);
    assert_eq!(
        tally,
        Tally {
            unreadable: 5,
            ..Tally::default()
        }
    );
    assert_eq!((sessions(&into).len(), retained(&into).len()), (0, 0));
}
