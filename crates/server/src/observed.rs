//! Figures for `/metrics`: what the node counted, and what only the edge can see.

use std::collections::BTreeMap;
use std::time::Instant;

use broker::{Node, ReplicaGauges, WatchLoss};
use mqtt::authorization::Right;
use protocol::packet::QoS;
use protocol::state_store::Verb;

use crate::authentication::Cause;
use crate::clock;
use crate::metrics::{Counts, Figures, Histogram, InOut, ReplicaFigures, Traffic};
use crate::self_test;
use crate::slow::SlowLog;

/// What the edge itself counts.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) sync_latency: Histogram,
    pub(crate) batches_synced: u64,
    pub(crate) snapshots: u64,
    pub(crate) snapshots_failed: u64,
    pub(crate) snapshot_written_at: Option<Instant>,
    /// Connections that were closed as soon as they were accepted, by limit.
    pub(crate) turned_away: Counts,
    /// Connections that ended before MQTT began.
    pub(crate) handshakes_failed: u64,
    /// Clients of whom it was not found out who they are, by method and cause.
    authentication_failures: BTreeMap<(&'static str, Cause), u64>,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
    /// The server says goodbye to its clients.
    pub(crate) is_stopping: bool,
    /// What took long.
    pub(crate) slow: SlowLog,
    /// What the self-test has found.
    pub(crate) self_test: self_test::Results,
    store_latencies: [Histogram; Verb::COUNT],
    started_seconds: f64,
}

impl Default for Observed {
    fn default() -> Self {
        Self {
            sync_latency: Histogram::default(),
            batches_synced: 0,
            snapshots: 0,
            snapshots_failed: 0,
            snapshot_written_at: None,
            turned_away: Counts::new(),
            handshakes_failed: 0,
            authentication_failures: BTreeMap::new(),
            bytes_received: 0,
            bytes_sent: 0,
            is_stopping: false,
            slow: SlowLog::default(),
            self_test: self_test::Results::default(),
            store_latencies: Default::default(),
            started_seconds: std::time::Duration::from_millis(clock::wall()).as_secs_f64(),
        }
    }
}

impl Observed {
    /// Counts how long a state store request took.
    pub(crate) fn decided(&mut self, verb: Verb, took: std::time::Duration) {
        self.store_latencies[verb as usize].record_duration(took);
    }

    /// Counts a client that was refused by a method.
    pub(crate) fn authentication_failed(&mut self, method: &'static str, cause: Cause) {
        *self.authentication_failures.entry((method, cause)).or_default() += 1;
    }

    /// Everything that `/metrics` shows.
    pub(crate) fn figures(&self, node: &Node) -> Figures {
        let mut figures = Figures {
            started_seconds: self.started_seconds,
            self_test: self.self_test.clone(),
            slow_operations: self.slow.counts(),
            ..Figures::default()
        };
        connections(&mut figures, node, self);
        messages(&mut figures, node);
        self.state_store(&mut figures, node);
        self.log(&mut figures, node);
        memory(&mut figures, node);
        figures
    }

    fn state_store(&self, figures: &mut Figures, node: &Node) {
        let (counters, gauges) = (node.counters(), node.gauges());
        let store = &mut figures.state_store;
        for verb in Verb::ALL {
            let (all, errors) = (
                counters.store_requests[verb as usize],
                counters.store_errors[verb as usize],
            );
            store.requests.insert((verb_name(verb), "ok"), all - errors);
            store.requests.insert((verb_name(verb), "error"), errors);
            store
                .latency
                .insert(verb_name(verb), self.store_latencies[verb as usize].clone());
        }
        store.refused = Counts::from([
            ("not_a_request", counters.store_not_requests),
            ("expired", counters.store_expired),
            ("clock_ahead", counters.store_clock_ahead),
            ("replies_waiting", counters.store_replies_waiting),
        ]);
        store.notifications = counters.store_notifications;
        let ended = WatchLoss::ALL.map(|loss| (loss.name(), counters.watchers_ended[loss as usize]));
        store.watchers_ended = Counts::from(ended);
        store.differences = counters.store_differences;
        store.undecided = counters.store_undecided;
        store.held_up = counters.leaders_held_up;
        store.copies_fetched = counters.store_replaced;
        store.times_reckoned = counters.times_reckoned;
        store.keys = gauges.store.keys;
        store.bytes = gauges.store.bytes;
        store.keys_max = gauges.store_quota.keys_max;
        store.bytes_max = gauges.store_quota.bytes_max;
        store.watches = gauges.store.watches;
        store.tombstones = gauges.store.tombstones;
        store.replies_remembered = gauges.store.replies_remembered;
    }

    fn log(&self, figures: &mut Figures, node: &Node) {
        let log = &mut figures.log;
        let gauges = node.gauges();
        log.sync = self.sync_latency.clone();
        log.batches_synced = self.batches_synced;
        log.replicas = node.replicas().map(replica).collect();
        log.bytes_since_snapshot = gauges.log_bytes;
        log.snapshots = self.snapshots;
        log.snapshots_failed = self.snapshots_failed;
        log.snapshot_age_seconds = self
            .snapshot_written_at
            .map(|at| (clock::instant() - at).as_secs());
    }
}

