//! [`Storage`] on disk: a write-ahead log in front, sorted tables behind.
//!
//! Every batch goes to the log (`wal.rs`) and to memory. One sync of the log makes durable all batches before it. At a
//! checkpoint (when a segment of the log is full, when there are many changes in memory, and when the engine is closed) a
//! thread beside the commits moves the changes to tables; then the log before it is not needed any more. At a start the
//! log after the last checkpoint is read into memory again. Nothing reaches a table before it is durable in the log.
//!
//! Entries of replicated logs lie in the log only, until they are removed.

mod changes;
mod checkpoint;
mod in_use;
mod integrity;
mod log_view;
mod sealing;
mod tables;

use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::path::Path;

use bytes::Bytes;
use cluster::{Keyspace, Write};

use self::changes::Pending;
use self::checkpoint::Checkpointer;
use self::log_view::LogView;
use self::tables::Tables;
use crate::data_dir::{DataDir, OpenError, Protection};
use crate::encryption::{Encryption, KeyId};
use crate::fault::{Doing, Fault};
use crate::wal::{Content, SegmentSizes, Site, Wal};
use crate::{SnapshotError, SnapshotFiles, Storage, Visit};

/// How large files and memory may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineConfig {
    /// Bytes of a segment of the write-ahead log.
    pub segment_bytes: u64,
    /// Bytes of the first segment when no file is there that can be used again: it is filled with zeros while the start
    /// waits. The following ones are larger.
    pub first_segment_bytes: u64,
    /// Memory for changes after which they are moved to tables. Commits wait when there is four times as much.
    pub changes_bytes_max: usize,
}

impl Default for EngineConfig {
    fn default() -> EngineConfig {
        EngineConfig {
            segment_bytes: 16 << 20,
            first_segment_bytes: 4 << 20,
            changes_bytes_max: 16 << 20,
        }
    }
}

/// Commits wait for a checkpoint when there are so many times more changes than after which one begins.
const CHANGES_EXCESS: usize = 4;

/// Durable keyspaces in a data directory.
#[derive(Debug)]
pub struct Engine {
    wal: Wal,
    pending: Pending,
    tables: Tables,
    checkpointer: Checkpointer,
    /// Log entries, as long as nobody has written any since they were read.
    log: OnceCell<LogView>,
    config: EngineConfig,
    /// The first failure of a write or sync.
    fault: Option<Fault>,
    encryption: Encryption,
    /// This start has written everything anew, see [`Engine::has_changed_encryption`].
    has_changed_encryption: bool,
    dir: DataDir,
}

impl Engine {
    /// Opens the data directory `dir`, and makes it if it is not there, without encryption. Locks it for this process.
    pub fn open(dir: &Path) -> Result<Engine, OpenError> {
        Engine::open_with(dir, EngineConfig::default(), Encryption::none())
    }

