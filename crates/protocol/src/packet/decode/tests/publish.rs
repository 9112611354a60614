//! PUBLISH: what is read out of it, without copying.

use bytes::BytesMut;

use super::super::properties::USER_PROPERTIES_MAX;
use super::*;

#[test]
fn mqtt_3_3_1_4_qos_3_is_seen_in_the_first_byte() {
    let mut decoder = Decoder::for_server(LIMIT);
    decoder.set_version(ProtocolVersion::V5);
    let error = decoder.decode(&mut BytesMut::from(&b"\x36"[..])).unwrap_err();

    assert_eq!(error.violation(), Violation::Qos3);
    assert_eq!(error.to_string(), "PUBLISH: the QoS is 3");
    assert_eq!(error.reason_string().as_str(), "PUBLISH: the QoS is 3");
}

#[test]
fn a_topic_alias_stands_for_a_topic_name() {
    let Ok(Packet::Publish(publish)) = from_client(b"\x30\x07\0\0\x03\x23\0\x05x") else {
        panic!()
    };

    assert!(publish.topic.is_empty());
    assert_eq!(publish.topic_alias.unwrap().get(), 5);
}

#[test]
fn mqtt_3_3_4_6_subscription_identifiers_come_from_servers_only() {
    let bytes = b"\x30\x0a\0\x01a\x06\x0b\x01\x0b\xff\xff\x7f";

    let Ok(Packet::Publish(publish)) = from_server(ProtocolVersion::V5, bytes) else {
        panic!()
    };
    assert_eq!(
        publish
            .subscription_ids
            .iter()
            .map(|id| id.get())
            .collect::<Vec<_>>(),
        [1, 2_097_151]
    );
    let property = PropertyId::SubscriptionIdentifier;
    assert_eq!(
        violation(from_client(bytes)),
        Violation::PropertyFromWrongSide { property }
    );
}

#[test]
fn mqtt_3_3_2_17_user_properties_keep_their_order_wherever_they_are() {
    // The first and second are next to each other, the third comes after another property.
    let bytes = b"\x30\x22\0\x01a\x1e\x26\0\x01k\0\x011\x26\0\x01k\0\x012\x02\0\0\0\x09\x26\0\x01j\0\x013";
    let mut bytes = bytes.to_vec();
    let length = u8::try_from(bytes.len()).unwrap();
    (bytes[1], bytes[5]) = (length - 2, length - 6);
    let Ok(Packet::Publish(publish)) = from_client(&bytes) else {
        panic!("{:?}", from_client(&bytes))
    };

    let properties = publish.properties.user_properties.iter().collect::<Vec<_>>();
    assert_eq!(properties, [("k", "1"), ("k", "2"), ("j", "3")]);
    assert_eq!(publish.properties.message_expiry, Some(9));
}

#[test]
fn more_user_properties_than_the_limit_are_refused() {
    let publish = |count: usize| {
        let properties = b"\x26\0\0\0\0".repeat(count);
        // 10,000 properties of 5 bytes, and their length in 3.
        let mut body = vec![0, 1, b't'];
        put_length(properties.len(), &mut body);
        body.extend(properties);
        let mut packet = vec![0x30];
        put_length(body.len(), &mut packet);
        packet.extend(body);
        packet
    };
    let limit = USER_PROPERTIES_MAX;
    assert!(from_client(&publish(limit)).is_ok());
    assert_eq!(
        violation(from_client(&publish(limit + 1))),
        Violation::TooManyUserProperties { limit }
    );
}

/// Appends a variable byte integer. (section 1.5.5)
fn put_length(mut length: usize, bytes: &mut Vec<u8>) {
    loop {
        let more = if length >= 0x80 { 0x80 } else { 0 };
        bytes.push((length & 0x7F) as u8 | more);
        length >>= 7;
        if length == 0 {
            return;
        }
    }
}

#[test]
fn what_a_publish_holds_is_not_copied() {
    let mut buffer = BytesMut::from(&b"\x30\x0f\0\x01t\x08\x26\0\x01k\0\x02vvabc"[..]);
    let memory = buffer.as_ptr_range();
    let mut decoder = Decoder::for_server(LIMIT);
    decoder.set_version(ProtocolVersion::V5);
    let Ok(Some(Packet::Publish(publish))) = decoder.decode(&mut buffer) else {
        panic!()
    };

    assert_eq!(&publish.payload[..], b"abc");
    for part in [
        &publish.payload,
        publish.topic.as_bytes(),
        publish.properties.user_properties.encoded(),
    ] {
        assert!(memory.contains(&part.as_ptr()), "{part:?} is copied");
    }
}
