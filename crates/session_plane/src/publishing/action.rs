//! Actions: what the node does for QoS 2 messages of its clients.
//!
//! The node applies the actions of a call in their order.

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::packet_use::{NumberedMessage, PacketId, PacketUse};
use crate::connecting::ConnectionId;
use crate::{ClientId, Dot};

/// Action of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishingAction {
    /// Makes an event that adds the entry of a packet id, and removes older ones. The node tells
    /// [`NumberWritten`](super::PublishingEvent::NumberWritten), or
    /// [`FreeWritten`](super::PublishingEvent::FreeWritten) if the id is free.
    Write {
        /// Connection that uses the packet id.
        connection: ConnectionId,
        /// Its client.
        client: ClientId,
        /// Value of the entry.
        packet_use: PacketUse,
        /// Events of older entries of the packet id.
        removes: Vec<Dot>,
    },
    /// Sends the entry of a packet id again under its old dot, to all owners of the ring in force
    /// (rule `received-to-new-owners`).
    GiveAgain {
        /// Client of the packet id.
        client: ClientId,
        /// Event of the entry.
        entry: Dot,
    },
    /// Waits until all owners of the client's slot, by the ring of the marker, have the entry durably.
    /// Then the node tells [`Stored`](super::PublishingEvent::Stored). A wait for an earlier marker is
    /// void.
    AwaitStored {
        /// Client of the packet id.
        client: ClientId,
        /// Number that the entry names.
        number: Dot,
        /// Event of the entry.
        entry: Dot,
        /// Marker of the ring in force.
        marker: u64,
    },
    /// Sends a message under its number; to this node itself, too. Each node covers the number for
    /// the slots that it owns by the marker's ring, and takes the message where it matches. It
    /// confirms with number and marker. The message between nodes is [`Route`](super::Route).
    Route {
        /// Message.
        message: NumberedMessage,
        /// Clock of the message.
        clock: Hlc,
        /// Nodes that have not confirmed it, in ascending order.
        to: Vec<NodeId>,
        /// Marker of the ring in force.
        marker: u64,
    },
    /// Sends PUBREC: the message is at all nodes.
    SendPubrec {
        /// Connection.
        connection: ConnectionId,
        /// Packet id.
        packet_id: PacketId,
    },
    /// Sends PUBCOMP: the packet id is free at all owners.
    SendPubcomp {
        /// Connection.
        connection: ConnectionId,
        /// Packet id.
        packet_id: PacketId,
        /// A message has used the id. False: the reason code is 0x92, Packet Identifier not found.
        is_found: bool,
    },
    /// Sends PUBREC with reason code 0x97, Quota exceeded: the message has no number, and the packet
    /// id is free.
    Refuse {
        /// Connection.
        connection: ConnectionId,
        /// Packet id.
        packet_id: PacketId,
        /// Reason.
        reason: RefusePublish,
    },
    /// Sends DISCONNECT and closes the connection. The node tells
    /// [`Closed`](super::PublishingEvent::Closed).
    Disconnect {
        /// Connection.
        connection: ConnectionId,
        /// Reason.
        reason: PublishViolation,
    },
}

/// Reason for which a PUBLISH gets no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefusePublish {
    /// As many messages of the run wait as may.
    #[error("{waiting_max} QoS 2 messages wait for PUBREC, as many as may")]
    TooManyWaiting {
        /// Limit.
        waiting_max: usize,
    },
    /// As many numbers of the run were given up as may be.
    #[error("{given_up_max} QoS 2 numbers were given up with their connections, as many as may be")]
    TooManyGivenUp {
        /// Limit.
        given_up_max: usize,
    },
}

/// Violation of the protocol by a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PublishViolation {
    /// DISCONNECT 0x93, Receive Maximum exceeded [MQTT-3.3.4-7].
    #[error("more than {maximum} PUBLISH packets wait for PUBREC")]
    ReceiveMaximumExceeded {
        /// Receive Maximum.
        maximum: usize,
    },
    /// DISCONNECT 0x82, Protocol Error: PUBREL before PUBREC [MQTT-4.3.3-4].
    #[error("PUBREL of packet id {} before its PUBREC", .packet_id.0)]
    EarlyPubrel {
        /// Packet id.
        packet_id: PacketId,
    },
}
