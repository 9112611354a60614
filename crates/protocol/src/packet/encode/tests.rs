//! What packets look like on the wire, and what is left out when the receiver takes little.

use super::*;
use crate::packet::{
    Ack, Auth, ConnAck, ConnAckProperties, Disconnect, PacketId, QoS, SubAck, Subscribe, SubscribeFilter,
    SubscriptionOptions, UnsubAck,
};
use crate::properties::{MessageProperties, UserProperties};
use crate::reason_code::ReasonCode;
use crate::text::Text;

use ProtocolVersion::{V5, V311};

/// Encodes with room for everything.
fn bytes(packet: &Packet, version: ProtocolVersion) -> Vec<u8> {
    within(packet, version, u32::MAX).unwrap()
}

fn within(packet: &Packet, version: ProtocolVersion, size_max: u32) -> Result<Vec<u8>, EncodeError> {
    let mut out = BytesMut::from(&b"before"[..]);
    let result = encode(packet, version, size_max, &mut out);
    let written = out.split_off(6);
    assert_eq!(&out[..], b"before");
    assert!(
        result.is_ok() || written.is_empty(),
        "an error leaves the buffer as it was"
    );
    result.map(|()| written.to_vec())
}

fn explanation() -> Explanation {
    Explanation {
        reason_string: Some(Text::from_static("no")),
        user_properties: UserProperties::from_pairs([("k", "v")]).unwrap(),
    }
}

fn packet_id(id: u16) -> PacketId {
    PacketId::new(id).unwrap()
}

fn publish() -> Publish {
    Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: true,
        topic: Text::from_static("a/b"),
        packet_id: Some(packet_id(10)),
        topic_alias: None,
        subscription_ids: Default::default(),
        properties: MessageProperties::default(),
        payload: bytes::Bytes::from_static(b"hi"),
    }
}

#[test]
fn acknowledgements_leave_out_what_is_0() {
    let ack = |reason| Packet::PubAck(Ack::new(packet_id(0x0102), reason));

    assert_eq!(bytes(&ack(ReasonCode::Success), V5), b"\x40\x02\x01\x02");
    assert_eq!(
        bytes(&ack(ReasonCode::QuotaExceeded), V5),
        b"\x40\x03\x01\x02\x97"
    );
    assert_eq!(bytes(&ack(ReasonCode::QuotaExceeded), V311), b"\x40\x02\x01\x02");
    assert_eq!(
        bytes(&Packet::PubRel(Ack::new(packet_id(1), ReasonCode::Success)), V5),
        b"\x62\x02\0\x01"
    );
}

#[test]
fn mqtt_3_4_2_2_explanations_give_way_to_the_maximum_packet_size() {
    let explained = Ack {
        packet_id: packet_id(1),
        reason: ReasonCode::NotAuthorized,
        explanation: Some(Box::new(explanation())),
    };
    let packet = Packet::PubAck(explained);
    let whole = b"\x40\x10\0\x01\x87\x0c\x1f\0\x02no\x26\0\x01k\0\x01v";

    assert_eq!(within(&packet, V5, 18).unwrap(), whole);
    assert_eq!(
        within(&packet, V5, 17).unwrap(),
        b"\x40\x09\0\x01\x87\x05\x1f\0\x02no"
    );
    assert_eq!(within(&packet, V5, 10).unwrap(), b"\x40\x03\0\x01\x87");
    assert_eq!(
        within(&packet, V5, 4),
        Err(EncodeError::TooLarge { size: 5, limit: 4 })
    );
}

/// Every packet of a server that explains itself gives up its user properties first, then its Reason String.
///
/// [MQTT-3.2.2-19] [MQTT-3.2.2-20] [MQTT-3.4.2-3] [MQTT-3.5.2-2] [MQTT-3.5.2-3] [MQTT-3.6.2-2] [MQTT-3.6.2-3]
/// [MQTT-3.7.2-2] [MQTT-3.7.2-3] [MQTT-3.9.2-1] [MQTT-3.9.2-2] [MQTT-3.11.2-1] [MQTT-3.11.2-2] [MQTT-3.14.2-4]
/// [MQTT-3.15.2-2] [MQTT-3.15.2-3]
#[test]
fn every_explanation_gives_way_to_the_maximum_packet_size() {
    for packet in explained_packets() {
        let all = bytes(&packet, V5);
        let has = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        assert!(has(&all, REASON_STRING) && has(&all, USER_PROPERTY), "{packet:?}");
        let shorter = within(&packet, V5, all.len() as u32 - 1).unwrap();
        assert!(
            has(&shorter, REASON_STRING) && !has(&shorter, USER_PROPERTY),
            "{packet:?}"
        );
        let shortest = within(&packet, V5, shorter.len() as u32 - 1).unwrap();
        assert!(
            !has(&shortest, REASON_STRING) && !has(&shortest, USER_PROPERTY),
            "{packet:?}"
        );
        let size = shortest.len();
        let limit = size as u32 - 1;
        assert_eq!(
            within(&packet, V5, limit),
            Err(EncodeError::TooLarge { size, limit }),
            "{packet:?}"
        );
    }
}

