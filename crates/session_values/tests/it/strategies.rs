//! Any values and contents.

use std::time::Duration;

use bytes::Bytes;
use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use mqtt::ownership::Owner;
use mqtt::principal::Principal;
use mqtt::records::message::MessageParts;
use mqtt::records::topic_value::Told;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use protocol::packet::{QoS, RetainHandling, SubscriptionId, SubscriptionOptions};
use protocol::properties::{MessageProperties, UserProperties};
use protocol::topic::SubscriptionFilter;
use protocol::{Text, TopicName};
use session_plane::delivering::{DeliveryQos, DeliveryStage, PacketDelivery};
use session_plane::publishing::{NumberedMessage, PacketId, PacketUse, WillNumber};
use session_plane::{Dot, Run, SessionExpiry};
use session_values::{
    Content, ContentParts, QueuedMessage, SessionTerms, SubscriptionParts, SubscriptionTerms, TopicBytes,
    UsedPacketId, Value, WillMessage,
};

use super::samples::now;

pub(super) fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Blank),
        sessions(),
        subscriptions(),
        queued().prop_map(Value::Message),
        (contents(), any::<u32>()).prop_map(|(content, delay)| Value::Will(WillMessage::new(content, delay))),
        of(any::<Duration>()).prop_map(Value::WillEnd),
        will_numbers(),
        uses(),
        deliveries().prop_map(Value::Delivery),
        any::<u32>().prop_map(|seconds| Value::Expiry(SessionExpiry::of_seconds(seconds))),
        topics(),
    ]
}

fn texts() -> impl Strategy<Value = Text> {
    "[a-c/é]{0,6}".prop_map(|text| Text::new(text).expect("short"))
}

fn payloads() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn topic_names() -> impl Strategy<Value = TopicName> {
    "[a-c/é]{1,6}".prop_map(|text| TopicName::parse(Text::new(text).expect("short")).expect("a topic"))
}

fn qos() -> impl Strategy<Value = QoS> {
    prop_oneof![
        Just(QoS::AtMostOnce),
        Just(QoS::AtLeastOnce),
        Just(QoS::ExactlyOnce)
    ]
}

fn properties() -> impl Strategy<Value = MessageProperties> {
    let user_properties = vec((texts(), texts()), 0..3).prop_map(|pairs| {
        let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        UserProperties::from_pairs(pairs).expect("short")
    });
    let fields = (
        of(any::<bool>()),
        of(any::<u32>()),
        of(texts()),
        of(topic_names()),
        of(payloads()),
        user_properties,
    );
    fields.prop_map(
        |(
            payload_is_utf8,
            message_expiry,
            content_type,
            response_topic,
            correlation_data,
            user_properties,
        )| {
            MessageProperties {
                payload_is_utf8,
                message_expiry,
                content_type,
                response_topic: response_topic.map(|topic| topic.text().clone()),
                correlation_data,
                user_properties,
            }
        },
    )
}

fn messages() -> impl Strategy<Value = MessageParts> {
    let fields = (topic_names(), payloads(), properties(), qos(), any::<bool>());
    fields.prop_map(|(topic, payload, properties, qos, retain)| MessageParts {
        topic,
        payload,
        properties,
        qos,
        retain,
    })
}

pub(super) fn parts() -> impl Strategy<Value = ContentParts> {
    let fields = (messages(), of(any::<u64>()), of(texts()));
    fields.prop_map(|(message, expires_at, publisher)| ContentParts {
        message,
        expires_at,
        publisher,
    })
}

pub(super) fn contents() -> impl Strategy<Value = Content> {
    parts().prop_map(|parts| Content::new(&parts))
}

fn clocks() -> impl Strategy<Value = Hlc> {
    any::<u64>().prop_map(|bits| Hlc::from_bits(bits >> 1).expect("early enough"))
}

fn dots() -> impl Strategy<Value = Dot> {
    let fields = (any::<u64>(), any::<u32>(), 1..=u64::MAX);
    fields.prop_map(|(node, incarnation, number)| {
        let run = Run {
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
        };
        Dot { run, number }
    })
}

fn packet_ids() -> impl Strategy<Value = PacketId> {
    (1..=u16::MAX).prop_map(|id| PacketId(id.try_into().expect("not 0")))
}

