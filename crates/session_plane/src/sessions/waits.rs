//! Waits: events of connections that are not durable yet.

use std::collections::BTreeMap;

use crate::Dot;
use crate::connecting::ConnectionId;
use crate::publishing::PacketId;
use crate::stream::GivingId;

/// What waits for events, and for givings.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Events that are not durable, with the connection that they are of.
    events: BTreeMap<Dot, ConnectionId>,
    /// Session's entries on which a claim waits.
    sessions: BTreeMap<Dot, SessionWait>,
    /// The same, where the entry was made by an earlier ring.
    givings: BTreeMap<GivingId, SessionWait>,
    /// Entries of packet ids on which their numbers wait.
    stored: BTreeMap<Dot, StoredWait>,
    /// The same, where the ring has changed since.
    stored_givings: BTreeMap<GivingId, StoredWait>,
    /// Events that free packet ids.
    freed: BTreeMap<Dot, FreedWait>,
}

/// Number that waits to be routed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredWait {
    pub(super) number: Dot,
    /// Event of the entry that names it.
    pub(super) entry: Dot,
    /// Marker of the ring whose owners are to have the entry.
    pub(super) marker: u64,
}

/// Packet id that is free once an event is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FreedWait {
    pub(super) connection: ConnectionId,
    pub(super) packet_id: PacketId,
}

/// Claim that waits for its session's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionWait {
    pub(super) connection: ConnectionId,
    pub(super) round: u64,
}

/// What ends with an event that has become durable.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    /// Connection that the event is of.
    pub(super) connection: Option<ConnectionId>,
    pub(super) session: Option<SessionWait>,
    pub(super) stored: Option<StoredWait>,
    pub(super) freed: Option<FreedWait>,
}

/// What ends with a giving.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndedGiving {
    pub(super) session: Option<SessionWait>,
    pub(super) stored: Option<StoredWait>,
}

impl Waits {
    pub(super) fn add_event(&mut self, dot: Dot, connection: ConnectionId) {
        self.events.insert(dot, connection);
    }

    /// A claim waits for an entry. One that has waited for it before is void.
    pub(super) fn add_session(&mut self, entry: Dot, wait: SessionWait) {
        self.sessions.insert(entry, wait);
    }

    pub(super) fn add_giving(&mut self, giving: GivingId, wait: SessionWait) {
        self.givings.insert(giving, wait);
    }

    pub(super) fn add_stored(&mut self, wait: StoredWait) {
        self.stored.insert(wait.entry, wait);
    }

    pub(super) fn add_stored_giving(&mut self, giving: GivingId, wait: StoredWait) {
        self.stored_givings.insert(giving, wait);
    }

    pub(super) fn add_freed(&mut self, event: Dot, wait: FreedWait) {
        self.freed.insert(event, wait);
    }

    /// The event is not durable.
    pub(super) fn has_event(&self, dot: Dot) -> bool {
        self.events.contains_key(&dot)
    }

    pub(super) fn end_event(&mut self, dot: Dot) -> Ended {
        Ended {
            connection: self.events.remove(&dot),
            session: self.sessions.remove(&dot),
            stored: self.stored.remove(&dot),
            freed: self.freed.remove(&dot),
        }
    }

    pub(super) fn end_giving(&mut self, giving: GivingId) -> EndedGiving {
        EndedGiving {
            session: self.givings.remove(&giving),
            stored: self.stored_givings.remove(&giving),
        }
    }
}
