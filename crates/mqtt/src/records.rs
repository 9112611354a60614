//! Records of sessions and retained messages on disk: their bytes, and the writes that put and remove them.
//!
//! Formats are written out by hand and start with a version; a changed format gets a new version and golden files of its
//! own beside `broker/tests/golden/v1`. Numbers are big endian, so that a session's records are neighbours in key order.
//! Decoders take any bytes and never panic. Times are Unix milliseconds, converted with the [`Now`](crate::now::Now) of
//! the moment. Nodes of a cluster have further records in the same keyspaces, behind all sessions
//! ([`BEHIND_SESSIONS`]) or before the first client id.
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | Sessions | client id | [`session`]: number, expiry, connected or not since when, positions in the queue, will |
//! | Subscriptions | session number (8), filter as subscribed | [`subscription`]: options, identifier |
//! | Queue | session number (8), sequence (8) | [`queue`]: a delivery with its message, or "released" |
//! | Received | session number (8), packet id (2) | version; passed over when a directory is taken over |
//! | Retained | topic | [`retained`]: a message of a directory that had no session plane, until it is taken over |
//! | Plane | as the session plane has it | [`topic_value`]: what a topic retains |

pub mod encoding;
pub mod message;
pub mod queue;
pub mod retained;
pub mod session;
pub mod subscription;
pub mod topic_value;

use bytes::Bytes;
use cluster::write::{Keyspace, Write};

use crate::ids::SessionNumber;

/// Why bytes from the disk are no record. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It was written by a newer version of this program, or it is no record at all.
    #[error("a {record} record has format {version}, which is unknown")]
    UnknownVersion {
        /// What it should be.
        record: &'static str,
        /// Its first byte.
        version: u8,
    },
    /// It has the right version and does not fit the format.
    #[error("a {record} record is damaged: {what}")]
    Damaged {
        /// What it should be.
        record: &'static str,
        /// What is wrong.
        what: &'static str,
    },
}

/// Number that no session has: what begins with it in a keyspace comes behind all sessions.
pub const BEHIND_SESSIONS: u64 = u64::MAX;

/// The writes that remove all that is stored under a session's number: when the session ends, or is begun anew. The
/// session's own record is [`session::remove`]d or replaced in the same batch.
pub fn remove_all(number: SessionNumber) -> [Write; 3] {
    [Keyspace::Subscriptions, Keyspace::Queue, Keyspace::Received].map(|keyspace| {
        let from = Bytes::copy_from_slice(&number.0.to_be_bytes());
        // The highest number is never reached: its upper half is an incarnation.
        let to = Bytes::copy_from_slice(&number.0.saturating_add(1).to_be_bytes());
        Write::RemoveRange { keyspace, from, to }
    })
}
