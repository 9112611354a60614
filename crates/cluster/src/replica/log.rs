//! The log as Raft reads it, in memory. What is on disk is written through [`super::Action::Persist`] and read back
//! only at the start.
//!
//! A group with one voter drops an entry's data when it is applied: nobody will ask for it again. A larger group
//! keeps the data until the log is cut after a snapshot, for followers that lag. Terms are kept as runs.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use raft::eraftpb::{Entry as RaftEntry, EntryType, HardState as RaftHardState, Snapshot};
use raft::{GetEntriesContext, RaftState, StorageError};

use super::members::Members;
use super::record::{ENTRY_OVERHEAD, Entry, EntryKind, HardState, LogPoint};
use crate::{Index, NodeId, Term};

/// Distance between two marks of the log's length in bytes; [`Log::bytes_since_snapshot`] is exact to that.
const MARK_BYTES: u64 = 1 << 20;

/// Entries from [`Log::start`] (excluded) to [`Log::last_index`].
#[derive(Debug)]
pub(super) struct Log {
    /// The point before the first entry.
    start: LogPoint,
    /// Where each term begins; the first run may begin before the first entry.
    runs: VecDeque<LogPoint>,
    /// Data of the entries from `data_first` to the last one.
    data: VecDeque<Bytes>,
    data_first: Index,
    /// Bytes of that data, as records.
    held: u64,
    /// Which of the entries are changes of members.
    changes: BTreeSet<Index>,
    /// Bytes of all entries ever appended, as records.
    bytes: u64,
    /// `bytes` before the first entry after the last snapshot.
    bytes_at_snapshot: u64,
    /// (index, bytes up to and including it), every [`MARK_BYTES`].
    marks: VecDeque<(Index, u64)>,
    hard_state: HardState,
    commit: Index,
    members: Members,
    /// Who lacks what is before the start. Raft only reads the log, and this is where it says so.
    behind: RefCell<BTreeSet<NodeId>>,
}

impl Log {
    /// A log as it was found at the start. `snapshot` is where the state machine stands: everything up to there is
    /// committed. So is all up to the change that made `members`, and every change of members before the last one (`members.rs`).
    pub(super) fn new(
        start: LogPoint,
        snapshot: LogPoint,
        hard_state: HardState,
        members: Members,
        entries: Vec<Entry>,
    ) -> Log {
        let mut log = Log {
            start,
            runs: VecDeque::new(),
            data: VecDeque::with_capacity(entries.len()),
            data_first: start.index.next(),
            held: 0,
            changes: BTreeSet::new(),
            bytes: 0,
            bytes_at_snapshot: 0,
            marks: VecDeque::new(),
            hard_state,
            commit: snapshot.index.max(members.index),
            members,
            behind: RefCell::default(),
        };
        for entry in entries {
            let point = LogPoint {
                index: entry.index,
                term: entry.term,
            };
            log.push(point, entry.kind, entry.data);
        }
        if let Some(before_last) = log.changes.iter().rev().nth(1) {
            log.commit = log.commit.max(*before_last);
        }
        assert!(
            log.start.index <= snapshot.index,
            "the log begins after the snapshot"
        );
        assert!(snapshot.index <= log.last(), "the snapshot is ahead of the log");
        log.snapshot_taken(snapshot.index);
        log
    }

    pub(super) fn start(&self) -> LogPoint {
        self.start
    }

    pub(super) fn last(&self) -> Index {
        Index(self.data_first.0 - 1 + self.data.len() as u64)
    }

    /// Bytes of entry records after the last snapshot, give or take a mebibyte.
    pub(super) fn bytes_since_snapshot(&self) -> u64 {
        self.bytes - self.bytes_at_snapshot
    }

