//! Every metric by name.

mod peers;
mod pools;
mod replication;
mod self_test;

use std::collections::BTreeMap;

use super::text::Kind::{Counter, Gauge, Histogram};
use super::text::Page;
use super::{
    Connections, Counts, Expiry, Figures, LogFigures, Memory, Messages, ReplicaFigures, Sessions,
    StateStoreFigures,
};

pub(super) fn write(figures: &Figures, page: &mut Page) {
    process(figures, page);
    connections(&figures.connections, page);
    pools::write(&figures.pools, page);
    sessions(&figures.sessions, page);
    messages(&figures.messages, page);
    requests(&figures.state_store, page);
    store(&figures.state_store, page);
    log(&figures.log, page);
    snapshots(&figures.log, page);
    memory(&figures.memory, page);
    peers::write(&figures.peers, page);
    replication::write(&figures.replication, page);
    replication::node_states(&figures.node_states, page);
    self_test::write(&figures.self_test, page);
    page.family(
        Counter,
        "statehold_slow_operations_total",
        "What took as long as log.slow_operation or longer, by operation: request (of the state store), publish (QoS 1 and 2, to the acknowledgement), connect, subscribe, disk (a batch of writes), turn (what the node's thread does in one go).",
    );
    by_label(&figures.slow_operations, "operation", page);
    page.family(
        Counter,
        "statehold_otlp_spans_total",
        "Spans of traces, by result: exported, dropped (there was no room for them, otlp.spans_max, or the server stopped), refused (by the collector, or it was out of reach for two minutes); absent without the setting otlp.endpoint.",
    );
    by_label(&figures.spans, "result", page);
    expiries(figures, page);
    page.family(
        Counter,
        "statehold_admin_refused_total",
        "Requests that the admin pages have refused, by cause: no_token, unknown_token, too_many (tokens that are not known, from one address), scope, no_tokens (the setting admin.tokens is missing), host, cross_site, content_type.",
    );
    by_label(&figures.admin_refused, "cause", page);
}

fn process(figures: &Figures, page: &mut Page) {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    page.family(
        Gauge,
        "statehold_build_info",
        "Always 1; the label says which version runs.",
    )
    .sample(&version, 1);
    page.family(
        Gauge,
        "statehold_start_time_seconds",
        "When the server was started, in seconds since the Unix epoch.",
    )
    .sample_f64(&[], figures.started_seconds);
}

fn memory(memory: &Memory, page: &mut Page) {
    page.family(
        Gauge,
        "statehold_memory_bytes",
        "Bytes that the server accounts for, by what they are for: messages, retained, store, writes (on their way to the disk), outbound (to be written to connections), inbound (packets that have not arrived whole, buffers of connections), clients (connections, sessions, subscriptions).",
    );
    by_label(&memory.bytes, "part", page);
    page.family(
        Gauge,
        "statehold_memory_bytes_max",
        "The limit, limits.memory_max; 18446744073709551615 is none.",
    )
    .sample(&[], memory.bytes_max);
    page.family(
        Gauge,
        "statehold_memory_level",
        "How scarce memory is: 0 normal, 1 scarce, 2 critical, 3 full.",
    )
    .sample(&[], memory.level);
    page.family(
        Counter,
        "statehold_memory_scarce_total",
        "Times that memory became scarce.",
    )
    .sample(&[], memory.scarce);
    page.family(
        Counter,
        "statehold_memory_refused_total",
        "PUBLISH packets that were refused with 0x97 because memory was scarce.",
    )
    .sample(&[], memory.refused);
    page.family(
        Counter,
        "statehold_memory_pauses_total",
        "Times that a publisher was not read from for a moment because memory was critical.",
    )
    .sample(&[], memory.held_back);
    page.family(
        Counter,
        "statehold_memory_overruns_total",
        "Connections closed in the middle of a packet because there was no memory for the rest of it.",
    )
    .sample(&[], memory.overruns);
}

