use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cluster::replica::record::LogPoint;
use cluster::{GroupId, Index, Term};
use tempfile::TempDir;

use super::{SnapshotError, SnapshotFiles};

const GROUP: GroupId = GroupId(5);

fn point(index: u64) -> LogPoint {
    LogPoint {
        index: Index(index),
        term: Term(2),
    }
}

fn write(files: &SnapshotFiles, index: u64, chunks: &[&[u8]]) {
    let mut writer = files.writer(GROUP, point(index)).unwrap();
    for chunk in chunks {
        writer.chunk(chunk).unwrap();
    }
    writer.finish().unwrap();
}

/// The newest usable snapshot's index and content.
fn latest(files: &SnapshotFiles, log_start: u64) -> Option<(u64, Vec<Bytes>)> {
    let reader = files.latest(GROUP, Index(log_start)).unwrap()?;
    Some((reader.point().index.0, reader.map(Result::unwrap).collect()))
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn only_file(dir: &Path) -> PathBuf {
    let names = names(dir);
    assert_eq!(names.len(), 1, "{names:?}");
    dir.join(&names[0])
}

#[test]
fn a_snapshot_is_read_as_it_was_written() {
    let dir = TempDir::new().unwrap();
    let files = SnapshotFiles::open(dir.path()).unwrap();
    assert_eq!(latest(&files, 0), None);
    let large = vec![7; 5 << 20];
    write(&files, 9, &[b"first", &large, b"x"]);
    assert_eq!(
        latest(&files, 9),
        Some((9, vec!["first".into(), large.into(), "x".into()]))
    );
    assert!(
        files.latest(GroupId(6), Index(0)).unwrap().is_none(),
        "groups are apart"
    );
}

#[test]
fn an_empty_state_has_a_snapshot_too() {
    let dir = TempDir::new().unwrap();
    let files = SnapshotFiles::open(dir.path()).unwrap();
    write(&files, 3, &[]);
    assert_eq!(latest(&files, 3), Some((3, vec![])));
}

#[test]
fn an_older_snapshot_goes_when_the_newer_one_is_complete() {
    let dir = TempDir::new().unwrap();
    let files = SnapshotFiles::open(dir.path()).unwrap();
    write(&files, 9, &[b"old"]);
    let mut writer = files.writer(GROUP, point(10)).unwrap();
    writer.chunk(b"new").unwrap();
    assert_eq!(latest(&files, 9), Some((9, vec!["old".into()])));
    writer.finish().unwrap();
    assert_eq!(
        names(dir.path()),
        ["group-00000005-000000000000000a-0000000000000002.snapshot"]
    );
}

#[test]
fn an_unfinished_snapshot_leaves_nothing_behind() {
    let dir = TempDir::new().unwrap();
    let files = SnapshotFiles::open(dir.path()).unwrap();
    drop(files.writer(GROUP, point(10)).unwrap());
    assert_eq!(names(dir.path()), Vec::<String>::new());
    // After a kill it is there, and the next start removes it.
    std::mem::forget(files.writer(GROUP, point(10)).unwrap());
    assert_eq!(names(dir.path()).len(), 1);
    let files = SnapshotFiles::open(dir.path()).unwrap();
    assert_eq!(names(dir.path()), Vec::<String>::new());
    assert_eq!(latest(&files, 0), None);
}

#[test]
fn every_flipped_or_missing_byte_is_noticed() {
    let dir = TempDir::new().unwrap();
    let files = SnapshotFiles::open(dir.path()).unwrap();
    write(&files, 9, &[b"some bytes of a chunk", b"another"]);
    let path = only_file(dir.path());
    let good = fs::read(&path).unwrap();
    let mut damaged = Vec::new();
    for position in 0..good.len() {
        for mask in [0x01, 0x80, 0xFF] {
            let mut bytes = good.clone();
            bytes[position] ^= mask;
            damaged.push((format!("byte {position} xor {mask:#x}"), bytes));
        }
        damaged.push((format!("cut at {position}"), good[..position].to_vec()));
    }
    damaged.push(("a byte more".to_owned(), [&good[..], &[0]].concat()));
    for (what, bytes) in damaged {
        fs::write(&path, bytes).unwrap();
        let error = files.latest(GROUP, Index(9)).unwrap_err();
        assert!(
            matches!(error, SnapshotError::NoneUsable { .. }),
            "{what}: {error}"
        );
    }
}

#[test]
fn a_damaged_snapshot_is_passed_over_only_if_the_log_covers_the_gap() {
    let dir = TempDir::new().unwrap();
    let files = SnapshotFiles::open(dir.path()).unwrap();
    write(&files, 9, &[b"old"]);
    let old = only_file(dir.path());
    let kept = fs::read(&old).unwrap();
    write(&files, 20, &[b"new"]);
    let new = only_file(dir.path());
    let mut bytes = fs::read(&new).unwrap();
    bytes[40] ^= 1;
    fs::write(&new, bytes).unwrap();
    fs::write(&old, kept).unwrap();

    assert_eq!(latest(&files, 9), Some((9, vec!["old".into()])));
    let reader = files.latest(GROUP, Index(9)).unwrap().unwrap();
    assert_eq!(reader.passed_over().len(), 1, "the operator is told");
    let error = files.latest(GROUP, Index(10)).unwrap_err();
    assert!(matches!(error, SnapshotError::NoneUsable { .. }), "{error}");
}

#[test]
fn a_file_under_a_wrong_name_is_not_taken_for_another_snapshot() {
    let dir = TempDir::new().unwrap();
    let files = SnapshotFiles::open(dir.path()).unwrap();
    write(&files, 9, &[b"content"]);
    let path = only_file(dir.path());
    fs::rename(
        path,
        dir.path()
            .join("group-00000005-0000000000000063-0000000000000002.snapshot"),
    )
    .unwrap();
    assert!(files.latest(GROUP, Index(1)).is_err());
}

#[test]
fn a_newer_version_is_named() {
    let dir = TempDir::new().unwrap();
    let files = SnapshotFiles::open(dir.path()).unwrap();
    write(&files, 9, &[]);
    let path = only_file(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 2;
    let crc = crc32c::crc32c(&bytes[..29]);
    bytes[29..33].copy_from_slice(&crc.to_be_bytes());
    fs::write(&path, bytes).unwrap();
    let error = files.latest(GROUP, Index(9)).unwrap_err();
    assert!(error.to_string().contains("format version 2"), "{error}");
}

/// Bytes that version 1 wrote. A change of this file is a change of the format: it needs a new version instead.
#[test]
fn a_snapshot_of_version_1_is_read_and_written_as_ever() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    let name = "group-00000005-0000000000000009-0000000000000002.snapshot";
    let dir = TempDir::new().unwrap();
    let files = SnapshotFiles::open(dir.path()).unwrap();
    write(&files, 9, &[b"some bytes of a chunk", b"another"]);
    let written = fs::read(dir.path().join(name)).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(&golden).unwrap();
        fs::write(golden.join(name), &written).unwrap();
    }
    assert_eq!(written, fs::read(golden.join(name)).unwrap());
}
