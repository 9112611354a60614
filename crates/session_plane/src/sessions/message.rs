//! Messages between the sessions of two nodes.

use crate::connecting::ConnectingMessage;
use crate::feed::FeedMessage;
use crate::groups::GroupMessage;
use crate::interests::InterestMessage;
use crate::plane::{EventContent, PlaneMessage};
use crate::publishing::PublishingMessage;
use crate::wire::Message;

/// Message of sessions, by its receiver there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionsMessage<V, M> {
    /// For the plane.
    Replication(PlaneMessage<V, M>),
    /// For claims and questions.
    Connecting(ConnectingMessage<V>),
    /// For feeds.
    Feed(FeedMessage<V>),
    /// For numbers that are routed.
    Publishing(PublishingMessage<M>),
    /// For the connections of members of shared groups.
    Groups(GroupMessage<V>),
    /// For the filters of connected sessions.
    Interests(InterestMessage<M>),
}

impl<V, M> From<SessionsMessage<V, M>> for Message<V, M, EventContent<V, M>> {
    fn from(message: SessionsMessage<V, M>) -> Message<V, M, EventContent<V, M>> {
        match message {
            SessionsMessage::Replication(message) => Message::Replication(message),
            SessionsMessage::Connecting(message) => Message::Connecting(message),
            SessionsMessage::Feed(message) => Message::Feed(message),
            SessionsMessage::Publishing(message) => Message::Publishing(message),
            SessionsMessage::Groups(message) => Message::Groups(message),
            SessionsMessage::Interests(message) => Message::Interests(message),
        }
    }
}

impl<V, M> SessionsMessage<V, M> {
    /// Message that was read, for [`Sessions::receive`](super::Sessions::receive). None of a Hello, which
    /// is for what opens connections.
    pub fn of_read(read: Message<V, M, EventContent<V, M>>) -> Option<SessionsMessage<V, M>> {
        match read {
            Message::Replication(message) => Some(SessionsMessage::Replication(message)),
            Message::Connecting(message) => Some(SessionsMessage::Connecting(message)),
            Message::Feed(message) => Some(SessionsMessage::Feed(message)),
            Message::Publishing(message) => Some(SessionsMessage::Publishing(message)),
            Message::Groups(message) => Some(SessionsMessage::Groups(message)),
            Message::Interests(message) => Some(SessionsMessage::Interests(message)),
            Message::Hello(_) => None,
        }
    }
}
