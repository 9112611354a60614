//! Reads one snapshot file, trusting nothing in it.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cluster::GroupId;
use cluster::replica::record::LogPoint;

use super::{
    CHUNK_BYTES_MAX, CRC_LEN, ENCRYPTED, FOOTER_NUMBER, HEAD_LEN, Head, MAGIC, PLAIN, SnapshotError,
    SnapshotFiles, UNMARKED, UNMARKED_ENCRYPTED, begin, chunk_checksum, cipher, footer,
};
use crate::directory_id::DirectoryId;
use crate::encryption::{EncryptionError, FileCipher, Stamp, TAG_LEN};
use crate::fault::{Doing, Fault};

/// A snapshot that was read once to its end and found good. Iterates over its chunks, each checked again.
#[derive(Debug)]
pub struct SnapshotReader {
    path: PathBuf,
    point: LogPoint,
    file: BufReader<File>,
    /// With its stamp; none: it is plain.
    cipher: Option<(Stamp, FileCipher)>,
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
        of: (GroupId, LogPoint),
        files: &SnapshotFiles,
    ) -> Result<SnapshotReader, SnapshotError> {
        let mut reader = SnapshotReader::open(path, of, files)?;
        while reader.next_chunk()?.is_some() {}
        SnapshotReader::open(path, of, files)
    }

    fn open(
        path: &Path,
        (group, point): (GroupId, LogPoint),
        files: &SnapshotFiles,
    ) -> Result<SnapshotReader, SnapshotError> {
        let file = File::open(path).map_err(fault)?;
        let mut reader = SnapshotReader::new(path, point, file);
        let Head { directory, stamp } = reader.read_header(group)?;
        files.mark.check(path, directory)?;
        let keys = files.encryption.open_file(path, stamp)?;
        reader.cipher = stamp.zip(keys.map(|keys| cipher(&keys, group, point, directory)));
        Ok(reader)
    }

    fn new(path: &Path, point: LogPoint, file: File) -> SnapshotReader {
        SnapshotReader {
            path: path.to_owned(),
            point,
            file: BufReader::with_capacity(1 << 20, file),
            cipher: None,
            position: 0,
            chunks: 0,
            bytes: 0,
            ended: false,
            passed_over: Vec::new(),
        }
    }

    pub(super) fn with_passed_over(self, passed_over: Vec<SnapshotError>) -> SnapshotReader {
        SnapshotReader { passed_over, ..self }
    }

    fn read_header(&mut self, group: GroupId) -> Result<Head, SnapshotError> {
        let begins: [u8; HEAD_LEN] = self.read()?;
        if !begins.starts_with(MAGIC) {
            return Err(self.damaged("it does not begin like a snapshot"));
        }
        let version = begins[MAGIC.len()];
        let directory: Option<[u8; DirectoryId::LEN]> = match version {
            PLAIN | ENCRYPTED => Some(self.read()?),
            _ => None,
        };
        let stamp: Option<[u8; Stamp::LEN]> = match version {
            UNMARKED_ENCRYPTED | ENCRYPTED => Some(self.read()?),
            _ => None,
        };
        let crc: [u8; CRC_LEN] = self.read()?;
        let parts = [
            &begins[..],
            directory.as_ref().map_or(&[], |directory| &directory[..]),
            stamp.as_ref().map_or(&[], |stamp| &stamp[..]),
        ];
        let found = parts.into_iter().fold(0, crc32c::crc32c_append);
        if found.to_be_bytes() != crc {
            return Err(self.damaged("the header's checksum does not match"));
        }
        if !matches!(version, UNMARKED | UNMARKED_ENCRYPTED | PLAIN | ENCRYPTED) {
            return Err(SnapshotError::Version {
                path: self.path.clone(),
                found: version,
            });
        }
        if begin(version, group, self.point) != begins {
            return Err(self.damaged("it is of another group or point than its name says"));
        }
        Ok(Head {
            directory: directory.map(DirectoryId::from_bytes),
            stamp: stamp.as_ref().map(Stamp::decode),
        })
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
        let tag_len = self.cipher.as_ref().map_or(0, |_| TAG_LEN);
        let data_len = len as usize + tag_len;
        let mut data = Vec::new();
        (&mut self.file)
            .take(data_len as u64)
            .read_to_end(&mut data)
            .map_err(fault)?;
        if data.len() < data_len {
            return Err(self.damaged("it ends within a chunk"));
        }
        if chunk_checksum(self.chunks, &data) != crc {
            return Err(self.damaged("a chunk's checksum does not match"));
        }
        self.open_sealed(u64::from(self.chunks), &[], &mut data)?;
        data.truncate(len as usize);
        self.position += data_len as u64;
        self.chunks = self
            .chunks
            .checked_add(1)
            .ok_or_else(|| self.damaged("it has too many chunks"))?;
        self.bytes += u64::from(len);
        Ok(Some(data.into()))
    }

    fn check_footer(&mut self) -> Result<(), SnapshotError> {
        let found: [u8; 12] = self.read()?;
        let mut tag = match self.cipher {
            Some(_) => self.read::<TAG_LEN>()?.to_vec(),
            None => Vec::new(),
        };
        let crc = u32::from_be_bytes(self.read()?);
        if crc != crc32c::crc32c_append(crc32c::crc32c(&found), &tag) {
            return Err(self.damaged("the footer's checksum does not match"));
        }
        self.open_sealed(FOOTER_NUMBER, &found, &mut tag)?;
        if found != footer(self.chunks, self.bytes) {
            return Err(self.damaged("chunks are missing"));
        }
        let mut more = [0];
        if self.file.read(&mut more).map_err(fault)? > 0 {
            return Err(self.damaged("it goes on after its end"));
        }
        Ok(())
    }

    /// Decrypts in place what was just read; does nothing if the snapshot is plain.
    fn open_sealed(&self, number: u64, associated: &[u8], data: &mut [u8]) -> Result<(), SnapshotError> {
        let Some((stamp, cipher)) = &self.cipher else {
            return Ok(());
        };
        match cipher.open(number, associated, data) {
            Some(_) => Ok(()),
            None => Err(EncryptionError::NotAuthentic {
                file: self.path.clone(),
                offset: self.position,
                key: stamp.key,
            }
            .into()),
        }
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

/// The head of a snapshot; none: it is damaged.
pub(super) fn head(path: &Path, (group, point): (GroupId, LogPoint)) -> io::Result<Option<Head>> {
    let mut reader = SnapshotReader::new(path, point, File::open(path)?);
    Ok(reader.read_header(group).ok())
}

fn fault(error: io::Error) -> SnapshotError {
    Fault::from_io(Doing::ReadingSnapshot, error).into()
}