    /// The same with sizes other than the usual ones, and with encryption.
    ///
    /// What is not written as `encryption` says, plain or with its newest key, or carries no directory id, is written anew
    /// before this returns: tables, log and snapshots. So are tables of a database that is older than some keyspace. Before
    /// anything is changed, it is known that every file can be read.
    pub fn open_with(dir: &Path, config: EngineConfig, encryption: Encryption) -> Result<Engine, OpenError> {
        let mut dir = DataDir::open(dir, &encryption)?;
        Tables::settle(&dir).map_err(|error| Fault::from_io(Doing::Opening, error))?;
        let encryption = agree(&mut dir, encryption)?;
        let sizes = SegmentSizes {
            whole: config.segment_bytes,
            first: config.first_segment_bytes.min(config.segment_bytes),
        };
        if !dir.engine().exists() {
            // The log first: where there is an engine, a log is missing only if it was lost.
            let is_new = Wal::make(&dir.wal(), dir.mark().id, sizes)
                .map_err(|error| Fault::from_io(Doing::Opening, error))?;
            if !is_new {
                let dir = dir.path().to_owned();
                return Err(OpenError::EngineMissing { dir });
            }
            Tables::make(&dir, &encryption)?;
        }
        let mut tables = Tables::open(&dir, &encryption)?;
        let mut pending = Pending::default();
        let mut log = LogView::default();
        let site = Site {
            dir: &dir.wal(),
            says_last: dir.says_last(),
            mark: dir.mark(),
        };
        let wal = Wal::open(site, sizes, &encryption, &mut |sequence, content| {
            match content {
                Content::Batch(writes) => {
                    for write in &writes {
                        log.note(write);
                        replay(&mut pending, &tables, sequence, write)?;
                    }
                }
                Content::Checkpoint { through } => pending.forget_through(through),
            }
            Ok(())
        })?;
        dir.begin_ids()?;
        if tables.key() != encryption.key() || !dir.has_plane() {
            tables = tables.rewrite(&dir, &encryption)?;
        }
        dir.note_plane()?;
        let checkpointer =
            Checkpointer::start(tables.clone()).map_err(|error| Fault::from_io(Doing::Opening, error))?;
        let mut engine = Engine {
            wal,
            pending,
            tables,
            checkpointer,
            log: OnceCell::from(log),
            config,
            fault: None,
            has_changed_encryption: encryption.is_changing(),
            encryption,
            dir,
        };
        // From here on it is known which keys tables cannot have, see `Pending::remove_once`.
        engine.begin_checkpoint();
        if engine.has_changed_encryption || engine.dir.mark().accepts_unmarked {
            engine.write_anew()?;
        }
        Ok(engine)
    }

    /// The data directory.
    pub fn dir(&self) -> &DataDir {
        &self.dir
    }

    /// The snapshots of this data directory.
    pub fn snapshot_files(&self) -> Result<SnapshotFiles, Fault> {
        SnapshotFiles::open(&self.dir.snapshots(), self.encryption.clone(), self.dir.mark())
    }

    /// The key with which everything is encrypted; none: everything is plain.
    pub fn key(&self) -> Option<KeyId> {
        self.encryption.key()
    }

    /// Whether this start has written everything anew: it was plain, or encrypted with another key, in whole or in part.
    /// Keys other than [`Engine::key`] are not needed any more.
    pub fn has_changed_encryption(&self) -> bool {
        self.has_changed_encryption
    }

    /// Bytes of the log and of tables on disk.
    pub fn disk_bytes(&self) -> Result<u64, Fault> {
        let wal = self
            .wal
            .disk_bytes()
            .map_err(|error| Fault::from_io(Doing::Reading, error))?;
        Ok(wal + self.tables.disk_bytes()?)
    }

    /// Moves everything to tables and waits for it: the next start then has nothing to do again. Also done when the engine
    /// is dropped.
    pub fn checkpoint(&mut self) -> Result<(), Fault> {
        self.guarded(|engine| {
            engine.end_checkpoint(true)?;
            engine.wal.sync()?;
            if engine.wal.ends_with_checkpoint() {
                return engine.wal.note_last();
            }
            if engine.begin_checkpoint() {
                engine.end_checkpoint(true)?;
            } else {
                engine.wal.note_checkpoint(engine.wal.last())?;
            }
            engine.wal.sync()?;
            engine.wal.note_last()
        })
    }

    /// Waits until changes that are being moved to tables are there, and notes it.
    pub fn wait_for_checkpoint(&mut self) -> Result<(), Fault> {
        self.guarded(|engine| engine.end_checkpoint(true))
    }

