//! Who asks.

use protocol::Text;

use crate::principal::{Attributes, Principal};

/// A client, as the rules of a policy see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// What it calls itself, or what the server has called it.
    pub client_id: Text,
    /// The name of its principal, if an authentication has found one. Never what it merely says of itself.
    pub username: Option<Text>,
    /// Those of its principal.
    pub attributes: Attributes,
}

impl Subject {
    /// A client with the principal that an authentication has found, if there was one.
    pub fn of(client_id: Text, principal: Option<&Principal>) -> Self {
        Self {
            client_id,
            username: principal.map(|principal| principal.name.clone()),
            attributes: principal
                .map(|principal| principal.attributes.clone())
                .unwrap_or_default(),
        }
    }
}
