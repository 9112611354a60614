use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cluster::replica::record::LogPoint;
use cluster::{GroupId, Index, Term};
use tempfile::TempDir;

use super::{CRC_LEN, HEAD_LEN, Heads, SnapshotError, SnapshotFiles, SnapshotWriter};
use crate::EncryptionError;
use crate::directory_id::{DirectoryId, DirectoryMark};
use crate::encryption::{Encryption, Stamp, TAG_LEN};

const GROUP: GroupId = GroupId(5);
const ID: DirectoryId = DirectoryId::from_bytes([9; 16]);
const OTHER: DirectoryId = DirectoryId::from_bytes([10; 16]);

/// Plain snapshots of the directory with `ID`.
fn open(dir: &Path) -> SnapshotFiles {
    open_with(dir, Encryption::none())
}

fn open_with(dir: &Path, encryption: Encryption) -> SnapshotFiles {
    open_as(dir, encryption, ID, false)
}

fn open_as(dir: &Path, encryption: Encryption, id: DirectoryId, accepts_unmarked: bool) -> SnapshotFiles {
    let mark = DirectoryMark { id, accepts_unmarked };
    SnapshotFiles::open(dir, encryption, mark).unwrap()
}

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
    let files = open(dir.path());
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
    let files = open(dir.path());
    write(&files, 3, &[]);
    assert_eq!(latest(&files, 3), Some((3, vec![])));
}

#[test]
fn an_older_snapshot_goes_when_the_newer_one_is_complete() {
    let dir = TempDir::new().unwrap();
    let files = open(dir.path());
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
    let files = open(dir.path());
    drop(files.writer(GROUP, point(10)).unwrap());
    assert_eq!(names(dir.path()), Vec::<String>::new());
    // After a kill it is there, and the next start removes it.
    std::mem::forget(files.writer(GROUP, point(10)).unwrap());
    assert_eq!(names(dir.path()).len(), 1);
    let files = open(dir.path());
    assert_eq!(names(dir.path()), Vec::<String>::new());
    assert_eq!(latest(&files, 0), None);
}

#[test]
fn every_flipped_or_missing_byte_is_noticed() {
    for encryption in [Encryption::none(), Encryption::with_keys(&[1])] {
        check_every_flip(encryption);
    }
}

fn check_every_flip(encryption: Encryption) {
    let dir = TempDir::new().unwrap();
    let files = open_with(dir.path(), encryption);
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
    let files = open(dir.path());
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
    let files = open(dir.path());
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
    let files = open(dir.path());
    write(&files, 9, &[]);
    let path = only_file(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 5;
    let crc = crc32c::crc32c(&bytes[..29]);
    bytes[29..33].copy_from_slice(&crc.to_be_bytes());
    fs::write(&path, bytes).unwrap();
    let error = files.latest(GROUP, Index(9)).unwrap_err();
    assert!(error.to_string().contains("format version 5"), "{error}");
}

const GOLDEN: &str = "group-00000005-0000000000000009-0000000000000002.snapshot";

fn golden(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(version)
        .join(GOLDEN)
}

const GOLDEN_CHUNKS: [&[u8]; 2] = [b"some bytes of a chunk", b"another"];

/// Bytes that were written before. A change of these files is a change of the format: it needs a new version instead.
fn check_written(version: &str, encryption: Encryption) {
    let dir = TempDir::new().unwrap();
    let keys = encryption.with_salt([7; 16]);
    let files = open_with(dir.path(), encryption);
    let mut writer = SnapshotWriter::create_with(files, (GROUP, point(9)), keys).unwrap();
    GOLDEN_CHUNKS
        .iter()
        .for_each(|chunk| writer.chunk(chunk).unwrap());
    writer.finish().unwrap();
    let written = fs::read(dir.path().join(GOLDEN)).unwrap();
    let golden = golden(version);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(golden.parent().unwrap()).unwrap();
        fs::write(&golden, &written).unwrap();
    }
    assert_eq!(written, fs::read(golden).unwrap());
}

fn check_read(version: &str, encryption: Encryption) {
    let dir = TempDir::new().unwrap();
    fs::copy(golden(version), dir.path().join(GOLDEN)).unwrap();
    let files = open_as(dir.path(), encryption, ID, true);
    let chunks = GOLDEN_CHUNKS.map(Bytes::from_static).to_vec();
    assert_eq!(latest(&files, 9), Some((9, chunks)));
}

#[test]
fn a_snapshot_of_version_3_is_read_and_written_as_ever() {
    check_written("v3", Encryption::none());
    check_read("v3", Encryption::none());
}

#[test]
fn an_encrypted_snapshot_is_read_and_written_as_ever() {
    check_written("v4", Encryption::with_keys(&[1, 2]));
    check_read("v4", Encryption::with_keys(&[1, 2]));
}

#[test]
fn snapshots_from_before_directories_had_ids_are_read() {
    check_read("v1", Encryption::none());
    check_read("v2", Encryption::with_keys(&[1, 2]));
}

