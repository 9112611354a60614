//! [`Storage`] on disk: an embedded log-structured database, one keyspace of it for each of ours.
//!
//! All keyspaces share one journal, so one sync makes a batch durable that touches several, and one sync serves all
//! batches before it. Values go to the journal and to memory; a background thread writes memory to sorted tables and then
//! drops the journal.

mod batch;

use std::fs;
use std::panic;
use std::path::Path;

use bytes::Bytes;
use cluster::{Keyspace, Write};
use fjall::config::BlockSizePolicy;
use fjall::{Database, KeyspaceCreateOptions, PersistMode};

use crate::data_dir::{self, DataDir, OpenError};
use crate::fault::{Doing, Fault};
use crate::{Storage, Visit};

/// Memory for blocks of tables that were read. What is hot lives in the broker's own memory, so little is read twice.
const CACHE_BYTES: u64 = 8 << 20;

/// Log entries in memory before they go to a table. A larger one means fewer, larger flushes, each of which takes the
/// journal for the length of a sync; with the journals it bounds how much is read at a start.
const LOG_MEMORY_BYTES: u64 = 64 << 20;

/// The same for each other keyspace.
const KEYSPACE_MEMORY_BYTES: u64 = 16 << 20;

/// Journals on disk before keyspaces that hold up their removal are flushed.
const JOURNAL_BYTES_MAX: u64 = 512 << 20;

/// Threads that flush and compact.
const WORKER_THREADS: usize = 2;

/// Free space below which a fault that does not say its cause is taken for a full disk.
const NEARLY_FULL_BYTES: u64 = 1 << 20;

/// Durable keyspaces in a data directory.
pub struct Engine {
    database: Database,
    keyspaces: Vec<fjall::Keyspace>,
    /// The first failure of a write or sync.
    fault: Option<Fault>,
    dir: DataDir,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("dir", &self.dir.path())
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens the data directory `dir`, and makes it if it is not there. Locks it for this process.
    pub fn open(dir: &Path) -> Result<Engine, OpenError> {
        let dir = DataDir::open(dir)?;
        if !dir.engine().exists() {
            make_engine(&dir)?;
        }
        let (database, keyspaces) = open_checked(&dir)?;
        Ok(Engine {
            database,
            keyspaces,
            fault: None,
            dir,
        })
    }

    /// The data directory.
    pub fn dir(&self) -> &DataDir {
        &self.dir
    }

    /// Bytes of journals and tables on disk.
    pub fn disk_bytes(&self) -> Result<u64, Fault> {
        self.database
            .disk_space()
            .map_err(|error| Fault::from_engine(Doing::Reading, error))
    }

    fn keyspace(&self, keyspace: Keyspace) -> &fjall::Keyspace {
        let position = Keyspace::ALL
            .iter()
            .position(|known| *known == keyspace)
            .expect("ALL holds all keyspaces");
        &self.keyspaces[position]
    }

    fn check(&self) -> Result<(), Fault> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    /// Remembers a failure, so that nothing is written after it.
    fn fail(&mut self, doing: Doing, error: fjall::Error) -> Fault {
        let fault = self.explain(doing, error);
        self.fault = Some(fault.clone());
        fault
    }

    /// The engine does not say why a flush in the background failed; mostly the disk is full.
    fn explain(&self, doing: Doing, error: fjall::Error) -> Fault {
        let fault = Fault::from_engine(doing, error);
        match fault {
            Fault::Engine { doing, .. }
                if free_bytes(self.dir.path()).is_some_and(|free| free < NEARLY_FULL_BYTES) =>
            {
                Fault::DiskFull { doing }
            }
            fault => fault,
        }
    }
}

impl Storage for Engine {
    fn write(&mut self, writes: &[Write]) -> Result<(), Fault> {
        self.check()?;
        let batch = batch::collect(self, writes)?;
        batch.commit().map_err(|error| self.fail(Doing::Writing, error))
    }

    fn flush(&mut self) -> Result<(), Fault> {
        self.check()?;
        self.database
            .persist(PersistMode::Buffer)
            .map_err(|error| self.fail(Doing::Writing, error))
    }

    fn sync(&mut self) -> Result<(), Fault> {
        self.check()?;
        self.database
            .persist(PersistMode::SyncData)
            .map_err(|error| self.fail(Doing::Syncing, error))
    }

    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        let value = self.keyspace(keyspace).get(key);
        Ok(value
            .map_err(|error| self.explain(Doing::Reading, error))?
            .map(Bytes::from))
    }

    fn scan_range(
        &self,
        keyspace: Keyspace,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), Fault> {
        if to.is_some_and(|to| to <= from) {
            return Ok(());
        }
        let keyspace = self.keyspace(keyspace);
        let range = match to {
            Some(to) => keyspace.range(from..to),
            None => keyspace.range(from..),
        };
        for item in range {
            let (key, value) = item
                .into_inner()
                .map_err(|error| self.explain(Doing::Reading, error))?;
            if visit(&key, Bytes::from(value)).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Makes the engine beside its place and moves it there when it is complete, so that a crash meanwhile leaves nothing
/// that looks like an engine.
fn make_engine(dir: &DataDir) -> Result<(), OpenError> {
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

/// Opens the engine. It panics on some damaged journals; here that is an error like any other.
fn open_checked(dir: &DataDir) -> Result<(Database, Vec<fjall::Keyspace>), OpenError> {
    let path = dir.engine();
    let opened = panic::catch_unwind(move || -> fjall::Result<_> {
        let database = open_database(&path)?;
        let keyspaces = open_keyspaces(&database)?;
        Ok((database, keyspaces))
    });
    match opened {
        Ok(opened) => opened.map_err(|error| open_error(dir, error)),
        Err(_) => Err(Fault::Engine {
            doing: Doing::Opening,
            detail: "its journal is damaged".to_owned(),
        }
        .into()),
    }
}

fn open_database(path: &Path) -> fjall::Result<Database> {
    Database::builder(path)
        .cache_size(CACHE_BYTES)
        .max_journaling_size(JOURNAL_BYTES_MAX)
        .manual_journal_persist(true)
        .worker_threads(WORKER_THREADS)
        .open()
}

fn open_keyspaces(database: &Database) -> fjall::Result<Vec<fjall::Keyspace>> {
    Keyspace::ALL
        .iter()
        .map(|keyspace| database.keyspace(keyspace.name(), || options(*keyspace)))
        .collect()
}

fn options(keyspace: Keyspace) -> KeyspaceCreateOptions {
    let options = KeyspaceCreateOptions::default().manual_journal_persist(true);
    match keyspace {
        // Entries are read only in order, at a start.
        Keyspace::Log => options
            .max_memtable_size(LOG_MEMORY_BYTES)
            .data_block_size_policy(BlockSizePolicy::all(64 << 10))
            .expect_point_read_hits(true),
        _ => options.max_memtable_size(KEYSPACE_MEMORY_BYTES),
    }
}

fn open_error(dir: &DataDir, error: fjall::Error) -> OpenError {
    match error {
        fjall::Error::Locked => OpenError::Locked {
            dir: dir.path().to_owned(),
        },
        error => Fault::from_engine(Doing::Opening, error).into(),
    }
}

fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}
