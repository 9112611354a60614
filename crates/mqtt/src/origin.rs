//! Where a message came from, as far as it says who else has got it.

use std::num::NonZeroU64;

use cluster::NodeId;

/// Where a message came from.
///
/// Only in memory: of what a restart has found nobody knows it any more. It matters when a session has gone on at two nodes, and one of them gives to the other what that one has not got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Origin {
    /// From before a restart, from the server itself, or by way of a node that is lost.
    #[default]
    Unknown,
    /// A client of this node.
    Own {
        /// Counts what was published here in this run.
        number: u64,
        /// The nodes that it was sent to, a bit for each.
        sent_to: Slots,
    },
    /// Another node.
    Node {
        /// Which.
        node: NodeId,
        /// Its number among what that node has sent.
        position: Position,
    },
}

/// Some nodes of a cluster: a bit for each.
pub type Slots = u64;

/// Position in what one node has sent: everything up to there was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Incarnation of the sender.
    pub incarnation: u32,
    /// Its items are numbered from 1.
    pub number: u64,
}

/// Which message it is: no other one of the cluster has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// Whose client has published it.
    pub node: NodeId,
    /// In which run of that node.
    pub run: u32,
    /// Counts what was published there in that run.
    pub number: NonZeroU64,
}