fn subscription_ids() -> impl Strategy<Value = SubscriptionId> {
    (1..=268_435_455_u32).prop_map(|id| SubscriptionId::new(id).expect("not 0"))
}

fn sessions() -> impl Strategy<Value = Value> {
    let attributes = vec((texts(), texts()), 0..3);
    let principal = (texts(), texts(), attributes).prop_map(|(method, name, attributes)| {
        Principal::new(name, attributes.into_iter().collect()).by_method(method)
    });
    let owner = (of(principal), of(texts())).prop_map(|(principal, policy)| Owner::of(principal, policy));
    (any::<u32>(), owner).prop_map(|(expiry, owner)| Value::Session(SessionTerms::new(expiry, owner)))
}

fn subscriptions() -> impl Strategy<Value = Value> {
    let handling = prop_oneof![
        Just(RetainHandling::Send),
        Just(RetainHandling::SendIfNew),
        Just(RetainHandling::DoNotSend)
    ];
    let options = (qos(), any::<bool>(), any::<bool>(), handling);
    let options =
        options.prop_map(
            |(qos, no_local, retain_as_published, retain_handling)| SubscriptionOptions {
                qos,
                no_local,
                retain_as_published,
                retain_handling,
            },
        );
    let filter = "(\\$share/[a-c]{1,3}/)?([a-c+]/){0,3}(#|[a-cé]{1,3})"
        .prop_map(|text| SubscriptionFilter::parse(Text::new(text).expect("short")).expect("a filter"));
    let place = of(vec(any::<u8>(), 0..4));
    let fields = (filter, options, of(subscription_ids()), of(clocks()), place);
    fields.prop_map(|(filter, options, id, since, place)| {
        let parts = SubscriptionParts {
            filter,
            options,
            id,
            since,
            retained_from: place.map(Bytes::from),
        };
        Value::Subscription(SubscriptionTerms::new(&parts))
    })
}

pub(super) fn queued() -> impl Strategy<Value = QueuedMessage> {
    let fields = (contents(), qos(), any::<bool>(), vec(subscription_ids(), 0..4));
    fields.prop_map(|(content, qos, retain, ids)| QueuedMessage::new(content, qos, retain, &ids))
}

fn will_numbers() -> impl Strategy<Value = Value> {
    (dots(), of(clocks())).prop_map(|(number, message_clock)| {
        Value::WillNumber(Box::new(WillNumber {
            number,
            message_clock,
        }))
    })
}

fn uses() -> impl Strategy<Value = Value> {
    let message = of((dots(), contents()));
    let fields = (packet_ids(), clocks(), message, of(clocks()));
    fields.prop_map(|(packet_id, connection_clock, message, message_clock)| {
        let numbered = message.as_ref().map(|(number, content)| NumberedMessage {
            number: *number,
            content: content.id(),
        });
        let packet_use = PacketUse {
            packet_id,
            connection_clock,
            message: numbered,
            message_clock,
        };
        let content = message.map(|(_, content)| content);
        Value::Use(Box::new(UsedPacketId::new(packet_use, content)))
    })
}

pub(super) fn deliveries() -> impl Strategy<Value = PacketDelivery> {
    let stage = prop_oneof![
        Just(DeliveryStage::Sent(DeliveryQos::AtLeastOnce)),
        Just(DeliveryStage::Sent(DeliveryQos::ExactlyOnce)),
        Just(DeliveryStage::Released),
        Just(DeliveryStage::Freeing)
    ];
    let fields = (packet_ids(), clocks(), any::<u64>(), stage);
    fields.prop_map(|(packet_id, connection_clock, order, stage)| PacketDelivery {
        packet_id,
        connection_clock,
        order,
        stage,
    })
}

fn topics() -> impl Strategy<Value = Value> {
    let told = of(vec(any::<u64>().prop_map(NodeId), 0..4));
    (told, of(messages())).prop_map(|(nodes, message)| {
        let told = nodes.map_or(Told::All, Told::Some);
        let now = now();
        let message = message.map(|parts| parts.into_message(None, now));
        Value::Topic(TopicBytes::new(&told, None, message.as_ref(), now))
    })
}
