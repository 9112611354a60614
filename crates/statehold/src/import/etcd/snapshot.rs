//! A snapshot of etcd (`etcdctl snapshot save`): the file of its database, and behind it the SHA-256 of that.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use aws_lc_rs::digest;

use super::bolt::{Bolt, Bucket, Cursor};
use super::record::{KeyValue, Lease, WrittenAt};
use crate::import::file::{self, FileError};

/// What is in a file.
#[derive(Debug)]
pub(super) struct Snapshot {
    bolt: Bolt,
    history: Bucket,
    /// Of each key, its last write that was no deletion.
    latest: HashMap<Vec<u8>, WrittenAt>,
    leases: HashMap<i64, Lease>,
    /// Whether it has a checksum, which was right.
    pub(super) is_checked: bool,
}

/// Goes through what the keys of a snapshot have now.
#[derive(Debug)]
pub(super) struct Entries<'a> {
    snapshot: &'a Snapshot,
    cursor: Cursor<'a>,
}

const DIGEST_BYTES: u64 = 32;

/// Files of a database are a multiple of it; so a checksum behind one shows.
const BLOCK_BYTES: u64 = 512;

impl Snapshot {
    /// Reads the whole file once, for its checksum and for what is the last write of each key.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let unusable = || format!("{} cannot be imported", path.display());
        let mut reader = file::open(path)?;
        let bytes = reader.get_ref().metadata().with_context(unusable)?.len();
        let (pages, is_checked) = check(&mut reader, bytes).with_context(unusable)?;
        Self::read(reader.get_ref(), pages, is_checked).with_context(unusable)
    }

    fn read(file: &File, bytes: u64, is_checked: bool) -> Result<Self, FileError> {
        let bolt = Bolt::open(file, bytes)?;
        let foreign = FileError::Foreign {
            what: "snapshot of etcd 3: it has no keys of that version",
        };
        let history = bolt.bucket(b"key")?.ok_or(foreign)?;
        let mut latest = HashMap::new();
        let mut cursor = bolt.cursor(&history)?;
        while let Some((revision, is_deletion, entry)) = next(&mut cursor)? {
            // They come in the order of their revisions.
            if is_deletion {
                latest.remove(&entry.key);
            } else {
                latest.insert(entry.key, revision);
            }
        }
        let leases = leases(&bolt)?;
        Ok(Self {
            bolt,
            history,
            latest,
            leases,
            is_checked,
        })
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> u64 {
        self.latest.len() as u64
    }

    pub(super) fn entries(&self) -> Result<Entries<'_>, FileError> {
        Ok(Entries {
            snapshot: self,
            cursor: self.bolt.cursor(&self.history)?,
        })
    }

    /// The lease of this id.
    pub(super) fn lease(&self, id: i64) -> Option<Lease> {
        self.leases.get(&id).copied()
    }
}

impl Entries<'_> {
    /// The next key; `None`: that was all.
    pub(super) fn next(&mut self) -> Result<Option<KeyValue>, FileError> {
        while let Some((revision, _, entry)) = next(&mut self.cursor)? {
            if self.snapshot.latest.get(&entry.key) == Some(&revision) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

fn next(cursor: &mut Cursor<'_>) -> Result<Option<(WrittenAt, bool, KeyValue)>, FileError> {
    let Some(leaf) = cursor.next()? else {
        return Ok(None);
    };
    match (WrittenAt::parse(&leaf.key), KeyValue::parse(&leaf.value)) {
        (Some((revision, is_deletion)), Some(entry)) => Ok(Some((revision, is_deletion, entry))),
        _ => Err(FileError::Damaged {
            at: 0,
            what: "an entry of its history is none",
        }),
    }
}

fn leases(bolt: &Bolt) -> Result<HashMap<i64, Lease>, FileError> {
    let mut leases = HashMap::new();
    let Some(bucket) = bolt.bucket(b"lease")? else {
        return Ok(leases);
    };
    let mut cursor = bolt.cursor(&bucket)?;
    while let Some(leaf) = cursor.next()? {
        let id = leaf.key.first_chunk().map(|id| i64::from_be_bytes(*id));
        if let (Some(id), Some(lease)) = (id, Lease::parse(&leaf.value)) {
            leases.insert(id, lease);
        }
    }
    Ok(leases)
}

/// How many bytes of a file are pages, and whether a checksum stands behind them, which is right.
fn check(reader: &mut impl Read, bytes: u64) -> Result<(u64, bool), FileError> {
    match bytes % BLOCK_BYTES {
        0 => return Ok((bytes, false)),
        DIGEST_BYTES => {}
        _ => return Err(FileError::Ends { at: bytes }),
    }
    let pages = bytes - DIGEST_BYTES;
    let mut sum = digest::Context::new(&digest::SHA256);
    let mut left = pages;
    let mut piece = vec![0; 1 << 16];
    while left > 0 {
        let length = usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()));
        reader.read_exact(&mut piece[..length]).map_err(FileError::Io)?;
        sum.update(&piece[..length]);
        left -= length as u64;
    }
    let mut expected = [0; DIGEST_BYTES as usize];
    reader.read_exact(&mut expected).map_err(FileError::Io)?;
    if sum.finish().as_ref() != expected {
        return Err(FileError::Checksum);
    }
    Ok((pages, true))
}

#[cfg(test)]
mod tests;
