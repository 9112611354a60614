//! Record that this data directory is older than what other nodes know of it.
//!
//! The node takes no part in its cluster from then on, also after a start: what it has acknowledged since is missing here.
//!
//! Key `rolled-back` in the meta keyspace; value: version u8, the cause as UTF-8 text, CRC32C u32 over key and value, big endian.

use bytes::{BufMut as _, Bytes, BytesMut};
use cluster::{Keyspace, Write};

use super::{sealed, unsealed};
use crate::{RecoveryError, Storage};

/// Record that a directory is rolled back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledBack {
    /// How that is known, in words for operators.
    pub cause: String,
}

const KEY: &[u8] = b"rolled-back";
const VERSION: u8 = 1;

impl RolledBack {
    /// Reads the record. `None`: the directory is not rolled back, as far as it is known here.
    ///
    /// # Errors
    /// The record is damaged, or the disk fails.
    pub fn read(storage: &impl Storage) -> Result<Option<Self>, RecoveryError> {
        let Some(record) = storage.get(Keyspace::Meta, KEY)? else {
            return Ok(None);
        };
        decode(&record).map(Some).ok_or(RecoveryError::RolledBackDamaged)
    }

    /// Stores it.
    pub fn put(&self) -> Write {
        let mut record = BytesMut::new();
        record.put_u8(VERSION);
        record.put_slice(self.cause.as_bytes());
        Write::Put {
            keyspace: Keyspace::Meta,
            key: Bytes::from_static(KEY),
            value: sealed(KEY, record),
        }
    }
}

fn decode(record: &[u8]) -> Option<RolledBack> {
    let (&version, cause) = unsealed(KEY, record)?.split_first()?;
    let cause = std::str::from_utf8(cause).ok()?.to_owned();
    (version == VERSION).then_some(RolledBack { cause })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimulatedDisk;

    fn record() -> (RolledBack, Bytes) {
        let rolled_back = RolledBack {
            cause: "start 2 is another one".to_owned(),
        };
        let Write::Put { value, .. } = rolled_back.put() else {
            panic!("it is put");
        };
        (rolled_back, value)
    }

    #[test]
    fn it_is_read_again() {
        let mut disk = SimulatedDisk::new(1);
        assert_eq!(RolledBack::read(&disk).unwrap(), None);
        let (rolled_back, _) = record();
        disk.write(&[rolled_back.put()]).unwrap();
        assert_eq!(RolledBack::read(&disk).unwrap(), Some(rolled_back));
    }

    /// Bytes that version 1 writes. A change of this file is a change of the format: it needs a new version instead.
    #[test]
    fn a_record_of_version_1_is_written_as_ever() {
        let (_, value) = record();
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/rolled-back.record");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &value).unwrap();
        }
        assert_eq!(value, std::fs::read(path).unwrap());
    }

    #[test]
    fn a_flipped_byte_is_noticed() {
        let (_, value) = record();
        for position in 0..value.len() {
            let mut damaged = value.to_vec();
            damaged[position] ^= 0x20;
            assert_eq!(decode(&damaged), None, "{position}");
        }
    }
}
