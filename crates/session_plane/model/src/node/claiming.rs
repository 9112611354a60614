//! Claims at an owner: what it says of a client that connects somewhere (section 7 of the specification).
//!
//! Only a merged copy answers; until then a claim waits.

use super::{Node, Step};
use crate::copy::Content;
use crate::ids::{ClientId, Dot, NodeId};
use crate::message::{Message, OlderConnection, SessionAnswer};
use crate::rules::Rule;

/// A connection that waits for this owner's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    node: NodeId,
    client: ClientId,
    connection: Dot,
}

impl Claim {
    pub(super) fn node(&self) -> NodeId {
        self.node
    }
}

impl Node {
    /// Takes a claim that this owner has to answer.
    pub(super) fn add_claim(&mut self, node: NodeId, client: ClientId, connection: Dot) {
        let claim = Claim {
            node,
            client,
            connection,
        };
        if !self.claims.contains(&claim) {
            self.claims.push(claim);
        }
    }

    /// Answers claims whose slot is merged; the others wait.
    pub(super) fn answer_claims(&mut self, step: &mut Step<'_>) {
        for claim in std::mem::take(&mut self.claims) {
            if claim.node != self.id && !self.membership.has(claim.node) {
                continue;
            }
            match self.answer_claim(step, &claim) {
                None => self.claims.push(claim),
                Some(answer) if claim.node == self.id => self.take_session(step, self.id, &answer),
                Some(answer) => step.send(claim.node, Message::Session(Box::new(answer))),
            }
        }
    }

    fn answer_claim(&self, step: &Step<'_>, claim: &Claim) -> Option<SessionAnswer> {
        let slot = step.directory.slot(claim.client);
        let copy = self.copy(slot)?;
        if !(copy.is_merged() && self.may_serve()) && step.holds(Rule::ServeMerged) {
            return None;
        }
        let connections = self.connections_in(slot, claim.client);
        let older = connections.iter().filter(|entry| entry.dot != claim.connection);
        let entries = copy
            .content
            .entries
            .iter()
            .filter(|entry| entry.client == claim.client);
        Some(SessionAnswer {
            client: claim.client,
            connection: claim.connection,
            older: older
                .map(|entry| OlderConnection {
                    node: step.directory.node(entry.dot.run),
                    dot: entry.dot,
                })
                .collect(),
            content: Content {
                covered: copy.content.covered,
                entries: entries.copied().collect(),
                single: copy.content.single.clone(),
                ..Content::default()
            },
        })
    }
}
