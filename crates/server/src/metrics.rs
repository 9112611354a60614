//! The figures of `/metrics`.
//!
//! There is no registry: the node's thread fills one [`Figures`] when it is asked, and [`Figures::render`] writes
//! it in the text format of Prometheus. Names and labels are written once, in `metrics/page.rs`; `docs/metrics.md` is made from
//! the same page.

mod histogram;
mod page;
mod text;

use std::collections::BTreeMap;

use broker::RelayFigures;

pub use self::histogram::Histogram;

/// Counts by the value of a label.
pub type Counts = BTreeMap<&'static str, u64>;

/// What a server counted since it was started, and what there is at the moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// Network connections.
    pub connections: Connections,
    /// Sessions, their subscriptions and what waits in them.
    pub sessions: Sessions,
    /// Application messages.
    pub messages: Messages,
    /// The state store.
    pub state_store: StateStoreFigures,
    /// The replicated log and the disk under it.
    pub log: LogFigures,
    /// The account of memory.
    pub memory: Memory,
    /// The other nodes of its cluster.
    pub peers: PeersFigures,
    /// Replication of sessions, and of what topics retain.
    pub replication: broker::ReplicationFigures,
    /// States of the nodes of the cluster, as this one sees them.
    pub node_states: Vec<(String, String)>,
    /// What took long, by operation.
    pub slow_operations: Counts,
    /// What became of spans, by result; nothing where nothing is traced.
    pub spans: Counts,
    /// What the self-test has found.
    pub self_test: crate::self_test::Results,
    /// Waiting places of strangers.
    pub pools: Vec<PoolFigures>,
    /// Requests that the admin pages have refused, by cause.
    pub admin_refused: Counts,
    /// Certificates of TLS that are in use.
    pub certificates: Vec<Expiry>,
    /// Lists of revoked certificates that are in use.
    pub revocation_lists: Vec<Expiry>,
    /// Since when the process runs, in seconds since the Unix epoch.
    pub started_seconds: f64,
}

/// Network connections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connections {
    /// Open at the moment.
    pub open: u64,
    /// Accepted since the start.
    pub total: u64,
    /// Connections that were closed as soon as they were accepted, by limit.
    pub turned_away: Counts,
    /// Connections that ended in a handshake before MQTT.
    pub handshakes_failed: u64,
    /// CONNECT packets that were answered, by the reason code of CONNACK.
    pub connects: BTreeMap<u8, u64>,
    /// Ends of connections, by the reason code of the DISCONNECT that the server sent or received; without one: 0x80 for a
    /// connection that was lost.
    pub disconnects: BTreeMap<u8, u64>,
    /// Packets that were not understood, by what was wrong.
    pub malformed: Counts,
    /// Clients of whom it is not known yet who they are.
    pub authenticating: u64,
    /// Clients of whom it was not found out who they are, by method and cause.
    pub authentication_failures: BTreeMap<(&'static str, &'static str), u64>,
    /// Re-authentications, by the reason code of their AUTH or DISCONNECT.
    pub reauthentications: BTreeMap<u8, u64>,
    /// Bytes read from clients, and written to them.
    pub bytes: InOut<u64>,
}

/// Waiting places of one port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolFigures {
    /// Which port.
    pub pool: String,
    /// Places that are taken at the moment.
    pub taken: u64,
    /// Places in all.
    pub places: u64,
    /// Strangers without a place, by reason.
    pub refused: Counts,
}

/// Sessions, their subscriptions and what waits in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sessions {
    /// Sessions, connected or not.
    pub total: u64,
    /// Those with a connection.
    pub connected: u64,
    /// Subscriptions of all sessions.
    pub subscriptions: u64,
    /// Share names with their filters.
    pub shares: u64,
    /// Deliveries that wait for connections and that no owner stores.
    pub waiting_messages: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// Deliveries that are not acknowledged.
    pub inflight: u64,
    /// Session takeovers.
    pub takeovers: u64,
    /// Pauses of clients that published too fast.
    pub paced: u64,
    /// What clients may not do, by the right that they do not have.
    pub denied: Counts,
    /// What was taken from clients, by the right that they do not have any more.
    pub withdrawn: Counts,
}

/// Application messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Messages {
    /// From clients and to clients, by QoS 0, 1 and 2.
    pub by_qos: InOut<[Traffic; 3]>,
    /// Messages that were not delivered to a session, by cause.
    pub dropped: Counts,
    /// Retained messages.
    pub retained: u64,
    /// Their bytes.
    pub retained_bytes: u64,
    /// Wills that were published.
    pub wills: u64,
}

/// Messages and the bytes of their payloads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// PUBLISH packets.
    pub messages: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
}

/// The same figure from clients and to clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InOut<T> {
    /// From clients.
    pub received: T,
    /// To clients.
    pub sent: T,
}

