use bytes::Bytes;
use cluster::Keyspace;
use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;

use super::{Sealing, encode, in_order, stored_range};
use crate::encryption::Encryption;

fn sealing() -> Sealing {
    let dir = TempDir::new().unwrap();
    let encryption = Encryption::with_keys(&[1]);
    Sealing::make(dir.path(), &encryption).unwrap();
    Sealing::open(dir.path(), &encryption).unwrap().unwrap()
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), Just(1), Just(0xFF)];
    vec(byte, 0..11)
}

proptest! {
    #[test]
    fn what_is_stored_is_found_by_key_and_by_range(
        mut keys in vec(key(), 0..20),
        from in key(),
        to in proptest::option::of(key()),
        keyspace in prop_oneof![Just(Keyspace::Queue), Just(Keyspace::Sessions)],
    ) {
        keys.sort();
        keys.dedup();
        let sealing = sealing();
        let changes: Vec<_> = keys.iter().map(|key| (Bytes::from(key.clone()), Bytes::from(vec![1]))).collect();
        let stored: Vec<_> = sealing.seal(keyspace, changes.iter().map(|(key, value)| (key, Some(value)))).collect();
        prop_assert!(stored.is_sorted());
        for key in &keys {
            let name = sealing.stored_key(keyspace, key);
            prop_assert!(stored.iter().any(|(stored, _)| *stored == name));
        }
        let (begin, end) = stored_range(keyspace, &from, to.as_deref());
        let visited = stored.iter().filter(|(stored, _)| {
            stored[..] >= begin[..] && end.as_ref().is_none_or(|end| stored[..] < end[..])
        });
        let opened = visited.map(|(stored, value)| {
            sealing.open_value(keyspace, stored, value.as_ref().unwrap())
        });
        let is_between = |key: &[u8]| from[..] <= *key && to.as_ref().is_none_or(|to| *key < to[..]);
        let found: Vec<_> = in_order(keyspace, opened)
            .map(|item| item.unwrap().0.to_vec())
            .filter(|key| is_between(key))
            .collect();
        let expected: Vec<_> = keys.into_iter().filter(|key| is_between(key)).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_value_belongs_to_its_key_and_keyspace() {
    let sealing = sealing();
    let (key, value) = (Bytes::from_static(b"a client"), Bytes::from_static(b"a will"));
    let mut stored = sealing.seal(Keyspace::Sessions, [(&key, Some(&value))].into_iter());
    let (name, sealed) = stored.next().unwrap();
    let sealed = sealed.unwrap();
    let open = |keyspace, name: &[u8], sealed: &[u8]| sealing.open_value(keyspace, name, sealed);
    assert_eq!(
        open(Keyspace::Sessions, &name, &sealed).unwrap(),
        (key.clone(), value.clone())
    );
    assert!(open(Keyspace::Retained, &name, &sealed).is_err());
    let other = sealing.stored_key(Keyspace::Sessions, b"another");
    assert!(open(Keyspace::Sessions, &other, &sealed).is_err());
    for position in 0..sealed.len() {
        let mut changed = sealed.to_vec();
        changed[position] ^= 1;
        assert!(
            open(Keyspace::Sessions, &name, &changed).is_err(),
            "byte {position}"
        );
        assert!(
            open(Keyspace::Sessions, &name, &sealed[..position]).is_err(),
            "cut at {position}"
        );
    }
}

#[test]
fn the_same_is_never_stored_as_the_same_twice() {
    let sealing = sealing();
    let (key, value) = (Bytes::from_static(b"a topic"), Bytes::from_static(b"on"));
    let seal = || {
        let mut stored = sealing.seal(Keyspace::Retained, [(&key, Some(&value))].into_iter());
        stored.next().unwrap()
    };
    let (one, other) = (seal(), seal());
    assert_eq!(one.0, other.0);
    assert_ne!(one.1, other.1);
}

#[test]
fn the_file_of_tables_is_as_ever() {
    let (stamp, keys) = Encryption::with_keys(&[1, 2]).with_salt([7; 16]).unwrap();
    let written = encode(stamp, &keys);
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2/ENCRYPTION");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, written).unwrap();
    }
    assert_eq!(written[..], std::fs::read(path).unwrap()[..]);
}
