//! Events: what feed and groups give to a connection, packets of its client, and what is durable.

use std::num::NonZeroU16;

use cluster::session_plane::Hlc;

use super::delivery::{DeliveryQos, PacketDelivery};
use crate::connecting::ConnectionId;
use crate::feed::{DeliveryChanges, QueueKey};
use crate::publishing::PacketId;
use crate::{ClientId, Dot, GroupId};

/// Connection that has its session, and receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedReceiver {
    /// The connection.
    pub connection: ConnectionId,
    /// Its client.
    pub client: ClientId,
    /// Clock of the session's entry that its CONNECT has written.
    pub clock: Hlc,
    /// Receive Maximum of CONNECT.
    pub receive_maximum: NonZeroU16,
    /// Clock up to which an older connection may have sent messages; not above `clock`. None where the
    /// session is new.
    pub sent_before: Option<Hlc>,
}

/// Message of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedMessage<V> {
    /// Place in the queue.
    pub key: QueueKey,
    /// QoS under which the client receives it.
    pub qos: DeliveryQos,
    /// Value of its entry.
    pub value: V,
}

/// What a feed passes on at once ([`SinkAction::Deliver`](crate::feed::SinkAction::Deliver)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FedMessages<V> {
    /// Packet ids of older connections. They come before the messages that they name, or with them.
    pub deliveries: DeliveryChanges<PacketDelivery>,
    /// Messages in the order of the queue.
    pub messages: Vec<QueuedMessage<V>>,
}

/// Message of a shared group, by which group gave it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedMessage {
    /// The group.
    pub group: GroupId,
    /// Event of the message.
    pub message: Dot,
}

/// What a shared group gives ([`SinkAction::Deliver`](crate::groups::SinkAction::Deliver)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenMessage<V> {
    /// The message.
    pub message: SharedMessage,
    /// QoS under which the client receives it.
    pub qos: DeliveryQos,
    /// Value of its entry.
    pub value: V,
}

/// Answer to a packet, by the client or by its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryAnswer {
    /// PUBACK, whatever its reason code.
    Puback,
    /// PUBREC with a reason code below 0x80.
    Pubrec,
    /// PUBREC with a reason code from 0x80 on: the client is done with the message.
    PubrecError,
    /// PUBCOMP. Reason code 0x92 says that the client did not know the packet id, which is free, too.
    Pubcomp,
    /// The node has not sent PUBLISH: the message has expired, or is larger than the client takes.
    Discarded,
}

/// Event of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveringEvent<V> {
    /// A connection has its session: CONNACK is sent.
    Opened(OpenedReceiver),
    /// A connection has ended, for whatever reason. Its entries stay for the next one. What it has
    /// asked to write and is not made is not made any more.
    Closed {
        /// Connection.
        connection: ConnectionId,
    },
    /// The feed of a connection passes on packet ids and messages. The first answer of an owner comes
    /// even if it is empty: packet ids are given from then on.
    Fed {
        /// Connection.
        connection: ConnectionId,
        /// What it passes on.
        fed: FedMessages<V>,
    },
    /// The feed of a connection takes messages back: an owner has removed them.
    Withdrawn {
        /// Connection.
        connection: ConnectionId,
        /// The messages.
        keys: Vec<QueueKey>,
    },
    /// A shared group gives a message to a connection.
    Given {
        /// Connection.
        connection: ConnectionId,
        /// The message.
        given: GivenMessage<V>,
    },
    /// The event of [`Move`](super::DeliveringAction::Move) is made. From then on it is that of the message.
    Moved {
        /// Connection.
        connection: ConnectionId,
        /// The message in its group.
        from: SharedMessage,
        /// The message in the queue.
        to: QueuedMessage<V>,
    },
    /// Every present node knows the event of a move: no other member is given the message.
    MoveKnown {
        /// Connection.
        connection: ConnectionId,
        /// The message in the queue.
        message: Dot,
    },
    /// The event of [`Write`](super::DeliveringAction::Write) is made, and durable at the owners.
    Stored {
        /// Connection.
        connection: ConnectionId,
        /// Packet id of the entry.
        packet_id: PacketId,
        /// The event.
        entry: Dot,
    },
    /// The event of [`Remove`](super::DeliveringAction::Remove) is durable at the owners: no feed
    /// passes the message on any more.
    Removed {
        /// Connection.
        connection: ConnectionId,
        /// The message.
        message: Dot,
    },
    /// The node has a message that is not stored, and asks for a packet id. A later request takes the place of
    /// one that was not granted.
    Requested {
        /// Connection.
        connection: ConnectionId,
        /// QoS of the message: QoS 2 only where the session ends with its connection.
        qos: DeliveryQos,
    },
    /// The client takes no more messages at this moment, or takes them again.
    Paused {
        /// Connection.
        connection: ConnectionId,
        /// It takes no more.
        is_paused: bool,
    },
    /// A packet is answered.
    Answered {
        /// Connection.
        connection: ConnectionId,
        /// Packet id that the answer names.
        packet_id: PacketId,
        /// The answer.
        answer: DeliveryAnswer,
    },
}
