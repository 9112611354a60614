//! Messages inside records: of queues, retained messages and wills.
//!
//! ```text
//! flags (2): bits 0-1 QoS, 2 RETAIN, 3 payload format present, 4 payload is UTF-8, 5 to 11 the optional parts below
//! topic (2 + n) payload (4 + n)
//! [5: expiry interval, seconds (4)] [6: expires at, Unix ms (8)] [7: content type (2 + n)] [8: response topic (2 + n)]
//! [9: correlation data (2 + n)] [10: user properties as on the wire (4 + n)] [11: node, run, number of the message, each in 7 bits per byte]
//! ```

use std::num::NonZeroU64;

use bytes::{BufMut, Bytes};
use protocol::packet::{QoS, Will};
use protocol::properties::{MessageProperties, UserProperties};
use protocol::{Text, TopicName};

use super::RecordError;
use super::encoding::{Reader, put_long, put_short};
use crate::memory::Held;
use crate::message::Message;
use crate::now::Now;

/// Parts of a message that its publisher has given it.
///
/// Its form has neither a moment of expiry nor a number, so messages that say the same have the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageParts {
    /// Topic that it is published to.
    pub topic: TopicName,
    /// Payload.
    pub payload: Bytes,
    /// Properties as they were received.
    pub properties: MessageProperties,
    /// QoS as published.
    pub qos: QoS,
    /// RETAIN as published.
    pub retain: bool,
}

/// A message as it is stored.
struct Stored {
    parts: MessageParts,
    /// Unix milliseconds.
    expires_at: Option<u64>,
    /// It has a number, of a build that gave them.
    has_number: bool,
}

impl MessageParts {
    /// Appends the parts.
    pub fn put(&self, out: &mut Vec<u8>) {
        put(
            out,
            (self.qos, self.retain),
            (&self.topic, &self.payload),
            &self.properties,
            None,
        );
    }

    /// Bytes that [`put`](Self::put) appends.
    pub fn encoded_len(&self) -> usize {
        let short = |bytes: Option<usize>| bytes.map_or(0, |bytes| 2 + bytes);
        let text = |text: &Option<Text>| short(text.as_ref().map(|text| text.len()));
        let properties = &self.properties;
        let user_properties = properties.user_properties.encoded().len();
        FLAGS_BYTES
            + short(Some(self.topic.as_str().len()))
            + (4 + self.payload.len())
            + properties.message_expiry.map_or(0, |_| 4)
            + text(&properties.content_type)
            + text(&properties.response_topic)
            + short(properties.correlation_data.as_ref().map(Bytes::len))
            + if user_properties == 0 {
                0
            } else {
                4 + user_properties
            }
    }

    /// Reads parts, which share the memory of the record.
    ///
    /// # Errors
    /// If there are none, or if they are written otherwise than [`put`](Self::put) does it.
    pub fn take(reader: &mut Reader) -> Result<Self, RecordError> {
        let stored = stored(reader)?;
        if stored.expires_at.is_some() || stored.has_number {
            return Err(reader.damaged("a message says more than its publisher did"));
        }
        Ok(stored.parts)
    }

    /// The message as it would be found after a restart: without publisher. `expires_at` is in Unix
    /// milliseconds.
    pub fn into_message(self, expires_at: Option<u64>, now: Now) -> Message {
        Message {
            topic: self.topic,
            payload: self.payload,
            properties: self.properties,
            qos: self.qos,
            retain: self.retain,
            publisher: None,
            expires_at: expires_at.map(|wall| now.instant_of(wall)),
            received_at: now.instant,
            held: Held::default(),
        }
    }
}

/// Appends a message.
pub(crate) fn put_message(out: &mut Vec<u8>, message: &Message, now: Now) {
    let expires_at = message.expires_at.map(|at| now.wall_of(at));
    put(
        out,
        (message.qos, message.retain),
        (&message.topic, &message.payload),
        &message.properties,
        expires_at,
    );
}

/// Reads a message; it has no publisher any more.
pub(crate) fn message(reader: &mut Reader, now: Now) -> Result<Message, RecordError> {
    message_with_number(reader, now).map(|(message, _)| message)
}

