//! The engine on a real directory: what survives a crash, who may open it, and what it refuses.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt as _;

use bytes::Bytes;
use cluster::replica::Recovered;
use cluster::replica::record::{self, LogPoint};
use cluster::{GroupId, Index, Keyspace, Term, Write};
use storage::{Engine, OpenError, Storage, open_group, recover_group};
use tempfile::TempDir;

use crate::killed::after_kill;

const GROUP: GroupId = GroupId(1);

fn put(keyspace: Keyspace, key: &str, value: &str) -> Write {
    Write::Put {
        keyspace,
        key: key.as_bytes().to_vec().into(),
        value: value.as_bytes().to_vec().into(),
    }
}

fn entry(index: u64, data: &str) -> Write {
    let (value, _) = record::encode_entry(GROUP, Index(index), Term(1), data.as_bytes());
    Write::Put {
        keyspace: Keyspace::Log,
        key: record::entry_key(GROUP, Index(index)),
        value,
    }
}

fn content(storage: &impl Storage, keyspace: Keyspace) -> Vec<(Bytes, Bytes)> {
    let mut found = Vec::new();
    let mut visit = |key: &[u8], value: Bytes| {
        found.push((Bytes::copy_from_slice(key), value));
        ControlFlow::Continue(())
    };
    storage.scan(keyspace, &[], &mut visit).unwrap();
    found
}

#[test]
fn what_was_synced_survives_a_kill() {
    let dir = TempDir::new().unwrap();
    let mut engine = Engine::open(dir.path()).unwrap();
    for round in 0..20 {
        let number = format!("{round}");
        engine
            .write(&[
                put(Keyspace::Retained, &number, "message"),
                put(Keyspace::Sessions, &number, "session"),
            ])
            .unwrap();
        engine.sync().unwrap();
        if round % 5 == 0 {
            let killed = after_kill(dir.path());
            let again = Engine::open(killed.path()).unwrap();
            assert_eq!(content(&again, Keyspace::Retained).len(), round + 1);
            assert_eq!(content(&again, Keyspace::Sessions).len(), round + 1);
        }
    }
}

#[test]
fn what_was_flushed_survives_a_kill_and_what_was_only_written_does_not() {
    let dir = TempDir::new().unwrap();
    let mut engine = Engine::open(dir.path()).unwrap();
    let found = |dir: &TempDir| {
        let killed = after_kill(dir.path());
        content(&Engine::open(killed.path()).unwrap(), Keyspace::Retained).len()
    };
    engine.write(&[put(Keyspace::Retained, "a", "flushed")]).unwrap();
    engine.flush().unwrap();
    engine.write(&[put(Keyspace::Retained, "b", "written")]).unwrap();
    assert_eq!(found(&dir), 1);
    engine.flush().unwrap();
    assert_eq!(found(&dir), 2);
}

#[test]
fn writing_goes_on_after_a_kill() {
    let mut dir = TempDir::new().unwrap();
    for round in 0..10_u64 {
        let mut engine = Engine::open(dir.path()).unwrap();
        let recovered = recover_group(&engine, GROUP, None).unwrap();
        assert_eq!(recovered.entries.len() as u64, round);
        engine.write(&[entry(round + 1, "data")]).unwrap();
        engine.sync().unwrap();
        dir = after_kill(dir.path());
    }
}

#[test]
fn a_second_process_is_told_that_the_directory_is_in_use() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::open(dir.path()).unwrap();
    let error = Engine::open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    assert!(
        error.to_string().contains(&dir.path().display().to_string()),
        "{error}"
    );
    drop(engine);
    Engine::open(dir.path()).unwrap();
}

#[test]
fn the_directory_is_private() {
    let parent = TempDir::new().unwrap();
    let dir = parent.path().join("a").join("b");
    let _engine = Engine::open(&dir).unwrap();
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn an_unknown_format_is_refused() {
    let dir = TempDir::new().unwrap();
    drop(Engine::open(dir.path()).unwrap());
    fs::write(dir.path().join("FORMAT"), "statehold data format 9\n").unwrap();
    let error = Engine::open(dir.path()).unwrap_err();
    assert!(error.to_string().contains("statehold data format 9"), "{error}");
    assert!(error.to_string().contains("statehold data format 8"), "{error}");
}

#[test]
fn data_without_a_format_is_refused_and_kept() {
    let dir = TempDir::new().unwrap();
    drop(Engine::open(dir.path()).unwrap());
    fs::remove_file(dir.path().join("FORMAT")).unwrap();
    let error = Engine::open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::FormatMissing { .. }), "{error}");
    assert!(dir.path().join("engine").join("0.jnl").exists());
    assert!(dir.path().join("wal").exists());
}

