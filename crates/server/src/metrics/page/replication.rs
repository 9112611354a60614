//! Metrics of the replication of sessions, and of what topics retain.

use broker::ReplicationFigures;

use super::super::text::Kind::{Counter, Gauge};
use super::super::text::Page;

pub(super) fn write(figures: &ReplicationFigures, page: &mut Page) {
    nodes(figures, page);
    retained(figures, page);
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

fn nodes(figures: &ReplicationFigures, page: &mut Page) {
    page.family(
        Gauge,
        "statehold_replication_present_nodes",
        "Nodes with which this node replicates sessions and retained messages, itself among them: 1 on a single server, else the nodes of the cluster that are there.",
    )
    .sample(&[], figures.present_nodes as u64);
    page.family(
        Gauge,
        "statehold_unmerged_slots",
        "Slots that this node owns and of which its copy lacks something that another node has. The next node may be stopped when it is 0 at all nodes. A dead node has no part in it: see statehold_node_state.",
    )
    .sample(&[], figures.unmerged_slots);
    page.family(
        Gauge,
        "statehold_replication_open_events",
        "Writes of this node, of sessions and of retained messages, that are not on the disks of all their owners. From 32768 on publishers of this node wait.",
    )
    .sample(&[], figures.open_events as u64);
    page.family(
        Counter,
        "statehold_replication_channels_total",
        "Connections of the replication with other nodes that were begun: many in a short time are a link that loses messages.",
    )
    .sample(&[], figures.channels);
}

fn retained(figures: &ReplicationFigures, page: &mut Page) {
    page.family(
        Gauge,
        "statehold_retained_cleared",
        "Topics that were cleared, and of which some node of the cluster may not know that. They count for limits.retained_messages_max.",
    )
    .sample(&[], figures.cleared as u64);
    page.family(
        Counter,
        "statehold_retained_taken_total",
        "Retained messages that came from other nodes.",
    )
    .sample(&[], figures.taken);
    page.family(
        Counter,
        "statehold_retained_over_limit_total",
        "Of these, kept although limits.retained_messages_max or retained_bytes_max was reached here: another node had acknowledged them.",
    )
    .sample(&[], figures.over_limit);
    page.family(
        Counter,
        "statehold_retained_unread_total",
        "Values that are no message of their topic, and are shown to nobody: a fault, to be reported.",
    )
    .sample(&[], figures.unread);
}