    /// Does nothing after a failure, and remembers one.
    fn guarded(&mut self, work: impl FnOnce(&mut Engine) -> Result<(), Fault>) -> Result<(), Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        work(self).inspect_err(|fault| self.fault = Some(fault.clone()))
    }

    /// Writes anew what is left of files that are plain, of another key or without directory id: log entries, and snapshots.
    fn write_anew(&mut self) -> Result<(), OpenError> {
        self.checkpoint()?;
        self.wal.leave_old_segments()?;
        self.tables.mark(&self.dir)?;
        match self.snapshot_files()?.rewrite() {
            // The log, or another replica, may do without it. The next start tries again.
            Err(SnapshotError::Damaged { .. }) if !self.has_changed_encryption => return Ok(()),
            rewritten => rewritten?,
        }
        let in_use = in_use::check(&self.dir, &self.encryption)?;
        let key = self.encryption.key();
        if in_use.has_unmarked || in_use.keys.iter().any(|other| *other != key) {
            let detail = "a file could not be removed, so not everything could be written anew".to_owned();
            let doing = Doing::Opening;
            return Err(Fault::Engine { doing, detail }.into());
        }
        self.dir.note_current(Protection::of(&self.encryption))?;
        Ok(())
    }

    fn sync_and_maintain(&mut self) -> Result<(), Fault> {
        let must_wait = self.pending.active_bytes() > CHANGES_EXCESS * self.config.changes_bytes_max;
        self.end_checkpoint(must_wait)?;
        self.wal.sync()?;
        if self.is_checkpoint_due() && !self.checkpointer.is_busy() && !self.begin_checkpoint() {
            self.wal.note_checkpoint(self.wal.last())?;
        }
        self.wal.move_entries()
    }

    fn is_checkpoint_due(&self) -> bool {
        let full = self.wal.last_of_full();
        self.pending.active_bytes() > self.config.changes_bytes_max
            || full.is_some_and(|last| last > self.wal.checkpoint())
    }

    /// Begins to move all changes, which are durable in the log. False if there are none.
    fn begin_checkpoint(&mut self) -> bool {
        assert!(self.wal.is_synced(), "tables hold only what is durable");
        let Some(changes) = self.pending.freeze() else {
            return false;
        };
        self.checkpointer.begin(changes, self.wal.last());
        true
    }

    /// Notes in the log that a checkpoint has ended, if one has, or `must_wait` for it.
    fn end_checkpoint(&mut self, must_wait: bool) -> Result<(), Fault> {
        let ended = if must_wait && self.checkpointer.is_busy() {
            Some(self.checkpointer.wait()?)
        } else {
            self.checkpointer.ended()?
        };
        if let Some(through) = ended {
            self.pending.moved();
            self.wal.note_checkpoint(through)?;
        }
        Ok(())
    }

    fn append(&mut self, writes: &[Write]) -> Result<(), Fault> {
        self.wal.append(writes)?;
        let sequence = self.wal.last();
        for write in writes {
            match write {
                Write::RemoveOnce { keyspace, key } if *keyspace != Keyspace::Log => {
                    self.pending.remove_once(sequence, *keyspace, key.clone());
                }
                Write::RemoveRangeOnce { keyspace, from, to } if *keyspace != Keyspace::Log => {
                    for key in keys(&self.pending, &self.tables, *keyspace, from, to)? {
                        self.pending.remove_once(sequence, *keyspace, key);
                    }
                }
                write => replay(&mut self.pending, &self.tables, sequence, write)?,
            }
            if log_view::is_of_log(write) {
                self.log.take();
            }
        }
        // Nobody has asked for a sync for very long.
        if self.pending.active_bytes() > CHANGES_EXCESS * self.config.changes_bytes_max {
            self.sync_and_maintain()?;
        }
        Ok(())
    }

    /// Log entries as they are now. Reading them means to read the whole log; it is remembered until the next is written.
    fn log(&self) -> Result<&LogView, Fault> {
        if let Some(log) = self.log.get() {
            return Ok(log);
        }
        let mut log = LogView::default();
        self.wal.read(&mut |_, content| {
            if let Content::Batch(writes) = content {
                writes.iter().for_each(|write| log.note(write));
            }
            Ok(())
        })?;
        Ok(self.log.get_or_init(|| log))
    }
}

impl Storage for Engine {
    fn held_bytes(&self) -> u64 {
        self.pending.bytes() as u64
    }

    fn write(&mut self, writes: &[Write]) -> Result<(), Fault> {
        self.guarded(|engine| engine.append(writes))
    }

    fn sync(&mut self) -> Result<(), Fault> {
        self.guarded(Engine::sync_and_maintain)
    }

