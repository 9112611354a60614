//! The bytes of the log, and what is made of them when they are damaged, torn or old.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cluster::replica::record::entry_key;
use cluster::{GroupId, Index, Keyspace, Write};
use tempfile::TempDir;

use super::last;
use super::record::{self, Place};
use super::segment::{self, Header};
use super::{Content, SegmentSizes, Site, Wal, WalError};
use crate::directory_id::{DirectoryId, DirectoryMark};
use crate::encryption::Encryption;
use crate::{EncryptionError, KeyId};

const SIZES: SegmentSizes = SegmentSizes {
    whole: 8 << 10,
    first: 8 << 10,
};

const ID: DirectoryId = DirectoryId::from_bytes([9; 16]);

fn put(number: u64, len: usize) -> Write {
    Write::Put {
        keyspace: Keyspace::Queue,
        key: Bytes::copy_from_slice(&number.to_be_bytes()),
        value: vec![number as u8; len].into(),
    }
}

fn every_kind() -> Vec<Write> {
    let (keyspace, key) = (Keyspace::Sessions, Bytes::from_static(b"key"));
    let (from, to) = (Bytes::from_static(b"from"), Bytes::from_static(b"to"));
    vec![
        Write::Put {
            keyspace: Keyspace::Log,
            key: entry_key(GroupId(7), Index(9)),
            value: Bytes::from_static(b"an entry"),
        },
        Write::Remove {
            keyspace: Keyspace::Meta,
            key: key.clone(),
        },
        Write::RemoveOnce { keyspace, key },
        Write::RemoveRange {
            keyspace: Keyspace::Retained,
            from: from.clone(),
            to: to.clone(),
        },
        Write::RemoveRangeOnce {
            keyspace: Keyspace::Received,
            from,
            to,
        },
    ]
}

/// Writes to the keyspace of the session plane, which is newer than the others.
fn of_plane() -> Vec<Write> {
    let (keyspace, key) = (Keyspace::Plane, Bytes::from_static(b"key"));
    vec![
        Write::Put {
            keyspace,
            key: key.clone(),
            value: Bytes::from_static(b"a record"),
        },
        Write::Remove { keyspace, key },
    ]
}

fn new_dir() -> TempDir {
    let dir = TempDir::new().unwrap();
    assert!(Wal::make(dir.path(), ID, SIZES).unwrap());
    dir
}

fn site(dir: &Path) -> Site<'_> {
    let mark = DirectoryMark {
        id: ID,
        accepts_unmarked: false,
    };
    let says_last = true;
    Site { dir, says_last, mark }
}

/// Opens a plain log, and returns it with its records.
fn open(dir: &Path) -> Result<(Wal, Vec<(u64, Content)>), WalError> {
    open_with(dir, &Encryption::none())
}

fn open_with(dir: &Path, encryption: &Encryption) -> Result<(Wal, Vec<(u64, Content)>), WalError> {
    let mut found = Vec::new();
    let wal = Wal::open(site(dir), SIZES, encryption, &mut |sequence, content| {
        found.push((sequence, content));
        Ok(())
    })?;
    Ok((wal, found))
}

/// A log with these groups of batches, each synced but the last, which is handed over.
fn write(dir: &Path, groups: &[&[Write]]) -> Vec<(u64, Content)> {
    write_with(dir, &Encryption::none(), groups)
}

fn write_with(dir: &Path, encryption: &Encryption, groups: &[&[Write]]) -> Vec<(u64, Content)> {
    let (mut wal, mut all) = open_with(dir, encryption).unwrap();
    for (number, group) in groups.iter().enumerate() {
        for batch in *group {
            wal.append(std::slice::from_ref(batch)).unwrap();
            all.push((wal.last(), Content::Batch(vec![batch.clone()])));
        }
        if number + 1 < groups.len() {
            wal.sync().unwrap();
        }
    }
    wal.hand_over().unwrap();
    all
}

