//! Events: ends of connections, and what the plane and the publishing of this node report.

use std::time::Duration;

use crate::connecting::ConnectionId;
use crate::{Birth, ClientId, Dot, Slot};

/// Will of a connection of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnWill {
    /// Client of the connection.
    pub client: ClientId,
    /// Event of the connection.
    pub connection: Dot,
    /// Event of the will, behind that of the session's entry.
    pub will: Dot,
    /// Session that the will belongs to.
    pub birth: Birth,
}

/// End of a connection, as far as its will is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WillEnd {
    /// DISCONNECT with reason code 0: there is nothing to publish [MQTT-3.1.2-10].
    Dropped,
    /// Any other end: the will is left to be published [MQTT-3.1.2-8].
    Left {
        /// Time from here on until it is published; zero where the session ends with the connection.
        /// The node decides it by what the connection has agreed upon last.
        delay: Duration,
    },
}

/// Event of a connection, of the plane or of the publishing of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WillsEvent {
    /// The entry of a connection's will is made. The connection has not ended.
    Written {
        /// Connection.
        connection: ConnectionId,
        /// Its will.
        own: OwnWill,
    },
    /// A connection has ended, with a will or without.
    Ended {
        /// Connection.
        connection: ConnectionId,
        /// What becomes of its will.
        end: WillEnd,
    },
    /// The node has made the event of [`Leave`](super::WillsAction::Leave).
    EndWritten {
        /// Connection.
        connection: ConnectionId,
        /// The event.
        dot: Dot,
    },
    /// An own event is durable at all owners ([`PlaneAction::Durable`](crate::plane::PlaneAction)).
    Durable(Dot),
    /// An event has changed entries of a client
    /// ([`PlaneAction::Changed`](crate::plane::PlaneAction)).
    Changed {
        /// The client.
        client: ClientId,
    },
    /// A copy has merged ([`PlaneAction::Merged`](crate::plane::PlaneAction)), has met a hole, or all
    /// holders have answered about its holes.
    CopyChanged {
        /// Slot of the copy.
        slot: Slot,
    },
    /// This node has made a ring marker, has met another run of a node, or the members have changed.
    RingChanged,
    /// A peer routes this number.
    RoutedByPeer {
        /// The number.
        number: Dot,
    },
    /// Publishing has a number for a will
    /// ([`WillNumbered`](crate::publishing::PublishingAction::WillNumbered)).
    Numbered {
        /// Client of the will.
        client: ClientId,
        /// Event of the will.
        will: Dot,
        /// The number.
        number: Dot,
    },
    /// A will may not be published: its client has lost the right to it.
    Refused {
        /// Client of the will.
        client: ClientId,
        /// Event of the will.
        will: Dot,
    },
    /// All present nodes have a will
    /// ([`WillPublished`](crate::publishing::PublishingAction::WillPublished)).
    Published {
        /// Number of the will.
        number: Dot,
    },
}
