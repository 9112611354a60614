//! Actions: what the node does for messages with numbers.
//!
//! The node applies the actions of a call in their order.

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::packet_use::{NumberedMessage, PacketId, PacketUse};
use super::wills::WillNumber;
use crate::connecting::ConnectionId;
use crate::{ClientId, Dot};

/// Action of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishingAction<M> {
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
        /// Content of the message. None where the id is free.
        body: Option<M>,
        /// Events of older entries of the packet id.
        removes: Vec<Dot>,
    },
    /// A will has this number. The node tells [`Numbered`](crate::wills::WillsEvent::Numbered) to the
    /// wills.
    WillNumbered {
        /// Client of the will.
        client: ClientId,
        /// Event of the will.
        will: Dot,
        /// The number.
        number: Dot,
    },
    /// Makes an event that adds a [`Fact::WillNumber`](crate::Fact::WillNumber), in the session of the
    /// will. The node tells [`WillNumberWritten`](super::PublishingEvent::WillNumberWritten).
    WriteWillNumber {
        /// Client of the will.
        client: ClientId,
        /// Event of the will.
        will: Dot,
        /// Value of the entry.
        number: WillNumber,
    },
    /// Sends the entry that names a number again under its old dot, to all owners of the ring in force
    /// (rule `received-to-new-owners`).
    GiveAgain {
        /// Client of the entry.
        client: ClientId,
        /// Number that the entry names.
        number: Dot,
        /// Event of the entry.
        entry: Dot,
    },
    /// Waits until all nodes that `at` names, by the ring of the marker, have the entry durably. Then
    /// the node tells [`Stored`](super::PublishingEvent::Stored). A wait for an earlier marker is void.
    AwaitStored {
        /// Client of the entry.
        client: ClientId,
        /// Nodes that have to have it.
        at: StoredAt,
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
        /// Content of the message.
        body: M,
        /// Clock of the message.
        clock: Hlc,
        /// Nodes that have not confirmed it, in ascending order.
        to: Vec<NodeId>,
        /// Marker of the ring in force.
        marker: u64,
    },
    /// A will is at all nodes. The node tells [`Published`](crate::wills::WillsEvent::Published) to the
    /// wills.
    WillPublished {
        /// Number of the will.
        number: Dot,
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

/// Nodes that have to have the entry of a number before its message is routed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredAt {
    /// Owners of the client's slot (rule `received-first`).
    Owners,
    /// All present nodes (rule `will-number-first`): owners have the entry, and others have confirmed
    /// the stream of this run up to its event. So of two primary owners one sees the other's number.
    AllNodes,
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
