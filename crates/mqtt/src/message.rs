//! Application messages and what is made of them for each receiver.
//!
//! A [`Message`] is one publication; it is shared by everything that holds it. A [`Delivery`] is one receiver's copy:
//! the shared message and what differs between receivers. Neither knows a packet identifier: the session plane grants one
//! when the delivery is sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::packet::{Publish, QoS, SubscriptionId, Will};
use protocol::properties::{MessageProperties, UserProperties};
use protocol::{Text, TopicName};
use smallvec::SmallVec;

use crate::ids::SessionKey;
use crate::memory::footprint::{block, properties, text};
use crate::memory::{Held, MessageBytes};
use crate::now::Now;

/// An application message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Where it was published to.
    pub topic: TopicName,
    /// What it says.
    pub payload: Bytes,
    /// Its properties as they were received.
    pub properties: MessageProperties,
    /// As published.
    pub qos: QoS,
    /// As published.
    pub retain: bool,
    /// Whose message it is, for No Local; `None` for wills, for the server's own and after a restart.
    pub publisher: Option<SessionKey>,
    /// When its Message Expiry Interval has passed.
    pub expires_at: Option<Instant>,
    /// When this node received it.
    pub received_at: Instant,
    /// Its place in the node's account of memory.
    pub held: Held,
}

/// A message for one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// What is delivered.
    pub message: Arc<Message>,
    /// The lower of the message's and the subscription's. [MQTT-3.8.4-8]
    pub qos: QoS,
    /// The RETAIN flag to send. [MQTT-3.3.1-12] [MQTT-3.3.1-13]
    pub retain: bool,
    /// Of the subscriptions that matched. [MQTT-3.3.4-3] [MQTT-3.3.4-4]
    pub subscription_ids: SmallVec<[SubscriptionId; 1]>,
    /// Limit of the queue that counts it.
    pub kind: DeliveryKind,
    /// It may have been sent before. [MQTT-3.3.1-1]
    pub dup: bool,
}

/// Kind of a delivery in a session's queue. All kinds wait in one order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryKind {
    /// Message of a client or of the server, or a copy of what another client is told.
    Message,
    /// Reply of the state store to the client that asked. Never dropped for the queue's limits.
    Reply,
    /// Notification of a key that the client watches. One that has no place ends the connection.
    Notification,
}

impl Message {
    /// The message of a received PUBLISH, whose topic alias has been resolved to `topic`.
    pub fn from_publish(publish: Publish, topic: TopicName, publisher: Option<SessionKey>, now: Now) -> Self {
        let expires_at = deadline(&publish.properties, now);
        Self {
            topic,
            payload: publish.payload,
            properties: publish.properties,
            qos: publish.qos,
            retain: publish.retain,
            publisher,
            expires_at,
            received_at: now.instant,
            held: Held::default(),
        }
    }

    /// A retained message of the server itself, which is of the moment: nobody's queue is for it.
    pub fn of_server(topic: TopicName, payload: Bytes, now: Now) -> Self {
        Self {
            topic,
            payload,
            properties: MessageProperties::default(),
            qos: QoS::AtMostOnce,
            retain: true,
            publisher: None,
            expires_at: None,
            received_at: now.instant,
            held: Held::default(),
        }
    }

    /// The message of a will that is published now. Its expiry interval starts here. (section 3.1.3.2.4)
    pub fn from_will(will: Will, publisher: Option<SessionKey>, now: Now) -> Self {
        let expires_at = deadline(&will.properties, now);
        Self {
            topic: will.topic,
            payload: will.payload,
            properties: will.properties,
            qos: will.qos,
            retain: will.retain,
            publisher,
            expires_at,
            received_at: now.instant,
            held: Held::default(),
        }
    }

    /// Whether it may not be sent any more. [MQTT-3.3.2-5]
    pub fn is_expired(&self, now: Now) -> bool {
        self.expires_at.is_some_and(|at| at <= now.instant)
    }

    /// The Message Expiry Interval to send: what is left of the received one, in whole seconds begun, so that a
    /// message that is forwarded at once has the interval it came with. [MQTT-3.3.2-6]
    pub fn remaining_expiry(&self, now: Now) -> Option<u32> {
        let left = self.expires_at?.saturating_duration_since(now.instant);
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        Some(u32::try_from(seconds).unwrap_or(u32::MAX))
    }

    /// The properties to send now.
    pub fn properties_now(&self, now: Now) -> MessageProperties {
        MessageProperties {
            message_expiry: self.remaining_expiry(now),
            ..self.properties.clone()
        }
    }

    /// What it counts for where bytes are limited: everything of variable length, and a fixed amount for the rest.
    pub fn size(&self) -> usize {
        size(self.topic.as_str(), &self.payload, &self.properties)
    }

    /// The same message, counted as long as anybody has it.
    #[must_use]
    pub fn counted(mut self, messages: &MessageBytes) -> Self {
        self.held = messages.hold(self.memory());
        self
    }

    /// Its memory, in which it is the only one.
    pub fn memory(&self) -> u64 {
        block(size_of::<Self>() + 2 * size_of::<usize>())
            + text(self.topic.text())
            + block(self.payload.len())
            + properties(&self.properties)
    }

    /// The same message in memory of its own. A received message shares the receive buffer's memory and keeps all of
    /// it alive, so what is kept for long is detached first.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self {
            topic: self.topic.detached(),
            payload: Bytes::copy_from_slice(&self.payload),
            properties: detached_properties(&self.properties),
            ..self.clone()
        }
    }
}

impl Delivery {
    /// What it counts for where bytes are limited.
    pub fn size(&self) -> usize {
        self.message.size() + self.subscription_ids_bytes()
    }

    /// Its memory besides its place and its message.
    pub(crate) fn own_bytes(&self) -> u64 {
        block(self.subscription_ids_bytes())
    }

    /// One has room in the struct, more of them have memory of their own.
    fn subscription_ids_bytes(&self) -> usize {
        if self.subscription_ids.spilled() {
            self.subscription_ids.capacity() * size_of::<SubscriptionId>()
        } else {
            0
        }
    }
}

/// The [size](Message::size) of a message with these parts.
pub fn size(topic: &str, payload: &Bytes, properties: &MessageProperties) -> usize {
    let text = |text: &Option<Text>| text.as_ref().map_or(0, |text| text.len());
    FIXED_SIZE
        + topic.len()
        + payload.len()
        + text(&properties.content_type)
        + text(&properties.response_topic)
        + properties.correlation_data.as_ref().map_or(0, Bytes::len)
        + properties.user_properties.encoded().len()
}

fn deadline(properties: &MessageProperties, now: Now) -> Option<Instant> {
    let interval = properties.message_expiry?;
    Some(now.after(Duration::from_secs(u64::from(interval))))
}

/// The same properties in memory of their own.
pub(crate) fn detached_properties(properties: &MessageProperties) -> MessageProperties {
    let detached = |text: &Option<Text>| text.as_ref().map(Text::detached);
    let correlation_data = properties.correlation_data.as_ref();
    MessageProperties {
        content_type: detached(&properties.content_type),
        response_topic: detached(&properties.response_topic),
        correlation_data: correlation_data.map(|data| Bytes::copy_from_slice(data)),
        user_properties: detached_user_properties(&properties.user_properties),
        ..properties.clone()
    }
}

fn detached_user_properties(properties: &UserProperties) -> UserProperties {
    if properties.is_empty() {
        UserProperties::EMPTY
    } else {
        properties.detached()
    }
}

/// The memory of a message and of a place in a queue, in bytes, without what is of variable length.
const FIXED_SIZE: usize = 256;
