//! Failure detection by silence: when a present peer is given up.

use std::time::{Duration, Instant};

use cluster::NodeId;

use super::peer::Suspicion;
use super::{Action, GiveUpReason, Membership, NotPresent, Peer, Presence};

/// End of a peer's stay, if nothing happens before.
#[derive(Debug, Clone, Copy)]
struct Failure {
    at: Instant,
    reason: GiveUpReason,
}

impl Membership {
    /// Records a message of the present stay from `peer`: an event, a heartbeat, an answer.
    ///
    /// A message of a handshake is none: a peer that offers one has given this node up, and is
    /// given up by its silence in turn.
    ///
    /// # Errors
    ///
    /// [`NotPresent`]: the message is of an earlier stay and must not be read.
    pub fn record_heard(&mut self, now: Instant, peer: NodeId) -> Result<(), NotPresent> {
        let peer = self.peer_mut(peer)?;
        peer.heard = now.max(peer.heard);
        peer.is_refused = false;
        Ok(())
    }

    /// Records that `peer` was sent a heartbeat. Nothing is recorded of a suspect, which is not to
    /// be sent one.
    ///
    /// # Errors
    ///
    /// [`NotPresent`]: nothing is sent to a peer that is given up.
    pub fn record_answered(&mut self, now: Instant, peer: NodeId) -> Result<(), NotPresent> {
        let peer = self.peer_mut(peer)?;
        if peer.suspicion.is_none() {
            peer.answered = now.max(peer.answered);
        }
        Ok(())
    }

    /// Records that the machine of `peer` refused a connection: the process is gone.
    ///
    /// The peer is given up `gone_after` its last message, unless another one comes.
    ///
    /// # Errors
    ///
    /// [`NotPresent`]: there is nothing to end.
    pub fn record_refused(&mut self, peer: NodeId) -> Result<(), NotPresent> {
        self.peer_mut(peer)?.is_refused = true;
        Ok(())
    }

    /// Gives `peer` up for a reason of the node's own; a stream that stays behind, for example.
    ///
    /// # Errors
    ///
    /// [`NotPresent`]: there is nothing to end.
    pub fn give_up(&mut self, peer: NodeId, actions: &mut Vec<Action>) -> Result<(), NotPresent> {
        self.peer_mut(peer)?;
        self.end_stay(peer, GiveUpReason::Asked, actions);
        Ok(())
    }

    /// Present peers that are sent heartbeats: all but suspects. In ascending order.
    pub fn answered_peers(&self) -> impl Iterator<Item = NodeId> + '_ {
        let peers = self.peers_with_ids();
        peers
            .filter(|(_, peer)| peer.suspicion.is_none())
            .map(|(node, _)| node)
    }

    pub(super) fn detect_failures(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let nodes: Vec<NodeId> = self.peers().collect();
        for node in nodes {
            // An end that came before may have decided a mutual conviction.
            let failure = self.peer(node).map(|peer| self.failure(peer));
            if let Some(failure) = failure.filter(|failure| failure.at <= now) {
                self.end_stay(node, failure.reason, actions);
            }
        }
    }

    pub(super) fn failure_at(&self, peer: &Peer) -> Instant {
        self.failure(peer).at
    }

    /// Ends a stay: nothing of it is kept but the highest start of the node.
    pub(super) fn end_stay(&mut self, node: NodeId, reason: GiveUpReason, actions: &mut Vec<Action>) {
        let Some(member) = self.members.get_mut(&node) else {
            return;
        };
        let Presence::Present(peer) = std::mem::take(&mut member.presence) else {
            return;
        };
        if member.is_removed {
            self.members.remove(&node);
        }
        for other in self.peers_mut() {
            other.forget_mutual(node);
        }
        let run = peer.present.run;
        actions.push(Action::GaveUp { run, reason });
    }

    fn failure(&self, peer: &Peer) -> Failure {
        let (wait, reason) = if peer.is_refused {
            (self.gone_after, GiveUpReason::Refused)
        } else {
            (self.silence_max, GiveUpReason::Silent)
        };
        let silent = after(peer.heard, wait, reason);
        let convicted = peer.suspicion.map(|Suspicion { by, .. }| {
            let reason = GiveUpReason::Convicted { by };
            after(peer.answered, self.silence_max / 2, reason)
        });
        convicted
            .filter(|convicted| convicted.at < silent.at)
            .unwrap_or(silent)
    }
}

fn after(begin: Instant, wait: Duration, reason: GiveUpReason) -> Failure {
    let at = begin + wait;
    Failure { at, reason }
}
