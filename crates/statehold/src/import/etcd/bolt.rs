//! Files of bbolt, in which etcd keeps what it has: pages that are trees of buckets.
//!
//! Reading only, and only what is needed of a bucket: all its keys in order. No page is believed: each has to lie in the file, comes
//! once at most, and its elements have to lie in it.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::import::file::FileError;

/// A file.
#[derive(Debug)]
pub(super) struct Bolt {
    file: File,
    page_bytes: u64,
    /// How much of the file is pages.
    bytes: u64,
    root: u64,
}

/// One tree of the file.
#[derive(Debug)]
pub(super) enum Bucket {
    /// Its first page.
    Root(u64),
    /// So small that it is in its name's value.
    Inline(Vec<u8>),
}

/// Goes through a bucket in the order of its keys.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    bolt: &'a Bolt,
    /// From the first page to the one that is read, each with the next place in it.
    path: Vec<(Page, usize)>,
    visited: BTreeSet<u64>,
}

/// What stands in a leaf.
#[derive(Debug)]
pub(super) struct Leaf {
    is_bucket: bool,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

#[derive(Debug)]
struct Page {
    bytes: Vec<u8>,
    /// In the file, for errors.
    at: u64,
    count: usize,
    is_leaf: bool,
}

const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const META: u16 = 4;
const BUCKET: u32 = 1;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;

const HEADER_BYTES: usize = 16;
const ELEMENT_BYTES: usize = 16;
const META_BYTES: usize = 64;
/// Of a meta page, those that its checksum is about.
const SUMMED_BYTES: usize = 56;
const BUCKET_BYTES: usize = 16;

/// A page with those that belong to it. etcd takes requests of 1.5 MiB unless it is told otherwise.
const PAGE_BYTES_MAX: u64 = 64 << 20;

/// A tree of this height would be larger than any file.
const HEIGHT_MAX: usize = 32;

impl Bolt {
    /// Finds the pages of a file of which the first `bytes` are pages.
    pub(super) fn open(file: &File, bytes: u64) -> Result<Self, FileError> {
        let mut newest: Option<(u64, Self)> = None;
        // The second one is at the second page, wherever that begins.
        let places = std::iter::once(0).chain((10..=16).map(|power| 1 << power));
        for at in places {
            let Some((transaction, page_bytes, root)) = meta(file, bytes, at)? else {
                continue;
            };
            if newest.as_ref().is_none_or(|(other, _)| *other < transaction) {
                let file = file.try_clone().map_err(FileError::Io)?;
                let bolt = Self {
                    file,
                    page_bytes,
                    bytes,
                    root,
                };
                newest = Some((transaction, bolt));
            }
        }
        newest.map(|(_, bolt)| bolt).ok_or(FileError::Foreign {
            what: "snapshot of etcd: none of its first pages can be read",
        })
    }

    /// A bucket of this name, if there is one.
    pub(super) fn bucket(&self, name: &[u8]) -> Result<Option<Bucket>, FileError> {
        let mut cursor = self.cursor(&Bucket::Root(self.root))?;
        while let Some(leaf) = cursor.next()? {
            if leaf.is_bucket && leaf.key == name {
                return bucket(leaf.value).map(Some);
            }
        }
        Ok(None)
    }

    pub(super) fn cursor(&self, bucket: &Bucket) -> Result<Cursor<'_>, FileError> {
        let mut cursor = Cursor {
            bolt: self,
            path: Vec::new(),
            visited: BTreeSet::new(),
        };
        match bucket {
            Bucket::Root(page) => cursor.enter(*page)?,
            Bucket::Inline(bytes) => cursor.path.push((Page::parse(bytes.clone(), 0)?, 0)),
        }
        Ok(cursor)
    }

    fn page(&self, id: u64) -> Result<Page, FileError> {
        let at = id.checked_mul(self.page_bytes).ok_or(OUTSIDE)?;
        let header = self.read(at, HEADER_BYTES as u64)?;
        if u64_at(&header, 0) != Some(id) {
            return damaged(at, "a page with the number of another one");
        }
        let overflow = u32_at(&header, 12).unwrap_or(0);
        let bytes = (u64::from(overflow) + 1) * self.page_bytes;
        if bytes > PAGE_BYTES_MAX {
            return damaged(at, "a page that is too large");
        }
        Page::parse(self.read(at, bytes)?, at)
    }

    fn read(&self, at: u64, count: u64) -> Result<Vec<u8>, FileError> {
        read(&self.file, self.bytes, at, count)
    }
}

