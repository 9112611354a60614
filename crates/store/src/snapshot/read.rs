//! From bytes to a store. Everything is checked that later code relies on; nothing panics.

use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::codec::{self, Damaged, Source};
use crate::command::Watcher;
use crate::expiry::Deadlines;
use crate::key::Key;
use crate::retry::{REPLIES_REMEMBERED_MAX, Remembered};
use crate::snapshot::{END, FLAG_DEADLINE, FLAG_FENCING, VERSION};
use crate::store::{Store, Stored};

/// Why chunks are no snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Written by a version of this program that is not known here.
    #[error("the snapshot has the unknown format version {version}")]
    UnknownVersion {
        /// Its first byte.
        version: u8,
    },
    /// Cut off, or not what was ever written.
    #[error("the snapshot is damaged")]
    Damaged,
}

pub(super) fn restore(chunks: impl Iterator<Item = Bytes>) -> Result<Store, RestoreError> {
    let mut source = Stream {
        current: Bytes::new(),
        rest: chunks,
    };
    match source.byte() {
        Ok(VERSION) => {}
        Ok(version) => return Err(RestoreError::UnknownVersion { version }),
        Err(Damaged) => return Err(RestoreError::Damaged),
    }
    read(&mut source).map_err(|Damaged| RestoreError::Damaged)
}

/// The chunks as one stream.
struct Stream<I> {
    current: Bytes,
    rest: I,
}

impl<I: Iterator<Item = Bytes>> Stream<I> {
    /// Goes to the next chunk that is not empty.
    fn advance(&mut self) -> Result<(), Damaged> {
        while self.current.is_empty() {
            self.current = self.rest.next().ok_or(Damaged)?;
        }
        Ok(())
    }
}

impl<I: Iterator<Item = Bytes>> Source for Stream<I> {
    fn byte(&mut self) -> Result<u8, Damaged> {
        self.advance()?;
        Ok(self.current.get_u8())
    }

    fn take(&mut self, length: u64) -> Result<Bytes, Damaged> {
        let length = usize::try_from(length).map_err(|_| Damaged)?;
        if length <= self.current.len() {
            return Ok(self.current.split_to(length));
        }
        // Grows with what is there, not with what is announced.
        let mut gathered = Vec::new();
        while gathered.len() < length {
            self.advance()?;
            let part = self.current.len().min(length - gathered.len());
            gathered.extend_from_slice(&self.current.split_to(part));
        }
        Ok(Bytes::from(gathered))
    }
}

/// How many records of each kind follow the header.
struct Counts {
    keys: u64,
    tombstones: u64,
    replies: u64,
    watches: u64,
}

fn read<I: Iterator<Item = Bytes>>(source: &mut Stream<I>) -> Result<Store, Damaged> {
    let mut store = Store::new();
    store.clock = codec::wall(source)?;
    store.quota = codec::quota(source)?;
    store.replies.dropped = codec::number(source)?;
    store.tombstones.floor = match source.byte()? {
        0 => None,
        1 => Some(codec::version(source)?),
        _ => return Err(Damaged),
    };
    let counts = Counts {
        keys: codec::number(source)?,
        tombstones: codec::number(source)?,
        replies: codec::number(source)?,
        watches: codec::number(source)?,
    };
    keys(source, &mut store, counts.keys)?;
    tombstones(source, &mut store, counts.tombstones)?;
    replies(source, &mut store, counts.replies)?;
    watches(source, &mut store, counts.watches)?;
    let has_end = source.byte()? == END;
    let is_at_end = source.advance().is_err();
    if has_end && is_at_end {
        Ok(store)
    } else {
        Err(Damaged)
    }
}

fn keys(source: &mut impl Source, store: &mut Store, count: u64) -> Result<(), Damaged> {
    let mut deadlines = Vec::new();
    let mut last: Option<Key> = None;
    for _ in 0..count {
        let flags = source.byte()?;
        if flags & !(FLAG_DEADLINE | FLAG_FENCING) != 0 {
            return Err(Damaged);
        }
        let key = next_key(source, last.as_ref())?;
        let value = detached(&codec::bytes(source)?);
        let version = codec::version(source)?;
        let deadline = if flags & FLAG_DEADLINE != 0 {
            Some(codec::number(source)?)
        } else {
            None
        };
        let fencing = if flags & FLAG_FENCING != 0 {
            Some(Box::new(codec::hlc(source)?.detached()))
        } else {
            None
        };
        let stored = Stored {
            value,
            version,
            deadline,
            fencing,
        };
        let bytes = store.bytes.checked_add(stored.size(key.as_slice()));
        store.bytes = bytes.ok_or(Damaged)?;
        if let Some(deadline) = deadline {
            deadlines.push((deadline, key.clone()));
        }
        store.keys.insert(key.clone(), Arc::new(stored));
        last = Some(key);
    }
    store.deadlines = Deadlines::of(deadlines);
    Ok(())
}

fn tombstones(source: &mut impl Source, store: &mut Store, count: u64) -> Result<(), Damaged> {
    let mut last: Option<Key> = None;
    for _ in 0..count {
        let key = next_key(source, last.as_ref())?;
        let version = codec::version(source)?;
        if store.keys.contains_key(&key) {
            return Err(Damaged);
        }
        last = Some(key.clone());
        // Clock 0: nothing is forgotten while the snapshot is read.
        store.tombstones.insert(key, version, 0);
    }
    Ok(())
}

fn replies(source: &mut impl Source, store: &mut Store, count: u64) -> Result<(), Damaged> {
    if count > REPLIES_REMEMBERED_MAX as u64 {
        return Err(Damaged);
    }
    for _ in 0..count {
        let key = codec::retry(source)?;
        let outcome = codec::outcome(source)?;
        store.replies.push(Remembered {
            hash: key.hash,
            until: key.until,
            outcome,
        });
    }
    Ok(())
}

fn watches(source: &mut impl Source, store: &mut Store, count: u64) -> Result<(), Damaged> {
    let mut last: Option<(Bytes, Watcher)> = None;
    for _ in 0..count {
        let next = (codec::key(source)?, codec::watcher(source)?);
        if last.as_ref().is_some_and(|last| *last >= next) {
            return Err(Damaged);
        }
        let dialect = codec::dialect(source)?;
        store
            .watches
            .watch(&next.0, next.1, dialect)
            .map_err(|_| Damaged)?;
        last = Some(next);
    }
    Ok(())
}

/// A key that comes after the one before.
fn next_key(source: &mut impl Source, last: Option<&Key>) -> Result<Key, Damaged> {
    let key = Key::new(&codec::key(source)?);
    if last.is_some_and(|last| *last >= key) {
        Err(Damaged)
    } else {
        Ok(key)
    }
}

/// The value in memory of its own, so that it does not keep a whole chunk alive.
fn detached(value: &Bytes) -> Bytes {
    Bytes::copy_from_slice(value)
}
