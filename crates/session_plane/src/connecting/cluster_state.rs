//! State of the node that a claim and a question read: the node gives it.

use std::sync::Arc;

use cluster::NodeId;

use super::known_session::KnownSession;
use crate::{ClientId, Run, Slot, VersionVector};

/// Cluster as the node of a connection sees it.
pub trait ClusterState<V> {
    /// Owners of a slot by the [`Ring`](crate::Ring) of this node's last ring marker.
    fn owners(&self, slot: Slot) -> Vec<NodeId>;

    /// Run of a present node. This node is present. None for a node that was given up.
    fn present_run(&self, node: NodeId) -> Option<Run>;

    /// Events that this node knows to exist, its own among them.
    fn known(&self) -> Arc<VersionVector>;

    /// State of a client in this node's routes (rule `routes-tell`). None where they have none.
    fn routes(&self, client: &ClientId) -> Option<KnownSession<V>>;
}

/// Copies of an owner.
pub trait OwnedSessions<V> {
    /// Entries of a client, made by [`KnownSession::of_copy`] or [`KnownSession::of_whole`].
    ///
    /// None while this node does not own the client's slot, while its copy is not merged (rule
    /// `serve-merged`), or while the copy lacks some of `known` that a present holder may have (rule
    /// `ask-with-known`). The node tells when that has changed
    /// ([`Questions::copy_ready`](super::Questions::copy_ready)).
    fn read(&self, client: &ClientId, known: &VersionVector) -> Option<KnownSession<V>>;
}