const REASON_STRING: &[u8] = b"\x1f\0\x02no";
const USER_PROPERTY: &[u8] = b"\x26\0\x01k\0\x01v";

fn explained_packets() -> Vec<Packet> {
    let ack = Ack {
        packet_id: packet_id(1),
        reason: ReasonCode::PacketIdentifierNotFound,
        explanation: Some(Box::new(explanation())),
    };
    let (explanation, packet_id) = (explanation(), packet_id(1));
    vec![
        Packet::ConnAck(Box::new(ConnAck {
            session_present: false,
            reason: ReasonCode::ServerBusy,
            properties: ConnAckProperties {
                explanation: explanation.clone(),
                ..ConnAckProperties::default()
            },
        })),
        Packet::PubAck(ack.clone()),
        Packet::PubRec(ack.clone()),
        Packet::PubRel(ack.clone()),
        Packet::PubComp(ack),
        Packet::SubAck(SubAck {
            packet_id,
            explanation: explanation.clone(),
            reasons: vec![ReasonCode::Success],
        }),
        Packet::UnsubAck(UnsubAck {
            packet_id,
            explanation: explanation.clone(),
            reasons: vec![ReasonCode::Success],
        }),
        Packet::Disconnect(Disconnect {
            explanation: explanation.clone(),
            ..Disconnect::new(ReasonCode::ServerBusy)
        }),
        Packet::Auth(Auth {
            reason: ReasonCode::ContinueAuthentication,
            method: Some(Text::from_static("m")),
            data: None,
            explanation,
        }),
    ]
}

#[test]
fn mqtt_3_14_2_3_a_disconnect_is_shortened_too() {
    let disconnect = Disconnect {
        explanation: explanation(),
        ..Disconnect::new(ReasonCode::ServerBusy)
    };
    let packet = Packet::Disconnect(disconnect);

    assert_eq!(
        bytes(&packet, V5),
        b"\xe0\x0e\x89\x0c\x1f\0\x02no\x26\0\x01k\0\x01v"
    );
    assert_eq!(within(&packet, V5, 3).unwrap(), b"\xe0\x01\x89");
    assert_eq!(bytes(&packet, V311), b"\xe0\0");
    assert_eq!(
        bytes(&Packet::Disconnect(Disconnect::new(ReasonCode::Success)), V5),
        b"\xe0\0"
    );
}

#[test]
fn a_publish_is_never_shortened() {
    let mut publish = publish();
    publish.properties.user_properties = UserProperties::from_pairs([("k", "v")]).unwrap();
    let packet = Packet::Publish(Box::new(publish));
    let whole = b"\x33\x11\0\x03a/b\0\x0a\x07\x26\0\x01k\0\x01vhi";

    assert_eq!(within(&packet, V5, 19).unwrap(), whole);
    assert_eq!(encoded_len(&packet, V5), 19);
    assert_eq!(
        within(&packet, V5, 18),
        Err(EncodeError::TooLarge { size: 19, limit: 18 })
    );
    assert_eq!(bytes(&packet, V311), b"\x33\x09\0\x03a/b\0\x0ahi");
}

#[test]
fn mqtt_2_2_1_2_a_publish_of_qos_0_has_no_packet_identifier() {
    let publish = Publish {
        qos: QoS::AtMostOnce,
        dup: true,
        retain: false,
        ..publish()
    };

    // [MQTT-3.3.1-2]: nor DUP.
    assert_eq!(
        bytes(&Packet::Publish(Box::new(publish)), V5),
        b"\x30\x08\0\x03a/b\0hi"
    );
}

#[test]
fn the_head_of_a_publish_announces_the_payload() {
    let mut out = BytesMut::new();
    encode_publish_head(&publish(), V5, u32::MAX, &mut out).unwrap();

    assert_eq!(&out[..], b"\x33\x0a\0\x03a/b\0\x0a\0");
    let refused = encode_publish_head(&publish(), V5, 11, &mut out);
    assert_eq!(refused, Err(EncodeError::TooLarge { size: 12, limit: 11 }));
    assert_eq!(out.len(), 10);
}

#[test]
fn a_connack_of_3_1_1_has_a_return_code() {
    let refused = ConnAck {
        session_present: true,
        reason: ReasonCode::NotAuthorized,
        properties: ConnAckProperties {
            explanation: explanation(),
            ..ConnAckProperties::default()
        },
    };
    let packet = Packet::ConnAck(Box::new(refused));

    // [MQTT-3.2.2-6] and [MQTT-3.2.2-4] of version 3.1.1: no session is present where there is no connection.
    assert_eq!(bytes(&packet, V311), b"\x20\x02\0\x05");
    assert_eq!(
        within(&packet, V5, 12).unwrap(),
        b"\x20\x08\0\x87\x05\x1f\0\x02no"
    );
    assert_eq!(within(&packet, V5, 5).unwrap(), b"\x20\x03\0\x87\0");
}

