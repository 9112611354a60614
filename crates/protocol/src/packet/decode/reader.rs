//! The data representations of MQTT (MQTT 5.0 section 1.5), read out of one received packet.

use bytes::Bytes;

use super::error::Violation;
use crate::byte_search;
use crate::packet::PacketId;
use crate::text::Text;

/// What is left of a packet, or of a part of one.
///
/// Strings and binary data are cut out of `frame` without copying them.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    frame: &'a Bytes,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn new(frame: &'a Bytes) -> Self {
        Self { frame, rest: frame }
    }

    /// Reads from a packet that has neither strings nor binary data, so that its memory need not be shared.
    #[inline]
    pub(super) fn of_numbers(packet: &'a [u8]) -> Self {
        static NOTHING: Bytes = Bytes::new();
        Self {
            frame: &NOTHING,
            rest: packet,
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Refuses bytes after the last field.
    pub(super) fn end(self) -> Result<(), Violation> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Violation::TrailingBytes {
                count: self.rest.len(),
            })
        }
    }

    #[inline]
    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, Violation> {
        let (byte, rest) = self.rest.split_first().ok_or(Violation::Truncated { field })?;
        self.rest = rest;
        Ok(*byte)
    }

    #[inline]
    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, Violation> {
        let (bytes, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(Violation::Truncated { field })?;
        self.rest = rest;
        Ok(u16::from_be_bytes(*bytes))
    }

    #[inline]
    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, Violation> {
        let (bytes, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(Violation::Truncated { field })?;
        self.rest = rest;
        Ok(u32::from_be_bytes(*bytes))
    }

    /// [MQTT-2.2.1-3]
    #[inline]
    pub(super) fn packet_id(&mut self) -> Result<PacketId, Violation> {
        PacketId::new(self.u16("packet identifier")?).ok_or(Violation::PacketIdZero)
    }

    #[inline]
    pub(super) fn variable_byte_integer(&mut self, field: &'static str) -> Result<u32, Violation> {
        let integer = match VariableByteInteger::read(self.rest) {
            Ok(Some(integer)) => integer,
            Ok(None) => return Err(Violation::Truncated { field }),
            Err(TooLong) => return Err(Violation::VariableByteIntegerTooLong { field }),
        };
        if !integer.is_minimal() {
            return Err(Violation::VariableByteIntegerNotMinimal { field });
        }
        let (_, rest) = self
            .rest
            .split_at_checked(integer.length)
            .ok_or(Violation::Truncated { field })?;
        self.rest = rest;
        Ok(integer.value)
    }

    /// A two-byte length and as many bytes, in place.
    #[inline]
    pub(super) fn prefixed(&mut self, field: &'static str) -> Result<&'a [u8], Violation> {
        let (length, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(Violation::Truncated { field })?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (bytes, rest) = rest
            .split_at_checked(length)
            .ok_or(Violation::Truncated { field })?;
        self.rest = rest;
        Ok(bytes)
    }

    #[inline]
    pub(super) fn binary(&mut self, field: &'static str) -> Result<Bytes, Violation> {
        let bytes = self.prefixed(field)?;
        Ok(self.share(bytes))
    }

    #[inline]
    pub(super) fn text(&mut self, field: &'static str) -> Result<Text, Violation> {
        let bytes = self.prefixed(field)?;
        Text::from_bytes(self.share(bytes)).map_err(|error| Violation::Text { field, error })
    }

    /// A topic name that must be there and must not have wildcards. [MQTT-4.7.0-1] [MQTT-4.7.3-1]
    #[inline]
    pub(super) fn topic_name(&mut self, field: &'static str) -> Result<Text, Violation> {
        let text = self.text(field)?;
        if text.is_empty() {
            return Err(Violation::TopicNameEmpty { field });
        }
        if byte_search::has_wildcard(text.as_bytes()) {
            return Err(Violation::TopicNameWildcard { field, topic: text });
        }
        Ok(text)
    }

    /// The next `length` bytes as a reader of their own.
    #[inline]
    pub(super) fn part(&mut self, length: usize, field: &'static str) -> Result<Self, Violation> {
        let (part, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(Violation::Truncated { field })?;
        self.rest = rest;
        Ok(Self {
            frame: self.frame,
            rest: part,
        })
    }

    /// Some bytes of this packet, sharing its memory.
    #[inline]
    pub(super) fn share(&self, bytes: &[u8]) -> Bytes {
        self.frame.slice_ref(bytes)
    }
}

/// A variable byte integer (MQTT 5.0 section 1.5.5).
#[derive(Debug, Clone, Copy)]
pub(super) struct VariableByteInteger {
    pub(super) value: u32,
    /// In bytes: 1 to 4.
    pub(super) length: usize,
}

/// A variable byte integer goes on after its fourth byte.
#[derive(Debug)]
pub(super) struct TooLong;

impl VariableByteInteger {
    /// Reads the integer that `bytes` start with; `None` if it goes on past their end.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, TooLong> {
        let mut value = 0;
        for (index, byte) in bytes.iter().take(4).enumerate() {
            value |= u32::from(byte & 0x7F) << (7 * index);
            if byte & 0x80 == 0 {
                return Ok(Some(Self {
                    value,
                    length: index + 1,
                }));
            }
        }
        if bytes.len() < 4 { Ok(None) } else { Err(TooLong) }
    }

    /// [MQTT-1.5.5-1]
    pub(super) fn is_minimal(self) -> bool {
        self.length == 1 || self.value >> (7 * (self.length - 1)) != 0
    }
}
