//! A client whose session gives way waits until that is over: what it has sent and was not told of must be known where it goes.

use cluster::NodeId;
use mqtt::now::Now;
use protocol::Text;

use crate::clients::{QuestionNumber, Take};
use crate::node::{Action, Node};

/// Questions of other nodes that wait for the end of all that gives way here; more are answered at once.
const QUESTIONS_MAX: usize = 65_536;

/// A node that asks for a client.
#[derive(Debug)]
pub(in crate::copies) struct Question {
    from: NodeId,
    number: QuestionNumber,
    take: Take,
}

impl Node {
    /// Whether a client's session gives way now to that of another node.
    pub(crate) fn is_giving_way(&self, client_id: &str) -> bool {
        let Some(copies) = self.copies.as_ref().filter(|copies| !copies.giving.is_empty()) else {
            return false;
        };
        let entry = self
            .sessions
            .find(client_id)
            .and_then(|key| self.sessions.get(key));
        entry.is_some_and(|entry| copies.giving.contains(&entry.session.number))
    }

    /// Keeps a question until the client's session has given way; gives it back if it does not, or has.
    pub(crate) fn await_merged(
        &mut self,
        (from, number): (NodeId, QuestionNumber),
        take: Take,
    ) -> Option<Take> {
        if !self.is_giving_way(&take.client_id) {
            return Some(take);
        }
        let Some(copies) = self
            .copies
            .as_mut()
            .filter(|copies| copies.questions.len() < QUESTIONS_MAX)
        else {
            return Some(take);
        };
        copies.questions.push(Question { from, number, take });
        None
    }

    /// Answers what has waited for sessions that do not give way any more.
    pub(in crate::copies) fn answer_after_merging(&mut self, now: Now, actions: &mut Vec<Action>) {
        let Some(copies) = &mut self.copies else { return };
        let ended: Vec<Text> = std::mem::take(&mut copies.ended_giving);
        for client_id in ended {
            let Some(copies) = &mut self.copies else { return };
            let is_of_client = |question: &mut Question| question.take.client_id == client_id;
            let answered: Vec<Question> = copies.questions.extract_if(.., is_of_client).collect();
            for Question { from, number, take } in answered {
                self.give_client(now, (from, number), take, actions);
            }
            self.decide_place_of(now, &client_id, actions);
        }
    }
}
