//! PUBLISH (MQTT 5.0 section 3.3).

use std::num::NonZeroU16;

use bytes::Bytes;
use smallvec::SmallVec;

use super::{PacketId, QoS, SubscriptionId};
use crate::properties::MessageProperties;
use crate::text::Text;

/// A topic alias: never zero. [MQTT-3.3.2-8]
pub type TopicAlias = NonZeroU16;

/// PUBLISH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    /// Re-delivery of an earlier attempt.
    pub dup: bool,
    /// Quality of service.
    pub qos: QoS,
    /// From a client: keep it as the topic's retained message. To a client: it was one.
    pub retain: bool,
    /// A valid topic name, or empty if `topic_alias` stands for one.
    pub topic: Text,
    /// Present exactly if `qos` is not 0. [MQTT-2.2.1-2]
    pub packet_id: Option<PacketId>,
    /// Topic Alias.
    pub topic_alias: Option<TopicAlias>,
    /// Subscription Identifiers, to clients only.
    pub subscription_ids: SmallVec<[SubscriptionId; 1]>,
    /// Properties of the message itself.
    pub properties: MessageProperties,
    /// What it says.
    pub payload: Bytes,
}
