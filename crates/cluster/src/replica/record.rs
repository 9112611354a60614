//! How a replica's state lies on disk. Every record carries a version and a CRC32C over its key and its bytes, so a
//! record that was damaged, or that stands under the wrong key, is never taken for a good one.
//!
//! `docs/storage.md` draws the bytes; `tests/golden/v1` holds them. All numbers are big endian.
//!
//! | key | value |
//! |---|---|
//! | Log: group u32, index u64 | version u8, kind u8 (0: data, 1: change of members), term u64, data, crc u32 |
//! | Meta: `g`, group u32, `h` | version u8, term u64, vote u64 (0: none), crc u32 |
//! | Meta: `g`, group u32, `l` | version u8, index u64, term u64, crc u32 |
//! | Meta: `g`, group u32, `v` | version u8 (1), founders (u64 each), crc u32 |
//! | the same after a change of members | version u8 (2), index u64, auto leave u8, four lists: length u16, nodes (u64 each); crc u32 |
//! | Meta: `g`, group u32, `i` | version u8, index u64, term u64, a record of members, crc u32 |
//! | Meta: `g`, group u32, `a` | version u8, (node u64, index u64) each, crc u32 |
//! | Meta: `g`, group u32, `m` | version u8, index u64, crc u32 |

mod acknowledged;
mod members;

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes, BytesMut};

pub use self::acknowledged::{
    acknowledged_key, decode_acknowledged, decode_missing, encode_acknowledged, encode_missing, missing_key,
};
pub use self::members::{decode_members, encode_members, members_key};
use super::members::{Members, decode_changes};
use crate::{GroupId, Index, NodeId, Term};

/// Version of the records in this file.
pub const VERSION: u8 = 1;

/// Bytes of an entry record besides its data.
pub const ENTRY_OVERHEAD: usize = 1 + 1 + 8 + 4;

const CRC_LEN: usize = 4;

/// What an entry is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// Data of the owner; empty when a leader opens its term.
    Data,
    /// A change of the group's members.
    Members,
}

/// One log entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the log.
    pub index: Index,
    /// The term in which a leader appended it.
    pub term: Term,
    /// What it is for.
    pub kind: EntryKind,
    /// What it holds.
    pub data: Bytes,
}

impl EntryKind {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::Members => 1,
        }
    }

    pub(super) fn from_code(code: u8) -> Option<EntryKind> {
        match code {
            0 => Some(Self::Data),
            1 => Some(Self::Members),
            _ => None,
        }
    }
}

/// What Raft must never forget: the highest term seen and the vote in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardState {
    /// The highest term seen.
    pub term: Term,
    /// Who got this replica's vote in `term`.
    pub vote: Option<NodeId>,
}

/// A point of the log: an entry's index and term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPoint {
    /// The entry's index.
    pub index: Index,
    /// The entry's term.
    pub term: Term,
}

impl LogPoint {
    /// The point before the first entry of a log.
    pub const START: LogPoint = LogPoint {
        index: Index(0),
        term: Term(0),
    };
}

/// A record that cannot be used. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Shorter than the shortest record of its kind.
    #[error("the record is cut short")]
    Truncated,
    /// Its checksum does not fit its bytes.
    #[error("the record's checksum does not match")]
    Checksum,
    /// Written by a version of the program that this one does not know.
    #[error("the record has format version {found}, which this program does not know")]
    Version { found: u8 },
    /// An entry of a kind that this version does not know.
    #[error("the log entry is of kind {found}, which this program does not know")]
    Kind { found: u8 },
    /// The checksum fits, the content does not: a fault of the program that wrote it.
    #[error("the record is malformed")]
    Malformed,
    /// Not a key of this kind of record.
    #[error("the key is malformed")]
    Key,
}

/// The key of a log entry.
pub fn entry_key(group: GroupId, index: Index) -> Bytes {
    Bytes::copy_from_slice(&entry_key_bytes(group, index))
}

/// The group and index that a key of the log keyspace names.
pub fn parse_entry_key(key: &[u8]) -> Result<(GroupId, Index), RecordError> {
    let (group, index) = key.split_first_chunk::<4>().ok_or(RecordError::Key)?;
    let index: [u8; 8] = index.try_into().map_err(|_| RecordError::Key)?;
    Ok((
        GroupId(u32::from_be_bytes(*group)),
        Index(u64::from_be_bytes(index)),
    ))
}

