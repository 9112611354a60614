//! Policies in force: what the clients of this node may do.
//!
//! A listener has a policy or none. Without one its clients may do everything, except what nobody may: publish where the server
//! speaks itself. A connection has an [`Access`] from its CONNECT on; it is made anew when it is asked for the first time after the
//! policies have changed, so no decision is by an old one. What a client already has then is gone through in `broker/src/withdrawal.rs`.
//!
//! Invariant: a policy that is missing allows nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::state_store::topics::{key_of_notification, notified_key};
use protocol::state_store::{INVOKE_TOPIC, is_own_response_topic, is_reserved};
use protocol::{Text, TopicFilter, TopicName};

use crate::authorization::{Access, Policy, Request, Rules, Subject};
use crate::connection::Connection;
use crate::ids::ConnectionId;
use crate::ownership::Owner;

/// Which of the [`Policies`] a listener has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyId(pub u16);

/// The policies of all listeners; the place of each is its [`PolicyId`].
#[derive(Debug, Clone, Default)]
pub struct Policies(Vec<NamedPolicy>);

/// A policy with the name that sessions remember it by.
#[derive(Debug, Clone)]
pub struct NamedPolicy {
    /// The same after a restart.
    pub name: Text,
    /// What it allows.
    pub policy: Arc<Policy>,
}

/// The policies, and how far what was allowed by those before has been gone through.
#[derive(Debug)]
pub struct PoliciesInForce {
    policies: Policies,
    /// Stands for one that is missing.
    nothing: Arc<Policy>,
    generation: u32,
    /// Whether any policy lets anybody hear the notifications of others.
    pub has_auditors: bool,
    /// Connections that may have what they may not have any more.
    pub due: VecDeque<ConnectionId>,
}

/// What one connection may do.
#[derive(Debug)]
pub struct ConnectionAccess {
    policy: PolicyId,
    generation: u32,
    /// By the policies of which generation what the client has was gone through.
    looked_at: u32,
    access: Access,
}

impl Policies {
    /// In the order of their ids.
    pub fn new(policies: Vec<NamedPolicy>) -> Self {
        Self(policies)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn audit(&self) -> bool {
        self.0.iter().any(|named| named.policy.audits())
    }
}

impl ConnectionAccess {
    /// As of the policies by which it was last renewed, which the caller does right before.
    pub fn access(&mut self) -> &mut Access {
        &mut self.access
    }
}

impl PoliciesInForce {
    /// The first policies of a node.
    pub fn new(policies: Policies) -> Self {
        let nothing = Policy::new(Rules::default()).expect("no rule has a mistake");
        Self {
            has_auditors: policies.audit(),
            policies,
            nothing: Arc::new(nothing),
            generation: 0,
            due: VecDeque::new(),
        }
    }

    /// From now on these decide.
    pub fn replace(&mut self, policies: Policies) {
        self.has_auditors = policies.audit();
        self.policies = policies;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Whether a connection may have what its client may not have any more: nothing is sent to it until that is known.
    pub fn is_due(&self, connection: &Connection) -> bool {
        let granted = connection.access.as_deref();
        granted.is_some_and(|granted| granted.looked_at != self.generation)
    }

    /// What a connection's client has is gone through now.
    pub fn look_at(&self, connection: &mut Connection) {
        if let Some(granted) = &mut connection.access {
            granted.looked_at = self.generation;
        }
    }

    /// Access by the policies in force; what was granted by those before is made anew.
    pub fn renew<'a>(&self, granted: &'a mut ConnectionAccess) -> &'a mut Access {
        if granted.generation != self.generation {
            let subject = granted.access.subject().clone();
            *granted = ConnectionAccess {
                looked_at: granted.looked_at,
                ..self.permit(granted.policy, subject)
            };
        }
        &mut granted.access
    }

    /// Grants a client what a policy allows it.
    pub fn permit(&self, policy: PolicyId, subject: Subject) -> ConnectionAccess {
        let known = self.policies.0.get(usize::from(policy.0));
        let rules = known.map_or(&self.nothing, |known| &known.policy);
        ConnectionAccess {
            policy,
            generation: self.generation,
            looked_at: self.generation,
            access: Access::new(Arc::clone(rules), subject),
        }
    }

    /// Name of a policy, if there is one with this id.
    pub fn name(&self, policy: PolicyId) -> Option<&Text> {
        self.policies
            .0
            .get(usize::from(policy.0))
            .map(|known| &known.name)
    }

