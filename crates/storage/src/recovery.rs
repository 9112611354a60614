//! Reads back what a replica wrote, and refuses to start from anything that does not fit together.
//!
//! The engine drops a batch that was cut off by a crash as a whole, so a record that can be read but is wrong is damage,
//! not a torn tail. Damage is an error that names the place; nothing is repaired by guessing.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use cluster::control::{self, CONTROL, Control, ControlRecordError};
use cluster::replica::record::{self, Entry, HardState, Incoming, LogPoint, RecordError};
use cluster::replica::{Members, Recovered};
use cluster::{GroupId, Index, Keyspace, NodeId, Term};

use crate::{Fault, SnapshotError, SnapshotFiles, SnapshotReader, Storage};

/// Why a group, or the node, cannot start from what is on disk. Nothing was changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RecoveryError {
    /// The disk failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A snapshot is needed and cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A record is damaged, or of a newer version.
    #[error("group {group}: {place}: {error}")]
    Record {
        group: GroupId,
        place: Place,
        error: RecordError,
    },
    /// An entry between two others is missing.
    #[error("group {group}: log entry {missing} is missing, entry {found} follows")]
    EntryMissing {
        group: GroupId,
        missing: Index,
        found: Index,
    },
    /// Terms fall along the log, or the log and the snapshot have different terms at the same index.
    #[error("group {group}: the log contradicts itself or the snapshot at entry {index}")]
    Contradiction { group: GroupId, index: Index },
    /// The log was cut after a snapshot that cannot be read any more.
    #[error(
        "group {group}: the log begins after entry {log_start}, and no readable snapshot reaches that far"
    )]
    SnapshotMissing { group: GroupId, log_start: Index },
    /// The record of the cluster's nodes is damaged, or of a newer version.
    #[error(transparent)]
    Control(#[from] ControlRecordError),
    /// There is data but no record of who this node is.
    #[error("the node's identity is missing although it has data")]
    IdentityMissing,
    /// The record of who this node is cannot be read.
    #[error("the node's identity record is damaged, or of a newer version")]
    IdentityDamaged,
    /// The record of which cluster the node belongs to cannot be read.
    #[error("the record of the node's cluster is damaged, or of a newer version")]
    MembershipDamaged,
    /// The record of the last start of another node is damaged.
    #[error("the record of the last start of another node is damaged")]
    KnownStartDamaged,
    /// The record that the directory is rolled back is damaged.
    #[error("the record that this directory is rolled back is damaged")]
    RolledBackDamaged,
    /// The highest time that the node has seen cannot be read.
    #[error("the record of the node's clock is damaged, or of a newer version")]
    ClockMarkDamaged,
}

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    HardState,
    Members,
    LogStart,
    Incoming,
    /// What other nodes have acknowledged.
    Acknowledged,
    /// What of the log is known to be missing.
    Missing,
    LogEntry(Option<Index>),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::HardState => f.write_str("hard state"),
            Place::Members => f.write_str("members"),
            Place::LogStart => f.write_str("log start"),
            Place::Incoming => f.write_str("incoming snapshot"),
            Place::Acknowledged => f.write_str("acknowledged entries"),
            Place::Missing => f.write_str("missing entries"),
            Place::LogEntry(Some(index)) => write!(f, "log entry {index}"),
            Place::LogEntry(None) => f.write_str("log entry"),
        }
    }
}

/// Finds the snapshot from which the state machine of `group` is to be restored, and what its replica starts from.
///
/// Where others vote as well, a snapshot that cannot be read is no reason not to start: see [`Recovered::is_stateless`].
pub fn open_group(
    storage: &impl Storage,
    snapshots: &SnapshotFiles,
    group: GroupId,
) -> Result<(Option<SnapshotReader>, Recovered), RecoveryError> {
    let log_start = log_start(storage, group)?;
    let snapshot = match snapshots.latest(group, log_start.index) {
        Err(SnapshotError::NoneUsable { .. }) if has_others(members(storage, group)?.as_ref()) => None,
        snapshot => snapshot?,
    };
    let recovered = recover_group(storage, group, snapshot.as_ref().map(SnapshotReader::point))?;
    Ok((snapshot, recovered))
}

