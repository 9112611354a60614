//! Snapshots of state machines, one file each, beside the engine.
//!
//! ```text
//! header   magic "STHDSNAP" | version u8 (3) | group u32 | index u64 | term u64 | directory id (16) | crc u32 of all before
//! chunk    length u32 (1..) | crc u32 of (number of the chunk u32, data) | data
//! footer   length u32 (0)   | chunks u32 | bytes of data u64 | crc u32 of (chunks, bytes)
//!
//! encrypted: version 4; a stamp (28) before the crc of the header; data with its tag (16), which length does not count;
//! a tag (16) before the crc of the footer, which is of (chunks, bytes, tag)
//!
//! versions 1 and 2: the same without directory id; they are read and not written
//! ```
//!
//! Numbers are big endian; checksums are CRC32C. A file is written under a temporary name, synced, and only then renamed to
//! `group-GROUP-INDEX-TERM.snapshot`; older ones go after that. So a file with this name was complete once; if it does
//! not read well now, it is damaged, and an older one may serve if the log still reaches back to it. One that carries the id
//! of another data directory is never passed over: it is not known what else was exchanged.

mod read;
mod rewrite;
mod write;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cluster::replica::record::LogPoint;
use cluster::{GroupId, Index, Term};

use crate::data_dir;
use crate::directory_id::{DirectoryId, DirectoryMark, ForeignFile};
use crate::encryption::{Encryption, EncryptionError, FileCipher, FileKeys, Stamp};
use crate::fault::{Doing, Fault};
use crate::heads::Heads;

pub use read::SnapshotReader;
pub use write::SnapshotWriter;

/// Largest chunk that is accepted: 16 MiB.
pub const CHUNK_BYTES_MAX: usize = 16 << 20;

const MAGIC: &[u8; 8] = b"STHDSNAP";
const UNMARKED: u8 = 1;
const UNMARKED_ENCRYPTED: u8 = 2;
const PLAIN: u8 = 3;
const ENCRYPTED: u8 = 4;

/// Magic, version, group, index and term.
const HEAD_LEN: usize = 8 + 1 + 4 + 8 + 8;
const CRC_LEN: usize = 4;

/// The footer's tag has a number that no chunk has.
const FOOTER_NUMBER: u64 = u64::MAX;

const SUFFIX: &str = ".snapshot";
const UNFINISHED_SUFFIX: &str = ".unfinished";

/// Why a snapshot cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SnapshotError {
    /// The disk failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Its bytes are not what was written.
    #[error("snapshot {} is damaged at byte {position}: {what}", path.display())]
    Damaged {
        path: PathBuf,
        position: u64,
        what: &'static str,
    },
    /// It is encrypted, and cannot be read with the keys that there are.
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
    /// It belongs to another server.
    #[error(transparent)]
    Foreign(#[from] ForeignFile),
    /// A newer version of the program wrote it.
    #[error("snapshot {} has format version {found}, this program knows up to {ENCRYPTED}", path.display())]
    Version { path: PathBuf, found: u8 },
    /// No snapshot reaches to the start of the log, and at least one that did is damaged.
    #[error("the log begins after entry {log_start}, and the snapshot for it cannot be used: {error}")]
    NoneUsable {
        log_start: Index,
        error: Box<SnapshotError>,
    },
}

/// The snapshots of all groups of a node.
#[derive(Debug, Clone)]
pub struct SnapshotFiles {
    dir: PathBuf,
    encryption: Encryption,
    mark: DirectoryMark,
}

impl SnapshotFiles {
    /// The snapshots in `dir`, which is made if it is not there. Removes files that were never finished.
    pub(crate) fn open(
        dir: &Path,
        encryption: Encryption,
        mark: DirectoryMark,
    ) -> Result<SnapshotFiles, Fault> {
        let open = || {
            data_dir::make_private(dir)?;
            for entry in fs::read_dir(dir)? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().ends_with(UNFINISHED_SUFFIX) {
                    fs::remove_file(entry.path())?;
                }
            }
            Ok(())
        };
        open().map_err(|error| Fault::from_io(Doing::Opening, error))?;
        Ok(SnapshotFiles {
            dir: dir.to_owned(),
            encryption,
            mark,
        })
    }

    /// Begins a snapshot of the state after `point`.
    pub fn writer(&self, group: GroupId, point: LogPoint) -> Result<SnapshotWriter, Fault> {
        SnapshotWriter::create(self.clone(), group, point)
            .map_err(|error| Fault::from_io(Doing::WritingSnapshot, error))
    }

    /// The newest snapshot of a group that reads well from start to end and reaches to `log_start`, if there is one.
    ///
    /// A damaged newest snapshot is passed over when an older one still fits the log; [`SnapshotReader::passed_over`]
    /// tells about it.
    pub fn latest(&self, group: GroupId, log_start: Index) -> Result<Option<SnapshotReader>, SnapshotError> {
        let mut passed_over = Vec::new();
        for (point, path) in self.list(group)?.into_iter().rev() {
            if point.index < log_start {
                break;
            }
            match SnapshotReader::open_checked(&path, (group, point), self) {
                Ok(reader) => return Ok(Some(reader.with_passed_over(passed_over))),
                // Neither a disk that fails, nor a key that is not there, nor another server's file makes an older one the right
                // one.
                Err(
                    error @ (SnapshotError::Fault(_)
                    | SnapshotError::Encryption(_)
                    | SnapshotError::Foreign(_)),
                ) => return Err(error),
                Err(error) => passed_over.push(error),
            }
        }
        match passed_over.into_iter().next() {
            None => Ok(None),
            Some(error) => Err(SnapshotError::NoneUsable {
                log_start,
                error: Box::new(error),
            }),
        }
    }

    /// Points and paths of a group's snapshots, oldest first.
    fn list(&self, group: GroupId) -> Result<Vec<(LogPoint, PathBuf)>, Fault> {
        let all = list(&self.dir).map_err(|error| Fault::from_io(Doing::ReadingSnapshot, error))?;
        let of_group = all.into_iter().filter(|((of, _), _)| *of == group);
        Ok(of_group.map(|((_, point), path)| (point, path)).collect())
    }

    fn remove_older(&self, group: GroupId, point: LogPoint) -> Result<(), Fault> {
        for (older, path) in self.list(group)? {
            if older < point {
                fs::remove_file(path).map_err(|error| Fault::from_io(Doing::WritingSnapshot, error))?;
            }
        }
        Ok(())
    }
}

