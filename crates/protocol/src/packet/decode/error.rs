//! What can be wrong with received bytes, and how to answer it.
//!
//! Where the specification forbids something without naming a reason code, section 1.2 decides: what cannot be read as
//! the packet it claims to be is malformed (0x81), what can be read but is not allowed is a protocol error (0x82). So a
//! packet identifier of 0, a reason code of another packet and a value other than 0 and 1 are protocol errors, and DUP
//! with QoS 0 is malformed, because it is a combination of header flags that does not exist. A wildcard in a topic name
//! of any kind, and an empty Response Topic or will topic, is answered with 0x90, Topic Name invalid.

use std::fmt;

use crate::packet::{PacketType, PropertyId, ProtocolVersion};
use crate::reason_code::ReasonCode;
use crate::text::{Text, TextError};

/// Received bytes are no legal packet: the connection ends.
///
/// `Display` is one line that fits a log and a Reason String, such as
/// `PUBLISH: the property Topic Alias is there twice`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    pub(super) packet: Option<PacketType>,
    pub(super) violation: Violation,
    pub(super) connack_version: Option<ProtocolVersion>,
}

/// What exactly is wrong. Grouped by the reason code that answers it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    // 0x81 Malformed Packet: the bytes cannot be read as the packet they claim to be.
    /// Packet type 0, or 15 in version 3.1.1.
    #[error("the packet type {number} is reserved")]
    ReservedPacketType {
        /// Of the first byte's upper half.
        number: u8,
    },
    /// [MQTT-2.1.3-1]
    #[error("the flags {flags:#06b} in the fixed header are reserved")]
    ReservedFlags {
        /// The first byte's lower half.
        flags: u8,
    },
    /// [MQTT-3.3.1-4]
    #[error("the QoS is 3")]
    Qos3,
    /// [MQTT-3.3.1-2]
    #[error("DUP is set with QoS 0")]
    DupWithQos0,
    /// A variable byte integer of more than four bytes.
    #[error("the {field} has more than four bytes")]
    VariableByteIntegerTooLong {
        /// What the integer is.
        field: &'static str,
    },
    /// [MQTT-1.5.5-1]
    #[error("the {field} uses more bytes than it needs")]
    VariableByteIntegerNotMinimal {
        /// What the integer is.
        field: &'static str,
    },
    /// The packet, or its properties, end before this field does.
    #[error("it ends before the {field} does")]
    Truncated {
        /// The field that is not there, or not whole.
        field: &'static str,
    },
    /// The packet is longer than what it says.
    #[error("it has {count} bytes too many")]
    TrailingBytes {
        /// How many.
        count: usize,
    },
    /// [MQTT-1.5.4-1] [MQTT-1.5.4-2]
    #[error("the {field}: {error}")]
    Text {
        /// Which string.
        field: &'static str,
        /// What is wrong with it.
        error: TextError,
    },
    /// No property has this identifier.
    #[error("there is no property {id:#04x}")]
    UnknownProperty {
        /// The first byte of the identifier.
        id: u8,
    },
    /// The property exists, but not in this packet.
    #[error("the property {property} is not one of this packet")]
    MisplacedProperty {
        /// Which.
        property: PropertyId,
    },
    /// [MQTT-3.1.2-3]
    #[error("the reserved connect flag is set")]
    ReservedConnectFlag,
    /// [MQTT-3.1.2-11] [MQTT-3.1.2-13]
    #[error("the connect flags give a will QoS or will retain without a will")]
    WillFlagsWithoutWill,
    /// [MQTT-3.1.2-12]
    #[error("the will QoS is 3")]
    WillQos3,
    /// [MQTT-3.1.2-22] of version 3.1.1, and of no other.
    #[error("there is a password without a user name")]
    PasswordWithoutUserName,
    /// [MQTT-3.2.2-1]
    #[error("reserved bits of the acknowledge flags are set")]
    ReservedAcknowledgeFlags,
    /// [MQTT-3.8.3-5]; also a QoS of 3, [MQTT-3.8.3-4] of version 3.1.1.
    #[error("reserved bits of the subscription options are set")]
    ReservedSubscriptionOptions,

    // 0x82 Protocol Error: readable, but not allowed.
    /// [MQTT-3.1.0-1]
    #[error("the first packet is not a CONNECT")]
    FirstPacketNotConnect,
    /// [MQTT-3.1.0-2]
    #[error("a second CONNECT")]
    SecondConnect,
    /// A packet that only the other side sends.
    #[error("the other side may not send this packet")]
    WrongDirection,
    /// A property that only the other side sends. [MQTT-3.3.4-6] [MQTT-3.14.2-2]
    #[error("the other side may not send the property {property}")]
    PropertyFromWrongSide {
        /// Which.
        property: PropertyId,
    },
    /// A property that may be there once at most.
    #[error("the property {property} is there twice")]
    DuplicateProperty {
        /// Which.
        property: PropertyId,
    },
    /// 0 where it is forbidden, or neither 0 nor 1 where nothing else is defined.
    #[error("the property {property} has the forbidden value {value}")]
    PropertyValue {
        /// Which.
        property: PropertyId,
        /// Its value.
        value: u32,
    },
    /// [MQTT-2.2.1-3]
    #[error("the packet identifier is 0")]
    PacketIdZero,
    /// [MQTT-4.7.3-1]
    #[error("the topic name is empty and no topic alias stands for it")]
    TopicNameMissing,
    /// [MQTT-3.8.3-2] [MQTT-3.10.3-2]
    #[error("there is no topic filter")]
    NoTopicFilter,
    /// A SUBACK or UNSUBACK answers at least one topic filter.
    #[error("there is no reason code")]
    NoReasonCode,
    /// Version 5; section 3.8.3.1.
    #[error("the maximum QoS of a subscription is 3")]
    SubscriptionQos3,
    /// Section 3.8.3.1.
    #[error("the retain handling of a subscription is 3")]
    RetainHandling3,
    /// [MQTT-3.8.3-4]
    #[error("a shared subscription has No Local set")]
    NoLocalShared,
    /// Not one of those that the specification lists for this packet and its sender.
    #[error("the reason code {code:#04x} does not belong to this packet")]
    ReasonCode {
        /// As received.
        code: u8,
    },
    /// [MQTT-3.2.2-6]
    #[error("the session is present although the connection is refused")]
    SessionPresentWithError,
    /// Section 3.1.2.11.10.
    #[error("there is authentication data without an authentication method")]
    AuthenticationDataWithoutMethod,
    /// Section 3.15.2.2.2.
    #[error("the authentication method is missing")]
    AuthenticationMethodMissing,

    // The rest has reason codes of its own.
    /// 0x84. [MQTT-3.1.2-1] [MQTT-3.1.2-2]
    #[error("the protocol {name}, level {level}, is not supported; MQTT 3.1.1 and 5 are")]
    UnsupportedVersion {
        /// The protocol name it gave.
        name: ProtocolName,
        /// The protocol level it gave.
        level: u8,
    },
    /// 0x85. [MQTT-3.1.3-7] of version 3.1.1, and of no other.
    #[error("the client identifier is empty, but the session is not clean")]
    ClientIdEmpty,
    /// 0x90. [MQTT-3.3.2-2] [MQTT-3.3.2-14] [MQTT-4.7.0-1]
    #[error("the {field} has a wildcard")]
    TopicNameWildcard {
        /// Which topic name.
        field: &'static str,
        /// What it is.
        topic: Text,
    },
    /// 0x90. [MQTT-4.7.3-1]
    #[error("the {field} is empty")]
    TopicNameEmpty {
        /// Which topic name, not that of a PUBLISH.
        field: &'static str,
    },
    /// 0x94. [MQTT-3.3.2-8]
    #[error("the topic alias is 0")]
    TopicAliasZero,
    /// 0x95. Found before the packet's body has arrived.
    #[error("the packet has {size} bytes, {limit} are allowed")]
    TooLarge {
        /// In bytes, fixed header included.
        size: usize,
        /// In bytes.
        limit: u32,
    },
    /// 0x97. A limit of the receiver, not of the protocol.
    #[error("more than {limit} user properties in one packet")]
    TooManyUserProperties {
        /// The most that are taken.
        limit: usize,
    },
    /// 0x97. A limit of the receiver, not of the protocol.
    #[error("more than {limit} topic filters in one packet")]
    TooManyFilters {
        /// The most that are taken.
        limit: usize,
    },
}

