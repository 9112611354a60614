//! Message with a number, on its way to all nodes.

use std::collections::BTreeSet;

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::action::StoredAt;
use super::packet_use::{ContentId, PacketId};
use crate::connecting::ConnectionId;
use crate::{ClientId, Dot};

/// Message with a number, until all nodes have it.
#[derive(Debug)]
pub(super) struct Message<M> {
    pub(super) client: ClientId,
    pub(super) content: ContentId,
    pub(super) body: M,
    /// Clock that an earlier entry has given to the message. None until the first entry is made.
    pub(super) clock: Option<Hlc>,
    pub(super) origin: Origin,
    pub(super) phase: Phase,
}

/// Origin of a message: it decides who has to have the number before the route, and what follows the
/// route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// PUBLISH of a client.
    Packet {
        packet_id: PacketId,
        /// Connection that gets PUBREC. None: it has ended while the message was on its way.
        connection: Option<ConnectionId>,
    },
    /// Will.
    Will {
        /// Event of the will.
        will: Dot,
    },
}

/// Phase of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The event of the entry that names its number is being made.
    Writing {
        /// Connection that has asked for the event. None: it is of a will.
        by: Option<ConnectionId>,
        /// Ring that was in force when the event was asked for.
        marker: u64,
    },
    /// Some node that has to have the entry may lack it.
    Storing {
        /// Event of the entry.
        entry: Dot,
    },
    /// All that have to have the entry by the ring in force have it. It waits for lower numbers and for
    /// routes.
    Ready {
        /// Event of the entry.
        entry: Dot,
    },
    /// It is routed.
    OnTheWay {
        /// Event of the entry.
        entry: Dot,
        /// Nodes of the ring in force that have not confirmed it.
        missing: BTreeSet<NodeId>,
        /// Some node of the ring in force may lack the entry of a will: the message is sent behind it.
        is_held: bool,
    },
}

impl<M> Message<M> {
    /// Puts another connection into the place of the one that gets PUBREC; gives the one before.
    pub(super) fn replace_connection(&mut self, new: Option<ConnectionId>) -> Option<ConnectionId> {
        match &mut self.origin {
            Origin::Packet { connection, .. } => std::mem::replace(connection, new),
            Origin::Will { .. } => None,
        }
    }

    /// The message uses this packet id of this client.
    pub(super) fn is_of_packet(&self, of: &ClientId, id: PacketId) -> bool {
        let is_of_id = matches!(self.origin, Origin::Packet { packet_id, .. } if packet_id == id);
        is_of_id && self.client == *of
    }

    /// Nodes that have to have the entry of the number before the message is routed (rules
    /// `received-first` and `will-number-first`).
    pub(super) fn stored_at(&self) -> StoredAt {
        match self.origin {
            Origin::Packet { .. } => StoredAt::Owners,
            Origin::Will { .. } => StoredAt::AllNodes,
        }
    }

    /// Event of the entry, once the message waits for nothing but its turn.
    pub(super) fn ready_entry(&self) -> Option<Dot> {
        match self.phase {
            Phase::Ready { entry } => Some(entry),
            Phase::Writing { .. } | Phase::Storing { .. } | Phase::OnTheWay { .. } => None,
        }
    }

    pub(super) fn is_on_the_way(&self) -> bool {
        matches!(self.phase, Phase::OnTheWay { .. })
    }
}
