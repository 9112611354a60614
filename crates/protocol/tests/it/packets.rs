//! Arbitrary valid packets of both versions, as each side sends them.
#![allow(dead_code, reason = "each of its users takes what it needs")]

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use statehold_protocol::packet::{
    Ack, Auth, ConnAck, ConnAckProperties, Connect, ConnectProperties, Disconnect, Packet, PacketId,
    ProtocolVersion, Publish, QoS, RetainHandling, SubAck, Subscribe, SubscribeFilter, SubscriptionOptions,
    UnsubAck, Unsubscribe, Will,
};
use statehold_protocol::properties::{Explanation, MessageProperties, UserProperties};
use statehold_protocol::{ReasonCode, Text, TopicName};

use crate::check::Receiver;

/// Any packet that `receiver` may get in a connection of `version`.
pub(crate) fn packet(receiver: Receiver, version: ProtocolVersion) -> BoxedStrategy<Packet> {
    let both = prop_oneof![
        4 => publish(receiver, version).prop_map(|publish| Packet::Publish(Box::new(publish))),
        1 => ack(version, PUBACK_CODES).prop_map(Packet::PubAck),
        1 => ack(version, PUBACK_CODES).prop_map(Packet::PubRec),
        1 => ack(version, PUBREL_CODES).prop_map(Packet::PubRel),
        1 => ack(version, PUBREL_CODES).prop_map(Packet::PubComp),
    ];
    let is_v5 = version == ProtocolVersion::V5;
    match receiver {
        Receiver::Server => {
            let requests = prop_oneof![
                connect(version).prop_map(|connect| Packet::Connect(Box::new(connect))),
                subscribe(version).prop_map(Packet::Subscribe),
                unsubscribe(version).prop_map(Packet::Unsubscribe),
                Just(Packet::PingReq),
                disconnect(receiver, version).prop_map(Packet::Disconnect),
            ];
            if is_v5 {
                prop_oneof![both, requests, auth(receiver)].boxed()
            } else {
                prop_oneof![both, requests].boxed()
            }
        }
        Receiver::Client => {
            let answers = prop_oneof![
                connack(version).prop_map(|connack| Packet::ConnAck(Box::new(connack))),
                suback(version).prop_map(Packet::SubAck),
                unsuback(version).prop_map(Packet::UnsubAck),
                Just(Packet::PingResp),
            ];
            if is_v5 {
                let disconnect = disconnect(receiver, version).prop_map(Packet::Disconnect);
                prop_oneof![both, answers, disconnect, auth(receiver)].boxed()
            } else {
                prop_oneof![both, answers].boxed()
            }
        }
    }
}

/// Both versions and both sides.
pub(crate) fn connection() -> impl Strategy<Value = (Receiver, ProtocolVersion)> {
    (
        prop_oneof![Just(Receiver::Server), Just(Receiver::Client)],
        prop_oneof![Just(ProtocolVersion::V311), Just(ProtocolVersion::V5)],
    )
}

fn text() -> impl Strategy<Value = Text> {
    let plain = "[ -~]{0,24}";
    let any_but_null = vec(
        any::<char>().prop_filter("no U+0000", |char| *char != '\0'),
        0..12,
    );
    prop_oneof![
        3 => plain.prop_map(|text| Text::new(text).unwrap()),
        1 => any_but_null.prop_map(|chars| Text::new(chars.into_iter().collect::<String>()).unwrap()),
    ]
}

fn topic() -> impl Strategy<Value = Text> {
    "[a-z$/é ]{1,24}".prop_map(|text| Text::new(text).unwrap())
}

fn binary() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn qos() -> impl Strategy<Value = QoS> {
    (0u8..3).prop_map(|qos| QoS::from_u8(qos).unwrap())
}

/// The smallest and the largest have meanings of their own.
fn u32_with_edges() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(0), 1 => Just(u32::MAX), 4 => any::<u32>()]
}

fn u16_with_edges() -> impl Strategy<Value = u16> {
    prop_oneof![1 => Just(0), 1 => Just(u16::MAX), 4 => any::<u16>()]
}

fn packet_id() -> impl Strategy<Value = PacketId> {
    (1..=u16::MAX).prop_map(|id| PacketId::new(id).unwrap())
}

fn reason(codes: &'static [u8]) -> impl Strategy<Value = ReasonCode> {
    proptest::sample::select(codes).prop_map(|code| ReasonCode::try_from(code).unwrap())
}

