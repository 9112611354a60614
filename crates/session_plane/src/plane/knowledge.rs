//! Knowledge that peers are told of: events and a clock that the disk of this node has.
//!
//! ```text
//!   copies, clock --persist_point--> on its way --persisted--> durable --heartbeats--> peers
//! ```
//!
//! Others drop a clear once every member has told that it knows it, with a clock that is not before
//! (rule `known-to-all`). A member that told what its process alone has could lose both with it, start
//! where it reaches nobody, with a wall clock that is behind, and write what is earlier than the clear.
//! Nodes that have dropped the clear would read that, and others would not.
//!
//! *Invariant*: the next run of this node begins with all that was told.

use std::sync::Arc;

use cluster::session_plane::Hlc;

use crate::VersionVector;

/// Events that a node knows, and its clock.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Knowledge {
    pub(super) known: VersionVector,
    pub(super) clock: Hlc,
}

/// Knowledge on its way to the disk, and on it.
#[derive(Debug)]
pub(super) struct DurableKnowledge {
    /// Of the last point.
    pointed: Arc<Knowledge>,
    durable: Arc<Knowledge>,
}

impl DurableKnowledge {
    /// Knowledge of a run that begins with this on its disk.
    pub(super) fn new(found: Knowledge) -> DurableKnowledge {
        let found = Arc::new(found);
        DurableKnowledge {
            pointed: Arc::clone(&found),
            durable: found,
        }
    }

    /// Notes what a point for the disk has, and gives it for that point.
    pub(super) fn point(&mut self, known: &VersionVector, clock: Hlc) -> Arc<Knowledge> {
        if !self.is_pointed(known, clock) {
            let known = known.clone();
            self.pointed = Arc::new(Knowledge { known, clock });
        }
        Arc::clone(&self.pointed)
    }

    /// The last point has exactly this.
    pub(super) fn is_pointed(&self, known: &VersionVector, clock: Hlc) -> bool {
        self.pointed.clock == clock && self.pointed.known == *known
    }

    /// A point is on the disk, with what [`DurableKnowledge::point`] gave for it.
    pub(super) fn persisted(&mut self, durable: Arc<Knowledge>) {
        self.durable = durable;
    }

    /// What the disk has.
    pub(super) fn durable(&self) -> &Knowledge {
        &self.durable
    }
}
