//! The disk failed. What that means for the data is said at each variant; the node stops in any case.

use std::fmt;
use std::io;
use std::sync::Arc;

/// A failure of the disk or of the engine on it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    /// There is no room left. What was acknowledged before is safe.
    #[error("the disk is full: {doing} failed; free some space and start again")]
    DiskFull { doing: Doing },
    /// The operating system reported an error. What was synced before is safe as far as the disk is.
    #[error("{doing} failed: {source}")]
    Io { doing: Doing, source: Arc<io::Error> },
    /// The embedded engine cannot go on or found damage.
    #[error("{doing} failed in the storage engine: {detail}")]
    Engine { doing: Doing, detail: String },
}

/// What was being done when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Opening,
    Writing,
    Syncing,
    Reading,
    WritingSnapshot,
    ReadingSnapshot,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Doing::Opening => "opening the data directory",
            Doing::Writing => "writing",
            Doing::Syncing => "syncing",
            Doing::Reading => "reading",
            Doing::WritingSnapshot => "writing a snapshot",
            Doing::ReadingSnapshot => "reading a snapshot",
        })
    }
}

impl Fault {
    /// The fault that an I/O error is.
    pub fn from_io(doing: Doing, error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Fault::DiskFull { doing },
            _ => Fault::Io {
                doing,
                source: Arc::new(error),
            },
        }
    }

    /// The fault that an error of the engine is.
    pub(crate) fn from_engine(doing: Doing, error: fjall::Error) -> Fault {
        match error {
            fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
                Fault::from_io(doing, error)
            }
            fjall::Error::Poisoned => Fault::Engine {
                doing,
                detail: "an earlier write, or a flush in the background, failed".to_owned(),
            },
            other => Fault::Engine {
                doing,
                detail: other.to_string(),
            },
        }
    }
}