fn copy(dir: &Path) -> TempDir {
    let copy = TempDir::new().unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

/// Segment files, without those that were not begun.
fn begun(dir: &Path) -> Vec<u64> {
    let mut segments = segment::list(dir).unwrap().segments;
    segments.retain(|number| {
        let bytes = fs::read(segment::path(dir, *number)).unwrap();
        Header::decode(&bytes, *number).is_some()
    });
    segments
}

/// The bytes of a segment up to the end of its last record.
fn written(dir: &Path, number: u64) -> Vec<u8> {
    let mut bytes = fs::read(segment::path(dir, number)).unwrap();
    let header = Header::decode(&bytes, number).unwrap();
    let (end, _) = super::recovery::walk::<()>(&bytes, header, None, &mut |_, _, _| Ok(())).unwrap();
    bytes.truncate(end);
    bytes
}

/// Writes a segment and compares it with the golden one.
fn check_written(name: &str, writes: &[Write], encryption: &Encryption) {
    let path = golden(name);
    let mut bytes = Vec::new();
    let keys = encryption.with_salt([7; 16]);
    let cipher = keys.as_ref().map(|(_, keys)| segment::cipher(keys, NUMBER));
    header(Some(ID), encryption).encode(&mut bytes, cipher.as_ref());
    let place = |sequence, durable| Place {
        segment: NUMBER,
        sequence,
        durable,
    };
    record::encode_batch(&mut bytes, place(5, 4), cipher.as_ref(), writes);
    record::encode_checkpoint(&mut bytes, place(6, 5), cipher.as_ref(), 3);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &bytes).unwrap();
    }
    assert_eq!(bytes, fs::read(&path).unwrap());
}

/// Reads a golden segment that has these writes.
fn check_read(name: &str, writes: Vec<Write>, directory: Option<DirectoryId>, encryption: &Encryption) {
    let path = golden(name);
    let golden = fs::read(&path).unwrap();
    let header = header(directory, encryption);
    assert_eq!(Header::decode(&golden, NUMBER), Some(header));
    let cipher = header.cipher(&path, &golden, encryption).unwrap();
    let mut found = Vec::new();
    super::recovery::walk::<()>(&golden, header, cipher.as_ref(), &mut |_, sequence, content| {
        found.push((sequence, content.unwrap()));
        Ok(())
    })
    .unwrap();
    let expected = [
        (5, Content::Batch(writes)),
        (6, Content::Checkpoint { through: 3 }),
    ];
    assert_eq!(found, expected);
}

/// The number of golden segments.
const NUMBER: u64 = 0x1122;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// The header of a golden segment.
fn header(directory: Option<DirectoryId>, encryption: &Encryption) -> Header {
    Header {
        segment: NUMBER,
        first: 5,
        durable: 4,
        directory,
        stamp: encryption.with_salt([7; 16]).map(|(stamp, _)| stamp),
    }
}

#[test]
fn a_segment_of_version_3_is_read_and_written_as_ever() {
    check_written("v3/segment", &every_kind(), &Encryption::none());
    check_read("v3/segment", every_kind(), Some(ID), &Encryption::none());
}

#[test]
fn an_encrypted_segment_is_read_and_written_as_ever() {
    let keys = Encryption::with_keys(&[1, 2]);
    check_written("v4/segment", &every_kind(), &keys);
    check_read("v4/segment", every_kind(), Some(ID), &keys);
}

#[test]
fn writes_to_the_session_plane_are_read_and_written_as_ever() {
    let golden = [
        ("v3/plane.segment", Encryption::none()),
        ("v4/plane.segment", Encryption::with_keys(&[1, 2])),
    ];
    for (name, encryption) in golden {
        check_written(name, &of_plane(), &encryption);
        check_read(name, of_plane(), Some(ID), &encryption);
    }
}

#[test]
fn segments_from_before_directories_had_ids_are_read() {
    check_read("v1/segment", every_kind(), None, &Encryption::none());
    check_read("v2/segment", every_kind(), None, &Encryption::with_keys(&[1, 2]));
}

#[test]
fn every_flipped_byte_is_an_error_or_in_the_last_group_a_cut_tail() {
    for encryption in [Encryption::none(), Encryption::with_keys(&[1])] {
        check_every_flip(&encryption);
    }
}

