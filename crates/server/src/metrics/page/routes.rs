//! Metrics of messages between nodes.

use broker::RouteFigures;

use super::super::text::Kind::{Counter, Gauge};
use super::super::text::Page;

pub(super) fn write(figures: &RouteFigures, page: &mut Page) {
    messages(figures, page);
    routes(figures, page);
}

/// One line for each node of the cluster.
pub(super) fn node_states(states: &[(String, String)], page: &mut Page) {
    page.family(
        Gauge,
        "statehold_node_state",
        "1 for the state that each node of the cluster is in, as this one sees it; none outside of a cluster.",
    );
    for (node, state) in states {
        page.sample(&[("node", node), ("state", state)], 1);
    }
}

fn messages(figures: &RouteFigures, page: &mut Page) {
    page.family(
        Counter,
        "statehold_forwarded_messages_total",
        "Messages of clients from other nodes (in) and to them (out), for each node once.",
    )
    .sample(&[("direction", "in")], figures.received)
    .sample(&[("direction", "out")], figures.forwarded);
    page.family(
        Counter,
        "statehold_forwarded_dropped_total",
        "Messages that another node did not get, by cause: behind (QoS 0 or a will, and the node does not keep up), unreachable (the node was silent for longer than cluster.silence_max).",
    )
    .sample(&[("cause", "behind")], figures.dropped_behind)
    .sample(&[("cause", "unreachable")], figures.dropped_unreachable);
    page.family(
        Counter,
        "statehold_forwarded_again_total",
        "Messages and changes of routes that were sent to another node again, because a connection broke.",
    )
    .sample(&[], figures.resent);
    page.family(
        Counter,
        "statehold_forwarded_declined_total",
        "Messages of shared subscriptions that went to another node, because the one that was chosen had no client for them any more.",
    )
    .sample(&[], figures.declined);
    page.family(
        Counter,
        "statehold_forwarded_redirected_total",
        "Messages that were on their way to a node that was lost, and were given to the nodes that go on with its sessions.",
    )
    .sample(&[], figures.redirected);
    page.family(
        Gauge,
        "statehold_forwarded_waiting",
        "Messages and changes of routes that other nodes have not confirmed.",
    )
    .sample(&[], figures.under_way as u64);
    page.family(Gauge, "statehold_forwarded_waiting_bytes", "Bytes of these.")
        .sample(&[], figures.under_way_bytes);
    page.family(
        Counter,
        "statehold_forwarded_pauses_total",
        "Times that a publisher was not read from because too much was on its way to another node.",
    )
    .sample(&[], figures.held_back);
}

fn routes(figures: &RouteFigures, page: &mut Page) {
    page.family(
        Gauge,
        "statehold_routes",
        "Filters and shared subscriptions that this node tells the others (own), and that all others have told it (others).",
    )
    .sample(&[("of", "own")], figures.announced as u64)
    .sample(&[("of", "others")], figures.known as u64);
    page.family(
        Gauge,
        "statehold_routes_nodes_reached",
        "Other nodes that answer, and so get messages.",
    )
    .sample(&[], figures.reached as u64);
    page.family(
        Counter,
        "statehold_routes_unconfirmed_total",
        "SUBACK and CONNACK packets that were sent before all nodes that answer had confirmed the subscriptions, or the guard of a will had it, after cluster.subscribe_wait_max.",
    )
    .sample(&[], figures.unconfirmed);
    page.family(
        Counter,
        "statehold_routes_refused_total",
        "Filters and shared subscriptions of other nodes for which there was no room: such a node gets all messages, but none of such a shared subscription.",
    )
    .sample(&[], figures.filters_refused);
}
