//! Actions at the node of a member's connection.
//!
//! The node applies the actions of a call in their order: entries are events of its stream.

use cluster::session_plane::Hlc;

use crate::connecting::ConnectionId;
use crate::groups::GroupId;
use crate::{Birth, Dot, Slot};

/// Action of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkAction<V> {
    /// Makes an event that changes the entries of a group.
    Write {
        /// Connection that writes.
        connection: ConnectionId,
        /// The group.
        group: GroupId,
        /// Change of its entries.
        write: GroupWrite,
    },
    /// Delivers a message, as the session's options and Receive Maximum have it. One of QoS 2 moves first
    /// ([`Moving`](super::SinkEvent::Moving)).
    Deliver {
        /// Connection.
        connection: ConnectionId,
        /// Group that the message is given for.
        group: GroupId,
        /// Event of the message.
        message: Dot,
        /// Value of its entry.
        value: V,
    },
    /// Makes an event that removes a message with its assignment, in one slot, and adds the message to the queue
    /// of the connection's session. The node tells
    /// [`AcknowledgementKnown`](super::SinkEvent::AcknowledgementKnown).
    Move {
        /// Connection.
        connection: ConnectionId,
        /// Group that the message was given for.
        group: GroupId,
        /// What is removed.
        given: GivenDots,
        /// Value of the message in the queue.
        value: V,
    },
    /// Sends SUBACK with reason code 0x97, Quota exceeded. Nothing was written.
    RefuseSubscribe {
        /// Connection.
        connection: ConnectionId,
        /// Group that the client asked for.
        group: GroupId,
    },
    /// Sends DISCONNECT 0x97, Quota exceeded, and closes the connection. The node tells
    /// [`Closed`](super::SinkEvent::Closed).
    Disconnect {
        /// Connection.
        connection: ConnectionId,
        /// Reason, for the log.
        reason: MemberViolation,
    },
}

/// Change of a group's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupWrite {
    /// Adds a member, in all slots of the group and in the routes.
    Member {
        /// Birth of the session.
        birth: Birth,
        /// Begin of the membership. None: the clock of this event.
        since: Option<Hlc>,
        /// Events of the session's older entries.
        removes: Vec<Dot>,
    },
    /// Removes a member, in all slots of the group and in the routes.
    Leave {
        /// Events of the session's entries.
        removes: Vec<Dot>,
    },
    /// Adds the presence of the connection, in all slots of the group. The node tells
    /// [`PresenceWritten`](super::SinkEvent::PresenceWritten).
    Presence {
        /// Birth of the session.
        birth: Birth,
    },
    /// Removes the presence of the connection, in all slots of the group.
    Absence {
        /// Event of the presence.
        presence: Dot,
    },
    /// Removes a message with its assignment, in one slot. The node tells
    /// [`AcknowledgementKnown`](super::SinkEvent::AcknowledgementKnown).
    Acknowledgement(GivenDots),
}

/// Message of a part that was given, with its assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenDots {
    /// Slot of the part.
    pub slot: Slot,
    /// Event of the message.
    pub message: Dot,
    /// Event of the assignment.
    pub assignment: Dot,
}

/// Reason for which a member's connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemberViolation {
    /// As many presences are written as may be.
    #[error("{presences_max} connections are present in shared groups, as many as may be")]
    TooManyPresences {
        /// Limit.
        presences_max: usize,
    },
    /// As many messages wait for acknowledgements as may.
    #[error("{given_max} messages of shared groups wait for acknowledgements, as many as may")]
    TooManyGiven {
        /// Limit.
        given_max: usize,
    },
}