fn check_every_flip(encryption: &Encryption) {
    let dir = new_dir();
    let groups: [&[Write]; 3] = [&every_kind(), &[put(1, 50), put(2, 60)], &[put(3, 70)]];
    let all = write_with(dir.path(), encryption, &groups);
    let synced = all.len() - 1;
    let number = begun(dir.path())[0];
    let good = written(dir.path(), number);
    let last = record::batch_len(&[put(3, 70)], encryption.key().is_some());
    for position in 0..good.len() {
        for flip in [0x01, 0x80] {
            let damaged = copy(dir.path());
            let path = segment::path(damaged.path(), number);
            let mut bytes = fs::read(&path).unwrap();
            bytes[position] ^= flip;
            fs::write(&path, bytes).unwrap();
            match open_with(damaged.path(), encryption) {
                Ok((_, found)) => {
                    assert_eq!(found, all[..synced], "byte {position}");
                    assert!(position >= good.len() - last);
                }
                Err(error @ WalError::Damaged { offset, .. }) => {
                    assert!(offset as usize <= position, "{error}");
                    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
                    assert!(
                        fs::metadata(&path).unwrap().len() > good.len() as u64,
                        "nothing was cut"
                    );
                }
                Err(error) => panic!("byte {position}: {error}"),
            }
        }
    }
}

/// Changes a byte, and makes the checksum of the header or of the record that it is in fit again.
fn forge(bytes: &mut [u8], position: usize, header_len: usize, records: &[usize]) {
    bytes[position] ^= 1;
    if position < header_len {
        let crc = crc32c::crc32c(&bytes[12..header_len]);
        bytes[8..12].copy_from_slice(&crc.to_be_bytes());
        return;
    }
    let number = records.iter().rposition(|start| *start <= position).unwrap();
    let (start, end) = (records[number], records.get(number + 1).copied());
    let end = end.unwrap_or(bytes.len());
    let crc = crc32c::crc32c(&bytes[start + 8..end]);
    bytes[start + 4..start + 8].copy_from_slice(&crc.to_be_bytes());
}

#[test]
fn what_was_changed_by_somebody_who_has_no_key_is_an_error_and_nothing_is_cut() {
    let encryption = Encryption::with_keys(&[1]);
    let dir = new_dir();
    write_with(
        dir.path(),
        &encryption,
        &[&[put(1, 20)], &[put(2, 20)], &[put(3, 20)], &[]],
    );
    let number = begun(dir.path())[0];
    let good = written(dir.path(), number);
    let header_len = Header::decode(&good, number).unwrap().len();
    let len = record::batch_len(&[put(1, 20)], true);
    let records: Vec<_> = (header_len..good.len()).step_by(len).collect();
    for position in 12..good.len() {
        let in_record = position.checked_sub(header_len).map(|position| position % len);
        // Magic, checksum, version, length, segment and sequence: with another one there is no record at that place.
        if in_record.is_some_and(|place| place <= 8 || (12..32).contains(&place))
            || (12..32).contains(&position)
        {
            continue;
        }
        let forged = copy(dir.path());
        let path = segment::path(forged.path(), number);
        let mut bytes = good.clone();
        forge(&mut bytes, position, header_len, &records);
        // The file has the zeros that were behind.
        bytes.resize(usize::try_from(fs::metadata(&path).unwrap().len()).unwrap(), 0);
        fs::write(&path, &bytes).unwrap();
        match open_with(forged.path(), &encryption) {
            Err(WalError::Encryption(error)) => {
                assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
                assert_eq!(fs::read(&path).unwrap(), bytes, "nothing was cut");
            }
            // Neither the padding nor what a later one says to be durable changes what is read.
            Ok((_, found)) if in_record.is_some_and(|place| place >= len - 8) => assert_eq!(found.len(), 3),
            other => panic!("byte {position}: {other:?}"),
        }
    }
}

