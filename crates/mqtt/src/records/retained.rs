//! Retained messages, as backups have them and as data directories had them before the session plane.
//!
//! ```text
//! key      topic
//! value    version (1) = 1, message                            in a backup, and of a server that was no member of a cluster
//!          version (1) = 2, edition (20), 1 (1), message       in a cluster
//!          version (1) = 2, edition (20), 0 (1)                in a cluster: the topic was cleared
//! edition  HLC (8), node (8), incarnation (4)
//! ```
//!
//! A directory that has them is taken over at the first start; nothing writes version 2 any more.

use bytes::{Buf, BufMut, Bytes};
use cluster::session_plane::Hlc;
use cluster::write::{Keyspace, Write};
use cluster::{Incarnation, NodeId};
use protocol::{Text, TopicName};

use super::RecordError;
use super::encoding::Reader;
use super::message;
use crate::message::Message;
use crate::now::Now;
use crate::retained::Edition;

/// What is known of a topic.
#[derive(Debug, PartialEq, Eq)]
pub struct RetainedRecord {
    /// Of which.
    pub topic: TopicName,
    /// Which write it is; `None`: of a server that is no member of a cluster.
    pub edition: Option<Edition>,
    /// What is retained; `None`: the topic was cleared.
    pub message: Option<Message>,
}

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

/// Appends an edition.
pub(super) fn append_edition(out: &mut Vec<u8>, edition: Edition) {
    out.put_u64(edition.at.to_bits());
    out.put_u64(edition.node.0);
    out.put_u32(edition.incarnation.0);
}

/// The edition in front of these bytes.
pub(super) fn take_edition(bytes: &mut Bytes) -> Option<Edition> {
    let at = Hlc::from_bits(bytes.try_get_u64().ok()?)?;
    let node = NodeId(bytes.try_get_u64().ok()?);
    let incarnation = Incarnation(bytes.try_get_u32().ok()?);
    Some(Edition {
        at,
        node,
        incarnation,
    })
}

/// Removes the record of a topic.
pub fn remove(topic: &TopicName) -> Write {
    Write::Remove {
        keyspace: Keyspace::Retained,
        key: key(topic),
    }
}

/// Reads a record.
///
/// # Errors
/// If it is none.
pub fn decode(key: &[u8], value: Bytes, now: Now) -> Result<RetainedRecord, RecordError> {
    let (mut reader, version) = Reader::of_versions(value, RECORD, &[VERSION, VERSION_EDITION])?;
    let mut edition = None;
    let mut has_message = true;
    if version == VERSION_EDITION {
        let mut bytes = reader.take(EDITION)?;
        edition = Some(reader.require(take_edition(&mut bytes), "an edition is too late")?);
        has_message = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(reader.damaged("a flag is not 0 or 1")),
        };
    }
    let message = has_message
        .then(|| message::message(&mut reader, now))
        .transpose()?;
    reader.end()?;
    let topic = match &message {
        Some(message) => message.topic.clone(),
        None => {
            let text = Text::from_bytes(Bytes::copy_from_slice(key));
            let text = reader.parse(text, "a topic name is not valid")?;
            reader.parse(TopicName::parse(text), "a topic name is not valid")?
        }
    };
    if topic.as_str().as_bytes() != key {
        return Err(reader.damaged("its key is another topic"));
    }
    Ok(RetainedRecord {
        topic,
        edition,
        message,
    })
}

fn key(topic: &TopicName) -> Bytes {
    topic.text().as_bytes().clone()
}

const VERSION: u8 = 1;
const VERSION_EDITION: u8 = 2;
/// Bytes of an edition.
pub(super) const EDITION: usize = 20;
const RECORD: &str = "retained message";
