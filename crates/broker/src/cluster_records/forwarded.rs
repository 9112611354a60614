//! Messages on their way to another node, and up to where this node has taken what others sent.
//!
//! A message has the form of one in a record (`mqtt/src/records/message.rs`), with what is left of its expiry interval in milliseconds in the place of
//! the moment when it expires: clocks of nodes differ.
//!
//! The position is stored in one batch with the deliveries that were made of the messages, so that a message which comes again after
//! a restart is known as far as its deliveries are. It is among the received packet ids, behind all sessions:
//!
//! ```text
//! key    ff (8), node (8)
//! value  version (1) = 1, incarnation of the sender (4), number of its latest item that was taken (8)
//! ```

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use cluster::NodeId;
use cluster::write::{Keyspace, Write};
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::origin::Position;
use mqtt::records::encoding::Reader;
use mqtt::records::{BEHIND_SESSIONS, RecordError, message};

/// The bytes of a message for other nodes.
pub fn encode(message: &Message, now: Now) -> Bytes {
    let mut out = Vec::with_capacity(HEADER + message.topic.as_str().len() + message.payload.len());
    message::put_on_the_way(&mut out, message, now);
    out.into()
}

/// The message in these bytes, which were made so long ago.
///
/// # Errors
/// If they are no message.
pub fn decode(bytes: Bytes, waited: Duration, now: Now) -> Result<Message, RecordError> {
    let mut reader = Reader::of_rest(bytes, MESSAGE);
    let message = message::message_on_the_way(&mut reader, waited, now)?;
    reader.end()?;
    Ok(message)
}

/// Stores up to where the items of a node were taken.
pub fn put_position(node: NodeId, position: Position) -> Write {
    Write::Put {
        keyspace: Keyspace::Received,
        key: key(node),
        value: position_value(position),
    }
}

/// The value of a position.
pub(super) fn position_value(position: Position) -> Bytes {
    let mut value = BytesMut::with_capacity(13);
    value.put_u8(VERSION);
    value.put_u32(position.incarnation);
    value.put_u64(position.number);
    value.freeze()
}

/// Removes the position of a node that is not in the cluster any more.
pub fn remove_position(node: NodeId) -> Write {
    Write::Remove {
        keyspace: Keyspace::Received,
        key: key(node),
    }
}

/// Whether a key is that of a position, and not of a packet id.
pub fn is_position(key: &[u8]) -> bool {
    key.len() == KEY_LENGTH
}

/// Reads a position.
///
/// # Errors
/// If it is none.
pub fn decode_position(key: &[u8], value: Bytes) -> Result<(NodeId, Position), RecordError> {
    let mut reader = Reader::of_key(key, POSITION);
    let (prefix, node) = (reader.u64()?, NodeId(reader.u64()?));
    reader.end()?;
    if prefix != BEHIND_SESSIONS {
        return Err(reader.damaged("it is not behind the sessions"));
    }
    let mut reader = Reader::of_value(value, POSITION, VERSION)?;
    let position = Position {
        incarnation: reader.u32()?,
        number: reader.u64()?,
    };
    reader.end()?;
    Ok((node, position))
}

fn key(node: NodeId) -> Bytes {
    let mut key = [0; KEY_LENGTH];
    key[..8].copy_from_slice(&BEHIND_SESSIONS.to_be_bytes());
    key[8..].copy_from_slice(&node.0.to_be_bytes());
    Bytes::copy_from_slice(&key)
}

const VERSION: u8 = 1;
const MESSAGE: &str = "forwarded message";
const POSITION: &str = "position of another node";
const KEY_LENGTH: usize = 16;

/// What most messages have besides their topic and payload, in bytes.
const HEADER: usize = 64;
