//! Which write of a topic's retained message is the later one, for all nodes of a cluster.

use cluster::session_plane::{Actor, Hlc};
use cluster::{Incarnation, NodeId};

/// Write of what a topic retains. Of two the greater one counts, whichever node got which first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edition {
    /// When; later than every edition that its writer had heard of.
    pub at: Hlc,
    /// Who has written it. Different writers may do so at the same moment.
    pub by: Actor,
}

impl Edition {
    /// Of a message that a node had before it was in a cluster, or before nodes told each other of retained messages.
    pub fn of_old(node: NodeId) -> Self {
        let by = Actor {
            node,
            incarnation: Incarnation(0),
        };
        Self { at: Hlc::ZERO, by }
    }
}
