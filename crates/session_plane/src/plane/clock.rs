//! Hybrid logical clock of a node (Kulkarni et al., Logical Physical Clocks, 2014).
//!
//! *Invariant*: the clock of an event is later than that of every event that the node knew.

use cluster::session_plane::Hlc;

/// Latest moment that the node has given or seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct HybridClock(Hlc);

impl HybridClock {
    /// Clock of a run whose node has seen nothing later than `latest`.
    pub(super) fn new(latest: Hlc) -> HybridClock {
        HybridClock(latest)
    }

    /// Latest moment.
    pub(super) fn latest(self) -> Hlc {
        self.0
    }

    /// Gives the moment of an event that is made now; `wall` is in milliseconds.
    pub(super) fn tick(&mut self, wall: u64) -> Hlc {
        self.0 = self.0.next().max(Hlc::at(wall));
        self.0
    }

    /// Sees the moment of another node.
    pub(super) fn see(&mut self, seen: Hlc) {
        self.0 = self.0.max(seen);
    }
}
