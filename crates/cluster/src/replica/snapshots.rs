//! How a replica gets over a gap: its log ends before the leader's begins, so entries alone never bring it up to date.
//!
//! Raft's messages carry no snapshots. The leader's replica asks for one to be offered ([`Action::OfferSnapshot`]); how its bytes get
//! to the follower is its owner's business, and whose they are does not matter, since whatever is in a snapshot is committed. The
//! follower's Raft is told only when the snapshot is durable. Then the log begins anew after it, in one persist, and only when that is
//! durable is the leader told.
//!
//! ```text
//! SnapshotReceived --> Persist(members) --> Persisted --> KeepSnapshot ... SnapshotKept
//!     --> [somebody else leads] --> Restored, Persist(log start, members, removal of entries) --> Persisted --> Send
//! ```
//!
//! A crash at any moment leaves either the old log, or the snapshot with the record of who takes part there, from which recovery begins
//! the log anew.

use std::time::Instant;

use bytes::Bytes;
use raft::StateRole;
use raft::eraftpb::{Message, MessageType, Snapshot, SnapshotMetadata};

use super::members::Members;
use super::record::{self, EntryKind, Incoming, LogPoint};
use super::starting::restart_writes;
use super::{Action, Replica, Ticket, members_write};
use crate::{Index, Keyspace, Write};

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    arrival: Option<Arrival>,
    /// The log began anew; durable with this ticket.
    restoring: Option<(Ticket, Index)>,
    /// Entries after this one are kept if possible: a follower gets the snapshot that stands here.
    held: Option<Index>,
    /// Entries on disk end before the first of these two and go on at the second.
    gap: Option<(Index, Index)>,
    /// The owner has no state that it could lead with.
    is_stateless: bool,
}

/// A snapshot that was received.
#[derive(Debug)]
struct Arrival {
    incoming: Incoming,
    stage: Stage,
}

/// How far it is.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// The record of who takes part there is written with the next persist.
    Received,
    /// It is on its way to the disk.
    Recording(Ticket),
    /// The owner writes the snapshot.
    Keeping,
    /// All is durable.
    Kept,
}

impl Snapshots {
    pub(super) fn new(is_stateless: bool) -> Snapshots {
        Snapshots {
            is_stateless,
            ..Snapshots::default()
        }
    }
}

impl Replica {
    /// Whether the snapshot at this point has anything that cannot come out of the log.
    pub fn lacks(&self, index: Index, term: crate::Term) -> bool {
        let log = &self.raft.raft.raft_log;
        index.0 > log.committed && !log.match_term(index.0, term.0)
    }

    /// Where the log begins: a snapshot that ends before is of no use to a follower.
    pub fn log_start(&self) -> LogPoint {
        self.raft.store().start()
    }

    /// The data of the applied entries after `index`, those without data left out; `None`: the log does not reach back that far.
    pub fn applied_after(&self, index: Index) -> Option<Vec<(Index, Bytes)>> {
        self.data_between(index, self.applied.index)
    }

    /// The same of the entries after the last applied one, committed or not.
    pub fn unapplied(&self) -> Option<Vec<(Index, Bytes)>> {
        self.data_between(self.applied.index, self.raft.store().last())
    }

    fn data_between(&self, after: Index, last: Index) -> Option<Vec<(Index, Bytes)>> {
        let log = self.raft.store();
        let is_data =
            |(index, data): &(Index, Bytes)| !data.is_empty() && log.kind_at(*index) == EntryKind::Data;
        let indexes = (after.0 + 1..=last.0).map(Index);
        let entries: Option<Vec<_>> = indexes
            .map(|index| Some((index, log.data_at(index)?.clone())))
            .collect();
        Some(entries?.into_iter().filter(is_data).collect())
    }

    /// Last entry of this replica's log: of two logs of a group, the one with the later term, then with the greater index, has
    /// all that was committed in the other.
    pub fn log_end(&self) -> LogPoint {
        let log = self.raft.store();
        let index = log.last();
        let term = log.term_at(index).unwrap_or(self.applied.term);
        LogPoint { index, term }
    }

    /// Entries after `held` are kept, within [`super::ReplicaConfig::log_held_bytes`].
    pub fn hold_log(&mut self, held: Option<Index>) {
        self.snapshots.held = held;
    }

