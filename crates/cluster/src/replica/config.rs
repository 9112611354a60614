//! How a replica is made: its place, its timings, its limits, and what was found on disk.

use std::collections::BTreeMap;
use std::time::Duration;

use super::members::Members;
use super::record::{Entry, HardState, LogPoint};
use crate::{GroupId, NodeId};

/// Settings of one replica.
#[derive(Debug, Clone)]
pub struct ReplicaConfig {
    /// The group whose log this is.
    pub group: GroupId,
    /// The node that holds this replica.
    pub node: NodeId,
    /// Who votes when the group is made; later what is on disk counts. A node that comes later is not among them.
    pub voters: Vec<NodeId>,
    /// Seed of the replica's own random numbers: the spread of election timeouts.
    pub seed: u64,
    /// How often a leader says that it is there.
    pub heartbeat_interval: Duration,
    /// The shortest time without a leader after which a follower asks for votes: three missed heartbeats.
    pub election_timeout_min: Duration,
    /// The longest such time; each wait is drawn between the two, so that two followers rarely ask together. A leader
    /// that died is replaced after this time and two round trips with a sync each.
    pub election_timeout_max: Duration,
    /// Proposals that are not yet applied may take up this many bytes; one beyond that is refused, unless it is the only one.
    pub uncommitted_bytes_max: u64,
    /// Most bytes of entries in one message to a follower, unless one entry is longer.
    pub message_bytes_max: u64,
    /// How many messages may be on the way to one follower. A follower that was away is sent as many full ones in one step of the leader,
    /// and writes them with one sync: with 8 MiB others do not notice, with 64 MiB they wait for a third of a second.
    pub messages_inflight_max: usize,
    /// Entries kept before a snapshot, in groups with more than one voter, so that a follower that lags a little does
    /// not need the snapshot. They are in memory, too.
    pub log_tail_entries: u64,
    /// Bytes of such entries.
    pub log_tail_bytes: u64,
    /// Bytes of entries kept before a snapshot while a follower gets an older one: beyond it, it will have to begin anew.
    pub log_held_bytes: u64,
    /// A crash of the machine may take the last writes: a follower that has lost some is filled up by the leader. Otherwise its disk is an
    /// older copy, and it takes no part.
    pub may_lose_tail: bool,
}

impl ReplicaConfig {
    /// Settings with defaults for timings and limits.
    pub fn new(group: GroupId, node: NodeId, voters: Vec<NodeId>, seed: u64) -> ReplicaConfig {
        ReplicaConfig {
            group,
            node,
            voters,
            seed,
            heartbeat_interval: Duration::from_millis(100),
            election_timeout_min: Duration::from_millis(300),
            election_timeout_max: Duration::from_millis(600),
            uncommitted_bytes_max: 64 << 20,
            message_bytes_max: 128 << 10,
            messages_inflight_max: 64,
            log_tail_entries: 100_000,
            log_tail_bytes: 32 << 20,
            log_held_bytes: 256 << 20,
            may_lose_tail: false,
        }
    }
}

/// What was found on disk at the start of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The highest term seen and the vote in it.
    pub hard_state: HardState,
    /// Who takes part; `None` if the group was never started on this node.
    pub members: Option<Members>,
    /// The point before the first entry of the log.
    pub log_start: LogPoint,
    /// `log_start` is not what is on disk, and is to be written.
    pub log_start_moved: bool,
    /// Where the restored state machine stands: the last entry that its snapshot contains.
    pub snapshot: LogPoint,
    /// All entries after `log_start`, without a gap.
    pub entries: Vec<Entry>,
    /// Entries below `log_start` may still be on disk, from this index on; they are to be removed.
    pub removable_from: crate::Index,
    /// Entries after `log_start` up to this one are on disk and not part of the log; they are to be removed.
    pub stale_through: Option<crate::Index>,
    /// The log is whole, and the state machine at its start is lost: it has to come from another replica.
    pub is_stateless: bool,
    /// Last entry that this replica has acknowledged, if its log was found to end before it.
    pub missing_through: Option<crate::Index>,
    /// Committed entries up to these were acknowledged by other nodes to this one.
    pub acknowledged_by: BTreeMap<NodeId, crate::Index>,
}

impl Recovered {
    /// What is found where nothing was ever written.
    pub fn nothing() -> Recovered {
        Recovered {
            hard_state: HardState {
                term: crate::Term(0),
                vote: None,
            },
            members: None,
            log_start: LogPoint::START,
            log_start_moved: false,
            snapshot: LogPoint::START,
            entries: Vec::new(),
            removable_from: crate::Index(1),
            stale_through: None,
            is_stateless: false,
            missing_through: None,
            acknowledged_by: BTreeMap::new(),
        }
    }
}

/// A replica that cannot be made from what it was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    /// A timing or limit is out of range.
    #[error("replica of group {group}: {reason}")]
    Config { group: GroupId, reason: String },
    /// What was recovered does not fit together: entries with gaps, or a snapshot outside the log.
    #[error("the recovered log of group {group} does not fit together: {reason}")]
    Inconsistent { group: GroupId, reason: &'static str },
}
