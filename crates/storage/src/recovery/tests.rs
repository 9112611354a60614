use bytes::Bytes;
use cluster::replica::Members;
use cluster::replica::record::{self, HardState, Incoming, LogPoint};
use cluster::{GroupId, Index, Keyspace, NodeId, Term, Write};

use super::{Place, RecoveryError, recover_group};
use crate::{SimulatedDisk, Storage as _};

const GROUP: GroupId = GroupId(7);

fn point(index: u64, term: u64) -> LogPoint {
    LogPoint {
        index: Index(index),
        term: Term(term),
    }
}

fn put_entry(disk: &mut SimulatedDisk, index: u64, term: u64) {
    let (value, _) = record::encode_entry(GROUP, Index(index), Term(term), b"data");
    let key = record::entry_key(GROUP, Index(index));
    disk.write(&[Write::Put {
        keyspace: Keyspace::Log,
        key,
        value,
    }])
    .unwrap();
}

fn put_meta(disk: &mut SimulatedDisk, key: Bytes, value: Bytes) {
    disk.write(&[Write::Put {
        keyspace: Keyspace::Meta,
        key,
        value,
    }])
    .unwrap();
}

/// Entries 5 to 9 after a log start at 4, term 1 up to 6 and 2 from 7.
fn disk() -> SimulatedDisk {
    let mut disk = SimulatedDisk::new(1);
    for index in 5..=9 {
        put_entry(&mut disk, index, if index < 7 { 1 } else { 2 });
    }
    put_meta(
        &mut disk,
        record::log_start_key(GROUP),
        record::encode_log_start(GROUP, point(4, 1)),
    );
    let state = HardState {
        term: Term(2),
        vote: Some(NodeId(9)),
    };
    put_meta(
        &mut disk,
        record::hard_state_key(GROUP),
        record::encode_hard_state(GROUP, state),
    );
    put_meta(
        &mut disk,
        record::members_key(GROUP),
        record::encode_members(GROUP, &Members::founders([NodeId(9)])),
    );
    disk.sync().unwrap();
    disk
}

#[test]
fn all_parts_are_found() {
    let recovered = recover_group(&disk(), GROUP, Some(point(6, 1))).unwrap();
    assert_eq!(
        recovered.hard_state,
        HardState {
            term: Term(2),
            vote: Some(NodeId(9))
        }
    );
    assert_eq!(recovered.members, Some(Members::founders([NodeId(9)])));
    assert_eq!(recovered.log_start, point(4, 1));
    assert_eq!(recovered.snapshot, point(6, 1));
    let indexes: Vec<_> = recovered.entries.iter().map(|entry| entry.index.0).collect();
    assert_eq!(indexes, [5, 6, 7, 8, 9]);
    assert_eq!(recovered.removable_from, Index(5));
    assert!(!recovered.log_start_moved);
}

#[test]
fn an_empty_disk_is_a_new_group() {
    let recovered = recover_group(&SimulatedDisk::new(1), GROUP, None).unwrap();
    assert_eq!(recovered, cluster::replica::Recovered::nothing());
}

#[test]
fn other_groups_do_not_matter() {
    let recovered = recover_group(&disk(), GroupId(8), None).unwrap();
    assert_eq!(recovered, cluster::replica::Recovered::nothing());
}

