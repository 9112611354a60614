//! Packets with the bytes that the specification gives them. What it forbids is in `tests/testdata/malformed.txt`.

use bytes::{BufMut, BytesMut};

mod connect;
mod publish;

use super::*;
use crate::packet::{Ack, Connect, PacketId, PropertyId, RetainHandling, SubscriptionOptions};
use crate::reason_code::ReasonCode;
use crate::text::TextError;

const LIMIT: u32 = 1 << 20;

/// Decodes the one packet that a client sends, in a connection of version 5 unless it is a CONNECT.
fn from_client(bytes: &[u8]) -> Result<Packet, DecodeError> {
    let mut decoder = Decoder::for_server(LIMIT);
    if bytes
        .first()
        .is_some_and(|byte| byte >> 4 != PacketType::Connect as u8)
    {
        decoder.set_version(ProtocolVersion::V5);
    }
    one(&mut decoder, bytes)
}

/// Decodes the one packet that a server sends.
fn from_server(version: ProtocolVersion, bytes: &[u8]) -> Result<Packet, DecodeError> {
    let mut decoder = Decoder::for_client(LIMIT);
    decoder.set_version(version);
    one(&mut decoder, bytes)
}

fn one(decoder: &mut Decoder, bytes: &[u8]) -> Result<Packet, DecodeError> {
    let mut buffer = BytesMut::from(bytes);
    let packet = decoder.decode(&mut buffer)?.expect("the packet is complete");
    assert!(buffer.is_empty(), "the packet has another length");
    Ok(packet)
}

fn connect(bytes: &[u8]) -> Connect {
    match from_client(bytes) {
        Ok(Packet::Connect(connect)) => *connect,
        other => panic!("{other:?}"),
    }
}

fn violation(result: Result<Packet, DecodeError>) -> Violation {
    result.expect_err("the packet is forbidden").violation()
}

fn packet_id(id: u16) -> PacketId {
    PacketId::new(id).unwrap()
}

#[test]
fn mqtt_1_5_4_3_a_byte_order_mark_stays() {
    let connect = connect(b"\x10\x10\0\x04MQTT\x05\x02\0\0\0\0\x03\xef\xbb\xbf");

    assert_eq!(connect.client_id.as_str(), "\u{FEFF}");
}

#[test]
fn mqtt_1_5_4_1_surrogates_are_no_utf_8() {
    let error = from_client(b"\x10\x10\0\x04MQTT\x05\x02\0\0\0\0\x03\xed\xa0\x80");

    let field = "client identifier";
    assert_eq!(
        violation(error),
        Violation::Text {
            field,
            error: TextError::NotUtf8
        }
    );
}

#[test]
fn mqtt_1_5_4_2_u_0000_is_refused() {
    let error = from_client(b"\x30\x04\0\x01\0\0");

    assert_eq!(
        violation(error),
        Violation::Text {
            field: "topic name",
            error: TextError::Null
        }
    );
}

#[test]
fn mqtt_1_5_5_1_lengths_use_no_byte_too_many() {
    let mut decoder = Decoder::for_server(LIMIT);
    decoder.set_version(ProtocolVersion::V5);
    let field = "remaining length";
    let error = decoder
        .decode(&mut BytesMut::from(&b"\xc0\x80\0"[..]))
        .map(|packet| packet.unwrap());
    assert_eq!(
        violation(error),
        Violation::VariableByteIntegerNotMinimal { field }
    );

    // 3.1.1 does not say so.
    let mut decoder = Decoder::for_server(LIMIT);
    decoder.set_version(ProtocolVersion::V311);
    assert_eq!(
        decoder.decode(&mut BytesMut::from(&b"\xc0\x80\0"[..])),
        Ok(Some(Packet::PingReq))
    );
    let connect = connect(b"\x10\x8c\0\0\x04MQTT\x04\x02\0\0\0\0");
    assert_eq!(connect.version, ProtocolVersion::V311);
}

