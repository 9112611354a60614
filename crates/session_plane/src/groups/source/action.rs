//! Actions at the primary owner of a part.
//!
//! The node applies the actions of a call in their order: entries are events of its stream.

use cluster::NodeId;

use super::event::GroupPlace;
use crate::groups::Give;
use crate::{AssignedMessage, Dot};

/// Action of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceAction<V> {
    /// Makes an event that adds an assignment in the slot of the part. The node tells
    /// [`Assigned`](super::SourceEvent::Assigned).
    Assign {
        /// The part.
        place: GroupPlace,
        /// Message and presence.
        assigned: AssignedMessage,
        /// Events of older assignments of the message.
        removes: Vec<Dot>,
    },
    /// Waits until the owners of the slot have an assignment durably, and every node that is present
    /// has confirmed its event, or was given up. Then the node tells
    /// [`Known`](super::SourceEvent::Known).
    AwaitKnown {
        /// The part.
        place: GroupPlace,
        /// Event of the message.
        message: Dot,
        /// Event of the assignment.
        assignment: Dot,
    },
    /// Sends a message to the node of a presence; this node itself, too.
    Give {
        /// Node of the presence.
        to: NodeId,
        /// The message.
        give: Give<V>,
    },
    /// Makes an event that removes a presence in the slot of the part: its run has ended.
    EndPresence {
        /// The part.
        place: GroupPlace,
        /// Event of the presence.
        presence: Dot,
    },
}