/// The point before the first log entry that is kept: a snapshot must reach at least this far.
pub fn log_start(storage: &impl Storage, group: GroupId) -> Result<LogPoint, RecoveryError> {
    match storage.get(Keyspace::Meta, &record::log_start_key(group))? {
        Some(bytes) => {
            record::decode_log_start(group, &bytes).map_err(|error| at(group, Place::LogStart, error))
        }
        None => Ok(LogPoint::START),
    }
}

/// What a replica of `group` starts from, given the snapshot from which its state machine was restored.
pub fn recover_group(
    storage: &impl Storage,
    group: GroupId,
    snapshot: Option<LogPoint>,
) -> Result<Recovered, RecoveryError> {
    let log_start = log_start(storage, group)?;
    let members = members(storage, group)?;
    let mut snapshot = snapshot.unwrap_or(LogPoint::START);
    let is_stateless = snapshot.index < log_start.index;
    if is_stateless {
        if !has_others(members.as_ref()) {
            return Err(RecoveryError::SnapshotMissing {
                group,
                log_start: log_start.index,
            });
        }
        snapshot = log_start;
    }
    let entries = read_entries(storage, group, log_start)?;
    let mut recovered = Recovered {
        hard_state: hard_state(storage, group)?,
        members,
        log_start,
        log_start_moved: false,
        snapshot,
        entries,
        removable_from: first_entry(storage, group, log_start)?,
        stale_through: None,
        is_stateless,
        missing_through: missing(storage, group)?,
        acknowledged_by: acknowledged(storage, group)?,
    };
    let incoming = incoming(storage, group)?.filter(|incoming| incoming.point == snapshot);
    let is_incoming = incoming.is_some();
    if let Some(incoming) = incoming {
        let known = recovered.members.as_ref();
        if known.is_none_or(|known| known.index < incoming.members.index) {
            recovered.members = Some(incoming.members);
        }
    }
    fit_snapshot(group, is_incoming, &mut recovered)?;
    Ok(recovered)
}

/// What the control group starts from: its replica's part, and the state of the cluster that its record holds, if there is one.
pub fn recover_control(storage: &impl Storage) -> Result<(Option<Control>, Recovered), RecoveryError> {
    let found = storage.get(Keyspace::Meta, &control::control_key())?;
    let state = found.map(|record| control::decode_state(&record)).transpose()?;
    let recovered = recover_group(storage, CONTROL, state.as_ref().map(|(point, _)| *point))?;
    Ok((state.map(|(_, control)| control), recovered))
}

fn hard_state(storage: &impl Storage, group: GroupId) -> Result<HardState, RecoveryError> {
    match storage.get(Keyspace::Meta, &record::hard_state_key(group))? {
        Some(bytes) => {
            record::decode_hard_state(group, &bytes).map_err(|error| at(group, Place::HardState, error))
        }
        None => Ok(HardState {
            term: Term(0),
            vote: None,
        }),
    }
}

fn members(storage: &impl Storage, group: GroupId) -> Result<Option<Members>, RecoveryError> {
    let found = storage.get(Keyspace::Meta, &record::members_key(group))?;
    let decode = |bytes: bytes::Bytes| record::decode_members(group, &bytes);
    found
        .map(decode)
        .transpose()
        .map_err(|error| at(group, Place::Members, error))
}

/// Whether somebody else has a copy of the log.
fn has_others(members: Option<&Members>) -> bool {
    members.is_some_and(|members| members.all().len() > 1)
}

/// The last snapshot that came from another replica, or was about to.
fn incoming(storage: &impl Storage, group: GroupId) -> Result<Option<Incoming>, RecoveryError> {
    let bytes = storage.get(Keyspace::Meta, &record::incoming_key(group))?;
    let decoded = bytes.map(|bytes| record::decode_incoming(group, &bytes));
    decoded
        .transpose()
        .map_err(|error| at(group, Place::Incoming, error))
}

/// What other nodes have acknowledged.
fn acknowledged(storage: &impl Storage, group: GroupId) -> Result<BTreeMap<NodeId, Index>, RecoveryError> {
    let bytes = storage.get(Keyspace::Meta, &record::acknowledged_key(group))?;
    let decoded = bytes.map(|bytes| record::decode_acknowledged(group, &bytes));
    let decoded = decoded.transpose();
    let found = decoded.map_err(|error| at(group, Place::Acknowledged, error))?;
    Ok(found.unwrap_or_default())
}