/// The record of an entry with data, and the data as a slice of the record.
pub fn encode_entry(group: GroupId, index: Index, term: Term, data: &[u8]) -> (Bytes, Bytes) {
    encode_entry_of_kind(group, EntryKind::Data, LogPoint { index, term }, data)
}

/// The record of any entry, and what it holds as a slice of the record.
pub(super) fn encode_entry_of_kind(
    group: GroupId,
    kind: EntryKind,
    LogPoint { index, term }: LogPoint,
    data: &[u8],
) -> (Bytes, Bytes) {
    let mut record = BytesMut::with_capacity(ENTRY_OVERHEAD + data.len());
    record.put_u8(VERSION);
    record.put_u8(kind.code());
    record.put_u64(term.0);
    record.put_slice(data);
    seal(&entry_key_bytes(group, index), &mut record);
    let record = record.freeze();
    let data = record.slice(ENTRY_OVERHEAD - CRC_LEN..record.len() - CRC_LEN);
    (record, data)
}

/// What the owner has put into an entry, of a record that this program has just made.
pub fn data_of_entry(record: &[u8]) -> &[u8] {
    let data = record.get(ENTRY_OVERHEAD - CRC_LEN..record.len() - CRC_LEN);
    let is_data = record.get(1) == Some(&EntryKind::Data.code());
    data.filter(|_| is_data).unwrap_or_default()
}

/// The entry that a record holds. Its data is a slice of the record.
pub fn decode_entry(key: &[u8], record: &Bytes) -> Result<(GroupId, Entry), RecordError> {
    let (group, index) = parse_entry_key(key)?;
    let mut fields = open(key, record)?;
    let found = fields.u8()?;
    let kind = EntryKind::from_code(found).ok_or(RecordError::Kind { found })?;
    let term = Term(fields.u64()?);
    let data = record.slice(ENTRY_OVERHEAD - CRC_LEN..record.len() - CRC_LEN);
    if kind == EntryKind::Members && decode_changes(&data).is_none() {
        return Err(RecordError::Malformed);
    }
    let entry = Entry {
        index,
        term,
        kind,
        data,
    };
    Ok((group, entry))
}

/// The key of a group's [`HardState`] in the meta keyspace.
pub fn hard_state_key(group: GroupId) -> Bytes {
    meta_key(group, b'h')
}

/// The record of a group's hard state.
pub fn encode_hard_state(group: GroupId, state: HardState) -> Bytes {
    let mut record = BytesMut::with_capacity(1 + 16 + CRC_LEN);
    record.put_u8(VERSION);
    record.put_u64(state.term.0);
    record.put_u64(state.vote.map_or(0, |node| node.0));
    seal(&hard_state_key(group), &mut record);
    record.freeze()
}

/// The hard state that a record holds.
pub fn decode_hard_state(group: GroupId, record: &[u8]) -> Result<HardState, RecordError> {
    let mut fields = open(&hard_state_key(group), record)?;
    let term = Term(fields.u64()?);
    let vote = fields.u64()?;
    fields.end()?;
    Ok(HardState {
        term,
        vote: (vote != 0).then_some(NodeId(vote)),
    })
}

/// The key of the point before a group's first kept entry, in the meta keyspace.
pub fn log_start_key(group: GroupId) -> Bytes {
    meta_key(group, b'l')
}

/// The record of the point before a group's first kept entry.
pub fn encode_log_start(group: GroupId, start: LogPoint) -> Bytes {
    let mut record = BytesMut::with_capacity(1 + 16 + CRC_LEN);
    record.put_u8(VERSION);
    record.put_u64(start.index.0);
    record.put_u64(start.term.0);
    seal(&log_start_key(group), &mut record);
    record.freeze()
}

/// The log start that a record holds.
pub fn decode_log_start(group: GroupId, record: &[u8]) -> Result<LogPoint, RecordError> {
    let mut fields = open(&log_start_key(group), record)?;
    let index = Index(fields.u64()?);
    let term = Term(fields.u64()?);
    fields.end()?;
    Ok(LogPoint { index, term })
}