fn name(group: GroupId, point: LogPoint) -> String {
    format!(
        "group-{:08x}-{:016x}-{:016x}{SUFFIX}",
        group.0, point.index.0, point.term.0
    )
}

fn parse_name(name: &str) -> Option<(GroupId, LogPoint)> {
    let mut parts = name.strip_prefix("group-")?.strip_suffix(SUFFIX)?.split('-');
    let group = GroupId(u32::from_str_radix(parts.next()?, 16).ok()?);
    let index = Index(u64::from_str_radix(parts.next()?, 16).ok()?);
    let term = Term(u64::from_str_radix(parts.next()?, 16).ok()?);
    parts
        .next()
        .is_none()
        .then_some((group, LogPoint { index, term }))
}

/// All snapshots, in order.
fn list(dir: &Path) -> io::Result<Vec<((GroupId, LogPoint), PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if let Some(of) = parse_name(&entry.file_name().to_string_lossy()) {
            found.push((of, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// Adds the heads of all snapshots. Without a directory there are none. Changes nothing.
pub(crate) fn read_heads(dir: &Path, heads: &mut Heads) -> io::Result<()> {
    let snapshots = match list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        snapshots => snapshots?,
    };
    for ((group, point), path) in snapshots {
        if let Some(head) = read::head(&path, (group, point))? {
            heads.directories.push((path.clone(), head.directory));
            heads.stamps.push((path, head.stamp));
        }
    }
    Ok(())
}

/// What a header says beside the name of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    /// None: an older version of the program wrote it.
    directory: Option<DirectoryId>,
    /// None: it is plain.
    stamp: Option<Stamp>,
}

/// The first bytes of a header.
fn begin(version: u8, group: GroupId, point: LogPoint) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_LEN + DirectoryId::LEN + Stamp::LEN + CRC_LEN);
    bytes.extend_from_slice(MAGIC);
    bytes.push(version);
    bytes.extend_from_slice(&group.0.to_be_bytes());
    bytes.extend_from_slice(&point.index.0.to_be_bytes());
    bytes.extend_from_slice(&point.term.0.to_be_bytes());
    bytes
}

fn header(group: GroupId, point: LogPoint, directory: DirectoryId, stamp: Option<Stamp>) -> Vec<u8> {
    let version = if stamp.is_some() { ENCRYPTED } else { PLAIN };
    let mut header = begin(version, group, point);
    header.extend_from_slice(directory.as_bytes());
    if let Some(stamp) = stamp {
        header.extend_from_slice(&stamp.encode());
    }
    push_crc(&mut header);
    header
}

fn push_crc(header: &mut Vec<u8>) {
    let crc = crc32c::crc32c(header);
    header.extend_from_slice(&crc.to_be_bytes());
}

/// What the chunks of an encrypted snapshot are encrypted with. Its keys follow from group, point and directory as well, so that
/// none of them can be exchanged.
fn cipher(keys: &FileKeys, group: GroupId, point: LogPoint, directory: Option<DirectoryId>) -> FileCipher {
    let mut place = begin(UNMARKED, group, point);
    push_crc(&mut place);
    if let Some(directory) = directory {
        place.extend_from_slice(directory.as_bytes());
    }
    keys.cipher("statehold snapshot", &place)
}

fn chunk_checksum(number: u32, data: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&number.to_be_bytes()), data)
}

/// What a footer says: how many chunks there are, and how many bytes are in them.
fn footer(chunks: u32, bytes: u64) -> [u8; 12] {
    let mut footer = [0; 12];
    footer[..4].copy_from_slice(&chunks.to_be_bytes());
    footer[4..].copy_from_slice(&bytes.to_be_bytes());
    footer
}

#[cfg(test)]
mod tests;
