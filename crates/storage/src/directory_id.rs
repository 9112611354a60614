//! Random id of a data directory, by which its files are told from those of another server.
//!
//! The id is made once, with the directory. Each segment of the log, `wal/LAST` and each snapshot carry it in their header, and
//! the engine in a file of its own. A file that was copied here from another server's directory has another id: a start
//! refuses it by its name, and changes nothing. The node's own id (`identity.rs`) cannot serve: it lies in the engine.
//!
//! ```text
//! DIRECTORY_ID, engine/DIRECTORY_ID     magic "STHDDRID" | crc u32 | version u32 (1) | id (16)
//! ```
//!
//! The checksum is over what follows it. Directories of formats 1 to 4 have no id; the first start of this version makes one
//! and writes their files anew with it (`data_dir.rs`).

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bytes::{Buf as _, BufMut as _};

use crate::data_dir;

/// Id of a data directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DirectoryId([u8; DirectoryId::LEN]);

/// Id that the files of a directory have to carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirectoryMark {
    pub(crate) id: DirectoryId,
    /// Whether files of an older format, which carry none, are accepted.
    pub(crate) accepts_unmarked: bool,
}

/// A file of another server's data directory lies in this one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForeignFile {
    /// It carries the id of another directory.
    #[error(
        "{} belongs to another server's data directory: it carries directory id {found}, and this directory has {own}; \
         put this server's own file back in its place",
        file.display()
    )]
    Another {
        file: PathBuf,
        found: DirectoryId,
        own: DirectoryId,
    },
    /// It carries none, although every file of this directory does.
    #[error(
        "{} belongs to another server's data directory, or to an older state of this one: it carries no directory id, and \
         this directory has {own}; put this server's own file back in its place",
        file.display()
    )]
    Unmarked { file: PathBuf, own: DirectoryId },
    /// All other files agree with each other, and not with the file that holds the id.
    #[error(
        "{} belongs to another server's data directory: it holds directory id {own}, and the files of this directory carry \
         {found}; put this server's own file back in its place",
        file.display()
    )]
    Id {
        file: PathBuf,
        found: DirectoryId,
        own: DirectoryId,
    },
}

/// The file, as it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Missing,
    Damaged,
    Id(DirectoryId),
}

const FILE: &str = "DIRECTORY_ID";
const MAGIC: [u8; 8] = *b"STHDDRID";
const VERSION: u32 = 1;
const FILE_LEN: usize = 8 + 4 + 4 + DirectoryId::LEN;

/// The checksum covers what follows it.
const CHECKED_FROM: usize = 12;

impl DirectoryId {
    /// Bytes of an id.
    pub(crate) const LEN: usize = 16;

    /// Draws the id of a new directory.
    pub(crate) fn random() -> DirectoryId {
        let mut id = [0; DirectoryId::LEN];
        aws_lc_rs::rand::fill(&mut id).expect("the system has random numbers");
        DirectoryId(id)
    }

    pub(crate) const fn from_bytes(bytes: [u8; DirectoryId::LEN]) -> DirectoryId {
        DirectoryId(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; DirectoryId::LEN] {
        &self.0
    }

    /// Reads the id that a directory, or the engine in it, says to have.
    pub(crate) fn read(dir: &Path) -> io::Result<Found> {
        match fs::read(path(dir)) {
            Ok(bytes) => Ok(decode(&bytes).map_or(Found::Damaged, Found::Id)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Missing),
            Err(error) => Err(error),
        }
    }

    /// Writes the id durably into a directory.
    pub(crate) fn write(self, dir: &Path) -> io::Result<()> {
        let unfinished = dir.join(format!("{FILE}.unfinished"));
        let mut file = File::create(&unfinished)?;
        file.write_all(&encode(self))?;
        file.sync_all()?;
        fs::rename(&unfinished, path(dir))?;
        data_dir::sync_dir(dir)
    }
}

impl fmt::Display for DirectoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for DirectoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DirectoryId({self})")
    }
}

impl DirectoryMark {
    /// Refuses a file that carries another id than this, or none where each has one.
    pub(crate) fn check(self, file: &Path, found: Option<DirectoryId>) -> Result<(), ForeignFile> {
        let (file, own) = (file.to_owned(), self.id);
        match found {
            Some(found) if found != own => Err(ForeignFile::Another { file, found, own }),
            None if !self.accepts_unmarked => Err(ForeignFile::Unmarked { file, own }),
            _ => Ok(()),
        }
    }