    /// Whether the owner has no state to lead with, see [`super::Recovered::is_stateless`].
    pub fn is_stateless(&self) -> bool {
        self.snapshots.is_stateless
    }

    /// Whether the owner has no state to lead with. Such a replica does not campaign; it votes and keeps entries as any other,
    /// since its log and its vote are whole.
    pub fn set_stateless(&mut self, is_stateless: bool) {
        self.snapshots.is_stateless = is_stateless;
    }

    /// A peer offers a snapshot whose entries are all here: the leader has to hear how far the log goes.
    pub(super) fn answer_offer(&mut self, point: LogPoint) {
        let raft = &mut self.raft.raft;
        if raft.state != StateRole::Follower || raft.leader_id == 0 {
            return;
        }
        // What is in a snapshot is committed. A replica that was just started may not know that yet.
        if raft.raft_log.match_term(point.index.0, point.term.0) {
            raft.raft_log.commit_to(point.index.0);
        }
        if raft.raft_log.committed == 0 {
            return;
        }
        // Raft answers an append that begins below what is committed with what is committed.
        let mut probe = Message {
            from: raft.leader_id,
            to: self.config.node.0,
            term: raft.term,
            ..Message::default()
        };
        probe.set_msg_type(MessageType::MsgAppend);
        self.raft
            .step(probe)
            .expect("a follower takes its leader's appends");
        self.pin_election_timeout();
    }

    pub(super) fn snapshot_received(&mut self, point: LogPoint, members: Members, actions: &mut Vec<Action>) {
        let unneeded = Action::SnapshotUnneeded { index: point.index };
        if let Some(before) = self.snapshots.arrival.take() {
            let index = before.incoming.point.index;
            actions.push(Action::SnapshotUnneeded { index });
        }
        // What the peer says is checked before Raft sees it.
        let is_possible = point.term.0 > 0
            && members.is_valid()
            && members.contains(self.config.node)
            && members.index <= point.index;
        if !is_possible || !self.lacks(point.index, point.term) {
            return actions.push(unneeded);
        }
        let incoming = Incoming { point, members };
        self.waiting_writes.push(Write::Put {
            keyspace: Keyspace::Meta,
            key: record::incoming_key(self.config.group),
            value: record::encode_incoming(self.config.group, &incoming),
        });
        self.snapshots.arrival = Some(Arrival {
            incoming,
            stage: Stage::Received,
        });
    }

    pub(super) fn snapshot_kept(&mut self, point: LogPoint) {
        // One that was received twice is asked for twice.
        if let Some(arrival) = &mut self.snapshots.arrival
            && arrival.incoming.point == point
            && arrival.stage == Stage::Keeping
        {
            arrival.stage = Stage::Kept;
        }
    }

    /// All writes that waited go with this persist.
    pub(super) fn recorded_with(&mut self, ticket: Ticket) {
        if let Some(arrival) = &mut self.snapshots.arrival
            && arrival.stage == Stage::Received
        {
            arrival.stage = Stage::Recording(ticket);
        }
    }

    /// Everything up to this ticket is durable.
    pub(super) fn snapshots_persisted(&mut self, ticket: Ticket, actions: &mut Vec<Action>) {
        if let Some((of, index)) = self.snapshots.restoring
            && of <= ticket
        {
            self.snapshots.restoring = None;
            self.raft.advance_apply_to(index.0);
        }
        if let Some(arrival) = &mut self.snapshots.arrival
            && matches!(arrival.stage, Stage::Recording(of) if of <= ticket)
        {
            arrival.stage = Stage::Keeping;
            let LogPoint { index, term } = arrival.incoming.point;
            actions.push(Action::KeepSnapshot { index, term });
        }
    }