    /// Bytes of the entries whose data is in memory.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held
    }

    /// The term of the entry at `index`, if the log still knows it.
    pub(super) fn term_at(&self, index: Index) -> Option<Term> {
        if index == self.start.index {
            return Some(self.start.term);
        }
        if index < self.start.index || index > self.last() {
            return None;
        }
        let run = self.runs.partition_point(|run| run.index <= index);
        run.checked_sub(1).map(|run| self.runs[run].term)
    }

    /// The data of the entry at `index`.
    pub(super) fn data_at(&self, index: Index) -> Option<&Bytes> {
        let position = index.0.checked_sub(self.data_first.0)?;
        self.data.get(usize::try_from(position).ok()?)
    }

    /// What the entry at `index` is for.
    pub(super) fn kind_at(&self, index: Index) -> EntryKind {
        if self.changes.contains(&index) {
            EntryKind::Members
        } else {
            EntryKind::Data
        }
    }

    /// Forgets everything from `index` on: a new leader has other entries there.
    pub(super) fn truncate_from(&mut self, index: Index) {
        assert!(index > self.start.index, "only kept entries can be replaced");
        assert!(index >= self.data_first, "applied entries are not replaced");
        let keep = (index.0 - self.data_first.0) as usize;
        for dropped in self.data.drain(keep.min(self.data.len())..) {
            self.bytes -= record_bytes(&dropped);
            self.held -= record_bytes(&dropped);
        }
        drop(self.changes.split_off(&index));
        while self.runs.back().is_some_and(|run| run.index >= index) {
            self.runs.pop_back();
        }
        while self.marks.back().is_some_and(|(marked, _)| *marked >= index) {
            self.marks.pop_back();
        }
    }

    /// Appends the entry after the last one.
    pub(super) fn push(&mut self, LogPoint { index, term }: LogPoint, kind: EntryKind, data: Bytes) {
        assert_eq!(
            index,
            self.last().next(),
            "entries follow each other without a gap"
        );
        let newest = self.runs.back().map_or(self.start.term, |run| run.term);
        assert!(newest <= term, "terms never fall within a log");
        if self.runs.back().is_none_or(|run| run.term != term) {
            self.runs.push_back(LogPoint { index, term });
        }
        if kind == EntryKind::Members {
            self.changes.insert(index);
        }
        self.bytes += record_bytes(&data);
        self.held += record_bytes(&data);
        self.data.push_back(data);
        let marked = self.marks.back().map_or(0, |(_, bytes)| *bytes);
        if self.bytes - marked >= MARK_BYTES {
            self.marks.push_back((index, self.bytes));
        }
    }

    /// Lets go of the data up to and including `index`.
    pub(super) fn drop_data_through(&mut self, index: Index) {
        while self.data_first <= index
            && let Some(dropped) = self.data.pop_front()
        {
            self.held -= record_bytes(&dropped);
            self.data_first = self.data_first.next();
        }
    }

    /// Remembers that a snapshot covers everything up to `index`.
    pub(super) fn snapshot_taken(&mut self, index: Index) {
        while let Some((marked, bytes)) = self.marks.front().copied() {
            if marked > index {
                break;
            }
            self.bytes_at_snapshot = bytes;
            self.marks.pop_front();
        }
    }

    /// How far the log may be cut so that as much as this is left before `index`.
    pub(super) fn before(&self, index: Index, entries: u64, bytes: u64) -> Index {
        let (mut left, mut cut) = (bytes, index);
        while cut > self.start.index && index.0 - cut.0 < entries {
            let Some(rest) = self
                .data_at(cut)
                .and_then(|data| left.checked_sub(record_bytes(data)))
            else {
                break;
            };
            left = rest;
            cut = Index(cut.0 - 1);
        }
        cut
    }

    /// Begins anew after a snapshot that does not lie on this log.
    pub(super) fn restart(&mut self, start: LogPoint) {
        assert!(self.start.index < start.index, "a log only moves forward");
        self.start = start;
        self.runs.clear();
        self.data.clear();
        self.held = 0;
        self.changes.clear();
        self.data_first = start.index.next();
        self.marks.clear();
        self.bytes_at_snapshot = self.bytes;
    }

    /// Who lacks what is before the start, since the last call.
    pub(super) fn take_behind(&self) -> BTreeSet<NodeId> {
        self.behind.take()
    }

    /// Cuts the log so that it begins after `index`.
    pub(super) fn cut_through(&mut self, index: Index) {
        assert!(index <= self.last(), "only existing entries can be cut");
        let Some(term) = self.term_at(index) else { return };
        self.drop_data_through(index);
        self.changes = self.changes.split_off(&index.next());
        self.start = LogPoint { index, term };
        while self
            .runs
            .get(1)
            .is_some_and(|second| second.index <= index.next())
        {
            self.runs.pop_front();
        }
        if index == self.last() {
            self.runs.clear();
        }
    }
}

