//! Encoding of values: a version, a form, and the fields of the form.
//!
//! ```text
//! version 2 (1), form (1), fields (as the module of the form draws them)
//! version 1 (1), the rest of the value of a topic
//! ```
//!
//! Topics had values before other entries did. These begin with a version, too, and have no form.
//! So both count their versions together, and 1 is that of topics.
//!
//! In a message between nodes a content ends the value that has it. On the disk the content of a
//! queued message has a record of its own, which all queues of the message share. The record of the
//! value ends before it.
//!
//! *Invariant*: bytes that were accepted are the bytes of the value.

use bytes::{BufMut, Bytes};
use mqtt::records::encoding::Reader;
use session_plane::SessionExpiry;

use crate::deliveries::{put_delivery, take_delivery};
use crate::wills::{put_will_end, put_will_number, take_will_end, take_will_number};
use crate::{
    Content, QueuedMessage, SessionTerms, SubscriptionTerms, TopicBytes, UsedPacketId, Value, ValueError,
    WillMessage,
};

/// First byte of values of all forms. It is raised with each change of a form, and golden files of
/// the new version are added.
pub const VALUE_VERSION: u8 = 2;

/// Place of the content of a queued message.
enum ContentPlace {
    /// The content ends the value.
    InValue,
    /// The content has a record of its own; None where there is none.
    Separate(Option<Bytes>),
}

impl Value {
    /// Bytes of the value, as nodes send them to each other.
    pub fn encode(&self) -> Bytes {
        if let Value::Topic(topic) = self {
            return topic.to_bytes();
        }
        let content = self.contained_content().map(Content::encoded);
        let mut out = Vec::with_capacity(FIELDS_BYTES + content.map_or(0, Bytes::len));
        self.put(&mut out);
        out.extend_from_slice(content.map_or(&[], |content| content));
        out.into()
    }

    /// Value with these bytes. It has memory of its own.
    ///
    /// # Errors
    ///
    /// [`ValueError`] where they are no value. It names the version, the form, or the part that is
    /// wrong.
    pub fn decode(bytes: Bytes) -> Result<Value, ValueError> {
        decode(bytes, ContentPlace::InValue)
    }

    /// Bytes of the value as the disk has them: those of a queued message without its content.
    pub fn encode_record(&self) -> Bytes {
        if !matches!(self, Value::Message(_)) {
            return self.encode();
        }
        let mut out = Vec::with_capacity(FIELDS_BYTES);
        self.put(&mut out);
        out.into()
    }

    /// Value with these bytes, and the content of a queued message. It shares the memory of the
    /// content.
    ///
    /// # Errors
    ///
    /// [`ValueError`] where they are no value, and where a content is missing or unexpected.
    pub fn decode_record(record: Bytes, content: Option<Bytes>) -> Result<Value, ValueError> {
        decode(record, ContentPlace::Separate(content))
    }

    /// Appends the digest of the value, which is for ever: it has no version, and the id of a
    /// content.
    pub(crate) fn append_digest(&self, out: &mut Vec<u8>) {
        if let Value::Topic(topic) = self {
            out.extend_from_slice(topic.as_bytes());
            return;
        }
        out.put_u8(DIGEST);
        self.put_form(out);
        if let Some(content) = self.contained_content() {
            content.append_digest(out);
        }
    }

