//! Whom a session belongs to.
//!
//! A session belongs to the principal under which its client connected, for as long as it lasts: a client id is a name that
//! anybody can use, and what waits in the session is for who made it. A session of nobody is whose client comes first: it is from
//! before clients were asked who they are, or of a client that need not say it and has no claim against one that did.
//!
//! What is stored with the session is also what its will is judged by when the connection is gone.

use protocol::Text;

use crate::ids::{ConnectionId, SessionKey};
use crate::memory::footprint::block;
use crate::node::Node;
use crate::principal::Principal;

/// Whom a session belongs to, and by which rules it may do what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// `None`: its client did not have to say who it is.
    pub principal: Option<Principal>,
    /// The name of its listener's policy; `None`: everything is allowed there.
    pub policy: Option<Text>,
}

impl Owner {
    /// `None` if there is nothing to say.
    pub fn of(principal: Option<Principal>, policy: Option<Text>) -> Option<Self> {
        (principal.is_some() || policy.is_some()).then_some(Self { principal, policy })
    }

    /// Its memory, with that of the struct.
    pub(crate) fn memory(&self) -> u64 {
        block(size_of::<Self>()) + self.principal.as_ref().map_or(0, Principal::memory)
    }
}

impl Node {
    /// Whether the client of a connection may have the session of this client id, if there is one.
    pub(crate) fn may_take(&self, id: ConnectionId, client_id: &str) -> bool {
        let entry = self
            .sessions
            .find(client_id)
            .and_then(|key| self.sessions.get(key));
        let owner = entry.and_then(|entry| entry.owner.as_deref());
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
