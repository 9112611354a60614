//! The data directory: made private, locked for one process, of one format.
//!
//! ```text
//! data/            mode 0700
//!   LOCK           locked while a process uses the directory; its content does not matter
//!   FORMAT         "statehold data format 3\n"; of one that is encrypted "statehold data format 4, encrypted\n"
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

use crate::encryption::{Encryption, EncryptionError};
use crate::fault::{Doing, Fault};
use crate::{SnapshotError, WalError};

/// Why a data directory was not opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses it.
    #[error("the data directory {} is in use by another process", dir.display())]
    Locked { dir: PathBuf },
    /// Written by another version of the program.
    #[error(
        "{} says format {found:?}; this program knows up to {ENCRYPTED:?}",
        dir.join(FORMAT_FILE).display()
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
    /// Something in it is encrypted, and the keys do not fit; or it is not, and should be.
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
    /// A snapshot cannot be read, and would have to be encrypted, or encrypted with another key.
    #[error("encryption cannot be changed: {0}")]
    Snapshot(#[from] SnapshotError),
    /// A file of the engine is not what was written, or not there.
    #[error("the data directory is damaged: {}: {what}", file.display())]
    Damaged { file: PathBuf, what: &'static str },
    /// There is a log, and no engine for it.
    #[error("the engine is missing: {} holds a write-ahead log and no directory engine", dir.display())]
    EngineMissing { dir: PathBuf },
    /// The engine in it could not be opened.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl OpenError {
    /// Whether a file is damaged or lost, so that the directory can be used by nobody.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Locked { .. } | Self::Io { .. } => false,
            Self::Encryption(error) | Self::Wal(WalError::Encryption(error)) => error.is_damage(),
            Self::Fault(fault) | Self::Wal(WalError::Fault(fault)) => matches!(fault, Fault::Engine { .. }),
            Self::UnknownFormat { .. }
            | Self::FormatMissing { .. }
            | Self::Wal(_)
            | Self::Snapshot(_)
            | Self::Damaged { .. }
            | Self::EngineMissing { .. } => true,
        }
    }
}

const FORMAT_FILE: &str = "FORMAT";
const PLAIN: &str = "statehold data format 3";
const CHANGING: &str = "statehold data format 4, encryption changes";
const ENCRYPTED: &str = "statehold data format 4, encrypted";

/// The same before the log said which segment was begun last.
const PLAIN_BEFORE: &str = "statehold data format 1";
const CHANGING_BEFORE: &str = "statehold data format 2, encryption changes";
const ENCRYPTED_BEFORE: &str = "statehold data format 2, encrypted";
const LOCK_FILE: &str = "LOCK";

/// What of a data directory is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Nothing.
    Plain,
    /// Some of it: a start has begun to change that and has not ended.
    Changing,
    /// Everything.
    Encrypted,
}

/// A locked data directory.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    protection: Protection,
    /// What FORMAT says is what this version writes.
    is_current: bool,
    /// Unlocked when it is closed.
    _lock: File,
}

impl DataDir {
    /// Makes the directory if it is not there, locks it, and checks its format. A new one is written as `encryption` says.
    pub fn open(path: &Path, encryption: &Encryption) -> Result<DataDir, OpenError> {
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
        let mut dir = DataDir {
            path: path.to_owned(),
            protection: Protection::of(encryption),
            is_current: true,
            _lock: lock,
        };
        match fs::read(path.join(FORMAT_FILE)) {
            Ok(found) => (dir.protection, dir.is_current) = dir.check_format(&found)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => dir.make_format(made)?,
            Err(error) => return Err(io(error)),
        }
        Ok(dir)
    }

    /// Notes what is encrypted from now on.
    pub(crate) fn set_protection(&mut self, protection: Protection) -> Result<(), Fault> {
        if self.protection != protection {
            self.protection = protection;
            self.write_format()
                .map_err(|error| Fault::from_io(Doing::Opening, error))?;
        }
        Ok(())
    }

    /// Whether the log in it says which segment was begun last.
    pub(crate) fn says_last(&self) -> bool {
        self.is_current
    }

    /// Notes that everything in it is as this version writes it.
    pub(crate) fn note_format(&mut self) -> Result<(), Fault> {
        if !self.is_current {
            self.is_current = true;
            self.write_format()
                .map_err(|error| Fault::from_io(Doing::Opening, error))?;
        }
        Ok(())
    }

    pub(crate) fn protection(&self) -> Protection {
        self.protection
    }

    /// Where the engine lies.
    pub fn engine(&self) -> PathBuf {
        self.path.join("engine")
    }

    /// Where an engine lies that is being made for the first time.
    pub fn engine_unfinished(&self) -> PathBuf {
        self.path.join("engine.unfinished")
    }

    /// Where an engine lies that is complete and is to be used instead of the one there is.
    pub fn engine_rewritten(&self) -> PathBuf {
        self.path.join("engine.rewritten")
    }

    /// Where an engine lies that is not used any more.
    pub fn engine_replaced(&self) -> PathBuf {
        self.path.join("engine.replaced")
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

    /// What is encrypted, and whether it is of the present format.
    fn check_format(&self, found: &[u8]) -> Result<(Protection, bool), OpenError> {
        let found = String::from_utf8_lossy(found);
        match found.trim_end() {
            PLAIN => Ok((Protection::Plain, true)),
            CHANGING => Ok((Protection::Changing, true)),
            ENCRYPTED => Ok((Protection::Encrypted, true)),
            PLAIN_BEFORE => Ok((Protection::Plain, false)),
            CHANGING_BEFORE => Ok((Protection::Changing, false)),
            ENCRYPTED_BEFORE => Ok((Protection::Encrypted, false)),
            found => Err(OpenError::UnknownFormat {
                dir: self.path.clone(),
                found: found.chars().take(64).collect(),
            }),
        }
    }

    fn make_format(&self, made: bool) -> Result<(), OpenError> {
        if self.engine().exists() || self.wal().exists() || self.snapshots().exists() {
            return Err(OpenError::FormatMissing {
                dir: self.path.clone(),
            });
        }
        let write = || {
            self.write_format()?;
            if made { sync_parent(&self.path) } else { Ok(()) }
        };
        write().map_err(|error| Fault::from_io(Doing::Opening, error).into())
    }

    fn write_format(&self) -> io::Result<()> {
        let format = match (self.protection, self.is_current) {
            (Protection::Plain, true) => PLAIN,
            (Protection::Changing, true) => CHANGING,
            (Protection::Encrypted, true) => ENCRYPTED,
            (Protection::Plain, false) => PLAIN_BEFORE,
            (Protection::Changing, false) => CHANGING_BEFORE,
            (Protection::Encrypted, false) => ENCRYPTED_BEFORE,
        };
        let unfinished = self.path.join("FORMAT.unfinished");
        let mut file = File::create(&unfinished)?;
        file.write_all(format!("{format}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, self.path.join(FORMAT_FILE))?;
        sync_dir(&self.path)
    }
}

impl Protection {
    /// What a directory is to be in the end.
    pub(crate) fn of(encryption: &Encryption) -> Protection {
        match encryption.key() {
            Some(_) => Protection::Encrypted,
            None => Protection::Plain,
        }
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

/// Makes the name of a file or a directory durable.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        // A name alone is one of the current directory.
        _ => sync_dir(Path::new(".")),
    }
}

/// Bytes that can still be written to the file system of `path`; none if it does not say.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}
