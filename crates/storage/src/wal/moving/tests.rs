//! A log that a few entries would keep for ever.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use cluster::replica::record::entry_key;
use cluster::{GroupId, Index, Keyspace, Write};
use proptest::prelude::*;
use tempfile::TempDir;

use super::SPARSE_SEGMENTS;
use crate::directory_id::{DirectoryId, DirectoryMark};
use crate::encryption::Encryption;
use crate::wal::{Content, SegmentSizes, Site, Wal};

const ID: DirectoryId = DirectoryId::from_bytes([9; 16]);

const SIZES: SegmentSizes = SegmentSizes {
    whole: 8 << 10,
    first: 8 << 10,
};

fn entry(index: u64, value: u8) -> Write {
    Write::Put {
        keyspace: Keyspace::Log,
        key: entry_key(GroupId(1), Index(index)),
        value: vec![value; 300].into(),
    }
}

fn removal(from: u64, to: u64) -> Write {
    Write::RemoveRange {
        keyspace: Keyspace::Log,
        from: entry_key(GroupId(1), Index(from)),
        to: entry_key(GroupId(1), Index(to)),
    }
}

fn message() -> Write {
    Write::Put {
        keyspace: Keyspace::Queue,
        key: Bytes::from_static(b"a message"),
        value: vec![0; 2_000].into(),
    }
}

/// As the engine does it when its tables have taken everything.
fn sync(wal: &mut Wal) {
    wal.sync().unwrap();
    wal.note_checkpoint(wal.last()).unwrap();
    wal.sync().unwrap();
    wal.move_entries().unwrap();
}

fn open(dir: &Path) -> (Wal, BTreeMap<Bytes, Bytes>) {
    let mut entries = BTreeMap::new();
    let mark = DirectoryMark {
        id: ID,
        accepts_unmarked: false,
    };
    let says_last = true;
    let site = Site { dir, says_last, mark };
    let wal = Wal::open(site, SIZES, &Encryption::none(), &mut |_, content| {
        if let Content::Batch(writes) = content {
            writes.iter().for_each(|write| apply(&mut entries, write));
        }
        Ok(())
    });
    (wal.unwrap(), entries)
}

fn apply(entries: &mut BTreeMap<Bytes, Bytes>, write: &Write) {
    match write {
        Write::Put {
            keyspace: Keyspace::Log,
            key,
            value,
        } => {
            entries.insert(key.clone(), value.clone());
        }
        Write::RemoveRange { from, to, .. } => entries.retain(|key, _| key < from || key >= to),
        _ => {}
    }
}

#[test]
fn one_old_entry_does_not_keep_the_whole_log() {
    let dir = TempDir::new().unwrap();
    Wal::make(dir.path(), ID, SIZES).unwrap();
    let (mut wal, _) = open(dir.path());
    wal.append(&[entry(1, 7)]).unwrap();
    let mut longest = 0;
    for _ in 0..100 {
        wal.append(&[message(), message()]).unwrap();
        sync(&mut wal);
        longest = longest.max(wal.full.len() as u64);
    }
    assert!(
        longest <= SPARSE_SEGMENTS + 3,
        "{longest} segments, and at most {SPARSE_SEGMENTS} and a little are worth keeping"
    );
    drop(wal);
    let (_, entries) = open(dir.path());
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[&entry_key(GroupId(1), Index(1))], vec![7; 300]);
}

#[test]
fn a_log_of_entries_is_never_moved() {
    let dir = TempDir::new().unwrap();
    Wal::make(dir.path(), ID, SIZES).unwrap();
    let (mut wal, _) = open(dir.path());
    for index in 0..100 {
        wal.append(&[entry(index, 1), entry(index + 1_000, 1)]).unwrap();
        sync(&mut wal);
    }
    assert_eq!(wal.last(), 200, "nothing but entries and checkpoints");
}

#[derive(Debug, Clone)]
enum Step {
    /// Entries from the end less so many on, as a leader replaces them.
    Append {
        back: u64,
        count: u64,
    },
    /// A snapshot has what comes before the end less so many.
    Compact {
        left: u64,
    },
    Messages(usize),
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4_u64, 1..8_u64).prop_map(|(back, count)| Step::Append { back, count }),
        1 => (0..12_u64).prop_map(|left| Step::Compact { left }),
        4 => (1..15_usize).prop_map(Step::Messages),
        1 => Just(Step::Crash),
    ];
    proptest::collection::vec(step, 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn moving_changes_nothing_of_what_the_log_says(steps in steps()) {
        let dir = TempDir::new().unwrap();
        Wal::make(dir.path(), ID, SIZES).unwrap();
        let (mut wal, _) = open(dir.path());
        let mut model = BTreeMap::new();
        let (mut begin, mut end, mut value) = (1_u64, 1_u64, 0_u8);
        for step in steps {
            let mut writes = Vec::new();
            match step {
                Step::Append { back, count } => {
                    let from = end.saturating_sub(back).max(begin);
                    value = value.wrapping_add(1);
                    writes.extend((from..from + count).map(|index| entry(index, value)));
                    if from + count < end {
                        writes.push(removal(from + count, end));
                    }
                    end = from + count;
                }
                Step::Compact { left } => {
                    let to = end.saturating_sub(left).max(begin);
                    writes.push(removal(begin, to));
                    begin = to;
                }
                Step::Messages(count) => {
                    wal.append(&vec![message(); count]).unwrap();
                }
                Step::Crash => {
                    // Everything was synced, but for what was moved last.
                    drop(wal);
                    let (again, entries) = open(dir.path());
                    prop_assert_eq!(&entries, &model);
                    wal = again;
                }
            }
            wal.append(&writes).unwrap();
            writes.iter().for_each(|write| apply(&mut model, write));
            sync(&mut wal);
        }
        drop(wal);
        let (_, entries) = open(dir.path());
        prop_assert_eq!(entries, model);
    }
}
