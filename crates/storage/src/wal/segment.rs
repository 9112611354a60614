//! Segment files of the write-ahead log: their names, their header, and how they are made.
//!
//! ```text
//! magic "STHDWAL\n" | crc u32 | version u32 | segment u64 | first u64 | durable u64 | records ...
//! ```
//!
//! `first` is the sequence of the first record; `durable` means the same as in a record. The checksum is over what
//! follows it. A file is written once with zeros before it gets its name, so that a commit into it allocates nothing; after
//! its use it is recycled with what it held. Hence a header with another number than that of the name is no header.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bytes::{Buf as _, BufMut as _};

pub(super) const HEADER_LEN: usize = 40;

const MAGIC: [u8; 8] = *b"STHDWAL\n";
const VERSION: u32 = 1;

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
}

/// What lies in the directory.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// In their order.
    pub(super) segments: Vec<u64>,
    /// Numbers of their own.
    pub(super) spares: Vec<u64>,
}

impl Header {
    pub(super) fn encode(self, buffer: &mut Vec<u8>) {
        let start = buffer.len();
        buffer.put_slice(&MAGIC);
        buffer.put_u32(0);
        buffer.put_u32(VERSION);
        buffer.put_u64(self.segment);
        buffer.put_u64(self.first);
        buffer.put_u64(self.durable);
        let crc = crc32c::crc32c(&buffer[start + 12..]);
        buffer[start + 8..start + 12].copy_from_slice(&crc.to_be_bytes());
    }

    /// The header of segment `number`; none if it was not begun, or its header is damaged.
    pub(super) fn decode(bytes: &[u8], number: u64) -> Option<Header> {
        let (bytes, _) = bytes.split_first_chunk::<HEADER_LEN>()?;
        let mut fields = bytes.strip_prefix(&MAGIC)?;
        if fields.get_u32() != crc32c::crc32c(fields) || fields.get_u32() != VERSION {
            return None;
        }
        let header = Header {
            segment: fields.get_u64(),
            first: fields.get_u64(),
            durable: fields.get_u64(),
        };
        (header.segment == number).then_some(header)
    }
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

/// Lists the directory, and removes files that were being made.
pub(super) fn list(dir: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let number = stem.and_then(|stem| u64::from_str_radix(stem, 16).ok());
        match (extension, number) {
            (Some(UNFINISHED), Some(_)) => fs::remove_file(&path)?,
            (Some(SEGMENT), Some(number)) => listing.segments.push(number),
            (Some(SPARE), Some(number)) => listing.spares.push(number),
            _ => {}
        }
    }
    listing.segments.sort_unstable();
    listing.spares.sort_unstable();
    Ok(listing)
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