/// Reads a message, and whether it has a number.
pub(crate) fn message_with_number(reader: &mut Reader, now: Now) -> Result<(Message, bool), RecordError> {
    let stored = stored(reader)?;
    let message = stored.parts.into_message(stored.expires_at, now);
    Ok((message, stored.has_number))
}

/// Reads a message only to see that it is one.
pub(crate) fn check(reader: &mut Reader) -> Result<(), RecordError> {
    stored(reader).map(|_| ())
}

/// Appends a will.
pub(crate) fn put_will(out: &mut Vec<u8>, will: &Will) {
    out.put_u8(u8::from(will.delay.is_some()));
    out.put_u32(will.delay.unwrap_or(0));
    put(
        out,
        (will.qos, will.retain),
        (&will.topic, &will.payload),
        &will.properties,
        None,
    );
}

/// Reads a will.
pub(crate) fn will(reader: &mut Reader) -> Result<Will, RecordError> {
    let has_delay = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return Err(reader.damaged("a flag is not 0 or 1")),
    };
    let delay = Some(reader.u32()?).filter(|_| has_delay);
    let parts = stored(reader)?.parts;
    Ok(Will {
        topic: parts.topic,
        payload: parts.payload,
        qos: parts.qos,
        retain: parts.retain,
        delay,
        properties: parts.properties,
    })
}

fn put(
    out: &mut Vec<u8>,
    (qos, retain): (QoS, bool),
    (topic, payload): (&TopicName, &Bytes),
    properties: &MessageProperties,
    expires_at: Option<u64>,
) {
    let flag = |is_set: bool, bit: u16| u16::from(is_set) << bit;
    let user_properties = properties.user_properties.encoded();
    out.put_u16(
        u16::from(qos as u8)
            | flag(retain, RETAIN)
            | flag(properties.payload_is_utf8.is_some(), FORMAT)
            | flag(properties.payload_is_utf8 == Some(true), UTF8)
            | flag(properties.message_expiry.is_some(), EXPIRY)
            | flag(expires_at.is_some(), EXPIRES_AT)
            | flag(properties.content_type.is_some(), CONTENT_TYPE)
            | flag(properties.response_topic.is_some(), RESPONSE_TOPIC)
            | flag(properties.correlation_data.is_some(), CORRELATION_DATA)
            | flag(!user_properties.is_empty(), USER_PROPERTIES),
    );
    put_short(out, topic.as_str().as_bytes());
    put_long(out, payload);
    if let Some(expiry) = properties.message_expiry {
        out.put_u32(expiry);
    }
    if let Some(at) = expires_at {
        out.put_u64(at);
    }
    for text in [&properties.content_type, &properties.response_topic]
        .into_iter()
        .flatten()
    {
        put_short(out, text.as_bytes());
    }
    if let Some(data) = &properties.correlation_data {
        put_short(out, data);
    }
    if !user_properties.is_empty() {
        put_long(out, user_properties);
    }
}

fn stored(reader: &mut Reader) -> Result<Stored, RecordError> {
    let flags = reader.u16()?;
    let has = |bit: u16| flags >> bit & 1 == 1;
    if flags >> FLAGS != 0 || (has(UTF8) && !has(FORMAT)) {
        return Err(reader.damaged("unknown flags of a message"));
    }
    let qos = qos(reader, flags & 0b11)?;
    let topic = reader.text()?;
    let topic = reader.parse(TopicName::parse(topic), "a topic name is not valid")?;
    let payload = reader.long()?;
    let message_expiry = has(EXPIRY).then(|| reader.u32()).transpose()?;
    let expires_at = has(EXPIRES_AT).then(|| reader.u64()).transpose()?;
    let content_type = has(CONTENT_TYPE).then(|| reader.text()).transpose()?;
    let response_topic = has(RESPONSE_TOPIC).then(|| response_topic(reader)).transpose()?;
    let correlation_data = has(CORRELATION_DATA).then(|| reader.short()).transpose()?;
    let user_properties = has(USER_PROPERTIES)
        .then(|| reader.long())
        .transpose()?
        .unwrap_or_default();
    if has(USER_PROPERTIES) && user_properties.is_empty() {
        return Err(reader.damaged("user properties are announced, and there are none"));
    }
    let user_properties = reader.parse(
        UserProperties::from_encoded(user_properties),
        "user properties are not valid",
    )?;
    if has(ID) {
        skip_number(reader)?;
    }
    let payload_is_utf8 = has(FORMAT).then_some(has(UTF8));
    let properties = MessageProperties {
        payload_is_utf8,
        message_expiry,
        content_type,
        response_topic,
        correlation_data,
        user_properties,
    };
    let parts = MessageParts {
        topic,
        payload,
        properties,
        qos,
        retain: has(RETAIN),
    };
    Ok(Stored {
        parts,
        expires_at,
        has_number: has(ID),
    })
}