/// The state store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateStoreFigures {
    /// Requests that were answered, by verb and result.
    pub requests: BTreeMap<(&'static str, &'static str), u64>,
    /// From the packet to the reply, by verb.
    pub latency: BTreeMap<&'static str, Histogram>,
    /// Requests that were not executed because of what came with them, by cause.
    pub refused: Counts,
    /// Notifications of watched keys.
    pub notifications: u64,
    /// Connections that missed a change of a watched key and were ended for it, by cause.
    pub watchers_ended: Counts,
    /// Groups of which the copy was another than that of the majority.
    pub differences: u64,
    /// How often copies differed and no majority agreed.
    pub undecided: u64,
    /// Groups that another node was let lead, since the disk was too slow.
    pub held_up: u64,
    /// Groups of which the copy was taken over from another node.
    pub copies_fetched: u64,
    /// Groups whose time was advanced by wall clocks, over a stop of all their replicas.
    pub times_reckoned: u64,
    /// Keys at the moment.
    pub keys: u64,
    /// Their bytes, with values.
    pub bytes: u64,
    /// `state_store.keys_max`
    pub keys_max: u64,
    /// `state_store.bytes_max`
    pub bytes_max: u64,
    /// Registered watches.
    pub watches: u64,
    /// Deletions that are remembered.
    pub tombstones: u64,
    /// Replies that are remembered.
    pub replies_remembered: u64,
}

/// The replicated log and the disk under it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogFigures {
    /// Time to write what waits and sync it.
    pub sync: Histogram,
    /// Batches that were synced; one sync serves all that wait.
    pub batches_synced: u64,
    /// This node's replicas, by group.
    pub replicas: BTreeMap<String, ReplicaFigures>,
    /// Bytes of the log since the last snapshot.
    pub bytes_since_snapshot: u64,
    /// Snapshots that were finished.
    pub snapshots: u64,
    /// Snapshots that failed.
    pub snapshots_failed: u64,
    /// Seconds since the last snapshot was finished, if there was one since the start.
    pub snapshot_age_seconds: Option<u64>,
}

/// One replica of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplicaFigures {
    /// The index that was applied last.
    pub applied: u64,
    /// The term.
    pub term: u64,
    /// Whether it leads.
    pub is_leader: bool,
    /// Whether it knows who leads.
    pub has_leader: bool,
    /// Entries that other nodes have not confirmed, by node.
    pub lags: BTreeMap<String, u64>,
}

/// The account of memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes, by what they are for.
    pub bytes: Counts,
    /// `limits.memory_max`
    pub bytes_max: u64,
    /// 0 normal, 1 scarce, 2 critical, 3 full.
    pub level: u64,
    /// How often it became scarce.
    pub scarce: u64,
    /// Messages that were refused with 0x97.
    pub refused: u64,
    /// Pauses of publishers.
    pub held_back: u64,
    /// Connections that were closed in the middle of a packet.
    pub overruns: u64,
}

/// The other nodes of a cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PeersFigures {
    /// Nodes to which there is a connection.
    pub connected: u64,
    /// Each of them.
    pub peers: Vec<PeerFigures>,
    /// Connections that were made to other nodes since the start.
    pub connections: u64,
    /// Messages and their bytes, to other nodes and from them.
    pub messages_sent: u64,
    pub bytes_sent: u64,
    pub messages_received: u64,
    pub bytes_received: u64,
    /// Messages that were passed on for other nodes.
    pub relayed: u64,
    /// Messages that were not sent, by cause.
    pub dropped: Counts,
    /// Connections that came to nothing, by cause.
    pub refused: Counts,
}

impl PeersFigures {
    /// Adds what the node counts, which the connections do not know.
    pub(crate) fn count_relayed(&mut self, figures: RelayFigures) {
        self.relayed = figures.passed_on;
        if figures.dropped > 0 {
            self.dropped.insert("not_relayed", figures.dropped);
        }
    }
}

/// One other node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PeerFigures {
    /// Its id.
    pub node: String,
    /// How long it took to answer, last.
    pub round_trip_seconds: Option<f64>,
    /// By how much its clock is ahead.
    pub clock_ahead_seconds: Option<f64>,
}

/// When something of TLS expires.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expiry {
    /// As in `listeners[0].tls.cert`.
    pub setting: String,
    /// Where it is.
    pub file: String,
    /// Whose certificate, or the issuer of a list.
    pub subject: String,
    /// The serial number of a certificate, the number of a list.
    pub number: String,
    /// In seconds since the Unix epoch.
    pub at: i64,
}

impl Figures {
    /// The page `/metrics`, in the text format of Prometheus, version 0.0.4.
    pub fn render(&self) -> String {
        let mut page = text::Page::default();
        page::write(self, &mut page);
        page.finish()
    }
}

#[cfg(test)]
mod tests;
