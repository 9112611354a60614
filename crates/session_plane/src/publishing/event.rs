//! Events: packets of clients, entries that were made, and changes of the cluster.

use std::collections::BTreeSet;

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::packet_use::{ContentId, PacketId, UseEntry};
use super::wills::DueWill;
use crate::connecting::ConnectionId;
use crate::{ClientId, Dot, MadeEvent};

/// Connection that has its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedConnection {
    /// The connection.
    pub connection: ConnectionId,
    /// Its client.
    pub client: ClientId,
    /// Clock of the session's entry that its CONNECT has written.
    pub clock: Hlc,
    /// Entries of the client's packet ids that count by themselves, as all present owners have told
    /// them.
    pub uses: Vec<UseEntry>,
}

/// PUBLISH with QoS 2. `M` is the content of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish<M> {
    /// Connection that sends it.
    pub connection: ConnectionId,
    /// Packet id.
    pub packet_id: PacketId,
    /// DUP flag.
    pub is_dup: bool,
    /// Identity of the content.
    pub content: ContentId,
    /// The content.
    pub body: M,
}

/// Confirmation of a message: a node has taken it durably; this node itself, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteConfirmation {
    /// The node.
    pub from: NodeId,
    /// Number of the message.
    pub number: Dot,
    /// Marker by whose ring the node has taken it.
    pub marker: u64,
}

/// Event of a client, of this node or of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishingEvent<M> {
    /// A connection has its session: CONNACK is sent.
    Opened(OpenedConnection),
    /// A connection has ended, for whatever reason.
    Closed {
        /// Connection.
        connection: ConnectionId,
    },
    /// A client sends PUBLISH with QoS 2.
    Published(Publish<M>),
    /// A client sends PUBREL.
    Released {
        /// Connection.
        connection: ConnectionId,
        /// Packet id.
        packet_id: PacketId,
    },
    /// This node's own copy has more entries of a connected client's packet ids: it has merged.
    UsesMerged {
        /// Connection.
        connection: ConnectionId,
        /// Entries that count by themselves.
        uses: Vec<UseEntry>,
    },
    /// The node has made the event of an entry that names a number.
    NumberWritten {
        /// Connection that has asked for it. Another one may have written the number before.
        connection: ConnectionId,
        /// The number.
        number: Dot,
        /// The event.
        made: MadeEvent,
    },
    /// The node has made the event that frees a packet id.
    FreeWritten {
        /// Connection.
        connection: ConnectionId,
        /// Packet id.
        packet_id: PacketId,
        /// The event.
        made: MadeEvent,
    },
    /// A will is to be published.
    WillDue {
        /// The will.
        due: DueWill,
        /// Content of its message.
        body: M,
    },
    /// The node has made the event of [`WriteWillNumber`](super::PublishingAction::WriteWillNumber).
    WillNumberWritten {
        /// The number.
        number: Dot,
        /// The event.
        made: MadeEvent,
    },
    /// A will is not to be published under this number, or not here. One that is on its way stays.
    WillGivenUp {
        /// The number.
        number: Dot,
    },
    /// All nodes that have to have it, by the ring of the marker, have the entry of a number.
    Stored {
        /// The number.
        number: Dot,
        /// Event of the entry.
        entry: Dot,
        /// Marker that [`AwaitStored`](super::PublishingAction::AwaitStored) named.
        marker: u64,
    },
    /// The event that frees a packet id is durable.
    Freed {
        /// Connection.
        connection: ConnectionId,
        /// Packet id.
        packet_id: PacketId,
        /// The event.
        dot: Dot,
    },
    /// This node has made a ring marker: it routes by another ring.
    RingChanged {
        /// Number of the marker, above all before.
        marker: u64,
        /// Present nodes, this one among them.
        nodes: BTreeSet<NodeId>,
    },
    /// This node's routes have merged with all present nodes, or have to merge again (rule
    /// `routes-merged`).
    RoutesMerged(bool),
    /// A node confirms a message.
    RouteConfirmed(RouteConfirmation),
    /// A peer routes a number. Where it is of this run, a client has gone on with its packet id there.
    RoutedByPeer {
        /// The peer.
        from: NodeId,
        /// QoS 2 number.
        number: Dot,
    },
    /// The link to a present peer is a new one: what it has not confirmed is sent again.
    LinkRenewed(NodeId),
}
