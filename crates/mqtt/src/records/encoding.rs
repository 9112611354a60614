//! Numbers, texts and byte strings in records.

use bytes::{BufMut, Bytes};
use protocol::Text;
use protocol::packet::SubscriptionId;

use super::RecordError;
use crate::ids::QueueSequence;

/// Appends a text or byte string of at most 65,535 bytes, its length (2 bytes) first.
pub fn put_short(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u16(u16::try_from(bytes.len()).expect("texts and correlation data have at most 65,535 bytes"));
    out.put_slice(bytes);
}

/// Appends a byte string, its length (4 bytes) first.
pub fn put_long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u32(u32::try_from(bytes.len()).expect("a packet has less than 256 MiB"));
    out.put_slice(bytes);
}

/// Takes a record apart. The parts share its memory.
#[derive(Debug)]
pub struct Reader {
    rest: Bytes,
    record: &'static str,
}

impl Reader {
    /// Begins with a value, whose first byte must be `version`.
    pub fn of_value(value: Bytes, record: &'static str, version: u8) -> Result<Self, RecordError> {
        Self::of_versions(value, record, &[version]).map(|(reader, _)| reader)
    }

    /// Begins with a value, whose first byte must be one of `versions`, and says which.
    pub fn of_versions(
        value: Bytes,
        record: &'static str,
        versions: &[u8],
    ) -> Result<(Self, u8), RecordError> {
        let mut reader = Self { rest: value, record };
        let version = reader.u8()?;
        if versions.contains(&version) {
            Ok((reader, version))
        } else {
            Err(RecordError::UnknownVersion { record, version })
        }
    }

    /// Begins with a part of something whose version was looked at.
    pub fn of_rest(rest: Bytes, record: &'static str) -> Self {
        Self { rest, record }
    }

    /// Begins with a key, which has no version.
    pub fn of_key(key: &[u8], record: &'static str) -> Self {
        Self {
            rest: Bytes::copy_from_slice(key),
            record,
        }
    }

    /// Reads a byte.
    pub fn u8(&mut self) -> Result<u8, RecordError> {
        self.array().map(u8::from_be_bytes)
    }

    /// Reads a number of two bytes.
    pub fn u16(&mut self) -> Result<u16, RecordError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads a number of four bytes.
    pub fn u32(&mut self) -> Result<u32, RecordError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a number of eight bytes.
    pub fn u64(&mut self) -> Result<u64, RecordError> {
        self.array().map(u64::from_be_bytes)
    }

    /// What [`put_varint`] wrote.
    pub(crate) fn varint(&mut self) -> Result<u64, RecordError> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.damaged("a number has too many bytes"))
    }

    /// A subscription identifier (4 bytes), 0 for none. A higher one than there are could not be sent.
    pub fn subscription_id(&mut self) -> Result<Option<SubscriptionId>, RecordError> {
        match self.u32()? {
            id @ ..=SUBSCRIPTION_ID_MAX => Ok(SubscriptionId::new(id)),
            _ => Err(self.damaged("a subscription identifier is too high")),
        }
    }

    /// Where something stands in a queue (8 bytes). After one that is never reached nothing could be counted on.
    pub fn sequence(&mut self) -> Result<u64, RecordError> {
        match self.u64()? {
            sequence @ ..QueueSequence::MAX => Ok(sequence),
            _ => Err(self.damaged("a place in a queue is too high")),
        }
    }

    /// What [`put_short`] wrote.
    pub fn short(&mut self) -> Result<Bytes, RecordError> {
        let length = usize::from(self.u16()?);
        self.bytes(length)
    }

    /// What [`put_short`] wrote, as a text.
    pub fn text(&mut self) -> Result<Text, RecordError> {
        let bytes = self.short()?;
        self.parse(Text::from_bytes(bytes), "a text is not valid")
    }

    /// What [`put_long`] wrote.
    pub fn long(&mut self) -> Result<Bytes, RecordError> {
        let length = self.u32()?;
        let length = usize::try_from(length).map_err(|_| self.damaged("a length is too large"))?;
        self.bytes(length)
    }

    /// So many bytes.
    pub fn take(&mut self, length: usize) -> Result<Bytes, RecordError> {
        self.bytes(length)
    }

    /// All that is left.
    pub fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.rest)
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<(), RecordError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.damaged("bytes are left over"))
        }
    }

    /// Turns a failed parse into the error of this record.
    pub fn parse<T, E>(&self, parsed: Result<T, E>, what: &'static str) -> Result<T, RecordError> {
        parsed.map_err(|_| self.damaged(what))
    }

    /// Turns an absent value into the error of this record.
    pub fn require<T>(&self, value: Option<T>, what: &'static str) -> Result<T, RecordError> {
        value.ok_or(self.damaged(what))
    }

    /// Error of a record that does not fit the format.
    pub fn damaged(&self, what: &'static str) -> RecordError {
        RecordError::Damaged {
            record: self.record,
            what,
        }
    }

    fn bytes(&mut self, length: usize) -> Result<Bytes, RecordError> {
        if length > self.rest.len() {
            return Err(self.damaged("it is too short"));
        }
        Ok(self.rest.split_to(length))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let found = self.rest.first_chunk::<N>().copied();
        let found = self.require(found, "it is too short")?;
        self.rest = self.rest.slice(N..);
        Ok(found)
    }
}

/// What a variable byte integer can hold.
const SUBSCRIPTION_ID_MAX: u32 = 268_435_455;
