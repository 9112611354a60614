//! Sorted tables on disk, in an embedded log-structured database (fjall).
//!
//! Tables are only ever written as a whole, sorted and synced, at a checkpoint; the database's own journal and its memory
//! stay empty. So no commit waits for it, and nothing in it can be torn: a table is listed after it was synced. Keyspaces
//! are written one after the other; a crash between two of them does no harm, since the write-ahead log has everything from
//! the checkpoint before.

use std::fs;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use cluster::Keyspace;
use fjall::compaction::Leveled;
use fjall::config::PinningPolicy;
use fjall::{Database, KeyspaceCreateOptions, PersistMode};

use super::changes::{Changes, Pending};
use super::integrity;
use super::sealing::{self, Sealing};
use crate::data_dir::{self, DataDir, OpenError};
use crate::encryption::{Encryption, KeyId};
use crate::fault::{Doing, Fault};

/// Memory for blocks of tables that were read. What is hot lives in the broker's own memory, so little is read twice.
const CACHE_BYTES: u64 = 8 << 20;

/// Bytes of a table. While one is written, its index and the last key of each of its blocks are in memory, and a key may be as
/// large as a block. Fixed for a database when it is made, as all options of its keyspaces are.
const TABLE_BYTES: u64 = 8 << 20;

/// Threads that compact tables.
const WORKER_THREADS: usize = 1;

/// Tables whose files stay open. The server leaves descriptors for twice as many (`descriptors.rs`).
const CACHED_FILES_MAX: usize = 256;

/// About so much is written to one table when tables are written anew.
const REWRITE_BYTES: usize = 16 << 20;

/// Free space below which a fault that does not say its cause is taken for a full disk.
const NEARLY_FULL_BYTES: u64 = 1 << 20;

/// A key and its value.
pub(super) type Item = (Bytes, Bytes);

