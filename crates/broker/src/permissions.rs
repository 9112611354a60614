//! Permissions of the clients of this node: their policies, and the owners of their sessions.
//!
//! The policies in force are in `mqtt/src/policies.rs`. What a client already has when they change is gone through in `withdrawal.rs`.

use mqtt::authorization::{Access, Request, Right, Subject};
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::ownership::Owner;
use mqtt::policies::{is_of_server, may_have};
use protocol::packet::Will;
use protocol::state_store::is_own_response_topic;
use protocol::{Text, TopicFilter, TopicName};
use session_values::SessionTerms;

use crate::node::Node;

impl Node {
    /// Finds out what a client may do that is about to be let in, and whether it may be.
    pub(crate) fn permit(
        &mut self,
        id: ConnectionId,
        client_id: &Text,
        will: Option<&Will>,
    ) -> Result<(), (Right, Text)> {
        self.grant(id, client_id);
        if let Some(access) = self.access(id)
            && !access.may_connect().is_allowed()
        {
            return Err((Right::Connect, client_id.clone()));
        }
        if !self.may_take(id, client_id) {
            return Err((Right::Session, client_id.clone()));
        }
        let Some(will) = will else { return Ok(()) };
        if is_of_server(will.topic.as_str()) || !self.may_publish(id, &will.topic) {
            return Err((Right::Will, will.topic.text().clone()));
        }
        Ok(())
    }

    /// Finds the rules of a connection's client, if its listener has a policy.
    pub(crate) fn grant(&mut self, id: ConnectionId, client_id: &Text) {
        let subject = Subject::of(client_id.clone(), self.principal(id));
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let policy = connection.policy;
        connection.access = policy.map(|policy| Box::new(self.policies.permit(policy, subject)));
    }

    /// What the client of a connection may do. `None`: everything.
    pub(crate) fn access(&mut self, id: ConnectionId) -> Option<&mut Access> {
        let granted = self.connections.get_mut(id)?.access.as_deref_mut()?;
        Some(self.policies.renew(granted))
    }

    /// The name of the policy that a connection's client is judged by, for when the connection is gone.
    pub(crate) fn policy_name(&self, id: ConnectionId) -> Option<Text> {
        let policy = self.connections.get(id)?.policy?;
        // One that is missing has a name that none has.
        Some(self.policies.name(policy).cloned().unwrap_or_default())
    }

    /// Whether the client may publish to a topic.
    pub(crate) fn may_publish(&mut self, id: ConnectionId, topic: &TopicName) -> bool {
        self.access(id)
            .is_none_or(|access| access.may_publish(topic).is_allowed())
    }

    /// Whether the client may have a subscription.
    pub(crate) fn may_subscribe(&mut self, id: ConnectionId, filter: &TopicFilter) -> bool {
        self.work.filter_checked();
        self.access(id).is_none_or(|access| may_have(access, filter))
    }

    /// Whether it is one of the topics on which a client has its responses.
    pub(crate) fn is_own_response(&self, key: SessionKey, topic: &TopicName) -> bool {
        let entry = self.sessions.get(key);
        entry.is_some_and(|entry| is_own_response_topic(topic.as_str(), &entry.client_id))
    }

    /// Whether the client may read a key.
    pub(crate) fn may_read(&mut self, id: ConnectionId, key: &[u8]) -> bool {
        self.access(id)
            .is_none_or(|access| access.may_read_key(key).is_allowed())
    }

    /// Whether the client of a session may have a message of this topic, which waited for it.
    pub(crate) fn may_still_get(&self, key: SessionKey, topic: &TopicName) -> bool {
        let connection = self
            .sessions
            .get(key)
            .and_then(|entry| self.connections.get(entry.connection));
        connection.is_none_or(|connection| self.policies.may_get(connection, topic))
    }

    /// Whether the will of a client may be published. Its connection may be gone for long.
    pub(crate) fn may_publish_will(&self, client_id: &Text, topic: &TopicName) -> bool {
        if is_of_server(topic.as_str()) {
            return false;
        }
        let terms = self.replication.session_of(client_id);
        let Some(owner) = terms.and_then(SessionTerms::owner) else {
            return true;
        };
        let Some(policy) = &owner.policy else { return true };
        let subject = Subject::of(client_id.clone(), owner.principal.as_ref());
        let policy = self.policies.named(policy);
        policy.decide(&subject, Request::Publish(topic)).is_allowed()
    }

    /// Whether the client of a connection may have the session of this client id, if there is one.
    pub(crate) fn may_take(&self, id: ConnectionId, client_id: &str) -> bool {
        let terms = self.replication.session_of(client_id);
        let owner = terms.and_then(|terms| terms.owner());
        match owner.and_then(|owner| owner.principal.as_ref()) {
            Some(owner) => self.principal(id).is_some_and(|principal| principal.is(owner)),
            None => true,
        }
    }

    /// The session is that of the connection's client from now on.
    pub(crate) fn own(&mut self, id: ConnectionId, key: SessionKey) {
        let owner = Owner::of(self.principal(id).cloned(), self.policy_name(id));
        if let Some(entry) = self.sessions.get_mut(key) {
            entry.owner = owner.map(Box::new);
        }
    }
}
