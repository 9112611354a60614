//! The bytes of the log, and what is made of them when they are damaged, torn or old.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use cluster::replica::record::entry_key;
use cluster::{GroupId, Index, Keyspace, Write};
use tempfile::TempDir;

use super::record::{self, Place};
use super::segment::{self, Header};
use super::{Content, SegmentSizes, Wal, WalError};

const SIZES: SegmentSizes = SegmentSizes {
    whole: 8 << 10,
    first: 8 << 10,
};

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

fn new_dir() -> TempDir {
    let dir = TempDir::new().unwrap();
    assert!(Wal::make(dir.path(), SIZES).unwrap());
    dir
}

/// Opens a log, and returns it with its records.
fn open(dir: &Path) -> Result<(Wal, Vec<(u64, Content)>), WalError> {
    let mut found = Vec::new();
    let wal = Wal::open(dir, SIZES, &mut |sequence, content| {
        found.push((sequence, content));
        Ok(())
    })?;
    Ok((wal, found))
}

/// A log with these groups of batches, each synced but the last, which is handed over.
fn write(dir: &Path, groups: &[&[Write]]) -> Vec<(u64, Content)> {
    let (mut wal, mut all) = open(dir).unwrap();
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
    let first = Header::decode(&bytes, number).unwrap().first;
    let start = (segment::HEADER_LEN, first);
    let (end, _) = super::recovery::walk::<()>(&bytes, number, start, &mut |_, _, _| Ok(())).unwrap();
    bytes.truncate(end);
    bytes
}

#[test]
fn a_segment_of_version_1_is_read_and_written_as_ever() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/segment");
    let mut bytes = Vec::new();
    let (number, first) = (0x1122, 5);
    let header = Header {
        segment: number,
        first,
        durable: 4,
    };
    header.encode(&mut bytes);
    let place = |sequence, durable| Place {
        segment: number,
        sequence,
        durable,
    };
    record::encode_batch(&mut bytes, place(5, 4), &every_kind());
    record::encode_checkpoint(&mut bytes, place(6, 5), 3);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &bytes).unwrap();
    }
    let golden = fs::read(path).unwrap();
    assert_eq!(bytes, golden);

    assert_eq!(Header::decode(&golden, number), Some(header));
    let mut found = Vec::new();
    let start = (segment::HEADER_LEN, first);
    super::recovery::walk::<()>(&golden, number, start, &mut |_, sequence, content| {
        found.push((sequence, content.unwrap()));
        Ok(())
    })
    .unwrap();
    let expected = [
        (5, Content::Batch(every_kind())),
        (6, Content::Checkpoint { through: 3 }),
    ];
    assert_eq!(found, expected);
}

#[test]
fn every_flipped_byte_is_an_error_or_in_the_last_group_a_cut_tail() {
    let dir = new_dir();
    let groups: [&[Write]; 3] = [&every_kind(), &[put(1, 50), put(2, 60)], &[put(3, 70)]];
    let all = write(dir.path(), &groups);
    let synced = all.len() - 1;
    let number = begun(dir.path())[0];
    let good = written(dir.path(), number);
    for position in 0..good.len() {
        for flip in [0x01, 0x80] {
            let damaged = copy(dir.path());
            let path = segment::path(damaged.path(), number);
            let mut bytes = fs::read(&path).unwrap();
            bytes[position] ^= flip;
            fs::write(&path, bytes).unwrap();
            match open(damaged.path()) {
                Ok((_, found)) => {
                    assert_eq!(found, all[..synced], "byte {position}");
                    assert!(position >= good.len() - record::batch_len(&[put(3, 70)]));
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

#[test]
fn of_a_torn_group_the_records_before_the_tear_stay() {
    let dir = new_dir();
    let last = [put(2, 100), put(3, 100), put(4, 100)];
    let all = write(dir.path(), &[&[put(1, 100)], &last]);
    let number = begun(dir.path())[0];
    let len = record::batch_len(&last[..1]);
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
    let groups: Vec<_> = batches.chunks(1).collect();
    write(dir.path(), &groups);
    let segments = begun(dir.path());
    assert!(segments.len() > 3);
    for (position, number) in segments.iter().enumerate().take(segments.len() - 1) {
        let copy = copy(dir.path());
        fs::remove_file(segment::path(copy.path(), *number)).unwrap();
        let error = open(copy.path()).unwrap_err();
        match position {
            0 => assert!(matches!(error, WalError::Incomplete { needed: 1, .. }), "{error}"),
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
