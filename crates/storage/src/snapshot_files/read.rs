//! Reads one snapshot file, trusting nothing in it.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cluster::GroupId;
use cluster::replica::record::LogPoint;

use super::{
    CHUNK_BYTES_MAX, HEADER_LEN, MAGIC, SnapshotError, VERSION, chunk_checksum, footer_checksum, header,
};
use crate::fault::{Doing, Fault};

/// A snapshot that was read once to its end and found good. Iterates over its chunks, each checked again.
#[derive(Debug)]
pub struct SnapshotReader {
    path: PathBuf,
    point: LogPoint,
    file: BufReader<File>,
    position: u64,
    chunks: u32,
    bytes: u64,
    ended: bool,
    passed_over: Vec<SnapshotError>,
}

impl SnapshotReader {
    /// The point up to which the snapshot holds the state.
    pub fn point(&self) -> LogPoint {
        self.point
    }

    /// Newer snapshots that are damaged: to be reported to the operator.
    pub fn passed_over(&self) -> &[SnapshotError] {
        &self.passed_over
    }

    /// Opens a snapshot, reads all of it, and returns to its first chunk.
    pub(super) fn open_checked(
        path: &Path,
        group: GroupId,
        point: LogPoint,
    ) -> Result<SnapshotReader, SnapshotError> {
        let file = File::open(path).map_err(fault)?;
        let file = BufReader::with_capacity(1 << 20, file);
        let mut reader = SnapshotReader {
            path: path.to_owned(),
            point,
            file,
            position: 0,
            chunks: 0,
            bytes: 0,
            ended: false,
            passed_over: Vec::new(),
        };
        reader.check_header(group)?;
        while reader.next_chunk()?.is_some() {}
        reader
            .file
            .seek(io::SeekFrom::Start(HEADER_LEN as u64))
            .map_err(fault)?;
        Ok(SnapshotReader {
            position: HEADER_LEN as u64,
            chunks: 0,
            bytes: 0,
            ended: false,
            ..reader
        })
    }

    pub(super) fn with_passed_over(self, passed_over: Vec<SnapshotError>) -> SnapshotReader {
        SnapshotReader { passed_over, ..self }
    }

    fn check_header(&mut self, group: GroupId) -> Result<(), SnapshotError> {
        let found: [u8; HEADER_LEN] = self.read()?;
        if !found.starts_with(MAGIC) {
            return Err(self.damaged("it does not begin like a snapshot"));
        }
        let (body, crc) = found.split_at(HEADER_LEN - 4);
        if crc32c::crc32c(body).to_be_bytes() != crc {
            return Err(self.damaged("the header's checksum does not match"));
        }
        if found[8] != VERSION {
            return Err(SnapshotError::Version {
                path: self.path.clone(),
                found: found[8],
            });
        }
        if found != header(group, self.point) {
            return Err(self.damaged("it is of another group or point than its name says"));
        }
        Ok(())
    }

    fn next_chunk(&mut self) -> Result<Option<Bytes>, SnapshotError> {
        if self.ended {
            return Ok(None);
        }
        let len = u32::from_be_bytes(self.read()?);
        if len == 0 {
            self.check_footer()?;
            self.ended = true;
            return Ok(None);
        }
        if len as usize > CHUNK_BYTES_MAX {
            return Err(self.damaged("a chunk is too long"));
        }
        let crc = u32::from_be_bytes(self.read()?);
        let mut data = Vec::new();
        (&mut self.file)
            .take(u64::from(len))
            .read_to_end(&mut data)
            .map_err(fault)?;
        if data.len() < len as usize {
            return Err(self.damaged("it ends within a chunk"));
        }
        if chunk_checksum(self.chunks, &data) != crc {
            return Err(self.damaged("a chunk's checksum does not match"));
        }
        self.position += u64::from(len);
        self.chunks = self
            .chunks
            .checked_add(1)
            .ok_or_else(|| self.damaged("it has too many chunks"))?;
        self.bytes += u64::from(len);
        Ok(Some(data.into()))
    }

    fn check_footer(&mut self) -> Result<(), SnapshotError> {
        let chunks = u32::from_be_bytes(self.read()?);
        let bytes = u64::from_be_bytes(self.read()?);
        let crc = u32::from_be_bytes(self.read()?);
        if crc != footer_checksum(chunks, bytes) {
            return Err(self.damaged("the footer's checksum does not match"));
        }
        if (chunks, bytes) != (self.chunks, self.bytes) {
            return Err(self.damaged("chunks are missing"));
        }
        let mut more = [0];
        if self.file.read(&mut more).map_err(fault)? > 0 {
            return Err(self.damaged("it goes on after its end"));
        }
        Ok(())
    }

    fn read<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let mut bytes = [0; N];
        match self.file.read_exact(&mut bytes) {
            Ok(()) => {
                self.position += N as u64;
                Ok(bytes)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.damaged("it is cut short"))
            }
            Err(error) => Err(fault(error)),
        }
    }

    fn damaged(&self, what: &'static str) -> SnapshotError {
        SnapshotError::Damaged {
            path: self.path.clone(),
            position: self.position,
            what,
        }
    }
}

impl Iterator for SnapshotReader {
    type Item = Result<Bytes, SnapshotError>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = self.next_chunk().transpose();
        if matches!(chunk, Some(Err(_))) {
            self.ended = true;
        }
        chunk
    }
}

fn fault(error: io::Error) -> SnapshotError {
    Fault::from_io(Doing::ReadingSnapshot, error).into()
}
