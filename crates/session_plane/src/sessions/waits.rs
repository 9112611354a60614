//! Waits: events of connections that are not durable yet.

use std::collections::BTreeMap;

use crate::Dot;
use crate::connecting::ConnectionId;
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

    /// The event is not durable.
    pub(super) fn has_event(&self, dot: Dot) -> bool {
        self.events.contains_key(&dot)
    }

    pub(super) fn end_event(&mut self, dot: Dot) -> Ended {
        Ended {
            connection: self.events.remove(&dot),
            session: self.sessions.remove(&dot),
        }
    }

    pub(super) fn end_giving(&mut self, giving: GivingId) -> Option<SessionWait> {
        self.givings.remove(&giving)
    }
}
