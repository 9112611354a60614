//! Which segment was begun last: what the log's own end cannot say.
//!
//! ```text
//! magic "STHDLAST" | crc u32 | version u32 (2) | segment u64 | bytes u64 | sequence u64 | directory id (16)
//! version 1: the same without directory id; it is read and not written
//! ```
//!
//! The log ends where no next record is found. Whether one was there cannot be seen from what is left, if a whole file is missing, is zeroed
//! or was cut. So this file says that `segment` was begun and its file has `bytes` bytes at least, and that every record up to `sequence` was
//! durable then. It is written when a segment is begun, when the engine is closed, and when a start has cut the log. Segment 0: none was.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bytes::{Buf as _, BufMut as _};

use crate::data_dir;
use crate::directory_id::DirectoryId;

/// What the log has at least.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) segment: u64,
    pub(super) bytes: u64,
    pub(super) sequence: u64,
    /// Id of the data directory to which it belongs. None: an older version of the program wrote it, or nothing was written.
    pub(super) directory: Option<DirectoryId>,
}

/// The file, as it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Damaged,
    Last(Last),
}

const FILE: &str = "LAST";
const MAGIC: [u8; 8] = *b"STHDLAST";
const UNMARKED: u32 = 1;
const MARKED: u32 = 2;
const UNMARKED_LEN: usize = 8 + 4 + 4 + 3 * 8;
const LEN: usize = UNMARKED_LEN + DirectoryId::LEN;

/// The checksum covers what follows it.
const CHECKED_FROM: usize = 12;

pub(super) fn path(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

impl Last {
    pub(super) fn read(dir: &Path) -> io::Result<Found> {
        match fs::read(path(dir)) {
            Ok(bytes) => Ok(Last::decode(&bytes).map_or(Found::Damaged, Found::Last)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Durably, in place of what was said before.
    pub(super) fn write(self, dir: &Path) -> io::Result<()> {
        let unfinished = dir.join(format!("{FILE}.unfinished"));
        let mut file = File::create(&unfinished)?;
        file.write_all(&self.encode())?;
        file.sync_all()?;
        fs::rename(&unfinished, path(dir))?;
        data_dir::sync_dir(dir)
    }

    fn encode(self) -> Vec<u8> {
        let directory = self.directory.expect("what is written carries an id");
        let mut bytes = Vec::with_capacity(LEN);
        bytes.put_slice(&MAGIC);
        bytes.put_u32(0);
        bytes.put_u32(MARKED);
        bytes.put_u64(self.segment);
        bytes.put_u64(self.bytes);
        bytes.put_u64(self.sequence);
        bytes.put_slice(directory.as_bytes());
        let crc = crc32c::crc32c(&bytes[CHECKED_FROM..]);
        bytes[MAGIC.len()..CHECKED_FROM].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Last> {
        let mut fields = bytes.strip_prefix(&MAGIC)?;
        if fields.try_get_u32().ok()? != crc32c::crc32c(fields) {
            return None;
        }
        let is_marked = match (fields.try_get_u32().ok()?, bytes.len()) {
            (UNMARKED, UNMARKED_LEN) => false,
            (MARKED, LEN) => true,
            _ => return None,
        };
        let last = Last {
            segment: fields.get_u64(),
            bytes: fields.get_u64(),
            sequence: fields.get_u64(),
            directory: None,
        };
        let id = fields.first_chunk().filter(|_| is_marked);
        Some(Last {
            directory: id.map(|id| DirectoryId::from_bytes(*id)),
            ..last
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: Last = Last {
        segment: 7,
        bytes: 4 << 20,
        sequence: 1_234,
        directory: Some(DirectoryId::from_bytes([9; 16])),
    };

    #[test]
    fn the_bytes_are_those_of_version_2() {
        let golden = include_bytes!("../../tests/golden/v2/LAST");
        assert_eq!(LAST.encode(), golden);
        assert_eq!(Last::decode(golden), Some(LAST));
    }

    #[test]
    fn what_version_1_wrote_is_read() {
        let golden = include_bytes!("../../tests/golden/v1/LAST");
        let directory = None;
        assert_eq!(Last::decode(golden), Some(Last { directory, ..LAST }));
    }

    #[test]
    fn what_was_written_is_read_and_a_flipped_byte_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Last::read(dir.path()).unwrap(), Found::Nothing);
        LAST.write(dir.path()).unwrap();
        assert_eq!(Last::read(dir.path()).unwrap(), Found::Last(LAST));
        let bytes = LAST.encode();
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x20;
            fs::write(path(dir.path()), damaged).unwrap();
            assert_eq!(Last::read(dir.path()).unwrap(), Found::Damaged, "{position}");
        }
    }
}
