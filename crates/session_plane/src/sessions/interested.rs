//! Interests upon the plane: told to present peers, and learned from them.
//!
//! What a peer that is given up has told is forgotten. A message is published once each present peer has told
//! its interests since it was met, as it is once the routes are merged (rule `routes-merged`).

use cluster::NodeId;

use super::{Sessions, SessionsAction, SessionsError, SessionsMessage, SessionsValue};
use crate::interests::{Interest, InterestChange, InterestMessage, InterestsFull, Learned};
use crate::plane::Matching;
use crate::transfer::TransferBytes;
use crate::{Slot, TopicFilter};

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Sets what connected sessions of this node want of a filter; None: nothing. Gives the position of the
    /// change: the client is told once [`Sessions::interests_told`] is as high, which
    /// [`SessionsAction::InterestsTold`] reports.
    ///
    /// # Errors
    ///
    /// [`InterestsFull`] where there is no room. The node refuses the SUBSCRIBE with 0x97, Quota exceeded.
    pub fn set_interest(
        &mut self,
        filter: &TopicFilter,
        interest: Option<Interest>,
    ) -> Result<u64, InterestsFull> {
        let position = self.interests.set(filter, interest)?;
        let (own, filter) = (self.plane.run().node, filter.clone());
        let change = InterestChange { filter, interest };
        self.plane.matching_mut().learn(own, change);
        Ok(position)
    }

    /// Position up to which every present peer knows the interests of this node.
    pub fn interests_told(&self) -> u64 {
        self.interests.told()
    }

    /// A message may be published: this node knows what it matches.
    pub fn knows_recipients(&self) -> bool {
        let may_serve = self.plane.membership().may_serve();
        may_serve && self.plane.is_merged(Slot::ROUTES) && self.interests.are_known()
    }

    /// Sends a message of QoS 0 to those of the nodes that are present peers; once, or never. This node
    /// delivers it to its own sessions.
    pub fn pass(
        &self,
        nodes: impl Iterator<Item = NodeId>,
        message: &M,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        for to in nodes.filter(|node| self.plane.membership().is_present(*node)) {
            let message = SessionsMessage::Interests(InterestMessage::Unstored(message.clone()));
            actions.push(SessionsAction::Send { to, message });
        }
    }

    /// Next message about the interests of this node.
    pub(super) fn next_interests(&mut self, to: NodeId) -> Option<SessionsMessage<V, M>> {
        let changes = self.interests.next_message(to)?;
        Some(SessionsMessage::Interests(InterestMessage::Changes(changes)))
    }

    /// Receives a message about interests, or because of one.
    pub(super) fn receive_interests(
        &mut self,
        from: NodeId,
        message: InterestMessage<M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) -> Result<(), SessionsError> {
        match message {
            InterestMessage::Changes(changes) => {
                let up_to = changes.up_to;
                let matching = self.plane.matching_mut();
                let learned = self.interests.receive(from, changes, matching.interests(from))?;
                learn(matching, from, learned);
                let message = SessionsMessage::Interests(InterestMessage::Confirm { up_to });
                actions.push(SessionsAction::Send { to: from, message });
            }
            InterestMessage::Confirm { up_to } => {
                self.interests.confirm(from, up_to)?;
                self.report_told(actions);
            }
            InterestMessage::Unstored(message) => actions.push(SessionsAction::Unstored(message)),
        }
        Ok(())
    }

    /// Forgets what a peer that is given up has told.
    pub(super) fn lose_interests_of(&mut self, peer: NodeId, actions: &mut Vec<SessionsAction<V, M>>) {
        self.interests.lose(peer);
        self.plane.matching_mut().forget(peer);
        self.report_told(actions);
    }

    fn report_told(&self, actions: &mut Vec<SessionsAction<V, M>>) {
        actions.push(SessionsAction::InterestsTold(self.interests.told()));
    }
}

/// Takes what a peer has told.
fn learn<V, M>(matching: &mut impl Matching<V, M>, peer: NodeId, learned: Learned) {
    if learned.is_anew {
        matching.forget(peer);
    }
    for change in learned.changes {
        matching.learn(peer, change);
    }
}
