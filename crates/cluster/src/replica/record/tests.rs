use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::Bytes;

use super::{
    Entry, EntryKind, HardState, Incoming, LogPoint, RecordError, acknowledged_key, decode_acknowledged,
    decode_entry, decode_hard_state, decode_incoming, decode_log_start, decode_members, decode_missing,
    encode_acknowledged, encode_entry, encode_entry_of_kind, encode_hard_state, encode_incoming,
    encode_log_start, encode_members, encode_missing, entry_key, hard_state_key, incoming_key, log_start_key,
    members_key, missing_key, parse_entry_key,
};
use crate::replica::members::{MemberChange, Members, encode_changes};
use crate::{GroupId, Index, NodeId, Term};

const GROUP: GroupId = GroupId(0x0102_0304);

fn entry() -> Entry {
    Entry {
        index: Index(0x0A0B),
        term: Term(7),
        kind: EntryKind::Data,
        data: Bytes::from_static(b"some data"),
    }
}

fn entry_members() -> Entry {
    let changes = [
        MemberChange::Vote(NodeId(4)),
        MemberChange::Learn(NodeId(3)),
        MemberChange::Leave(NodeId(2)),
    ];
    Entry {
        kind: EntryKind::Members,
        data: encode_changes(&changes).into(),
        ..entry()
    }
}

fn hard_state() -> HardState {
    HardState {
        term: Term(7),
        vote: Some(NodeId(0xFEDC_BA98_7654_3210)),
    }
}

fn log_start() -> LogPoint {
    LogPoint {
        index: Index(300),
        term: Term(6),
    }
}

fn founders() -> Members {
    Members::founders([2, 3, 0xFEDC_BA98_7654_3210].map(NodeId))
}

fn members() -> Members {
    Members {
        index: Index(0x0A0B),
        voters: [1, 2, 5].map(NodeId).into(),
        outgoing: [1, 2, 3].map(NodeId).into(),
        learners: [4].map(NodeId).into(),
        learners_next: [3].map(NodeId).into(),
        auto_leave: false,
    }
}

fn incoming() -> Incoming {
    Incoming {
        point: log_start(),
        members: members(),
    }
}

fn acknowledged() -> BTreeMap<NodeId, Index> {
    [(NodeId(2), Index(0x0A0B)), (NodeId(3), Index(300))].into()
}

/// Name, key and bytes of one record of each kind.
fn records() -> Vec<(&'static str, Bytes, Bytes)> {
    let Entry {
        index, term, data, ..
    } = entry();
    let point = LogPoint { index, term };
    let change = entry_members().data;
    vec![
        (
            "entry",
            entry_key(GROUP, index),
            encode_entry(GROUP, index, term, &data).0,
        ),
        (
            "entry-empty",
            entry_key(GROUP, index),
            encode_entry(GROUP, index, term, &[]).0,
        ),
        (
            "hard-state",
            hard_state_key(GROUP),
            encode_hard_state(GROUP, hard_state()),
        ),
        (
            "log-start",
            log_start_key(GROUP),
            encode_log_start(GROUP, log_start()),
        ),
        ("founders", members_key(GROUP), encode_members(GROUP, &founders())),
        ("members", members_key(GROUP), encode_members(GROUP, &members())),
        (
            "entry-members",
            entry_key(GROUP, index),
            encode_entry_of_kind(GROUP, EntryKind::Members, point, &change).0,
        ),
        (
            "incoming",
            incoming_key(GROUP),
            encode_incoming(GROUP, &incoming()),
        ),
        (
            "acknowledged",
            acknowledged_key(GROUP),
            encode_acknowledged(GROUP, &acknowledged()),
        ),
        ("missing", missing_key(GROUP), encode_missing(GROUP, index)),
    ]
}