#[test]
fn remaining_lengths_are_read_as_the_specification_lists_them() {
    let check = |bytes: &[u8], value, length| {
        let integer = VariableByteInteger::read(bytes).unwrap().unwrap();
        assert_eq!(
            (integer.value, integer.length, integer.is_minimal()),
            (value, length, true)
        );
    };
    check(&[0x00], 0, 1);
    check(&[0x7F], 127, 1);
    check(&[0x80, 0x01], 128, 2);
    check(&[0xFF, 0x7F], 16_383, 2);
    check(&[0x80, 0x80, 0x01], 16_384, 3);
    check(&[0xFF, 0xFF, 0x7F], 2_097_151, 3);
    check(&[0x80, 0x80, 0x80, 0x01], 2_097_152, 4);
    check(&[0xFF, 0xFF, 0xFF, 0x7F, 0xFF], 268_435_455, 4);
    assert!(VariableByteInteger::read(&[0xFF, 0xFF, 0xFF]).unwrap().is_none());
    assert!(VariableByteInteger::read(&[0xFF, 0xFF, 0xFF, 0xFF]).is_err());
}

#[test]
fn mqtt_3_4_2_1_an_acknowledgement_may_leave_out_what_is_0() {
    let check = |bytes: &[u8], reason| {
        assert_eq!(
            from_client(bytes),
            Ok(Packet::PubAck(Ack::new(packet_id(0x0102), reason)))
        );
    };
    check(b"\x40\x02\x01\x02", ReasonCode::Success);
    check(b"\x40\x03\x01\x02\x10", ReasonCode::NoMatchingSubscribers);
    check(b"\x40\x04\x01\x02\x87\0", ReasonCode::NotAuthorized);

    let Ok(Packet::PubRec(ack)) = from_client(b"\x50\x09\0\x01\x97\x05\x1f\0\x02no") else {
        panic!()
    };
    assert_eq!(ack.explanation.unwrap().reason_string.as_deref(), Some("no"));
}

#[test]
fn the_four_acknowledgements_are_told_apart() {
    let ack = Ack::new(packet_id(7), ReasonCode::Success);

    assert_eq!(from_client(b"\x40\x02\0\x07"), Ok(Packet::PubAck(ack.clone())));
    assert_eq!(from_client(b"\x50\x02\0\x07"), Ok(Packet::PubRec(ack.clone())));
    assert_eq!(from_client(b"\x62\x02\0\x07"), Ok(Packet::PubRel(ack.clone())));
    assert_eq!(from_client(b"\x70\x02\0\x07"), Ok(Packet::PubComp(ack)));
}

#[test]
fn mqtt_3_8_3_4_no_local_is_for_subscriptions_of_ones_own() {
    let Ok(Packet::Subscribe(subscribe)) = from_client(b"\x82\x0d\0\x0a\0\0\x03a/b\x2e\0\x01#\0") else {
        panic!()
    };

    assert_eq!(subscribe.packet_id, packet_id(10));
    assert_eq!(subscribe.filters[0].filter.as_str(), "a/b");
    let options = SubscriptionOptions {
        qos: QoS::ExactlyOnce,
        no_local: true,
        retain_as_published: true,
        retain_handling: RetainHandling::DoNotSend,
    };
    assert_eq!(subscribe.filters[0].options, options);
    assert_eq!(subscribe.filters[1].options, SubscriptionOptions::default());
    let shared = from_client(b"\x82\x0f\0\x01\0\0\x09$share/g/\x04");
    assert_eq!(violation(shared), Violation::NoLocalShared);
}

#[test]
fn a_filter_that_is_none_fails_alone() {
    let Ok(Packet::Subscribe(subscribe)) = from_client(b"\x82\x09\0\x01\0\0\x03a#b\0") else {
        panic!()
    };
    assert_eq!(subscribe.filters[0].filter.as_str(), "a#b");
}

#[test]
fn answers_of_a_server() {
    let Ok(Packet::SubAck(suback)) = from_server(ProtocolVersion::V5, b"\x90\x05\0\x01\0\x02\x8f") else {
        panic!()
    };
    assert_eq!(
        suback.reasons,
        [ReasonCode::GrantedQos2, ReasonCode::TopicFilterInvalid]
    );

    let Ok(Packet::SubAck(suback)) = from_server(ProtocolVersion::V311, b"\x90\x04\0\x01\x01\x80") else {
        panic!()
    };
    assert_eq!(
        suback.reasons,
        [ReasonCode::GrantedQos1, ReasonCode::UnspecifiedError]
    );

    let Ok(Packet::UnsubAck(unsuback)) = from_server(ProtocolVersion::V5, b"\xb0\x04\0\x01\0\x11") else {
        panic!()
    };
    assert_eq!(unsuback.reasons, [ReasonCode::NoSubscriptionExisted]);

    let Ok(Packet::UnsubAck(unsuback)) = from_server(ProtocolVersion::V311, b"\xb0\x02\0\x01") else {
        panic!()
    };
    assert_eq!(unsuback.reasons, []);
    assert_eq!(from_server(ProtocolVersion::V5, b"\xd0\0"), Ok(Packet::PingResp));
}