#[test]
fn a_cut_log_without_its_snapshot_is_refused() {
    for snapshot in [None, Some(point(3, 1))] {
        let error = recover_group(&disk(), GROUP, snapshot).unwrap_err();
        assert!(
            matches!(
                error,
                RecoveryError::SnapshotMissing {
                    log_start: Index(4),
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn a_missing_entry_is_named() {
    let mut disk = disk();
    let key = record::entry_key(GROUP, Index(7));
    disk.write(&[Write::Remove {
        keyspace: Keyspace::Log,
        key,
    }])
    .unwrap();
    let error = recover_group(&disk, GROUP, Some(point(5, 1))).unwrap_err();
    let expected = "group 7: log entry 7 is missing, entry 8 follows";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_snapshot_of_another_history_is_refused() {
    let error = recover_group(&disk(), GROUP, Some(point(8, 1))).unwrap_err();
    assert!(
        matches!(error, RecoveryError::Contradiction { index: Index(8), .. }),
        "{error}"
    );
}

fn both() -> Members {
    Members {
        index: Index(2),
        ..Members::founders([9, 10].map(NodeId))
    }
}

fn put_incoming(disk: &mut SimulatedDisk, point: LogPoint) {
    let incoming = Incoming {
        point,
        members: both(),
    };
    put_meta(
        disk,
        record::incoming_key(GROUP),
        record::encode_incoming(GROUP, &incoming),
    );
}

fn put_missing(disk: &mut SimulatedDisk) {
    let record = record::encode_missing(GROUP, Index(8));
    put_meta(disk, record::missing_key(GROUP), record);
    let acknowledged = [(NodeId(2), Index(8))].into();
    let record = record::encode_acknowledged(GROUP, &acknowledged);
    put_meta(disk, record::acknowledged_key(GROUP), record);
}

#[test]
fn a_snapshot_of_another_replica_replaces_what_was_never_decided() {
    let mut disk = disk();
    put_incoming(&mut disk, point(8, 3));
    let recovered = recover_group(&disk, GROUP, Some(point(8, 3))).unwrap();
    assert_eq!(recovered.log_start, point(8, 3));
    assert!(recovered.log_start_moved);
    assert_eq!(recovered.stale_through, Some(Index(9)));
    assert_eq!(recovered.entries, []);
    assert_eq!(recovered.members, Some(both()));
}

#[test]
fn a_snapshot_that_did_not_come_yet_decides_nothing() {
    let mut disk = disk();
    put_incoming(&mut disk, point(8, 3));
    let recovered = recover_group(&disk, GROUP, Some(point(5, 1))).unwrap();
    assert_eq!(recovered.log_start, point(4, 1));
    assert_eq!(recovered.members, Some(Members::founders([NodeId(9)])));
}

#[test]
fn a_voter_among_others_starts_without_its_state() {
    let mut disk = disk();
    put_meta(
        &mut disk,
        record::members_key(GROUP),
        record::encode_members(GROUP, &both()),
    );
    let recovered = recover_group(&disk, GROUP, None).unwrap();
    assert!(recovered.is_stateless);
    assert_eq!(recovered.snapshot, point(4, 1));
    assert_eq!(recovered.entries.len(), 5);
}

#[test]
fn a_snapshot_ahead_of_the_log_replaces_it() {
    let recovered = recover_group(&disk(), GROUP, Some(point(20, 3))).unwrap();
    assert_eq!(recovered.log_start, point(20, 3));
    assert!(recovered.log_start_moved);
    assert_eq!(recovered.entries, []);
    assert_eq!(
        recovered.hard_state,
        HardState {
            term: Term(3),
            vote: None
        }
    );
    assert_eq!(recovered.removable_from, Index(5));
}

#[test]
fn what_is_left_below_the_log_start_is_found() {
    let mut disk = disk();
    put_entry(&mut disk, 2, 1);
    put_entry(&mut disk, 3, 1);
    let recovered = recover_group(&disk, GROUP, Some(point(4, 1))).unwrap();
    assert_eq!(recovered.removable_from, Index(2));
}

#[test]
fn every_damaged_byte_of_every_record_is_an_error_that_names_the_record() {
    let places = [
        (
            Keyspace::Log,
            record::entry_key(GROUP, Index(8)),
            Place::LogEntry(Some(Index(8))),
        ),
        (
            Keyspace::Log,
            record::entry_key(GROUP, Index(9)),
            Place::LogEntry(Some(Index(9))),
        ),
        (Keyspace::Meta, record::hard_state_key(GROUP), Place::HardState),
        (Keyspace::Meta, record::members_key(GROUP), Place::Members),
        (Keyspace::Meta, record::log_start_key(GROUP), Place::LogStart),
        (Keyspace::Meta, record::incoming_key(GROUP), Place::Incoming),
        (Keyspace::Meta, record::missing_key(GROUP), Place::Missing),
        (
            Keyspace::Meta,
            record::acknowledged_key(GROUP),
            Place::Acknowledged,
        ),
    ];
    for (keyspace, key, expected) in places {
        let mut position = 0;
        loop {
            let mut disk = disk();
            put_incoming(&mut disk, point(5, 1));
            put_missing(&mut disk);
            disk.sync().unwrap();
            if !disk.damage(keyspace, &key, position) {
                break;
            }
            match recover_group(&disk, GROUP, Some(point(5, 1))).unwrap_err() {
                RecoveryError::Record { place, .. } => assert_eq!(place, expected),
                other => panic!("byte {position} of {expected}: {other}"),
            }
            position += 1;
        }
        assert!(position > 10, "{expected} was found");
    }
}
