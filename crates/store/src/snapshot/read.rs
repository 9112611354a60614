//! From bytes to a store. Everything is checked that later code relies on; nothing panics.

use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::codec::{self, Damaged, Source};
use crate::command::Watcher;
use crate::expiry::Deadlines;
use crate::key::Key;
use crate::key_record::{FLAG_DEADLINE, FLAG_FENCING};
use crate::retry::{REPLIES_REMEMBERED_MAX, Remembered};
use crate::snapshot::{END, VERSION, VERSION_OF_ONE_CLOCK};
use crate::stamp::Stamp;
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
    let mut restoring = Restoring::new();
    for chunk in chunks {
        restoring.push(chunk)?;
    }
    restoring.finish()
}

/// A store that is being read from the chunks of a snapshot, one after the other. Nobody sees it before it is whole.
#[derive(Debug)]
pub struct Restoring {
    store: Store,
    section: Section,
    /// How many records of the section are still to come.
    left: u64,
    counts: Counts,
    deadlines: Vec<(u64, Key)>,
    last_key: Option<Key>,
    last_watch: Option<(Bytes, Watcher)>,
    /// What was not read yet: the beginning of a record.
    waiting: Vec<Bytes>,
    waiting_bytes: usize,
    /// Less than this is not worth another look.
    needed: usize,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Header,
    Keys,
    Tombstones,
    Replies,
    Watches,
    End,
    Done,
}

/// How many records of each kind follow the header.
#[derive(Debug, Default)]
struct Counts {
    keys: u64,
    tombstones: u64,
    replies: u64,
    watches: u64,
}

/// What there is of a stream that goes on.
struct Part {
    bytes: Bytes,
    /// How many more bytes it should have had; 0: it had all that was asked for.
    missing: usize,
}

impl Source for Part {
    fn byte(&mut self) -> Result<u8, Damaged> {
        self.bytes.try_get_u8().map_err(|_| {
            self.missing = 1;
            Damaged
        })
    }

    fn take(&mut self, length: u64) -> Result<Bytes, Damaged> {
        let length = usize::try_from(length).map_err(|_| Damaged)?;
        if length > self.bytes.len() {
            self.missing = length - self.bytes.len();
            return Err(Damaged);
        }
        Ok(self.bytes.split_to(length))
    }
}

impl Default for Restoring {
    fn default() -> Self {
        Self::new()
    }
}

impl Restoring {
    /// Nothing read yet.
    pub fn new() -> Self {
        Self {
            store: Store::new(),
            section: Section::Header,
            left: 1,
            counts: Counts::default(),
            deadlines: Vec::new(),
            last_key: None,
            last_watch: None,
            waiting: Vec::new(),
            waiting_bytes: 0,
            needed: 1,
        }
    }

    /// Takes the next chunk.
    ///
    /// # Errors
    /// If the chunks are no snapshot; what was read is of no use.
    pub fn push(&mut self, chunk: Bytes) -> Result<(), RestoreError> {
        self.waiting_bytes += chunk.len();
        self.waiting.push(chunk);
        if self.waiting_bytes < self.needed {
            return Ok(());
        }
        let mut part = Part {
            bytes: joined(std::mem::take(&mut self.waiting)),
            missing: 0,
        };
        self.needed = 1;
        while !part.bytes.is_empty() {
            let before = part.bytes.clone();
            let read = self.record(&mut part);
            if part.missing > 0 {
                self.needed = before.len().saturating_add(part.missing);
                part.bytes = before;
                break;
            }
            read?;
        }
        self.waiting_bytes = part.bytes.len();
        self.waiting.push(part.bytes);
        Ok(())
    }

    /// The store, when all chunks were taken.
    ///
    /// # Errors
    /// If it is not whole.
    pub fn finish(self) -> Result<Store, RestoreError> {
        if self.section == Section::Done {
            Ok(self.store)
        } else {
            Err(RestoreError::Damaged)
        }
    }

    /// Reads one record. Changes nothing before it is read to its end.
    fn record(&mut self, source: &mut Part) -> Result<(), RestoreError> {
        let read = match self.section {
            Section::Header => return self.header(source),
            Section::Keys => self.key(source),
            Section::Tombstones => self.tombstone(source),
            Section::Replies => self.reply(source),
            Section::Watches => self.watch(source),
            Section::End => match source.byte() {
                Ok(END) => Ok(()),
                _ => Err(Damaged),
            },
            Section::Done => Err(Damaged),
        };
        read.map_err(|Damaged| RestoreError::Damaged)?;
        self.left -= 1;
        self.go_on();
        Ok(())
    }