#[test]
fn a_server_of_3_1_1_refuses_version_5_in_its_own_way() {
    let Ok(Packet::ConnAck(connack)) = from_server(ProtocolVersion::V5, b"\x20\x02\0\x01") else {
        panic!()
    };

    assert_eq!(connack.reason, ReasonCode::UnsupportedProtocolVersion);
}

#[test]
fn mqtt_3_14_2_2_only_a_client_changes_the_session_expiry() {
    let bytes = b"\xe0\x07\0\x05\x11\0\0\0\x3c";

    let Ok(Packet::Disconnect(disconnect)) = from_client(bytes) else {
        panic!()
    };
    assert_eq!(disconnect.session_expiry, Some(60));
    let property = PropertyId::SessionExpiryInterval;
    let error = from_server(ProtocolVersion::V5, bytes);
    assert_eq!(violation(error), Violation::PropertyFromWrongSide { property });
}

#[test]
fn a_disconnect_may_leave_out_what_is_0() {
    let normal = Ok(Packet::Disconnect(crate::packet::Disconnect::new(
        ReasonCode::Success,
    )));

    assert_eq!(from_client(b"\xe0\0"), normal);
    assert_eq!(from_client(b"\xe0\x01\0"), normal);
    assert_eq!(from_client(b"\xe0\x02\0\0"), normal);
}

#[test]
fn mqtt_3_15_2_1_each_side_has_reason_codes_of_its_own_in_auth() {
    let bytes = b"\xf0\x0d\x18\x0b\x15\0\x01m\x16\0\x04data";
    for packet in [from_client(bytes), from_server(ProtocolVersion::V5, bytes)] {
        let Ok(Packet::Auth(auth)) = packet else {
            panic!("{packet:?}")
        };
        assert_eq!(auth.method.as_deref(), Some("m"));
        assert_eq!(auth.data.as_deref(), Some(&b"data"[..]));
    }
    let done = from_server(ProtocolVersion::V5, b"\xf0\0");
    let Ok(Packet::Auth(auth)) = done else {
        panic!("{done:?}")
    };
    assert_eq!(auth.reason, ReasonCode::Success);
    assert_eq!(
        violation(from_client(b"\xf0\0")),
        Violation::ReasonCode { code: 0 }
    );
}

#[test]
fn a_packet_is_complete_with_its_last_byte() {
    let mut decoder = Decoder::new(LIMIT);
    decoder.set_version(ProtocolVersion::V5);
    let mut buffer = BytesMut::new();
    for (byte, missing) in [(0x40, 1), (0x02, 2), (0x00, 1)] {
        buffer.put_u8(byte);
        assert_eq!(decoder.decode(&mut buffer), Ok(None));
        assert_eq!(decoder.missing(&buffer), missing);
    }
    assert_eq!(decoder.missing(&[]), 2);
    buffer.extend_from_slice(&[0x07, 0xC0]);

    let ack = Ack::new(packet_id(7), ReasonCode::Success);
    assert_eq!(decoder.missing(&buffer), 0);
    assert_eq!(decoder.decode(&mut buffer), Ok(Some(Packet::PubAck(ack))));
    assert_eq!(&buffer[..], [0xC0]);
}

#[test]
fn a_packet_over_the_limit_is_refused_before_its_body_is_there() {
    let mut decoder = Decoder::new(7);
    decoder.set_version(ProtocolVersion::V311);
    assert_eq!(decoder.decode(&mut BytesMut::from(&b"\x30\x05"[..])), Ok(None));

    let error = decoder.decode(&mut BytesMut::from(&b"\x30\x06"[..])).unwrap_err();

    assert_eq!(error.violation(), Violation::TooLarge { size: 8, limit: 7 });
    assert_eq!(decoder.missing(b"\x30\x06"), 0);
    assert_eq!(
        error.to_string(),
        "PUBLISH: the packet has 8 bytes, 7 are allowed"
    );
}