fn connections(connections: &Connections, page: &mut Page) {
    page.family(
        Gauge,
        "statehold_connections",
        "Network connections that are open.",
    )
    .sample(&[], connections.open);
    page.family(
        Counter,
        "statehold_connections_total",
        "Network connections that were accepted.",
    )
    .sample(&[], connections.total);
    page.family(
        Counter,
        "statehold_connections_turned_away_total",
        "Network connections that were closed as soon as they were accepted, by the limit that was reached.",
    );
    by_label(&connections.turned_away, "limit", page);
    page.family(
        Counter,
        "statehold_handshakes_failed_total",
        "Network connections that ended before MQTT, in a handshake of TLS or WebSocket or in the header of a proxy.",
    )
    .sample(&[], connections.handshakes_failed);
    page.family(
        Counter,
        "statehold_connects_total",
        "CONNECT packets, by the reason code of their CONNACK.",
    );
    by_reason_code(&connections.connects, page);
    page.family(
        Counter,
        "statehold_disconnects_total",
        "Ends of connections, by the reason code of the DISCONNECT that the server sent or got; 0x80 where there was none.",
    );
    by_reason_code(&connections.disconnects, page);
    page.family(
        Counter,
        "statehold_malformed_packets_total",
        "Packets that were not understood, by what was wrong.",
    );
    by_label(&connections.malformed, "reason", page);
    page.family(
        Gauge,
        "statehold_connections_authenticating",
        "Clients of whom it is not known yet who they are.",
    )
    .sample(&[], connections.authenticating);
    page.family(
        Counter,
        "statehold_authentication_failures_total",
        "Clients that were refused because it was not found out who they are, by method (none: no method took what they said) and cause: credentials (wrong), attempts (too many from the address have failed), missing, unsupported, busy, unavailable.",
    );
    for ((method, cause), count) in &connections.authentication_failures {
        page.sample(&[("method", method), ("cause", cause)], *count);
    }
    page.family(
        Counter,
        "statehold_reauthentications_total",
        "Re-authentications, by the reason code of the AUTH or DISCONNECT that ended them.",
    );
    by_reason_code(&connections.reauthentications, page);
    page.family(
        Counter,
        "statehold_bytes_total",
        "Bytes read from clients (in) and written to them (out).",
    )
    .sample(&[("direction", "in")], connections.bytes.received)
    .sample(&[("direction", "out")], connections.bytes.sent);
}

fn sessions(sessions: &Sessions, page: &mut Page) {
    page.family(Gauge, "statehold_sessions", "Sessions, connected or not.")
        .sample(&[], sessions.total);
    page.family(
        Gauge,
        "statehold_sessions_connected",
        "Sessions with a connection.",
    )
    .sample(&[], sessions.connected);
    page.family(Gauge, "statehold_subscriptions", "Subscriptions of all sessions.")
        .sample(&[], sessions.subscriptions);
    page.family(
        Gauge,
        "statehold_shared_subscriptions",
        "Shared subscriptions: share names with their filters, however many sessions share each.",
    )
    .sample(&[], sessions.shares);
    page.family(
        Gauge,
        "statehold_waiting_messages",
        "Messages that wait for the connections of clients of this node, and that no owner stores: they end with the connection. The queues of sessions are stored and do not count.",
    )
    .sample(&[], sessions.waiting_messages);
    page.family(Gauge, "statehold_waiting_bytes", "Bytes of these.")
        .sample(&[], sessions.waiting_bytes);
    page.family(
        Gauge,
        "statehold_inflight_messages",
        "Messages to clients of this node that have a packet identifier and are not acknowledged.",
    )
    .sample(&[], sessions.inflight);
    page.family(
        Counter,
        "statehold_session_takeovers_total",
        "Connections that ended because another one took the session over.",
    )
    .sample(&[], sessions.takeovers);
    page.family(
        Counter,
        "statehold_publish_pauses_total",
        "Times that a client published faster than it may, and was not read from for a while.",
    )
    .sample(&[], sessions.paced);
    page.family(
        Counter,
        "statehold_denied_total",
        "What clients may not do, and tried to, by the right that they do not have.",
    );
    by_label(&sessions.denied, "kind", page);
    page.family(
        Counter,
        "statehold_withdrawn_total",
        "What was taken from clients that may not have it any more, by the right that ended.",
    );
    by_label(&sessions.withdrawn, "kind", page);
}

