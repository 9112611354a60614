//! CONNECT: versions, their errors and how those are answered.

use bytes::BytesMut;

use super::*;
use crate::packet::encode;

#[test]
fn mqtt_3_1_0_1_the_first_packet_is_a_connect() {
    let mut decoder = Decoder::for_server(LIMIT);
    // Seen with the first byte: nothing else of it is waited for.
    let error = decoder.decode(&mut BytesMut::from(&b"\x30"[..])).unwrap_err();

    assert_eq!(error.violation(), Violation::FirstPacketNotConnect);
    assert_eq!(error.connack_version(), None);
}

#[test]
fn mqtt_3_1_0_2_a_second_connect_is_a_protocol_error() {
    let mut decoder = Decoder::for_server(LIMIT);
    let first = b"\x10\x0d\0\x04MQTT\x05\x02\0\x3c\0\0\0";
    let mut buffer = BytesMut::from(&first.repeat(2)[..]);

    assert!(matches!(
        decoder.decode(&mut buffer),
        Ok(Some(Packet::Connect(_)))
    ));
    assert_eq!(decoder.version(), Some(ProtocolVersion::V5));
    let error = decoder.decode(&mut buffer).unwrap_err();
    assert_eq!(error.reason_code(), ReasonCode::ProtocolError);
    assert!(!error.in_connect());
}

#[test]
fn mqtt_3_1_2_2_the_answer_to_an_unsupported_version_is_in_a_version_that_the_client_reads() {
    let check = |bytes: &[u8], name, level, answer| {
        let error = from_client(bytes).unwrap_err();
        assert_eq!(error.violation(), Violation::UnsupportedVersion { name, level });
        assert_eq!(error.reason_code(), ReasonCode::UnsupportedProtocolVersion);
        assert_eq!(error.connack_version(), answer);
    };
    let v311 = Some(ProtocolVersion::V311);
    check(
        b"\x10\x0f\0\x06MQIsdp\x03\x02\0\x3c\0\x01a",
        ProtocolName::MqIsdp,
        3,
        v311,
    );
    check(
        b"\x10\x0c\0\x04MQTT\x03\x02\0\x3c\0\0",
        ProtocolName::Mqtt,
        3,
        v311,
    );
    check(
        b"\x10\x0d\0\x04MQTT\x06\x02\0\x3c\0\0\0",
        ProtocolName::Mqtt,
        6,
        Some(ProtocolVersion::V5),
    );
    check(
        b"\x10\x0d\0\x04AMQP\x05\x02\0\x3c\0\0\0",
        ProtocolName::Other,
        5,
        None,
    );
    // A bridge of version 3.1 tries again without the highest bit when it reads the answer.
    check(
        b"\x10\x0f\0\x06MQIsdp\x83\x02\0\x3c\0\x01a",
        ProtocolName::MqIsdp,
        0x83,
        v311,
    );
    check(
        b"\x10\x0d\0\x04MQTT\x85\x02\0\x3c\0\0\0",
        ProtocolName::Mqtt,
        0x85,
        Some(ProtocolVersion::V5),
    );
}

#[test]
fn a_bridge_of_mosquitto_speaks_version_3_1_1() {
    let bytes = b"\x10\x0d\0\x04MQTT\x84\x02\0\x3c\0\x01a";
    let connect = connect(bytes);
    assert_eq!(
        (connect.version, connect.is_bridge),
        (ProtocolVersion::V311, true)
    );
    let mut again = BytesMut::new();
    encode(
        &Packet::Connect(Box::new(connect)),
        ProtocolVersion::V311,
        u32::MAX,
        &mut again,
    )
    .unwrap();
    assert_eq!(again, &bytes[..]);
}

#[test]
fn errors_in_a_connect_are_answered_in_its_version() {
    let check = |bytes: &[u8], answer| {
        let error = from_client(bytes).unwrap_err();
        assert!(error.in_connect());
        assert_eq!(error.connack_version(), answer, "{error}");
    };
    check(
        b"\x10\x0d\0\x04MQTT\x05\x03\0\x3c\0\0\0",
        Some(ProtocolVersion::V5),
    );
    // [MQTT-3.1.4-1] of version 3.1.1, which has a return code for few errors.
    check(b"\x10\x0c\0\x04MQTT\x04\x03\0\x3c\0\0", None);
    check(b"\x10\x0c\0\x04MQTT\x04\0\0\x3c\0\0", Some(ProtocolVersion::V311));
    check(b"\x10\x02\0\x04", None);
    // The greeting of TLS.
    check(b"\x16\x03\x01\0\0", None);
}

