//! Recipients of a message: where it goes, by what a node knows when it publishes.

use std::collections::BTreeSet;

use cluster::NodeId;

use crate::SlotSet;

/// Recipients of a message.
///
/// A durable session gets a message from its slot. A *transient* session ends with its connection, and no
/// slot has it. So a message for one goes to the node of the connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recipients {
    /// Slots with sessions that the message may match.
    pub slots: SlotSet,
    /// Nodes with transient sessions that the message may match.
    pub nodes: BTreeSet<NodeId>,
}

impl From<SlotSet> for Recipients {
    /// Sessions of these slots alone.
    fn from(slots: SlotSet) -> Recipients {
        let nodes = BTreeSet::new();
        Recipients { slots, nodes }
    }
}
