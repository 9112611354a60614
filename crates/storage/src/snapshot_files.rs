//! Snapshots of state machines, one file each, beside the engine.
//!
//! ```text
//! header   magic "STHDSNAP" | version u8 (1) | group u32 | index u64 | term u64 | crc u32 of all before
//! chunk    length u32 (1..) | crc u32 of (number of the chunk u32, data) | data
//! footer   length u32 (0)   | chunks u32 | bytes of data u64 | crc u32 of (chunks, bytes)
//! ```
//!
//! Numbers are big endian; checksums are CRC32C. A file is written under a temporary name, synced, and only then renamed to
//! `group-GROUP-INDEX-TERM.snapshot`; older ones go after that. So a file with this name was complete once; if it does
//! not read well now, it is damaged, and an older one may serve if the log still reaches back to it.

mod read;
mod write;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cluster::replica::record::LogPoint;
use cluster::{GroupId, Index, Term};

use crate::data_dir;
use crate::fault::{Doing, Fault};

pub use read::SnapshotReader;
pub use write::SnapshotWriter;

/// Largest chunk that is accepted: 16 MiB.
pub const CHUNK_BYTES_MAX: usize = 16 << 20;

const MAGIC: &[u8; 8] = b"STHDSNAP";
const VERSION: u8 = 1;
const HEADER_LEN: usize = 8 + 1 + 4 + 8 + 8 + 4;
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
    /// A newer version of the program wrote it.
    #[error("snapshot {} has format version {found}, this program knows up to {VERSION}", path.display())]
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
}

impl SnapshotFiles {
    /// The snapshots in `dir`, which is made if it is not there. Removes files that were never finished.
    pub fn open(dir: &Path) -> Result<SnapshotFiles, Fault> {
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
        Ok(SnapshotFiles { dir: dir.to_owned() })
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
            match SnapshotReader::open_checked(&path, group, point) {
                Ok(reader) => return Ok(Some(reader.with_passed_over(passed_over))),
                Err(SnapshotError::Fault(fault)) => return Err(fault.into()),
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
        let list = || {
            let mut found = Vec::new();
            for entry in fs::read_dir(&self.dir)? {
                let entry = entry?;
                if let Some((of, point)) = parse_name(&entry.file_name().to_string_lossy())
                    && of == group
                {
                    found.push((point, entry.path()));
                }
            }
            found.sort();
            Ok(found)
        };
        list().map_err(|error: io::Error| Fault::from_io(Doing::ReadingSnapshot, error))
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

fn header(group: GroupId, point: LogPoint) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(MAGIC);
    header[8] = VERSION;
    header[9..13].copy_from_slice(&group.0.to_be_bytes());
    header[13..21].copy_from_slice(&point.index.0.to_be_bytes());
    header[21..29].copy_from_slice(&point.term.0.to_be_bytes());
    let crc = crc32c::crc32c(&header[..29]);
    header[29..].copy_from_slice(&crc.to_be_bytes());
    header
}

fn chunk_checksum(number: u32, data: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&number.to_be_bytes()), data)
}

fn footer_checksum(chunks: u32, bytes: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&chunks.to_be_bytes()), &bytes.to_be_bytes())
}

#[cfg(test)]
mod tests;
