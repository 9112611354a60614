//! A client connects to another node: its connection here ends, and that node is told what this one has of it.

use cluster::NodeId;
use mqtt::ids::ConnectionId;
use mqtt::now::Now;
use mqtt::principal::Principal;

use super::messages::{QuestionNumber, Take};
use super::{ClientMessage, Place};
use crate::node::{Action, Node};
use crate::waiting::Waiter;

/// Answers that are kept for a node that is not reached; whoever waits for more is told after a while that nobody answers.
const OWED_MAX: usize = 65_536;

impl Node {
    /// A client connects to another node.
    pub(crate) fn give_client(
        &mut self,
        now: Now,
        (to, question): (NodeId, QuestionNumber),
        take: Take,
        actions: &mut Vec<Action>,
    ) {
        let Some(take) = self.await_merged((to, question), take) else {
            return;
        };
        let place = self.place_of(now, to, &take, actions);
        // That its connection and perhaps its session have ended must not be undone by a crash.
        let answer = Waiter::Place {
            to,
            question: question.0,
            place,
        };
        self.after_commit(now, answer, actions);
    }

    /// What was to be durable before a node is answered is.
    pub(crate) fn answer_place(&mut self, to: NodeId, question: u64, place: Place) {
        let question = QuestionNumber(question);
        if self.tell_clients(to, &ClientMessage::Answer(question, place)) {
            return;
        }
        // It reaches this node, and this one not it, or not yet.
        let Some(clients) = &mut self.clients else { return };
        let owed = clients.owed.entry(to).or_default();
        if owed.len() < OWED_MAX {
            owed.push((question, place));
        }
    }

    /// A node is reached that has asked something before.
    pub(super) fn give_answers(&mut self, to: NodeId) {
        let owed = self.clients.as_mut().and_then(|clients| clients.owed.remove(&to));
        for (question, place) in owed.into_iter().flatten() {
            self.tell_clients(to, &ClientMessage::Answer(question, place));
        }
    }

    /// Whoever has asked is not there any more.
    pub(crate) fn forget_answers(&mut self, to: NodeId) {
        if let Some(clients) = &mut self.clients {
            clients.owed.remove(&to);
        }
    }

    /// Whether the client of one connection is known as that of another one.
    pub(super) fn is_same_principal(&self, one: ConnectionId, other: ConnectionId) -> bool {
        match self.principal(one) {
            Some(principal) => self.principal(other).is_some_and(|other| other.is(principal)),
            None => true,
        }
    }

    fn place_of(&mut self, now: Now, to: NodeId, take: &Take, actions: &mut Vec<Action>) -> Place {
        let client_id = &take.client_id;
        if let Some((id, at)) = self.sought_since(client_id) {
            let own = self.peers.as_ref().map(|peers| peers.node());
            if Some((at, own)) > Some((take.at, Some(to))) {
                return Place::Later;
            }
            self.refuse_late(id, actions);
        }
        if !self.may_give(take) {
            return Place::Denied;
        }
        if let Some(id) = self.near_connection_of(client_id) {
            self.end_for_another(now, id, actions);
        }
        if let Some(key) = self.sessions.find(client_id) {
            if !take.clean_start {
                return Place::Held {
                    is_running: self.is_running(),
                };
            }
            if let Some(id) = self.sessions.get(key).and_then(|entry| entry.connection) {
                self.end_for_another(now, id, actions);
            }
            if let Some(key) = self.sessions.find(client_id) {
                self.discard_session(now, key, actions); // [MQTT-3.1.2-4]
            }
            return Place::Nothing;
        }
        if !self.has_orphan(client_id) {
            // Its holder may be lost for the node that asks, and is not yet for this one.
            let has_copy = !take.clean_start && self.has_copy(client_id);
            return if has_copy { Place::Copy } else { Place::Nothing };
        }
        if take.clean_start {
            self.forget_copy(client_id);
            return Place::Nothing;
        }
        Place::Orphan
    }

    /// Whether the client that connects elsewhere may have what there is here of its client id.
    fn may_give(&self, take: &Take) -> bool {
        let takes = take.principal.as_ref();
        let is_theirs =
            |owner: Option<&Principal>| owner.is_none_or(|owner| takes.is_some_and(|takes| takes.is(owner)));
        let near = self.near_connection_of(&take.client_id);
        let of_connection = near.and_then(|id| self.principal(id));
        let key = self.sessions.find(&take.client_id);
        let entry = key.and_then(|key| self.sessions.get(key));
        let owner = entry.and_then(|entry| entry.owner.as_deref());
        let of_session = owner.and_then(|owner| owner.principal.as_ref());
        is_theirs(of_connection) && is_theirs(of_session)
    }
}
