//! Who asks.

use protocol::Text;

use crate::principal::Attributes;

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