/// All keyspaces but that of log entries; without those that are newer than the database, until it is written anew.
#[derive(Clone)]
pub(super) struct Tables {
    database: Database,
    keyspaces: Vec<(Keyspace, fjall::Keyspace)>,
    /// None: keys and values are plain.
    sealing: Option<Arc<Sealing>>,
    dir: PathBuf,
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl Tables {
    /// Makes the database beside its place and moves it there when it is complete, so that a crash meanwhile leaves nothing
    /// that looks like one.
    pub(super) fn make(dir: &DataDir, encryption: &Encryption) -> Result<(), OpenError> {
        make_unfinished(dir, encryption)?;
        let place = || {
            fs::rename(dir.engine_unfinished(), dir.engine())?;
            data_dir::sync_dir(dir.path())
        };
        place().map_err(|error| Fault::from_io(Doing::Opening, error).into())
    }

    /// Finishes what a crash has interrupted: an engine that was rewritten takes the place of the one before.
    pub(super) fn settle(dir: &DataDir) -> io::Result<()> {
        let remove = |path: PathBuf| {
            if path.exists() {
                fs::remove_dir_all(path)
            } else {
                Ok(())
            }
        };
        if dir.engine_rewritten().exists() {
            if dir.engine().exists() {
                remove(dir.engine_replaced())?;
                fs::rename(dir.engine(), dir.engine_replaced())?;
            }
            fs::rename(dir.engine_rewritten(), dir.engine())?;
            data_dir::sync_dir(dir.path())?;
        }
        // Nothing was ever written to it but a copy of what is there.
        remove(dir.engine_unfinished())?;
        remove(dir.engine_replaced())
    }

    /// Writes everything to another database, as `encryption` says, which takes the place of this one when it is complete. It has
    /// all keyspaces, also where this one is older than some.
    pub(super) fn rewrite(self, dir: &DataDir, encryption: &Encryption) -> Result<Tables, OpenError> {
        make_unfinished(dir, encryption)?;
        let new = Tables::open_at(dir, &dir.engine_unfinished(), encryption, with_tables().collect())?;
        for (keyspace, _) in &self.keyspaces {
            let mut copied = Pending::default();
            for item in self.items(*keyspace, &[], None) {
                let (key, value) = item?;
                copied.put(0, *keyspace, key, value);
                if copied.active_bytes() > REWRITE_BYTES {
                    new.take_all_in(&mut copied)?;
                }
            }
            new.take_all_in(&mut copied)?;
        }
        drop(new);
        drop(self);
        let place = || {
            fs::rename(dir.engine_unfinished(), dir.engine_rewritten())?;
            data_dir::sync_dir(dir.path())?;
            Tables::settle(dir)
        };
        place().map_err(|error| Fault::from_io(Doing::Opening, error))?;
        Tables::open_checked(dir, encryption, with_tables().collect())
    }

    /// Notes beside the tables to which data directory they belong.
    pub(super) fn mark(&self, dir: &DataDir) -> Result<(), Fault> {
        let written = dir.mark().id.write(&dir.engine());
        written.map_err(|error| Fault::from_io(Doing::Opening, error))
    }

    fn take_all_in(&self, copied: &mut Pending) -> Result<(), Fault> {
        if let Some(changes) = copied.freeze() {
            self.take_in(&changes)?;
            copied.moved();
        }
        Ok(())
    }

    /// Opens the database. It panics on some damage; here that is an error like any other.
    pub(super) fn open(dir: &DataDir, encryption: &Encryption) -> Result<Tables, OpenError> {
        let keyspaces = with_tables().filter(|keyspace| *keyspace != Keyspace::Plane || dir.has_plane());
        Tables::open_checked(dir, encryption, keyspaces.collect())
    }

    fn open_checked(
        dir: &DataDir,
        encryption: &Encryption,
        keyspaces: Vec<Keyspace>,
    ) -> Result<Tables, OpenError> {
        integrity::check(&dir.engine(), keyspaces.len())?;
        Tables::open_at(dir, &dir.engine(), encryption, keyspaces)
    }

    fn open_at(
        dir: &DataDir,
        path: &Path,
        encryption: &Encryption,
        keyspaces: Vec<Keyspace>,
    ) -> Result<Tables, OpenError> {
        let sealing = Sealing::open(path, encryption)?;
        let path = path.to_owned();
        let opened = panic::catch_unwind(move || -> fjall::Result<_> {
            let database = open_database(&path)?;
            let keyspaces = open_keyspaces(&database, keyspaces.into_iter())?;
            Ok((database, keyspaces))
        });
        match opened {
            Ok(Ok((database, keyspaces))) => Ok(Tables {
                database,
                keyspaces,
                sealing: sealing.map(Arc::new),
                dir: dir.path().to_owned(),
            }),
            Ok(Err(error)) => Err(open_error(dir, error)),
            Err(_) => Err(Fault::Engine {
                doing: Doing::Opening,
                detail: "it is damaged".to_owned(),
            }
            .into()),
        }
    }

    /// With which they are encrypted; none: they are plain.
    pub(super) fn key(&self) -> Option<KeyId> {
        self.sealing.as_ref().map(|sealing| sealing.key())
    }

    /// Writes changes to new tables, durably.
    pub(super) fn take_in(&self, changes: &Changes) -> Result<(), Fault> {
        for (keyspace, changes) in changes {
            let changes = changes.iter().map(|(key, change)| (key, change.value.as_ref()));
            let written = match &self.sealing {
                None => self.ingest(
                    *keyspace,
                    changes.map(|(key, value)| (key.clone(), value.cloned())),
                ),
                Some(sealing) => self.ingest(*keyspace, sealing.seal(*keyspace, changes)),
            };
            written.map_err(|error| self.explain(Doing::Writing, error))?;
        }
        Ok(())
    }

    /// Writes a table. Without a value a key is removed.
    fn ingest(
        &self,
        keyspace: Keyspace,
        items: impl Iterator<Item = (Bytes, Option<Bytes>)>,
    ) -> fjall::Result<()> {
        let tables = self.keyspace(keyspace);
        let tables = tables.expect("a database that is written to has all keyspaces but that of log entries");
        let mut ingestion = tables.start_ingestion()?;
        for (key, value) in items {
            match value {
                Some(value) => ingestion.write(key, value)?,
                None => ingestion.write_tombstone(key)?,
            }
        }
        ingestion.finish()
    }

    pub(super) fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        let get = |stored: &[u8]| {
            let value = self.keyspace(keyspace).map(|tables| tables.get(stored));
            let value = value.transpose();
            let value = value.map_err(|error| self.explain(Doing::Reading, error))?;
            Ok(value.flatten().map(Bytes::from))
        };
        let Some(sealing) = &self.sealing else {
            return get(key);
        };
        let stored = sealing.stored_key(keyspace, key);
        let Some(value) = get(&stored)? else {
            return Ok(None);
        };
        let (found, value) = sealing.open_value(keyspace, &stored, &value)?;
        if found == key {
            Ok(Some(value))
        } else {
            Err(sealing::damaged(keyspace))
        }
    }

