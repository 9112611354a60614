//! Actions: what the node does after a call of the plane.

use std::collections::BTreeSet;

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::{ClaimedMessage, EventContent};
use crate::membership::GiveUpReason;
use crate::stream::GivingId;
use crate::wire::ReplicationMessage;
use crate::{ClientId, Dot, EntryId, GarbagePlace, PresentNode, Run, Slot};

/// Message between two planes.
pub type PlaneMessage<V, M> = ReplicationMessage<V, M, EventContent<V, M>>;

/// Action of a plane, for the node to apply in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaneAction<V, M> {
    /// Sends a message over the connection to a peer, behind what went before. It is dropped where
    /// there is no connection.
    Send {
        /// Receiver.
        to: NodeId,
        /// Message.
        message: PlaneMessage<V, M>,
    },
    /// An own change is durable at all nodes that need it: what waits for it is acknowledged.
    Durable(Dot),
    /// All nodes that [`Plane::give`](super::Plane::give) gave an entry to have it on their disks, or
    /// were given up.
    Given(GivingId),
    /// A routed number is on the disk of this node: it confirms the number to the node that routes it,
    /// or to itself.
    RouteTaken {
        /// Node that routes it.
        to: NodeId,
        /// QoS 2 number.
        number: Dot,
        /// Ring marker that the route named.
        marker: u64,
    },
    /// A message was queued for a session of a copy of this node.
    Queued(ClaimedMessage),
    /// A message is for transient sessions of this node. It is told once.
    Transient(TransientMessage<M>),
    /// A message was taken for a copy of this node and is pending: the copy has a hole, or is not
    /// merged.
    Pended {
        /// Slot of the copy.
        slot: Slot,
        /// Event of the PUBLISH, or its QoS 2 number.
        message: Dot,
    },
    /// An event has changed a session in a copy of this node.
    Changed(ChangedSession),
    /// Entries of a copy of this node were of no use, and are gone without an event.
    Dropped {
        /// Where they were.
        place: GarbagePlace,
        /// The entries.
        entries: BTreeSet<EntryId>,
    },
    /// A copy has merged an answer. Sessions are looked at anew for connections that lost.
    Merged {
        /// Slot of the copy.
        slot: Slot,
    },
    /// This run routes by another view from here on.
    RingChanged {
        /// Number of the ring marker.
        marker: u64,
        /// Nodes that are present, this one among them.
        nodes: BTreeSet<NodeId>,
    },
    /// A peer is present from here on.
    Met(PresentNode),
    /// A peer is given up; the connection to it is to be closed.
    GaveUp {
        /// Run that was present.
        run: Run,
        /// Reason, for the log.
        reason: GiveUpReason,
    },
    /// The run cannot go on: the node closes all connections, and begins another run with what is
    /// on its disk.
    EndRun(RunEnd),
}

/// Message for transient sessions of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransientMessage<M> {
    /// Event of the PUBLISH, or its QoS 2 number.
    pub message: Dot,
    /// Its clock.
    pub clock: Hlc,
    /// Its content.
    pub content: M,
}

/// Session that an event has changed, in one copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedSession {
    /// Slot of the copy.
    pub slot: Slot,
    /// Client of the session.
    pub client: ClientId,
    /// The event.
    pub by: Dot,
    /// What the event removes.
    pub removed: Vec<RemovedEntry>,
    /// Message that a packet id was given to, where the event adds a delivery.
    pub delivered: Option<Dot>,
    /// Clock of the event, where it adds a message for this session alone. None where the copy has decided
    /// upon the event before.
    pub queued: Option<Hlc>,
}

/// Entry that an event removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovedEntry {
    /// Message that was in the queue, or pending.
    Message {
        /// Its event.
        dot: Dot,
        /// Its clock.
        clock: Hlc,
    },
    /// Entry of another kind, or one that the copy lacks.
    Other(Dot),
}

impl RemovedEntry {
    /// Event of the entry.
    pub fn dot(self) -> Dot {
        match self {
            RemovedEntry::Message { dot, .. } | RemovedEntry::Other(dot) => dot,
        }
    }
}

/// Reason for which a run ends itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunEnd {
    /// Own events find no owners however often the ring changes.
    #[error("the events of {rings} changes of the ring find no owner")]
    NoOwners {
        /// Rings with events that have too few copies.
        rings: usize,
    },
    /// A set of events would be too long to be exact.
    #[error("what this node has of other nodes is too scattered to be exact")]
    TooScattered,
}
