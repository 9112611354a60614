//! Records one after the other, each with its checksums, and an end that says that there are no more.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;

use super::record::{END, Record};
use super::{Counts, RECORD_BYTES_MAX};

const MAGIC: &[u8; 8] = b"STHDBKUP";
const VERSION: u8 = 1;
const HEAD: usize = MAGIC.len() + 1;
/// Length and checksum in front of a body.
const FRONT: usize = 4 + 4;
const CRC: usize = 4;
const HASH: usize = 32;

/// Bytes that are no backup, and from which byte on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem} (record {record}, which begins at byte {position})")]
pub struct FormatError {
    /// Where the record begins that is not right, counted from 0.
    pub position: u64,
    /// Which one it is, counted from 0.
    pub record: u64,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Problem {
    /// It does not begin as one.
    #[error("this is no backup of Statehold")]
    Magic,
    /// Another version of this program has made it.
    #[error("the backup has format version {0}, this program knows {VERSION}")]
    Version(u8),
    /// Its bytes have changed.
    #[error("a checksum is not right: the backup is damaged")]
    Checksum,
    /// It has the right checksums and makes no sense.
    #[error("a record cannot be read: a newer version of this program may have made it")]
    Record,
    /// There is less than there was.
    #[error("the backup ends too soon: it was cut off")]
    CutOff,
    /// There is more than there was.
    #[error("there is something behind the end of the backup")]
    Longer,
    /// Records are missing, or there are too many.
    #[error("the records are not those that the end of the backup counts")]
    Counts,
    /// A record is longer than any may be.
    #[error("a record has more than {RECORD_BYTES_MAX} bytes")]
    TooLong,
}

/// Makes a stream of records.
#[derive(Debug, Clone)]
pub struct Encoder {
    number: u64,
    counts: Counts,
    hash: blake3::Hasher,
}

impl Encoder {
    /// Begins a stream with these bytes.
    pub fn begin() -> (Self, Bytes) {
        let mut head = BytesMut::with_capacity(HEAD);
        head.put_slice(MAGIC);
        head.put_u8(VERSION);
        let mut hash = blake3::Hasher::new();
        hash.update(&head);
        let encoder = Self {
            number: 0,
            counts: Counts::default(),
            hash,
        };
        (encoder, head.freeze())
    }

    /// Appends a record.
    ///
    /// # Errors
    /// If it is longer than any may be; the stream is as before.
    pub fn push(&mut self, record: &Record, out: &mut BytesMut) -> Result<(), Problem> {
        let body = record.encode().ok_or(Problem::TooLong)?;
        let from = out.len();
        frame(self.number, &body, out)?;
        self.number += 1;
        self.counts.count(record);
        self.hash.update(&out[from..]);
        Ok(())
    }

    /// Ends the stream with these bytes.
    pub fn end(self) -> (Counts, Bytes) {
        let mut body = BytesMut::new();
        body.put_u8(END);
        let Counts {
            groups,
            keys,
            retained,
            sessions,
        } = self.counts;
        for count in [groups, keys, retained, sessions] {
            body.put_u64(count);
        }
        body.put_slice(self.hash.finalize().as_bytes());
        let mut out = BytesMut::new();
        frame(self.number, &body, &mut out).expect("it is short");
        (self.counts, out.freeze())
    }

    /// How much there is so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

fn frame(number: u64, body: &[u8], out: &mut BytesMut) -> Result<(), Problem> {
    let length = u32::try_from(body.len()).map_err(|_| Problem::TooLong)?;
    if body.len() > RECORD_BYTES_MAX {
        return Err(Problem::TooLong);
    }
    out.reserve(FRONT + body.len() + CRC);
    out.put_u32(length);
    out.put_u32(checksum(number, &length.to_be_bytes()));
    out.put_slice(body);
    out.put_u32(checksum(number, body));
    Ok(())
}

fn checksum(number: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&number.to_be_bytes()), bytes)
}