fn messages(messages: &Messages, page: &mut Page) {
    let both = [("in", &messages.by_qos.received), ("out", &messages.by_qos.sent)];
    page.family(
        Counter,
        "statehold_messages_total",
        "PUBLISH packets from clients (in) and to them (out), by QoS.",
    );
    for (direction, by_qos) in both {
        for (qos, traffic) in ["0", "1", "2"].into_iter().zip(by_qos) {
            page.sample(&[("direction", direction), ("qos", qos)], traffic.messages);
        }
    }
    page.family(
        Counter,
        "statehold_message_bytes_total",
        "Bytes of their payloads, by QoS.",
    );
    for (direction, by_qos) in both {
        for (qos, traffic) in ["0", "1", "2"].into_iter().zip(by_qos) {
            page.sample(&[("direction", direction), ("qos", qos)], traffic.bytes);
        }
    }
    page.family(
        Counter,
        "statehold_messages_dropped_total",
        "Messages that a session did not get, by cause.",
    );
    by_label(&messages.dropped, "cause", page);
    page.family(Gauge, "statehold_retained_messages", "Retained messages.")
        .sample(&[], messages.retained);
    page.family(Gauge, "statehold_retained_bytes", "Bytes of retained messages.")
        .sample(&[], messages.retained_bytes);
    page.family(Counter, "statehold_wills_total", "Wills that were published.")
        .sample(&[], messages.wills);
}

fn requests(store: &StateStoreFigures, page: &mut Page) {
    page.family(
        Counter,
        "statehold_store_requests_total",
        "State-store requests that were answered, by verb and result.",
    );
    for ((verb, result), count) in &store.requests {
        page.sample(&[("verb", verb), ("result", result)], *count);
    }
    page.family(
        Histogram,
        "statehold_store_request_seconds",
        "Time from a state-store request to its reply, by verb.",
    );
    for (verb, latency) in &store.latency {
        page.histogram(&[("verb", verb)], latency);
    }
    page.family(
        Counter,
        "statehold_store_requests_refused_total",
        "State-store requests that were not executed, by cause: not_a_request (not QoS 1, or without response topic or correlation data), expired, clock_ahead, replies_waiting (the client does not take its replies).",
    );
    by_label(&store.refused, "cause", page);
    page.family(
        Counter,
        "statehold_store_notifications_total",
        "Notifications of changes of watched keys.",
    )
    .sample(&[], store.notifications);
    page.family(
        Counter,
        "statehold_store_watchers_ended_total",
        "Connections that missed a change of a key that they watched and were ended for it, by cause: messages (16,384 notifications wait), bytes (limits.queue_bytes_max), packet_size (the client's Maximum Packet Size), no_leader.",
    );
    by_label(&store.watchers_ended, "cause", page);
    page.family(
        Counter,
        "statehold_store_differences_total",
        "Groups of the state store of which this node's copy was another than that of the majority. It is fetched anew each time.",
    )
    .sample(&[], store.differences);
    page.family(
        Counter,
        "statehold_store_undecided_total",
        "Reports, once a minute while it is so, that copies of a group that this node leads differ and no majority agrees.",
    )
    .sample(&[], store.undecided);
    page.family(
        Counter,
        "statehold_log_held_up_total",
        "Groups that this node let another one lead, since its own disk took longer than a second (and a second more for each 32 MiB) for what the other had on its disk.",
    )
    .sample(&[], store.held_up);
    page.family(
        Counter,
        "statehold_store_copies_fetched_total",
        "Groups of the state store whose copy this node took over from another node, since its log did not reach back far enough or its copy was lost or another.",
    )
    .sample(&[], store.copies_fetched);
    page.family(
        Counter,
        "statehold_store_times_reckoned_total",
        "Groups of the state store that this node led after all their replicas had stopped, so that leases went on by the wall clock since the last log entry.",
    )
    .sample(&[], store.times_reckoned);
}

fn store(store: &StateStoreFigures, page: &mut Page) {
    page.family(Gauge, "statehold_store_keys", "Keys in the state store.")
        .sample(&[], store.keys);
    page.family(
        Gauge,
        "statehold_store_keys_max",
        "The quota of keys, state_store.keys_max.",
    )
    .sample(&[], store.keys_max);
    page.family(
        Gauge,
        "statehold_store_bytes",
        "Bytes of keys and values in the state store.",
    )
    .sample(&[], store.bytes);
    page.family(
        Gauge,
        "statehold_store_bytes_max",
        "The quota of bytes, state_store.bytes_max.",
    )
    .sample(&[], store.bytes_max);
    page.family(Gauge, "statehold_store_watches", "Registered watches of keys.")
        .sample(&[], store.watches);
    page.family(
        Gauge,
        "statehold_store_tombstones",
        "Deletions that the store still remembers.",
    )
    .sample(&[], store.tombstones);
    page.family(
        Gauge,
        "statehold_store_replies_remembered",
        "Replies that the store remembers for requests that come again.",
    )
    .sample(&[], store.replies_remembered);
}