/// A snapshot that is about to be written, and did not grow out of this replica's own log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// Where it stands.
    pub point: LogPoint,
    /// Who takes part there.
    pub members: Members,
}

/// The key of a group's [`Incoming`] in the meta keyspace.
pub fn incoming_key(group: GroupId) -> Bytes {
    meta_key(group, b'i')
}

/// The record of a snapshot that is about to be written.
pub fn encode_incoming(group: GroupId, incoming: &Incoming) -> Bytes {
    let members = encode_members(group, &incoming.members);
    let mut record = BytesMut::with_capacity(1 + 16 + members.len() + CRC_LEN);
    record.put_u8(VERSION);
    record.put_u64(incoming.point.index.0);
    record.put_u64(incoming.point.term.0);
    record.put_slice(&members);
    seal(&incoming_key(group), &mut record);
    record.freeze()
}

/// What a record says of a snapshot that was about to be written.
pub fn decode_incoming(group: GroupId, record: &[u8]) -> Result<Incoming, RecordError> {
    let mut fields = open(&incoming_key(group), record)?;
    let index = Index(fields.u64()?);
    let term = Term(fields.u64()?);
    Ok(Incoming {
        point: LogPoint { index, term },
        members: decode_members(group, fields.0)?,
    })
}

fn entry_key_bytes(group: GroupId, index: Index) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&group.0.to_be_bytes());
    key[4..].copy_from_slice(&index.0.to_be_bytes());
    key
}

fn meta_key(group: GroupId, kind: u8) -> Bytes {
    let [a, b, c, d] = group.0.to_be_bytes();
    Bytes::copy_from_slice(&[b'g', a, b, c, d, kind])
}

/// Appends the checksum of key and record.
fn seal(key: &[u8], record: &mut BytesMut) {
    record.put_u32(checksum(key, record));
}

/// Checks version and checksum; the fields are what lies between.
fn open<'a>(key: &[u8], record: &'a [u8]) -> Result<Fields<'a>, RecordError> {
    match open_any(key, record)? {
        (VERSION, fields) => Ok(fields),
        (found, _) => Err(RecordError::Version { found }),
    }
}

/// Checks the checksum; the version, and what lies between.
fn open_any<'a>(key: &[u8], record: &'a [u8]) -> Result<(u8, Fields<'a>), RecordError> {
    let (body, crc) = record
        .split_last_chunk::<CRC_LEN>()
        .ok_or(RecordError::Truncated)?;
    let (&version, fields) = body.split_first().ok_or(RecordError::Truncated)?;
    if checksum(key, body) != u32::from_be_bytes(*crc) {
        return Err(RecordError::Checksum);
    }
    Ok((version, Fields(fields)))
}

fn checksum(key: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), body)
}

/// The part of a record that was not yet read.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u8(&mut self) -> Result<u8, RecordError> {
        let (first, rest) = self.0.split_first().ok_or(RecordError::Truncated)?;
        self.0 = rest;
        Ok(*first)
    }

    fn u64(&mut self) -> Result<u64, RecordError> {
        let (first, rest) = self.0.split_first_chunk().ok_or(RecordError::Truncated)?;
        self.0 = rest;
        Ok(u64::from_be_bytes(*first))
    }

    fn u16(&mut self) -> Result<u16, RecordError> {
        let (first, rest) = self.0.split_first_chunk().ok_or(RecordError::Truncated)?;
        self.0 = rest;
        Ok(u16::from_be_bytes(*first))
    }

    fn nodes(&mut self) -> Result<BTreeSet<NodeId>, RecordError> {
        (0..self.u16()?).map(|_| self.u64().map(NodeId)).collect()
    }

    fn nodes_to_end(&mut self) -> Result<BTreeSet<NodeId>, RecordError> {
        let mut nodes = BTreeSet::new();
        while !self.0.is_empty() {
            nodes.insert(NodeId(self.u64()?));
        }
        Ok(nodes)
    }

    fn end(self) -> Result<(), RecordError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(RecordError::Malformed)
        }
    }
}

#[cfg(test)]
mod tests;
