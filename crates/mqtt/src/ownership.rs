//! Owners of sessions.
//!
//! A session belongs to the principal under which its client connected, for as long as it lasts: a client id is a name that
//! anybody can use, and what waits in the session is for who made it. A session of nobody is whose client comes first: it is from
//! before clients were asked who they are, or of a client that need not say it and has no claim against one that did.
//!
//! What is stored with the session is also what its will is judged by when the connection is gone.

use protocol::Text;

use crate::memory::footprint::block;
use crate::principal::Principal;

/// Owner of a session, and the rules by which it may do what it does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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
    pub fn memory(&self) -> u64 {
        block(size_of::<Self>()) + self.principal.as_ref().map_or(0, Principal::memory)
    }
}