    /// Gives Raft a snapshot that is durable, as soon as somebody leads from whom it could have come.
    pub(super) fn try_restore(&mut self, actions: &mut Vec<Action>) {
        let raft = &self.raft.raft;
        let arrival = self.snapshots.arrival.as_ref();
        let Some(arrival) = arrival.filter(|arrival| arrival.stage == Stage::Kept) else {
            return;
        };
        let LogPoint { index, term } = arrival.incoming.point;
        if !self.lacks(index, term) || raft.state == StateRole::Leader {
            self.snapshots.arrival = None;
            return actions.push(Action::SnapshotUnneeded { index });
        }
        if raft.state != StateRole::Follower || raft.leader_id == 0 || raft.term < term.0 {
            return;
        }
        let mut message = Message {
            from: raft.leader_id,
            to: self.config.node.0,
            term: raft.term,
            snapshot: Some(metadata(arrival)),
            ..Message::default()
        };
        message.set_msg_type(MessageType::MsgSnapshot);
        self.raft
            .step(message)
            .expect("a follower takes its leader's snapshot");
        self.pin_election_timeout();
        if self.raft.snap().is_none() {
            self.snapshots.arrival = None;
            actions.push(Action::SnapshotUnneeded { index });
        }
    }

    /// The log begins anew after the snapshot that Raft has taken.
    pub(super) fn restart_log(
        &mut self,
        snapshot: &Snapshot,
        writes: &mut Vec<Write>,
        actions: &mut Vec<Action>,
    ) {
        let arrival = self.snapshots.arrival.take();
        let Incoming { point, members } = arrival.expect("Raft was given one").incoming;
        assert_eq!(
            snapshot.get_metadata().index,
            point.index.0,
            "Raft has taken what it was given"
        );
        let group = self.config.group;
        let log = self.raft.mut_store();
        let last = log.last();
        log.restart(point);
        writes.push(members_write(group, &members));
        let stale_through = Some(last).filter(|last| *last > point.index);
        writes.extend(restart_writes(group, point, stale_through));
        if stale_through.is_none() {
            self.snapshots.gap = Some((last.next(), point.index.next()));
        }
        self.applied = point;
        self.snapshots.restoring = Some((self.next_ticket, point.index));
        let LogPoint { index, term } = point;
        actions.push(Action::Restored { index, term });
        if self.members != members {
            self.members = members.clone();
            actions.push(Action::Members { members });
        }
    }

    /// Where removing entries from `from` on ends, at most at `end`: there may be none in between.
    pub(super) fn removal(&mut self, from: Index, end: Index) -> (Index, Index) {
        match self.snapshots.gap {
            Some((first, after)) if from >= first => {
                self.snapshots.gap = None;
                (from.max(after.min(end)), end)
            }
            Some((first, _)) => (from, end.min(first)),
            None => (from, end),
        }
    }

    /// How far the log may be cut after the snapshot at `index`.
    pub(super) fn cut_point(&self, index: Index) -> Index {
        if self.was_always_alone() {
            return index;
        }
        let (log, config) = (self.raft.store(), &self.config);
        let tail = log.before(index, config.log_tail_entries, config.log_tail_bytes);
        match self.snapshots.held {
            Some(held) if held < tail => held.max(log.before(index, u64::MAX, config.log_held_bytes)),
            _ => tail,
        }
    }

    /// Time passes without a campaign while there is nothing to lead with, acknowledged entries are missing, or a log that just began
    /// anew is not durable.
    pub(super) fn wait_quietly(&mut self, now: Instant, ticks_max: usize) -> bool {
        let is_quiet = self.snapshots.is_stateless
            || self.snapshots.restoring.is_some()
            || self.missing_through.is_some();
        if !is_quiet || self.raft.raft.state != StateRole::Follower {
            return false;
        }
        // Others are voted for once the leader was silent for long enough.
        let ticks = self.clock.elapsed(now, ticks_max);
        let raft = &mut self.raft.raft;
        raft.election_elapsed = (raft.election_elapsed + ticks).min(ticks_max);
        true
    }

    /// Whether a message would make this replica campaign, or vote, at a moment at which it must not.
    pub(super) fn must_not_heed(&self, message: &Message) -> bool {
        let is_quiet = self.snapshots.is_stateless || self.snapshots.restoring.is_some();
        is_quiet && message.msg_type() == MessageType::MsgTimeoutNow || self.is_barred_from(message)
    }
}

fn metadata(arrival: &Arrival) -> Snapshot {
    let LogPoint { index, term } = arrival.incoming.point;
    let mut metadata = SnapshotMetadata {
        index: index.0,
        term: term.0,
        ..SnapshotMetadata::default()
    };
    metadata.set_conf_state(arrival.incoming.members.to_raft());
    let mut snapshot = Snapshot::default();
    snapshot.set_metadata(metadata);
    snapshot
}
