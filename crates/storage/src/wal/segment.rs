//! Segment files of the write-ahead log: their names, their header, and how they are made.
//!
//! ```text
//! magic "STHDWAL\n" | crc u32 | version u32 (3) | segment u64 | first u64 | durable u64 | directory id (16) | records ...
//! encrypted: version 4 and, before the records: stamp (28) | 0 u32 | tag (16)
//! versions 1 and 2: the same without directory id; they are read and not written
//! ```
//!
//! `first` is the sequence of the first record; `durable` means the same as in a record. The checksum is over what
//! follows it. A file is written once with zeros before it gets its name, so that a commit into it allocates nothing; after
//! its use it is recycled with what it held. Hence a header with another number than that of the name is no header.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use bytes::{Buf as _, BufMut as _};

use crate::data_dir;
use crate::directory_id::DirectoryId;
use crate::encryption::{Encryption, EncryptionError, FileCipher, FileKeys, KeyId, Stamp, TAG_LEN};

/// Bytes that every header has.
const FIXED_LEN: usize = 40;

/// Bytes of a header that an encrypted segment has in addition.
const SEALED_LEN: usize = Stamp::LEN + 4 + TAG_LEN;

const HEADER_LEN_MAX: usize = FIXED_LEN + DirectoryId::LEN + SEALED_LEN;

const MAGIC: [u8; 8] = *b"STHDWAL\n";
const UNMARKED: u32 = 1;
const UNMARKED_ENCRYPTED: u32 = 2;
const PLAIN: u32 = 3;
const ENCRYPTED: u32 = 4;

/// The header's tag has a number that no record has.
const HEADER_NUMBER: u64 = 0;

/// The checksum covers what follows it.
const CHECKED_FROM: usize = 12;

/// A new file is synced each time this much was written, so that commits beside it never wait for a whole file.
const ZEROED_PER_SYNC: usize = 1 << 20;

const SEGMENT: &str = "segment";
const SPARE: &str = "spare";
const UNFINISHED: &str = "unfinished";

/// The header of a segment that holds records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) segment: u64,
    pub(super) first: u64,
    pub(super) durable: u64,
    /// Id of the data directory to which it belongs. None: an older version of the program wrote it.
    pub(super) directory: Option<DirectoryId>,
    /// None: its records are plain.
    pub(super) stamp: Option<Stamp>,
}

/// What lies in the directory.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// In their order.
    pub(super) segments: Vec<u64>,
    /// Numbers of their own.
    pub(super) spares: Vec<u64>,
    /// Files that are being made, or were when a process ended.
    pub(super) unfinished: Vec<PathBuf>,
}

impl Header {
    /// Appends the header; `cipher` is that of its stamp.
    pub(super) fn encode(self, buffer: &mut Vec<u8>, cipher: Option<&FileCipher>) {
        assert_eq!(
            self.stamp.is_some(),
            cipher.is_some(),
            "a stamp is that of a cipher"
        );
        let directory = self.directory.expect("a new segment carries an id");
        let start = buffer.len();
        buffer.put_slice(&MAGIC);
        buffer.put_u32(0);
        buffer.put_u32(if cipher.is_some() { ENCRYPTED } else { PLAIN });
        buffer.put_u64(self.segment);
        buffer.put_u64(self.first);
        buffer.put_u64(self.durable);
        buffer.put_slice(directory.as_bytes());
        if let (Some(stamp), Some(cipher)) = (self.stamp, cipher) {
            buffer.put_slice(&stamp.encode());
            buffer.put_u32(0);
            let tag = cipher.seal(HEADER_NUMBER, &buffer[start + CHECKED_FROM..], &mut []);
            buffer.put_slice(&tag);
        }
        let crc = crc32c::crc32c(&buffer[start + CHECKED_FROM..]);
        buffer[start + 8..start + 12].copy_from_slice(&crc.to_be_bytes());
    }

    /// The header of segment `number`; none if it was not begun, or its header is damaged.
    pub(super) fn decode(bytes: &[u8], number: u64) -> Option<Header> {
        Header::decode_any(bytes).filter(|header| header.segment == number)
    }

    /// The header of a segment with any number.
    fn decode_any(bytes: &[u8]) -> Option<Header> {
        let (crc, version) = bytes.strip_prefix(&MAGIC)?.split_first_chunk()?;
        let (is_marked, is_encrypted) = match u32::from_be_bytes(*version.first_chunk()?) {
            UNMARKED => (false, false),
            UNMARKED_ENCRYPTED => (false, true),
            PLAIN => (true, false),
            ENCRYPTED => (true, true),
            _ => return None,
        };
        let checked = bytes.get(CHECKED_FROM..header_len(is_marked, is_encrypted))?;
        if crc32c::crc32c(checked) != u32::from_be_bytes(*crc) {
            return None;
        }
        let mut fields = &checked[4..];
        let mut header = Header {
            segment: fields.get_u64(),
            first: fields.get_u64(),
            durable: fields.get_u64(),
            directory: None,
            stamp: None,
        };
        if is_marked {
            let (id, rest) = fields.split_first_chunk()?;
            header.directory = Some(DirectoryId::from_bytes(*id));
            fields = rest;
        }
        header.stamp = fields.first_chunk().filter(|_| is_encrypted).map(Stamp::decode);
        Some(header)
    }

