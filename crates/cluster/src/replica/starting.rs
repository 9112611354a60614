//! A replica at its start: whether what was recovered fits together, and what of it has to be put right first.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use raft::{RawNode, StateRole};

use super::clock::Clock;
use super::disk::Disk;
use super::log::Log;
use super::record::{self, EntryKind, LogPoint};
use super::snapshots::Snapshots;
use super::{
    Action, Members, Reads, Recovered, Replica, ReplicaConfig, ReplicaError, Ticket, members_write, ticks,
};
use crate::random::Random;
use crate::{GroupId, Index, Keyspace, Term, Write};

impl Replica {
    /// A replica as it stands after a start. Whoever is alone in a group elects itself here; it leads, and the recovered
    /// entries are applied, as soon as the first persist is durable.
    pub fn new(
        now: Instant,
        config: ReplicaConfig,
        recovered: Recovered,
        actions: &mut Vec<Action>,
    ) -> Result<Replica, ReplicaError> {
        check_recovered(&config, &recovered)?;
        let mut waiting_writes = Vec::new();
        let members = recovered.members.unwrap_or_else(|| {
            let founders = Members::founders(config.voters.iter().copied());
            waiting_writes.push(members_write(config.group, &founders));
            founders
        });
        if recovered.log_start_moved {
            waiting_writes.push(members_write(config.group, &members));
            waiting_writes.extend(restart_writes(
                config.group,
                recovered.log_start,
                recovered.stale_through,
            ));
        }
        let snapshot = recovered.snapshot;
        let unknown_changes = changes_between(members.index, snapshot.index, &recovered.entries);
        let log = Log::new(
            recovered.log_start,
            snapshot,
            recovered.hard_state,
            members.clone(),
            recovered.entries,
        );
        let raft = new_raft(&config, snapshot.index, log)?;
        let mut replica = Replica {
            clock: Clock::new(now),
            random: Random::new(config.seed ^ config.node.0.rotate_left(32) ^ u64::from(config.group.0)),
            election_ticks: 0,
            drawn_for: (u64::MAX, StateRole::Follower),
            next_ticket: Ticket(1),
            in_flight: VecDeque::new(),
            waiting_writes,
            hard_state: recovered.hard_state,
            applied: snapshot,
            announced: (None, recovered.hard_state.term),
            uncommitted_bytes: 0,
            told: Index::ZERO,
            acknowledged: (Term(0), Index::ZERO),
            reads: Reads::default(),
            removable_from: recovered.removable_from,
            removing: None,
            snapshots: Snapshots::new(recovered.is_stateless),
            disk: Disk::default(),
            config,
            raft,
            members,
            heard: BTreeMap::new(),
            work: BTreeMap::new(),
            missing_through: recovered.missing_through,
            acknowledged_by: recovered.acknowledged_by,
            has_new_acknowledged: false,
            short_logs: BTreeMap::new(),
        };
        for (index, data) in unknown_changes {
            replica.apply_change(index, &data, actions);
        }
        replica.report_missing(actions);
        replica.pin_election_timeout();
        // Raft lets nobody campaign who has not applied the changes of members that are known to be committed.
        while replica.raft.has_ready() {
            replica.handle_ready(actions);
        }
        replica.campaign_alone();
        replica.settle(actions);
        Ok(replica)
    }

    /// Elects itself if nobody else could.
    fn campaign_alone(&mut self) {
        if self.is_alone() {
            let campaigned = self.raft.campaign();
            campaigned.expect("the only voter can always campaign");
            self.pin_election_timeout();
        }
    }
}

/// A log begins anew at `start`; entries after it, up to the last one, were never decided.
pub(super) fn restart_writes(group: GroupId, start: LogPoint, stale_through: Option<Index>) -> Vec<Write> {
    let mut writes = vec![Write::Put {
        keyspace: Keyspace::Meta,
        key: record::log_start_key(group),
        value: record::encode_log_start(group, start),
    }];
    if let Some(last) = stale_through {
        // They would look like entries that follow.
        writes.push(Write::RemoveRange {
            keyspace: Keyspace::Log,
            from: record::entry_key(group, start.index.next()),
            to: record::entry_key(group, last.next()),
        });
    }
    writes
}

/// Changes of members that a snapshot contains and the record of members does not: the one was written before the other.
fn changes_between(known: Index, snapshot: Index, entries: &[record::Entry]) -> Vec<(Index, Bytes)> {
    let is_change = |entry: &&record::Entry| {
        entry.kind == EntryKind::Members && known < entry.index && entry.index <= snapshot
    };
    let changes = entries.iter().filter(is_change);
    changes.map(|entry| (entry.index, entry.data.clone())).collect()
}

fn new_raft(config: &ReplicaConfig, applied: Index, log: Log) -> Result<RawNode<Log>, ReplicaError> {
    let logger = slog::Logger::root(slog::Discard, slog::o!());
    RawNode::new(&raft_config(config, applied), log, &logger).map_err(|error| ReplicaError::Config {
        group: config.group,
        reason: error.to_string(),
    })
}

fn raft_config(config: &ReplicaConfig, applied: Index) -> raft::Config {
    raft::Config {
        id: config.node.0,
        election_tick: ticks(config.election_timeout_min),
        max_election_tick: ticks(config.election_timeout_max),
        heartbeat_tick: ticks(config.heartbeat_interval),
        applied: applied.0,
        max_size_per_msg: config.message_bytes_max,
        max_inflight_msgs: config.messages_inflight_max,
        check_quorum: true,
        pre_vote: true,
        batch_append: true,
        // With the next entries, or when the owner has none (`Event::Flush`).
        skip_bcast_commit: true,
        ..raft::Config::default()
    }
}

fn check_recovered(config: &ReplicaConfig, recovered: &Recovered) -> Result<(), ReplicaError> {
    let inconsistent = |reason| {
        Err(ReplicaError::Inconsistent {
            group: config.group,
            reason,
        })
    };
    if config.node.0 == 0 || config.voters.iter().any(|voter| voter.0 == 0) {
        return Err(ReplicaError::Config {
            group: config.group,
            reason: "a node id is zero".to_owned(),
        });
    }
    let mut last = recovered.log_start;
    for entry in &recovered.entries {
        if entry.index != last.index.next() {
            return inconsistent("an entry is missing");
        }
        if entry.term < last.term {
            return inconsistent("terms fall");
        }
        last = LogPoint {
            index: entry.index,
            term: entry.term,
        };
    }
    if recovered.snapshot.index < recovered.log_start.index {
        return inconsistent("the log begins after the snapshot");
    }
    if recovered.snapshot.index > last.index {
        return inconsistent("the snapshot is ahead of the log");
    }
    if recovered.hard_state.term < last.term {
        return inconsistent("the log is of a later term than the hard state");
    }
    let members = recovered.members.as_ref();
    if members.is_some_and(|members| members.index > last.index) {
        return inconsistent("members changed after the end of the log");
    }
    Ok(())
}
