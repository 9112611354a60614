//! Value of an entry, by the kind of the entry.
//!
//! *Invariant*: a value takes 32 bytes, in each form. Larger and shared parts have memory of their
//! own.

use std::time::Duration;

use session_plane::SessionExpiry;
use session_plane::delivering::PacketDelivery;
use session_plane::publishing::WillNumber;

use crate::{
    Content, QueuedMessage, SessionTerms, SubscriptionTerms, TopicBytes, UsedPacketId, WillMessage, memory,
};

/// Value of an entry of the session plane.
///
/// The order decides which of two entries with one identity a copy keeps. It has no other meaning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// The entry says no more than its fact: a connection, an end, a presence, an assignment.
    Blank,
    /// Session: how long it lasts without a connection, and whose it is.
    Session(SessionTerms),
    /// Subscription of a session, or of a member of a shared group.
    Subscription(SubscriptionTerms),
    /// Message of a queue.
    Message(QueuedMessage),
    /// Will of a connection.
    Will(WillMessage),
    /// End of a connection that has a will. None: the writer does not know the delay.
    WillEnd(Option<Duration>),
    /// Number of a will.
    WillNumber(Box<WillNumber>),
    /// Packet id that a client uses for a QoS 2 PUBLISH, or has released.
    Use(Box<UsedPacketId>),
    /// Packet id of a message to a client, and its stage.
    Delivery(PacketDelivery),
    /// Expiry of a session without a connection: the interval that was said last.
    Expiry(SessionExpiry),
    /// Message that a topic retains, or its clear.
    Topic(TopicBytes),
}

impl Value {
    /// Content that the value contains: of a message, a will, or a used packet id.
    pub(crate) fn contained_content(&self) -> Option<&Content> {
        match self {
            Value::Message(message) => Some(message.content()),
            Value::Will(will) => Some(will.content()),
            Value::Use(used) => used.content(),
            Value::Blank
            | Value::Session(_)
            | Value::Subscription(_)
            | Value::WillEnd(_)
            | Value::WillNumber(_)
            | Value::Delivery(_)
            | Value::Expiry(_)
            | Value::Topic(_) => None,
        }
    }

    /// Memory of the value, with all of the content that others may share. It is not less than the
    /// length of the encoding, and equal on every node.
    pub fn memory(&self) -> usize {
        memory::PLACE
            + match self {
                Value::Blank | Value::WillEnd(_) | Value::Delivery(_) | Value::Expiry(_) => 0,
                Value::Session(terms) => terms.memory(),
                Value::Subscription(terms) => terms.memory(),
                Value::Message(message) => message.memory(),
                Value::Will(will) => will.content().memory(),
                Value::WillNumber(_) => memory::BOXED,
                Value::Use(used) => used.memory(),
                Value::Topic(topic) => topic.memory(),
            }
    }
}
