//! What the session plane has on disk: the bytes of every record, and the writes that put and remove them.
//!
//! Formats are written out by hand and start with a version; a changed format gets a new version and golden files of its
//! own beside `tests/golden/v1`. Numbers are big endian, so that a session's records are neighbours in key order.
//! Decoders take any bytes and never panic. Times are Unix milliseconds, converted with the [`Now`](crate::now::Now) of
//! the moment.
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | Sessions | 00, session number (8) | [`copy`]: which of its changes are here, and who holds it; only in clusters |
//! | Sessions | 00, ff (8), client id | [`tombstone`]: one that has ended, of which not all nodes know; only in clusters |
//! | Sessions | client id | [`session`]: number, expiry, connected or not since when, positions in the queue, will |
//! | Subscriptions | session number (8), filter as subscribed | [`subscription`]: options, identifier |
//! | Subscriptions | ff (8), node (8), filter or nothing | [`owed`]: what a lost node wants that something is owed to |
//! | Queue | session number (8), sequence (8) | [`queue`]: a delivery with its message, or "released" |
//! | Queue | ff (8), number (8) | [`owed`]: a message that is owed to lost nodes |
//! | Queue | ff (8), number (8), 00 | [`owed`]: to which, and who else may have it |
//! | Received | session number (8), packet id (2) | [`received`]: nothing but the version |
//! | Received | ff (8), node (8) | [`forwarded`]: up to where its messages were taken |
//! | Received | ff (8), node (8), 00 | [`copy`]: what that node had taken of others' messages, as of its copies here |
//! | Received | ff (8), node (8), 01 | [`owed`]: up to where this node has taken what that one owed to it |
//! | Retained | topic | [`retained`]: a message; in a cluster which write it came with, and what is left of one that was taken away |

pub mod copy;
mod encoding;
pub mod forwarded;
mod message;
pub mod owed;
pub mod queue;
pub mod received;
pub mod retained;
pub mod session;
pub mod subscription;
pub mod tombstone;

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

/// No session has this number.
const BEHIND_SESSIONS: u64 = u64::MAX;

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
