//! What goes into the store and what comes out of it.

use bytes::Bytes;
use protocol::Hlc;
use protocol::state_store::{Condition, Dialect};

use crate::key_record::KeyRecord;
use crate::retry::RetryKey;
use crate::version::Version;

/// A command of the log, and who waits for its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Who waits for the outcome. The store itself does not look at it.
    pub origin: Origin,
    /// What to do.
    pub action: CommandAction,
}

/// Who waits for the outcome of a command: a request on one node, in one of its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The node that took the request.
    pub node: u64,
    /// Its incarnation.
    pub incarnation: u32,
    /// The node's own number for the request.
    pub request: u64,
}

/// What a command does. Keys are not empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandAction {
    /// Store a value.
    Set {
        /// The key.
        key: Bytes,
        /// Its new value.
        value: Bytes,
        /// When to store it.
        condition: Condition,
        /// After how many milliseconds it expires, counted in group time from its log entry on; `None` clears an
        /// earlier expiry.
        expires_in: Option<u64>,
        /// The request's `__ts`; its wall is at most [`WALL_MAX`](crate::WALL_MAX).
        timestamp: Hlc,
        /// The request's `__ft`.
        fencing: Option<Hlc>,
        /// Under what to remember the outcome.
        retry: Option<RetryKey>,
    },
    /// Delete a key.
    Delete {
        /// The key.
        key: Bytes,
        /// Delete it only if it has this value.
        only_if: Option<Bytes>,
        /// The request's `__ts`; its wall is at most [`WALL_MAX`](crate::WALL_MAX).
        timestamp: Option<Hlc>,
        /// The request's `__ft`.
        fencing: Option<Hlc>,
        /// Under what to remember the outcome.
        retry: Option<RetryKey>,
    },
    /// Register a connection for the changes of a key.
    Watch {
        /// The key; it need not exist.
        key: Bytes,
        /// The connection.
        watcher: Watcher,
        /// The form of its notifications.
        dialect: Dialect,
        /// Not used: a registration that is made twice is made once, and a retry on a new connection must
        /// register that one.
        retry: Option<RetryKey>,
    },
    /// End a registration.
    Unwatch {
        /// The key.
        key: Bytes,
        /// The connection.
        watcher: Watcher,
        /// Under what to remember the outcome. A retry ends the registration of its own connection, if there is
        /// one, and is answered with the outcome of the first try.
        retry: Option<RetryKey>,
    },
    /// A connection has ended: end all its registrations.
    EndWatches {
        /// The connection.
        watcher: Watcher,
    },
    /// A node has started anew: end the registrations of all its connections of earlier lives.
    EndIncarnations {
        /// The node.
        node: u64,
        /// Its incarnations below this one are over.
        below: u32,
    },
    /// Delete those of these keys that are past their deadline.
    Expire {
        /// Candidates, as [`Store::expired`](crate::Store::expired) lists them.
        keys: Vec<Bytes>,
    },
    /// Set the limits of the store.
    Configure {
        /// The limits.
        quota: Quota,
    },
    /// Put a key back as it was in another store, with its version. What is there with this version or a later one stays, and so
    /// does it stay deleted if it was deleted later, as far as that is remembered.
    Reinstate {
        /// The key as it was.
        record: KeyRecord,
    },
    /// Keys that are made from here on get versions greater than this.
    RaiseFloor {
        /// The greatest that may have been given elsewhere.
        floor: Version,
    },
}

impl CommandAction {
    /// The key of what concerns one key; `None` for what a node does on its own.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Set { key, .. }
            | Self::Delete { key, .. }
            | Self::Watch { key, .. }
            | Self::Unwatch { key, .. } => Some(key),
            Self::Reinstate { record } => Some(&record.key),
            Self::EndWatches { .. }
            | Self::EndIncarnations { .. }
            | Self::Expire { .. }
            | Self::Configure { .. }
            | Self::RaiseFloor { .. } => None,
        }
    }

    /// Lets the outcome be remembered for at least so many milliseconds, if it is to be remembered.
    pub fn remember_for(&mut self, least: u64) {
        if let Some(retry) = self.retry_mut() {
            retry.remembered = retry.remembered.max(least);
        }
    }

    /// Under what its outcome is to be remembered.
    pub(crate) fn retry_mut(&mut self) -> Option<&mut RetryKey> {
        match self {
            Self::Set { retry, .. }
            | Self::Delete { retry, .. }
            | Self::Watch { retry, .. }
            | Self::Unwatch { retry, .. } => retry.as_mut(),
            _ => None,
        }
    }
}

/// A connection that watches keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Watcher {
    /// The node that holds the connection.
    pub node: u64,
    /// Its incarnation.
    pub incarnation: u32,
    /// The node's own number for the connection.
    pub connection: u64,
}

/// Limits of the store. A SET that would pass one is refused, unless it makes the store smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// How many keys there may be.
    pub keys_max: u64,
    /// How many bytes keys, values and the node ids of fencing tokens may have together.
    pub bytes_max: u64,
}

impl Quota {
    /// No limits.
    pub const UNLIMITED: Self = Self {
        keys_max: u64::MAX,
        bytes_max: u64::MAX,
    };
}

impl Default for Quota {
    fn default() -> Self {
        Self::UNLIMITED
    }
}

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// SET: stored.
    Stored {
        /// The new version.
        version: Version,
    },
    /// SET: the condition is not met.
    ConditionFailed {
        /// The version of the value that is there.
        stored: Version,
    },
    /// DEL, VDEL: deleted.
    Deleted {
        /// The version of the value that was deleted.
        version: Version,
    },
    /// DEL, VDEL: there is no such key.
    Missing,
    /// VDEL: the key has another value.
    OtherValue {
        /// The version of the value that is there.
        stored: Version,
    },
    /// KEYNOTIFY: registered, or it already was.
    Watching,
    /// KEYNOTIFY STOP: there was a registration, and it has ended.
    Unwatched,
    /// KEYNOTIFY STOP: there was no registration.
    NotWatched,
    /// Refused; nothing has changed.
    Refused(Refusal),
    /// A command that no request waits for is done.
    Done,
}

/// Why a command is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The key has a fencing token, the request has none.
    FencingTokenRequired,
    /// The request's fencing token is older than the key's.
    FencingTokenLower,
    /// A limit of the store, or of what a connection may watch.
    QuotaExceeded,
}

/// What a change means to somebody else than the one who made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A watched key has changed. Of one key, effects come in the order of its versions.
    Changed {
        /// The connection that watches it.
        watcher: Watcher,
        /// The form of its notifications.
        dialect: Dialect,
        /// The key.
        key: Bytes,
        /// What happened.
        change: Change,
        /// The new version; of a deletion, the deletion's own, which is greater than the value's.
        version: Version,
    },
}

/// What happened to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It has a new value.
    Set {
        /// The value.
        value: Bytes,
    },
    /// It was deleted, or it expired.
    Delete,
}