/// Reads a stream that comes in pieces of any size.
#[derive(Debug)]
pub struct Decoder {
    waiting: BytesMut,
    has_begun: bool,
    has_ended: bool,
    number: u64,
    position: u64,
    counts: Counts,
    hash: blake3::Hasher,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            waiting: BytesMut::new(),
            has_begun: false,
            has_ended: false,
            number: 0,
            position: 0,
            counts: Counts::default(),
            hash: blake3::Hasher::new(),
        }
    }
}

impl Decoder {
    /// Takes what has come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// The next record; `None`: more has to come, or there is no more.
    ///
    /// # Errors
    /// If the stream is damaged. There is nothing to be read behind that.
    #[expect(
        clippy::should_implement_trait,
        reason = "an error ends it, as an iterator does not"
    )]
    pub fn next(&mut self) -> Result<Option<Record>, FormatError> {
        let read = self.read();
        read.map_err(|problem| self.error(problem))
    }

    /// No more comes: how much there was.
    ///
    /// # Errors
    /// If there should be more.
    pub fn finish(&self) -> Result<Counts, FormatError> {
        if self.has_ended && self.waiting.is_empty() {
            return Ok(self.counts);
        }
        let is_more = self.has_ended;
        Err(self.error(if is_more { Problem::Longer } else { Problem::CutOff }))
    }

    /// How many bytes of whole records were read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// How much was read.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn error(&self, problem: Problem) -> FormatError {
        FormatError {
            position: self.position,
            record: self.number,
            problem,
        }
    }

    fn read(&mut self) -> Result<Option<Record>, Problem> {
        if self.has_ended {
            return if self.waiting.is_empty() {
                Ok(None)
            } else {
                Err(Problem::Longer)
            };
        }
        if !self.has_begun && !self.head()? {
            return Ok(None);
        }
        let Some((front, _)) = self.waiting.split_first_chunk::<FRONT>() else {
            return Ok(None);
        };
        let (mut front, number) = (&front[..], self.number);
        let (length, crc) = (front.get_u32(), front.get_u32());
        if crc != checksum(number, &length.to_be_bytes()) {
            return Err(Problem::Checksum);
        }
        let length = usize::try_from(length).map_err(|_| Problem::TooLong)?;
        if length > RECORD_BYTES_MAX {
            return Err(Problem::TooLong);
        }
        if self.waiting.len() < FRONT + length + CRC {
            return Ok(None);
        }
        let whole = self.waiting.split_to(FRONT + length + CRC).freeze();
        let body = whole.slice(FRONT..FRONT + length);
        let mut crc = whole.slice(FRONT + length..);
        if crc.get_u32() != checksum(number, &body) {
            return Err(Problem::Checksum);
        }
        if body.first() == Some(&END) {
            self.end(body)?;
            self.position += whole.len() as u64;
            return if self.waiting.is_empty() {
                Ok(None)
            } else {
                Err(Problem::Longer)
            };
        }
        self.hash.update(&whole);
        let record = Record::decode(body).ok_or(Problem::Record)?;
        self.counts.count(&record);
        self.number += 1;
        self.position += whole.len() as u64;
        Ok(Some(record))
    }

    /// False: it has not come whole.
    fn head(&mut self) -> Result<bool, Problem> {
        let known = self.waiting.len().min(MAGIC.len());
        if self.waiting[..known] != MAGIC[..known] {
            return Err(Problem::Magic);
        }
        if self.waiting.len() < HEAD {
            return Ok(false);
        }
        let head = self.waiting.split_to(HEAD);
        if head[HEAD - 1] != VERSION {
            return Err(Problem::Version(head[HEAD - 1]));
        }
        self.hash.update(&head);
        self.position = HEAD as u64;
        self.has_begun = true;
        Ok(true)
    }

    fn end(&mut self, mut body: Bytes) -> Result<(), Problem> {
        body.advance(1);
        if body.len() != 4 * 8 + HASH {
            return Err(Problem::Record);
        }
        let counts = Counts {
            groups: body.get_u64(),
            keys: body.get_u64(),
            retained: body.get_u64(),
            sessions: body.get_u64(),
        };
        if counts != self.counts || body[..] != self.hash.finalize().as_bytes()[..] {
            return Err(Problem::Counts);
        }
        self.has_ended = true;
        Ok(())
    }
}