fn user_properties() -> impl Strategy<Value = UserProperties> {
    vec((text(), text()), 0..4).prop_map(|pairs| {
        UserProperties::from_pairs(pairs.iter().map(|(name, value)| (&**name, &**value))).unwrap()
    })
}

fn explanation() -> impl Strategy<Value = Explanation> {
    (option::of(text()), user_properties()).prop_map(|(reason_string, user_properties)| Explanation {
        reason_string,
        user_properties,
    })
}

fn message_properties() -> impl Strategy<Value = MessageProperties> {
    let fields = (
        option::of(any::<bool>()),
        option::of(u32_with_edges()),
        option::of(text()),
        option::of(topic()),
        option::of(binary()),
        user_properties(),
    );
    fields.prop_map(|fields| {
        let (
            payload_is_utf8,
            message_expiry,
            content_type,
            response_topic,
            correlation_data,
            user_properties,
        ) = fields;
        MessageProperties {
            payload_is_utf8,
            message_expiry,
            content_type,
            response_topic,
            correlation_data,
            user_properties,
        }
    })
}

fn publish(receiver: Receiver, version: ProtocolVersion) -> impl Strategy<Value = Publish> {
    let flags = (any::<bool>(), qos(), any::<bool>(), packet_id());
    let ids = vec((1u32..=268_435_455).prop_map(|id| id.try_into().unwrap()), 0..3);
    let alias = option::of((1..=u16::MAX).prop_map(|alias| alias.try_into().unwrap()));
    let payload = prop_oneof![9 => binary(), 1 => vec(any::<u8>(), 100..20_000).prop_map(Bytes::from)];
    let topic = prop_oneof![9 => topic(), 1 => Just(Text::default())];
    (flags, topic, alias, ids, message_properties(), payload).prop_map(
        move |((dup, qos, retain, packet_id), topic, topic_alias, ids, properties, payload)| {
            let is_v5 = version == ProtocolVersion::V5;
            let needs_name = topic.is_empty() && (topic_alias.is_none() || !is_v5);
            Publish {
                dup: dup && qos != QoS::AtMostOnce,
                qos,
                retain,
                topic: if needs_name { Text::from_static("t") } else { topic },
                packet_id: (qos != QoS::AtMostOnce).then_some(packet_id),
                topic_alias: topic_alias.filter(|_| is_v5),
                subscription_ids: if is_v5 && receiver == Receiver::Client {
                    ids.into()
                } else {
                    Default::default()
                },
                properties: if is_v5 {
                    properties
                } else {
                    MessageProperties::default()
                },
                payload,
            }
        },
    )
}

fn ack(version: ProtocolVersion, codes: &'static [u8]) -> impl Strategy<Value = Ack> {
    (packet_id(), reason(codes), explanation()).prop_map(
        move |(packet_id, reason, explanation)| match version {
            ProtocolVersion::V311 => Ack::new(packet_id, ReasonCode::Success),
            ProtocolVersion::V5 if explanation == Explanation::default() => Ack::new(packet_id, reason),
            ProtocolVersion::V5 => Ack {
                packet_id,
                reason,
                explanation: Some(Box::new(explanation)),
            },
        },
    )
}

fn will(version: ProtocolVersion) -> impl Strategy<Value = Will> {
    (
        topic(),
        binary(),
        qos(),
        any::<bool>(),
        option::of(u32_with_edges()),
        message_properties(),
    )
        .prop_map(move |(topic, payload, qos, retain, delay, properties)| {
            let is_v5 = version == ProtocolVersion::V5;
            Will {
                topic: TopicName::parse(topic).unwrap(),
                payload,
                qos,
                retain,
                delay: delay.filter(|_| is_v5),
                properties: if is_v5 {
                    properties
                } else {
                    MessageProperties::default()
                },
            }
        })
}

fn connect_properties() -> impl Strategy<Value = ConnectProperties> {
    let numbers = (
        option::of(u32_with_edges()),
        option::of(1..=u16::MAX),
        option::of(1..=u32::MAX),
        option::of(u16_with_edges()),
        option::of(any::<bool>()),
        option::of(any::<bool>()),
    );
    (
        numbers,
        user_properties(),
        option::of((text(), option::of(binary()))),
    )
        .prop_map(|(numbers, user_properties, authentication)| ConnectProperties {
            session_expiry: numbers.0,
            receive_maximum: numbers.1,
            packet_size_max: numbers.2,
            topic_alias_maximum: numbers.3,
            request_response_information: numbers.4,
            request_problem_information: numbers.5,
            user_properties,
            authentication_method: authentication.as_ref().map(|(method, _)| method.clone()),
            authentication_data: authentication.and_then(|(_, data)| data),
        })
}

