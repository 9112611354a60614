//! Content: an application message as nodes replicate and store it.
//!
//! ```text
//! version     1 (1)
//! flags       bit 0 expires, bit 1 publisher (1)
//! [0: expires at, Unix ms (8)] [1: client id of the publisher (2 + n)]
//! message     as mqtt::records::message has it, without expiry and number
//! ```
//!
//! A content keeps its bytes, and its parts are slices of them. So it is sent, stored and delivered
//! without another copy of the payload. Its id is a hash of the message alone: the last part of the
//! bytes. What a node adds stands before it.
//!
//! *Invariants*: the bytes are the one encoding of the parts. Equal bytes are equal contents.

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes};
use mqtt::memory::{Held, MessageBytes};
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::records::RecordError;
use mqtt::records::encoding::{Reader, put_short};
use mqtt::records::message::MessageParts;
use protocol::packet::{QoS, Will};
use protocol::properties::MessageProperties;
use protocol::{Text, TopicName};
use session_plane::publishing::ContentId;

use crate::memory;

/// First byte of a content. It is raised with each change of the format, and golden files of the
/// new version are added.
pub const CONTENT_VERSION: u8 = 1;

/// Application message with its publisher and its expiry, as the plane has it. A clone shares it.
#[derive(Debug, Clone)]
pub struct Content(Arc<Inner>);

/// Parts of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentParts {
    /// The message, as its publisher has given it.
    pub message: MessageParts,
    /// End of the Message Expiry Interval in Unix milliseconds. None: the message never expires.
    pub expires_at: Option<u64>,
    /// Client id of the publisher, for No Local. None: the message is of nobody, or of the server.
    pub publisher: Option<Text>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    encoded: Bytes,
    /// Parts that share the memory of the bytes.
    parts: ContentParts,
    /// Place of the message in the bytes.
    message_at: usize,
    /// It costs a hash of the payload, which most messages never need.
    id: OnceLock<ContentId>,
    /// Part of the node's account, from when a queue has the content.
    held: OnceLock<Held>,
}

impl Content {
    /// Content with these parts, in memory of its own.
    pub fn new(parts: &ContentParts) -> Content {
        let publisher = parts.publisher.as_ref().map_or(0, |id| 2 + id.len());
        let head = HEAD + parts.expires_at.map_or(0, |_| 8) + publisher;
        let mut encoded = Vec::with_capacity(head + parts.message.encoded_len());
        encoded.put_u8(CONTENT_VERSION);
        encoded
            .put_u8(flag(parts.expires_at.is_some(), EXPIRES) | flag(parts.publisher.is_some(), PUBLISHER));
        if let Some(at) = parts.expires_at {
            encoded.put_u64(at);
        }
        if let Some(publisher) = &parts.publisher {
            put_short(&mut encoded, publisher.as_bytes());
        }
        parts.message.put(&mut encoded);
        Content::decode(encoded.into()).expect("valid parts have a valid encoding")
    }

    /// Content of a will. Its Message Expiry Interval begins when it is published: see
    /// [`published_at`](Self::published_at). (section 3.1.3.2.4)
    pub fn of_will(will: &Will, publisher: Option<Text>) -> Content {
        let message = MessageParts {
            topic: will.topic.clone(),
            payload: will.payload.clone(),
            properties: will.properties.clone(),
            qos: will.qos,
            retain: will.retain,
        };
        Content::new(&ContentParts {
            message,
            expires_at: None,
            publisher,
        })
    }

    /// Content with these bytes, whose memory it shares.
    ///
    /// # Errors
    ///
    /// [`RecordError`] where they are no content. It names the version, or the part that is wrong.
    pub fn decode(encoded: Bytes) -> Result<Content, RecordError> {
        let mut reader = Reader::of_value(encoded.clone(), RECORD, CONTENT_VERSION)?;
        let flags = reader.u8()?;
        if flags & !(EXPIRES | PUBLISHER) != 0 {
            return Err(reader.damaged("unknown flags"));
        }
        let expires_at = (flags & EXPIRES != 0).then(|| reader.u64()).transpose()?;
        let publisher = (flags & PUBLISHER != 0).then(|| reader.text()).transpose()?;
        let message_at = encoded.len() - reader.left();
        let message = MessageParts::take(&mut reader)?;
        reader.end()?;
        let parts = ContentParts {
            message,
            expires_at,
            publisher,
        };
        Ok(Content(Arc::new(Inner {
            encoded,
            parts,
            message_at,
            id: OnceLock::new(),
            held: OnceLock::new(),
        })))
    }

