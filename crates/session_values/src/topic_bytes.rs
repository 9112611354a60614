//! Value of a topic, as bytes in the format of [`mqtt::records::topic_value`].
//!
//! *Invariant*: the bytes are such a value.

use std::sync::Arc;

use bytes::Bytes;
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::records::RecordError;
use mqtt::records::topic_value::{self, Told, TopicValue};
use mqtt::retained::Edition;

use crate::memory;

/// Message that a topic retains, or its clear. A clone shares it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicBytes(Arc<[u8]>);

impl TopicBytes {
    /// Bytes of a value, as [`topic_value::encode`] makes them.
    pub fn new(told: &Told, taken_over: Option<Edition>, message: Option<&Message>, now: Now) -> TopicBytes {
        TopicBytes(Arc::from(
            &topic_value::encode(told, taken_over, message, now)[..],
        ))
    }

    /// Value with these bytes, in memory of its own.
    ///
    /// # Errors
    ///
    /// [`RecordError`] where they are no value of a topic.
    pub fn decode(bytes: &Bytes) -> Result<TopicBytes, RecordError> {
        topic_value::decode(bytes.clone())?;
        Ok(TopicBytes(Arc::from(&bytes[..])))
    }

    /// The value, read. Its message shares the memory.
    pub fn read(&self) -> TopicValue {
        topic_value::read(self.to_bytes()).expect("a value was checked when it came")
    }

    /// The bytes, which share the memory.
    pub fn to_bytes(&self) -> Bytes {
        Bytes::from_owner(Arc::clone(&self.0))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn memory(&self) -> usize {
        memory::COUNTERS + self.0.len()
    }
}
