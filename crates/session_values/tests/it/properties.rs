//! Any values through both encodings, and bytes that are none.

use std::cmp::Ordering;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use session_plane::RecordValue;
use session_plane::transfer::{TransferBytes, TransferValue};
use session_plane::wire::WireValue;
use session_values::{Content, VALUE_VERSION, Value};

use super::samples::bare;
use super::strategies::{contents, parts, values};

/// Bytes that are accepted are those of their value. So nothing has two encodings.
fn check(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    if let Ok(value) = Value::decode(bytes.clone()) {
        assert_eq!(value.encode(), bytes, "{value:?}");
        assert!(bytes.len() <= value.bytes(), "{value:?}");
    }
    for content in [None, Some(bare().encoded().clone())] {
        if let Ok(value) = Value::decode_record(bytes.clone(), content.clone()) {
            assert_eq!(
                (value.encode_record(), value.content()),
                (bytes.clone(), content),
                "{value:?}"
            );
        }
    }
    if let Ok(content) = Content::decode(bytes.clone()) {
        assert_eq!(content.encoded(), &bytes);
        let read = Content::new(&content.parts().clone());
        assert_eq!(read.encoded(), &bytes, "{content:?}");
    }
}

fn digest(value: &Value) -> Vec<u8> {
    let mut digest = Vec::new();
    value.append_digest(&mut digest);
    digest
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_value_is_read_as_it_was_written(value in values()) {
        let bytes = value.to_bytes();
        prop_assert!(bytes.len() <= value.bytes());
        prop_assert_eq!(Value::from_bytes(bytes), Some(value.clone()));
        let read = Value::from_record(value.to_record(), value.content());
        prop_assert_eq!(read, Some(value));
    }

    #[test]
    fn a_content_is_read_as_it_was_written(parts in parts()) {
        let content = Content::new(&parts);
        prop_assert_eq!(content.parts(), &parts);
        let read = Content::from_bytes(content.to_bytes());
        prop_assert_eq!(read.as_ref(), Some(&content));
        prop_assert_eq!(read.map(|read| read.id()), Some(content.id()));
        let read = Content::from_record(content.to_record(), RecordValue::content(&content));
        prop_assert_eq!(read, Some(content));
    }

    #[test]
    fn a_value_that_ends_early_or_goes_on_is_refused(value in values(), at in any::<Index>()) {
        let bytes = value.encode();
        prop_assert!(Value::decode(bytes.slice(..at.index(bytes.len()))).is_err());
        let longer = Bytes::from([&bytes[..], &[0]].concat());
        prop_assert!(Value::decode(longer).is_err());
        let record = value.encode_record();
        let cut = record.slice(..at.index(record.len()));
        prop_assert!(Value::decode_record(cut, value.content()).is_err());
        let longer = Bytes::from([&record[..], &[0]].concat());
        prop_assert!(Value::decode_record(longer, value.content()).is_err());
    }

    #[test]
    fn a_changed_byte_is_refused_or_makes_another_value(
        value in values(),
        at in any::<Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = value.encode().to_vec();
        let at = at.index(bytes.len());
        let before = std::mem::replace(&mut bytes[at], byte);
        check(&bytes);
        if byte != before {
            prop_assert_ne!(Value::decode(bytes.into()), Ok(value.clone()));
        }
        let mut record = value.encode_record().to_vec();
        let at = at % record.len();
        record[at] = byte;
        check(&record);
    }

    #[test]
    fn a_changed_byte_is_refused_or_makes_another_content(
        content in contents(),
        at in any::<Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = content.encoded().to_vec();
        let at = at.index(bytes.len());
        let before = std::mem::replace(&mut bytes[at], byte);
        check(&bytes);
        if byte != before {
            prop_assert_ne!(Content::decode(bytes.into()), Ok(content));
        }
    }

    #[test]
    fn any_bytes_are_refused_or_a_value(form in 0..11_u8, bytes in vec(any::<u8>(), 0..60)) {
        check(&bytes);
        check(&[&[VALUE_VERSION, form], &bytes[..]].concat());
        check(&[&[1, form & 3], &bytes[..]].concat());
    }

    #[test]
    fn values_are_equal_where_their_bytes_and_digests_are(one in values(), other in values()) {
        let is_equal = one.encode() == other.encode();
        prop_assert_eq!(one == other, is_equal);
        prop_assert_eq!(one.cmp(&other) == Ordering::Equal, is_equal);
        prop_assert_eq!(digest(&one) == digest(&other), is_equal);
        prop_assert_eq!(one.cmp(&other), other.cmp(&one).reverse());
        let again = Value::decode(one.encode());
        prop_assert_eq!(again.as_ref().map(digest), Ok(digest(&one)));
        prop_assert_eq!(again.map(|again| again.cmp(&one)), Ok(Ordering::Equal));
    }

    #[test]
    fn values_have_one_order(values in vec(values(), 3)) {
        let [a, b, c] = [&values[0], &values[1], &values[2]];
        prop_assert!(!(a <= b && b <= c) || a <= c);
    }
}
