//! Metrics of retained messages that all nodes of a cluster have.

use broker::RetainedFigures;

use super::super::text::Kind::{Counter, Gauge};
use super::super::text::Page;

pub(super) fn write(figures: &RetainedFigures, page: &mut Page) {
    page.family(
        Gauge,
        "statehold_retained_tombstones",
        "Topics whose retained message was taken away or has expired, and of which some node of the cluster may not know that.",
    )
    .sample(&[], figures.tombstones as u64);
    page.family(
        Gauge,
        "statehold_retained_differing",
        "Topics in which this node was behind another node when it last compared with it, over all nodes: it has got them since.",
    )
    .sample(&[], figures.differing);
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
        "statehold_retained_tombstones_dropped_total",
        "Tombstones beyond limits.retained_messages_max, forgotten before all nodes knew them: what they stand for comes back with a node that was away.",
    )
    .sample(&[], figures.tombstones_dropped);
}
