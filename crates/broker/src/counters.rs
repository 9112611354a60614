//! What the node counts, for metrics. Plain numbers: whoever exports them copies them.

use std::collections::BTreeMap;

use cluster::replica::{MemberProgress, Replica};
use cluster::{GroupId, Index, NodeId, Term};
use mqtt::authorization::Right;
use mqtt::memory::{MemoryLevel, MemoryUse};
use protocol::ReasonCode;
use protocol::packet::{DecodeError, QoS};
use protocol::state_store::Verb;
use store::{Quota, Usage};

use crate::replication::ReplicationFigures;
use crate::watch_loss::WatchLoss;

/// Everything counted since the node started.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    /// Network connections.
    pub connections_opened: u64,
    /// CONNECTs answered, by the reason code of the CONNACK.
    pub connects: BTreeMap<ReasonCode, u64>,
    /// Ends of accepted connections, by the reason code of the DISCONNECT that was sent or received; 0x80 for one
    /// that was lost.
    pub connections_ended: BTreeMap<ReasonCode, u64>,
    /// Connections ended because their client id connected again.
    pub takeovers: u64,
    /// Re-authentications, by how they ended.
    pub reauthentications: BTreeMap<ReasonCode, u64>,
    /// Pauses of clients that published faster than they may.
    pub paced: u64,
    /// Messages refused with 0x97 because memory is scarce; those of QoS 0 are in [`Dropped::memory`].
    pub memory_refused: u64,
    /// Pauses of publishers while memory is critical.
    pub held_back: u64,
    /// Connections that were closed because there was no memory for the rest of a packet.
    pub overruns: u64,
    /// How often memory has become scarce.
    pub memory_scarce: u64,
    /// What clients may not do, by [`Right`].
    pub denied: [u64; Right::COUNT],
    /// What was taken from clients because they may not have it any more, by [`Right`].
    pub withdrawn: [u64; Right::COUNT],
    /// Wills published.
    pub wills_published: u64,
    /// Connections ended by something that is no packet, by reason.
    pub malformed: BTreeMap<ReasonCode, u64>,
    /// Messages from clients, by QoS.
    pub messages_in: [u64; 3],
    /// Their payload bytes.
    pub bytes_in: [u64; 3],
    /// Messages to clients, by QoS.
    pub messages_out: [u64; 3],
    /// Their payload bytes.
    pub bytes_out: [u64; 3],
    /// Messages not delivered, by cause.
    pub dropped: Dropped,
    /// State store requests decided, by verb.
    pub store_requests: [u64; Verb::COUNT],
    /// Of these, answered with an error.
    pub store_errors: [u64; Verb::COUNT],
    /// PUBLISHes to the invoke topic that are no requests.
    pub store_not_requests: u64,
    /// Requests that had expired when they came.
    pub store_expired: u64,
    /// Requests refused with 0x97 because too many replies wait for their client.
    pub store_replies_waiting: u64,
    /// Requests with a timestamp too far ahead.
    pub store_clock_ahead: u64,
    /// Key notifications sent.
    pub store_notifications: u64,
    /// Connections that ended because they missed a change of a key that they watched, by [`WatchLoss`].
    pub watchers_ended: [u64; WatchLoss::COUNT],
    /// Groups of which this node's store was another than that of the majority.
    pub store_differences: u64,
    /// Reports that stores of a group that this node leads differ, and no majority agrees.
    pub store_undecided: u64,
    /// Groups that this node let another one lead, since its own disk took too long for what others had on theirs.
    pub leaders_held_up: u64,
    /// Groups of which this node took over the store of another node.
    pub store_replaced: u64,
    /// Groups that this node led after a stop of all replicas, whose time was advanced by wall clocks.
    pub times_reckoned: u64,
}

/// Messages that some session did not get, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The session's queue was full.
    pub queue_full: u64,
    /// The message had expired.
    pub expired: u64,
    /// Larger than the client's Maximum Packet Size.
    pub too_large: u64,
    /// QoS 0 while the connection did not keep up or was away.
    pub not_connected: u64,
    /// The limit of retained messages was reached: routed, but not retained.
    pub retained_full: u64,
    /// The client could not have it any more when it came to be sent.
    pub not_authorized: u64,
    /// A notification of a connection that had missed another one.
    pub watch_ended: u64,
    /// It would have had to be kept while memory is scarce, and nobody could be told.
    pub memory: u64,
}

