//! Metrics of wills that nodes guard for each other.

use broker::WillFigures;

use super::super::text::Kind::{Counter, Gauge};
use super::super::text::Page;

pub(super) fn write(figures: &WillFigures, page: &mut Page) {
    page.family(
        Gauge,
        "statehold_guarded_wills",
        "Wills of connections at other nodes that this one publishes when their node is lost. Of sessions that end with their connection; those of others are in their copies.",
    )
    .sample(&[], figures.guarded as u64);
    page.family(
        Gauge,
        "statehold_unguarded_wills",
        "Wills of connections at this node that no other node would publish if it was lost.",
    )
    .sample(&[], figures.unguarded as u64);
    page.family(
        Counter,
        "statehold_guarded_wills_refused_total",
        "Wills of connections at other nodes that this one did not take because its memory was full. They are lost with their node.",
    )
    .sample(&[], figures.refused);
    page.family(
        Counter,
        "statehold_guarded_wills_published_total",
        "Wills, by where: here (of connections at a node that was lost), elsewhere (of connections at this node, by others that had taken it for dead).",
    )
    .sample(&[("where", "here")], figures.published)
    .sample(&[("where", "elsewhere")], figures.published_elsewhere);
}
