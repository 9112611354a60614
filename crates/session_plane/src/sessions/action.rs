//! Actions: what the node does for the sessions of its clients.

use cluster::NodeId;

use super::{DroppedMessages, SessionsMessage};
use crate::connecting::{ConnectionId, DisconnectReason, KnownSession, RefuseReason};
use crate::delivering::{DeliveryQos, DeliveryViolation, Published};
use crate::groups::MemberViolation;
use crate::membership::GiveUpReason;
use crate::plane::{RunEnd, TransientMessage};
use crate::publishing::{DueWill, PacketId, PublishViolation, RefusePublish};
use crate::{Birth, ClientId, Dot, GroupId, Run, Slot};

/// Action of the node, applied in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionsAction<V, M> {
    /// Sends a message over the connection to a peer, behind what went before. It is dropped where
    /// there is no connection.
    Send {
        /// Receiver.
        to: NodeId,
        /// Message.
        message: SessionsMessage<V, M>,
    },
    /// Sends CONNACK: the session is the connection's.
    Accept {
        /// Connection.
        connection: ConnectionId,
        /// Session Present of CONNACK.
        is_present: bool,
        /// Birth of the session, which entries of the session name.
        birth: Birth,
        /// Entries of the client as the owners have told them.
        session: Box<KnownSession<V>>,
    },
    /// Sends CONNACK with a reason code, and closes the connection
    /// ([`ConnectingAction::Refuse`](crate::connecting::ConnectingAction::Refuse)). The node calls
    /// [`Sessions::close`](super::Sessions::close).
    Refuse {
        /// Connection.
        connection: ConnectionId,
        /// Reason.
        reason: RefuseReason,
    },
    /// Sends DISCONNECT 0x8E, Session taken over. The node calls
    /// [`Sessions::close`](super::Sessions::close) behind the last acknowledgements.
    Disconnect {
        /// Connection.
        connection: ConnectionId,
        /// Reason, for the log.
        reason: DisconnectReason,
    },
    /// Sends PUBREC: the message of a PUBLISH is at all nodes.
    Received {
        /// Connection.
        connection: ConnectionId,
        /// Packet id.
        packet_id: PacketId,
    },
    /// Sends PUBREC with 0x97, Quota exceeded: the packet id is free.
    NotReceived {
        /// Connection.
        connection: ConnectionId,
        /// Packet id.
        packet_id: PacketId,
        /// Reason, for the log.
        reason: RefusePublish,
    },
    /// Sends PUBCOMP: the packet id is free at all owners.
    Freed {
        /// Connection.
        connection: ConnectionId,
        /// Packet id.
        packet_id: PacketId,
        /// A message has used the id. False: the reason code is 0x92, Packet Identifier not found.
        is_found: bool,
    },
    /// Sends DISCONNECT. The node calls [`Sessions::close`](super::Sessions::close).
    Violated {
        /// Connection.
        connection: ConnectionId,
        /// Reason, which has its reason code.
        reason: ConnectionViolation,
    },
    /// All that the connection leaves is durable. Nothing more is said of it.
    Closed(ConnectionId),
    /// An own change is durable at all nodes that need it: what waits for it is acknowledged.
    Durable(Dot),
    /// Sends PUBLISH, behind the packets before ([`DeliveringAction::SendPublish`]).
    ///
    /// [`DeliveringAction::SendPublish`]: crate::delivering::DeliveringAction::SendPublish
    SendPublish(Published<V>),
    /// Sends PUBLISH of the message for which the node has asked for a packet id ([`DeliveringAction::Grant`]).
    ///
    /// [`DeliveringAction::Grant`]: crate::delivering::DeliveringAction::Grant
    Grant {
        /// Connection.
        connection: ConnectionId,
        /// Packet id.
        packet_id: PacketId,
        /// QoS that was asked for.
        qos: DeliveryQos,
    },
    /// Sends PUBREL: the stage is at the owners.
    SendPubrel {
        /// Connection.
        connection: ConnectionId,
        /// Packet id.
        packet_id: PacketId,
        /// A delivery uses the packet id. False: the reason code is 0x92, Packet Identifier not found.
        is_found: bool,
    },
    /// Sends SUBACK: the session is a member of a shared group.
    Joined {
        /// Connection.
        connection: ConnectionId,
        /// The group.
        group: GroupId,
    },
    /// Sends SUBACK with 0x97, Quota exceeded: this node has as many members as it may.
    NotJoined {
        /// Connection.
        connection: ConnectionId,
        /// The group.
        group: GroupId,
    },
    /// Sends UNSUBACK: the session is no member of a shared group.
    Left {
        /// Connection.
        connection: ConnectionId,
        /// The group.
        group: GroupId,
        /// It was one. False: the reason code is 0x11, No subscription existed.
        is_found: bool,
    },
    /// A will is due, for the first time. [`Sessions::publish_will`](super::Sessions::publish_will) or
    /// [`Sessions::refuse_will`](super::Sessions::refuse_will) answers. What its topic retains is the
    /// node's to write.
    WillDue {
        /// The will.
        due: DueWill,
        /// Its message.
        body: M,
    },
    /// A message of a shared group is for a member that takes it with QoS 0.
    GivenUnstored {
        /// Connection.
        connection: ConnectionId,
        /// Value of the message's entry, as the member gets it.
        value: V,
    },
    /// A message is for transient sessions of this node. It is told once.
    Transient(TransientMessage<M>),
    /// A message of QoS 0 is for connected sessions of this node.
    Unstored(M),
    /// Every present peer knows the interests of this node up to this position: what waits for it is
    /// acknowledged.
    InterestsTold(u64),
    /// This node has dropped messages of a queue, as the primary owner of its slot. It counts and logs them.
    Dropped(DroppedMessages<V>),
    /// An event has changed a session in a copy of this node.
    Changed {
        /// Slot of the copy.
        slot: Slot,
        /// Client of the session.
        client: ClientId,
        /// Event.
        by: Dot,
    },
    /// A peer is given up; the connection to it is to be closed.
    GaveUp {
        /// Run that was present.
        run: Run,
        /// Reason, for the log.
        reason: GiveUpReason,
    },
    /// The run cannot go on: the node closes all connections, and begins another run with what is
    /// on its disk.
    EndRun(RunEnd),
}

/// Reason to close a connection with DISCONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionViolation {
    /// The client publishes against the protocol, or its limits.
    #[error(transparent)]
    Publish(#[from] PublishViolation),
    /// Shared groups have more for the client than they may.
    #[error(transparent)]
    Member(#[from] MemberViolation),
    /// The client answers against the protocol, or too much waits for it.
    #[error(transparent)]
    Delivery(#[from] DeliveryViolation),
}
