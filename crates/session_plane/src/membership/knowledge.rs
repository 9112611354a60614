//! Knowledge that peers have told in their present stay, for rules `known-to-all` and
//! `told-among-all`.

use std::collections::BTreeSet;

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::{KnowledgeError, Membership, Peer};
use crate::{Dot, Run, VersionVector, View};

impl Membership {
    /// Records all events that `peer` tells that it knows, and the clock of the peer: what it makes from
    /// here on is later.
    ///
    /// # Errors
    ///
    /// [`KnowledgeError`] where the peer is not present, or the vector would be too long.
    pub fn record_knowledge(
        &mut self,
        peer: NodeId,
        known: &VersionVector,
        clock: Hlc,
    ) -> Result<(), KnowledgeError> {
        let told = self.peer_mut(peer)?;
        told.told
            .unite(known)
            .map_err(|source| KnowledgeError::Full { peer, source })?;
        told.told_among = told.present_runs();
        told.told_at = told.told_at.max(clock);
        Ok(())
    }

    /// `peer` has told in this stay that it knows all of `events`.
    pub fn has_told(&self, peer: NodeId, events: &VersionVector) -> bool {
        let peer = self.peer(peer);
        peer.is_some_and(|peer| events.is_within(&peer.told))
    }

    /// `peer` has told in this stay that it knows the event.
    pub fn has_told_of(&self, peer: NodeId, event: Dot) -> bool {
        self.peer(peer).is_some_and(|peer| peer.told.covers(event))
    }

    /// The cluster is complete, and every peer has told in its stay that it knows all of `events`, with a
    /// clock that is not before `moment`. It had exactly the members for present then, each in its present
    /// run.
    ///
    /// A peer may know an event from a copy of another slot, before it has seen the event's clock.
    pub fn is_known_to_all(&self, events: &VersionVector, moment: Hlc) -> bool {
        if !self.is_complete() {
            return false;
        }
        let present = self.present_runs();
        let mut peers = self.peers_with_ids();
        let has_told = |(node, peer): (NodeId, &Peer)| {
            peer.told_among == present && peer.told_at >= moment && self.has_told(node, events)
        };
        peers.all(has_told)
    }

    /// The last ring marker of a present peer has the runs of this node's last one, in the same states.
    pub fn has_view_of(&self, peer: NodeId) -> bool {
        let view = self.peer(peer).and_then(|peer| peer.view.as_ref());
        view.is_some_and(|view| view.has_runs_of(&self.marked))
    }

    /// Configured members, and this node.
    pub fn members(&self) -> BTreeSet<NodeId> {
        let members = self.members.iter().filter(|(_, member)| !member.is_removed);
        members
            .map(|(node, _)| *node)
            .chain([self.own.run.node])
            .collect()
    }

    /// Runs that are present, that of this node among them.
    pub fn present_runs(&self) -> BTreeSet<Run> {
        runs_of(&self.view()).collect()
    }

    /// Runs of the last ring marker of a present peer. None of a peer without one.
    pub fn marked_runs_of(&self, peer: NodeId) -> BTreeSet<Run> {
        self.peer(peer).map(Peer::present_runs).unwrap_or_default()
    }
}

impl Peer {
    /// Runs of the peer's last ring marker.
    fn present_runs(&self) -> BTreeSet<Run> {
        self.view.iter().flat_map(runs_of).collect()
    }
}

fn runs_of(view: &View) -> impl Iterator<Item = Run> + '_ {
    view.nodes().iter().map(|present| present.run)
}
