//! Durable sessions.
//!
//! ```text
//! key    client id
//! value  version (1) = 1, session number (8), expiry interval in seconds, 2^32 - 1 for ever (4),
//!        0 connected or 1 disconnected (1), since, Unix ms (8), next sequence (8), none was sent from this
//!        sequence on (8), 0 or 1 will (1), will
//! will   0 or 1 delay (1), delay in seconds (4), message
//! ```
//!
//! Written when the client connects and when its connection ends.

use bytes::{BufMut, Bytes};
use cluster::write::{Keyspace, Write};
use protocol::Text;
use protocol::packet::Will;

use super::RecordError;
use super::encoding::Reader;
use super::message;
use crate::ids::SessionNumber;
use crate::session::Positions;

/// What is stored of a session itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// What its other records are stored under.
    pub number: SessionNumber,
    /// Session Expiry Interval in seconds; `u32::MAX` is for ever.
    pub expiry: u32,
    /// Whether a connection held it.
    pub presence: Presence,
    /// Where its queue stood.
    pub positions: Positions,
    /// Published if the connection is lost, by a crash of the server too; or waiting for its delay.
    pub will: Option<Will>,
}

/// Whether a connection held the session when its record was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Found after a restart: the server ended without ending the connection.
    Connected {
        /// Unix milliseconds.
        since: u64,
    },
    /// The session ends when the expiry interval has passed since then.
    Disconnected {
        /// Unix milliseconds.
        since: u64,
    },
}

/// Stores a session.
pub fn put(client_id: &Text, record: &SessionRecord) -> Write {
    let (presence, since) = match record.presence {
        Presence::Connected { since } => (CONNECTED, since),
        Presence::Disconnected { since } => (DISCONNECTED, since),
    };
    let mut value = Vec::with_capacity(64);
    value.put_u8(VERSION);
    value.put_u64(record.number.0);
    value.put_u32(record.expiry);
    value.put_u8(presence);
    value.put_u64(since);
    value.put_u64(record.positions.next_sequence);
    value.put_u64(record.positions.sent_below);
    value.put_u8(u8::from(record.will.is_some()));
    if let Some(will) = &record.will {
        message::put_will(&mut value, will);
    }
    Write::Put {
        keyspace: Keyspace::Sessions,
        key: key(client_id),
        value: value.into(),
    }
}

/// Removes a session's own record; see [`super::remove_all`] for the others.
pub fn remove(client_id: &Text) -> Write {
    Write::Remove {
        keyspace: Keyspace::Sessions,
        key: key(client_id),
    }
}

/// Reads a record.
pub fn decode(key: &[u8], value: Bytes) -> Result<(Text, SessionRecord), RecordError> {
    let mut reader = Reader::of_value(value, RECORD, VERSION)?;
    let number = SessionNumber(reader.u64()?);
    let expiry = reader.u32()?;
    let (presence, since) = (reader.u8()?, reader.u64()?);
    let presence = match presence {
        CONNECTED => Presence::Connected { since },
        DISCONNECTED => Presence::Disconnected { since },
        _ => return Err(reader.damaged("neither connected nor disconnected")),
    };
    let positions = Positions {
        next_sequence: reader.sequence()?,
        sent_below: reader.sequence()?,
    };
    let will = match reader.u8()? {
        0 => None,
        1 => Some(message::will(&mut reader)?),
        _ => return Err(reader.damaged("neither with nor without a will")),
    };
    reader.end()?;
    let client_id = reader.parse(
        Text::from_bytes(Bytes::copy_from_slice(key)),
        "a client id is not valid",
    )?;
    if client_id.is_empty() {
        return Err(reader.damaged("a client id is empty"));
    }
    Ok((
        client_id,
        SessionRecord {
            number,
            expiry,
            presence,
            positions,
            will,
        },
    ))
}

fn key(client_id: &Text) -> Bytes {
    assert!(
        !client_id.is_empty(),
        "the server gives a client id to a client without one"
    );
    Bytes::copy_from_slice(client_id.as_str().as_bytes())
}

const VERSION: u8 = 1;
const RECORD: &str = "session";
const CONNECTED: u8 = 0;
const DISCONNECTED: u8 = 1;
