//! Claims: connections at the session plane, from CONNECT until all that they leave is durable.
//!
//! ```text
//!  CONNECT, permitted ---> claim ---> Accept: the session is the connection's, CONNACK
//!                            |
//!                            '------> Refuse: CONNACK with a reason code
//! ```

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use hashbrown::HashMap;
use mqtt::ids::ConnectionId;
use mqtt::memory::Held;
use protocol::Text;
use protocol::packet::{ConnAckProperties, Connect};
use session_plane::connecting::ConnectionId as ClaimId;

/// CONNECT whose session is claimed.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) id: ClaimId,
    pub(crate) connect: Box<Connect>,
    pub(crate) client_id: Text,
    pub(crate) terms: Terms,
    /// When it began.
    pub(crate) since: Instant,
    /// Memory of the CONNECT in the account.
    _held: Held,
}

impl Claim {
    pub(crate) fn new(
        id: ClaimId,
        connect: Box<Connect>,
        (client_id, terms): (Text, Terms),
        (since, held): (Instant, Held),
    ) -> Self {
        Self {
            id,
            connect,
            client_id,
            terms,
            since,
            _held: held,
        }
    }
}

/// Terms on which a client is let in.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// Session Expiry Interval in seconds.
    pub(crate) expiry: u32,
    /// Keep Alive in seconds; 0 is none.
    pub(crate) keep_alive: u16,
    /// Properties of CONNACK.
    pub(crate) properties: ConnAckProperties,
}

/// Connections by what the session plane calls them, and those that wait for their sessions.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    connections: HashMap<ClaimId, ConnectionId, foldhash::fast::FixedState>,
    waiting: BTreeMap<ConnectionId, Claim>,
}

impl Claims {
    /// A session is being claimed.
    pub(crate) fn begin(&mut self, id: ConnectionId, claim: Claim) {
        self.connections.insert(claim.id, id);
        self.waiting.insert(id, claim);
    }

    /// Connection, unless it has ended.
    pub(crate) fn connection(&self, claim: ClaimId) -> Option<ConnectionId> {
        self.connections.get(&claim).copied()
    }

    /// Claim of a connection that waits for its session.
    pub(crate) fn waiting(&self, id: ConnectionId) -> Option<&Claim> {
        self.waiting.get(&id)
    }

    /// Takes a claim that has come to its end.
    pub(crate) fn take(&mut self, id: ConnectionId) -> Option<Claim> {
        self.waiting.remove(&id)
    }

    /// The connection has ended: nothing is asked of it any more.
    pub(crate) fn end(&mut self, claim: ClaimId) {
        self.connections.remove(&claim);
    }

    /// All that a connection leaves is durable.
    pub(crate) fn forget(&mut self, claim: ClaimId) {
        self.connections.remove(&claim);
    }
}

/// Last word of an authentication, for the client.
pub(crate) type Proof = Option<Bytes>;
