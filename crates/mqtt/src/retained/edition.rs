//! Which write of a topic's retained message is the later one, for all nodes of a cluster.

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};

/// Write of what a topic retains. Of two the greater one counts, whichever node got which first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edition {
    /// When; later than every edition that its writer had heard of.
    pub at: Hlc,
    /// Node that has written it. Different writers may do so at the same moment.
    pub node: NodeId,
    /// Start of that node.
    pub incarnation: Incarnation,
}

impl Edition {
    /// Of a message that a node had before it was in a cluster, or before nodes told each other of retained messages.
    pub fn of_old(node: NodeId) -> Self {
        Self {
            at: Hlc::ZERO,
            node,
            incarnation: Incarnation(0),
        }
    }
}
