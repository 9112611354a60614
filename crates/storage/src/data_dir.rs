//! The data directory: made private, locked for one process, of one format.
//!
//! ```text
//! data/            mode 0700
//!   LOCK           locked while a process uses the directory; its content does not matter
//!   FORMAT         "statehold data format 1\n"
//!   wal/           the write-ahead log: what was written last, and all log entries
//!   engine/        the embedded database: tables of all other keyspaces
//!   snapshots/     one file per group and snapshot
//! ```
//!
//! A directory that holds an engine or snapshots but no FORMAT is refused: it is not known what is in it, and nothing is
//! ever deleted because something else is missing.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::WalError;
use crate::fault::{Doing, Fault};

/// Why a data directory was not opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses it.
    #[error("the data directory {} is in use by another process", dir.display())]
    Locked { dir: PathBuf },
    /// Written by another version of the program.
    #[error(
        "the data directory {} has format {found:?}; this program knows {FORMAT:?}",
        dir.display()
    )]
    UnknownFormat { dir: PathBuf, found: String },
    /// It holds data, but does not say in which format.
    #[error(
        "{} holds data but no file {FORMAT_FILE}: it is not a data directory, or it was copied only in part",
        dir.display()
    )]
    FormatMissing { dir: PathBuf },
    /// The path cannot be used.
    #[error("the data directory {} cannot be opened: {source}", dir.display())]
    Io { dir: PathBuf, source: io::Error },
    /// The write-ahead log in it cannot be used.
    #[error(transparent)]
    Wal(#[from] WalError),
    /// There is a log, and no engine for it.
    #[error("the engine is missing: {} holds a write-ahead log and no directory engine", dir.display())]
    EngineMissing { dir: PathBuf },
    /// The engine in it could not be opened.
    #[error(transparent)]
    Fault(#[from] Fault),
}

const FORMAT_FILE: &str = "FORMAT";
const FORMAT: &str = "statehold data format 1";
const LOCK_FILE: &str = "LOCK";

/// A locked data directory.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Unlocked when it is closed.
    _lock: File,
}

impl DataDir {
    /// Makes the directory if it is not there, locks it, and checks its format.
    pub fn open(path: &Path) -> Result<DataDir, OpenError> {
        let io = |source| OpenError::Io {
            dir: path.to_owned(),
            source,
        };
        let made = make_private(path).map_err(io)?;
        let lock_path = path.join(LOCK_FILE);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(lock_path)
            .map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked { dir: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let dir = DataDir {
            path: path.to_owned(),
            _lock: lock,
        };
        match fs::read(path.join(FORMAT_FILE)) {
            Ok(found) => dir.check_format(&found)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => dir.write_format(made)?,
            Err(error) => return Err(io(error)),
        }
        Ok(dir)
    }

    /// Where the engine lies.
    pub fn engine(&self) -> PathBuf {
        self.path.join("engine")
    }

    /// Where an engine lies that is being made for the first time.
    pub fn engine_unfinished(&self) -> PathBuf {
        self.path.join("engine.unfinished")
    }

    /// Where the write-ahead log lies.
    pub fn wal(&self) -> PathBuf {
        self.path.join("wal")
    }

    /// Where snapshots lie.
    pub fn snapshots(&self) -> PathBuf {
        self.path.join("snapshots")
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn check_format(&self, found: &[u8]) -> Result<(), OpenError> {
        let found = String::from_utf8_lossy(found);
        let found = found.trim_end();
        if found == FORMAT {
            return Ok(());
        }
        let found = found.chars().take(64).collect();
        Err(OpenError::UnknownFormat {
            dir: self.path.clone(),
            found,
        })
    }

    fn write_format(&self, made: bool) -> Result<(), OpenError> {
        if self.engine().exists() || self.wal().exists() || self.snapshots().exists() {
            return Err(OpenError::FormatMissing {
                dir: self.path.clone(),
            });
        }
        let write = || {
            let unfinished = self.path.join("FORMAT.unfinished");
            let mut file = File::create(&unfinished)?;
            file.write_all(format!("{FORMAT}\n").as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, self.path.join(FORMAT_FILE))?;
            sync_dir(&self.path)?;
            match self.path.parent() {
                Some(parent) if made && !parent.as_os_str().is_empty() => sync_dir(parent),
                _ => Ok(()),
            }
        };
        write().map_err(|error| Fault::from_io(Doing::Opening, error).into())
    }
}

/// Makes a directory that only its owner can enter; says whether it was not there before.
pub(crate) fn make_private(path: &Path) -> io::Result<bool> {
    let there = path.is_dir();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    Ok(!there)
}

/// Makes names in a directory durable.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Bytes that can still be written to the file system of `path`; none if it does not say.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}
