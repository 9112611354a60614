//! Values of topics that all nodes replicate: what a topic retains, or that it retains nothing.
//!
//! ```text
//! version   1 (1)
//! told      number of nodes (1), each (8); 255: all nodes
//! origin    0 (1): a write of today; 1 (1), edition (20): taken over from an older data directory
//! content   0 (1): the topic is cleared; 1 (1), message
//! edition   HLC (8), node (8), incarnation (4)
//! ```
//!
//! The value is the same at all nodes and on their disks: a message expires at the same moment everywhere.

use bytes::{BufMut, Bytes};
use cluster::NodeId;

use super::RecordError;
use super::encoding::Reader;
use super::message;
use super::retained::{EDITION, append_edition, take_edition};
use crate::message::Message;
use crate::now::Now;
use crate::retained::Edition;

/// Nodes that were sent a message for their subscriptions when it was published. The others deliver it when they learn
/// what the topic retains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// All nodes, or there is nothing to deliver.
    All,
    /// These, [`TOLD_MAX`] at most.
    Some(Vec<NodeId>),
}

/// Nodes that a value names at most.
pub const TOLD_MAX: usize = 254;

impl Told {
    /// The node was sent the message.
    pub fn contains(&self, node: NodeId) -> bool {
        match self {
            Told::All => true,
            Told::Some(nodes) => nodes.contains(&node),
        }
    }
}

/// Value of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicValue {
    /// Nodes that need not deliver it.
    pub told: Told,
    /// Write in an older data directory that the value was taken over from.
    pub taken_over: Option<Edition>,
    /// The message, as [`TopicValue::message`] reads it. None where the topic is cleared.
    content: Option<Bytes>,
}

/// Bytes of a value. Without a message the topic is cleared.
pub fn encode(told: &Told, taken_over: Option<Edition>, message: Option<&Message>, now: Now) -> Bytes {
    let mut value = Vec::with_capacity(HEAD + message.map_or(0, Message::size));
    value.put_u8(VERSION);
    match told {
        Told::Some(nodes) if nodes.len() <= TOLD_MAX => {
            value.put_u8(nodes.len() as u8);
            nodes.iter().for_each(|node| value.put_u64(node.0));
        }
        Told::All | Told::Some(_) => value.put_u8(TOLD_ALL),
    }
    value.put_u8(u8::from(taken_over.is_some()));
    if let Some(edition) = taken_over {
        append_edition(&mut value, edition);
    }
    value.put_u8(u8::from(message.is_some()));
    if let Some(message) = message {
        message::put_message(&mut value, message, now);
    }
    value.into()
}

/// Reads and checks a value.
///
/// # Errors
/// If it is none.
pub fn decode(value: Bytes) -> Result<TopicValue, RecordError> {
    let value = read(value)?;
    if let Some(content) = &value.content {
        let mut reader = Reader::of_rest(content.clone(), RECORD);
        message::check(&mut reader)?;
        reader.end()?;
    }
    Ok(value)
}

/// Reads a value that was checked when it came, as far as its message.
///
/// # Errors
/// If what stands before the message is damaged.
pub fn read(value: Bytes) -> Result<TopicValue, RecordError> {
    let mut reader = Reader::of_value(value, RECORD, VERSION)?;
    let told = match reader.u8()? {
        TOLD_ALL => Told::All,
        count => {
            let nodes = (0..count).map(|_| reader.u64().map(NodeId));
            Told::Some(nodes.collect::<Result<_, _>>()?)
        }
    };
    let taken_over = match reader.u8()? {
        0 => None,
        1 => {
            let mut bytes = reader.take(EDITION)?;
            Some(reader.require(take_edition(&mut bytes), "an edition is too late")?)
        }
        _ => return Err(reader.damaged("a flag is not 0 or 1")),
    };
    let content = match reader.u8()? {
        0 => {
            reader.end()?;
            None
        }
        1 => Some(reader.rest()),
        _ => return Err(reader.damaged("a flag is not 0 or 1")),
    };
    Ok(TopicValue {
        told,
        taken_over,
        content,
    })
}

impl TopicValue {
    /// The message, if it is that of `topic`. It shares the memory of the value.
    pub fn message(&self, topic: &[u8], now: Now) -> Option<Message> {
        let mut reader = Reader::of_rest(self.content.clone()?, RECORD);
        let message = message::message(&mut reader, now).ok()?;
        (message.topic.as_str().as_bytes() == topic).then_some(message)
    }
}

const VERSION: u8 = 1;
const TOLD_ALL: u8 = 255;
/// Bytes before a message, without nodes and without an edition.
const HEAD: usize = 4;
const RECORD: &str = "topic value";

#[cfg(test)]
mod tests;
