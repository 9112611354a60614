//! Messages as they were sent, and bytes that are none.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::samples::messages;
use super::*;

/// Bytes that are accepted are those of their message. So nothing has two encodings.
fn check(bytes: &[u8]) {
    if let Ok(message) = decode(bytes) {
        assert_eq!(message.encode(), bytes, "{message:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn a_message_is_read_as_it_was_written(message in messages()) {
        let bytes = message.encode();
        prop_assert_eq!(bytes[..FRAME_BYTES].to_vec(), [VERSION, message.kind().number()]);
        prop_assert_eq!(Sample::decode(bytes), Ok(message));
    }

    #[test]
    fn a_message_that_ends_early_or_goes_on_is_refused(message in messages(), at in any::<Index>()) {
        let bytes = message.encode();
        let cut = decode(&bytes[..at.index(bytes.len())]);
        prop_assert!(cut.is_err(), "{:?}", cut);
        let longer = decode(&[&bytes[..], &[0]].concat());
        let of = Subject::Message(message.kind());
        prop_assert_eq!(longer, Err(WireError::LeftOver { of, bytes: 1 }));
    }

    #[test]
    fn a_changed_byte_is_refused_or_makes_another_message(
        message in messages(),
        at in any::<Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = message.encode().to_vec();
        let at = at.index(bytes.len());
        let before = std::mem::replace(&mut bytes[at], byte);
        check(&bytes);
        if byte != before {
            prop_assert_ne!(decode(&bytes), Ok(message));
        }
    }

    #[test]
    fn any_bytes_are_refused_or_are_a_message(kind in 0..=40_u8, fields in vec(any::<u8>(), 0..200)) {
        check(&[&[VERSION, kind][..], &fields].concat());
    }

    /// Small bytes are short lists, places of runs and forms, so more of them are messages.
    #[test]
    fn small_bytes_are_refused_or_are_a_message(kind in 1..=31_u8, fields in vec(0..4_u8, 0..90)) {
        check(&[&[VERSION, kind][..], &fields].concat());
    }
}
