//! Figures of replication, for metrics.

use super::Replication;
use crate::node::Node;

/// Counts and gauges of replication.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplicationFigures {
    /// Nodes that are present to the plane, this one among them.
    pub present_nodes: usize,
    /// Slots that the node owns, and of which its copy has not merged with all present holders.
    pub unmerged_slots: u64,
    /// Own writes that are not durable at all nodes that are present.
    pub open_events: usize,
    /// Connections to other planes that were begun.
    pub channels: u64,
    /// Topics that are cleared while some node may not know that.
    pub cleared: usize,
    /// Retained messages of other nodes that count here now.
    pub taken: u64,
    /// Of these, kept although a limit was reached.
    pub over_limit: u64,
    /// Values that are no message of their topic: another version wrote them, or a fault.
    pub unread: u64,
}

/// Memory of a topic in the copy, beside its name and its value, in bytes.
const TOPIC_MEMORY: u64 = 256;

impl Replication {
    /// Memory of topics that are cleared.
    fn cleared_memory(&self) -> u64 {
        self.cleared.len() as u64 * 2 * TOPIC_MEMORY + 2 * self.cleared_bytes
    }
}

impl Node {
    /// Memory of the copy, without the values: messages that were read share them.
    pub(crate) fn replication_bytes(&self) -> u64 {
        let topics = (self.retained.len() - self.retained.own_messages()) as u64;
        topics * TOPIC_MEMORY + self.retained.topic_bytes() + self.replication.cleared_memory()
    }

    /// Figures of replication at this moment.
    pub(crate) fn replication_figures(&self) -> ReplicationFigures {
        let replication = &self.replication;
        ReplicationFigures {
            present_nodes: replication.plane().membership().peers().count() + 1,
            open_events: replication.waits.open_len(),
            unmerged_slots: replication.unmerged_slots(),
            cleared: replication.cleared.len(),
            ..replication.figures
        }
    }
}