fn replica(gauges: ReplicaGauges) -> (String, ReplicaFigures) {
    let lags = gauges.lags.into_iter();
    let figures = ReplicaFigures {
        applied: gauges.applied.0,
        term: gauges.term.0,
        is_leader: gauges.is_leader,
        has_leader: gauges.leader.is_some(),
        lags: lags.map(|(node, entries)| (node.to_string(), entries)).collect(),
    };
    (gauges.group.to_string(), figures)
}

fn connections(figures: &mut Figures, node: &Node, observed: &Observed) {
    let (counters, gauges) = (node.counters(), node.gauges());
    figures.connections.open = gauges.connections as u64;
    figures.connections.total = counters.connections_opened;
    figures.connections.connects = counters
        .connects
        .iter()
        .map(|(reason, count)| (*reason as u8, *count))
        .collect();
    let ends = counters
        .connections_ended
        .iter()
        .map(|(reason, count)| (*reason as u8, *count));
    figures.connections.disconnects = ends.collect();
    let malformed = counters
        .malformed
        .iter()
        .map(|(reason, count)| (reason.name(), *count));
    figures.connections.malformed = malformed.collect();
    figures.connections.authenticating = gauges.authenticating as u64;
    let failures = observed.authentication_failures.iter();
    figures.connections.authentication_failures = failures
        .map(|((method, cause), count)| ((*method, cause.name()), *count))
        .collect();
    let reauthentications = counters.reauthentications.iter();
    figures.connections.reauthentications = reauthentications
        .map(|(reason, count)| (*reason as u8, *count))
        .collect();
    figures.connections.turned_away = observed.turned_away.clone();
    figures.connections.handshakes_failed = observed.handshakes_failed;
    figures.connections.bytes = InOut {
        received: observed.bytes_received,
        sent: observed.bytes_sent,
    };
    figures.sessions.total = gauges.sessions as u64;
    figures.sessions.connected = gauges.sessions_connected as u64;
    figures.sessions.subscriptions = gauges.subscriptions as u64;
    figures.sessions.shares = gauges.shares as u64;
    figures.replication = gauges.replication;
    let states = node.node_states().into_iter();
    figures.node_states = states
        .map(|(node, state)| (node.to_string(), state.to_string()))
        .collect();
    figures.sessions.waiting_messages = gauges.waiting_messages as u64;
    figures.sessions.waiting_bytes = gauges.waiting_bytes;
    figures.sessions.inflight = gauges.inflight as u64;
    figures.sessions.takeovers = counters.takeovers;
    figures.sessions.paced = counters.paced;
    figures.sessions.denied = by_right(&counters.denied);
    figures.sessions.withdrawn = by_right(&counters.withdrawn);
}

fn by_right(counts: &[u64; Right::COUNT]) -> Counts {
    Right::ALL
        .into_iter()
        .map(|right| (right.name(), counts[right as usize]))
        .collect()
}

fn messages(figures: &mut Figures, node: &Node) {
    let (counters, gauges) = (node.counters(), node.gauges());
    let traffic = |messages: &[u64; 3], bytes: &[u64; 3]| {
        [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce].map(|qos| Traffic {
            messages: messages[qos as usize],
            bytes: bytes[qos as usize],
        })
    };
    figures.messages.by_qos = InOut {
        received: traffic(&counters.messages_in, &counters.bytes_in),
        sent: traffic(&counters.messages_out, &counters.bytes_out),
    };
    let dropped = &counters.dropped;
    figures.messages.dropped = Counts::from([
        ("queue_full", dropped.queue_full),
        ("expired", dropped.expired),
        ("too_large", dropped.too_large),
        ("not_connected", dropped.not_connected),
        ("retained_full", dropped.retained_full),
        ("not_authorized", dropped.not_authorized),
        ("watch_ended", dropped.watch_ended),
        ("memory", dropped.memory),
    ]);
    figures.messages.retained = gauges.retained_messages as u64;
    figures.messages.retained_bytes = gauges.retained_bytes;
    figures.messages.wills = counters.wills_published;
}

fn memory(figures: &mut Figures, node: &Node) {
    let (counters, gauges) = (node.counters(), node.gauges());
    let memory = &mut figures.memory;
    memory.bytes = Counts::from([
        ("messages", gauges.memory.messages),
        ("retained", gauges.memory.retained),
        ("store", gauges.memory.store),
        ("writes", gauges.memory.writes),
        ("outbound", gauges.memory.outbound),
        ("inbound", gauges.memory.inbound),
        ("clients", gauges.memory.clients),
    ]);
    memory.bytes_max = gauges.memory_max;
    memory.level = gauges.memory_level as u64;
    memory.scarce = counters.memory_scarce;
    memory.refused = counters.memory_refused;
    memory.held_back = counters.held_back;
    memory.overruns = counters.overruns;
}

pub(crate) fn verb_name(verb: Verb) -> &'static str {
    match verb {
        Verb::Set => "set",
        Verb::Get => "get",
        Verb::Del => "del",
        Verb::VDel => "vdel",
        Verb::KeyNotify => "keynotify",
        Verb::Scan => "scan",
        Verb::Unknown => "unknown",
    }
}
