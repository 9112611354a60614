//! Events at the node of a member's connection.

use cluster::NodeId;
use cluster::session_plane::Hlc;

use crate::connecting::ConnectionId;
use crate::groups::{Give, GroupId};
use crate::{Birth, Dot};

/// Member as this node knows it: the session that subscribes, by its birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownMember {
    /// Event of the member's entry.
    pub dot: Dot,
    /// Clock of the first SUBSCRIBE.
    pub since: Hlc,
}

/// SUBSCRIBE to a shared group, or UNSUBSCRIBE from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscribedGroup {
    /// Connection of the client.
    pub connection: ConnectionId,
    /// The group.
    pub group: GroupId,
    /// Entries that make the session a member, by this node's routes and copies: mostly one, or none.
    pub known: Vec<KnownMember>,
}

/// Event of a client, of this node or of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkEvent<V> {
    /// A connection has its session: CONNACK is sent.
    Opened {
        /// The connection.
        connection: ConnectionId,
        /// Birth of its session.
        birth: Birth,
        /// Groups whose member the session is.
        groups: Vec<GroupId>,
    },
    /// This node learns that the session of a connection is a member: from another side of a split, or
    /// late. A connection that is present already stays so.
    Joined {
        /// Connection of the session.
        connection: ConnectionId,
        /// Group whose member the session is.
        group: GroupId,
    },
    /// SUBSCRIBE. SUBACK waits until the entry of the member is durable.
    Subscribed(SubscribedGroup),
    /// UNSUBSCRIBE, or the end of the session.
    Unsubscribed(SubscribedGroup),
    /// The event of a presence is made.
    PresenceWritten {
        /// Connection that is present.
        connection: ConnectionId,
        /// Group that it is present in.
        group: GroupId,
        /// The event.
        dot: Dot,
    },
    /// A primary owner gives a message; this node itself, too. Messages and confirmations of a node
    /// arrive in the order in which it has sent them.
    Given {
        /// Node that gives.
        from: NodeId,
        /// The message.
        give: Give<V>,
    },
    /// A client acknowledges a message of QoS 1, or the node does where it is not sent.
    Acknowledged {
        /// Connection.
        connection: ConnectionId,
        /// Group that the message was given for.
        group: GroupId,
        /// Event of the message.
        message: Dot,
    },
    /// A message of QoS 2 is next for a connection: it moves into the queue of its session.
    Moving {
        /// Connection.
        connection: ConnectionId,
        /// Group that the message was given for.
        group: GroupId,
        /// Event of the message.
        message: Dot,
        /// Value of the message in the queue.
        value: V,
    },
    /// The event of an acknowledgement, or of a move, is durable, and every present node has confirmed it.
    AcknowledgementKnown {
        /// Connection.
        connection: ConnectionId,
        /// Group that the message was given for.
        group: GroupId,
        /// Event of the message.
        message: Dot,
    },
    /// A connection has ended, for whatever reason.
    Closed {
        /// Connection.
        connection: ConnectionId,
    },
}