#[test]
fn a_record_of_another_segment_or_time_is_not_taken() {
    let encryption = Encryption::with_keys(&[1]);
    let dirs = [new_dir(), new_dir()];
    for (dir, byte) in dirs.iter().zip(0..) {
        write_with(
            dir.path(),
            &encryption,
            &[&[put(byte, 20)], &[put(byte, 30)], &[]],
        );
    }
    let number = begun(dirs[0].path())[0];
    let [one, mut other] = dirs.each_ref().map(|dir| written(dir.path(), number));
    let header_len = Header::decode(&one, number).unwrap().len();
    other[header_len..].copy_from_slice(&one[header_len..]);
    fs::write(segment::path(dirs[1].path(), number), &other).unwrap();
    let error = open_with(dirs[1].path(), &encryption).unwrap_err();
    let expected = WalError::Encryption(EncryptionError::NotAuthentic {
        file: segment::path(dirs[1].path(), number),
        offset: header_len as u64,
        key: KeyId(1),
    });
    assert_eq!(error.to_string(), expected.to_string());
}

#[test]
fn without_the_key_nothing_is_taken_for_a_torn_tail() {
    let dir = new_dir();
    let all = write_with(
        dir.path(),
        &Encryption::with_keys(&[1]),
        &[&[put(1, 20)], &[put(2, 20)]],
    );
    let number = begun(dir.path())[0];
    let before = fs::read(segment::path(dir.path(), number)).unwrap();
    for wrong in [Encryption::none(), Encryption::with_keys(&[2])] {
        let error = open_with(dir.path(), &wrong).unwrap_err();
        assert!(matches!(error, WalError::Encryption(_)), "{error}");
        assert_eq!(fs::read(segment::path(dir.path(), number)).unwrap(), before);
    }
    let (_, found) = open_with(dir.path(), &Encryption::with_keys(&[1, 2])).unwrap();
    assert_eq!(found, all);
}

#[test]
fn of_a_torn_group_the_records_before_the_tear_stay() {
    let dir = new_dir();
    let last = [put(2, 100), put(3, 100), put(4, 100)];
    let all = write(dir.path(), &[&[put(1, 100)], &last]);
    let number = begun(dir.path())[0];
    let len = record::batch_len(&last[..1], false);
    let end = written(dir.path(), number).len();
    for kept in 0..3 {
        // The disk wrote the records in any order: the one after the last that is kept is missing, the others are there.
        let torn = copy(dir.path());
        let path = segment::path(torn.path(), number);
        let mut bytes = fs::read(&path).unwrap();
        let hole = end - (3 - kept) * len;
        bytes[hole..hole + len].fill(0);
        fs::write(&path, bytes).unwrap();
        let (mut wal, found) = open(torn.path()).unwrap();
        assert_eq!(found, all[..1 + kept]);
        wal.append(&[put(9, 10)]).unwrap();
        wal.sync().unwrap();
        drop(wal);
        let (_, found) = open(torn.path()).unwrap();
        assert_eq!(found.len(), 2 + kept);
        assert_eq!(
            found[1 + kept],
            (2 + kept as u64, Content::Batch(vec![put(9, 10)]))
        );
    }
}

#[test]
fn a_group_over_two_segments_that_was_torn_in_the_first_is_cut_there() {
    let dir = new_dir();
    let last = [put(2, 3_000), put(3, 3_000), put(4, 3_000), put(5, 3_000)];
    let all = write(dir.path(), &[&[put(1, 100)], &last]);
    let segments = begun(dir.path());
    assert_eq!(segments.len(), 2);
    let path = segment::path(dir.path(), segments[0]);
    let mut bytes = fs::read(&path).unwrap();
    let at = written(dir.path(), segments[0]).len() - 10;
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let (mut wal, found) = open(dir.path()).unwrap();
    assert_eq!(found, all[..2]);
    assert_eq!(begun(dir.path()), segments[..1]);
    wal.append(&[put(9, 10)]).unwrap();
    wal.sync().unwrap();
    drop(wal);
    assert_eq!(open(dir.path()).unwrap().1.len(), 3);
}

