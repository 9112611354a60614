//! The key-value state machine of the state store: a pure function of committed commands.
//!
//! A [`Store`] is what every replica of a group builds from the same log. It reads no clock, draws no random
//! number and does no I/O: the leader's clocks come in with each log entry ([`Store::begin`]), so that every
//! replica computes the same outcomes, versions and effects. Reads ([`Store::get`], [`Store::scan`]) take the
//! time as an argument and change nothing.
//!
//! * [`Command`]s go in, [`Outcome`]s and [`Effect`]s come out: `command.rs`, `store.rs`.
//! * One log entry is one batch of commands: [`EntryBuilder`], [`decode_entry`].
//! * [`Image`] is a frozen view for a snapshot, taken in constant time; [`Store::restore`] reads it back, [`Restoring`] piece by piece.
//!
//! Invariant: the versions of a key rise strictly for ever, across deletion, expiry, re-creation and a leader
//! whose clock is behind.
#![warn(missing_docs)]

mod codec;
mod command;
mod difference;
mod digest;
mod entry;
mod expiry;
mod fencing;
mod footprint;
mod key;
mod key_record;
mod reinstate;
mod retry;
mod scan;
mod snapshot;
mod stamp;
mod store;
mod tombstone;
mod version;
mod watch;

pub use command::{Change, Command, CommandAction, Effect, Origin, Outcome, Quota, Refusal, Watcher};
pub use entry::{Entry, EntryBuilder, EntryError, asks_for_disk, decode_entry};
pub use key_record::{KeyRecord, KeyRecordDamaged};
pub use protocol::state_store::{Condition, Dialect, Glob};
pub use retry::{REPLIES_REMEMBERED_MAX, RequestIdentity, RetryKey};
pub use scan::{BYTES_PER_KEY, ScanError, ScanLimits, ScanPage};
pub use snapshot::{CHUNK_BYTES_MAX, Chunks, Image, RestoreError, Restoring};
pub use stamp::Stamp;
pub use store::{Details, Found, Store, Usage};
pub use tombstone::{TOMBSTONE_BYTES_MAX, TOMBSTONES_MAX};
pub use version::{Version, WALL_MAX};
pub use watch::{WATCHED_BYTES_PER_WATCHER_MAX, WATCHES_PER_WATCHER_MAX};
