//! Actions: what the node writes for sessions that expire.

use std::collections::BTreeSet;

use super::SessionExpiry;
use crate::{Birth, ClientId, ConnectionOrder, Dot};

/// Action of the node. It makes one event, and tells [`Made`](super::ExpiringEvent::Made) then, except for
/// [`ExpiringAction::Release`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpiringAction {
    /// Ends the sessions of a client, by this node's copy as it is now.
    End {
        /// The client.
        client: ClientId,
        /// Connections whose run has ended. Their entries are removed by the same event.
        connections: BTreeSet<Dot>,
    },
    /// Makes an event that adds a [`Fact::Expiry`](crate::Fact::Expiry).
    Write {
        /// The client.
        client: ClientId,
        /// Birth that the entry names.
        birth: Birth,
        /// Connection that the entry names.
        connected: Option<ConnectionOrder>,
        /// Interval of its value.
        expiry: SessionExpiry,
        /// Events whose entries are removed.
        removes: BTreeSet<Dot>,
    },
    /// Makes an event that adds a [`Fact::ConnectionEnd`](crate::Fact::ConnectionEnd), and removes the entry
    /// of the connection. Its will is left to be published (rule `will-left`).
    LeaveWill {
        /// The client.
        client: ClientId,
        /// Event of the connection.
        connection: Dot,
        /// Birth that the will names.
        birth: Birth,
    },
    /// Asks the nodes of open connections to end them: a later connection has ended (rule
    /// `loser-released`). No event is made, and [`Made`](super::ExpiringEvent::Made) is not told.
    Release {
        /// The client.
        client: ClientId,
        /// Events of the connections.
        connections: BTreeSet<Dot>,
    },
    /// Makes an event that removes entries.
    Remove {
        /// The client.
        client: ClientId,
        /// Events whose entries are removed.
        removes: BTreeSet<Dot>,
    },
}

impl ExpiringAction {
    /// Client of the action.
    pub fn client(&self) -> &ClientId {
        match self {
            ExpiringAction::End { client, .. }
            | ExpiringAction::Write { client, .. }
            | ExpiringAction::LeaveWill { client, .. }
            | ExpiringAction::Release { client, .. }
            | ExpiringAction::Remove { client, .. } => client,
        }
    }

    /// The action is void once the client has a later entry of a session or of its expiry.
    pub fn is_of_moment(&self) -> bool {
        matches!(self, ExpiringAction::End { .. } | ExpiringAction::Write { .. })
    }
}
