//! Which session numbers have been given.
//!
//! ```text
//! key    broker/session-numbers
//! value  version (1) = 1, first number that was not reserved (8)
//! ```
//!
//! Numbers are reserved in blocks, so that a new session seldom writes this record; a restart goes on with the first
//! number that was not reserved, and the rest of the block is lost.

use bytes::{BufMut, Bytes};
use cluster::write::{Keyspace, Write};

use super::RecordError;
use super::encoding::Reader;
use crate::ids::SessionNumber;

/// Reserves all numbers below `first_free`.
pub fn put(first_free: SessionNumber) -> Write {
    let mut value = Vec::with_capacity(9);
    value.put_u8(VERSION);
    value.put_u64(first_free.0);
    Write::Put {
        keyspace: Keyspace::Meta,
        key: Bytes::from_static(KEY),
        value: value.into(),
    }
}

/// Reads the first number that was not reserved.
pub fn decode(value: Bytes) -> Result<SessionNumber, RecordError> {
    let mut reader = Reader::of_value(value, RECORD, VERSION)?;
    let first_free = SessionNumber(reader.u64()?);
    reader.end()?;
    Ok(first_free)
}

/// The record's key in the keyspace Meta.
pub const KEY: &[u8] = b"broker/session-numbers";

/// How many numbers to reserve at once.
pub const BLOCK: u64 = 1_024;

const VERSION: u8 = 1;
const RECORD: &str = "session numbers";
