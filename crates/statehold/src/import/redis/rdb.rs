//! RDB files, as Redis 2.6 to 8 and Valkey 7 and 8 write them (versions 1 to 12 of the format).
//!
//! Strings are read in all their encodings; of other types only what they are, and where the next one begins. An object of a type
//! that is not known ends the reading: nobody can tell how long it is.

mod objects;

use std::io::Read;

use super::crc64::Crc64;
use super::lzf;
use crate::import::file::{Bounded, FileError, FileReader};

pub(super) use self::objects::Kind;

/// A file that is being read.
#[derive(Debug)]
pub(super) struct Rdb<R> {
    input: FileReader<Crc64<R>>,
    version: u64,
    db: u64,
    value_bytes_max: u64,
    /// Libraries of functions that have been passed by.
    pub(super) libraries: u64,
}

/// A key, and what it has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Of which database it is.
    pub(super) db: u64,
    pub(super) key: Bounded,
    pub(super) object: Content,
    /// Milliseconds since the Unix epoch.
    pub(super) expires_at: Option<u64>,
}

/// What a key has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A string.
    Text(Bounded),
    /// Something else.
    Other(Kind),
}

impl<R: Read> Rdb<R> {
    /// Reads the beginning. Values of more bytes are only counted.
    pub(super) fn open(input: R, value_bytes_max: u64) -> Result<Self, FileError> {
        let mut input = FileReader::new(Crc64::new(input));
        let foreign = FileError::Foreign {
            what: "RDB file: those of Redis begin with REDIS and a version",
        };
        let Ok(head) = input.array::<9>() else {
            return Err(foreign);
        };
        let digits = head
            .strip_prefix(b"REDIS")
            .and_then(|digits| str::from_utf8(digits).ok());
        let Some(version) = digits.and_then(|digits| digits.parse().ok()) else {
            return Err(foreign);
        };
        if !(1..=12).contains(&version) {
            return Err(FileError::Version {
                version,
                known: "1 to 12",
            });
        }
        Ok(Self {
            input,
            version,
            db: 0,
            value_bytes_max,
            libraries: 0,
        })
    }

    /// The next key; `None` is the end, which is checked.
    pub(super) fn next(&mut self) -> Result<Option<Record>, FileError> {
        let mut expires_at = None;
        loop {
            let code = self.input.byte()?;
            match code {
                code::END => return self.end().map(|()| None),
                code::DATABASE => self.db = self.length()?,
                code::SIZES => self.skip_lengths(2)?,
                code::NAMED => self.skip_strings(2)?,
                code::LIBRARY => {
                    self.skip_strings(1)?;
                    self.libraries += 1;
                }
                code::SLOT => self.skip_lengths(3)?,
                code::IDLE => self.skip_lengths(1)?,
                code::FREQUENCY => self.input.skip(1)?,
                code::MODULE => {
                    self.skip_lengths(3)?;
                    self.skip_module()?;
                }
                code::EXPIRES_SECONDS => {
                    let seconds = u32::from_le_bytes(self.input.array()?);
                    expires_at = Some(u64::from(seconds) * 1_000);
                }
                code::EXPIRES_MILLISECONDS => {
                    // Of the time before 1970 as well.
                    let at = i64::from_le_bytes(self.input.array()?);
                    expires_at = Some(u64::try_from(at).unwrap_or(0));
                }
                kind => return self.record(kind, expires_at).map(Some),
            }
        }
    }

    fn record(&mut self, kind: u8, expires_at: Option<u64>) -> Result<Record, FileError> {
        let key = self.string(self.value_bytes_max)?;
        let object = if kind == STRING {
            Content::Text(self.string(self.value_bytes_max)?)
        } else {
            Content::Other(self.skip_object(kind)?)
        };
        Ok(Record {
            db: self.db,
            key,
            object,
            expires_at,
        })
    }

    fn end(&mut self) -> Result<(), FileError> {
        let sum = self.input.inner().sum();
        if self.version >= CHECKSUM_SINCE {
            let expected = u64::from_le_bytes(self.input.array()?);
            // A server that is told to computes none (`rdbchecksum no`).
            if expected != 0 && expected != sum {
                return Err(FileError::Checksum);
            }
        }
        match self.input.byte_or_end()? {
            None => Ok(()),
            Some(_) => self.input.damaged("something follows its end"),
        }
    }