    /// Bytes of the header.
    pub(super) fn len(&self) -> usize {
        header_len(self.directory.is_some(), self.stamp.is_some())
    }

    /// The key with which the records are encrypted.
    pub(super) fn key(&self) -> Option<KeyId> {
        self.stamp.map(|stamp| stamp.key)
    }

    /// What the records of the segment in `file`, which begins with `bytes`, are encrypted with; none: they are plain.
    pub(super) fn cipher(
        &self,
        file: &Path,
        bytes: &[u8],
        encryption: &Encryption,
    ) -> Result<Option<FileCipher>, EncryptionError> {
        let keys = encryption.open_file(file, self.stamp)?;
        let (Some(keys), Some(stamp)) = (keys, self.stamp) else {
            return Ok(None);
        };
        let cipher = cipher(&keys, self.segment);
        let (associated, tag) = bytes[CHECKED_FROM..self.len()].split_at(self.len() - CHECKED_FROM - TAG_LEN);
        let mut tag = tag.to_vec();
        if cipher.open(HEADER_NUMBER, associated, &mut tag).is_none() {
            return Err(EncryptionError::NotAuthentic {
                file: file.to_owned(),
                offset: 0,
                key: stamp.key,
            });
        }
        Ok(Some(cipher))
    }
}

fn header_len(is_marked: bool, is_encrypted: bool) -> usize {
    let id_len = if is_marked { DirectoryId::LEN } else { 0 };
    let sealed_len = if is_encrypted { SEALED_LEN } else { 0 };
    FIXED_LEN + id_len + sealed_len
}

/// What the records of a segment are encrypted with.
pub(super) fn cipher(keys: &FileKeys, number: u64) -> FileCipher {
    keys.cipher("statehold segment", &number.to_be_bytes())
}

/// The header of a segment; none if it was not begun.
pub(super) fn read_header(dir: &Path, number: u64) -> io::Result<Option<Header>> {
    Ok(Header::decode(&read_begin(&path(dir, number))?, number))
}

/// Bytes of a file that a header may have.
fn read_begin(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(HEADER_LEN_MAX as u64)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn path(dir: &Path, number: u64) -> PathBuf {
    named(dir, number, SEGMENT)
}

pub(super) fn spare_path(dir: &Path, number: u64) -> PathBuf {
    named(dir, number, SPARE)
}

/// A number for one more spare file. What a file holds is said by its records, so it need not be the one that it had.
pub(super) fn free_spare(spares: &[u64]) -> u64 {
    (0..)
        .find(|number| !spares.contains(number))
        .expect("there are few spares")
}

fn named(dir: &Path, number: u64, extension: &str) -> PathBuf {
    dir.join(format!("{number:016x}.{extension}"))
}

/// Lists the directory.
pub(super) fn list(dir: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let number = stem.and_then(|stem| u64::from_str_radix(stem, 16).ok());
        match (extension, number) {
            (Some(UNFINISHED), Some(_)) => listing.unfinished.push(path),
            (Some(SEGMENT), Some(number)) => listing.segments.push(number),
            (Some(SPARE), Some(number)) => listing.spares.push(number),
            _ => {}
        }
    }
    listing.segments.sort_unstable();
    listing.spares.sort_unstable();
    Ok(listing)
}

/// Spare files that this directory has zeroed or used, and those that came from elsewhere or were used by an older version.
///
/// What a file held before its use is told from new records by numbers that only this directory does not use twice.
pub(super) fn sort_spares(dir: &Path, spares: Vec<u64>, id: DirectoryId) -> io::Result<(Vec<u64>, Vec<u64>)> {
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for spare in spares {
        let begin = read_begin(&spare_path(dir, spare))?;
        let is_zeroed = begin.iter().all(|byte| *byte == 0);
        let header = Header::decode_any(&begin);
        if is_zeroed || header.is_some_and(|header| header.directory == Some(id)) {
            own.push(spare);
        } else {
            others.push(spare);
        }
    }
    Ok((own, others))
}

/// Removes spare files.
pub(super) fn remove_spares(dir: &Path, spares: &[u64]) -> io::Result<()> {
    for spare in spares {
        fs::remove_file(spare_path(dir, *spare))?;
    }
    data_dir::sync_dir(dir)
}

/// Makes a file of `size` zeros at `path`. The name is not synced. If there is no room for it, nothing is left of it.
pub(super) fn make(size: u64, path: &Path) -> io::Result<File> {
    let unfinished = path.with_extension(UNFINISHED);
    let file = fill(&unfinished, size).inspect_err(|_| {
        // If it cannot be removed now, the next start does it.
        let _ = fs::remove_file(&unfinished);
    })?;
    fs::rename(&unfinished, path)?;
    Ok(file)
}

fn fill(path: &Path, size: u64) -> io::Result<File> {
    let mut file = File::create(path)?;
    let zeros = vec![0; ZEROED_PER_SYNC];
    let mut left = size;
    while left > 0 {
        let step = left.min(ZEROED_PER_SYNC as u64);
        file.write_all(&zeros[..step as usize])?;
        file.sync_data()?;
        left -= step;
    }
    file.sync_all()?;
    Ok(file)
}
