//! Bytes that are no value are refused by name, and what has two encodings is refused in one of
//! them.

use bytes::{BufMut, Bytes};
use mqtt::records::RecordError;
use protocol::Text;
use protocol::packet::QoS;
use session_values::{CONTENT_VERSION, Content, QueuedMessage, SUBSCRIPTION_IDS_MAX, Value, ValueError};

use super::samples::{bare, bare_parts, full, values};

fn named(name: &str) -> Value {
    let found = values().into_iter().find(|(other, _)| *other == name);
    found.expect("a sample").1
}

/// Error of a sample whose byte at a place is another one.
fn refusal(name: &str, at: usize, byte: u8) -> String {
    let mut bytes = named(name).encode().to_vec();
    assert_ne!(bytes[at], byte, "{name} {at}");
    bytes[at] = byte;
    Value::decode(bytes.into()).expect_err(name).to_string()
}

#[test]
fn other_versions_and_forms_are_refused_by_name() {
    let decode = |bytes: &'static [u8]| Value::decode(Bytes::from_static(bytes));
    assert_eq!(decode(b""), Err(ValueError::Empty));
    assert_eq!(decode(b"\0\x01"), Err(ValueError::UnknownVersion { version: 0 }));
    assert_eq!(
        decode(b"\x03\x01"),
        Err(ValueError::UnknownVersion { version: 3 })
    );
    assert_eq!(decode(b"\x02\0"), Err(ValueError::UnknownForm { form: 0 }));
    assert_eq!(decode(b"\x02\x0b"), Err(ValueError::UnknownForm { form: 11 }));
    assert_eq!(
        refusal("value-blank", 0, 7),
        "a value has version 7, which is unknown"
    );
    assert_eq!(
        refusal("value-blank", 1, 99),
        "a value has form 99, which is unknown"
    );
    let unknown = Content::decode(Bytes::from_static(b"\x02\0"));
    let (record, version) = ("content", 2);
    assert_eq!(unknown, Err(RecordError::UnknownVersion { record, version }));
}

#[test]
fn each_field_has_one_encoding() {
    let refused = [
        ("value-session", 6, 2, "a flag is not 0 or 1"),
        ("value-subscription", 2, 0x30, "unknown subscription options"),
        ("value-subscription", 2, 3, "a QoS is not 0, 1 or 2"),
        (
            "value-subscription",
            3,
            0x80,
            "a subscription identifier is too high",
        ),
        ("value-subscription", 7, 4, "a flag is not 0 or 1"),
        ("value-subscription-shared", 8, 0xff, "a clock is too late"),
        ("value-subscription-shared", 24, b'#', "a filter is not valid"),
        ("value-message", 2, 8, "unknown flags of a queued message"),
        ("value-message", 2, 3, "a QoS is not 0, 1 or 2"),
        ("value-message", 3, 0xff, "it is too short"),
        ("value-message", 6, 4, "unknown flags"),
        ("value-message-one", 8, 0, "a subscription identifier is 0"),
        (
            "value-will-end-delayed",
            11,
            0xff,
            "a delay has a second in its nanoseconds",
        ),
        ("value-delivery-sent", 20, 5, "a stage is unknown"),
        ("value-use-free", 3, 0, "a packet id is 0"),
        ("value-use-free", 13, 9, "a flag is not 0 or 1"),
        ("value-topic", 1, 3, "a flag is not 0 or 1"),
    ];
    for (name, at, byte, what) in refused {
        let error = refusal(name, at, byte);
        assert!(error.ends_with(&format!(": {what}")), "{name} {at} {error}");
    }
}

#[test]
fn no_event_has_the_number_0() {
    let mut bytes = named("value-will-number").encode().to_vec();
    bytes[14..22].fill(0);
    let error = Value::decode(bytes.into()).expect_err("no event");
    assert_eq!(
        error.to_string(),
        "a value record is damaged: an event has the number 0"
    );
}

/// Attributes are ordered by name, and a method that is not known is not written.
#[test]
fn an_owner_in_another_form_is_refused() {
    let attributes: &[u8] = b"\0\0\0\x02\0\x01b\0\0\0\x01a\0\0";
    let ordered: &[u8] = b"\0\0\0\x02\0\x01a\0\0\0\x01b\0\0";
    let session = |owner: &[&[u8]]| Bytes::from([b"\x02\x02\0\0\0\x09\x01", &owner.concat()[..]].concat());
    assert!(Value::decode(session(&[b"\x01\0\x01p", ordered])).is_ok());
    let refused: [&[&[u8]]; 3] = [
        &[b"\x01\0\x01p", attributes],
        &[b"\x05\0\0\0\x01p", ordered],
        &[b"\0"],
    ];
    for owner in refused {
        assert!(Value::decode(session(owner)).is_err(), "{owner:?}");
    }
}

/// Neither an expiry nor a number is what the publisher has said, and absent properties are not
/// announced.
#[test]
fn a_message_in_another_form_is_refused() {
    let with = |flags: u16, more: &[u8]| {
        let mut bytes = bare().encoded().to_vec();
        bytes[2..4].copy_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(more);
        Content::decode(bytes.into())
    };
    assert!(with(1 << 5, &[0, 0, 0, 60]).is_ok());
    let refused = [
        with(1 << 6, &[0; 8]),
        with(1 << 11, &[1, 1, 1]),
        with(1 << 10, &[0; 4]),
        with(1 << 4, &[]),
        with(1 << 12, &[]),
        with(0b11, &[]),
    ];
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
}

/// Lengths that a peer names are compared with the bytes that are there.
#[test]
fn lengths_allocate_nothing() {
    let mut payload = vec![CONTENT_VERSION, 0, 0, 0, 0, 1, b'a'];
    payload.put_u32(u32::MAX);
    assert!(Content::decode(payload.into()).is_err());
    let mut attributes = b"\x02\x02\0\0\0\0\x01\x01\0\x01p".to_vec();
    attributes.put_u32(u32::MAX);
    assert!(Value::decode(attributes.into()).is_err());
    assert!(Value::decode(Bytes::from_static(b"\x02\x04\0\xff\xff")).is_err());
}

#[test]
fn a_record_has_a_content_only_where_it_is_a_message() {
    for (name, value) in values() {
        let record = value.encode_record();
        let content = full().encoded().clone();
        if matches!(value, Value::Message(_)) {
            assert_eq!(
                Value::decode_record(record, None),
                Err(ValueError::NoContent),
                "{name}"
            );
        } else {
            let decoded = Value::decode_record(record, Some(content));
            assert_eq!(decoded, Err(ValueError::UnexpectedContent), "{name}");
        }
    }
}

#[test]
fn the_longest_fields_have_an_encoding() {
    let longest = Text::new("é".repeat(Text::LENGTH_MAX / 2)).expect("a text");
    let mut parts = bare_parts();
    parts.publisher = Some(longest.clone());
    parts.message.properties.content_type = Some(longest);
    let content = Content::new(&parts);
    assert_eq!(content.parts(), &parts);

    let id = 7.try_into().expect("not 0");
    let ids = vec![id; SUBSCRIPTION_IDS_MAX + 1];
    let message = QueuedMessage::new(content, QoS::AtLeastOnce, false, &ids);
    assert_eq!(
        message.subscription_ids().len(),
        SUBSCRIPTION_IDS_MAX,
        "the rest is left out"
    );
    let value = Value::Message(message);
    assert_eq!(Value::decode(value.encode()), Ok(value));
}
