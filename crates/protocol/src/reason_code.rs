//! Reason codes of MQTT 5.0 (section 2.4) and the return codes of MQTT 3.1.1 they stand for.

use std::fmt;

/// Says how an operation ended. Below 0x80: success; from 0x80: failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum ReasonCode {
    /// Also Normal disconnection and Granted QoS 0.
    Success = 0x00,
    GrantedQos1 = 0x01,
    GrantedQos2 = 0x02,
    DisconnectWithWillMessage = 0x04,
    NoMatchingSubscribers = 0x10,
    NoSubscriptionExisted = 0x11,
    ContinueAuthentication = 0x18,
    Reauthenticate = 0x19,
    UnspecifiedError = 0x80,
    MalformedPacket = 0x81,
    ProtocolError = 0x82,
    ImplementationSpecificError = 0x83,
    UnsupportedProtocolVersion = 0x84,
    ClientIdentifierNotValid = 0x85,
    BadUserNameOrPassword = 0x86,
    NotAuthorized = 0x87,
    ServerUnavailable = 0x88,
    ServerBusy = 0x89,
    Banned = 0x8A,
    ServerShuttingDown = 0x8B,
    BadAuthenticationMethod = 0x8C,
    KeepAliveTimeout = 0x8D,
    SessionTakenOver = 0x8E,
    TopicFilterInvalid = 0x8F,
    TopicNameInvalid = 0x90,
    PacketIdentifierInUse = 0x91,
    PacketIdentifierNotFound = 0x92,
    ReceiveMaximumExceeded = 0x93,
    TopicAliasInvalid = 0x94,
    PacketTooLarge = 0x95,
    MessageRateTooHigh = 0x96,
    QuotaExceeded = 0x97,
    AdministrativeAction = 0x98,
    PayloadFormatInvalid = 0x99,
    RetainNotSupported = 0x9A,
    QosNotSupported = 0x9B,
    UseAnotherServer = 0x9C,
    ServerMoved = 0x9D,
    SharedSubscriptionsNotSupported = 0x9E,
    ConnectionRateExceeded = 0x9F,
    MaximumConnectTime = 0xA0,
    SubscriptionIdentifiersNotSupported = 0xA1,
    WildcardSubscriptionsNotSupported = 0xA2,
}

/// A byte that is no reason code of MQTT 5.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0:#04x} is no reason code")]
pub struct UnknownReasonCode(pub u8);

impl ReasonCode {
    /// True from 0x80 on: the operation failed.
    pub const fn is_error(self) -> bool {
        self as u8 >= 0x80
    }

    /// The return code of a 3.1.1 CONNACK (section 3.2.2.3 there) that comes closest.
    ///
    /// 3.1.1 knows five failures only; what is neither about the version, the client identifier nor the
    /// client's rights becomes 3, Server unavailable.
    pub const fn to_v311_connack(self) -> u8 {
        match self {
            Self::UnsupportedProtocolVersion => 1,
            Self::ClientIdentifierNotValid => 2,
            Self::BadUserNameOrPassword => 4,
            Self::NotAuthorized | Self::Banned | Self::BadAuthenticationMethod => 5,
            code if code.is_error() => 3,
            _ => 0,
        }
    }

    /// What a 3.1.1 CONNACK's return code says; `None` for the reserved ones.
    pub const fn from_v311_connack(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Success,
            1 => Self::UnsupportedProtocolVersion,
            2 => Self::ClientIdentifierNotValid,
            3 => Self::ServerUnavailable,
            4 => Self::BadUserNameOrPassword,
            5 => Self::NotAuthorized,
            _ => return None,
        })
    }

    /// The return code of a 3.1.1 SUBACK: the granted QoS, or 0x80 for any failure.
    pub const fn to_v311_suback(self) -> u8 {
        match self {
            Self::GrantedQos1 => 1,
            Self::GrantedQos2 => 2,
            code if code.is_error() => 0x80,
            _ => 0,
        }
    }

    /// The specification's name of the code.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::GrantedQos1 => "Granted QoS 1",
            Self::GrantedQos2 => "Granted QoS 2",
            Self::DisconnectWithWillMessage => "Disconnect with Will Message",
            Self::NoMatchingSubscribers => "No matching subscribers",
            Self::NoSubscriptionExisted => "No subscription existed",
            Self::ContinueAuthentication => "Continue authentication",
            Self::Reauthenticate => "Re-authenticate",
            Self::UnspecifiedError => "Unspecified error",
            Self::MalformedPacket => "Malformed Packet",
            Self::ProtocolError => "Protocol Error",
            Self::ImplementationSpecificError => "Implementation specific error",
            Self::UnsupportedProtocolVersion => "Unsupported Protocol Version",
            Self::ClientIdentifierNotValid => "Client Identifier not valid",
            Self::BadUserNameOrPassword => "Bad User Name or Password",
            Self::NotAuthorized => "Not authorized",
            Self::ServerUnavailable => "Server unavailable",
            Self::ServerBusy => "Server busy",
            Self::Banned => "Banned",
            Self::ServerShuttingDown => "Server shutting down",
            Self::BadAuthenticationMethod => "Bad authentication method",
            Self::KeepAliveTimeout => "Keep Alive timeout",
            Self::SessionTakenOver => "Session taken over",
            Self::TopicFilterInvalid => "Topic Filter invalid",
            Self::TopicNameInvalid => "Topic Name invalid",
            Self::PacketIdentifierInUse => "Packet Identifier in use",
            Self::PacketIdentifierNotFound => "Packet Identifier not found",
            Self::ReceiveMaximumExceeded => "Receive Maximum exceeded",
            Self::TopicAliasInvalid => "Topic Alias invalid",
            Self::PacketTooLarge => "Packet too large",
            Self::MessageRateTooHigh => "Message rate too high",
            Self::QuotaExceeded => "Quota exceeded",
            Self::AdministrativeAction => "Administrative action",
            Self::PayloadFormatInvalid => "Payload format invalid",
            Self::RetainNotSupported => "Retain not supported",
            Self::QosNotSupported => "QoS not supported",
            Self::UseAnotherServer => "Use another server",
            Self::ServerMoved => "Server moved",
            Self::SharedSubscriptionsNotSupported => "Shared Subscriptions not supported",
            Self::ConnectionRateExceeded => "Connection rate exceeded",
            Self::MaximumConnectTime => "Maximum connect time",
            Self::SubscriptionIdentifiersNotSupported => "Subscription Identifiers not supported",
            Self::WildcardSubscriptionsNotSupported => "Wildcard Subscriptions not supported",
        }
    }
}

