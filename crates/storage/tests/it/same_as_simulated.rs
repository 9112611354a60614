//! The engine and the simulated disk, given the same operations, answer the same. Otherwise a simulation proves nothing.

use std::ops::ControlFlow;

use bytes::Bytes;
use cluster::{Keyspace, Write};
use proptest::collection::vec;
use proptest::prelude::*;
use storage::{Engine, SimulatedDisk, Storage};
use tempfile::TempDir;

#[derive(Debug, Clone)]
enum Operation {
    Write(Vec<Write>),
    Sync,
    Get(Keyspace, Bytes),
    Scan(Keyspace, Bytes),
    ScanRange(Keyspace, Bytes, Option<Bytes>),
    /// Close and open the engine; the simulated disk crashes, having synced.
    Reopen,
}

fn keyspace() -> impl Strategy<Value = Keyspace> {
    prop_oneof![
        Just(Keyspace::Sessions),
        Just(Keyspace::Queue),
        Just(Keyspace::Log)
    ]
}

fn key() -> impl Strategy<Value = Bytes> {
    vec(prop_oneof![Just(0_u8), Just(b'a'), Just(b'b'), Just(0xFF)], 1..4).prop_map(Bytes::from)
}

fn write() -> impl Strategy<Value = Write> {
    let value = vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    prop_oneof![
        6 => (keyspace(), key(), value).prop_map(|(keyspace, key, value)| Write::Put { keyspace, key, value }),
        5 => (keyspace(), key()).prop_map(|(keyspace, key)| Write::Remove { keyspace, key }),
        1 => (keyspace(), key(), key()).prop_map(|(keyspace, from, to)| Write::RemoveRange { keyspace, from, to }),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        20 => vec(write(), 1..8).prop_map(Operation::Write),
        3 => Just(Operation::Sync),
        5 => (keyspace(), key()).prop_map(|(keyspace, key)| Operation::Get(keyspace, key)),
        5 => (keyspace(), key()).prop_map(|(keyspace, key)| Operation::Scan(keyspace, key)),
        5 => (keyspace(), key(), proptest::option::of(key()))
            .prop_map(|(keyspace, from, to)| Operation::ScanRange(keyspace, from, to)),
        1 => Just(Operation::Reopen),
    ]
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
    #![proptest_config(ProptestConfig { cases: 20, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_answers_as_the_simulated_disk(operations in vec(operation(), 1..60)) {
        let dir = TempDir::new().unwrap();
        let mut engine = Engine::open(dir.path()).unwrap();
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
                    prop_assert_eq!(engine.get(*keyspace, key).unwrap(), disk.get(*keyspace, key).unwrap());
                }
                Operation::Scan(..) | Operation::ScanRange(..) => {
                    prop_assert_eq!(scanned(&engine, &operation), scanned(&disk, &operation));
                }
                Operation::Reopen => {
                    engine.sync().unwrap();
                    disk.sync().unwrap();
                    drop(engine);
                    disk.crash();
                    engine = Engine::open(dir.path()).unwrap();
                }
            }
        }
        for keyspace in Keyspace::ALL {
            let everything = Operation::Scan(keyspace, Bytes::new());
            prop_assert_eq!(scanned(&engine, &everything), scanned(&disk, &everything));
        }
    }
}