    /// As [`Content::decode`], in memory of its own: the bytes are part of something larger, which the content
    /// may outlive for long.
    ///
    /// # Errors
    ///
    /// [`RecordError`] where they are no content.
    pub fn decode_part(part: &Bytes) -> Result<Content, RecordError> {
        Content::decode(Bytes::copy_from_slice(part))
    }

    /// Copy of the content with a Message Expiry Interval that begins at `at` Unix milliseconds. A
    /// message without an interval, or with an end of it, stays as it is.
    #[must_use]
    pub fn published_at(&self, at: u64) -> Content {
        match (self.properties().message_expiry, self.expires_at()) {
            (Some(seconds), None) => Content::new(&ContentParts {
                expires_at: Some(at.saturating_add(u64::from(seconds) * 1_000)),
                ..self.0.parts.clone()
            }),
            _ => self.clone(),
        }
    }

    /// Identity of what the publisher has said: topic, payload, properties, QoS and RETAIN. A
    /// PUBLISH that is sent again has the same one, although it expires later.
    ///
    /// It is BLAKE3, cut to 128 bits: publishers choose payloads, and no two may share an id.
    pub fn id(&self) -> ContentId {
        *self.0.id.get_or_init(|| {
            let hash = blake3::hash(&self.0.encoded[self.0.message_at..]);
            let (id, _) = hash.as_bytes().split_first_chunk().expect("32 bytes");
            ContentId(u128::from_be_bytes(*id))
        })
    }

    /// The message for delivery, as it would be found after a restart. It shares the memory of the
    /// content.
    pub fn to_message(&self, now: Now) -> Message {
        let parts = &self.0.parts;
        parts.message.clone().into_message(parts.expires_at, now)
    }

    /// Bytes of the content, which share its memory.
    pub fn encoded(&self) -> &Bytes {
        &self.0.encoded
    }

    /// Parts of the content, which share its memory.
    pub fn parts(&self) -> &ContentParts {
        &self.0.parts
    }

    /// Topic that the message is published to.
    pub fn topic(&self) -> &TopicName {
        &self.0.parts.message.topic
    }

    /// Payload.
    pub fn payload(&self) -> &Bytes {
        &self.0.parts.message.payload
    }

    /// Properties as they were received.
    pub fn properties(&self) -> &MessageProperties {
        &self.0.parts.message.properties
    }

    /// QoS as published.
    pub fn qos(&self) -> QoS {
        self.0.parts.message.qos
    }

    /// RETAIN as published.
    pub fn retain(&self) -> bool {
        self.0.parts.message.retain
    }

    /// End of the Message Expiry Interval in Unix milliseconds. None: the message never expires.
    pub fn expires_at(&self) -> Option<u64> {
        self.0.parts.expires_at
    }

    /// Client id of the publisher, for No Local.
    pub fn publisher(&self) -> Option<&Text> {
        self.0.parts.publisher.as_ref()
    }

    /// Memory of the content, with its parts. It is equal on every node.
    pub fn memory(&self) -> usize {
        memory::CONTENT + self.0.encoded.len()
    }

    /// Counts the content in an account, once, until nobody has it any more.
    pub fn count_in(&self, account: &MessageBytes) {
        self.0.held.get_or_init(|| account.hold(self.memory() as u64));
    }

    /// Bytes for which the content counts in a queue: topic, payload, properties, and a fixed amount.
    pub fn queue_bytes(&self) -> u64 {
        mqtt::message::size(self.topic().as_str(), self.payload(), self.properties()) as u64
    }

    /// Appends the digest of the content, which does not depend on the version of its encoding.
    pub(crate) fn append_digest(&self, out: &mut Vec<u8>) {
        out.put_u128(self.id().0);
        out.put_u8(u8::from(self.expires_at().is_some()));
        out.put_u64(self.expires_at().unwrap_or(0));
        out.put_u8(u8::from(self.publisher().is_some()));
        put_short(out, self.publisher().map_or(&[], |id| id.as_bytes()));
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Content) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.encoded == other.0.encoded
    }
}

impl Eq for Content {}

/// The order of the bytes. It has no other meaning.
impl Ord for Content {
    fn cmp(&self, other: &Content) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        self.0.encoded.cmp(&other.0.encoded)
    }
}

impl PartialOrd for Content {
    fn partial_cmp(&self, other: &Content) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

const EXPIRES: u8 = 1;
const PUBLISHER: u8 = 2;
/// Bytes of version and flags.
const HEAD: usize = 2;
const RECORD: &str = "content";
