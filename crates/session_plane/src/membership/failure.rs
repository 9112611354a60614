//! Failure detection by silence: when a present peer is given up.

use std::time::Instant;

use cluster::NodeId;

use super::{Absence, Action, GiveUpReason, Membership, NotPresent, Peer, Presence};

/// End of a peer's stay, if nothing happens before.
#[derive(Debug, Clone, Copy)]
struct Failure {
    node: NodeId,
    at: Instant,
    reason: GiveUpReason,
}

impl Membership {
    /// Records a message of the present stay from `peer`: an event, a heartbeat, an answer.
    ///
    /// A message of a handshake is none: a peer that offers one has given this node up, and is
    /// given up by its silence in turn. See [`Membership::is_expected`].
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
        let goes = self.going().contains_key(&peer);
        let peer = self.peer_mut(peer)?;
        if peer.suspicion.is_none() && !goes {
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
        let going = self.going();
        let peers = self.peers_with_ids();
        peers
            .filter(move |(node, peer)| peer.suspicion.is_none() && !going.contains_key(node))
            .map(|(node, _)| node)
    }

    pub(super) fn detect_failures(&mut self, now: Instant, actions: &mut Vec<Action>) {
        // One end may decide mutual convictions of others, so each is looked for anew.
        loop {
            let due = self.failures().find(|failure| failure.at <= now);
            let Some(due) = due else { return };
            self.end_stay(due.node, due.reason, actions);
        }
    }

    /// Time of the first failure, if nothing happens before.
    pub(super) fn failure_at(&self) -> Option<Instant> {
        self.failures().map(|failure| failure.at).min()
    }

    /// Ends a stay: nothing of it is kept but the highest start of the node, and who ended it first.
    pub(super) fn end_stay(&mut self, node: NodeId, reason: GiveUpReason, actions: &mut Vec<Action>) {
        let Some(member) = self.members.get_mut(&node) else {
            return;
        };
        let Presence::Present(peer) = std::mem::take(&mut member.presence) else {
            return;
        };
        if let Some(offered) = peer.offered {
            member.presence = Presence::Absent(Absence {
                expected_until: Some(offered + self.silence_max),
                ..Absence::default()
            });
        }
        if member.is_removed {
            self.members.remove(&node);
        }
        for other in self.peers_mut() {
            other.convicted.remove(&node);
        }
        let run = peer.present.run;
        actions.push(Action::GaveUp { run, reason });
    }

    /// Ends of all stays, in ascending order of the peers.
    fn failures(&self) -> impl Iterator<Item = Failure> + '_ {
        let going = self.going();
        let peers = self.peers_with_ids();
        peers.map(move |(node, peer)| {
            let witness = peer.suspicion.map(|suspicion| suspicion.by);
            let by = going.get(&node).copied().or(witness);
            self.silence(node, peer).earlier(by.map(|by| Failure {
                node,
                at: peer.answered + self.silence_max / 2,
                reason: GiveUpReason::Convicted { by },
            }))
        })
    }

    fn silence(&self, node: NodeId, peer: &Peer) -> Failure {
        let (wait, reason) = if peer.is_refused {
            (self.gone_after, GiveUpReason::Refused)
        } else {
            (self.silence_max, GiveUpReason::Silent)
        };
        let at = peer.heard + wait;
        Failure { node, at, reason }
    }
}

impl Failure {
    fn earlier(self, other: Option<Failure>) -> Failure {
        other.filter(|other| other.at < self.at).unwrap_or(self)
    }
}