#[test]
fn a_missing_segment_is_an_error() {
    let dir = new_dir();
    let batches: Vec<_> = (1..10).map(|number| put(number, 3_000)).collect();
    let mut groups: Vec<_> = batches.chunks(1).collect();
    // The last one is synced as well.
    groups.push(&[]);
    write(dir.path(), &groups);
    let segments = begun(dir.path());
    assert!(segments.len() > 3);
    for (position, number) in segments.iter().enumerate() {
        let copy = copy(dir.path());
        fs::remove_file(segment::path(copy.path(), *number)).unwrap();
        let error = open(copy.path()).unwrap_err();
        match position {
            0 => assert!(matches!(error, WalError::Incomplete { needed: 1, .. }), "{error}"),
            // Nothing behind it says that it was there.
            last if last == segments.len() - 1 => {
                assert!(matches!(error, WalError::SegmentLost { .. }), "{error}");
            }
            _ => assert!(matches!(error, WalError::Damaged { .. }), "{error}"),
        }
    }
    for number in segments {
        fs::remove_file(segment::path(dir.path(), number)).unwrap();
    }
    for number in segment::list(dir.path()).unwrap().segments {
        fs::remove_file(segment::path(dir.path(), number)).unwrap();
    }
    assert!(matches!(open(dir.path()).unwrap_err(), WalError::Missing { .. }));
}

#[test]
fn a_log_that_is_shorter_than_it_was_is_an_error() {
    let dir = new_dir();
    let (mut wal, _) = open(dir.path()).unwrap();
    for number in 1..4 {
        wal.append(&[put(number, 100)]).unwrap();
        wal.sync().unwrap();
    }
    wal.note_last().unwrap();
    drop(wal);
    let number = begun(dir.path())[0];
    let damage = |change: &dyn Fn(&Path)| {
        let copy = copy(dir.path());
        change(&segment::path(copy.path(), number));
        open(copy.path()).map(drop).unwrap_err().to_string()
    };
    let len = fs::metadata(segment::path(dir.path(), number)).unwrap().len();
    let zeroed = damage(&|path| fs::write(path, vec![0; usize::try_from(len).unwrap()]).unwrap());
    assert!(zeroed.contains("has no header any more"), "{zeroed}");
    let cut = |len| {
        damage(&|path| {
            let file = File::options().write(true).open(path).unwrap();
            file.set_len(len).unwrap();
        })
    };
    assert!(cut(len - 1).contains("is shorter than it was"));
    let end = written(dir.path(), number).len();
    // Zeros in place of the last record, which was synced: the file is as long as ever.
    let last = damage(&|path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[end - 100..].fill(0);
        fs::write(path, bytes).unwrap();
    });
    assert!(last.contains("record 3 cannot be read"), "{last}");
    fs::remove_file(last::path(dir.path())).unwrap();
    assert!(matches!(open(dir.path()).unwrap_err(), WalError::LastLost { .. }));
    // A log of before says nothing, and is taken as it is.
    let before = Site {
        says_last: false,
        ..site(dir.path())
    };
    drop(Wal::open(before, SIZES, &Encryption::none(), &mut |_, _| Ok(())).unwrap());
    open(dir.path()).unwrap();
}

#[test]
fn what_a_file_held_in_an_earlier_use_is_never_read_again() {
    let mut dir = new_dir();
    let (mut wal, _) = open(dir.path()).unwrap();
    let mut newest = 0;
    for round in 1..60_u64 {
        for _ in 0..3 {
            newest += 1;
            wal.append(&[put(newest, 500)]).unwrap();
        }
        wal.sync().unwrap();
        if round % 3 == 0 {
            wal.note_checkpoint(wal.last()).unwrap();
            wal.sync().unwrap();
            newest = wal.last();
        }
        if round % 10 == 0 {
            // The copy may miss what the thread beside does, as after a crash.
            drop(wal);
            dir = copy(dir.path());
            let (again, found) = open(dir.path()).unwrap();
            assert_eq!(found.last().unwrap().0, newest, "all is there");
            assert!(found.is_sorted_by(|before, after| before.0 + 1 == after.0));
            wal = again;
        }
    }
    let all = segment::list(dir.path()).unwrap();
    assert!(
        all.segments.len() + all.spares.len() < 12,
        "files are used again: {all:?}"
    );
}

