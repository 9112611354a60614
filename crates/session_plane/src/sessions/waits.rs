//! Waits: events of connections that are not durable yet.

use std::collections::BTreeMap;

use super::moving::MoveWait;
use crate::connecting::ConnectionId;
use crate::groups::GroupPlace;
use crate::publishing::{PacketId, StoredAt};
use crate::stream::GivingId;
use crate::{Dot, GroupId};

/// What waits for events, and for givings.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Events that are not durable, with the connection that they are of.
    events: BTreeMap<Dot, Option<ConnectionId>>,
    /// Entries, of sessions and of wills, on which a claim waits.
    sessions: BTreeMap<Dot, SessionWait>,
    /// The same, where the entry was made by an earlier ring.
    givings: BTreeMap<GivingId, SessionWait>,
    /// Entries on which each of these claims waits yet.
    entries: BTreeMap<SessionWait, usize>,
    /// Entries of packet ids on which their numbers wait.
    stored: BTreeMap<Dot, StoredWait>,
    /// The same, where the ring has changed since.
    stored_givings: BTreeMap<GivingId, StoredWait>,
    /// Events that free packet ids.
    freed: BTreeMap<Dot, FreedWait>,
    /// Events that remove messages.
    removed: BTreeMap<Dot, RemovedWait>,
    /// Events of shared groups.
    groups: BTreeMap<Dot, GroupWait>,
    /// Durable events that some present node has not confirmed, by their numbers.
    unconfirmed: BTreeMap<u64, AllNodesWait>,
}

/// What waits for an event of a shared group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GroupWait {
    /// SUBACK.
    Joined {
        connection: ConnectionId,
        group: GroupId,
    },
    /// UNSUBACK.
    Left {
        connection: ConnectionId,
        group: GroupId,
    },
    AllNodes(AllNodesWait),
}

/// What waits for all present nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AllNodesWait {
    /// Number of a will.
    Number(StoredWait),
    /// Assignment of a message, at the primary owner of the part.
    Assignment { place: GroupPlace, message: Dot },
    /// Acknowledgement of a message, at the node of the member's connection.
    Acknowledgement {
        connection: ConnectionId,
        group: GroupId,
        message: Dot,
    },
    /// Move of a message into the queue of a session, at the node of its connection.
    Move(MoveWait),
}

/// Number that waits to be routed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredWait {
    pub(super) number: Dot,
    /// Event of the entry that names it.
    pub(super) entry: Dot,
    /// Marker of the ring whose owners are to have the entry.
    pub(super) marker: u64,
    /// All present nodes are to have it.
    pub(super) at: StoredAt,
}

/// Packet id that is free once an event is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FreedWait {
    pub(super) connection: ConnectionId,
    pub(super) packet_id: PacketId,
}

/// Message that no feed passes on any more once an event is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RemovedWait {
    pub(super) connection: ConnectionId,
    pub(super) message: Dot,
}

/// Claim that waits for its session's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SessionWait {
    pub(super) connection: ConnectionId,
    pub(super) round: u64,
}

/// What ends with an event that has become durable.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    /// Connection that the event is of.
    pub(super) connection: Option<ConnectionId>,
    pub(super) session: Option<SessionWait>,
    pub(super) stored: Option<StoredWait>,
    pub(super) freed: Option<FreedWait>,
    pub(super) removed: Option<RemovedWait>,
    pub(super) group: Option<GroupWait>,
}

/// What ends with a giving.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndedGiving {
    pub(super) session: Option<SessionWait>,
    pub(super) stored: Option<StoredWait>,
}

impl Waits {
    pub(super) fn add_event(&mut self, dot: Dot, connection: Option<ConnectionId>) {
        self.events.insert(dot, connection);
    }

    /// A claim waits for an entry. One that has waited for it before is void.
    pub(super) fn add_session(&mut self, entry: Dot, wait: SessionWait) {
        if let Some(before) = self.sessions.insert(entry, wait) {
            self.entries.remove(&before);
        }
        *self.entries.entry(wait).or_default() += 1;
    }

    pub(super) fn add_giving(&mut self, giving: GivingId, wait: SessionWait) {
        self.givings.insert(giving, wait);
        *self.entries.entry(wait).or_default() += 1;
    }

    /// One of the entries of a claim is durable. Gives the claim when it waits for no other.
    fn end_entry(&mut self, wait: SessionWait) -> Option<SessionWait> {
        let left = self.entries.get_mut(&wait)?;
        *left -= 1;
        let is_last = *left == 0;
        if is_last {
            self.entries.remove(&wait);
        }
        is_last.then_some(wait)
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

    pub(super) fn add_removed(&mut self, event: Dot, wait: RemovedWait) {
        self.removed.insert(event, wait);
    }

    pub(super) fn add_group(&mut self, event: Dot, wait: GroupWait) {
        self.groups.insert(event, wait);
    }

    /// A durable event of this run waits for all present nodes.
    pub(super) fn add_unconfirmed(&mut self, event: Dot, wait: AllNodesWait) {
        self.unconfirmed.insert(event.number, wait);
    }

    /// Takes out what waits for an event up to `number`.
    pub(super) fn take_confirmed(&mut self, number: u64) -> BTreeMap<u64, AllNodesWait> {
        let later = self.unconfirmed.split_off(&(number + 1));
        std::mem::replace(&mut self.unconfirmed, later)
    }

    /// The event is not durable.
    pub(super) fn has_event(&self, dot: Dot) -> bool {
        self.events.contains_key(&dot)
    }

    pub(super) fn end_event(&mut self, dot: Dot) -> Ended {
        let session = self.sessions.remove(&dot);
        Ended {
            connection: self.events.remove(&dot).flatten(),
            session: session.and_then(|wait| self.end_entry(wait)),
            stored: self.stored.remove(&dot),
            freed: self.freed.remove(&dot),
            removed: self.removed.remove(&dot),
            group: self.groups.remove(&dot),
        }
    }

    pub(super) fn end_giving(&mut self, giving: GivingId) -> EndedGiving {
        let session = self.givings.remove(&giving);
        EndedGiving {
            session: session.and_then(|wait| self.end_entry(wait)),
            stored: self.stored_givings.remove(&giving),
        }
    }
}
