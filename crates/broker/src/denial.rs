//! What clients wanted and may not have: counted, and told to the operator.
//!
//! The client hears "not authorized" and no more: neither which rule it was, nor whether there is anything behind it.

use mqtt::authorization::Right;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::principal::Principal;
use protocol::{ReasonCode, Text, TopicName};
use session_values::SessionTerms;

use crate::node::{Action, Node};
use crate::report::Report;

/// A right that a client does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// On which connection; `None`: it is gone.
    pub connection: Option<ConnectionId>,
    /// Who.
    pub client_id: Text,
    /// As whom, if that was asked.
    pub principal: Option<Principal>,
    /// What.
    pub right: Right,
    /// To what: a client id, topic, filter or key, this with U+FFFD for what is no text.
    pub resource: String,
    /// It had the right, and used it, before the rules or what is known of the principal changed: what it had was taken from it.
    pub is_withdrawn: bool,
}

/// What a client is told of any right that it does not have.
pub(crate) const NOT_AUTHORIZED: &str = "not authorized";

impl Node {
    /// Counts and tells what the client of a session may not do.
    pub(crate) fn deny(
        &mut self,
        id: Option<ConnectionId>,
        key: SessionKey,
        right: Right,
        resource: &str,
        actions: &mut Vec<Action>,
    ) {
        self.counters.denied[right as usize] += 1;
        self.tell_denied(id, key, right, resource, false, actions);
    }

    /// Counts and tells what is taken from the client of a session.
    pub(crate) fn withdraw(
        &mut self,
        id: ConnectionId,
        key: SessionKey,
        right: Right,
        resource: &str,
        actions: &mut Vec<Action>,
    ) {
        self.counters.withdrawn[right as usize] += 1;
        self.tell_denied(Some(id), key, right, resource, true, actions);
    }

    /// Counts and tells that a will may not be published.
    pub(crate) fn deny_will(&mut self, client_id: Text, topic: &TopicName, actions: &mut Vec<Action>) {
        self.counters.denied[Right::Will as usize] += 1;
        let terms = self.replication.session_of(&client_id);
        let principal = terms
            .and_then(SessionTerms::owner)
            .and_then(|owner| owner.principal.clone());
        actions.push(Action::Report(Report::Denied(Box::new(Denied {
            connection: None,
            client_id,
            principal,
            right: Right::Will,
            resource: topic.as_str().to_owned(),
            is_withdrawn: false,
        }))));
    }

    /// CONNACK 0x87, and the end of the connection. [MQTT-3.1.4-2]
    pub(crate) fn deny_connect(
        &mut self,
        id: ConnectionId,
        client_id: Text,
        right: Right,
        resource: &str,
        actions: &mut Vec<Action>,
    ) {
        self.counters.denied[right as usize] += 1;
        let report = Report::Denied(Box::new(Denied {
            connection: Some(id),
            client_id,
            principal: self.principal(id).cloned(),
            right,
            resource: resource.to_owned(),
            is_withdrawn: false,
        }));
        self.end_connect(id, ReasonCode::NotAuthorized, NOT_AUTHORIZED, report, actions);
    }

    fn tell_denied(
        &self,
        connection: Option<ConnectionId>,
        key: SessionKey,
        right: Right,
        resource: &str,
        is_withdrawn: bool,
        actions: &mut Vec<Action>,
    ) {
        let Some(entry) = self.sessions.get(key) else {
            return;
        };
        let owner = entry.owner.as_deref();
        actions.push(Action::Report(Report::Denied(Box::new(Denied {
            connection,
            client_id: entry.client_id.clone(),
            principal: owner.and_then(|owner| owner.principal.clone()),
            right,
            resource: resource.to_owned(),
            is_withdrawn,
        }))));
    }
}