/// What Raft reads. Entries for a follower share the memory of their data; where Raft only wants to know which entries there are,
/// they come without, and [`super::Replica`] takes it from [`Log::data_at`].
impl raft::Storage for Log {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let hard_state = RaftHardState {
            term: self.hard_state.term.0,
            vote: self.hard_state.vote.map_or(0, |node| node.0),
            commit: self.commit.0,
        };
        Ok(RaftState::new(hard_state, self.members.to_raft()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> raft::Result<Vec<RaftEntry>> {
        assert!(
            high <= self.last().0 + 1,
            "Raft asked for entries that do not exist"
        );
        if low <= self.start.index.0 {
            return Err(StorageError::Compacted.into());
        }
        // Only entries for a follower could be fetched later; all other uses look at the entries' places.
        let with_data = context.can_async();
        let bytes_max = max_size.into().unwrap_or(u64::MAX);
        let mut bytes = 0_u64;
        let mut entries = Vec::new();
        for index in low..high {
            let (Some(term), data) = (self.term_at(Index(index)), self.data_at(Index(index))) else {
                return Err(StorageError::Compacted.into());
            };
            let Some(data) = data else {
                return Err(StorageError::Compacted.into());
            };
            bytes = bytes.saturating_add(record_bytes(data));
            if with_data && bytes > bytes_max && !entries.is_empty() {
                break;
            }
            let data = if with_data { data.clone() } else { Bytes::new() };
            let mut entry = RaftEntry {
                term: term.0,
                index,
                ..RaftEntry::default()
            };
            set_content(&mut entry, self.kind_at(Index(index)), data);
            entries.push(entry);
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index < self.start.index.0 {
            return Err(StorageError::Compacted.into());
        }
        self.term_at(Index(index))
            .map(|term| term.0)
            .ok_or_else(|| StorageError::Unavailable.into())
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.start.index.next().0)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last().0)
    }

    /// Snapshots do not travel in Raft's messages: the owner offers one, and Raft asks again at the follower's next sign of life.
    fn snapshot(&self, _request_index: u64, to: u64) -> raft::Result<Snapshot> {
        self.behind.borrow_mut().insert(NodeId(to));
        Err(StorageError::SnapshotTemporarilyUnavailable.into())
    }
}

/// Puts what an entry holds where Raft looks for it. A change of members travels as the context: what Raft itself reads as such an
/// entry's data is only needed when it is proposed.
pub(super) fn set_content(entry: &mut RaftEntry, kind: EntryKind, content: Bytes) {
    match kind {
        EntryKind::Data => entry.data = content,
        EntryKind::Members => {
            entry.set_entry_type(EntryType::EntryConfChangeV2);
            entry.context = content;
        }
    }
}

/// What an entry of Raft is for, and what it holds.
pub(super) fn content(entry: &RaftEntry) -> (EntryKind, &Bytes) {
    match entry.get_entry_type() {
        EntryType::EntryNormal => (EntryKind::Data, &entry.data),
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => (EntryKind::Members, &entry.context),
    }
}

fn record_bytes(data: &Bytes) -> u64 {
    (ENTRY_OVERHEAD + data.len()) as u64
}
