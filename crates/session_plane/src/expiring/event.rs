//! Events: changes of copies and of the cluster.

use crate::{ClientId, Slot};

/// Event of the plane, or of what this node writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpiringEvent {
    /// An event has changed entries of a client
    /// ([`PlaneAction::Changed`](crate::plane::PlaneAction)).
    Changed {
        /// The client.
        client: ClientId,
    },
    /// A copy has merged, or this node has come to decide about its slot.
    CopyChanged {
        /// Slot of the copy.
        slot: Slot,
    },
    /// This node has made a ring marker, has met another run of a node, or the members have changed.
    RingChanged,
    /// The event of an [`ExpiringAction`](super::ExpiringAction) is made, or there was nothing left to
    /// write.
    Made {
        /// Client of the action.
        client: ClientId,
    },
}
