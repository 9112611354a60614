//! The engine and the simulated disk, given the same operations, answer the same. Otherwise a simulation proves nothing.

use std::ops::ControlFlow;
use std::path::Path;

use bytes::Bytes;
use cluster::replica::record;
use cluster::{GroupId, Index, Keyspace, Write};
use proptest::collection::vec;
use proptest::prelude::*;
use storage::{Encryption, Engine, EngineConfig, SimulatedDisk, Storage, encryption};
use tempfile::TempDir;

use crate::killed::after_kill;

#[derive(Debug, Clone)]
enum Operation {
    Write(Vec<Write>),
    Sync,
    Get(Keyspace, Bytes),
    Scan(Keyspace, Bytes),
    ScanRange(Keyspace, Bytes, Option<Bytes>),
    Checkpoint,
    Flush,
    /// Close and open the engine; the simulated disk crashes, having synced.
    Reopen,
    /// The same without closing: the engine is opened where a copy of its files was made.
    Kill,
}

fn keyspace() -> impl Strategy<Value = Keyspace> {
    prop_oneof![
        Just(Keyspace::Sessions),
        Just(Keyspace::Queue),
        Just(Keyspace::Plane),
        Just(Keyspace::Log)
    ]
}

/// A keyspace and two keys of it. Keys of the log are groups and indexes.
fn place() -> impl Strategy<Value = (Keyspace, Bytes, Bytes)> {
    let entry =
        || (0..2_u32, 0..12_u64).prop_map(|(group, index)| record::entry_key(GroupId(group), Index(index)));
    (keyspace(), (key(), key()), (entry(), entry())).prop_map(|(keyspace, keys, entries)| match keyspace {
        Keyspace::Log => (keyspace, entries.0, entries.1),
        _ => (keyspace, keys.0, keys.1),
    })
}

fn key() -> impl Strategy<Value = Bytes> {
    vec(prop_oneof![Just(0_u8), Just(b'a'), Just(b'b'), Just(0xFF)], 1..4).prop_map(Bytes::from)
}

fn write() -> impl Strategy<Value = Write> {
    let value = vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    prop_oneof![
        6 => (place(), value).prop_map(|((keyspace, key, _), value)| Write::Put { keyspace, key, value }),
        5 => place().prop_map(|(keyspace, key, _)| Write::Remove { keyspace, key }),
        1 => place().prop_map(|(keyspace, from, to)| Write::RemoveRange { keyspace, from, to }),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        20 => vec(write(), 1..8).prop_map(Operation::Write),
        3 => Just(Operation::Sync),
        5 => place().prop_map(|(keyspace, key, _)| Operation::Get(keyspace, key)),
        5 => place().prop_map(|(keyspace, key, _)| Operation::Scan(keyspace, key)),
        5 => (place(), any::<bool>())
            .prop_map(|((keyspace, from, to), ends)| Operation::ScanRange(keyspace, from, ends.then_some(to))),
        1 => Just(Operation::Checkpoint),
        1 => Just(Operation::Flush),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::Kill),
    ]
}

/// With sizes that make segments change and changes move all the time.
fn open(dir: &Path, encryption: &Encryption) -> Engine {
    let config = EngineConfig {
        segment_bytes: 2 << 10,
        first_segment_bytes: 1 << 10,
        changes_bytes_max: 2 << 10,
    };
    Engine::open_with(dir, config, encryption.clone()).unwrap()
}

fn scanned(storage: &impl Storage, operation: &Operation) -> Vec<(Bytes, Bytes)> {
    let mut found = Vec::new();
    let mut visit = |key: &[u8], value: Bytes| {
        found.push((Bytes::copy_from_slice(key), value));
        ControlFlow::Continue(())
    };
    match operation {
        Operation::Scan(keyspace, prefix) => storage.scan(*keyspace, prefix, &mut visit).unwrap(),
        Operation::ScanRange(keyspace, from, to) => {
            storage
                .scan_range(*keyspace, from, to.as_deref(), &mut visit)
                .unwrap();
        }
        _ => {}
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_answers_as_the_simulated_disk(operations in vec(operation(), 1..60)) {
        check(operations, &Encryption::none())?;
    }

    #[test]
    fn an_encrypted_engine_answers_as_the_simulated_disk(operations in vec(operation(), 1..60)) {
        let keys = TempDir::new().unwrap();
        let file = keys.path().join("keys");
        encryption::add_key(&file).unwrap();
        check(operations, &Encryption::from_file(&file).unwrap())?;
    }
}

fn check(operations: Vec<Operation>, encryption: &Encryption) -> Result<(), TestCaseError> {
    let mut dir = TempDir::new().unwrap();
    let mut engine = open(dir.path(), encryption);
    let mut disk = SimulatedDisk::new(1);
    for operation in operations {
        match &operation {
            Operation::Write(writes) => {
                engine.write(writes).unwrap();
                disk.write(writes).unwrap();
            }
            Operation::Sync => {
                engine.sync().unwrap();
                disk.sync().unwrap();
            }
            Operation::Get(keyspace, key) => {
                prop_assert_eq!(
                    engine.get(*keyspace, key).unwrap(),
                    disk.get(*keyspace, key).unwrap()
                );
            }
            Operation::Scan(..) | Operation::ScanRange(..) => {
                prop_assert_eq!(scanned(&engine, &operation), scanned(&disk, &operation));
            }
            Operation::Checkpoint => engine.checkpoint().unwrap(),
            Operation::Flush => engine.flush().unwrap(),
            Operation::Kill => {
                engine.sync().unwrap();
                disk.sync().unwrap();
                engine.wait_for_checkpoint().unwrap();
                dir = after_kill(dir.path());
                engine = open(dir.path(), encryption);
            }
            Operation::Reopen => {
                engine.sync().unwrap();
                disk.sync().unwrap();
                drop(engine);
                disk.crash();
                engine = open(dir.path(), encryption);
            }
        }
    }
    for keyspace in Keyspace::ALL {
        let everything = Operation::Scan(keyspace, Bytes::new());
        prop_assert_eq!(scanned(&engine, &everything), scanned(&disk, &everything));
    }
    Ok(())
}