fn connect(version: ProtocolVersion) -> impl Strategy<Value = Connect> {
    let flags = (text(), any::<bool>(), any::<u16>());
    let credentials = (option::of(text()), option::of(binary()));
    (
        flags,
        option::of(will(version)),
        credentials,
        connect_properties(),
    )
        .prop_map(
            move |((client_id, clean_start, keep_alive), will, (username, password), properties)| {
                let is_v5 = version == ProtocolVersion::V5;
                Connect {
                    version,
                    is_bridge: !is_v5 && keep_alive % 2 == 1,
                    clean_start: clean_start || (!is_v5 && client_id.is_empty()),
                    client_id,
                    keep_alive,
                    will,
                    password: password.filter(|_| is_v5 || username.is_some()),
                    username,
                    properties: if is_v5 {
                        properties
                    } else {
                        ConnectProperties::default()
                    },
                }
            },
        )
}

fn connack_properties() -> impl Strategy<Value = ConnAckProperties> {
    let numbers = (
        option::of(u32_with_edges()),
        option::of(1..=u16::MAX),
        option::of(1..=u32::MAX),
        option::of(u16_with_edges()),
        option::of(u16_with_edges()),
    );
    let switches = (
        option::of(prop_oneof![Just(QoS::AtMostOnce), Just(QoS::AtLeastOnce)]),
        option::of(any::<bool>()),
        option::of(any::<bool>()),
        option::of(any::<bool>()),
        option::of(any::<bool>()),
    );
    let texts = (
        option::of(text()),
        option::of(text()),
        option::of(text()),
        option::of(text()),
        option::of(binary()),
    );
    (numbers, switches, texts, explanation()).prop_map(|(numbers, switches, texts, explanation)| {
        ConnAckProperties {
            session_expiry: numbers.0,
            receive_maximum: numbers.1,
            packet_size_max: numbers.2,
            topic_alias_maximum: numbers.3,
            server_keep_alive: numbers.4,
            qos_max: switches.0,
            retain_available: switches.1,
            wildcard_subscription_available: switches.2,
            subscription_identifiers_available: switches.3,
            shared_subscription_available: switches.4,
            assigned_client_id: texts.0,
            response_information: texts.1,
            server_reference: texts.2,
            authentication_method: texts.3,
            authentication_data: texts.4,
            explanation,
        }
    })
}

fn connack(version: ProtocolVersion) -> impl Strategy<Value = ConnAck> {
    let codes = if version == ProtocolVersion::V5 {
        CONNACK_CODES
    } else {
        CONNACK_V311_CODES
    };
    (any::<bool>(), reason(codes), connack_properties()).prop_map(
        move |(session_present, reason, properties)| ConnAck {
            session_present: session_present && !reason.is_error(),
            reason,
            properties: if version == ProtocolVersion::V5 {
                properties
            } else {
                ConnAckProperties::default()
            },
        },
    )
}

fn subscribe(version: ProtocolVersion) -> impl Strategy<Value = Subscribe> {
    let handling = prop_oneof![
        Just(RetainHandling::Send),
        Just(RetainHandling::SendIfNew),
        Just(RetainHandling::DoNotSend)
    ];
    let options = (qos(), any::<bool>(), any::<bool>(), handling);
    let filter = (text(), options).prop_map(
        move |(filter, (qos, no_local, retain_as_published, retain_handling))| {
            let options = match version {
                ProtocolVersion::V311 => SubscriptionOptions {
                    qos,
                    ..SubscriptionOptions::default()
                },
                ProtocolVersion::V5 => {
                    let no_local = no_local && !filter.starts_with("$share/");
                    SubscriptionOptions {
                        qos,
                        no_local,
                        retain_as_published,
                        retain_handling,
                    }
                }
            };
            SubscribeFilter { filter, options }
        },
    );
    let id = option::of((1u32..=268_435_455).prop_map(|id| id.try_into().unwrap()));
    (packet_id(), id, user_properties(), vec(filter, 1..5)).prop_map(
        move |(packet_id, subscription_id, user_properties, filters)| {
            let is_v5 = version == ProtocolVersion::V5;
            Subscribe {
                packet_id,
                subscription_id: subscription_id.filter(|_| is_v5),
                user_properties: if is_v5 {
                    user_properties
                } else {
                    UserProperties::EMPTY
                },
                filters,
            }
        },
    )
}

