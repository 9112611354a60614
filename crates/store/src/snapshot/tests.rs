use protocol::Hlc;
use protocol::state_store::Condition;

use super::*;
use crate::command::{Command, CommandAction, Origin};
use crate::retry::RetryKey;
use crate::stamp::Stamp;

const ORIGIN: Origin = Origin {
    node: 1,
    incarnation: 1,
    request: 1,
};

fn apply(store: &mut Store, action: CommandAction) {
    store.apply(
        Command {
            origin: ORIGIN,
            action,
        },
        &mut Vec::new(),
    );
}

fn set(key: &[u8], value: Vec<u8>, expires_in: Option<u64>, fencing: Option<&str>) -> CommandAction {
    let mut hash = [0; 16];
    hash[..key.len().min(16)].copy_from_slice(&key[..key.len().min(16)]);
    CommandAction::Set {
        key: Bytes::copy_from_slice(key),
        value: Bytes::from(value),
        condition: Condition::None,
        expires_in,
        timestamp: Hlc::parse("5000:3:client").unwrap(),
        fencing: fencing.map(|token| Hlc::parse(token).unwrap()),
        retry: Some(RetryKey {
            hash,
            remembered: 8_000,
        }),
    }
}

fn delete(key: &[u8]) -> CommandAction {
    let key = Bytes::copy_from_slice(key);
    CommandAction::Delete {
        key,
        only_if: None,
        timestamp: None,
        fencing: None,
        retry: None,
    }
}

fn watch(key: &[u8], connection: u64, dialect: Dialect) -> CommandAction {
    let watcher = Watcher {
        node: 1,
        incarnation: 2,
        connection,
    };
    CommandAction::Watch {
        key: Bytes::copy_from_slice(key),
        watcher,
        dialect,
        retry: None,
    }
}

/// A store with something of everything.
fn sample() -> Store {
    let mut store = Store::new();
    store.begin(Stamp::first(1_000));
    apply(
        &mut store,
        CommandAction::Configure {
            quota: Quota {
                keys_max: 1_000,
                bytes_max: 1 << 30,
            },
        },
    );
    apply(&mut store, set(b"a", b"value".to_vec(), None, None));
    apply(&mut store, set(b"b", Vec::new(), Some(10), None));
    apply(
        &mut store,
        set(b"c", b"fenced".to_vec(), Some(20), Some("7:8:holder")),
    );
    apply(&mut store, set(&[0xff; 100], vec![7; 100], None, None));
    apply(&mut store, set(b"gone", b"gone".to_vec(), None, None));
    apply(&mut store, delete(b"gone"));
    apply(&mut store, delete(b"never"));
    apply(&mut store, watch(b"a", 1, Dialect::Sdk));
    apply(&mut store, watch(b"a", 2, Dialect::Published));
    apply(&mut store, watch(b"unknown", 1, Dialect::Sdk));
    store
}

fn bytes_of(store: &Store) -> Vec<u8> {
    store.image().into_chunks().flatten().collect()
}

fn restored(bytes: Vec<u8>) -> Result<Store, RestoreError> {
    Store::restore(std::iter::once(Bytes::from(bytes)))
}

#[test]
fn a_restored_store_is_the_one_that_was_taken() {
    for store in [Store::new(), sample()] {
        let restored = restored(bytes_of(&store)).unwrap();
        assert_eq!(restored, store);
        assert_eq!(restored.usage(), store.usage());
        assert_eq!(restored.digest(), store.digest());
    }
}

#[test]
fn an_image_does_not_follow_the_store() {
    let mut store = sample();
    let (image, before) = (store.image(), store.clone());
    store.begin(Stamp::first(6_000));
    apply(&mut store, delete(b"a"));
    apply(&mut store, set(b"new", b"new".to_vec(), None, None));
    apply(&mut store, watch(b"new", 3, Dialect::Sdk));
    assert_eq!(Store::restore(image.into_chunks()), Ok(before));
}