#[test]
fn segments_with_entries_of_a_log_stay_until_the_entries_are_removed() {
    let entry = |index| Write::Put {
        keyspace: Keyspace::Log,
        key: entry_key(GroupId(1), Index(index)),
        value: vec![1; 3_000].into(),
    };
    let dir = new_dir();
    let (mut wal, _) = open(dir.path()).unwrap();
    for index in 1..=10 {
        wal.append(&[entry(index)]).unwrap();
        wal.sync().unwrap();
    }
    wal.note_checkpoint(wal.last()).unwrap();
    wal.sync().unwrap();
    let before = wal.full.len();
    assert!(before >= 4);
    let remove = Write::RemoveRangeOnce {
        keyspace: Keyspace::Log,
        from: entry_key(GroupId(1), Index(1)),
        to: entry_key(GroupId(1), Index(6)),
    };
    wal.append(&[remove]).unwrap();
    assert_eq!(wal.full.len(), before, "the removal is not durable");
    wal.sync().unwrap();
    assert!((1..before).contains(&wal.full.len()));
    drop(wal);
    let (_, found) = open(dir.path()).unwrap();
    let has = |index| found.contains(&(index, Content::Batch(vec![entry(index)])));
    assert!((6..=10).all(has));
    assert!(!has(1));
}

#[test]
fn a_batch_larger_than_a_segment_is_kept_whole() {
    let dir = new_dir();
    let groups: [&[Write]; 4] = [&[put(1, 10)], &[put(2, 100_000)], &[put(3, 10)], &[]];
    let all = write(dir.path(), &groups);
    let (wal, found) = open(dir.path()).unwrap();
    assert_eq!(found, all);
    let mut read = Vec::new();
    wal.read(&mut |sequence, content| {
        read.push((sequence, content));
        Ok(())
    })
    .unwrap();
    assert_eq!(read, all);
}

#[test]
fn a_start_that_writes_nothing_leaves_no_more_files() {
    let dir = new_dir();
    for _ in 0..5 {
        open(dir.path()).unwrap();
    }
    let all = segment::list(dir.path()).unwrap();
    assert_eq!(all.segments.len() + all.spares.len(), 1);
}

#[test]
fn a_spare_file_of_another_server_is_removed_and_not_used() {
    let dir = new_dir();
    drop(open(dir.path()).unwrap());
    let [zeroed, own, theirs, older, other] =
        [8, 9, 10, 11, 12].map(|number| segment::spare_path(dir.path(), number));
    fs::write(zeroed, [0; 8 << 10]).unwrap();
    let mut header = header(Some(ID), &Encryption::none());
    let mut bytes = Vec::new();
    header.encode(&mut bytes, None);
    fs::write(own, bytes).unwrap();
    header.directory = Some(DirectoryId::from_bytes([10; 16]));
    let mut bytes = Vec::new();
    header.encode(&mut bytes, None);
    fs::write(theirs, bytes).unwrap();
    fs::copy(golden("v1/segment"), older).unwrap();
    fs::write(other, b"anything").unwrap();
    let sorted = segment::sort_spares(dir.path(), vec![8, 9, 10, 11, 12], ID).unwrap();
    assert_eq!(sorted, (vec![8, 9], vec![10, 11, 12]));
    drop(open(dir.path()).unwrap());
    let spares = segment::list(dir.path()).unwrap().spares;
    assert!(spares.iter().all(|spare| *spare < 10), "{spares:?}");
}

#[test]
fn spare_files_are_made_ahead_once_the_log_is_used_and_each_is_used_once() {
    let dir = new_dir();
    for start in 0..4 {
        let (mut wal, _) = open(dir.path()).unwrap();
        for round in 0..30 {
            wal.append(&[put(round, 3_000)]).unwrap();
            wal.sync().unwrap();
        }
        // The thread ends when it has done what it was doing, so there is something to be found.
        drop(wal);
        let all = segment::list(dir.path()).unwrap();
        assert!(all.spares.len() <= 8, "start {start}: {all:?}");
        let (wal, found) = open(dir.path()).unwrap();
        assert_eq!(found.len(), 30 * (start + 1), "no file was used twice");
        drop(wal);
    }
}
