//! Messages that are owed to lost nodes, for sessions that nobody on this side of a split may have.
//!
//! A message is acknowledged when it is here. It is written once; to whom it is owed, and who else may have it, changes. They are in the queues, behind all sessions:
//!
//! ```text
//! key    ff (8), number (8)
//! value  version (1) = 1, 0 or Unix milliseconds of the moment it was made (8), message as for another node (forwarded.rs)
//!
//! key    ff (8), number (8), 00
//! value  version (1) = 1, for each of three lists: count (1), then
//!        the nodes that it is owed to (8 each)
//!        the nodes of the side where it was published (8 each)
//!        the lost nodes to which it was on its way (8), and under which number (8); ffffffffffffffff in place of it: for the sessions alone that others have taken over from the node
//! ```
//!
//! What each lost node wants that something is owed to, as far as it was known when it was lost, is among the subscriptions:
//!
//! ```text
//! key    ff (8), node (8)
//! value  version (1) = 1, everything u8 (0, 1)
//!
//! key    ff (8), node (8), filter
//! value  version (1) = 1
//! ```
//!
//! Up to where this node has taken what another one has owed to it is stored with what it did, among the received packet ids:
//!
//! ```text
//! key    ff (8), node (8), 01
//! value  version (1) = 1, the sender's incarnation in which it was owed (4), its number (8)
//! ```

use std::time::Duration;

use bytes::{BufMut, Bytes};
use cluster::NodeId;
use cluster::write::{Keyspace, Write};
use mqtt::now::Now;
use mqtt::origin::Position;
use mqtt::records::encoding::Reader;
use mqtt::records::{BEHIND_SESSIONS, RecordError};
use protocol::Text;
use protocol::topic::TopicFilter;

use super::forwarded;

/// What is known of a message that is owed, besides itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwedHead {
    /// Who has not confirmed it.
    pub pending: Vec<NodeId>,
    /// Who was on the side where it was published.
    pub side: Vec<NodeId>,
    /// Under which numbers it was on its way to nodes that were lost then.
    pub came_by: Vec<(NodeId, u64)>,
}

/// One of the two records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwedRecord {
    /// The message, as one that is made now.
    Message(Bytes),
    /// To whom it is owed.
    Head(OwedHead),
}

/// What a lost node wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Everything, or else what its filters say.
    Everything(bool),
    /// One of them.
    Filter(TopicFilter),
}

/// Whether a key of the queues, or of the subscriptions, is one of these.
pub fn is_owed(key: &[u8]) -> bool {
    key.starts_with(&BEHIND_SESSIONS.to_be_bytes())
}

/// Stores a message, which was made at this Unix millisecond, if that is known.
pub fn put_message(number: u64, made_at: Option<u64>, message: &Bytes) -> Write {
    let mut value = Vec::with_capacity(9 + message.len());
    value.put_u8(VERSION);
    value.put_u64(made_at.unwrap_or(0));
    value.put_slice(message);
    Write::Put {
        keyspace: Keyspace::Queue,
        key: message_key(number),
        value: value.into(),
    }
}

/// Stores to whom it is owed.
///
/// # Panics
/// If one of the lists has more than 255 entries.
pub fn put_head(number: u64, head: &OwedHead) -> Write {
    let mut value = vec![VERSION];
    let put_count = |value: &mut Vec<u8>, count: usize| {
        value.put_u8(u8::try_from(count).expect("fewer than 64 nodes, and 32 numbers"));
    };
    for nodes in [&head.pending, &head.side] {
        put_count(&mut value, nodes.len());
        nodes.iter().for_each(|node| value.put_u64(node.0));
    }
    put_count(&mut value, head.came_by.len());
    for (node, number) in &head.came_by {
        value.put_u64(node.0);
        value.put_u64(*number);
    }
    Write::Put {
        keyspace: Keyspace::Queue,
        key: head_key(number),
        value: value.into(),
    }
}

/// Removes both: it is owed to nobody any more.
pub fn remove(number: u64) -> [Write; 2] {
    [
        Write::RemoveOnce {
            keyspace: Keyspace::Queue,
            key: message_key(number),
        },
        Write::Remove {
            keyspace: Keyspace::Queue,
            key: head_key(number),
        },
    ]
}