    /// Goes to the next section of which there is something to read.
    fn go_on(&mut self) {
        while self.left == 0 && self.section != Section::Done {
            (self.section, self.left) = match self.section {
                Section::Header => (Section::Keys, self.counts.keys),
                Section::Keys => {
                    self.store.deadlines = Deadlines::of(std::mem::take(&mut self.deadlines));
                    self.last_key = None;
                    (Section::Tombstones, self.counts.tombstones)
                }
                Section::Tombstones => (Section::Replies, self.counts.replies),
                Section::Replies => (Section::Watches, self.counts.watches),
                Section::Watches => (Section::End, 1),
                Section::End | Section::Done => (Section::Done, 0),
            };
        }
    }

    fn header(&mut self, source: &mut Part) -> Result<(), RestoreError> {
        let has_time = match source.byte() {
            Ok(VERSION) => true,
            Ok(VERSION_OF_ONE_CLOCK) => false,
            Ok(version) => return Err(RestoreError::UnknownVersion { version }),
            Err(Damaged) => return Err(RestoreError::Damaged),
        };
        let (store, counts) = header(source, has_time).map_err(|Damaged| RestoreError::Damaged)?;
        if counts.replies > REPLIES_REMEMBERED_MAX as u64 {
            return Err(RestoreError::Damaged);
        }
        (self.store, self.counts, self.left) = (store, counts, 0);
        self.go_on();
        Ok(())
    }

    fn key(&mut self, source: &mut Part) -> Result<(), Damaged> {
        let flags = source.byte()?;
        if flags & !(FLAG_DEADLINE | FLAG_FENCING) != 0 {
            return Err(Damaged);
        }
        let key = next_key(source, self.last_key.as_ref())?;
        let value = codec::bytes(source)?;
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
        let stored = Stored::new(key.as_slice(), detached(&value), version, deadline, fencing);
        let store = &mut self.store;
        let bytes = store.bytes.checked_add(stored.size(key.as_slice()));
        store.bytes = bytes.ok_or(Damaged)?;
        store.digests = store.digests.wrapping_add(stored.digest);
        if let Some(deadline) = deadline {
            self.deadlines.push((deadline, key.clone()));
        }
        store.keys.insert(key.clone(), Arc::new(stored));
        store.note_given(version);
        self.last_key = Some(key);
        Ok(())
    }

    fn tombstone(&mut self, source: &mut Part) -> Result<(), Damaged> {
        let key = next_key(source, self.last_key.as_ref())?;
        let version = codec::version(source)?;
        if self.store.keys.contains_key(&key) {
            return Err(Damaged);
        }
        self.last_key = Some(key.clone());
        // Clock 0: nothing is forgotten while the snapshot is read.
        self.store.tombstones.insert(key, version, 0);
        self.store.note_given(version);
        Ok(())
    }

    fn reply(&mut self, source: &mut Part) -> Result<(), Damaged> {
        let hash = codec::hash(source)?;
        let until = codec::number(source)?;
        let outcome = codec::outcome(source)?;
        self.store.replies.push(Remembered { hash, until, outcome });
        Ok(())
    }

    fn watch(&mut self, source: &mut Part) -> Result<(), Damaged> {
        let next = (codec::key(source)?, codec::watcher(source)?);
        if self.last_watch.as_ref().is_some_and(|last| *last >= next) {
            return Err(Damaged);
        }
        let dialect = codec::dialect(source)?;
        let watches = &mut self.store.watches;
        watches.watch(&next.0, next.1, dialect).map_err(|_| Damaged)?;
        self.last_watch = Some(next);
        Ok(())
    }
}

/// All of the header but its version: an empty store with its limits, and what is to come.
fn header(source: &mut Part, has_time: bool) -> Result<(Store, Counts), Damaged> {
    let mut store = Store::new();
    let clock = codec::wall(source)?;
    let time = if has_time { codec::wall(source)? } else { clock };
    store.begin(Stamp { clock, time });
    store.quota = codec::quota(source)?;
    store.replies.dropped = codec::number(source)?;
    store.tombstones.floor = match source.byte()? {
        0 => None,
        1 => Some(codec::version(source)?),
        _ => return Err(Damaged),
    };
    if let Some(floor) = store.tombstones.floor {
        store.note_given(floor);
    }
    let counts = Counts {
        keys: codec::number(source)?,
        tombstones: codec::number(source)?,
        replies: codec::number(source)?,
        watches: codec::number(source)?,
    };
    Ok((store, counts))
}

/// One piece of memory; a single one stays where it is.
fn joined(mut parts: Vec<Bytes>) -> Bytes {
    if parts.len() == 1 {
        return parts.swap_remove(0);
    }
    Bytes::from(parts.concat())
}

/// A key that comes after the one before.
fn next_key(source: &mut Part, last: Option<&Key>) -> Result<Key, Damaged> {
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
