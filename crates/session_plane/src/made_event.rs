//! Made event: what a node knows of an event of its own run once it has made it.

use cluster::session_plane::Hlc;

use crate::Dot;

/// Event that this node has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MadeEvent {
    /// The event.
    pub dot: Dot,
    /// Its clock.
    pub clock: Hlc,
}
