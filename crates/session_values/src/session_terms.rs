//! Session: how long it lasts without a connection, and whose it is.
//!
//! ```text
//! Session Expiry Interval in seconds (4), 0 or 1 owner (1), owner
//! ```
//!
//! The owner has the form of [`mqtt::records::session`]. That form is read also with attributes in
//! another order; here it is refused.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use mqtt::ownership::Owner;
use mqtt::principal::Principal;
use mqtt::records::RecordError;
use mqtt::records::encoding::Reader;
use mqtt::records::session;
use protocol::Text;

use crate::fields::{put_flag, take_flag};
use crate::memory;

/// Value of the entry of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionTerms {
    expiry: u32,
    owner: Option<Arc<Owner>>,
}

impl SessionTerms {
    /// Session with this Session Expiry Interval in seconds, of this owner. `u32::MAX`: it never
    /// expires.
    pub fn new(expiry: u32, owner: Option<Owner>) -> SessionTerms {
        let owner = owner.and_then(|owner| Owner::of(owner.principal, owner.policy));
        let owner = owner.map(Arc::new);
        SessionTerms { expiry, owner }
    }

    /// Session Expiry Interval in seconds. `u32::MAX`: the session never expires.
    pub fn expiry(&self) -> u32 {
        self.expiry
    }

    /// Owner. None: the session is of nobody.
    pub fn owner(&self) -> Option<&Owner> {
        self.owner.as_deref()
    }

    pub(crate) fn memory(&self) -> usize {
        self.owner().map_or(0, owner_memory)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.expiry);
        put_flag(out, self.owner.is_some());
        if let Some(owner) = self.owner() {
            session::put_owner(out, owner);
        }
    }

    /// Reads terms, which end the value.
    pub(crate) fn take(reader: &mut Reader) -> Result<SessionTerms, RecordError> {
        let expiry = reader.u32()?;
        let has_owner = take_flag(reader)?;
        let owner = has_owner.then(|| take_owner(reader)).transpose()?;
        Ok(SessionTerms::new(expiry, owner))
    }
}

/// Reads an owner in its one encoding.
fn take_owner(reader: &mut Reader) -> Result<Owner, RecordError> {
    let encoded = Bytes::copy_from_slice(&reader.rest());
    let owner = session::owner_of(encoded.clone())?;
    let mut written = Vec::with_capacity(encoded.len());
    session::put_owner(&mut written, &owner);
    if written == encoded {
        Ok(owner)
    } else {
        Err(reader.damaged("an owner is written in another way"))
    }
}

fn owner_memory(owner: &Owner) -> usize {
    let policy = owner.policy.as_ref().map_or(0, |policy| policy.len());
    memory::OWNER + policy + owner.principal.as_ref().map_or(0, principal_memory)
}

fn principal_memory(principal: &Principal) -> usize {
    let attribute = |(name, value): (&Text, &Text)| memory::ATTRIBUTE + name.len() + value.len();
    let attributes: usize = principal.attributes.iter().map(attribute).sum();
    principal.method.len() + principal.name.len() + attributes
}
