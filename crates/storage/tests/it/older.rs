//! Directories that older versions of the program wrote: what `damaged.rs` fills, in `tests/golden`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use storage::{Encryption, Engine, OpenError};
use tempfile::TempDir;

use crate::damaged::{CONFIG, Ended, content, files, filled};
use crate::killed::after_kill;

/// A directory of format 3 or 4, and what it is encrypted with.
struct Older {
    dir: TempDir,
    encryption: Encryption,
    format: &'static str,
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn plain() -> Older {
    Older {
        dir: after_kill(&golden("format-3")),
        encryption: Encryption::none(),
        format: "statehold data format 5\n",
    }
}

fn encrypted() -> Older {
    let dir = after_kill(&golden("format-4"));
    // Git does not keep who may read a file.
    let keys = TempDir::new().unwrap();
    let file = keys.path().join("keys");
    fs::copy(golden("format-4.keys"), &file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    Older {
        dir,
        encryption: Encryption::from_file(&file).unwrap(),
        format: "statehold data format 6, encrypted\n",
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
    for older in [plain(), encrypted()] {
        let (_, expected) = filled(&Encryption::none(), "ours", Ended::Killed);
        let engine = open(older.dir.path(), &older.encryption).unwrap();
        assert_eq!(content(&engine).unwrap(), expected);
        assert!(!engine.has_changed_encryption(), "only ids were added");
        assert_eq!(format(older.dir.path()), older.format);
        drop(engine);
        let engine = open(older.dir.path(), &older.encryption).unwrap();
        assert_eq!(content(&engine).unwrap(), expected);
    }
}

#[test]
fn a_file_of_an_older_version_is_refused_once_all_are_written_anew() {
    for older in [plain(), encrypted()] {
        drop(open(older.dir.path(), &older.encryption).unwrap());
        let new = after_kill(older.dir.path());
        let old = if older.format.contains("encrypted") {
            encrypted()
        } else {
            plain()
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
fn ids_and_encryption_are_added_by_one_start() {
    let (older, keys) = (plain(), encrypted());
    let (_, expected) = filled(&Encryption::none(), "ours", Ended::Killed);
    let engine = open(older.dir.path(), &keys.encryption).unwrap();
    assert!(engine.has_changed_encryption());
    assert_eq!(content(&engine).unwrap(), expected);
    assert_eq!(format(older.dir.path()), keys.format);
}

#[test]
fn a_start_that_was_cut_off_goes_on_with_the_id_that_it_wrote() {
    let (older, done) = (plain(), plain());
    let (_, expected) = filled(&Encryption::none(), "ours", Ended::Killed);
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
    let older = plain();
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
        "statehold data format 5, ids are added\n"
    );
    fs::write(&path, good).unwrap();
    drop(open(older.dir.path(), &older.encryption).unwrap());
    assert_eq!(format(older.dir.path()), older.format);
}
