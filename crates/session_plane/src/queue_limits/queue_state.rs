//! State of the node that the limits of queues read: the node gives it.

use super::{QueueLimits, QueuePlace, QueueSize};
use crate::{DecidingNode, Slot};

/// Copies, as the primary owner of queues sees them.
pub trait QueueState: DecidingNode {
    /// Slots of clients and groups that this node decides about.
    fn decided(&self) -> Vec<Slot>;

    /// Queues in this node's copy of a slot that are beyond the limits by their [`QueueSize`].
    fn queues_beyond(&self, slot: Slot, limits: &QueueLimits) -> Vec<QueuePlace>;

    /// Size of a queue in this node's copy.
    fn size(&self, place: &QueuePlace) -> QueueSize;
}