    fn flush(&mut self) -> Result<(), Fault> {
        self.guarded(|engine| {
            engine.wal.hand_over()?;
            // Only what is durable may leave memory or the log.
            if engine.wal.has_unsynced_segment() || engine.is_checkpoint_due() {
                engine.sync_and_maintain()?;
            }
            Ok(())
        })
    }

    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        if keyspace == Keyspace::Log {
            return Ok(self.log()?.get(key));
        }
        match self.pending.get(keyspace, key) {
            Some(change) => Ok(change.value.clone()),
            None => self.tables.get(keyspace, key),
        }
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
        if keyspace == Keyspace::Log {
            self.log()?.visit(from, to, visit);
            return Ok(());
        }
        visit_merged(&self.pending, &self.tables, keyspace, (from, to), visit)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Whoever must know that the last batches are durable has called `sync`.
            let _ = self.checkpoint();
        }
    }
}

/// Finds out whether all files belong here and can be read, and whether encryption has to change. Then it notes that in the
/// directory.
fn agree(dir: &mut DataDir, encryption: Encryption) -> Result<Encryption, OpenError> {
    let aim = Protection::of(&encryption);
    let strict = match dir.protection() {
        Protection::Encrypted => encryption.clone().strict(),
        Protection::Plain | Protection::Changing => encryption.clone(),
    };
    let keys = in_use::check(dir, &strict)?.keys;
    if dir.protection() != aim {
        dir.set_protection(Protection::Changing)?;
        return Ok(encryption.changing());
    }
    let is_as_it_was = keys.iter().all(|key| *key == encryption.key());
    Ok(if is_as_it_was { strict } else { strict.changing() })
}

/// Applies a write, knowing nothing about what tables have: they may be ahead of it after a crash.
fn replay(pending: &mut Pending, tables: &Tables, sequence: u64, write: &Write) -> Result<(), Fault> {
    if log_view::is_of_log(write) {
        return Ok(());
    }
    match write {
        Write::Put { keyspace, key, value } => {
            pending.put(sequence, *keyspace, key.clone(), value.clone());
        }
        Write::Remove { keyspace, key } | Write::RemoveOnce { keyspace, key } => {
            pending.remove(sequence, *keyspace, key.clone());
        }
        Write::RemoveRange { keyspace, from, to } | Write::RemoveRangeOnce { keyspace, from, to } => {
            for key in keys(pending, tables, *keyspace, from, to)? {
                pending.remove(sequence, *keyspace, key);
            }
        }
    }
    Ok(())
}

/// The keys from `from` to `to` that are there.
fn keys(
    pending: &Pending,
    tables: &Tables,
    keyspace: Keyspace,
    from: &[u8],
    to: &[u8],
) -> Result<Vec<Bytes>, Fault> {
    let mut keys = Vec::new();
    if from < to {
        visit_merged(pending, tables, keyspace, (from, Some(to)), &mut |key, _| {
            keys.push(Bytes::copy_from_slice(key));
            ControlFlow::Continue(())
        })?;
    }
    Ok(keys)
}

/// Visits a range of tables as the changes in memory make it.
fn visit_merged(
    pending: &Pending,
    tables: &Tables,
    keyspace: Keyspace,
    (from, to): (&[u8], Option<&[u8]>),
    visit: &mut Visit<'_>,
) -> Result<(), Fault> {
    let mut changes = pending.range(keyspace, from, to).into_iter().peekable();
    for item in tables.range(keyspace, from, to) {
        let (key, value) = item?;
        let mut is_changed = false;
        while let Some((changed, change)) = changes.next_if(|(changed, _)| **changed <= *key) {
            is_changed |= *changed == *key;
            if let Some(value) = &change.value
                && visit(changed, value.clone()).is_break()
            {
                return Ok(());
            }
        }
        if !is_changed && visit(&key, value).is_break() {
            return Ok(());
        }
    }
    for (key, change) in changes {
        if let Some(value) = &change.value
            && visit(key, value.clone()).is_break()
        {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
