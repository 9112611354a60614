//! Durable keyspaces, the replicated logs in them, and snapshot files.
//!
//! [`Storage`] is what the disk thread of a node drives: atomic batches, and a sync after which what was written is
//! durable. [`Engine`] keeps them on disk, in a log and in tables; [`SimulatedDisk`] keeps them in memory and fails as it
//! is told. [`recovery`] turns what is found at the start into what a replica starts from.

pub mod clock_mark;
pub mod data_dir;
mod directory_id;
pub mod encryption;
pub mod engine;
pub mod fault;
mod heads;
pub mod identity;
pub mod recovery;
pub mod simulated;
pub mod snapshot_files;
mod storage;
mod wal;

pub use clock_mark::ClockMark;
pub use data_dir::OpenError;
pub use directory_id::{DirectoryId, ForeignFile};
pub use encryption::{Encryption, EncryptionError, KeyFileError, KeyId};
pub use engine::{Engine, EngineConfig};
pub use fault::Fault;
pub use identity::{Drawn, Identity, KnownStarts, RolledBack, is_blank, read_membership, write_membership};
pub use recovery::{RecoveryError, open_group, recover_control, recover_group};
pub use simulated::SimulatedDisk;
pub use snapshot_files::{SnapshotError, SnapshotFiles, SnapshotReader, SnapshotWriter};
pub use storage::{Storage, Visit};
pub use wal::WalError;
