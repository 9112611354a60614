//! Highest wall time that the node has seen, so that a start with an earlier system clock extends nothing.
//!
//! Deadlines of messages and sessions are on disk as wall times. A clock that is set back between two runs would put all of them off. So
//! the node writes down what its clock says, and goes on from there.
//!
//! Key `clock` in the meta keyspace; value: version u8, 1 if the node stopped in order then or else 0 (u8), Unix milliseconds u64, CRC32C
//! u32 over key and value, big endian.

use bytes::{BufMut as _, Bytes, BytesMut};
use cluster::{Keyspace, Write};

use crate::identity::{sealed, unsealed};
use crate::{RecoveryError, Storage};

/// What a node's clock has said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockMark {
    /// Unix milliseconds.
    pub wall: u64,
    /// Whether nothing ran after that moment.
    pub is_last: bool,
}

pub(crate) const KEY: &[u8] = b"clock";
const VERSION: u8 = 1;
const RECORD_LEN: usize = 1 + 1 + 8 + 4;

impl ClockMark {
    /// The latest mark; `None`: there is none yet.
    pub fn read(storage: &impl Storage) -> Result<Option<ClockMark>, RecoveryError> {
        let Some(record) = storage.get(Keyspace::Meta, KEY)? else {
            return Ok(None);
        };
        decode(&record).map(Some).ok_or(RecoveryError::ClockMarkDamaged)
    }

    /// Stores it in place of the one before.
    pub fn put(self) -> Write {
        Write::Put {
            keyspace: Keyspace::Meta,
            key: Bytes::from_static(KEY),
            value: encode(self),
        }
    }
}

fn encode(mark: ClockMark) -> Bytes {
    let mut record = BytesMut::with_capacity(RECORD_LEN);
    record.put_u8(VERSION);
    record.put_u8(u8::from(mark.is_last));
    record.put_u64(mark.wall);
    sealed(KEY, record)
}

fn decode(record: &[u8]) -> Option<ClockMark> {
    let (&[version, is_last], wall) = unsealed(KEY, record)?.split_first_chunk()?;
    let is_last = match (version, is_last) {
        (VERSION, 0) => false,
        (VERSION, 1) => true,
        _ => return None,
    };
    let wall = u64::from_be_bytes(wall.try_into().ok()?);
    Some(ClockMark { wall, is_last })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimulatedDisk;

    const MARK: ClockMark = ClockMark {
        wall: 1_700_000_000_000,
        is_last: true,
    };

    #[test]
    fn the_latest_mark_is_read_again() {
        let mut disk = SimulatedDisk::new(1);
        assert_eq!(ClockMark::read(&disk).unwrap(), None);
        for wall in [5, 7, 6] {
            let mark = ClockMark { wall, ..MARK };
            disk.write(&[mark.put()]).unwrap();
            assert_eq!(ClockMark::read(&disk).unwrap(), Some(mark));
        }
    }

    #[test]
    fn the_bytes_are_those_of_version_1() {
        let golden = include_bytes!("../tests/golden/v1/clock-mark.record");
        assert_eq!(encode(MARK), &golden[..]);
        assert_eq!(decode(golden), Some(MARK));
    }

    #[test]
    fn a_flipped_byte_is_noticed() {
        let record = encode(MARK);
        for position in 0..record.len() {
            let mut damaged = record.to_vec();
            damaged[position] ^= 0x20;
            assert_eq!(decode(&damaged), None, "{position}");
        }
    }
}