    /// Keys from `from` (included) to `to` (excluded), in order.
    pub(super) fn range<'a>(
        &'a self,
        keyspace: Keyspace,
        from: &'a [u8],
        to: Option<&'a [u8]>,
    ) -> Box<dyn Iterator<Item = Result<Item, Fault>> + 'a> {
        if self.sealing.is_none() {
            return Box::new(self.items(keyspace, from, to));
        }
        let range = (
            Bound::Included(from),
            to.map_or(Bound::Unbounded, Bound::Excluded),
        );
        let all = self.items(keyspace, from, to);
        Box::new(sealing::in_order(keyspace, all).filter(move |item| match item {
            Ok((key, _)) => RangeBounds::<[u8]>::contains(&range, &key[..]),
            Err(_) => true,
        }))
    }

    /// All keys from `from` to `to`. If they are encrypted, there may be others among them, and those that begin alike are
    /// not in order.
    fn items(
        &self,
        keyspace: Keyspace,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> impl Iterator<Item = Result<Item, Fault>> {
        let (from, to) = match &self.sealing {
            None => (from.to_vec(), to.map(<[u8]>::to_vec)),
            Some(_) => sealing::stored_range(keyspace, from, to),
        };
        let range = self.keyspace(keyspace).map(|tables| match to {
            Some(to) => tables.range(from..to),
            None => tables.range(from..),
        });
        range.into_iter().flatten().map(move |item| {
            let (key, value) = item
                .into_inner()
                .map_err(|error| self.explain(Doing::Reading, error))?;
            match &self.sealing {
                None => Ok((Bytes::from(key), Bytes::from(value))),
                Some(sealing) => sealing.open_value(keyspace, &key, &value),
            }
        })
    }

    pub(super) fn disk_bytes(&self) -> Result<u64, Fault> {
        self.database
            .disk_space()
            .map_err(|error| Fault::from_engine(Doing::Reading, error))
    }

    /// Tables of a keyspace. None: the database is older than the keyspace, so it has nothing of it.
    fn keyspace(&self, keyspace: Keyspace) -> Option<&fjall::Keyspace> {
        let known = self.keyspaces.iter().find(|(known, _)| *known == keyspace);
        known.map(|(_, tables)| tables)
    }

    /// The database does not always say why it failed; mostly the disk is full.
    fn explain(&self, doing: Doing, error: fjall::Error) -> Fault {
        match Fault::from_engine(doing, error) {
            Fault::Engine { doing, .. }
                if data_dir::free_bytes(&self.dir).is_some_and(|free| free < NEARLY_FULL_BYTES) =>
            {
                Fault::DiskFull { doing }
            }
            fault => fault,
        }
    }
}

/// Makes a database under the name of one that is not finished.
fn make_unfinished(dir: &DataDir, encryption: &Encryption) -> Result<(), OpenError> {
    let unfinished = dir.engine_unfinished();
    let make_dir = || {
        if unfinished.exists() {
            // Nothing was ever written to it that is not elsewhere: it is used only after it was moved.
            fs::remove_dir_all(&unfinished)?;
        }
        data_dir::make_private(&unfinished)?;
        dir.mark().id.write(&unfinished)?;
        Sealing::make(&unfinished, encryption)
    };
    make_dir().map_err(|error| Fault::from_io(Doing::Opening, error))?;
    let make = || -> fjall::Result<()> {
        let database = open_database(&unfinished)?;
        open_keyspaces(&database, with_tables())?;
        database.persist(PersistMode::SyncAll)
    };
    make().map_err(|error| open_error(dir, error))
}

fn open_database(path: &Path) -> fjall::Result<Database> {
    Database::builder(path)
        .cache_size(CACHE_BYTES)
        .manual_journal_persist(true)
        .max_cached_files(Some(CACHED_FILES_MAX))
        .worker_threads(WORKER_THREADS)
        .open()
}

/// Entries of logs lie in the write-ahead log alone.
fn with_tables() -> impl Iterator<Item = Keyspace> {
    let all = Keyspace::ALL.into_iter();
    all.filter(|keyspace| *keyspace != Keyspace::Log)
}

fn open_keyspaces(
    database: &Database,
    keyspaces: impl Iterator<Item = Keyspace>,
) -> fjall::Result<Vec<(Keyspace, fjall::Keyspace)>> {
    keyspaces
        .map(|keyspace| {
            let options = || {
                KeyspaceCreateOptions::default()
                    .manual_journal_persist(true)
                    // An index has a key for each block, and keys may be larger than blocks: those that are needed have the cache.
                    .index_block_pinning_policy(PinningPolicy::disabled())
                    .compaction_strategy(Arc::new(Leveled::default().with_table_target_size(TABLE_BYTES)))
            };
            Ok((keyspace, database.keyspace(keyspace.name(), options)?))
        })
        .collect()
}

fn open_error(dir: &DataDir, error: fjall::Error) -> OpenError {
    match error {
        fjall::Error::Locked => OpenError::Locked {
            dir: dir.path().to_owned(),
        },
        error => Fault::from_engine(Doing::Opening, error).into(),
    }
}
