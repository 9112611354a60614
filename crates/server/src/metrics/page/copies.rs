//! Metrics of copies of durable sessions, and of clients whose sessions are at other nodes.

use broker::CopyFigures;

use super::super::Figures;

use super::super::text::Kind::{Counter, Gauge};
use super::super::text::Page;

pub(super) fn write(figures: &Figures, page: &mut Page) {
    page.family(
        Gauge,
        "statehold_tunnelled_connections",
        "Clients of this node whose sessions other nodes hold.",
    )
    .sample(&[], figures.tunnels as u64);
    page.family(
        Gauge,
        "statehold_far_connections",
        "Clients of other nodes whose sessions this node holds.",
    )
    .sample(&[], figures.far_connections as u64);
    let figures = &figures.copies;
    page.family(
        Gauge,
        "statehold_session_copies",
        "Durable sessions of other nodes of which this one has a copy.",
    )
    .sample(&[], figures.copies as u64);
    page.family(
        Gauge,
        "statehold_under_replicated_sessions",
        "Durable sessions of this node of which another node is to have a copy and has none, or not all of it. The next node may be stopped when it is 0 at all nodes. A dead node is not to have copies: see statehold_node_state.",
    )
    .sample(&[], figures.under_replicated as u64);
    page.family(
        Gauge,
        "statehold_cleanup_pending_copies",
        "Copies of sessions of this node at nodes that are to have none any more, and keep them until all have one that are to.",
    )
    .sample(&[], figures.to_clean_up as u64);
    page.family(
        Counter,
        "statehold_sessions_copied_whole_total",
        "Durable sessions that were sent to another node whole, because it had no copy or another one.",
    )
    .sample(&[], figures.sent_whole);
    page.family(
        Counter,
        "statehold_sessions_taken_over_total",
        "Durable sessions that this node has gone on with because the node that held them was lost, stopped or removed.",
    )
    .sample(&[], figures.taken_over);
    page.family(
        Counter,
        "statehold_sessions_superseded_total",
        "Durable sessions that this node has left to another one, which has gone on with them.",
    )
    .sample(&[], figures.superseded);
    write_ends(figures, page);
}

/// What has ended, or gives way.
fn write_ends(figures: &CopyFigures, page: &mut Page) {
    page.family(
        Gauge,
        "statehold_session_tombstones",
        "Durable sessions that have ended while nodes were away that may have them still: these are told when they are back.",
    )
    .sample(&[], figures.tombstones as u64);
    page.family(
        Counter,
        "statehold_session_tombstones_refused_total",
        "The same that this node does not remember because there are 16,384 of them: they may come back with a node that was away.",
    )
    .sample(&[], figures.tombstones_refused);
    page.family(
        Gauge,
        "statehold_sessions_giving_way",
        "Durable sessions of this node that have gone on at another one as well, and leave what they have to that one.",
    )
    .sample(&[], figures.giving_way as u64);
    let merged = page.family(
        Counter,
        "statehold_merged_total",
        "What other nodes have left to sessions of this one after a split: sessions, subscriptions and messages that were taken in, and messages that were here as well (duplicate).",
    );
    for (kind, count) in [
        ("session", figures.merged),
        ("subscription", figures.merged_subscriptions),
        ("message", figures.merged_messages),
        ("duplicate", figures.merged_twice),
    ] {
        merged.sample(&[("kind", kind)], count);
    }
}
