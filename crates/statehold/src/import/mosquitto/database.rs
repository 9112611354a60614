//! The persistence file of Mosquitto (`mosquitto.db`), of 1.4 to 2.1 (versions 3 to 6 of the format).
//!
//! It is a head and then chunks, each with its kind and its length: messages with numbers; sessions and their subscriptions; which
//! message waits for which session; which message is retained. Up to version 4 each field is written by itself; from version 5 on a chunk begins
//! with a structure of C, as it lay in memory. There is no checksum and no end.

mod fields;

use std::io::Read;

use self::fields::Fields;
use crate::import::file::{Bounded, FileError, FileReader};

/// A file that is being read.
#[derive(Debug)]
pub(super) struct Database<R> {
    input: FileReader<R>,
    version: u32,
    chunk_bytes_max: u64,
}

/// What a chunk says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// Something is published.
    Message(Stored),
    /// A message that is too large, as far as it is known.
    TooLarge { number: u64, topic: Vec<u8> },
    /// The message with this number is retained.
    Retained { number: u64 },
    /// A session that outlives its connection.
    Session { client_id: Vec<u8>, expiry: Expiry },
    /// It is subscribed.
    Subscription(Subscribed),
    /// A message waits for a session, or is on its way to or from it.
    Queued(Queued),
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) number: u64,
    pub(super) topic: Vec<u8>,
    pub(super) payload: Vec<u8>,
    pub(super) qos: u8,
    /// Seconds since the Unix epoch.
    pub(super) expires_at: Option<u64>,
    /// As on the wire in MQTT 5, with their length before them.
    pub(super) properties: Vec<u8>,
}

/// How long a session lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expiry {
    /// Seconds without a connection; the greatest number is for ever.
    pub(super) interval: u32,
    /// Seconds since the Unix epoch, if it has begun to expire.
    pub(super) at: Option<u64>,
}

/// A subscription of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subscribed {
    pub(super) client_id: Vec<u8>,
    pub(super) filter: Vec<u8>,
    pub(super) qos: u8,
    /// As on the wire in MQTT 5, without the QoS.
    pub(super) options: u8,
    /// 0: none.
    pub(super) identifier: u32,
}

/// A message of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Queued {
    pub(super) client_id: Vec<u8>,
    /// Of the message.
    pub(super) number: u64,
    /// 0: it has none yet.
    pub(super) packet_id: u16,
    pub(super) qos: u8,
    pub(super) retain: bool,
    pub(super) stage: Stage,
    /// Of the subscription, as on the wire in MQTT 5, with their length before them.
    pub(super) properties: Vec<u8>,
}

/// How far a message of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It was not sent.
    Waiting,
    /// It was sent, and the client may have it.
    Sent,
    /// Of QoS 2: the client has it, and PUBREL is to be sent, perhaps again.
    Released,
    /// It is from the client, with QoS 2, and nobody has it yet.
    FromClient,
}

const MAGIC: &[u8; 15] = b"\x00\xB5\x00mosquitto db";

/// Topic, client id, user name and properties of a message, besides its payload.
const HEAD_BYTES_MAX: u64 = 4 * (64 << 10);

const MESSAGE: u32 = 2;
const QUEUED: u32 = 3;
const RETAINED: u32 = 4;
const SUBSCRIPTION: u32 = 5;
const SESSION: u32 = 6;

/// The version from which on chunks begin with structures.
const STRUCTURES_SINCE: u32 = 5;

/// The size of MQTT's longest packet, which no message of a server that works can pass.
const CHUNK_BYTES_MOST: u64 = 300 << 20;

impl<R: Read> Database<R> {
    /// Reads the head. Messages with more bytes than these are only named.
    pub(super) fn open(input: R, payload_bytes_max: u64) -> Result<Self, FileError> {
        let mut input = FileReader::new(input);
        let foreign = FileError::Foreign {
            what: "database of Mosquitto",
        };
        if !matches!(input.array(), Ok(magic) if &magic == MAGIC) {
            return Err(foreign);
        }
        // A checksum that is always 0.
        input.skip(4)?;
        let version = u32::from_be_bytes(input.array()?);
        if !(3..=6).contains(&version) {
            return Err(FileError::Version {
                version: version.into(),
                known: "3 to 6",
            });
        }
        Ok(Self {
            input,
            version,
            chunk_bytes_max: payload_bytes_max + HEAD_BYTES_MAX,
        })
    }

    /// What comes next; `None`: that was all.
    pub(super) fn next(&mut self) -> Result<Option<Record>, FileError> {
        loop {
            let Some((kind, length)) = self.chunk_head()? else {
                return Ok(None);
            };
            let at = self.input.at();
            let damaged = FileError::Damaged {
                at,
                what: "a chunk that does not hold what it should",
            };
            if length > CHUNK_BYTES_MOST {
                return Err(damaged);
            }
            let (bytes, is_whole) = match self.input.bytes(length, self.chunk_bytes_max)? {
                Bounded::All(bytes) => (bytes, true),
                Bounded::TooMany { first, .. } => (first, false),
            };
            let fields = Fields::new(&bytes, self.version);
            let record = match kind {
                MESSAGE if is_whole => fields.message().map(Record::Message),
                MESSAGE => fields.head_of_message(),
                QUEUED => fields.queued().map(Record::Queued),
                RETAINED => fields.retained(),
                SUBSCRIPTION => fields.subscription().map(Record::Subscription),
                SESSION => fields.session(),
                // Settings, and what later versions have besides.
                _ => continue,
            };
            return record.ok_or(damaged).map(Some);
        }
    }

    /// Kind and length of the next chunk, if there is one.
    fn chunk_head(&mut self) -> Result<Option<(u32, u64)>, FileError> {
        let Some(first) = self.input.byte_or_end()? else {
            return Ok(None);
        };
        let kind = if self.version >= STRUCTURES_SINCE {
            let [a, b, c] = self.input.array()?;
            u32::from_be_bytes([first, a, b, c])
        } else {
            u16::from_be_bytes([first, self.input.byte()?]).into()
        };
        let length = u32::from_be_bytes(self.input.array()?);
        Ok(Some((kind, length.into())))
    }
}

#[cfg(test)]
mod tests;
