//! Actions: what the node does for wills.
//!
//! The node applies the actions of a call in their order. What it cannot write now it writes later.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::connecting::ConnectionId;
use crate::publishing::DueWill;
use crate::{Birth, ClientId, Dot};

/// Action of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WillsAction {
    /// Makes an event that adds a [`Fact::ConnectionEnd`](crate::Fact::ConnectionEnd), and removes the
    /// connection's entry (rule `will-left`). The node tells
    /// [`EndWritten`](super::WillsEvent::EndWritten), and [`Durable`](super::WillsEvent::Durable) later.
    Leave {
        /// Connection of this node.
        connection: ConnectionId,
        /// Its client.
        client: ClientId,
        /// Event of the connection.
        dot: Dot,
        /// Birth that the will names.
        birth: Birth,
        /// Delay of the will, as the end of the connection has decided it.
        delay: Duration,
    },
    /// The will of a connection does not hold back its release any more (rule `will-before-released`).
    /// The node tells [`Closed`](crate::connecting::ConnectionEvent::Closed) when all else that the
    /// connection leaves is durable, too.
    Release {
        /// Connection of this node.
        connection: ConnectionId,
        /// Event of a will that is not to be published: the event that removes the connection's entry
        /// removes it as well.
        removes: Option<Dot>,
    },
    /// Publishes a will: the node tells [`Publishing`](crate::Publishing).
    Publish(DueWill),
    /// Gives up the number of a will: the node tells [`Publishing`](crate::Publishing).
    GiveUp {
        /// The number.
        number: Dot,
    },
    /// Makes an event that removes a will that was published, with all that stands beside it and with
    /// its connection.
    Remove {
        /// Client of the will.
        client: ClientId,
        /// Events whose entries are removed.
        removes: BTreeSet<Dot>,
    },
    /// Makes an event that adds the entry of a will anew, and removes the older one with all that
    /// stands beside it (rule `will-armed`).
    Arm {
        /// Client of the will.
        client: ClientId,
        /// Event of the will whose terms and value the new entry has.
        will: Dot,
        /// Events whose entries are removed.
        removes: BTreeSet<Dot>,
    },
}