/// Reads the number of a message, which nobody asks for any more.
fn skip_number(reader: &mut Reader) -> Result<(), RecordError> {
    let (_node, run, number) = (reader.varint()?, reader.varint()?, reader.varint()?);
    let is_valid = u32::try_from(run).is_ok() && NonZeroU64::new(number).is_some();
    if is_valid {
        Ok(())
    } else {
        Err(reader.damaged("the number of a message is not valid"))
    }
}

fn response_topic(reader: &mut Reader) -> Result<Text, RecordError> {
    let topic = reader.text()?;
    reader.parse(TopicName::parse(topic.clone()), "a response topic is not valid")?;
    Ok(topic)
}

/// The QoS with a number.
///
/// # Errors
/// If there is no such QoS.
pub fn qos(reader: &Reader, number: u16) -> Result<QoS, RecordError> {
    match number {
        0 => Ok(QoS::AtMostOnce),
        1 => Ok(QoS::AtLeastOnce),
        2 => Ok(QoS::ExactlyOnce),
        _ => Err(reader.damaged("a QoS is not 0, 1 or 2")),
    }
}

const RETAIN: u16 = 2;
const FORMAT: u16 = 3;
const UTF8: u16 = 4;
const EXPIRY: u16 = 5;
const EXPIRES_AT: u16 = 6;
const CONTENT_TYPE: u16 = 7;
const RESPONSE_TOPIC: u16 = 8;
const CORRELATION_DATA: u16 = 9;
const USER_PROPERTIES: u16 = 10;
const ID: u16 = 11;

/// Number of the flags that have a meaning.
const FLAGS: u16 = 12;
/// Bytes of the flags.
const FLAGS_BYTES: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(properties: MessageProperties) -> MessageParts {
        MessageParts {
            topic: TopicName::parse(Text::from_static("line/1")).unwrap(),
            payload: Bytes::from_static(b"running"),
            properties,
            qos: QoS::AtLeastOnce,
            retain: true,
        }
    }

    fn written(parts: &MessageParts) -> Vec<u8> {
        let mut out = Vec::new();
        parts.put(&mut out);
        out
    }

    fn take(bytes: &[u8]) -> Result<MessageParts, RecordError> {
        MessageParts::take(&mut Reader::of_rest(Bytes::copy_from_slice(bytes), "test"))
    }

    #[test]
    fn parts_have_the_length_that_they_say() {
        let properties = MessageProperties {
            payload_is_utf8: Some(false),
            message_expiry: Some(60),
            content_type: Some(Text::default()),
            response_topic: Some(Text::from_static("answers")),
            correlation_data: Some(Bytes::from_static(b"\0")),
            user_properties: UserProperties::from_pairs([("a", "1")]).unwrap(),
        };
        for parts in [parts(MessageProperties::default()), parts(properties)] {
            let bytes = written(&parts);
            assert_eq!(bytes.len(), parts.encoded_len());
            assert_eq!(take(&bytes), Ok(parts));
        }
    }

    #[test]
    fn parts_have_one_encoding() {
        let with = |bit: u16, more: &[u8]| {
            let mut bytes = written(&parts(MessageProperties::default()));
            let flags = u16::from_be_bytes([bytes[0], bytes[1]]) | 1 << bit;
            bytes[..FLAGS_BYTES].copy_from_slice(&flags.to_be_bytes());
            take(&[&bytes[..], more].concat())
        };
        assert!(with(EXPIRY, &[0; 4]).is_ok());
        assert!(
            with(EXPIRES_AT, &[0; 8]).is_err(),
            "the publisher has said no moment"
        );
        assert!(with(ID, &[1, 1, 1]).is_err(), "nor a number");
        assert!(with(USER_PROPERTIES, &[0; 4]).is_err(), "there are none");
    }
}
