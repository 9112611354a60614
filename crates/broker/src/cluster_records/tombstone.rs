//! A durable session that has ended, while nodes are away that may have it still.
//!
//! ```text
//! key    00, ff (8), client id
//! value  version (1) = 1, Unix milliseconds of its end (8), clock (4 + n), count (1) of nodes that do not know of it, of each its id (8)
//! ```
//!
//! It stands among the records of copies, before all client ids: no session has the number in its place.

use bytes::{BufMut, Bytes};
use cluster::NodeId;
use cluster::session_plane::VectorClock;
use cluster::session_plane::encoding::{decode_clock, encode_clock};
use cluster::write::{Keyspace, Write};
use mqtt::records::encoding::{Reader, put_long};
use mqtt::records::{BEHIND_SESSIONS, RecordError};
use protocol::Text;

/// What is remembered of a session that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TombstoneRecord {
    /// When it ended, in Unix milliseconds.
    pub at: u64,
    /// Its changes. Of two sessions that a client has had one after the other none are the same.
    pub clock: VectorClock,
    /// Nodes that do not know of its end.
    pub waits_for: Vec<NodeId>,
}

/// Stores it.
///
/// # Panics
/// If more than 255 nodes do not know of it: a cluster has fewer.
pub fn put(client_id: &Text, record: &TombstoneRecord) -> Write {
    let mut value = vec![VERSION];
    value.put_u64(record.at);
    put_long(&mut value, &encode_clock(&record.clock));
    value.put_u8(u8::try_from(record.waits_for.len()).expect("fewer than 64 nodes"));
    record.waits_for.iter().for_each(|node| value.put_u64(node.0));
    Write::Put {
        keyspace: Keyspace::Sessions,
        key: key(client_id),
        value: value.into(),
    }
}

/// Removes it.
pub fn remove(client_id: &Text) -> Write {
    Write::Remove {
        keyspace: Keyspace::Sessions,
        key: key(client_id),
    }
}

/// Whether a key is that of such a record.
pub fn is_tombstone(key: &[u8]) -> bool {
    key.len() > PREFIX && key.starts_with(&prefix())
}

/// Reads it.
///
/// # Errors
/// If it is none.
pub fn decode(key: &[u8], value: Bytes) -> Result<(Text, TombstoneRecord), RecordError> {
    let mut reader = Reader::of_key(key, RECORD);
    reader.take(PREFIX)?;
    let client_id = reader.rest();
    let client_id = reader.parse(Text::from_bytes(client_id), "a client id is no text")?;
    let mut reader = Reader::of_value(value, RECORD, VERSION)?;
    let at = reader.u64()?;
    let clock = reader.long()?;
    let clock = reader.parse(decode_clock(&clock), "a clock is not valid")?;
    let count = reader.u8()?;
    let waits_for = (0..count).map(|_| Ok(NodeId(reader.u64()?)));
    let waits_for = waits_for.collect::<Result<_, RecordError>>()?;
    reader.end()?;
    Ok((client_id, TombstoneRecord { at, clock, waits_for }))
}

fn prefix() -> [u8; PREFIX] {
    let mut prefix = [BEFORE_SESSIONS; PREFIX];
    prefix[1..].copy_from_slice(&BEHIND_SESSIONS.to_be_bytes());
    prefix
}

fn key(client_id: &Text) -> Bytes {
    [&prefix()[..], client_id.as_bytes()].concat().into()
}

const VERSION: u8 = 1;
const RECORD: &str = "tombstone of a session";
const PREFIX: usize = 9;

/// No client id begins with it.
const BEFORE_SESSIONS: u8 = 0;
