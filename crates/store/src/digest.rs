//! Digests by which replicas find out that they differ.
//!
//! The digest of all keys is the sum of the digests of each, so that a change costs a subtraction and an addition, and the order of
//! changes does not matter. It is compared between nodes, so its form is for ever, as that of messages is: another one
//! needs another kind of message.

use protocol::Hlc;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::store::Store;
use crate::version::Version;

/// The digest of a key with what is stored under it.
pub(crate) fn of_key(
    key: &[u8],
    value: &[u8],
    version: Version,
    deadline: Option<u64>,
    fencing: Option<&Hlc>,
) -> u64 {
    let content = xxh3_64_with_seed(value, xxh3_64(key));
    let token = fencing.map_or(0, |token| {
        let node = xxh3_64_with_seed(token.node.as_bytes(), token.wall);
        of_numbers(&[node, token.counter])
    });
    of_numbers(&[
        content,
        version.wall,
        u64::from(version.counter),
        // No key has a deadline that far.
        deadline.unwrap_or(u64::MAX),
        token,
    ])
}

/// The digest of a store.
pub(crate) fn of_store(store: &Store) -> u64 {
    let usage = store.usage();
    let floor = store.tombstones.floor;
    of_numbers(&[
        store.digests,
        store.stamp.clock,
        store.stamp.time,
        store.quota.keys_max,
        store.quota.bytes_max,
        floor.map_or(0, |floor| floor.wall),
        floor.map_or(0, |floor| u64::from(floor.counter)),
        usage.keys,
        usage.bytes,
        usage.expiring,
        usage.tombstones,
        usage.replies_remembered,
        usage.replies_dropped,
        usage.watches,
    ])
}

fn of_numbers<const N: usize>(numbers: &[u64; N]) -> u64 {
    let mut bytes = [[0; 8]; N];
    for (bytes, number) in bytes.iter_mut().zip(numbers) {
        *bytes = number.to_be_bytes();
    }
    xxh3_64(bytes.as_flattened())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: Version = Version { wall: 5, counter: 2 };

    /// As it was first computed. Nodes of different versions compare theirs.
    #[test]
    fn a_digest_is_computed_as_ever() {
        let token = Hlc::parse("7:8:holder").unwrap();
        assert_eq!(
            of_key(b"key", b"value", VERSION, None, None),
            0xe05d_0384_0869_b078
        );
        assert_eq!(
            of_key(b"key", b"value", VERSION, Some(9), Some(&token)),
            0x948c_48c0_0b0d_ae1b
        );
        assert_eq!(Store::new().digest(), 0x274b_f896_5e65_52b2);
    }

    #[test]
    fn everything_that_is_stored_counts() {
        let token = Hlc::parse("7:8:holder").unwrap();
        let later = Version { wall: 5, counter: 3 };
        let all = [
            of_key(b"key", b"value", VERSION, None, None),
            of_key(b"kez", b"value", VERSION, None, None),
            of_key(b"key", b"valuf", VERSION, None, None),
            of_key(b"keyv", b"alue", VERSION, None, None),
            of_key(b"key", b"value", later, None, None),
            of_key(b"key", b"value", VERSION, Some(5), None),
            of_key(b"key", b"value", VERSION, None, Some(&token)),
        ];
        for (position, one) in all.iter().enumerate() {
            assert!(!all[position + 1..].contains(one), "{position}");
        }
    }
}