fn decode(name: &str, key: &[u8], record: &Bytes) -> Result<(), RecordError> {
    match name {
        "entry" => decode_entry(key, record).map(|found| assert_eq!(found, (GROUP, entry()))),
        "entry-empty" => decode_entry(key, record).map(|(_, found)| assert!(found.data.is_empty())),
        "hard-state" => decode_hard_state(GROUP, record).map(|found| assert_eq!(found, hard_state())),
        "log-start" => decode_log_start(GROUP, record).map(|found| assert_eq!(found, log_start())),
        "founders" => decode_members(GROUP, record).map(|found| assert_eq!(found, founders())),
        "members" => decode_members(GROUP, record).map(|found| assert_eq!(found, members())),
        "entry-members" => decode_entry(key, record).map(|found| assert_eq!(found, (GROUP, entry_members()))),
        "incoming" => decode_incoming(GROUP, record).map(|found| assert_eq!(found, incoming())),
        "acknowledged" => decode_acknowledged(GROUP, record).map(|found| assert_eq!(found, acknowledged())),
        "missing" => decode_missing(GROUP, record).map(|found| assert_eq!(found, entry().index)),
        other => panic!("no record is called {other}"),
    }
}

#[test]
fn records_are_read_as_they_were_written() {
    for (name, key, record) in records() {
        decode(name, &key, &record).unwrap();
    }
}

/// Earlier programs wrote them in any order.
#[test]
fn voters_of_version_1_are_read() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    assert_eq!(fs::read(golden.join("voters.key")).unwrap(), members_key(GROUP));
    let record = fs::read(golden.join("voters.record")).unwrap();
    assert_eq!(decode_members(GROUP, &record), Ok(founders()));
}

/// Bytes that version 1 wrote. A change of these files is a change of the format: it needs a new version instead.
#[test]
fn records_of_version_1_are_read_and_written_as_ever() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    for (name, key, record) in records() {
        for (suffix, bytes) in [("key", &key), ("record", &record)] {
            let path = golden.join(format!("{name}.{suffix}"));
            if std::env::var_os("UPDATE").is_some() {
                fs::create_dir_all(&golden).unwrap();
                fs::write(&path, bytes).unwrap();
            }
            assert_eq!(*bytes, fs::read(&path).unwrap(), "{name}.{suffix}");
        }
    }
}

#[test]
fn every_flipped_or_missing_byte_is_noticed() {
    for (name, key, record) in records() {
        for position in 0..record.len() {
            for mask in [0x01, 0x80, 0xFF] {
                let mut damaged = record.to_vec();
                damaged[position] ^= mask;
                assert_eq!(
                    decode(name, &key, &damaged.into()),
                    Err(RecordError::Checksum),
                    "{name} {position}"
                );
            }
            let cut = decode(name, &key, &record.slice(..position));
            assert!(
                matches!(cut, Err(RecordError::Truncated | RecordError::Checksum)),
                "{name} {position}"
            );
        }
    }
}

#[test]
fn a_record_under_another_key_is_noticed() {
    let (_, _, record) = records().swap_remove(0);
    let elsewhere = entry_key(GROUP, Index(0x0A0C));
    assert_eq!(decode_entry(&elsewhere, &record), Err(RecordError::Checksum));
    let (_, _, state) = records().swap_remove(2);
    assert_eq!(decode_hard_state(GroupId(1), &state), Err(RecordError::Checksum));
    assert_eq!(decode_log_start(GROUP, &state), Err(RecordError::Checksum));
}

#[test]
fn a_newer_version_and_an_unknown_kind_are_named() {
    let seal = |key: &[u8], body: &[u8]| {
        let mut record = bytes::BytesMut::from(body);
        super::seal(key, &mut record);
        record.freeze()
    };
    let key = entry_key(GROUP, Index(1));
    let newer = seal(&key, &[2, 0, 0, 0]);
    assert_eq!(decode_entry(&key, &newer), Err(RecordError::Version { found: 2 }));
    let unknown = seal(&key, &[1, 9, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(decode_entry(&key, &unknown), Err(RecordError::Kind { found: 9 }));
    let short = seal(&key, &[1, 0, 0]);
    assert_eq!(decode_entry(&key, &short), Err(RecordError::Truncated));
}

#[test]
fn keys_sort_by_group_and_index() {
    let keys = [(0, 1), (0, 256), (0, u64::MAX), (1, 0), (256, 0)];
    let keys = keys.map(|(group, index)| entry_key(GroupId(group), Index(index)));
    assert!(keys.is_sorted());
    assert_eq!(parse_entry_key(&keys[1]), Ok((GroupId(0), Index(256))));
    assert_eq!(parse_entry_key(&keys[1][..11]), Err(RecordError::Key));
    assert_eq!(parse_entry_key(b""), Err(RecordError::Key));
}