    /// Appends all but the content.
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(VALUE_VERSION);
        self.put_form(out);
    }

    /// Appends the form and its fields, without the content. The value of a topic has no form.
    fn put_form(&self, out: &mut Vec<u8>) {
        out.put_u8(self.form());
        match self {
            Value::Blank | Value::Topic(_) => {}
            Value::Session(terms) => terms.put(out),
            Value::Subscription(terms) => terms.put(out),
            Value::Message(message) => message.put(out),
            Value::Will(will) => will.put(out),
            Value::WillEnd(delay) => put_will_end(out, *delay),
            Value::WillNumber(number) => put_will_number(out, number),
            Value::Use(used) => used.put(out),
            Value::Delivery(delivery) => put_delivery(out, delivery),
            Value::Expiry(expiry) => out.put_u32(expiry.seconds()),
        }
    }

    fn form(&self) -> u8 {
        match self {
            Value::Blank => BLANK,
            Value::Session(_) => SESSION,
            Value::Subscription(_) => SUBSCRIPTION,
            Value::Message(_) => MESSAGE,
            Value::Will(_) => WILL,
            Value::WillEnd(_) => WILL_END,
            Value::WillNumber(_) => WILL_NUMBER,
            Value::Use(_) => USE,
            Value::Delivery(_) => DELIVERY,
            Value::Expiry(_) => EXPIRY,
            Value::Topic(_) => unreachable!("the value of a topic has no form"),
        }
    }
}

fn decode(bytes: Bytes, place: ContentPlace) -> Result<Value, ValueError> {
    match bytes.first() {
        None => return Err(ValueError::Empty),
        Some(&TOPIC_VERSION) => {
            let topic = TopicBytes::decode(&bytes)?;
            return refuse_content(&place).map(|()| Value::Topic(topic));
        }
        Some(&VALUE_VERSION) => {}
        Some(&version) => return Err(ValueError::UnknownVersion { version }),
    }
    let mut reader = Reader::of_value(bytes, RECORD, VALUE_VERSION)?;
    let form = reader.u8()?;
    let value = if form == MESSAGE {
        Value::Message(take_message(&mut reader, place)?)
    } else {
        let value = take_form(&mut reader, form)?;
        refuse_content(&place)?;
        value
    };
    reader.end()?;
    Ok(value)
}

/// Reads the fields of any form but that of a queued message.
fn take_form(reader: &mut Reader, form: u8) -> Result<Value, ValueError> {
    Ok(match form {
        BLANK => Value::Blank,
        SESSION => Value::Session(SessionTerms::take(reader)?),
        SUBSCRIPTION => Value::Subscription(SubscriptionTerms::take(reader)?),
        WILL => Value::Will(WillMessage::take(reader)?),
        WILL_END => Value::WillEnd(take_will_end(reader)?),
        WILL_NUMBER => Value::WillNumber(Box::new(take_will_number(reader)?)),
        USE => Value::Use(Box::new(UsedPacketId::take(reader)?)),
        DELIVERY => Value::Delivery(take_delivery(reader)?),
        EXPIRY => Value::Expiry(SessionExpiry::of_seconds(reader.u32()?)),
        _ => return Err(ValueError::UnknownForm { form }),
    })
}

fn take_message(reader: &mut Reader, place: ContentPlace) -> Result<QueuedMessage, ValueError> {
    let separate = match place {
        ContentPlace::InValue => None,
        ContentPlace::Separate(None) => return Err(ValueError::NoContent),
        ContentPlace::Separate(content) => content,
    };
    Ok(QueuedMessage::take(reader, separate)?)
}

fn refuse_content(place: &ContentPlace) -> Result<(), ValueError> {
    match place {
        ContentPlace::Separate(Some(_)) => Err(ValueError::UnexpectedContent),
        ContentPlace::Separate(None) | ContentPlace::InValue => Ok(()),
    }
}

const BLANK: u8 = 1;
const SESSION: u8 = 2;
const SUBSCRIPTION: u8 = 3;
const MESSAGE: u8 = 4;
const WILL: u8 = 5;
const WILL_END: u8 = 6;
const WILL_NUMBER: u8 = 7;
const USE: u8 = 8;
const DELIVERY: u8 = 9;
const EXPIRY: u8 = 10;

/// First byte of the digests of values that have a form. Those of topics begin with 1.
const DIGEST: u8 = 2;
/// First byte of the values of topics.
const TOPIC_VERSION: u8 = 1;
/// Bytes of the fields of most values.
const FIELDS_BYTES: usize = 64;
pub(crate) const RECORD: &str = "value";