#[test]
fn chunks_are_bounded_and_may_cut_a_record_anywhere() {
    let mut store = sample();
    apply(
        &mut store,
        set(b"large", vec![1; 3 * CHUNK_BYTES_MAX], None, None),
    );
    for number in 0..20_000_u32 {
        apply(
            &mut store,
            set(
                &number.to_be_bytes(),
                vec![2; 20],
                Some(1 + u64::from(number)),
                None,
            ),
        );
        apply(&mut store, delete(&(number / 2).to_be_bytes()));
        apply(&mut store, watch(b"a", u64::from(number), Dialect::Sdk));
    }
    let chunks: Vec<Bytes> = store.image().into_chunks().collect();
    assert!(chunks.len() > 5, "{} {:?}", chunks.len(), store.usage());
    for chunk in &chunks {
        assert!((1..=CHUNK_BYTES_MAX).contains(&chunk.len()));
    }
    assert_eq!(Store::restore(chunks.into_iter()).as_ref(), Ok(&store));

    let small = sample();
    for length in [1, 2, 7] {
        let bytes = bytes_of(&small);
        let chunks = bytes.chunks(length).map(Bytes::copy_from_slice);
        assert_eq!(Store::restore(chunks).as_ref(), Ok(&small));
    }
}

#[test]
fn small_chunks_say_the_same_as_large_ones() {
    let store = sample();
    for bytes_max in [0, 1, 100] {
        let chunks: Vec<Bytes> = store.image().into_chunks_of(bytes_max).collect();
        assert!(chunks.iter().all(|chunk| chunk.len() <= bytes_max.max(1)));
        assert_eq!(Store::restore(chunks.into_iter()).as_ref(), Ok(&store));
    }
}

#[test]
fn a_large_record_is_looked_at_when_all_of_it_is_there() {
    let mut store = Store::new();
    store.begin(Stamp::first(1));
    apply(&mut store, set(b"large", vec![1; 100_000], None, None));
    let mut restoring = Restoring::new();
    for chunk in store.image().into_chunks_of(100) {
        restoring.push(chunk).unwrap();
    }
    assert_eq!(restoring.finish().as_ref(), Ok(&store));
}

#[test]
fn a_snapshot_that_is_cut_off_or_goes_on_is_damaged() {
    let bytes = bytes_of(&sample());
    for length in 0..bytes.len() {
        assert_eq!(
            restored(bytes[..length].to_vec()),
            Err(RestoreError::Damaged),
            "{length}"
        );
    }
    assert_eq!(restored([&bytes[..], &[0]].concat()), Err(RestoreError::Damaged));
}

#[test]
fn a_snapshot_of_an_unknown_version_is_refused_as_such() {
    let mut bytes = bytes_of(&sample());
    bytes[0] = 3;
    assert_eq!(restored(bytes), Err(RestoreError::UnknownVersion { version: 3 }));
}

#[test]
fn no_changed_byte_makes_restoring_panic() {
    let bytes = bytes_of(&sample());
    for position in 0..bytes.len() {
        for change in [0x01, 0x02, 0x04, 0x40, 0x80, 0xff, bytes[position]] {
            let mut damaged = bytes.clone();
            damaged[position] ^= change;
            // Most are refused; a changed value is still a value.
            if let Ok(mut store) = restored(damaged) {
                store.begin(Stamp::first(7_000));
                apply(
                    &mut store,
                    set(b"a", b"new".to_vec(), Some(5), Some("9:9:holder")),
                );
                apply(&mut store, delete(b"b"));
            }
        }
    }
}

#[test]
fn records_out_of_order_are_damage() {
    let mut store = Store::new();
    store.begin(Stamp::first(1));
    apply(&mut store, set(b"a", b"".to_vec(), None, None));
    apply(&mut store, set(b"b", b"".to_vec(), None, None));
    let bytes = bytes_of(&store);
    let key = |name: u8| bytes.windows(2).position(|window| window == [1, name]).unwrap() + 1;
    for (first, second) in [(b'b', b'b'), (b'b', b'a'), (b'c', b'b')] {
        let mut damaged = bytes.clone();
        damaged[key(b'a')] = first;
        damaged[key(b'b')] = second;
        assert_eq!(restored(damaged), Err(RestoreError::Damaged));
    }
}
