//! The data directory: made private, locked for one process, of one format.
//!
//! ```text
//! data/            mode 0700
//!   LOCK           locked while a process uses the directory; its content does not matter
//!   FORMAT         "statehold data format 7\n"; of one that is encrypted "statehold data format 8, encrypted\n"
//!   DIRECTORY_ID   random, made with the directory: files that carry another one belong to another server
//!   wal/           the write-ahead log: what was written last, and all log entries
//!   engine/        the embedded database: tables of all other keyspaces
//!   snapshots/     one file per group and snapshot
//! ```
//!
//! A directory that holds an engine or snapshots but no FORMAT is refused: it is not known what is in it, and nothing is
//! ever deleted because something else is missing.

mod format;

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use self::format::{Age, Format};
use crate::directory_id::{self, DirectoryId, DirectoryMark, Found};
use crate::encryption::{Encryption, EncryptionError};
use crate::fault::{Doing, Fault};
use crate::{ForeignFile, SnapshotError, WalError};

pub(crate) use self::format::Protection;

/// Why a data directory was not opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses it.
    #[error("the data directory {} is in use by another process", dir.display())]
    Locked { dir: PathBuf },
    /// Written by another version of the program.
    #[error(
        "{} says format {found:?}; this program knows up to {:?}",
        dir.join(FORMAT_FILE).display(),
        Format::NEWEST.text()
    )]
    UnknownFormat { dir: PathBuf, found: String },
    /// It holds data, but does not say in which format.
    #[error(
        "{} holds data but no file {FORMAT_FILE}: it is not a data directory, or it was copied only in part",
        dir.display()
    )]
    FormatMissing { dir: PathBuf },
    /// A file in it is one of another server.
    #[error(transparent)]
    Foreign(#[from] ForeignFile),
    /// The path cannot be used.
    #[error("the data directory {} cannot be opened: {source}", dir.display())]
    Io { dir: PathBuf, source: io::Error },
    /// The write-ahead log in it cannot be used.
    #[error(transparent)]
    Wal(#[from] WalError),
    /// Something in it is encrypted, and the keys do not fit; or it is not, and should be.
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
    /// A snapshot cannot be read, and would have to be encrypted, or encrypted with another key, or to get a directory id.
    #[error("a snapshot cannot be written anew: {0}")]
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
            | Self::Foreign(_)
            | Self::Wal(_)
            | Self::Snapshot(_)
            | Self::Damaged { .. }
            | Self::EngineMissing { .. } => true,
        }
    }
}

const FORMAT_FILE: &str = "FORMAT";
const LOCK_FILE: &str = "LOCK";

/// A locked data directory.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    format: Format,
    id: DirectoryId,
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
            format: Format {
                protection: Protection::of(encryption),
                age: Age::Current,
            },
            id: DirectoryId::random(),
            _lock: lock,
        };
        match fs::read(path.join(FORMAT_FILE)) {
            Ok(found) => {
                dir.format = dir.parse_format(&found)?;
                dir.read_id()?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => dir.make_format(made)?,
            Err(error) => return Err(io(error)),
        }
        Ok(dir)
    }

    /// Notes what is encrypted from now on.
    pub(crate) fn set_protection(&mut self, protection: Protection) -> Result<(), Fault> {
        self.set_format(Format {
            protection,
            ..self.format
        })
    }

    /// Whether the log in it says which segment was begun last.
    pub(crate) fn says_last(&self) -> bool {
        self.format.age > Age::WithoutLast
    }

    /// Whether the engine in it has the keyspace of the session plane.
    pub(crate) fn has_plane(&self) -> bool {
        self.format.age > Age::WithoutPlane
    }

    /// Id that its files have to carry.
    pub(crate) fn mark(&self) -> DirectoryMark {
        DirectoryMark {
            id: self.id,
            accepts_unmarked: self.format.age.has_unmarked(),
        }
    }

    /// Notes the id, before the first file carries it.
    pub(crate) fn begin_ids(&mut self) -> Result<(), Fault> {
        if self.format.age >= Age::GainingIds {
            return Ok(());
        }
        let written = self.id.write(&self.path);
        written.map_err(|error| Fault::from_io(Doing::Opening, error))?;
        self.set_format(Format {
            age: Age::GainingIds,
            ..self.format
        })
    }

    /// Notes that the engine has all keyspaces, before anything is written to those that it did not have.
    pub(crate) fn note_plane(&mut self) -> Result<(), Fault> {
        let age = if self.format.age.has_unmarked() {
            Age::CurrentGainingIds
        } else {
            Age::Current
        };
        self.set_format(Format { age, ..self.format })
    }

    /// Notes that everything in it is as this version writes it, with this protection.
    pub(crate) fn note_current(&mut self, protection: Protection) -> Result<(), Fault> {
        self.set_format(Format {
            protection,
            age: Age::Current,
        })
    }

    pub(crate) fn protection(&self) -> Protection {
        self.format.protection
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

    fn parse_format(&self, found: &[u8]) -> Result<Format, OpenError> {
        let found = String::from_utf8_lossy(found);
        Format::parse(found.trim_end()).ok_or_else(|| OpenError::UnknownFormat {
            dir: self.path.clone(),
            found: found.trim_end().chars().take(64).collect(),
        })
    }

    /// Takes the id that the directory has. One of an older format has none, or that of a start that was cut off.
    fn read_id(&mut self) -> Result<(), OpenError> {
        let lost = |what| {
            let file = directory_id::path(&self.path);
            Err(OpenError::Damaged { file, what })
        };
        let found = DirectoryId::read(&self.path).map_err(|source| OpenError::Io {
            dir: self.path.clone(),
            source,
        })?;
        match found {
            Found::Id(id) => self.id = id,
            Found::Damaged => return lost("it is not what was written"),
            Found::Missing if self.format.age >= Age::GainingIds => return lost("it is missing"),
            Found::Missing => {}
        }
        Ok(())
    }

    fn set_format(&mut self, format: Format) -> Result<(), Fault> {
        if self.format != format {
            self.format = format;
            self.write_format()
                .map_err(|error| Fault::from_io(Doing::Opening, error))?;
        }
        Ok(())
    }

    fn make_format(&self, made: bool) -> Result<(), OpenError> {
        if self.engine().exists() || self.wal().exists() || self.snapshots().exists() {
            return Err(OpenError::FormatMissing {
                dir: self.path.clone(),
            });
        }
        let write = || {
            self.id.write(&self.path)?;
            self.write_format()?;
            if made { sync_parent(&self.path) } else { Ok(()) }
        };
        write().map_err(|error| Fault::from_io(Doing::Opening, error).into())
    }

    fn write_format(&self) -> io::Result<()> {
        let unfinished = self.path.join("FORMAT.unfinished");
        let mut file = File::create(&unfinished)?;
        file.write_all(format!("{}\n", self.format.text()).as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, self.path.join(FORMAT_FILE))?;
        sync_dir(&self.path)
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