/// Reads one of them.
///
/// # Errors
/// If it is none.
pub fn decode(key: &[u8], value: Bytes, now: Now) -> Result<(u64, OwedRecord), RecordError> {
    let mut reader = Reader::of_key(key, RECORD);
    let (_, number) = (reader.u64()?, reader.u64()?);
    let is_head = key.len() == HEAD_LENGTH && reader.u8()? == 0;
    reader.end()?;
    let mut reader = Reader::of_value(value, RECORD, VERSION)?;
    if !is_head {
        let made_at = reader.u64()?;
        let waited = if made_at == 0 {
            0
        } else {
            now.wall.saturating_sub(made_at)
        };
        let message = forwarded::decode(reader.rest(), Duration::from_millis(waited), now)?;
        return Ok((number, OwedRecord::Message(forwarded::encode(&message, now))));
    }
    let mut head = OwedHead::default();
    for nodes in [&mut head.pending, &mut head.side] {
        for _ in 0..reader.u8()? {
            nodes.push(NodeId(reader.u64()?));
        }
    }
    for _ in 0..reader.u8()? {
        head.came_by.push((NodeId(reader.u64()?), reader.u64()?));
    }
    reader.end()?;
    Ok((number, OwedRecord::Head(head)))
}

/// Stores one thing that a lost node wants.
pub fn put_wanted(node: NodeId, wanted: &Wanted) -> Write {
    let mut key = Vec::from(wanted_prefix(node));
    let mut value = vec![VERSION];
    match wanted {
        Wanted::Everything(is_everything) => value.put_u8(u8::from(*is_everything)),
        Wanted::Filter(filter) => key.put_slice(filter.as_str().as_bytes()),
    }
    Write::Put {
        keyspace: Keyspace::Subscriptions,
        key: key.into(),
        value: value.into(),
    }
}

/// Removes all that a node has wanted.
pub fn remove_wanted(node: NodeId) -> Write {
    Write::RemoveRange {
        keyspace: Keyspace::Subscriptions,
        from: wanted_prefix(node),
        to: wanted_prefix(NodeId(node.0.saturating_add(1))),
    }
}

/// Reads what a lost node wants.
///
/// # Errors
/// If it is no such record.
pub fn decode_wanted(key: &[u8], value: Bytes) -> Result<(NodeId, Wanted), RecordError> {
    let mut reader = Reader::of_key(key, WANTED);
    let (_, node) = (reader.u64()?, NodeId(reader.u64()?));
    let filter = reader.rest();
    let mut value = Reader::of_value(value, WANTED, VERSION)?;
    let wanted = if filter.is_empty() {
        Wanted::Everything(value.u8()? != 0)
    } else {
        let filter = reader.parse(Text::from_bytes(filter), "a filter is no text")?;
        Wanted::Filter(reader.parse(TopicFilter::parse(filter), "a filter is not valid")?)
    };
    value.end()?;
    Ok((node, wanted))
}

/// Stores up to where this node has taken what another one has owed to it.
pub fn put_taken(node: NodeId, position: Position) -> Write {
    Write::Put {
        keyspace: Keyspace::Received,
        key: taken_key(node),
        value: forwarded::position_value(position),
    }
}

/// Removes that of a node that is not in the cluster any more.
pub fn remove_taken(node: NodeId) -> Write {
    Write::Remove {
        keyspace: Keyspace::Received,
        key: taken_key(node),
    }
}

/// Whether a key of the received packet ids is such a position.
pub fn is_taken(key: &[u8]) -> bool {
    key.len() == TAKEN_LENGTH && key.last() == Some(&TAKEN)
}

/// Reads it.
///
/// # Errors
/// If it is none.
pub fn decode_taken(key: &[u8], value: Bytes) -> Result<(NodeId, Position), RecordError> {
    let of_node = key.get(..TAKEN_LENGTH - 1).unwrap_or_default();
    forwarded::decode_position(of_node, value)
}

fn message_key(number: u64) -> Bytes {
    let mut key = Vec::with_capacity(HEAD_LENGTH);
    key.put_u64(BEHIND_SESSIONS);
    key.put_u64(number);
    key.into()
}

fn head_key(number: u64) -> Bytes {
    let mut key = Vec::from(message_key(number));
    key.put_u8(0);
    key.into()
}

fn wanted_prefix(node: NodeId) -> Bytes {
    let mut key = Vec::with_capacity(16);
    key.put_u64(BEHIND_SESSIONS);
    key.put_u64(node.0);
    key.into()
}

fn taken_key(node: NodeId) -> Bytes {
    let mut key = Vec::with_capacity(TAKEN_LENGTH);
    key.put_u64(BEHIND_SESSIONS);
    key.put_u64(node.0);
    key.put_u8(TAKEN);
    key.into()
}

const VERSION: u8 = 1;
const RECORD: &str = "owed message";
const WANTED: &str = "wish of a lost node";
const HEAD_LENGTH: usize = 17;
const TAKEN_LENGTH: usize = 17;
const TAKEN: u8 = 1;
