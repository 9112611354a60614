//! Events: changes of queues and of the cluster.

use crate::{ClientId, Slot};

/// Queue of a client, or of a shared group in one of its slots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePlace {
    /// Slot of the queue.
    pub slot: Slot,
    /// Client, or the key of a shared group.
    pub client: ClientId,
}

/// Event of the plane, or of what this node drops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueEvent {
    /// A message was queued, or an event has changed entries of the client.
    Changed(QueuePlace),
    /// A copy has merged, or this node has come to decide about its slot.
    CopyChanged {
        /// Slot of the copy.
        slot: Slot,
    },
    /// This node has made a ring marker, has met another run of a node, or the members have changed.
    RingChanged,
    /// The events of [`QueueLimiting::tick`](super::QueueLimiting::tick) are made, or there was nothing left
    /// to drop.
    Made(QueuePlace),
}
