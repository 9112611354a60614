//! Values and contents that are written out, one of each form at least.

use std::time::Duration;

use bytes::Bytes;
use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use mqtt::now::Now;
use mqtt::ownership::Owner;
use mqtt::principal::Principal;
use mqtt::records::message::MessageParts;
use mqtt::records::topic_value::Told;
use mqtt::retained::Edition;
use protocol::packet::{QoS, RetainHandling, SubscriptionId, SubscriptionOptions};
use protocol::properties::{MessageProperties, UserProperties};
use protocol::topic::SubscriptionFilter;
use protocol::{Text, TopicName};
use session_plane::delivering::{DeliveryQos, DeliveryStage, PacketDelivery};
use session_plane::publishing::{NumberedMessage, PacketId, PacketUse, WillNumber};
use session_plane::{Dot, EVENT_NUMBER_MAX, Run, SessionExpiry};
use session_values::{
    Content, ContentParts, QueuedMessage, SessionTerms, SubscriptionParts, SubscriptionTerms, TopicBytes,
    UsedPacketId, Value, WillMessage,
};

pub(super) const WALL: u64 = 1_800_000_000_000;

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
pub(super) fn now() -> Now {
    Now {
        instant: std::time::Instant::now(),
        wall: WALL,
        system_wall: WALL,
    }
}

pub(super) fn text(text: &str) -> Text {
    Text::new(text).expect("a text")
}

pub(super) fn clock(number: u64) -> Hlc {
    Hlc::at(WALL + number)
}

/// Number of a QoS 2 message.
pub(super) fn number(place: u64) -> Dot {
    let run = Run {
        node: NodeId(0x0102_0304_0506_0708),
        incarnation: Incarnation(9),
    };
    let number = EVENT_NUMBER_MAX + place;
    Dot { run, number }
}

pub(super) fn packet_id(id: u16) -> PacketId {
    PacketId(id.try_into().expect("not 0"))
}

/// Message without properties.
pub(super) fn bare_parts() -> ContentParts {
    let message = MessageParts {
        topic: TopicName::parse(text("line/7")).expect("a topic"),
        payload: Bytes::new(),
        properties: MessageProperties::default(),
        qos: QoS::AtMostOnce,
        retain: false,
    };
    ContentParts {
        message,
        expires_at: None,
        publisher: None,
    }
}

/// Message with everything.
pub(super) fn full_parts() -> ContentParts {
    let properties = MessageProperties {
        payload_is_utf8: Some(true),
        message_expiry: Some(60),
        content_type: Some(text("text/plain")),
        response_topic: Some(text("line/7/answers")),
        correlation_data: Some(Bytes::from_static(b"\0\x01\xff")),
        user_properties: UserProperties::from_pairs([("a", "1"), ("a", "2")]).expect("texts"),
    };
    let message = MessageParts {
        topic: TopicName::parse(text("line/7/état")).expect("a topic"),
        payload: Bytes::from_static(b"running"),
        properties,
        qos: QoS::ExactlyOnce,
        retain: true,
    };
    ContentParts {
        message,
        expires_at: Some(WALL + 60_000),
        publisher: Some(text("press-7")),
    }
}

pub(super) fn full() -> Content {
    Content::new(&full_parts())
}

pub(super) fn bare() -> Content {
    Content::new(&bare_parts())
}

pub(super) fn contents() -> Vec<(&'static str, Content)> {
    vec![("content-bare", bare()), ("content-full", full())]
}

/// Values of all forms, by the names of their golden files.
pub(super) fn values() -> Vec<(&'static str, Value)> {
    let mut all = vec![("value-blank", Value::Blank)];
    all.extend(sessions());
    all.extend(subscriptions());
    all.extend(messages());
    all.extend(wills());
    all.extend(packet_ids());
    all.extend(expiries());
    all.extend(topics());
    all
}

fn sessions() -> Vec<(&'static str, Value)> {
    let attributes = [("floor", "3"), ("site", "north")].map(|(name, value)| (text(name), text(value)));
    let principal = Principal::new(text("press"), attributes.into_iter().collect());
    let owner = Owner::of(Some(principal.by_method(text("password"))), Some(text("cells")));
    vec![
        ("value-session", Value::Session(SessionTerms::new(u32::MAX, None))),
        (
            "value-session-owned",
            Value::Session(SessionTerms::new(3_600, owner)),
        ),
    ]
}