    /// The id of a policy by its name; of none that there is, if it has another name.
    pub fn id_of(&self, name: &str) -> PolicyId {
        let known = self.policies.0.iter().position(|known| &*known.name == name);
        let id = known.and_then(|known| u16::try_from(known).ok());
        PolicyId(id.unwrap_or(u16::MAX))
    }

    /// Policy of this name; one that allows nothing if there is none.
    pub fn named(&self, name: &str) -> &Policy {
        let known = self.policies.0.iter().find(|known| &*known.name == name);
        known.map_or(&self.nothing, |known| &known.policy)
    }

    /// Whether a session may get what the state store answers to another. Without a policy it has to name the topic: `is_exact`.
    pub fn may_overhear(
        &self,
        owner: Option<&Owner>,
        connection: Option<&Connection>,
        topic: &TopicName,
        is_exact: bool,
    ) -> bool {
        let Some(connection) = connection else {
            return is_exact && owner.is_none_or(|owner| owner.policy.is_none());
        };
        self.by_present_rules(connection, is_exact, |access| {
            access.may_overhear(topic).is_allowed()
        })
    }

    /// Whether the client of a connection may hear what others are notified of a key. Without a policy nobody may.
    pub fn may_audit(&self, connection: &Connection, key: &[u8]) -> bool {
        self.by_present_rules(connection, false, |access| access.may_audit_key(key).is_allowed())
    }

    /// Whether the client of a connection may have a message that waited for it.
    pub fn may_get(&self, connection: &Connection, topic: &TopicName) -> bool {
        self.by_present_rules(connection, true, |access| may_get(access, topic))
    }

    /// Whether `$high_priority` counts in messages of the client of a connection.
    pub fn may_hurry(&self, connection: &Connection, topic: &TopicName) -> bool {
        self.by_present_rules(connection, true, |access| access.may_hurry(topic).is_allowed())
    }

    /// Decides by the policies in force, also for a connection that was granted something by those before. `without`: where
    /// its listener has no policy.
    fn by_present_rules(
        &self,
        connection: &Connection,
        without: bool,
        decide: impl FnOnce(&Access) -> bool,
    ) -> bool {
        match connection.access.as_deref() {
            None => without,
            Some(granted) if granted.generation == self.generation => decide(&granted.access),
            Some(granted) => {
                let renewed = self.permit(granted.policy, granted.access.subject().clone());
                decide(&renewed.access)
            }
        }
    }
}

/// Whether a client may have a subscription to this filter.
///
/// What reaches nobody through a subscription can be subscribed to by anybody: shipped clients do so. And every client has its own
/// response topics of the state store.
pub fn may_have(access: &Access, filter: &TopicFilter) -> bool {
    let text = filter.as_str();
    text == INVOKE_TOPIC
        || is_reserved(text)
        || access.may_subscribe(filter).is_allowed()
        || is_own_response_topic(text, &access.subject().client_id)
}

/// Whether a client may have a message of this topic that is already in its queue.
pub fn may_get(access: &Access, topic: &TopicName) -> bool {
    if is_reserved(topic.as_str()) {
        let own = notified_key(topic.as_str(), &access.subject().client_id);
        if own.is_some_and(|key| access.decide(Request::ReadKey(&key)).is_allowed()) {
            return true;
        }
        let key = key_of_notification(topic.as_str());
        return key.is_some_and(|key| access.may_audit_key(&key).is_allowed());
    }
    // A topic is a filter that nothing else matches.
    TopicFilter::parse(topic.text().clone()).is_ok_and(|filter| may_have(access, &filter))
}

/// Topics that only the server publishes to, or only the state store receives from.
pub fn is_of_server(topic: &str) -> bool {
    topic == INVOKE_TOPIC || is_reserved(topic) || is_servers_own(topic)
}

/// What only the server publishes below `$SYS`: everything but the states of bridges.
pub fn is_servers_own(topic: &str) -> bool {
    is_below_sys(topic) && !is_state_of_bridge(topic)
}

/// Where another server's bridge says whether it is connected: Mosquitto has a retained will there and publishes when it has connected.
fn is_state_of_bridge(topic: &str) -> bool {
    let name = topic
        .strip_prefix("$SYS/broker/connection/")
        .and_then(|rest| rest.strip_suffix("/state"));
    name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

/// `$SYS` and all topics below it.
pub fn is_below_sys(topic: &str) -> bool {
    topic
        .strip_prefix("$SYS")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
