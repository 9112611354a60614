//! Retained messages.
//!
//! ```text
//! key    topic
//! value  version (1) = 1, message
//! ```

use bytes::{BufMut, Bytes};
use cluster::write::{Keyspace, Write};
use protocol::TopicName;

use super::RecordError;
use super::encoding::Reader;
use super::message;
use crate::message::Message;
use crate::now::Now;

/// Stores a message under its topic.
pub fn put(message: &Message, now: Now) -> Write {
    let mut value = Vec::with_capacity(message.size());
    value.put_u8(VERSION);
    message::put_message(&mut value, message, now);
    Write::Put {
        keyspace: Keyspace::Retained,
        key: key(&message.topic),
        value: value.into(),
    }
}

/// Removes the message of a topic.
pub fn remove(topic: &TopicName) -> Write {
    Write::Remove {
        keyspace: Keyspace::Retained,
        key: key(topic),
    }
}

/// Reads a record.
pub fn decode(key: &[u8], value: Bytes, now: Now) -> Result<Message, RecordError> {
    let mut reader = Reader::of_value(value, RECORD, VERSION)?;
    let message = message::message(&mut reader, now)?;
    reader.end()?;
    if message.topic.as_str().as_bytes() != key {
        return Err(reader.damaged("its key is another topic"));
    }
    Ok(message)
}

fn key(topic: &TopicName) -> Bytes {
    Bytes::copy_from_slice(topic.as_str().as_bytes())
}

const VERSION: u8 = 1;
const RECORD: &str = "retained message";
