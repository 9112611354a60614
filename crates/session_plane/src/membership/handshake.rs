//! Handshake: how two nodes begin a stay together, once both have given each other up.
//!
//! ```text
//!  lower node                            higher node
//!      |   Offer(a)   every offer_every       |
//!      |------------------------------------->|  absent: answers
//!      |              Answer(b) to a          |
//!      |<-------------------------------------|
//!  met |   Confirm of a and b                 |
//!      |------------------------------------->| met
//! ```
//!
//! The lower node leads. An Offer of the higher one asks it to offer. `a` and `b` are incarnations
//! that were not used before the present absence. So an answer to `a` says that the higher node was
//! absent after the lower one had given it up. A late message of an older absence is known as such.
//! The higher node repeats its Answer until the Confirm comes.
//!
//! The lower node decides which side is the smaller one, so that both go by one decision.

use std::time::Instant;

use cluster::NodeId;

use super::peer::{Answered, Begun};
use super::{
    Absence, Action, GiveUpReason, HandshakeError, Membership, Peer, Presence, SWIM_INCARNATION_MAX, Stay,
};
use crate::{NodeState, PresentNode, SwimIncarnation};

mod checks;
mod message;

pub use message::{Answer, Confirm, Handshake, Introduction, Side};

use message::smaller_side;

impl Membership {
    /// Receives a message of a handshake that came from `from`.
    ///
    /// A newer run of a present node ends the stay of the older one. The handshake with the newer
    /// one follows in a later call.
    ///
    /// # Errors
    ///
    /// [`HandshakeError`] where no stay begins by it. Nothing is changed, but that a newer run has
    /// ended the older one. Some refusals are no fault, see there.
    pub fn receive_handshake(
        &mut self,
        now: Instant,
        from: NodeId,
        message: &Handshake,
        actions: &mut Vec<Action>,
    ) -> Result<(), HandshakeError> {
        let introduction = message.introduction();
        self.check_introduction(from, introduction)?;
        self.check_role(from, message)?;
        let stay = self.peer(from).map(|peer| peer.present.run);
        let is_newer = stay.is_some_and(|stay| stay < introduction.run);
        if is_newer {
            self.end_stay(from, GiveUpReason::NewerRun, actions);
        }
        let received = match message {
            Handshake::Offer(introduction) => self.receive_offer(now, introduction, actions),
            Handshake::Answer(answer) => self.receive_answer(now, answer, actions),
            Handshake::Confirm(confirm) => self.receive_confirm(now, confirm, actions),
        };
        let member = self.members.get_mut(&from);
        if let Some(member) = member.filter(|_| is_newer || received.is_ok()) {
            member.last_start = Some(introduction.run.incarnation);
        }
        received
    }

    /// Offers a handshake to each absent member, or answers its offer again.
    pub(super) fn offer_handshakes(&mut self, actions: &mut Vec<Action>) {
        let absent: Vec<NodeId> = self.absent_members().collect();
        for to in absent {
            // A run whose incarnations are used up meets nobody any more.
            let message = match self.absence(to).and_then(|absence| absence.answered) {
                Some(answered) => Ok(self.answer(answered)),
                None => self.offer(to),
            };
            actions.extend(message.map(|message| Action::SendHandshake { to, message }));
        }
    }

    fn receive_offer(
        &mut self,
        now: Instant,
        offer: &Introduction,
        actions: &mut Vec<Action>,
    ) -> Result<(), HandshakeError> {
        let to = offer.run.node;
        let answered = match self.absence(to) {
            Some(absence) => absence.answered,
            None => return self.receive_offer_of_peer(now, offer),
        };
        let message = if self.leads(to) {
            self.offer(to)?
        } else {
            let answered = answered.filter(|answered| answered.run == offer.run);
            let answered = match answered {
                Some(answered) if offer.incarnation < answered.offer => {
                    return Err(HandshakeError::Late { node: to });
                }
                Some(answered) if offer.incarnation == answered.offer => answered,
                _ => self.record_offer(offer)?,
            };
            self.answer(answered)
        };
        actions.push(Action::SendHandshake { to, message });
        Ok(())
    }

    /// Notes that a present peer has given this node up. It is answered when it is given up in turn.
    fn receive_offer_of_peer(&mut self, now: Instant, offer: &Introduction) -> Result<(), HandshakeError> {
        let node = offer.run.node;
        let peer = self.peer_mut(node).ok();
        match peer.filter(|peer| peer.present.run == offer.run && peer.is_ended_by(offer.incarnation)) {
            Some(peer) => {
                peer.offered = Some(now);
                Ok(())
            }
            None => Err(HandshakeError::StillPresent { node }),
        }
    }

    /// Receives an answer of the higher node.
    fn receive_answer(
        &mut self,
        now: Instant,
        answer: &Answer,
        actions: &mut Vec<Action>,
    ) -> Result<(), HandshakeError> {
        let (to, run, offer) = (answer.introduction.run.node, self.own.run, answer.offer);
        let Some(absence) = self.absence(to) else {
            return self.confirm_again(answer, actions);
        };
        if offer.run != run || absence.offer != Some(offer.incarnation) {
            return Err(HandshakeError::Late { node: to });
        }
        self.check_room()?;
        let own = self.introduction(offer.incarnation);
        let confirm = Confirm {
            introduction: Introduction {
                incarnation: self.raised(offer.incarnation),
                ..own
            },
            offer: offer.incarnation,
            answer: answer.introduction.stay(),
            minority: smaller_side(&own, &answer.introduction),
        };
        actions.push(Action::SendHandshake {
            to,
            message: Handshake::Confirm(confirm),
        });
        let begun = Begun::Confirmed(confirm);
        self.meet(now, &answer.introduction, begun, actions);
        self.apply_minority(confirm.minority, actions);
        Ok(())
    }

