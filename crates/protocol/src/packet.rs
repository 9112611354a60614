//! MQTT control packets (MQTT 5.0 chapter 3; MQTT 3.1.1 as a variant of the same types).
//!
//! A packet of version 3.1.1 is the version 5 packet with no properties and success for every reason code that
//! its wire form lacks. [`Decoder`] and [`encode`] are told which version the connection speaks.

mod connect;
mod decode;
mod encode;
mod packet_type;
mod property_id;
mod publish;
mod subscribe;

use std::num::NonZeroU16;

pub use self::connect::{ConnAck, ConnAckProperties, Connect, ConnectProperties, Will};
pub use self::decode::{DecodeError, Decoder, ProtocolName, Violation};
pub use self::encode::{EncodeError, encode, encode_publish_head, encoded_len};
pub use self::packet_type::PacketType;
pub use self::property_id::PropertyId;
pub use self::publish::{Publish, TopicAlias};
pub use self::subscribe::{
    RetainHandling, SubAck, Subscribe, SubscribeFilter, SubscriptionId, SubscriptionOptions, UnsubAck,
    Unsubscribe,
};
use crate::properties::{Explanation, UserProperties};
use crate::reason_code::ReasonCode;
use crate::text::Text;

/// Which protocol a connection speaks, as its CONNECT said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// Protocol level 4.
    V311,
    /// Protocol level 5.
    V5,
}

/// Quality of service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QoS {
    /// Delivered or lost.
    #[default]
    AtMostOnce = 0,
    /// Delivered, perhaps again.
    AtLeastOnce = 1,
    /// Delivered once.
    ExactlyOnce = 2,
}

impl QoS {
    /// The quality of service with this number: 0, 1 or 2.
    pub const fn from_u8(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }
}

/// A packet identifier: never zero. [MQTT-2.2.1-3]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub NonZeroU16);

impl PacketId {
    /// The packet identifier `id`, if that is one.
    pub const fn new(id: u16) -> Option<Self> {
        match NonZeroU16::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// The number itself.
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

/// Any MQTT control packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// The client's first packet.
    Connect(Box<Connect>),
    /// The server's answer to it.
    ConnAck(Box<ConnAck>),
    /// A message. Boxed: in place it would make every acknowledgement as large as itself.
    Publish(Box<Publish>),
    /// QoS 1: received.
    PubAck(Ack),
    /// QoS 2, part 1: received.
    PubRec(Ack),
    /// QoS 2, part 2: released.
    PubRel(Ack),
    /// QoS 2, part 3: complete.
    PubComp(Ack),
    /// Asks for subscriptions.
    Subscribe(Subscribe),
    /// The answer to it.
    SubAck(SubAck),
    /// Ends subscriptions.
    Unsubscribe(Unsubscribe),
    /// The answer to it.
    UnsubAck(UnsubAck),
    /// Are you there?
    PingReq,
    /// I am.
    PingResp,
    /// The last packet of a connection. From a server in version 5 only.
    Disconnect(Disconnect),
    /// Enhanced authentication, version 5 only.
    Auth(Auth),
}

impl Packet {
    /// Which packet it is.
    pub const fn packet_type(&self) -> PacketType {
        match self {
            Self::Connect(_) => PacketType::Connect,
            Self::ConnAck(_) => PacketType::ConnAck,
            Self::Publish(_) => PacketType::Publish,
            Self::PubAck(_) => PacketType::PubAck,
            Self::PubRec(_) => PacketType::PubRec,
            Self::PubRel(_) => PacketType::PubRel,
            Self::PubComp(_) => PacketType::PubComp,
            Self::Subscribe(_) => PacketType::Subscribe,
            Self::SubAck(_) => PacketType::SubAck,
            Self::Unsubscribe(_) => PacketType::Unsubscribe,
            Self::UnsubAck(_) => PacketType::UnsubAck,
            Self::PingReq => PacketType::PingReq,
            Self::PingResp => PacketType::PingResp,
            Self::Disconnect(_) => PacketType::Disconnect,
            Self::Auth(_) => PacketType::Auth,
        }
    }
}

/// PUBACK, PUBREC, PUBREL or PUBCOMP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// Which delivery it is about.
    pub packet_id: PacketId,
    /// How it went.
    pub reason: ReasonCode,
    /// Why; boxed because it is nearly always absent.
    pub explanation: Option<Box<Explanation>>,
}

impl Ack {
    /// An acknowledgement without a word of explanation.
    pub const fn new(packet_id: PacketId, reason: ReasonCode) -> Self {
        Self {
            packet_id,
            reason,
            explanation: None,
        }
    }
}

/// DISCONNECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disconnect {
    /// Why.
    pub reason: ReasonCode,
    /// Session Expiry Interval in seconds, from clients only.
    pub session_expiry: Option<u32>,
    /// Server Reference.
    pub server_reference: Option<Text>,
    /// Reason String and user properties.
    pub explanation: Explanation,
}

impl Disconnect {
    /// A DISCONNECT that says nothing but why.
    pub const fn new(reason: ReasonCode) -> Self {
        Self {
            reason,
            session_expiry: None,
            server_reference: None,
            explanation: Explanation {
                reason_string: None,
                user_properties: UserProperties::EMPTY,
            },
        }
    }
}

/// AUTH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    /// Success, Continue authentication or Re-authenticate.
    pub reason: ReasonCode,
    /// Authentication Method.
    pub method: Option<Text>,
    /// Authentication Data.
    pub data: Option<bytes::Bytes>,
    /// Reason String and user properties.
    pub explanation: Explanation,
}