#[test]
fn a_snapshot_of_another_directory_is_refused_even_if_an_older_one_is_there() {
    for encryption in [Encryption::none(), Encryption::with_keys(&[1])] {
        let (dir, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let files = open_with(dir.path(), encryption.clone());
        write(&files, 9, &[b"old"]);
        write(
            &open_as(elsewhere.path(), encryption, OTHER, false),
            20,
            &[b"theirs"],
        );
        let theirs = only_file(elsewhere.path());
        let name = theirs.file_name().unwrap();
        fs::copy(&theirs, dir.path().join(name)).unwrap();
        let error = files.latest(GROUP, Index(9)).unwrap_err();
        assert!(matches!(error, SnapshotError::Foreign(_)), "{error}");
        let error = error.to_string();
        assert!(error.contains(name.to_str().unwrap()), "{error}");
        assert!(
            error.contains("belongs to another server's data directory"),
            "{error}"
        );
    }
}

#[test]
fn a_snapshot_without_an_id_is_refused_where_every_file_has_one() {
    let dir = TempDir::new().unwrap();
    fs::copy(golden("v1"), dir.path().join(GOLDEN)).unwrap();
    let error = open(dir.path()).latest(GROUP, Index(9)).unwrap_err();
    assert!(matches!(error, SnapshotError::Foreign(_)), "{error}");
}

#[test]
fn an_id_cannot_be_exchanged_by_somebody_who_has_no_key() {
    let dir = TempDir::new().unwrap();
    let encryption = Encryption::with_keys(&[1]);
    write(
        &open_as(dir.path(), encryption.clone(), OTHER, false),
        9,
        &[b"theirs"],
    );
    let path = only_file(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    let crc_at = HEAD_LEN + DirectoryId::LEN + Stamp::LEN;
    bytes[HEAD_LEN..HEAD_LEN + DirectoryId::LEN].copy_from_slice(ID.as_bytes());
    let crc = crc32c::crc32c(&bytes[..crc_at]);
    bytes[crc_at..crc_at + CRC_LEN].copy_from_slice(&crc.to_be_bytes());
    fs::write(&path, bytes).unwrap();
    let error = open_with(dir.path(), encryption)
        .latest(GROUP, Index(9))
        .unwrap_err();
    assert!(matches!(error, SnapshotError::Encryption(_)), "{error}");
}

#[test]
fn without_its_key_a_snapshot_is_an_error_even_if_an_older_one_is_there() {
    let dir = TempDir::new().unwrap();
    let files = open_with(dir.path(), Encryption::with_keys(&[1]));
    write(&files, 9, &[b"old"]);
    let old = only_file(dir.path());
    let kept = fs::read(&old).unwrap();
    let newer = open_with(dir.path(), Encryption::with_keys(&[1, 2]));
    write(&newer, 20, &[b"new"]);
    fs::write(&old, kept).unwrap();
    let error = files.latest(GROUP, Index(9)).unwrap_err();
    assert!(error.to_string().contains("is encrypted with key 2"), "{error}");
    assert!(
        newer
            .latest(GROUP, Index(9))
            .unwrap()
            .unwrap()
            .passed_over()
            .is_empty()
    );
}

#[test]
fn chunks_cannot_be_left_out_or_exchanged_by_somebody_who_has_no_key() {
    let dir = TempDir::new().unwrap();
    let encryption = Encryption::with_keys(&[1]);
    let files = open_with(dir.path(), encryption);
    write(&files, 9, &[b"chunk one", b"chunk two"]);
    let path = only_file(dir.path());
    let good = fs::read(&path).unwrap();
    let (head, len) = (
        HEAD_LEN + DirectoryId::LEN + Stamp::LEN + CRC_LEN,
        8 + 9 + TAG_LEN,
    );
    let mut swapped = good.clone();
    for (position, number) in [(head, 1_u32), (head + len, 0)] {
        let other = if number == 1 { head + len } else { head };
        let data = good[other + 8..other + len].to_vec();
        let crc = super::chunk_checksum(1 - number, &data);
        swapped[position + 4..position + 8].copy_from_slice(&crc.to_be_bytes());
        swapped[position + 8..position + len].copy_from_slice(&data);
    }
    let mut shorter = good;
    shorter.drain(head + len..head + 2 * len);
    let footer = shorter.len() - 32;
    shorter[footer..footer + 12].copy_from_slice(&super::footer(1, 9));
    let crc = crc32c::crc32c(&shorter[footer..footer + 28]);
    shorter[footer + 28..].copy_from_slice(&crc.to_be_bytes());
    for forged in [swapped, shorter] {
        fs::write(&path, &forged).unwrap();
        let error = files.latest(GROUP, Index(9)).unwrap_err();
        let is_found = matches!(
            error,
            SnapshotError::Encryption(EncryptionError::NotAuthentic { .. })
        );
        assert!(is_found, "{error}");
        assert_eq!(fs::read(&path).unwrap(), forged);
    }
}

#[test]
fn snapshots_are_written_anew_with_another_key_and_plain() {
    let dir = TempDir::new().unwrap();
    write(&open(dir.path()), 9, &[b"some bytes", b"more"]);
    let keys = |ids: &[u32]| Encryption::with_keys(ids);
    let steps = [
        keys(&[1]),
        keys(&[1, 2]),
        keys(&[2]).reading_only(),
        Encryption::none(),
    ];
    for encryption in steps {
        let files = open_with(dir.path(), encryption.clone());
        files.rewrite().unwrap();
        assert_eq!(
            latest(&files, 9),
            Some((9, vec!["some bytes".into(), "more".into()]))
        );
        let mut heads = Heads::default();
        super::read_heads(dir.path(), &mut heads).unwrap();
        assert_eq!(heads.stamps[0].1.map(|stamp| stamp.key), encryption.key());
        let bytes = fs::read(only_file(dir.path())).unwrap();
        let is_plain = bytes.windows(10).any(|window| window == b"some bytes");
        assert_eq!(is_plain, encryption.key().is_none());
    }
}