#[test]
fn mqtt311_3_1_2_2_an_unsupported_version_is_return_code_1() {
    // [MQTT-3.1.3-8] [MQTT-3.1.3-9] of version 3.1.1: and a client id that is not accepted 2.
    for (reason, code) in [
        (ReasonCode::UnsupportedProtocolVersion, 1),
        (ReasonCode::ClientIdentifierNotValid, 2),
    ] {
        let connack = ConnAck {
            session_present: false,
            reason,
            properties: ConnAckProperties::default(),
        };
        assert_eq!(
            bytes(&Packet::ConnAck(Box::new(connack)), V311),
            [0x20, 2, 0, code]
        );
    }
}

#[test]
fn a_connack_leaves_out_a_maximum_of_qos_2() {
    let connack = |qos_max| {
        let properties = ConnAckProperties {
            qos_max: Some(qos_max),
            ..ConnAckProperties::default()
        };
        bytes(
            &Packet::ConnAck(Box::new(ConnAck {
                session_present: true,
                reason: ReasonCode::Success,
                properties,
            })),
            V5,
        )
    };

    // [MQTT-2.2.2-1]: no properties, but their length; [MQTT-3.2.2-1]: of the flags only the last is set.
    assert_eq!(connack(QoS::ExactlyOnce), b"\x20\x03\x01\0\0");
    assert_eq!(connack(QoS::AtLeastOnce), b"\x20\x05\x01\0\x02\x24\x01");
}

#[test]
fn answers_to_3_1_1_have_the_codes_it_knows() {
    let suback = SubAck {
        packet_id: packet_id(1),
        explanation: explanation(),
        reasons: vec![
            ReasonCode::Success,
            ReasonCode::GrantedQos2,
            ReasonCode::NotAuthorized,
        ],
    };
    let unsuback = UnsubAck {
        packet_id: packet_id(1),
        explanation: Explanation::default(),
        reasons: vec![ReasonCode::NoSubscriptionExisted],
    };

    // [MQTT-3.9.3-2] of version 3.1.1
    assert_eq!(bytes(&Packet::SubAck(suback), V311), b"\x90\x05\0\x01\0\x02\x80");
    assert_eq!(
        bytes(&Packet::UnsubAck(unsuback.clone()), V311),
        b"\xb0\x02\0\x01"
    );
    assert_eq!(bytes(&Packet::UnsubAck(unsuback), V5), b"\xb0\x04\0\x01\0\x11");
}

#[test]
fn a_subscribe_to_3_1_1_has_no_options_but_the_qos() {
    let options = SubscriptionOptions {
        qos: QoS::AtLeastOnce,
        no_local: true,
        ..SubscriptionOptions::default()
    };
    let subscribe = Packet::Subscribe(Subscribe {
        packet_id: packet_id(1),
        subscription_id: Some(200.try_into().unwrap()),
        user_properties: UserProperties::EMPTY,
        filters: vec![SubscribeFilter {
            filter: Text::from_static("#"),
            options,
        }],
    });

    assert_eq!(bytes(&subscribe, V311), b"\x82\x06\0\x01\0\x01#\x01");
    assert_eq!(
        bytes(&subscribe, V5),
        b"\x82\x0a\0\x01\x03\x0b\xc8\x01\0\x01#\x05"
    );
}

#[test]
fn what_3_1_1_does_not_know_is_refused() {
    let auth = Auth {
        reason: ReasonCode::Success,
        method: None,
        data: None,
        explanation: Explanation::default(),
    };
    let unnamed = Publish {
        topic: Text::default(),
        ..publish()
    };

    assert_eq!(
        within(&Packet::Auth(auth.clone()), V311, 100),
        Err(EncodeError::NotInVersion)
    );
    assert_eq!(bytes(&Packet::Auth(auth), V5), b"\xf0\0");
    assert_eq!(
        within(&Packet::Publish(Box::new(unnamed)), V311, 100),
        Err(EncodeError::NotInVersion)
    );
}

#[test]
fn binary_data_that_cannot_be_expressed_is_refused() {
    let mut publish = publish();
    publish.properties.correlation_data = Some(vec![0; 65_536].into());

    let refused = within(&Packet::Publish(Box::new(publish)), V5, u32::MAX);
    assert_eq!(
        refused,
        Err(EncodeError::BinaryTooLong {
            field: "correlation data"
        })
    );
}

#[test]
fn remaining_lengths_change_their_size_where_the_specification_says() {
    for (remaining, length) in [
        (127, 1),
        (128, 2),
        (16_383, 2),
        (16_384, 3),
        (2_097_151, 3),
        (2_097_152, 4),
    ] {
        let mut out = BytesMut::new();
        out.variable_byte_integer(remaining);
        assert_eq!(
            (out.len(), sink::variable_byte_integer_length(remaining)),
            (length, length),
            "{remaining}"
        );
    }
}
