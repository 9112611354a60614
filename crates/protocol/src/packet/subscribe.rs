//! SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK (MQTT 5.0 sections 3.8 to 3.11).

use std::num::NonZeroU32;

use super::{PacketId, QoS};
use crate::properties::{Explanation, UserProperties};
use crate::reason_code::ReasonCode;
use crate::text::Text;

/// A subscription identifier: 1 to 268,435,455.
pub type SubscriptionId = NonZeroU32;

/// SUBSCRIBE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribe {
    /// Answered with the same.
    pub packet_id: PacketId,
    /// Subscription Identifier.
    pub subscription_id: Option<SubscriptionId>,
    /// User properties.
    pub user_properties: UserProperties,
    /// At least one. [MQTT-3.8.3-2]
    pub filters: Vec<SubscribeFilter>,
}

impl Subscribe {
    /// SUBSCRIBE with the same Maximum QoS for each filter, and without further options and properties.
    pub fn new(packet_id: PacketId, qos: QoS, filters: impl IntoIterator<Item = Text>) -> Self {
        let options = SubscriptionOptions {
            qos,
            ..SubscriptionOptions::default()
        };
        let filters = filters.into_iter();
        Self {
            packet_id,
            subscription_id: None,
            user_properties: UserProperties::EMPTY,
            filters: filters
                .map(|filter| SubscribeFilter { filter, options })
                .collect(),
        }
    }
}

/// One line of a SUBSCRIBE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscribeFilter {
    /// As sent: may turn out not to be a topic filter, which fails this line only (0x8F).
    pub filter: Text,
    /// How.
    pub options: SubscriptionOptions,
}

/// Subscription options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SubscriptionOptions {
    /// Maximum QoS.
    pub qos: QoS,
    /// Not messages that this client published.
    pub no_local: bool,
    /// Keep the RETAIN flag of forwarded messages. Version 3.1.1: false.
    pub retain_as_published: bool,
    /// Which retained messages to send at subscribe time.
    pub retain_handling: RetainHandling,
}

/// Which retained messages to send when a subscription is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum RetainHandling {
    /// All that match.
    #[default]
    Send = 0,
    /// All that match, if the subscription is new.
    SendIfNew = 1,
    /// None.
    DoNotSend = 2,
}

/// SUBACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubAck {
    /// Of the SUBSCRIBE.
    pub packet_id: PacketId,
    /// Reason String and user properties.
    pub explanation: Explanation,
    /// One for each filter, in order. [MQTT-3.8.4-6]
    pub reasons: Vec<ReasonCode>,
}

/// UNSUBSCRIBE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsubscribe {
    /// Answered with the same.
    pub packet_id: PacketId,
    /// User properties.
    pub user_properties: UserProperties,
    /// At least one. [MQTT-3.10.3-2]
    pub filters: Vec<Text>,
}

/// UNSUBACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsubAck {
    /// Of the UNSUBSCRIBE.
    pub packet_id: PacketId,
    /// Reason String and user properties.
    pub explanation: Explanation,
    /// One for each filter, in order. Not sent to 3.1.1.
    pub reasons: Vec<ReasonCode>,
}