    fn length(&mut self) -> Result<u64, FileError> {
        match self.length_or_encoding()? {
            Length::Plain(length) => Ok(length),
            Length::Encoded(_) => self.input.damaged("a string where a number should be"),
        }
    }

    fn length_or_encoding(&mut self) -> Result<Length, FileError> {
        let first = self.input.byte()?;
        let low = u64::from(first & 0x3F);
        Ok(match first >> 6 {
            0 => Length::Plain(low),
            1 => Length::Plain((low << 8) | u64::from(self.input.byte()?)),
            2 if first == 0x80 => Length::Plain(u32::from_be_bytes(self.input.array()?).into()),
            2 if first == 0x81 => Length::Plain(u64::from_be_bytes(self.input.array()?)),
            3 => Length::Encoded(first & 0x3F),
            _ => return self.input.damaged("a length of an unknown kind"),
        })
    }

    fn string(&mut self, bytes_max: u64) -> Result<Bounded, FileError> {
        let number = |number: i32| Ok(Bounded::All(number.to_string().into_bytes()));
        match self.length_or_encoding()? {
            Length::Plain(length) => self.input.bytes(length, bytes_max),
            Length::Encoded(0) => number(i8::from_le_bytes(self.input.array()?).into()),
            Length::Encoded(1) => number(i16::from_le_bytes(self.input.array()?).into()),
            Length::Encoded(2) => number(i32::from_le_bytes(self.input.array()?)),
            Length::Encoded(3) => self.compressed(bytes_max),
            Length::Encoded(_) => self.input.damaged("a string of an unknown encoding"),
        }
    }

    fn compressed(&mut self, bytes_max: u64) -> Result<Bounded, FileError> {
        let compressed = self.length()?;
        let bytes = self.length()?;
        if bytes > bytes_max {
            self.input.skip(compressed)?;
            let first = Vec::new();
            return Ok(Bounded::TooMany { bytes, first });
        }
        // Redis compresses only what gets shorter by it.
        let Bounded::All(compressed) = self.input.bytes(compressed, bytes_max)? else {
            return self
                .input
                .damaged("a compressed string that is longer than it was");
        };
        match lzf::decompressed(&compressed, bytes) {
            Some(plain) => Ok(Bounded::All(plain)),
            None => self.input.damaged("a compressed string that is none"),
        }
    }

    fn skip_strings(&mut self, count: u64) -> Result<(), FileError> {
        for _ in 0..count {
            match self.length_or_encoding()? {
                Length::Plain(length) => self.input.skip(length)?,
                Length::Encoded(0) => self.input.skip(1)?,
                Length::Encoded(1) => self.input.skip(2)?,
                Length::Encoded(2) => self.input.skip(4)?,
                Length::Encoded(3) => {
                    let compressed = self.length()?;
                    self.length()?;
                    self.input.skip(compressed)?;
                }
                Length::Encoded(_) => return self.input.damaged("a string of an unknown encoding"),
            }
        }
        Ok(())
    }

    fn skip_lengths(&mut self, count: u64) -> Result<(), FileError> {
        for _ in 0..count {
            self.length()?;
        }
        Ok(())
    }
}

#[derive(Debug)]
enum Length {
    Plain(u64),
    /// Of a string that is written in another way.
    Encoded(u8),
}

/// What stands where a type could stand.
mod code {
    pub(super) const SLOT: u8 = 244;
    pub(super) const LIBRARY: u8 = 245;
    pub(super) const MODULE: u8 = 247;
    pub(super) const IDLE: u8 = 248;
    pub(super) const FREQUENCY: u8 = 249;
    pub(super) const NAMED: u8 = 250;
    pub(super) const SIZES: u8 = 251;
    pub(super) const EXPIRES_MILLISECONDS: u8 = 252;
    pub(super) const EXPIRES_SECONDS: u8 = 253;
    pub(super) const DATABASE: u8 = 254;
    pub(super) const END: u8 = 255;
}

/// The type of strings.
const STRING: u8 = 0;

/// The version that has a checksum at its end.
const CHECKSUM_SINCE: u64 = 5;

#[cfg(test)]
mod tests;
