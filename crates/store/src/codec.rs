//! Numbers, byte strings and the small types of the store as log entries and snapshots write them.
//!
//! | what | bytes |
//! |---|---|
//! | number | LEB128: seven bits a byte, the lowest first, the highest bit set on all but the last; the shortest form only |
//! | byte string | its length as a number, then the bytes |
//! | HLC | wall and counter as numbers, node as a byte string |
//! | version | wall and counter as numbers |
//!
//! Reading trusts nothing: a length that is longer than what follows is damage, not an allocation.

use bytes::{BufMut, Bytes, BytesMut};
use protocol::state_store::Dialect;
use protocol::{Hlc, Text};

use crate::command::{Outcome, Quota, Refusal, Watcher};
use crate::retry::RetryKey;
use crate::version::{COUNTER_MAX, Version, WALL_MAX};

/// The bytes are not what was ever written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damaged;

/// Where bytes are read from: a log entry, or the chunks of a snapshot.
pub(crate) trait Source {
    /// The next byte.
    fn byte(&mut self) -> Result<u8, Damaged>;

    /// The next `length` bytes, sharing memory where that costs nothing.
    fn take(&mut self, length: u64) -> Result<Bytes, Damaged>;
}

/// A log entry is one piece of memory, and what is read shares it.
impl Source for Bytes {
    fn byte(&mut self) -> Result<u8, Damaged> {
        let byte = *self.first().ok_or(Damaged)?;
        bytes::Buf::advance(self, 1);
        Ok(byte)
    }

    fn take(&mut self, length: u64) -> Result<Bytes, Damaged> {
        let length = usize::try_from(length).map_err(|_| Damaged)?;
        if length > self.len() {
            return Err(Damaged);
        }
        Ok(self.split_to(length))
    }
}

pub(crate) fn put_number(out: &mut BytesMut, number: u64) {
    let mut encoded = [0; NUMBER_LENGTH_MAX];
    let mut length = 0;
    let mut rest = number;
    for byte in &mut encoded {
        let bits = rest.to_le_bytes()[0] & 0x7f;
        rest >>= 7;
        length += 1;
        if rest == 0 {
            *byte = bits;
            break;
        }
        *byte = bits | 0x80;
    }
    out.put_slice(&encoded[..length]);
}

pub(crate) fn number(source: &mut impl Source) -> Result<u64, Damaged> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = source.byte()?;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return Err(Damaged);
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            let is_shortest = byte != 0 || shift == 0;
            return if is_shortest { Ok(number) } else { Err(Damaged) };
        }
    }
    Err(Damaged)
}

/// A number that fits 32 bits.
pub(crate) fn small_number(source: &mut impl Source) -> Result<u32, Damaged> {
    u32::try_from(number(source)?).map_err(|_| Damaged)
}

/// A wall time within the bounds of the store.
pub(crate) fn wall(source: &mut impl Source) -> Result<u64, Damaged> {
    let wall = number(source)?;
    if wall <= WALL_MAX { Ok(wall) } else { Err(Damaged) }
}

pub(crate) fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.put_slice(bytes);
}

pub(crate) fn bytes(source: &mut impl Source) -> Result<Bytes, Damaged> {
    let length = number(source)?;
    source.take(length)
}

/// A key: a byte string that is not empty.
pub(crate) fn key(source: &mut impl Source) -> Result<Bytes, Damaged> {
    let key = bytes(source)?;
    if key.is_empty() { Err(Damaged) } else { Ok(key) }
}

pub(crate) fn put_hlc(out: &mut BytesMut, hlc: &Hlc) {
    put_number(out, hlc.wall);
    put_number(out, hlc.counter);
    put_bytes(out, hlc.node.as_bytes());
}

pub(crate) fn hlc(source: &mut impl Source) -> Result<Hlc, Damaged> {
    let wall = wall(source)?;
    let counter = number(source)?;
    let node = Text::from_bytes(bytes(source)?).map_err(|_| Damaged)?;
    if node.is_empty() {
        Err(Damaged)
    } else {
        Ok(Hlc { wall, counter, node })
    }
}

pub(crate) fn put_version(out: &mut BytesMut, version: Version) {
    put_number(out, version.wall);
    put_number(out, u64::from(version.counter));
}

/// A version may be behind [`WALL_MAX`] by what full counters have moved it on.
pub(crate) fn version(source: &mut impl Source) -> Result<Version, Damaged> {
    let version = Version {
        wall: number(source)?,
        counter: small_number(source)?,
    };
    let is_possible = version.wall < 2 * (WALL_MAX - 1) && (1..=COUNTER_MAX).contains(&version.counter);
    if is_possible { Ok(version) } else { Err(Damaged) }
}

pub(crate) fn put_watcher(out: &mut BytesMut, watcher: Watcher) {
    put_number(out, watcher.node);
    put_number(out, u64::from(watcher.incarnation));
    put_number(out, watcher.connection);
}