/// What there is at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gauges {
    /// Network connections.
    pub connections: usize,
    /// Of these, clients of whom it is not known yet who they are.
    pub authenticating: usize,
    /// Sessions, connected or not.
    pub sessions: usize,
    /// Subscriptions of all sessions, with the shared ones.
    pub subscriptions: usize,
    /// Share names with their filters, however many sessions share each.
    pub shares: usize,
    /// Retained messages.
    pub retained_messages: usize,
    /// Their bytes.
    pub retained_bytes: u64,
    /// Of these, messages of the server about itself. No limit counts them.
    pub retained_own_messages: usize,
    /// Their bytes.
    pub retained_own_bytes: u64,
    /// Of these, with a connection.
    pub sessions_connected: usize,
    /// Packet ids of messages to clients that are not acknowledged.
    pub inflight: usize,
    /// Deliveries that wait for connections and that no owner stores.
    pub waiting_messages: usize,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// How many log entries were applied, in all groups.
    pub log_applied: u64,
    /// The latest term of their logs.
    pub log_term: u64,
    /// Bytes of their logs since the last snapshots.
    pub log_bytes: u64,
    /// The state store's contents.
    pub store: Usage,
    /// What the state store may hold.
    pub store_quota: Quota,
    /// State store requests that wait for their decision.
    pub store_requests_waiting: usize,
    /// Bytes that the node accounts for.
    pub memory: MemoryUse,
    /// The most of them.
    pub memory_max: u64,
    /// How scarce memory is.
    pub memory_level: MemoryLevel,
    /// Replication of sessions, and of what topics retain.
    pub replication: ReplicationFigures,
}

/// This node's part in one group of the state store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaGauges {
    /// Which.
    pub group: GroupId,
    /// Who leads it, as far as this node knows.
    pub leader: Option<NodeId>,
    /// Whether this node does.
    pub is_leader: bool,
    /// The latest term that was seen.
    pub term: Term,
    /// The log entry that was applied last.
    pub applied: Index,
    /// How many entries each other replica has still to confirm; known to the leader.
    pub lags: Vec<(NodeId, u64)>,
}

impl ReplicaGauges {
    /// Of this replica.
    pub(crate) fn of(replica: &Replica) -> Self {
        let last = replica.last().0;
        let lag = |member: MemberProgress| (member.node, last.saturating_sub(member.matched.0));
        Self {
            group: replica.group(),
            leader: replica.leader(),
            is_leader: replica.is_leader(),
            term: replica.term(),
            applied: replica.applied().index,
            lags: replica.progress().into_iter().map(lag).collect(),
        }
    }
}

impl Dropped {
    /// Whatever the cause.
    pub fn total(&self) -> u64 {
        self.queue_full
            + self.expired
            + self.too_large
            + self.not_connected
            + self.retained_full
            + self.not_authorized
            + self.memory
    }
}

impl Counters {
    pub(crate) fn received(&mut self, qos: QoS, payload: usize) {
        self.messages_in[qos as usize] += 1;
        self.bytes_in[qos as usize] += payload as u64;
    }

    pub(crate) fn answered(&mut self, reason: ReasonCode) {
        *self.connects.entry(reason).or_default() += 1;
    }

    pub(crate) fn ended(&mut self, reason: ReasonCode) {
        *self.connections_ended.entry(reason).or_default() += 1;
    }

    pub(crate) fn reauthenticated(&mut self, reason: ReasonCode) {
        *self.reauthentications.entry(reason).or_default() += 1;
    }

    pub(crate) fn sent(&mut self, qos: QoS, payload: usize) {
        self.messages_out[qos as usize] += 1;
        self.bytes_out[qos as usize] += payload as u64;
    }

    pub(crate) fn violated(&mut self, error: &DecodeError) {
        *self.malformed.entry(error.reason_code()).or_default() += 1;
    }

    pub(crate) fn decided(&mut self, verb: Verb, is_error: bool) {
        self.store_requests[verb as usize] += 1;
        self.store_errors[verb as usize] += u64::from(is_error);
    }
}
