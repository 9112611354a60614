//! Sorted tables on disk, in an embedded log-structured database (fjall).
//!
//! Tables are only ever written as a whole, sorted and synced, at a checkpoint; the database's own journal and its memory
//! stay empty. So no commit waits for it, and nothing in it can be torn: a table is listed after it was synced. Keyspaces
//! are written one after the other; a crash between two of them does no harm, since the write-ahead log has everything from
//! the checkpoint before.

use std::fs;
use std::panic;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cluster::Keyspace;
use fjall::{Database, KeyspaceCreateOptions, PersistMode};

use super::changes::Changes;
use crate::data_dir::{self, DataDir, OpenError};
use crate::fault::{Doing, Fault};

/// Memory for blocks of tables that were read. What is hot lives in the broker's own memory, so little is read twice.
const CACHE_BYTES: u64 = 8 << 20;

/// Threads that compact tables.
const WORKER_THREADS: usize = 1;

/// Tables whose files stay open. The server leaves descriptors for twice as many (`descriptors.rs`).
const CACHED_FILES_MAX: usize = 256;

/// Free space below which a fault that does not say its cause is taken for a full disk.
const NEARLY_FULL_BYTES: u64 = 1 << 20;

/// Keys and values, and where to find them.
type Item = (fjall::UserKey, fjall::UserValue);

/// All keyspaces but that of log entries.
#[derive(Clone)]
pub(super) struct Tables {
    database: Database,
    keyspaces: Vec<(Keyspace, fjall::Keyspace)>,
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
    pub(super) fn make(dir: &DataDir) -> Result<(), OpenError> {
        let unfinished = dir.engine_unfinished();
        if unfinished.exists() {
            // Nothing was ever written to it: it is opened only after it was moved.
            fs::remove_dir_all(&unfinished).map_err(|error| Fault::from_io(Doing::Opening, error))?;
        }
        let make = || -> fjall::Result<()> {
            data_dir::make_private(&unfinished)?;
            let database = open_database(&unfinished)?;
            open_keyspaces(&database)?;
            database.persist(PersistMode::SyncAll)
        };
        make().map_err(|error| open_error(dir, error))?;
        let place = || {
            fs::rename(&unfinished, dir.engine())?;
            data_dir::sync_dir(dir.path())
        };
        place().map_err(|error| Fault::from_io(Doing::Opening, error).into())
    }

    /// Opens the database. It panics on some damage; here that is an error like any other.
    pub(super) fn open(dir: &DataDir) -> Result<Tables, OpenError> {
        let path = dir.engine();
        let opened = panic::catch_unwind(move || -> fjall::Result<_> {
            let database = open_database(&path)?;
            let keyspaces = open_keyspaces(&database)?;
            Ok((database, keyspaces))
        });
        match opened {
            Ok(Ok((database, keyspaces))) => Ok(Tables {
                database,
                keyspaces,
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

    /// Writes changes to new tables, durably.
    pub(super) fn take_in(&self, changes: &Changes) -> Result<(), Fault> {
        for (keyspace, changes) in changes {
            let write = || -> fjall::Result<()> {
                let mut ingestion = self.keyspace(*keyspace).start_ingestion()?;
                for (key, change) in changes {
                    match &change.value {
                        Some(value) => ingestion.write(key.clone(), value.clone())?,
                        None => ingestion.write_tombstone(key.clone())?,
                    }
                }
                ingestion.finish()
            };
            write().map_err(|error| self.explain(Doing::Writing, error))?;
        }
        Ok(())
    }

    pub(super) fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        let value = self.keyspace(keyspace).get(key);
        let value = value.map_err(|error| self.explain(Doing::Reading, error))?;
        Ok(value.map(Bytes::from))
    }

    /// Keys from `from` (included) to `to` (excluded), in order.
    pub(super) fn range(
        &self,
        keyspace: Keyspace,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> impl Iterator<Item = Result<Item, Fault>> {
        let keyspace = self.keyspace(keyspace);
        let range = match to {
            Some(to) => keyspace.range(from..to),
            None => keyspace.range(from..),
        };
        range.map(|item| {
            item.into_inner()
                .map_err(|error| self.explain(Doing::Reading, error))
        })
    }

    pub(super) fn disk_bytes(&self) -> Result<u64, Fault> {
        self.database
            .disk_space()
            .map_err(|error| Fault::from_engine(Doing::Reading, error))
    }

    fn keyspace(&self, keyspace: Keyspace) -> &fjall::Keyspace {
        let known = self.keyspaces.iter().find(|(known, _)| *known == keyspace);
        let (_, found) = known.expect("all keyspaces but that of log entries have tables");
        found
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

fn open_database(path: &Path) -> fjall::Result<Database> {
    Database::builder(path)
        .cache_size(CACHE_BYTES)
        .manual_journal_persist(true)
        .max_cached_files(Some(CACHED_FILES_MAX))
        .worker_threads(WORKER_THREADS)
        .open()
}

fn open_keyspaces(database: &Database) -> fjall::Result<Vec<(Keyspace, fjall::Keyspace)>> {
    let with_tables = Keyspace::ALL
        .into_iter()
        .filter(|keyspace| *keyspace != Keyspace::Log);
    with_tables
        .map(|keyspace| {
            let options = || KeyspaceCreateOptions::default().manual_journal_persist(true);
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