/// The protocol name of a CONNECT whose version is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolName {
    /// `MQTT`: 3.1.1 and later.
    Mqtt,
    /// `MQIsdp`: 3.1 and earlier.
    MqIsdp,
    /// Anything else.
    Other,
}

impl DecodeError {
    /// Which packet it was in; `None` if the packet type itself is wrong.
    pub fn packet(&self) -> Option<PacketType> {
        self.packet
    }

    /// What exactly is wrong.
    pub fn violation(&self) -> Violation {
        self.violation.clone()
    }

    /// The topic that is wrong, if one is.
    pub fn topic(&self) -> Option<&Text> {
        match &self.violation {
            Violation::TopicNameWildcard { topic, .. } => Some(topic),
            _ => None,
        }
    }

    /// The reason code for the DISCONNECT or CONNACK that answers it.
    pub fn reason_code(&self) -> ReasonCode {
        self.violation.reason_code()
    }

    /// The Reason String for the answer: what [`Display`](fmt::Display) says.
    pub fn reason_string(&self) -> Text {
        Text::new(self.to_string()).unwrap_or_default()
    }

    /// True if the packet was a connection's first CONNECT: a DISCONNECT cannot answer it.
    pub fn in_connect(&self) -> bool {
        self.packet == Some(PacketType::Connect) && self.violation != Violation::SecondConnect
    }

