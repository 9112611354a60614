//! Directories that older versions of the program wrote: what `damaged.rs` fills, in `tests/golden`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::Bytes;
use cluster::{Keyspace, Write};
use storage::{Encryption, Engine, OpenError, Storage as _};
use tempfile::TempDir;

use crate::damaged::{CONFIG, Content, Ended, content, files, filled};
use crate::encryption::copy;
use crate::killed::after_kill;

/// A directory of an older format, and what it is encrypted with.
struct Older {
    dir: TempDir,
    encryption: Encryption,
    /// What it is written as now.
    format: &'static str,
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// A directory of format 3 or 5.
fn plain(name: &str) -> Older {
    Older {
        dir: after_kill(&golden(name)),
        encryption: Encryption::none(),
        format: "statehold data format 7\n",
    }
}

/// A directory of format 4 or 6.
fn encrypted(name: &str) -> Older {
    Older {
        dir: after_kill(&golden(name)),
        encryption: keys(),
        format: "statehold data format 8, encrypted\n",
    }
}

fn keys() -> Encryption {
    // Git does not keep who may read a file.
    let keys = TempDir::new().unwrap();
    let file = keys.path().join("keys");
    fs::copy(golden("format-4.keys"), &file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    Encryption::from_file(&file).unwrap()
}

fn all() -> [Older; 4] {
    [
        plain("format-3"),
        encrypted("format-4"),
        plain("format-5"),
        encrypted("format-6"),
    ]
}

/// What is in each of them. They have nothing of the session plane.
fn expected() -> Content {
    static EXPECTED: LazyLock<Content> = LazyLock::new(|| {
        let (_, mut content) = filled(&Encryption::none(), "ours", Ended::Killed);
        content.retain(|(keyspace, _), _| *keyspace != Keyspace::Plane.name());
        content
    });
    EXPECTED.clone()
}

/// Writes to the session plane, and reads that after a kill.
fn check_plane(mut engine: Engine, encryption: &Encryption) {
    let (key, value) = (Bytes::from_static(b"key"), Bytes::from_static(b"a record"));
    let put = Write::Put {
        keyspace: Keyspace::Plane,
        key: key.clone(),
        value: value.clone(),
    };
    engine.write(&[put]).unwrap();
    engine.sync().unwrap();
    for is_in_tables in [false, true] {
        if is_in_tables {
            engine.checkpoint().unwrap();
        }
        let killed = after_kill(engine.dir().path());
        let mut all = expected();
        all.insert((Keyspace::Plane.name(), key.clone()), value.clone());
        assert_eq!(content(&open(killed.path(), encryption).unwrap()).unwrap(), all);
    }
}

fn open(dir: &Path, encryption: &Encryption) -> Result<Engine, OpenError> {
    Engine::open_with(dir, CONFIG, encryption.clone())
}

fn format(dir: &Path) -> String {
    fs::read_to_string(dir.join("FORMAT")).unwrap()
}

/// All snapshots and segments.
fn marked(dir: &Path) -> Vec<PathBuf> {
    let mut found = files(dir);
    found.retain(|file| {
        let name = file.to_str().unwrap();
        name.ends_with(".snapshot") || name.ends_with(".segment")
    });
    found
}

#[test]
fn all_that_an_older_version_wrote_is_there_and_is_written_anew_at_once() {
    for older in all() {
        let expected = expected();
        let engine = open(older.dir.path(), &older.encryption).unwrap();
        assert_eq!(content(&engine).unwrap(), expected);
        assert!(!engine.has_changed_encryption(), "only ids were added");
        assert_eq!(format(older.dir.path()), older.format);
        drop(engine);
        let engine = open(older.dir.path(), &older.encryption).unwrap();
        assert_eq!(content(&engine).unwrap(), expected);
        check_plane(engine, &older.encryption);
    }
}

#[test]
fn a_file_of_an_older_version_is_refused_once_all_are_written_anew() {
    for older in [plain("format-3"), encrypted("format-4")] {
        drop(open(older.dir.path(), &older.encryption).unwrap());
        let new = after_kill(older.dir.path());
        let old = if older.format.contains("encrypted") {
            encrypted("format-4")
        } else {
            plain("format-3")
        };
        let snapshot = marked(old.dir.path())
            .into_iter()
            .find(|file| file.starts_with("snapshots"));
        let snapshot = snapshot.unwrap();
        fs::copy(old.dir.path().join(&snapshot), new.path().join(&snapshot)).unwrap();
        let error = open(new.path(), &older.encryption).unwrap_err();
        assert!(matches!(error, OpenError::Foreign(_)), "{error}");
        assert!(error.to_string().contains(snapshot.to_str().unwrap()), "{error}");
    }
}

#[test]
fn all_that_is_new_and_encryption_are_added_by_one_start() {
    for older in [plain("format-3"), plain("format-5")] {
        let keys = keys();
        let engine = open(older.dir.path(), &keys).unwrap();
        assert!(engine.has_changed_encryption());
        assert_eq!(content(&engine).unwrap(), expected());
        assert_eq!(format(older.dir.path()), encrypted("format-6").format);
    }
}

#[test]
fn a_start_that_was_cut_off_goes_on_with_the_id_that_it_wrote() {
    let (older, done) = (plain("format-3"), plain("format-3"));
    let expected = expected();
    drop(open(done.dir.path(), &done.encryption).unwrap());
    // It had written its id, and the first new files.
    fs::copy(
        done.dir.path().join("DIRECTORY_ID"),
        older.dir.path().join("DIRECTORY_ID"),
    )
    .unwrap();
    let id = fs::read(older.dir.path().join("DIRECTORY_ID")).unwrap();
    for format_then in [
        "statehold data format 3\n",
        "statehold data format 5, ids are added\n",
    ] {
        let cut = after_kill(older.dir.path());
        fs::write(cut.path().join("FORMAT"), format_then).unwrap();
        let engine = open(cut.path(), &older.encryption).unwrap();
        assert_eq!(content(&engine).unwrap(), expected);
        assert_eq!(fs::read(cut.path().join("DIRECTORY_ID")).unwrap(), id);
        assert_eq!(format(cut.path()), older.format);
    }
}

#[test]
fn a_damaged_snapshot_does_not_keep_an_older_directory_from_being_opened() {
    let older = plain("format-3");
    let snapshot = marked(older.dir.path())
        .into_iter()
        .find(|file| file.starts_with("snapshots"));
    let path = older.dir.path().join(snapshot.unwrap());
    let good = fs::read(&path).unwrap();
    let mut damaged = good.clone();
    damaged[45] ^= 1;
    fs::write(&path, damaged).unwrap();
    drop(open(older.dir.path(), &older.encryption).unwrap());
    assert_eq!(
        format(older.dir.path()),
        "statehold data format 7, ids are added\n"
    );
    fs::write(&path, good).unwrap();
    drop(open(older.dir.path(), &older.encryption).unwrap());
    assert_eq!(format(older.dir.path()), older.format);
}

#[test]
fn a_directory_that_waits_for_a_snapshot_has_the_session_plane() {
    let older = plain("format-3");
    let snapshot = marked(older.dir.path())
        .into_iter()
        .find(|file| file.starts_with("snapshots"));
    let path = older.dir.path().join(snapshot.unwrap());
    let good = fs::read(&path).unwrap();
    fs::write(&path, &good[..45]).unwrap();
    let engine = open(older.dir.path(), &older.encryption).unwrap();
    fs::write(&path, good).unwrap();
    check_plane(engine, &older.encryption);
}

#[test]
fn records_of_the_session_plane_are_read_where_the_format_does_not_expect_them() {
    let older = plain("format-5");
    let mut engine = open(older.dir.path(), &older.encryption).unwrap();
    let keyspace = Keyspace::Plane;
    let (from, to) = (Bytes::from_static(b"a"), Bytes::from_static(b"z"));
    let (key, value) = (Bytes::from_static(b"key"), Bytes::from_static(b"a record"));
    let writes = [
        Write::RemoveRange { keyspace, from, to },
        Write::Put { keyspace, key, value },
    ];
    engine.write(&writes).unwrap();
    engine.sync().unwrap();
    let expected = content(&engine).unwrap();
    let killed = after_kill(older.dir.path());
    fs::write(killed.path().join("FORMAT"), "statehold data format 5\n").unwrap();
    let engine = open(killed.path(), &older.encryption).unwrap();
    assert_eq!(content(&engine).unwrap(), expected);
}

/// How far a start was when it was cut off while it wrote the database anew.
#[derive(Debug, Clone, Copy)]
enum Step {
    Writing,
    Complete,
    MovedAway,
    /// FORMAT did not say so yet.
    InPlace,
}

/// A directory as a start leaves it that is cut off there. It has written the id of `done`, and the database that is there.
fn cut_off(older: &Older, done: &Path, step: Step) -> TempDir {
    let cut = after_kill(older.dir.path());
    let place = |name: &str| cut.path().join(name);
    if !place("DIRECTORY_ID").exists() {
        fs::copy(done.join("DIRECTORY_ID"), place("DIRECTORY_ID")).unwrap();
        let number = older
            .format
            .replace("format 7", "format 5")
            .replace("format 8", "format 6");
        fs::write(place("FORMAT"), number.replace('\n', ", ids are added\n")).unwrap();
    }
    if matches!(step, Step::MovedAway | Step::InPlace) {
        fs::rename(place("engine"), place("engine.replaced")).unwrap();
    }
    match step {
        Step::Writing => copy(&done.join("engine/keyspaces"), &place("engine.unfinished")),
        Step::Complete | Step::MovedAway => copy(&done.join("engine"), &place("engine.rewritten")),
        Step::InPlace => copy(&done.join("engine"), &place("engine")),
    }
    cut
}

#[test]
fn a_start_that_was_cut_off_while_it_wrote_the_database_anew_loses_nothing() {
    for (older, done) in all().into_iter().zip(all()) {
        drop(open(done.dir.path(), &done.encryption).unwrap());
        for step in [Step::Writing, Step::Complete, Step::MovedAway, Step::InPlace] {
            let cut = cut_off(&older, done.dir.path(), step);
            let engine = open(cut.path(), &older.encryption).unwrap();
            assert_eq!(content(&engine).unwrap(), expected(), "{step:?}");
            assert_eq!(format(cut.path()), older.format, "{step:?}");
            check_plane(engine, &older.encryption);
        }
    }
}

#[test]
fn a_start_with_an_older_directory_may_be_killed_at_any_moment() {
    for older in all() {
        let is_done = AtomicBool::new(false);
        let killed = thread::scope(|scope| {
            let start = scope.spawn(|| {
                let engine = open(older.dir.path(), &older.encryption);
                is_done.store(true, Ordering::Release);
                engine.map(drop)
            });
            let mut killed = Vec::new();
            while !is_done.load(Ordering::Acquire) {
                killed.push(after_kill(older.dir.path()));
            }
            start.join().unwrap().unwrap();
            killed
        });
        for killed in killed {
            let engine = open(killed.path(), &older.encryption).unwrap();
            assert_eq!(content(&engine).unwrap(), expected());
            assert_eq!(format(killed.path()), older.format);
        }
    }
}
