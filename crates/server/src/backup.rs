//! Backups: the format of the file, which is also how its parts travel over the admin pages.
//!
//! ```text
//! stream   magic "STHDBKUP" | version u8 (1) | record* | end
//! record   length u32 (1..) | crc u32 of (number of the record u64, length) | body | crc u32 of (number, body)
//! body     kind u8 | ...
//!   1 about     made at u64 | cluster (2 + n) | server version (2 + n) | nodes u16 | groups u32
//!   2 group     number u32 | clock u64 | floor: wall u64, counter u32
//!   3 key       a key as snapshots of the store have it (store/src/key_record.rs)
//!   4 retained  topic (2 + n) | a record of a retained message (mqtt/src/records/retained.rs)
//!   5 session   client id (2 + n) | a record of a session (4 + n) | parts
//!   255 end     groups, keys, retained messages, sessions: u64 each | BLAKE3 of all before this record (32)
//! parts    for each: what u8 (1 subscription, 2 received packet id, 3 delivery) | end of its key (2 + n) | [1, 3: its record (4 + n)]
//! ```
//!
//! Numbers are big endian, checksums CRC32C, times Unix milliseconds; records are numbered from 0. A key belongs to the group before it. What lies on the disk of a server in some form lies
//! here in the same, so each record has a version of its own. A stream without its end was cut off. Nothing is allocated because a
//! number says so: of a record there is never more in memory than has come.

mod file;
mod record;
mod stream;

use std::fmt;

use bytes::{Bytes, BytesMut};

/// What a session of another server is made of.
pub use broker::backups::{CarriedDelivery, CarriedSession, CarriedSubscription};

pub use self::file::{BackupFile, BackupFileError, BackupMark, BackupReader};
pub use self::record::Record;
pub use self::stream::{Decoder, Encoder, FormatError, Problem};

/// Bytes that one record may have: a message of MQTT, or the queue of a session.
pub const RECORD_BYTES_MAX: usize = 512 << 20;

/// Records that are put back with one request, at most.
pub const RESTORED_AT_ONCE_MAX: usize = 1_024;

/// Bytes that one such request may have.
pub const RESTORE_BYTES_MAX: usize = 600 << 20;

/// What a file of backup is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// When it was begun, Unix milliseconds.
    pub made_at: u64,
    /// The cluster's id; empty: a server on its own.
    pub cluster: String,
    /// Of the server that was asked first.
    pub server_version: String,
    /// How many nodes were asked.
    pub nodes: u16,
    /// How many groups the state store had.
    pub groups: u32,
}

impl About {
    /// When it was begun, as of RFC 3339 in UTC.
    pub fn made_at_text(&self) -> String {
        crate::audit::rfc3339(self.made_at)
    }
}

/// How much there is of everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Groups of the state store.
    pub groups: u64,
    /// Keys.
    pub keys: u64,
    /// Retained messages.
    pub retained: u64,
    /// Sessions.
    pub sessions: u64,
}

impl Counts {
    fn count(&mut self, record: &Record) {
        match record {
            Record::About(_) => {}
            Record::Group(..) => self.groups += 1,
            Record::Key(_) => self.keys += 1,
            Record::Retained(_) => self.retained += 1,
            Record::Session(_) => self.sessions += 1,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            groups,
            keys,
            retained,
            sessions,
        } = self;
        write!(
            to,
            "{keys} keys in {groups} groups, {retained} retained messages, {sessions} sessions"
        )
    }
}

/// A stream with a session that another server had, to be put back.
///
/// # Errors
/// If it has more bytes than a record may have.
pub fn carried(session: CarriedSession) -> Result<Bytes, Problem> {
    let (mut encoder, head) = Encoder::begin();
    let mut stream = BytesMut::from(&head[..]);
    encoder.push(&Record::Session(session.item(crate::clock::now())), &mut stream)?;
    let (_, end) = encoder.end();
    stream.extend_from_slice(&end);
    Ok(stream.freeze())
}

/// Which of so many nodes gets a client's session: the same one each time.
pub fn place_of(client_id: &str, nodes: usize) -> usize {
    let hash = usize::try_from(crc32c::crc32c(client_id.as_bytes())).unwrap_or_default();
    hash.checked_rem(nodes).unwrap_or_default()
}

#[cfg(test)]
mod tests;
