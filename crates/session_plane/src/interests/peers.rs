//! Present peers: how far each knows this node's interests, and how far it has told its own.

use std::collections::BTreeMap;

use cluster::NodeId;

use super::error::InterestError;
use super::message::InterestChanges;

/// Present peers.
#[derive(Debug, Default)]
pub(super) struct Peers {
    peers: BTreeMap<NodeId, Peer>,
}

/// One present peer.
#[derive(Debug, Default)]
struct Peer {
    /// Position that it has confirmed.
    confirmed: u64,
    /// Position that it was told since it was met.
    told: u64,
    /// Position of the message that is on its way over this link.
    sent: Option<u64>,
    /// It was told something since it was met, and has confirmed that.
    is_told: bool,
    /// Position up to which it has told its own.
    position: u64,
    /// It has told all that it had at some moment since it was met.
    has_told: bool,
}

impl Peers {
    pub(super) fn meet(&mut self, peer: NodeId) {
        self.peers.insert(peer, Peer::default());
    }

    pub(super) fn lose(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
    }

    pub(super) fn renew_link(&mut self, peer: NodeId) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.sent = None;
        }
    }

    /// Position behind which a peer is told now. None while a message is on its way to it.
    pub(super) fn sendable(&self, peer: NodeId) -> Option<u64> {
        let peer = self.peers.get(&peer).filter(|peer| peer.sent.is_none())?;
        Some(peer.confirmed)
    }

    /// The peer has confirmed nothing since it was met: it waits for a first message.
    pub(super) fn is_untold(&self, peer: NodeId) -> bool {
        self.peers.get(&peer).is_some_and(|peer| !peer.is_told)
    }

    pub(super) fn note_sent(&mut self, peer: NodeId, up_to: u64) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.sent = Some(up_to);
            peer.told = peer.told.max(up_to);
        }
    }

    /// Takes a confirmation. What was told twice is confirmed twice.
    pub(super) fn confirm(&mut self, peer: NodeId, up_to: u64) -> Result<(), InterestError> {
        let of_peer = self.peers.get_mut(&peer);
        let of_peer = of_peer.ok_or(InterestError::NotPresent { peer })?;
        let told = of_peer.told;
        if up_to > told {
            return Err(InterestError::NeverTold { peer, up_to, told });
        }
        of_peer.confirmed = of_peer.confirmed.max(up_to);
        of_peer.sent = of_peer.sent.filter(|sent| *sent != up_to);
        of_peer.is_told = true;
        Ok(())
    }

    /// A peer tells from its begin on. Nodes do not meet at one moment: what was told before may have found a
    /// peer that had not met this node, and is told again.
    fn note_begin(of_peer: &mut Peer) {
        if !of_peer.is_told {
            of_peer.sent = None;
        }
    }

    /// Notes how far a peer has told its own interests.
    ///
    /// After a break of the link a peer tells again what was not confirmed to it: it goes on from a
    /// position before the one that this node has.
    pub(super) fn take_told(&mut self, peer: NodeId, told: &InterestChanges) -> Result<(), InterestError> {
        let of_peer = self.peers.get_mut(&peer);
        let of_peer = of_peer.ok_or(InterestError::NotPresent { peer })?;
        let position = of_peer.position;
        if told.after > position || told.up_to < told.after {
            return Err(InterestError::WrongPosition {
                peer,
                after: told.after,
                up_to: told.up_to,
                position,
            });
        }
        if told.after == 0 {
            Peers::note_begin(of_peer);
        }
        of_peer.position = told.up_to;
        of_peer.has_told |= told.is_all;
        Ok(())
    }

    /// Position that every present peer has confirmed. None where there is none.
    pub(super) fn told(&self) -> Option<u64> {
        self.peers.values().map(|peer| peer.confirmed).min()
    }

    /// Every present peer has told all that it had at some moment.
    pub(super) fn have_told(&self) -> bool {
        self.peers.values().all(|peer| peer.has_told)
    }
}