#[test]
fn a_large_connect_is_refused_once_it_has_told_its_version() {
    let mut decoder = Decoder::for_server(100);
    for waiting in [&b"\x10\x79"[..], b"\x10\x79\0\x04MQTT"] {
        assert_eq!(decoder.decode(&mut BytesMut::from(waiting)), Ok(None));
        assert_eq!(decoder.missing(waiting), 1);
    }
    let mut check = |bytes: &[u8], answer| {
        let error = decoder.decode(&mut BytesMut::from(bytes)).unwrap_err();
        let (size, limit) = (123, 100);
        assert_eq!(error.violation(), Violation::TooLarge { size, limit });
        assert_eq!(error.reason_code(), ReasonCode::PacketTooLarge);
        assert_eq!(error.connack_version(), answer);
    };
    check(b"\x10\x79\0\x04MQTT\x05", Some(ProtocolVersion::V5));
    check(b"\x10\x79\0\x04MQTT\x04", None);
    check(b"\x10\x79\0\x04AMQP\x05", None);
}

#[test]
fn mqtt_3_1_3_1_the_payload_of_a_connect_comes_in_its_order() {
    let bytes = b"\x10\x3d\0\x04MQTT\x05\xee\0\x0a\
        \x05\x11\0\0\0\x3c\0\x02id\x0a\x18\0\0\0\x05\x03\0\x02jj\0\x01w\0\x03bye\0\x04user\0\x02pw";
    let mut bytes = bytes.to_vec();
    bytes[1] = u8::try_from(bytes.len() - 2).unwrap();
    let connect = connect(&bytes);

    assert_eq!(connect.client_id.as_str(), "id");
    assert!(connect.clean_start);
    assert_eq!(connect.keep_alive, 10);
    assert_eq!(connect.properties.session_expiry, Some(60));
    assert_eq!(connect.username.as_deref(), Some("user"));
    assert_eq!(connect.password.as_deref(), Some(&b"pw"[..]));
    let will = connect.will.as_ref().unwrap();
    assert_eq!(
        (will.topic.as_str(), &will.payload[..], will.delay),
        ("w", &b"bye"[..], Some(5))
    );
    assert_eq!((will.qos, will.retain), (QoS::AtLeastOnce, true));
    assert_eq!(will.properties.content_type.as_deref(), Some("jj"));
    assert!(
        !format!("{connect:?}").contains("pw"),
        "the password is not shown"
    );
}

#[test]
fn the_connect_of_the_3_1_1_specification() {
    // Figure 3.6 there: user name, password, will QoS 1, clean session, keep alive of 10 s.
    let bytes = b"\x10\x1d\0\x04MQTT\x04\xce\0\x0a\0\x01c\0\x01w\0\x01m\0\x02u1\0\x02p1";
    let mut bytes = bytes.to_vec();
    bytes[1] = u8::try_from(bytes.len() - 2).unwrap();
    let connect = connect(&bytes);

    assert_eq!(connect.version, ProtocolVersion::V311);
    assert_eq!(connect.will.unwrap().qos, QoS::AtLeastOnce);
    assert_eq!(connect.username.as_deref(), Some("u1"));
    assert_eq!(connect.properties, crate::packet::ConnectProperties::default());
}

#[test]
fn version_5_allows_a_password_without_a_user_name() {
    let connect = connect(b"\x10\x10\0\x04MQTT\x05\x42\0\x3c\0\0\0\0\x01p");

    assert_eq!(
        (connect.username, connect.password.as_deref()),
        (None, Some(&b"p"[..]))
    );
}

#[test]
fn mqtt_3_2_2_8_a_connack_says_how_the_connection_goes_on() {
    let bytes = b"\x20\x0b\x01\0\x08\x21\0\x0a\x24\x01\x13\0\x1e";
    let Ok(Packet::ConnAck(connack)) = from_server(ProtocolVersion::V5, bytes) else {
        panic!()
    };

    assert!(connack.session_present);
    assert_eq!(connack.reason, ReasonCode::Success);
    assert_eq!(connack.properties.receive_maximum, Some(10));
    assert_eq!(connack.properties.qos_max, Some(QoS::AtLeastOnce));
    assert_eq!(connack.properties.server_keep_alive, Some(30));
    let refused = from_server(ProtocolVersion::V311, b"\x20\x02\0\x04");
    let Ok(Packet::ConnAck(connack)) = refused else {
        panic!()
    };
    assert_eq!(connack.reason, ReasonCode::BadUserNameOrPassword);
}
