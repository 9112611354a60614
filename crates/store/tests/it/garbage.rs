//! Arbitrary bytes are refused, and nothing panics.

use bytes::Bytes;
use proptest::prelude::*;
use store::{Store, decode_entry};

/// Bytes that begin as the formats do, so that more than the first check is reached.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let rest = prop::collection::vec(prop_oneof![any::<u8>(), 0_u8..10], 0..200);
    (prop::collection::vec(0_u8..3, 0..10), rest).prop_map(|(start, rest)| [start, rest].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_are_no_entry_or_a_valid_one(bytes in bytes()) {
        let mut store = Store::new();
        if let Ok(entry) = decode_entry(Bytes::from(bytes)) {
            store.begin(entry.stamp);
            for command in entry.commands {
                store.apply(command, &mut Vec::new());
            }
            prop_assert_eq!(Store::restore(store.image().into_chunks()), Ok(store));
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_snapshot_or_a_valid_one(bytes in bytes(), chunk in 1_usize..50) {
        let chunks: Vec<Bytes> = bytes.chunks(chunk).map(Bytes::copy_from_slice).collect();
        if let Ok(store) = Store::restore(chunks.into_iter()) {
            prop_assert_eq!(Store::restore(store.image().into_chunks()), Ok(store));
        }
    }
}