    /// The version in which a CONNACK with [`reason_code`](Self::reason_code) answers this error.
    ///
    /// `None` if the connection is to be closed without a CONNACK: the error was not in the first CONNECT, it
    /// came before the CONNECT told its version, or it was one that 3.1.1 has no return code for.
    pub fn connack_version(&self) -> Option<ProtocolVersion> {
        self.connack_version.filter(|_| self.in_connect())
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(packet) = self.packet {
            write!(f, "{packet}: ")?;
        }
        fmt::Display::fmt(&self.violation, f)
    }
}

impl std::error::Error for DecodeError {}

impl Violation {
    /// The reason code that answers it.
    pub fn reason_code(&self) -> ReasonCode {
        match self {
            Self::ReservedPacketType { .. }
            | Self::ReservedFlags { .. }
            | Self::Qos3
            | Self::DupWithQos0
            | Self::VariableByteIntegerTooLong { .. }
            | Self::VariableByteIntegerNotMinimal { .. }
            | Self::Truncated { .. }
            | Self::TrailingBytes { .. }
            | Self::Text { .. }
            | Self::UnknownProperty { .. }
            | Self::MisplacedProperty { .. }
            | Self::ReservedConnectFlag
            | Self::WillFlagsWithoutWill
            | Self::WillQos3
            | Self::PasswordWithoutUserName
            | Self::ReservedAcknowledgeFlags
            | Self::ReservedSubscriptionOptions => ReasonCode::MalformedPacket,
            Self::FirstPacketNotConnect
            | Self::SecondConnect
            | Self::WrongDirection
            | Self::PropertyFromWrongSide { .. }
            | Self::DuplicateProperty { .. }
            | Self::PropertyValue { .. }
            | Self::PacketIdZero
            | Self::TopicNameMissing
            | Self::NoTopicFilter
            | Self::NoReasonCode
            | Self::SubscriptionQos3
            | Self::RetainHandling3
            | Self::NoLocalShared
            | Self::ReasonCode { .. }
            | Self::SessionPresentWithError
            | Self::AuthenticationDataWithoutMethod
            | Self::AuthenticationMethodMissing => ReasonCode::ProtocolError,
            Self::UnsupportedVersion { .. } => ReasonCode::UnsupportedProtocolVersion,
            Self::ClientIdEmpty => ReasonCode::ClientIdentifierNotValid,
            Self::TopicNameWildcard { .. } | Self::TopicNameEmpty { .. } => ReasonCode::TopicNameInvalid,
            Self::TopicAliasZero => ReasonCode::TopicAliasInvalid,
            Self::TooLarge { .. } => ReasonCode::PacketTooLarge,
            Self::TooManyUserProperties { .. } | Self::TooManyFilters { .. } => ReasonCode::QuotaExceeded,
        }
    }
}

impl fmt::Display for ProtocolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mqtt => "MQTT",
            Self::MqIsdp => "MQIsdp (MQTT 3.1)",
            Self::Other => "(another name)",
        })
    }
}
