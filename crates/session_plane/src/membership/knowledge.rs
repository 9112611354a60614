//! Knowledge that peers have told in their present stay, for rule `known-to-all`.

use cluster::NodeId;

use super::{KnowledgeError, Membership};
use crate::VersionVector;

impl Membership {
    /// Records events that `peer` tells that it knows; all of them, or those since it told last.
    ///
    /// # Errors
    ///
    /// [`KnowledgeError`] where the peer is not present, or the vector would be too long.
    pub fn record_knowledge(&mut self, peer: NodeId, known: &VersionVector) -> Result<(), KnowledgeError> {
        let told = &mut self.peer_mut(peer)?.told;
        told.unite(known)
            .map_err(|source| KnowledgeError::Full { peer, source })
    }

    /// `peer` has told in this stay that it knows all of `events`.
    pub fn has_told(&self, peer: NodeId, events: &VersionVector) -> bool {
        let peer = self.peer(peer);
        peer.is_some_and(|peer| events.is_within(&peer.told))
    }

    /// The cluster is complete, and every peer has told in its stay that it knows all of `events`.
    pub fn is_known_to_all(&self, events: &VersionVector) -> bool {
        self.is_complete() && self.peers().all(|peer| self.has_told(peer, events))
    }
}