    /// Sends the Confirm of the present stay again, if the answer is the one that it confirms.
    fn confirm_again(&self, answer: &Answer, actions: &mut Vec<Action>) -> Result<(), HandshakeError> {
        let to = answer.introduction.run.node;
        match self.peer(to).map(|peer| &peer.begun) {
            Some(Begun::Confirmed(confirm))
                if confirm.answer == answer.introduction.stay()
                    && answer.offer.run == self.own.run
                    && answer.offer.incarnation == confirm.offer =>
            {
                let message = Handshake::Confirm(*confirm);
                actions.push(Action::SendHandshake { to, message });
                Ok(())
            }
            _ => Err(HandshakeError::StillPresent { node: to }),
        }
    }

    /// Receives the confirmation of this node's answer to the lower node.
    fn receive_confirm(
        &mut self,
        now: Instant,
        confirm: &Confirm,
        actions: &mut Vec<Action>,
    ) -> Result<(), HandshakeError> {
        let node = confirm.introduction.run.node;
        let confirmed = Answered {
            run: confirm.introduction.run,
            offer: confirm.offer,
            answer: confirm.answer.incarnation,
        };
        let is_own = confirm.answer.run == self.own.run;
        match self.members.get(&node).map(|member| &member.presence) {
            Some(Presence::Absent(absence)) if is_own && absence.answered == Some(confirmed) => {}
            Some(Presence::Present(peer)) if is_own && peer.is_begun_by(confirmed) => return Ok(()),
            Some(Presence::Present(_)) => return Err(HandshakeError::StillPresent { node }),
            _ => return Err(HandshakeError::Late { node }),
        }
        self.check_room()?;
        let begun = Begun::Answered(confirmed);
        self.meet(now, &confirm.introduction, begun, actions);
        self.apply_minority(confirm.minority, actions);
        Ok(())
    }

    /// Takes a peer for present.
    fn meet(&mut self, now: Instant, peer: &Introduction, begun: Begun, actions: &mut Vec<Action>) {
        let present = PresentNode {
            run: peer.run,
            incarnation: peer.incarnation,
            state: peer.state,
        };
        self.own.incarnation = self.raised(begun.own());
        self.issued = self.issued.max(self.own.incarnation);
        let member = self.members.entry(peer.run.node).or_default();
        member.presence = Presence::Present(Box::new(Peer::new(now, present, begun)));
        actions.push(Action::Met { peer: present });
    }

    fn apply_minority(&mut self, minority: Option<NodeId>, actions: &mut Vec<Action>) {
        if minority == Some(self.own.run.node) && self.own.state == NodeState::Running {
            self.enter(NodeState::MergeMinority, actions);
        }
    }

    /// Own incarnation after a stay began under `begun`: no stay has it yet.
    fn raised(&self, begun: SwimIncarnation) -> SwimIncarnation {
        SwimIncarnation((self.own.incarnation.0 + 1).max(begun.0))
    }

    /// Offer to `to`: under one incarnation for the whole absence.
    fn offer(&mut self, to: NodeId) -> Result<Handshake, HandshakeError> {
        let next = self.next_incarnation()?;
        let leads = self.leads(to);
        let incarnation = match self.absence_mut(to) {
            Some(absence) if leads => *absence.offer.get_or_insert(next),
            _ => next,
        };
        self.issued = self.issued.max(incarnation);
        Ok(Handshake::Offer(self.introduction(incarnation)))
    }

    fn record_offer(&mut self, offer: &Introduction) -> Result<Answered, HandshakeError> {
        let answered = Answered {
            run: offer.run,
            offer: offer.incarnation,
            answer: self.next_incarnation()?,
        };
        self.issued = self.issued.max(answered.answer);
        if let Some(absence) = self.absence_mut(offer.run.node) {
            absence.answered = Some(answered);
        }
        Ok(answered)
    }

    fn answer(&self, answered: Answered) -> Handshake {
        Handshake::Answer(Answer {
            introduction: self.introduction(answered.answer),
            offer: Stay {
                run: answered.run,
                incarnation: answered.offer,
            },
        })
    }

    fn introduction(&self, incarnation: SwimIncarnation) -> Introduction {
        let first = self.peers().next();
        Introduction {
            run: self.own.run,
            state: self.own.state,
            incarnation,
            side: Side {
                nodes: 1 + self.peers().count(),
                lowest: first.map_or(self.own.run.node, |first| first.min(self.own.run.node)),
            },
        }
    }

    fn next_incarnation(&self) -> Result<SwimIncarnation, HandshakeError> {
        let next = SwimIncarnation(self.own.incarnation.0 + 1);
        if next > SWIM_INCARNATION_MAX {
            return Err(HandshakeError::IncarnationsUsedUp);
        }
        Ok(next)
    }

    /// This node is the lower one of the two.
    fn leads(&self, other: NodeId) -> bool {
        self.own.run.node < other
    }

    fn absence(&self, node: NodeId) -> Option<&Absence> {
        match &self.members.get(&node)?.presence {
            Presence::Absent(absence) => Some(absence),
            Presence::Present(_) => None,
        }
    }

    fn absence_mut(&mut self, node: NodeId) -> Option<&mut Absence> {
        match &mut self.members.get_mut(&node)?.presence {
            Presence::Absent(absence) => Some(absence),
            Presence::Present(_) => None,
        }
    }
}