pub(crate) fn watcher(source: &mut impl Source) -> Result<Watcher, Damaged> {
    Ok(Watcher {
        node: number(source)?,
        incarnation: small_number(source)?,
        connection: number(source)?,
    })
}

pub(crate) fn put_quota(out: &mut BytesMut, quota: Quota) {
    put_number(out, quota.keys_max);
    put_number(out, quota.bytes_max);
}

pub(crate) fn quota(source: &mut impl Source) -> Result<Quota, Damaged> {
    Ok(Quota {
        keys_max: number(source)?,
        bytes_max: number(source)?,
    })
}

pub(crate) fn put_retry(out: &mut BytesMut, retry: &RetryKey) {
    out.put_slice(&retry.hash);
    put_number(out, retry.remembered);
}

pub(crate) fn retry(source: &mut impl Source) -> Result<RetryKey, Damaged> {
    Ok(RetryKey {
        hash: hash(source)?,
        remembered: number(source)?,
    })
}

/// What a request is known by.
pub(crate) fn hash(source: &mut impl Source) -> Result<[u8; 16], Damaged> {
    let hash = source.take(16)?;
    <[u8; 16]>::try_from(hash.as_ref()).map_err(|_| Damaged)
}

pub(crate) fn put_dialect(out: &mut BytesMut, dialect: Dialect) {
    out.put_u8(match dialect {
        Dialect::Sdk => 0,
        Dialect::Published => 1,
    });
}

pub(crate) fn dialect(source: &mut impl Source) -> Result<Dialect, Damaged> {
    match source.byte()? {
        0 => Ok(Dialect::Sdk),
        1 => Ok(Dialect::Published),
        _ => Err(Damaged),
    }
}

pub(crate) fn put_outcome(out: &mut BytesMut, outcome: Outcome) {
    let (tag, version) = match outcome {
        Outcome::Stored { version } => (0, Some(version)),
        Outcome::ConditionFailed { stored } => (1, Some(stored)),
        Outcome::Deleted { version } => (2, Some(version)),
        Outcome::Missing => (3, None),
        Outcome::OtherValue { stored } => (4, Some(stored)),
        Outcome::Watching => (5, None),
        Outcome::Unwatched => (6, None),
        Outcome::NotWatched => (7, None),
        Outcome::Refused(Refusal::FencingTokenRequired) => (8, None),
        Outcome::Refused(Refusal::FencingTokenLower) => (9, None),
        Outcome::Refused(Refusal::QuotaExceeded) => (10, None),
        Outcome::Done => (11, None),
    };
    out.put_u8(tag);
    if let Some(version) = version {
        put_version(out, version);
    }
}

pub(crate) fn outcome(source: &mut impl Source) -> Result<Outcome, Damaged> {
    Ok(match source.byte()? {
        0 => Outcome::Stored {
            version: version(source)?,
        },
        1 => Outcome::ConditionFailed {
            stored: version(source)?,
        },
        2 => Outcome::Deleted {
            version: version(source)?,
        },
        3 => Outcome::Missing,
        4 => Outcome::OtherValue {
            stored: version(source)?,
        },
        5 => Outcome::Watching,
        6 => Outcome::Unwatched,
        7 => Outcome::NotWatched,
        8 => Outcome::Refused(Refusal::FencingTokenRequired),
        9 => Outcome::Refused(Refusal::FencingTokenLower),
        10 => Outcome::Refused(Refusal::QuotaExceeded),
        11 => Outcome::Done,
        _ => return Err(Damaged),
    })
}

/// Seven of 64 bits in each byte.
const NUMBER_LENGTH_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &'static [u8]) -> Result<u64, Damaged> {
        number(&mut Bytes::from_static(bytes))
    }

    #[test]
    fn a_number_is_read_as_it_was_written() {
        for shift in 0..64 {
            for written in [1_u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut out = BytesMut::new();
                put_number(&mut out, written);
                assert_eq!(number(&mut out.freeze()), Ok(written));
            }
        }
    }

    #[test]
    fn a_number_has_one_form_and_64_bits() {
        assert_eq!(read(&[0x80, 0x01]), Ok(128));
        assert_eq!(read(&[0x80, 0x00]), Err(Damaged));
        assert_eq!(read(&[0x80]), Err(Damaged));
        assert_eq!(read(&[0xff; 9]), Err(Damaged));
        assert_eq!(
            read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
            Ok(u64::MAX)
        );
        assert_eq!(
            read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]),
            Err(Damaged)
        );
        assert_eq!(
            read(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]),
            Err(Damaged)
        );
    }

    #[test]
    fn a_length_beyond_the_end_is_damage() {
        assert_eq!(bytes(&mut Bytes::from_static(&[2, 7])), Err(Damaged));
        assert_eq!(
            bytes(&mut Bytes::from_static(&[0xff, 0xff, 0xff, 0xff, 0x0f, 7])),
            Err(Damaged)
        );
    }
}