impl Cursor<'_> {
    /// What comes next; `None`: that was all.
    pub(super) fn next(&mut self) -> Result<Option<Leaf>, FileError> {
        loop {
            let Some((page, place)) = self.path.last_mut() else {
                return Ok(None);
            };
            if *place >= page.count {
                self.path.pop();
                continue;
            }
            let index = *place;
            *place += 1;
            if page.is_leaf {
                return page.leaf(index).map(Some);
            }
            let below = page.below(index)?;
            self.enter(below)?;
        }
    }

    fn enter(&mut self, id: u64) -> Result<(), FileError> {
        let at = id.saturating_mul(self.bolt.page_bytes);
        if !self.visited.insert(id) || self.path.len() >= HEIGHT_MAX {
            return damaged(at, "a page that comes twice in a tree");
        }
        let page = self.bolt.page(id)?;
        self.path.push((page, 0));
        Ok(())
    }
}

impl Page {
    fn parse(bytes: Vec<u8>, at: u64) -> Result<Self, FileError> {
        let (Some(kind), Some(count)) = (u16_at(&bytes, 8), u16_at(&bytes, 10)) else {
            return damaged(at, "a page that is too small");
        };
        if kind != LEAF && kind != BRANCH {
            return damaged(at, "a page of another kind where a tree should go on");
        }
        Ok(Self {
            bytes,
            at,
            count: count.into(),
            is_leaf: kind == LEAF,
        })
    }

    fn leaf(&self, index: usize) -> Result<Leaf, FileError> {
        let element = HEADER_BYTES + index * ELEMENT_BYTES;
        let number = |offset| u32_at(&self.bytes, element + offset).map(|number| number as usize);
        let found = || {
            let (position, key, value) = (number(4)?, number(8)?, number(12)?);
            let begin = element.checked_add(position)?;
            let middle = begin.checked_add(key)?;
            let end = middle.checked_add(value)?;
            Some((self.bytes.get(begin..middle)?, self.bytes.get(middle..end)?))
        };
        let Some((key, value)) = found() else {
            return damaged(self.at, "a page whose contents lie outside of it");
        };
        Ok(Leaf {
            is_bucket: u32_at(&self.bytes, element).is_some_and(|flags| flags & BUCKET != 0),
            key: key.to_vec(),
            value: value.to_vec(),
        })
    }

    /// The page that an element of a branch stands for.
    fn below(&self, index: usize) -> Result<u64, FileError> {
        match u64_at(&self.bytes, HEADER_BYTES + index * ELEMENT_BYTES + 8) {
            Some(id) => Ok(id),
            None => damaged(self.at, "a page whose contents lie outside of it"),
        }
    }
}

fn bucket(mut value: Vec<u8>) -> Result<Bucket, FileError> {
    match u64_at(&value, 0) {
        Some(0) if value.len() > BUCKET_BYTES => Ok(Bucket::Inline(value.split_off(BUCKET_BYTES))),
        Some(root) if root > 0 => Ok(Bucket::Root(root)),
        _ => damaged(0, "a bucket without a page"),
    }
}

/// Of a meta page: its transaction, the size of pages, and the first page of all buckets. `None`: it is none, or is damaged.
fn meta(file: &File, bytes: u64, at: u64) -> Result<Option<(u64, u64, u64)>, FileError> {
    let wanted = (HEADER_BYTES + META_BYTES) as u64;
    if at + wanted > bytes {
        return Ok(None);
    }
    let page = read(file, bytes, at, wanted)?;
    let (header, meta) = page.split_at(HEADER_BYTES);
    let is_one = u16_at(header, 8) == Some(META)
        && u32_at(meta, 0) == Some(MAGIC)
        && u32_at(meta, 4) == Some(VERSION)
        && u64_at(meta, SUMMED_BYTES) == Some(fnv(&meta[..SUMMED_BYTES]));
    let page_bytes = u32_at(meta, 8).map_or(0, u64::from);
    let is_usable = page_bytes.is_power_of_two() && (1 << 10..=1 << 16).contains(&page_bytes);
    let numbers = (u64_at(meta, 48), u64_at(meta, 16));
    match numbers {
        (Some(transaction), Some(root)) if is_one && is_usable => Ok(Some((transaction, page_bytes, root))),
        _ => Ok(None),
    }
}

/// So many bytes, if they are among the first `bytes` of the file.
fn read(file: &File, bytes: u64, at: u64, count: u64) -> Result<Vec<u8>, FileError> {
    if at.checked_add(count).is_none_or(|end| end > bytes) {
        return Err(OUTSIDE);
    }
    let count = usize::try_from(count).map_err(|_| OUTSIDE)?;
    let mut read = vec![0; count];
    file.read_exact_at(&mut read, at).map_err(FileError::Io)?;
    Ok(read)
}

const OUTSIDE: FileError = FileError::Damaged {
    at: 0,
    what: "it names pages that are not in it: it is cut off, or was not written to its end",
};

fn damaged<T>(at: u64, what: &'static str) -> Result<T, FileError> {
    Err(FileError::Damaged { at, what })
}

/// The checksum of meta pages: FNV-1a with 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