fn log(log: &LogFigures, page: &mut Page) {
    page.family(
        Histogram,
        "statehold_log_sync_seconds",
        "Time to write what waits to the disk and sync it (with durability = \"memory\" to write it only).",
    )
    .histogram(&[], &log.sync);
    page.family(
        Counter,
        "statehold_log_batches_synced_total",
        "Batches of writes that were synced; over statehold_log_sync_seconds_count, how many one sync served.",
    )
    .sample(&[], log.batches_synced);
    replicas(&log.replicas, page);
}

fn replicas(replicas: &BTreeMap<String, ReplicaFigures>, page: &mut Page) {
    let mut family = |name, help, figure: fn(&ReplicaFigures) -> u64| {
        page.family(Gauge, name, help);
        for (group, replica) in replicas {
            page.sample(&[("group", group)], figure(replica));
        }
    };
    family(
        "statehold_log_applied_index",
        "Index of the log entry that was applied last, by group.",
        |replica| replica.applied,
    );
    family(
        "statehold_log_term",
        "Term of the replica, by group.",
        |replica| replica.term,
    );
    family(
        "statehold_log_leader",
        "1 while this node leads the group, else 0.",
        |replica| u64::from(replica.is_leader),
    );
    family(
        "statehold_log_has_leader",
        "1 while this node knows who leads the group, else 0: its keys cannot be read or written here.",
        |replica| u64::from(replica.has_leader),
    );
    page.family(
        Gauge,
        "statehold_log_lag_entries",
        "Entries of the log that a node has not confirmed, by group and node; on the group's leader only.",
    );
    for (group, replica) in replicas {
        for (node, entries) in &replica.lags {
            page.sample(&[("group", group), ("node", node)], *entries);
        }
    }
}

fn snapshots(log: &LogFigures, page: &mut Page) {
    page.family(
        Gauge,
        "statehold_log_bytes_since_snapshot",
        "Bytes of the log since the last snapshot.",
    )
    .sample(&[], log.bytes_since_snapshot);
    page.family(
        Counter,
        "statehold_snapshots_total",
        "Snapshots, by whether they were finished or failed.",
    )
    .sample(&[("result", "ok")], log.snapshots)
    .sample(&[("result", "failed")], log.snapshots_failed);
    page.family(
        Gauge,
        "statehold_snapshot_age_seconds",
        "Seconds since the last snapshot; absent before the first one since the start.",
    );
    if let Some(age) = log.snapshot_age_seconds {
        page.sample(&[], age);
    }
}

fn expiries(figures: &Figures, page: &mut Page) {
    page.family(
        Gauge,
        "statehold_certificate_expiry_timestamp_seconds",
        "When a certificate of TLS expires, in seconds since the Unix epoch: those of the server, those between them and the authority, and the authorities of clients.",
    );
    for Expiry {
        setting,
        file,
        subject,
        number,
        at,
    } in &figures.certificates
    {
        let labels = [
            ("setting", setting),
            ("file", file),
            ("subject", subject),
            ("serial", number),
        ];
        page.sample_f64(&labels.map(|(label, text)| (label, text.as_str())), *at as f64);
    }
    page.family(
        Gauge,
        "statehold_crl_expiry_timestamp_seconds",
        "When a list of revoked certificates expires (its next update), in seconds since the Unix epoch.",
    );
    for Expiry {
        setting,
        file,
        subject,
        number,
        at,
    } in &figures.revocation_lists
    {
        let labels = [
            ("setting", setting),
            ("file", file),
            ("issuer", subject),
            ("number", number),
        ];
        page.sample_f64(&labels.map(|(label, text)| (label, text.as_str())), *at as f64);
    }
}

fn by_label(counts: &Counts, label: &str, page: &mut Page) {
    for (value, count) in counts {
        page.sample(&[(label, value)], *count);
    }
}

fn by_reason_code(counts: &BTreeMap<u8, u64>, page: &mut Page) {
    for (code, count) in counts {
        page.sample(&[("reason_code", &format!("0x{code:02X}"))], *count);
    }
}