impl TryFrom<u8> for ReasonCode {
    type Error = UnknownReasonCode;

    fn try_from(code: u8) -> Result<Self, UnknownReasonCode> {
        Ok(match code {
            0x00 => Self::Success,
            0x01 => Self::GrantedQos1,
            0x02 => Self::GrantedQos2,
            0x04 => Self::DisconnectWithWillMessage,
            0x10 => Self::NoMatchingSubscribers,
            0x11 => Self::NoSubscriptionExisted,
            0x18 => Self::ContinueAuthentication,
            0x19 => Self::Reauthenticate,
            0x80 => Self::UnspecifiedError,
            0x81 => Self::MalformedPacket,
            0x82 => Self::ProtocolError,
            0x83 => Self::ImplementationSpecificError,
            0x84 => Self::UnsupportedProtocolVersion,
            0x85 => Self::ClientIdentifierNotValid,
            0x86 => Self::BadUserNameOrPassword,
            0x87 => Self::NotAuthorized,
            0x88 => Self::ServerUnavailable,
            0x89 => Self::ServerBusy,
            0x8A => Self::Banned,
            0x8B => Self::ServerShuttingDown,
            0x8C => Self::BadAuthenticationMethod,
            0x8D => Self::KeepAliveTimeout,
            0x8E => Self::SessionTakenOver,
            0x8F => Self::TopicFilterInvalid,
            0x90 => Self::TopicNameInvalid,
            0x91 => Self::PacketIdentifierInUse,
            0x92 => Self::PacketIdentifierNotFound,
            0x93 => Self::ReceiveMaximumExceeded,
            0x94 => Self::TopicAliasInvalid,
            0x95 => Self::PacketTooLarge,
            0x96 => Self::MessageRateTooHigh,
            0x97 => Self::QuotaExceeded,
            0x98 => Self::AdministrativeAction,
            0x99 => Self::PayloadFormatInvalid,
            0x9A => Self::RetainNotSupported,
            0x9B => Self::QosNotSupported,
            0x9C => Self::UseAnotherServer,
            0x9D => Self::ServerMoved,
            0x9E => Self::SharedSubscriptionsNotSupported,
            0x9F => Self::ConnectionRateExceeded,
            0xA0 => Self::MaximumConnectTime,
            0xA1 => Self::SubscriptionIdentifiersNotSupported,
            0xA2 => Self::WildcardSubscriptionsNotSupported,
            _ => return Err(UnknownReasonCode(code)),
        })
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_comes_back_from_its_byte() {
        let codes: Vec<ReasonCode> = (0..=u8::MAX)
            .filter_map(|byte| ReasonCode::try_from(byte).ok())
            .collect();

        assert_eq!(codes.len(), 43);
        for code in codes {
            assert_eq!(ReasonCode::try_from(code as u8), Ok(code));
            assert_eq!(code.is_error(), code as u8 & 0x80 != 0);
        }
        assert_eq!(ReasonCode::try_from(0x03), Err(UnknownReasonCode(0x03)));
        assert_eq!(UnknownReasonCode(0x03).to_string(), "0x03 is no reason code");
    }

    #[test]
    fn return_codes_of_3_1_1_map_both_ways() {
        for code in 0..=5 {
            let reason = ReasonCode::from_v311_connack(code).unwrap();
            assert_eq!(reason.to_v311_connack(), code);
        }
        assert_eq!(ReasonCode::from_v311_connack(6), None);
        assert_eq!(ReasonCode::QuotaExceeded.to_v311_connack(), 3);
        assert_eq!(ReasonCode::Banned.to_v311_connack(), 5);
        assert_eq!(ReasonCode::NotAuthorized.to_v311_suback(), 0x80);
        assert_eq!(ReasonCode::GrantedQos2.to_v311_suback(), 2);
        assert_eq!(ReasonCode::Success.to_v311_suback(), 0);
    }

    #[test]
    fn display_is_the_name_in_the_specification() {
        assert_eq!(
            ReasonCode::BadUserNameOrPassword.to_string(),
            "Bad User Name or Password"
        );
        assert_eq!(ReasonCode::Reauthenticate.to_string(), "Re-authenticate");
    }
}