fn suback(version: ProtocolVersion) -> impl Strategy<Value = SubAck> {
    let codes = if version == ProtocolVersion::V5 {
        SUBACK_CODES
    } else {
        SUBACK_V311_CODES
    };
    (packet_id(), explanation(), vec(reason(codes), 1..5)).prop_map(
        move |(packet_id, explanation, reasons)| {
            let is_v5 = version == ProtocolVersion::V5;
            SubAck {
                packet_id,
                explanation: if is_v5 {
                    explanation
                } else {
                    Explanation::default()
                },
                reasons,
            }
        },
    )
}

fn unsubscribe(version: ProtocolVersion) -> impl Strategy<Value = Unsubscribe> {
    (packet_id(), user_properties(), vec(text(), 1..5)).prop_map(
        move |(packet_id, user_properties, filters)| {
            let is_v5 = version == ProtocolVersion::V5;
            Unsubscribe {
                packet_id,
                user_properties: if is_v5 {
                    user_properties
                } else {
                    UserProperties::EMPTY
                },
                filters,
            }
        },
    )
}

fn unsuback(version: ProtocolVersion) -> impl Strategy<Value = UnsubAck> {
    (packet_id(), explanation(), vec(reason(UNSUBACK_CODES), 1..5)).prop_map(
        move |(packet_id, explanation, reasons)| match version {
            ProtocolVersion::V5 => UnsubAck {
                packet_id,
                explanation,
                reasons,
            },
            ProtocolVersion::V311 => UnsubAck {
                packet_id,
                explanation: Explanation::default(),
                reasons: Vec::new(),
            },
        },
    )
}

fn disconnect(receiver: Receiver, version: ProtocolVersion) -> impl Strategy<Value = Disconnect> {
    let codes = match receiver {
        Receiver::Server => DISCONNECT_CLIENT_CODES,
        Receiver::Client => DISCONNECT_SERVER_CODES,
    };
    (
        reason(codes),
        option::of(u32_with_edges()),
        option::of(text()),
        explanation(),
    )
        .prop_map(
            move |(reason, session_expiry, server_reference, explanation)| match version {
                ProtocolVersion::V311 => Disconnect::new(ReasonCode::Success),
                ProtocolVersion::V5 => Disconnect {
                    reason,
                    session_expiry: session_expiry.filter(|_| receiver == Receiver::Server),
                    server_reference: server_reference.filter(|_| receiver == Receiver::Client),
                    explanation,
                },
            },
        )
}

fn auth(receiver: Receiver) -> impl Strategy<Value = Packet> {
    let codes = match receiver {
        Receiver::Server => AUTH_CLIENT_CODES,
        Receiver::Client => AUTH_SERVER_CODES,
    };
    (reason(codes), text(), option::of(binary()), explanation())
        .prop_map(|(reason, method, data, explanation)| Auth {
            reason,
            method: Some(method),
            data,
            explanation,
        })
        .prop_map(Packet::Auth)
}

const PUBACK_CODES: &[u8] = &[0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99];
const PUBREL_CODES: &[u8] = &[0x00, 0x92];
const CONNACK_CODES: &[u8] = &[
    0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90, 0x95, 0x97, 0x99,
    0x9A, 0x9B, 0x9C, 0x9D, 0x9F,
];
const CONNACK_V311_CODES: &[u8] = &[0x00, 0x84, 0x85, 0x86, 0x87, 0x88];
const SUBACK_CODES: &[u8] = &[
    0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2,
];
const SUBACK_V311_CODES: &[u8] = &[0x00, 0x01, 0x02, 0x80];
const UNSUBACK_CODES: &[u8] = &[0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91];
const DISCONNECT_CLIENT_CODES: &[u8] = &[
    0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99,
];
const DISCONNECT_SERVER_CODES: &[u8] = &[
    0x00, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97,
    0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2,
];
const AUTH_CLIENT_CODES: &[u8] = &[0x18, 0x19];
const AUTH_SERVER_CODES: &[u8] = &[0x00, 0x18];