    /// Refuses the first file that does not belong here; or the file in `dir` that holds the id, if it alone disagrees.
    pub(crate) fn check_all(
        self,
        dir: &Path,
        files: &[(PathBuf, Option<DirectoryId>)],
    ) -> Result<(), ForeignFile> {
        let refused = files
            .iter()
            .try_for_each(|(file, found)| self.check(file, *found));
        let Err(ForeignFile::Another { found, own, .. }) = refused else {
            return refused;
        };
        if files.len() > 1 && files.iter().all(|(_, of)| *of == Some(found)) {
            let file = path(dir);
            return Err(ForeignFile::Id { file, found, own });
        }
        refused
    }
}

/// Path of the file with the id of a directory.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

fn encode(id: DirectoryId) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FILE_LEN);
    bytes.put_slice(&MAGIC);
    bytes.put_u32(0);
    bytes.put_u32(VERSION);
    bytes.put_slice(&id.0);
    let crc = crc32c::crc32c(&bytes[CHECKED_FROM..]);
    bytes[MAGIC.len()..CHECKED_FROM].copy_from_slice(&crc.to_be_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<DirectoryId> {
    let bytes: &[u8; FILE_LEN] = bytes.try_into().ok()?;
    let mut fields = bytes.strip_prefix(&MAGIC)?;
    if fields.get_u32() != crc32c::crc32c(fields) || fields.get_u32() != VERSION {
        return None;
    }
    fields.try_into().ok().map(DirectoryId)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: DirectoryId = DirectoryId([0xAB; 16]);
    const OTHER: DirectoryId = DirectoryId([0xCD; 16]);

    fn mark(accepts_unmarked: bool) -> DirectoryMark {
        DirectoryMark {
            id: ID,
            accepts_unmarked,
        }
    }

    #[test]
    fn the_bytes_are_those_of_version_1() {
        let golden = include_bytes!("../tests/golden/v1/DIRECTORY_ID");
        assert_eq!(encode(ID), golden);
        assert_eq!(decode(golden), Some(ID));
    }

    #[test]
    fn what_was_written_is_read_and_a_flipped_byte_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(DirectoryId::read(dir.path()).unwrap(), Found::Missing);
        ID.write(dir.path()).unwrap();
        assert_eq!(DirectoryId::read(dir.path()).unwrap(), Found::Id(ID));
        let bytes = encode(ID);
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x20;
            assert_eq!(decode(&damaged), None, "{position}");
        }
    }

    #[test]
    fn each_directory_has_an_id_of_its_own() {
        assert_ne!(DirectoryId::random(), DirectoryId::random());
    }

    #[test]
    fn a_file_without_an_id_is_accepted_only_where_older_ones_may_be() {
        let file = Path::new("file");
        for accepts_unmarked in [true, false] {
            let mark = mark(accepts_unmarked);
            assert_eq!(mark.check(file, Some(ID)), Ok(()));
            assert!(mark.check(file, Some(OTHER)).is_err());
            assert_eq!(mark.check(file, None).is_ok(), accepts_unmarked);
        }
    }

    #[test]
    fn the_file_that_disagrees_with_all_others_is_named() {
        let dir = Path::new("data");
        let named = |files: &[Option<DirectoryId>]| {
            let numbered = files.iter().enumerate();
            let files: Vec<_> = numbered
                .map(|(number, id)| (dir.join(number.to_string()), *id))
                .collect();
            mark(false)
                .check_all(dir, &files)
                .map_err(|error| error.to_string())
        };
        assert_eq!(named(&[Some(ID), Some(ID)]), Ok(()));
        let one = named(&[Some(ID), Some(OTHER)]).unwrap_err();
        assert!(one.starts_with("data/1 belongs to another server's"), "{one}");
        let the_id = named(&[Some(OTHER), Some(OTHER)]).unwrap_err();
        assert!(the_id.starts_with("data/DIRECTORY_ID belongs"), "{the_id}");
        let unmarked = named(&[Some(ID), None]).unwrap_err();
        assert!(unmarked.starts_with("data/1 belongs"), "{unmarked}");
    }
}
