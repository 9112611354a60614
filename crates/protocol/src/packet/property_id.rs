//! The identifiers of properties (MQTT 5.0 section 2.2.2.2).

use std::fmt;

/// Which property it is; the value is its identifier on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum PropertyId {
    PayloadFormatIndicator = 0x01,
    MessageExpiryInterval = 0x02,
    ContentType = 0x03,
    ResponseTopic = 0x08,
    CorrelationData = 0x09,
    SubscriptionIdentifier = 0x0B,
    SessionExpiryInterval = 0x11,
    AssignedClientIdentifier = 0x12,
    ServerKeepAlive = 0x13,
    AuthenticationMethod = 0x15,
    AuthenticationData = 0x16,
    RequestProblemInformation = 0x17,
    WillDelayInterval = 0x18,
    RequestResponseInformation = 0x19,
    ResponseInformation = 0x1A,
    ServerReference = 0x1C,
    ReasonString = 0x1F,
    ReceiveMaximum = 0x21,
    TopicAliasMaximum = 0x22,
    TopicAlias = 0x23,
    MaximumQos = 0x24,
    RetainAvailable = 0x25,
    UserProperty = 0x26,
    MaximumPacketSize = 0x27,
    WildcardSubscriptionAvailable = 0x28,
    SubscriptionIdentifiersAvailable = 0x29,
    SharedSubscriptionAvailable = 0x2A,
}

impl PropertyId {
    /// The property with this identifier, if there is one.
    pub const fn from_u8(id: u8) -> Option<Self> {
        Some(match id {
            0x01 => Self::PayloadFormatIndicator,
            0x02 => Self::MessageExpiryInterval,
            0x03 => Self::ContentType,
            0x08 => Self::ResponseTopic,
            0x09 => Self::CorrelationData,
            0x0B => Self::SubscriptionIdentifier,
            0x11 => Self::SessionExpiryInterval,
            0x12 => Self::AssignedClientIdentifier,
            0x13 => Self::ServerKeepAlive,
            0x15 => Self::AuthenticationMethod,
            0x16 => Self::AuthenticationData,
            0x17 => Self::RequestProblemInformation,
            0x18 => Self::WillDelayInterval,
            0x19 => Self::RequestResponseInformation,
            0x1A => Self::ResponseInformation,
            0x1C => Self::ServerReference,
            0x1F => Self::ReasonString,
            0x21 => Self::ReceiveMaximum,
            0x22 => Self::TopicAliasMaximum,
            0x23 => Self::TopicAlias,
            0x24 => Self::MaximumQos,
            0x25 => Self::RetainAvailable,
            0x26 => Self::UserProperty,
            0x27 => Self::MaximumPacketSize,
            0x28 => Self::WildcardSubscriptionAvailable,
            0x29 => Self::SubscriptionIdentifiersAvailable,
            0x2A => Self::SharedSubscriptionAvailable,
            _ => return None,
        })
    }

    /// The specification's name of the property.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PayloadFormatIndicator => "Payload Format Indicator",
            Self::MessageExpiryInterval => "Message Expiry Interval",
            Self::ContentType => "Content Type",
            Self::ResponseTopic => "Response Topic",
            Self::CorrelationData => "Correlation Data",
            Self::SubscriptionIdentifier => "Subscription Identifier",
            Self::SessionExpiryInterval => "Session Expiry Interval",
            Self::AssignedClientIdentifier => "Assigned Client Identifier",
            Self::ServerKeepAlive => "Server Keep Alive",
            Self::AuthenticationMethod => "Authentication Method",
            Self::AuthenticationData => "Authentication Data",
            Self::RequestProblemInformation => "Request Problem Information",
            Self::WillDelayInterval => "Will Delay Interval",
            Self::RequestResponseInformation => "Request Response Information",
            Self::ResponseInformation => "Response Information",
            Self::ServerReference => "Server Reference",
            Self::ReasonString => "Reason String",
            Self::ReceiveMaximum => "Receive Maximum",
            Self::TopicAliasMaximum => "Topic Alias Maximum",
            Self::TopicAlias => "Topic Alias",
            Self::MaximumQos => "Maximum QoS",
            Self::RetainAvailable => "Retain Available",
            Self::UserProperty => "User Property",
            Self::MaximumPacketSize => "Maximum Packet Size",
            Self::WildcardSubscriptionAvailable => "Wildcard Subscription Available",
            Self::SubscriptionIdentifiersAvailable => "Subscription Identifiers Available",
            Self::SharedSubscriptionAvailable => "Shared Subscription Available",
        }
    }
}

impl fmt::Display for PropertyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