/// The last acknowledged entry that the log was found to lack.
fn missing(storage: &impl Storage, group: GroupId) -> Result<Option<Index>, RecoveryError> {
    let bytes = storage.get(Keyspace::Meta, &record::missing_key(group))?;
    let decoded = bytes.map(|bytes| record::decode_missing(group, &bytes));
    decoded
        .transpose()
        .map_err(|error| at(group, Place::Missing, error))
}

/// All entries after `start`, without a gap.
fn read_entries(
    storage: &impl Storage,
    group: GroupId,
    start: LogPoint,
) -> Result<Vec<Entry>, RecoveryError> {
    let mut entries = Vec::new();
    let mut last = start;
    let mut failed = None;
    let from = record::entry_key(group, start.index.next());
    let to = record::entry_key(group, Index(u64::MAX));
    storage.scan_range(
        Keyspace::Log,
        &from,
        Some(&to),
        &mut |key, value| match read_entry(group, last, key, &value) {
            Ok(entry) => {
                last = LogPoint {
                    index: entry.index,
                    term: entry.term,
                };
                entries.push(entry);
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        },
    )?;
    failed.map_or(Ok(entries), Err)
}

fn read_entry(
    group: GroupId,
    last: LogPoint,
    key: &[u8],
    value: &bytes::Bytes,
) -> Result<Entry, RecoveryError> {
    let (_, entry) = record::decode_entry(key, value).map_err(|error| {
        let index = record::parse_entry_key(key).ok().map(|(_, index)| index);
        at(group, Place::LogEntry(index), error)
    })?;
    if entry.index != last.index.next() {
        return Err(RecoveryError::EntryMissing {
            group,
            missing: last.index.next(),
            found: entry.index,
        });
    }
    if entry.term < last.term {
        return Err(RecoveryError::Contradiction {
            group,
            index: entry.index,
        });
    }
    Ok(entry)
}

/// Where removable entries below the log's start begin: a removal may have been cut off by a crash.
fn first_entry(storage: &impl Storage, group: GroupId, start: LogPoint) -> Result<Index, RecoveryError> {
    let mut first = start.index.next();
    let from = record::entry_key(group, Index::ZERO);
    let to = record::entry_key(group, first);
    storage.scan_range(Keyspace::Log, &from, Some(&to), &mut |key, _| {
        if let Ok((_, index)) = record::parse_entry_key(key) {
            first = index;
        }
        ControlFlow::Break(())
    })?;
    Ok(first)
}

/// Checks that the snapshot lies on the log. A snapshot that reaches further than the log happens when the log is not
/// synced (durability in memory), and when it came from another replica: the log then begins again after the snapshot, which
/// holds all that the log held. One that came from another replica may have another entry where it stands: then what the log has from there on was
/// never decided.
fn fit_snapshot(group: GroupId, is_incoming: bool, recovered: &mut Recovered) -> Result<(), RecoveryError> {
    let snapshot = recovered.snapshot;
    let last = recovered
        .entries
        .last()
        .map_or(recovered.log_start.index, |entry| entry.index);
    let offset = snapshot.index.0 - recovered.log_start.index.0;
    let term = match offset.checked_sub(1) {
        None => Some(recovered.log_start.term),
        Some(position) => recovered.entries.get(position as usize).map(|entry| entry.term),
    };
    let is_other = term.is_some_and(|term| term != snapshot.term);
    if is_other && !is_incoming {
        return Err(RecoveryError::Contradiction {
            group,
            index: snapshot.index,
        });
    }
    if is_other || snapshot.index > last {
        recovered.stale_through = Some(last).filter(|last| *last > snapshot.index);
        recovered.entries.clear();
        recovered.log_start = snapshot;
        recovered.log_start_moved = true;
        if recovered.hard_state.term < snapshot.term {
            recovered.hard_state = HardState {
                term: snapshot.term,
                vote: None,
            };
        }
    }
    Ok(())
}

fn at(group: GroupId, place: Place, error: RecordError) -> RecoveryError {
    RecoveryError::Record { group, place, error }
}

#[cfg(test)]
mod tests;
