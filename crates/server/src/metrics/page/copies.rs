//! Metrics of copies of durable sessions.

use broker::CopyFigures;

use super::super::text::Kind::{Counter, Gauge};
use super::super::text::Page;

pub(super) fn write(figures: &CopyFigures, page: &mut Page) {
    page.family(
        Gauge,
        "statehold_session_copies",
        "Durable sessions of other nodes of which this one has a copy.",
    )
    .sample(&[], figures.copies as u64);
    page.family(
        Gauge,
        "statehold_under_replicated_sessions",
        "Durable sessions of this node of which another node is to have a copy and has none, or not all of it. The next node may be stopped when it is 0 at all nodes.",
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
}
