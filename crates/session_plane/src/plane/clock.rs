//! Hybrid logical clock of a node (Kulkarni et al., Logical Physical Clocks, 2014).
//!
//! *Invariant*: the clock of an event is later than that of every event that the node knew.

use cluster::session_plane::Hlc;

/// Latest moment that the node has given or seen.
#[derive(Debug)]
pub(super) struct HybridClock {
    latest: Hlc,
    /// Moment that the disk has, or that goes there next.
    written: Hlc,
}

impl HybridClock {
    /// Clock of a run whose node has seen nothing later than `latest`.
    pub(super) fn new(latest: Hlc) -> HybridClock {
        HybridClock {
            latest,
            written: latest,
        }
    }

    /// Latest moment.
    pub(super) fn latest(&self) -> Hlc {
        self.latest
    }

    /// Gives the moment of an event that is made now; `wall` is in milliseconds.
    pub(super) fn tick(&mut self, wall: u64) -> Hlc {
        self.latest = self.latest.next().max(Hlc::at(wall));
        self.latest
    }

    /// Sees the moment of another node.
    pub(super) fn see(&mut self, seen: Hlc) {
        self.latest = self.latest.max(seen);
    }

    /// Latest moment, if the disk has an earlier one. It has this one from here on.
    pub(super) fn take_unwritten(&mut self) -> Option<Hlc> {
        let is_later = self.latest > self.written;
        self.written = self.latest;
        is_later.then_some(self.latest)
    }
}
