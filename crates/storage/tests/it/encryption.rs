//! What lies on disk when it is encrypted, how that is changed, and what happens without the right key.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::Bytes;
use cluster::replica::record::{self, LogPoint};
use cluster::{GroupId, Index, Keyspace, Term, Write};
use storage::{Encryption, Engine, EngineConfig, KeyId, OpenError, Storage, encryption};
use tempfile::TempDir;

use crate::killed::after_kill;

const CONFIG: EngineConfig = EngineConfig {
    segment_bytes: 64 << 10,
    first_segment_bytes: 16 << 10,
    changes_bytes_max: 32 << 10,
};

const GROUP: GroupId = GroupId(1);

/// What nobody may read on the disk.
const SECRETS: [&str; 4] = [
    "client-of-hall-7",
    "hall/7/light",
    "a payload of hall 7",
    "the key of a lock",
];

/// Keys in files of a directory of their own.
struct KeyFiles {
    dir: TempDir,
}

impl KeyFiles {
    fn new() -> KeyFiles {
        let dir = TempDir::new().unwrap();
        encryption::add_key(&dir.path().join("one")).unwrap();
        fs::copy(dir.path().join("one"), dir.path().join("two")).unwrap();
        encryption::add_key(&dir.path().join("two")).unwrap();
        // The second key alone.
        let text = fs::read_to_string(dir.path().join("two")).unwrap();
        let kept = text.lines().filter(|line| !line.starts_with("1 "));
        let kept: Vec<_> = kept.collect();
        fs::copy(dir.path().join("two"), dir.path().join("newest")).unwrap();
        fs::write(dir.path().join("newest"), kept.join("\n")).unwrap();
        // Another key with the number of the first.
        encryption::add_key(&dir.path().join("wrong")).unwrap();
        KeyFiles { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn open(&self, name: &str) -> Encryption {
        Encryption::from_file(&self.path(name)).unwrap()
    }
}

fn open(dir: &Path, encryption: &Encryption) -> Result<Engine, OpenError> {
    Engine::open_with(dir, CONFIG, encryption.clone())
}

fn put(keyspace: Keyspace, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Write {
    let (key, value) = (key.into(), value.into());
    Write::Put { keyspace, key, value }
}

/// Sessions, subscriptions, messages, log entries and a snapshot, in tables and in the log.
fn fill(engine: &mut Engine) {
    let [client, topic, payload, lock] = SECRETS;
    for number in 0..600_u64 {
        let id = number.to_be_bytes();
        let batch = [
            put(Keyspace::Sessions, format!("{client}-{number}"), payload),
            put(Keyspace::Subscriptions, [&id, topic.as_bytes()].concat(), lock),
            put(
                Keyspace::Queue,
                [id, id].concat(),
                format!("{topic} {payload} {number}"),
            ),
            put(Keyspace::Retained, format!("{topic}/{number}"), payload),
            put(Keyspace::Plane, format!("{topic}/{number}"), payload),
            put(
                Keyspace::Log,
                record::entry_key(GROUP, Index(number + 1)),
                format!("{lock} {client}"),
            ),
        ];
        engine.write(&batch).unwrap();
        if number % 20 == 0 {
            engine.sync().unwrap();
        }
        if number == 300 {
            engine.checkpoint().unwrap();
        }
    }
    engine.sync().unwrap();
    let point = LogPoint {
        index: Index(600),
        term: Term(1),
    };
    let mut writer = engine.snapshot_files().unwrap().writer(GROUP, point).unwrap();
    writer.chunk(lock.as_bytes()).unwrap();
    writer.chunk(client.as_bytes()).unwrap();
    writer.finish().unwrap();
}

type Content = Vec<Vec<(Bytes, Bytes)>>;

/// Everything, the snapshot last.
fn content(engine: &Engine) -> Content {
    let scan = |keyspace| {
        let mut found = Vec::new();
        let mut visit = |key: &[u8], value: Bytes| {
            found.push((Bytes::copy_from_slice(key), value));
            ControlFlow::Continue(())
        };
        engine.scan(keyspace, &[], &mut visit).unwrap();
        found
    };
    let mut all: Content = Keyspace::ALL.into_iter().map(scan).collect();
    let snapshot = engine
        .snapshot_files()
        .unwrap()
        .latest(GROUP, Index(600))
        .unwrap();
    all.push(
        snapshot
            .unwrap()
            .map(|chunk| (chunk.unwrap(), Bytes::new()))
            .collect(),
    );
    all
}

/// The content of a directory that is made and filled with this encryption.
fn filled(dir: &Path, encryption: &Encryption) -> Content {
    let mut engine = open(dir, encryption).unwrap();
    fill(&mut engine);
    content(&engine)
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

/// The first file in which one of the secrets, or a part of one, can be read. No engine may run there: it moves files.
fn readable(dir: &Path) -> Option<PathBuf> {
    let parts: Vec<&[u8]> = SECRETS.iter().map(|secret| &secret.as_bytes()[..10]).collect();
    let is_readable = |bytes: &[u8]| bytes.windows(10).any(|window| parts.contains(&window));
    files(dir)
        .into_iter()
        .find_map(|(path, bytes)| is_readable(&bytes).then_some(path))
}

#[test]
fn no_file_of_an_encrypted_directory_shows_who_was_there_and_what_was_said() {
    let (keys, dir) = (KeyFiles::new(), TempDir::new().unwrap());
    let one = keys.open("one");
    let mut engine = open(dir.path(), &one).unwrap();
    assert_eq!(engine.key(), Some(KeyId(1)));
    fill(&mut engine);
    assert_eq!(readable(after_kill(dir.path()).path()), None);
    let all = content(&engine);
    drop(engine);
    assert_eq!(readable(dir.path()), None);
    let engine = open(dir.path(), &one).unwrap();
    assert_eq!(content(&engine), all);
    assert!(!engine.has_changed_encryption());
}

#[test]
fn encryption_is_turned_on_changed_and_turned_off_at_a_start() {
    let (keys, dir) = (KeyFiles::new(), TempDir::new().unwrap());
    let all = filled(dir.path(), &Encryption::none());
    assert!(readable(dir.path()).is_some(), "the test can fail");
    let steps = [
        (keys.open("one"), Some(KeyId(1)), true),
        (keys.open("one"), Some(KeyId(1)), false),
        (keys.open("two"), Some(KeyId(2)), true),
        (keys.open("newest"), Some(KeyId(2)), false),
        (keys.open("newest").reading_only(), None, true),
        (Encryption::none(), None, false),
        (keys.open("newest"), Some(KeyId(2)), true),
    ];
    for (number, (encryption, key, has_changed)) in steps.into_iter().enumerate() {
        let engine = open(dir.path(), &encryption).unwrap_or_else(|error| panic!("step {number}: {error}"));
        assert_eq!(
            (engine.key(), engine.has_changed_encryption()),
            (key, has_changed),
            "step {number}"
        );
        assert_eq!(content(&engine), all, "step {number}");
        assert_eq!(
            readable(after_kill(dir.path()).path()).is_none(),
            key.is_some(),
            "step {number}: while it runs"
        );
        drop(engine);
        assert_eq!(
            readable(dir.path()).is_none(),
            key.is_some(),
            "step {number}: {:?}",
            readable(dir.path())
        );
    }
}

#[test]
fn without_the_right_key_a_start_says_so_and_changes_nothing() {
    let (keys, dir) = (KeyFiles::new(), TempDir::new().unwrap());
    let mut engine = open(dir.path(), &keys.open("one")).unwrap();
    fill(&mut engine);
    let dir = after_kill(dir.path());
    drop(engine);
    // What was being made when the process ended is a file like any other.
    fs::write(dir.path().join("wal/00000000000000ff.unfinished"), [0; 8]).unwrap();
    let before = files(dir.path());
    let cases = [
        (
            Encryption::none(),
            "encrypted with key 1, and no key file is set".to_owned(),
        ),
        (
            keys.open("newest"),
            format!("key 1, which is not in {}", keys.path("newest").display()),
        ),
        (
            keys.open("wrong"),
            format!("another key 1 than the one in {}", keys.path("wrong").display()),
        ),
        (keys.open("wrong").reading_only(), "another key 1".to_owned()),
    ];
    for (encryption, expected) in cases {
        let error = open(dir.path(), &encryption).unwrap_err();
        assert!(matches!(error, OpenError::Encryption(_)), "{error}");
        assert!(error.to_string().contains(&expected), "{error}");
        assert!(files(dir.path()) == before, "{expected}: a file was changed");
    }
    drop(open(dir.path(), &keys.open("two")).unwrap());
}

#[test]
fn a_plain_file_in_an_encrypted_directory_is_refused() {
    let (keys, dir, plain) = (KeyFiles::new(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let one = keys.open("one");
    fill(&mut open(dir.path(), &one).unwrap());
    // Somebody who wants to put it in its place gives it the same id.
    fs::copy(dir.path().join("DIRECTORY_ID"), plain.path().join("DIRECTORY_ID")).unwrap();
    fs::write(plain.path().join("FORMAT"), "statehold data format 7\n").unwrap();
    fill(&mut open(plain.path(), &Encryption::none()).unwrap());
    for name in ["wal", "engine", "snapshots"] {
        let mixed = after_kill(dir.path());
        fs::remove_dir_all(mixed.path().join(name)).unwrap();
        fs::rename(
            after_kill(plain.path()).path().join(name),
            mixed.path().join(name),
        )
        .unwrap();
        let error = open(mixed.path(), &one).unwrap_err();
        assert!(error.to_string().contains("is not encrypted"), "{name}: {error}");
    }
}

#[test]
fn a_crash_while_encryption_changes_loses_nothing_and_the_next_start_goes_on() {
    let (keys, dir) = (KeyFiles::new(), TempDir::new().unwrap());
    let all = filled(dir.path(), &Encryption::none());
    let steps = [
        keys.open("one"),
        keys.open("two"),
        keys.open("two").reading_only(),
    ];
    for encryption in steps {
        let is_done = AtomicBool::new(false);
        let killed = thread::scope(|scope| {
            let change = scope.spawn(|| {
                let engine = open(dir.path(), &encryption);
                is_done.store(true, Ordering::Release);
                engine.map(drop)
            });
            let mut killed = Vec::new();
            while !is_done.load(Ordering::Acquire) {
                killed.push(after_kill(dir.path()));
            }
            change.join().unwrap().unwrap();
            killed
        });
        for killed in killed {
            let engine = open(killed.path(), &encryption).unwrap();
            assert_eq!(content(&engine), all);
            drop(engine);
            assert_eq!(readable(killed.path()).is_none(), encryption.key().is_some());
        }
    }
}

#[test]
fn a_rewritten_engine_takes_its_place_wherever_a_crash_was() {
    let (keys, dir) = (KeyFiles::new(), TempDir::new().unwrap());
    let all = filled(dir.path(), &keys.open("one"));
    let names = |dir: &Path| ["engine", "engine.rewritten", "engine.replaced"].map(|name| dir.join(name));
    let complete = after_kill(dir.path());
    let [engine, rewritten, replaced] = names(complete.path());
    // Complete; moved away; moved in, with the one before left.
    for step in 0..3 {
        match step {
            0 => copy(&engine, &rewritten),
            1 => fs::rename(&engine, &replaced).unwrap(),
            _ => copy(&rewritten, &engine),
        }
        let crashed = after_kill(complete.path());
        if step == 2 {
            fs::remove_dir_all(&names(crashed.path())[1]).unwrap();
        }
        let opened = open(crashed.path(), &keys.open("one")).unwrap();
        assert_eq!(content(&opened), all, "step {step}");
        let left = names(crashed.path()).map(|path| path.exists());
        assert_eq!(left, [true, false, false], "step {step}");
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    let copied = after_kill(from);
    fs::rename(copied.path(), to).unwrap();
}
