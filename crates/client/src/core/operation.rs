//! What a caller can ask a session for, and how that ends.

use bytes::Bytes;
use protocol::hlc::Hlc;
use protocol::packet::{Publish, QoS, SubscribeFilter};
use protocol::properties::MessageProperties;
use protocol::state_store::{Notification, Reply, Request};
use protocol::topic::TopicNameError;
use protocol::{ReasonCode, Text, TopicName};

/// Names one submitted operation; chosen by the caller, unique within a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// Names one receiver of messages; chosen by the caller, unique within a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// Names one delivery to the caller that waits to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub u64);

/// An application message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Where it goes, or came in.
    pub topic: TopicName,
    /// What it says.
    pub payload: Bytes,
    /// Quality of service.
    pub qos: QoS,
    /// To the server: keep it as the topic's retained message. From the server: it was one.
    pub retain: bool,
    /// The server may have sent it before; never set by callers.
    pub dup: bool,
    /// Properties that the receivers see.
    pub properties: MessageProperties,
}

/// What a session does for its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Publishes a message; done when the server has acknowledged it (QoS 0: when it is on its way).
    Publish(Message),
    /// Makes a subscription whose messages go to `stream`; it is made again when the server lost the session.
    Subscribe {
        /// Receives the messages.
        stream: StreamId,
        /// At least one.
        filters: Vec<SubscribeFilter>,
    },
    /// Ends the subscription of `stream`.
    Unsubscribe {
        /// As given to [`Operation::Subscribe`].
        stream: StreamId,
    },
    /// Sends a request to the state store. KEYNOTIFY is [`Operation::Watch`].
    Store {
        /// The request.
        request: Request,
        /// The fencing token (`__ft`) of SET, DEL and VDEL.
        fencing: Option<Hlc>,
    },
    /// Reports the changes of a key to `stream`; registered again after every reconnect.
    Watch {
        /// Receives the changes.
        stream: StreamId,
        /// The key.
        key: Bytes,
    },
    /// Ends what [`Operation::Watch`] began.
    Unwatch {
        /// As given to [`Operation::Watch`].
        stream: StreamId,
    },
}

/// How an operation ended well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The message is with the server; a reason code below 0x80.
    Published(ReasonCode),
    /// The server's answer to each filter: the granted QoS, or why not.
    Subscribed(Vec<ReasonCode>),
    /// The subscription is gone.
    Unsubscribed,
    /// The state store's reply.
    Replied {
        /// What it says; may be an error of the store.
        reply: Reply,
        /// `__ts` of the reply.
        version: Option<Hlc>,
    },
    /// Changes from here on are reported.
    Watching,
    /// No change is reported any more.
    Unwatched,
}

/// Why an operation did not end well.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// As many operations as allowed are under way; nothing was sent.
    #[error("too many operations are under way")]
    QueueFull,
    /// No answer in time. Whether the server executed it is unknown.
    #[error("no answer in time")]
    TimedOut,
    /// The session has ended; whether the server executed it is unknown.
    #[error("the connection has ended")]
    Ended,
    /// The server lost the session while the exactly-once delivery was under way: its fate is unknown.
    #[error("the server lost the session during an exactly-once delivery")]
    SessionLost,
    /// The server said no; nothing changed.
    #[error("refused by the server: {reason:?}{}", explained(.explanation.as_ref()))]
    Refused {
        /// Why.
        reason: ReasonCode,
        /// The server's words.
        explanation: Option<Text>,
    },
    /// Larger than the server takes; nothing was sent.
    #[error("the packet has {size} bytes, the server takes {limit}")]
    TooLarge {
        /// In bytes.
        size: usize,
        /// In bytes.
        limit: u32,
    },
    /// The server's CONNACK said that it cannot do this; nothing was sent.
    #[error("the server does not support {feature}")]
    NotSupported {
        /// What it lacks.
        feature: &'static str,
    },
    /// The state store said no, for a reason that this version has no name for.
    #[error("refused by the state store: {text}")]
    RefusedByStore {
        /// The server's words.
        text: String,
    },
    /// The reply is not one of the state store protocol.
    #[error("the reply is not one of the state store protocol")]
    MalformedReply,
    /// The state store speaks another version of the protocol (`__stat` other than 200).
    #[error("the state store answered with status {status}")]
    Status {
        /// `__stat` as sent.
        status: Text,
    },
}

fn explained(explanation: Option<&Text>) -> String {
    explanation.map(|text| format!(" ({text})")).unwrap_or_default()
}

/// A text that cannot be the topic of a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{topic:?} is not a topic name: {cause}")]
pub struct TopicError {
    /// As given.
    pub topic: String,
    /// Why not.
    pub cause: TopicNameError,
}

/// What a stream receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A message of a subscription.
    Message(Message),
    /// A change of a watched key.
    Change {
        /// What happened to it.
        change: Notification,
        /// The version of the change.
        version: Option<Hlc>,
    },
    /// The connection was lost and the watch is registered again: changes in between were not seen.
    Gap,
}

impl Message {
    /// A QoS 1 message with no properties.
    pub fn new(topic: TopicName, payload: impl Into<Bytes>) -> Self {
        Self {
            topic,
            payload: payload.into(),
            qos: QoS::AtLeastOnce,
            retain: false,
            dup: false,
            properties: MessageProperties::default(),
        }
    }

    /// A QoS 1 message with no properties to the topic of this name.
    pub fn to(topic: &str, payload: impl Into<Bytes>) -> Result<Self, TopicError> {
        let refused = |cause| TopicError {
            topic: topic.to_owned(),
            cause,
        };
        let text = Text::new(topic).map_err(|_| refused(TopicNameError::Empty))?;
        Ok(Self::new(TopicName::parse(text).map_err(refused)?, payload))
    }

    /// The same message with another quality of service.
    #[must_use]
    pub fn with_qos(mut self, qos: QoS) -> Self {
        self.qos = qos;
        self
    }

    /// The same message, to be kept as the retained message of its topic.
    #[must_use]
    pub fn retained(mut self) -> Self {
        self.retain = true;
        self
    }

    pub(super) fn received(publish: Publish) -> Option<Self> {
        Some(Self {
            topic: TopicName::parse(publish.topic).ok()?,
            payload: publish.payload,
            qos: publish.qos,
            retain: publish.retain,
            dup: publish.dup,
            properties: publish.properties,
        })
    }
}