fn subscriptions() -> Vec<(&'static str, Value)> {
    let plain = SubscriptionParts {
        filter: SubscriptionFilter::parse(text("line/+/état")).expect("a filter"),
        options: SubscriptionOptions::default(),
        id: None,
        since: None,
        retained_from: None,
    };
    let shared = SubscriptionParts {
        filter: SubscriptionFilter::parse(text("$share/team/line/#")).expect("a filter"),
        options: SubscriptionOptions {
            qos: QoS::ExactlyOnce,
            no_local: true,
            retain_as_published: true,
            retain_handling: RetainHandling::DoNotSend,
        },
        id: SubscriptionId::new(268_435_455),
        since: Some(clock(1)),
        retained_from: None,
    };
    let due = SubscriptionParts {
        retained_from: Some(Bytes::from_static(b"line/7")),
        ..plain.clone()
    };
    let of = |parts| Value::Subscription(SubscriptionTerms::new(parts));
    vec![
        ("value-subscription", of(&plain)),
        ("value-subscription-shared", of(&shared)),
        ("value-subscription-due", of(&due)),
    ]
}

fn messages() -> Vec<(&'static str, Value)> {
    let ids = [1, 200, 268_435_455].map(|id| SubscriptionId::new(id).expect("not 0"));
    let queued = |content, qos, retain, ids| Value::Message(QueuedMessage::new(content, qos, retain, ids));
    vec![
        ("value-message", queued(bare(), QoS::AtMostOnce, false, &[])),
        (
            "value-message-one",
            queued(full(), QoS::AtLeastOnce, false, &ids[..1]),
        ),
        (
            "value-message-several",
            queued(full(), QoS::ExactlyOnce, true, &ids),
        ),
    ]
}

fn wills() -> Vec<(&'static str, Value)> {
    let will_number = |message_clock| {
        let number = number(4);
        Value::WillNumber(Box::new(WillNumber {
            number,
            message_clock,
        }))
    };
    vec![
        ("value-will", Value::Will(WillMessage::new(full(), 30))),
        ("value-will-end", Value::WillEnd(None)),
        (
            "value-will-end-delayed",
            Value::WillEnd(Some(Duration::new(30, 5))),
        ),
        ("value-will-number", will_number(None)),
        ("value-will-number-anew", will_number(Some(clock(3)))),
    ]
}

fn packet_ids() -> Vec<(&'static str, Value)> {
    let delivery = PacketDelivery {
        packet_id: packet_id(65_535),
        connection_clock: clock(8),
        order: 77,
        stage: DeliveryStage::Sent(DeliveryQos::ExactlyOnce),
    };
    let released = PacketDelivery {
        stage: DeliveryStage::Released,
        ..delivery
    };
    vec![
        ("value-use", used(Some(full()), Some(clock(6)))),
        ("value-use-free", used(None, None)),
        ("value-delivery-sent", Value::Delivery(delivery)),
        ("value-delivery-released", Value::Delivery(released)),
    ]
}

pub(super) fn used(content: Option<Content>, message_clock: Option<Hlc>) -> Value {
    let numbered = |content: &Content| NumberedMessage {
        number: number(5),
        content: content.id(),
    };
    let packet_use = PacketUse {
        packet_id: packet_id(12),
        connection_clock: clock(7),
        message: content.as_ref().map(numbered),
        message_clock,
    };
    Value::Use(Box::new(UsedPacketId::new(packet_use, content)))
}

fn expiries() -> Vec<(&'static str, Value)> {
    vec![
        ("value-expiry", Value::Expiry(SessionExpiry::of_seconds(3_600))),
        ("value-expiry-never", Value::Expiry(SessionExpiry::NEVER)),
    ]
}

fn topics() -> Vec<(&'static str, Value)> {
    let now = now();
    let message = full().to_message(now);
    let told = Told::Some(vec![NodeId(1), NodeId(3)]);
    let retained = TopicBytes::new(&told, None, Some(&message), now);
    let cleared = TopicBytes::new(&Told::All, Some(Edition::of_old(NodeId(2))), None, now);
    vec![
        ("value-topic", Value::Topic(retained)),
        ("value-topic-cleared", Value::Topic(cleared)),
    ]
}
