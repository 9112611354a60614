//! Metrics of the connections between nodes.

use super::super::PeersFigures;
use super::super::text::Kind::{Counter, Gauge};
use super::super::text::Page;
use super::by_label;

pub(super) fn write(figures: &PeersFigures, page: &mut Page) {
    page.family(
        Gauge,
        "statehold_peers_connected",
        "Other nodes of the cluster to which there is a connection.",
    )
    .sample(&[], figures.connected);
    page.family(
        Counter,
        "statehold_peer_connections_total",
        "Connections that were made to other nodes.",
    )
    .sample(&[], figures.connections);
    page.family(
        Counter,
        "statehold_peer_connections_refused_total",
        "Connections with other nodes that came to nothing, whoever refused, by cause: version, cluster, not_a_member, same_node, rolled_back, aside, clock, settings, tls, protocol, other.",
    );
    by_label(&figures.refused, "cause", page);
    page.family(
        Counter,
        "statehold_peer_messages_total",
        "Messages from other nodes (in) and to them (out).",
    )
    .sample(&[("direction", "in")], figures.messages_received)
    .sample(&[("direction", "out")], figures.messages_sent);
    page.family(
        Counter,
        "statehold_peer_bytes_total",
        "Bytes read from other nodes (in) and written to them (out).",
    )
    .sample(&[("direction", "in")], figures.bytes_received)
    .sample(&[("direction", "out")], figures.bytes_sent);
    page.family(
        Counter,
        "statehold_peer_messages_dropped_total",
        "Messages to other nodes that were not sent, by cause: not_connected, queue_full (the oldest goes), not_relayed (for another node, which this one does not reach). What matters is sent again.",
    );
    by_label(&figures.dropped, "cause", page);
    page.family(
        Counter,
        "statehold_peer_messages_relayed_total",
        "Messages that were passed on for other nodes, whose link is broken.",
    )
    .sample(&[], figures.relayed);
    page.family(
        Gauge,
        "statehold_peer_round_trip_seconds",
        "How long another node took to answer, last.",
    );
    for peer in &figures.peers {
        if let Some(seconds) = peer.round_trip_seconds {
            page.sample_f64(&[("node", &peer.node)], seconds);
        }
    }
    page.family(
        Gauge,
        "statehold_peer_clock_ahead_seconds",
        "By how much the clock of another node is ahead of this one's, give or take half of a round trip. Beyond cluster.clock_skew_max there is no connection.",
    );
    for peer in &figures.peers {
        if let Some(seconds) = peer.clock_ahead_seconds {
            page.sample_f64(&[("node", &peer.node)], seconds);
        }
    }
}
