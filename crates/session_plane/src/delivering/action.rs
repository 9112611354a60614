//! Actions: what the node does for deliveries.
//!
//! The node applies the actions of a call in their order, and makes the events in their order.

use super::delivery::{DeliveryQos, PacketDelivery};
use super::event::SharedMessage;
use crate::connecting::ConnectionId;
use crate::feed::QueueKey;
use crate::publishing::PacketId;
use crate::{ClientId, Dot};

/// PUBLISH to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published<V> {
    /// Connection.
    pub connection: ConnectionId,
    /// Packet id.
    pub packet_id: PacketId,
    /// Event of the message.
    pub message: Dot,
    /// QoS.
    pub qos: DeliveryQos,
    /// DUP flag: an older connection may have sent the message.
    pub is_dup: bool,
    /// Value of the message's entry.
    pub value: V,
}

/// Entry of a packet id, and what it replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenDelivery {
    /// Connection.
    pub connection: ConnectionId,
    /// Its client.
    pub client: ClientId,
    /// Event of the message.
    pub message: Dot,
    /// Value of the entry.
    pub delivery: PacketDelivery,
    /// Events of older deliveries of the packet id.
    pub removes: Vec<Dot>,
}

/// Delivery that has come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedDelivery {
    /// Connection.
    pub connection: ConnectionId,
    /// Its client.
    pub client: ClientId,
    /// Event of the message, which leaves the queue. None where it stays.
    pub message: Option<Dot>,
    /// Place of the message, if the feed has passed it on: its room in the window is free.
    pub held: Option<QueueKey>,
    /// Events of deliveries, which free their packet ids.
    pub deliveries: Vec<Dot>,
}

/// Action of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveringAction<V> {
    /// Makes an event that adds a [`Fact::Delivery`](crate::Fact::Delivery), and removes older ones.
    /// The node tells [`Stored`](super::DeliveringEvent::Stored) when it is durable, and tells the feed
    /// that the removed ones have ended.
    Write(WrittenDelivery),
    /// Makes an event that removes a message and deliveries, and tells the feed. The node tells
    /// [`Removed`](super::DeliveringEvent::Removed) of the message when it is durable.
    Remove(RemovedDelivery),
    /// Tells the feed that a message is acknowledged. The event that removes it was made before.
    LetGo {
        /// Connection.
        connection: ConnectionId,
        /// Place of the message.
        key: QueueKey,
    },
    /// Moves a QoS 2 message of a shared group into the queue of the session
    /// ([`SinkEvent::Moving`](crate::groups::SinkEvent::Moving)). The node tells
    /// [`Moved`](super::DeliveringEvent::Moved) when the event is made, and
    /// [`MoveKnown`](super::DeliveringEvent::MoveKnown) when every present node knows it.
    Move {
        /// Connection, which has a place of its Receive Maximum for the message.
        connection: ConnectionId,
        /// The message.
        message: SharedMessage,
        /// Its value.
        value: V,
    },
    /// Tells the groups that a message of QoS 1 is acknowledged
    /// ([`SinkEvent::Acknowledged`](crate::groups::SinkEvent::Acknowledged)).
    AcknowledgeGroup {
        /// Connection.
        connection: ConnectionId,
        /// The message.
        message: SharedMessage,
    },
    /// Sends PUBLISH. Where it does not, the node answers with
    /// [`Discarded`](super::DeliveryAnswer::Discarded). A message with DUP does not expire any more
    /// [MQTT-4.3.3-7].
    SendPublish(Published<V>),
    /// Sends PUBLISH of the message for which the node has asked for a packet id. Where it does not, the node
    /// answers with [`Discarded`](super::DeliveryAnswer::Discarded).
    Grant {
        /// Connection.
        connection: ConnectionId,
        /// Packet id.
        packet_id: PacketId,
        /// QoS that was asked for.
        qos: DeliveryQos,
    },
    /// Sends PUBREL.
    SendPubrel {
        /// Connection.
        connection: ConnectionId,
        /// Packet id.
        packet_id: PacketId,
        /// A delivery uses the packet id. False: the reason code is 0x92, Packet Identifier not found.
        is_found: bool,
    },
    /// Sends DISCONNECT and closes the connection. The node tells
    /// [`Closed`](super::DeliveringEvent::Closed).
    Disconnect {
        /// Connection.
        connection: ConnectionId,
        /// Reason.
        reason: DeliveryViolation,
    },
}

/// Reason to close a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryViolation {
    /// DISCONNECT 0x82, Protocol Error: the client answers PUBLISH as one of another QoS.
    #[error("packet id {} is answered as one of another QoS", .packet_id.0)]
    OtherQos {
        /// Packet id.
        packet_id: PacketId,
    },
    /// DISCONNECT 0x97, Quota exceeded: feed and groups have passed on more than may wait.
    #[error("{waiting_max} messages wait for a packet id, as many as may")]
    TooManyWaiting {
        /// Limit.
        waiting_max: usize,
    },
}