#[test]
fn an_engine_without_its_log_is_refused_and_so_is_a_log_without_its_engine() {
    let dir = TempDir::new().unwrap();
    let mut engine = Engine::open(dir.path()).unwrap();
    engine.write(&[entry(1, "data")]).unwrap();
    drop(engine);
    for (missing, message) in [("wal", "log is missing"), ("engine", "engine is missing")] {
        let copy = after_kill(dir.path());
        fs::remove_dir_all(copy.path().join(missing)).unwrap();
        let error = Engine::open(copy.path()).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn a_start_that_was_cut_off_while_making_the_engine_is_repeated() {
    let dir = TempDir::new().unwrap();
    drop(Engine::open(dir.path()).unwrap());
    fs::rename(dir.path().join("engine"), dir.path().join("engine.unfinished")).unwrap();
    fs::remove_file(dir.path().join("engine.unfinished").join("version")).unwrap();
    Engine::open(dir.path()).unwrap();
}

#[test]
fn a_path_that_is_a_file_is_refused() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Engine::open(&file).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
}

#[test]
fn a_cut_log_is_recovered_from_its_snapshot() {
    let dir = TempDir::new().unwrap();
    let mut engine = Engine::open(dir.path()).unwrap();
    let snapshots = engine.snapshot_files().unwrap();
    for index in 1..=100 {
        engine.write(&[entry(index, &format!("{index}"))]).unwrap();
    }
    let state = record::HardState {
        term: Term(1),
        vote: None,
    };
    let point = LogPoint {
        index: Index(60),
        term: Term(1),
    };
    let mut writer = snapshots.writer(GROUP, point).unwrap();
    writer.chunk(b"the state").unwrap();
    writer.finish().unwrap();
    engine
        .write(&[
            Write::Put {
                keyspace: Keyspace::Meta,
                key: record::hard_state_key(GROUP),
                value: record::encode_hard_state(GROUP, state),
            },
            Write::Put {
                keyspace: Keyspace::Meta,
                key: record::log_start_key(GROUP),
                value: record::encode_log_start(GROUP, point),
            },
            Write::RemoveRangeOnce {
                keyspace: Keyspace::Log,
                from: record::entry_key(GROUP, Index(1)),
                to: record::entry_key(GROUP, Index(41)),
            },
        ])
        .unwrap();
    engine.sync().unwrap();

    let killed = after_kill(dir.path());
    let engine = Engine::open(killed.path()).unwrap();
    let snapshots = engine.snapshot_files().unwrap();
    let (snapshot, recovered) = open_group(&engine, &snapshots, GROUP).unwrap();
    assert_eq!(
        snapshot.unwrap().map(Result::unwrap).collect::<Vec<_>>(),
        ["the state"]
    );
    let Recovered {
        entries,
        removable_from,
        hard_state,
        ..
    } = recovered;
    assert_eq!(entries.len(), 40);
    assert_eq!(entries[0].index, Index(61));
    assert_eq!(
        removable_from,
        Index(41),
        "the rest of the removal is still to be done"
    );
    assert_eq!(hard_state, state);
}

#[test]
fn later_writes_of_a_batch_win() {
    let dir = TempDir::new().unwrap();
    let mut engine = Engine::open(dir.path()).unwrap();
    let key = || Bytes::from_static(b"k");
    let range = |from: &'static [u8], to: &'static [u8]| Write::RemoveRange {
        keyspace: Keyspace::Sessions,
        from: Bytes::from_static(from),
        to: Bytes::from_static(to),
    };
    engine
        .write(&[
            put(Keyspace::Sessions, "k", "old"),
            put(Keyspace::Sessions, "l", "kept"),
        ])
        .unwrap();
    engine
        .write(&[
            put(Keyspace::Sessions, "k", "1"),
            Write::Remove {
                keyspace: Keyspace::Sessions,
                key: key(),
            },
            put(Keyspace::Sessions, "k", "2"),
            put(Keyspace::Sessions, "m", "gone"),
            range(b"m", b"n"),
        ])
        .unwrap();
    assert_eq!(
        content(&engine, Keyspace::Sessions),
        [("k".into(), "2".into()), ("l".into(), "kept".into())]
    );
    engine
        .write(&[range(b"a", b"z"), put(Keyspace::Sessions, "b", "3")])
        .unwrap();
    assert_eq!(content(&engine, Keyspace::Sessions), [("b".into(), "3".into())]);
}
