//! What a state machine asks to be made durable: writes to named keyspaces.

use bytes::Bytes;

/// A set of keys of its own in the node's durable storage. Keys are ordered by their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Keyspace {
    /// Identity of the node; hard state, voters and log start of each group.
    Meta,
    /// Log entries of all groups: key is group (4 bytes) and index (8 bytes), big endian.
    Log,
    /// Sessions by client id.
    Sessions,
    /// Subscriptions by client id and filter.
    Subscriptions,
    /// Queued and unacknowledged outgoing messages.
    Queue,
    /// Packet ids of QoS 2 messages received and not yet released.
    Received,
    /// Retained messages by topic.
    Retained,
    /// Records of the session plane: the copies of slots that this node has.
    Plane,
}

impl Keyspace {
    /// All keyspaces, in the order in which they were introduced.
    pub const ALL: [Keyspace; 8] = [
        Keyspace::Meta,
        Keyspace::Log,
        Keyspace::Sessions,
        Keyspace::Subscriptions,
        Keyspace::Queue,
        Keyspace::Received,
        Keyspace::Retained,
        Keyspace::Plane,
    ];

    /// Its name on disk.
    pub fn name(self) -> &'static str {
        match self {
            Keyspace::Meta => "meta",
            Keyspace::Log => "log",
            Keyspace::Sessions => "sessions",
            Keyspace::Subscriptions => "subscriptions",
            Keyspace::Queue => "queue",
            Keyspace::Received => "received",
            Keyspace::Retained => "retained",
            Keyspace::Plane => "plane",
        }
    }
}

/// One durable change. Writes that are given to the storage together take effect together or not at all; of two that
/// touch the same key the later one wins.
///
/// Keys are 1 to 65,535 bytes long, values less than 4 GiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Sets a key.
    Put {
        keyspace: Keyspace,
        key: Bytes,
        value: Bytes,
    },
    /// Removes a key, if it is there.
    Remove { keyspace: Keyspace, key: Bytes },
    /// Removes a key that was put exactly once since it was last absent. Cheaper than [`Write::Remove`]; on a key that
    /// was put twice the older value may come back. Only for keys that are never used again: a key that is put again in the
    /// same batch as its `RemoveOnce` is a fault of the caller, and the storage panics.
    RemoveOnce { keyspace: Keyspace, key: Bytes },
    /// Removes every key from `from` (included) to `to` (excluded).
    RemoveRange {
        keyspace: Keyspace,
        from: Bytes,
        to: Bytes,
    },
    /// The same for a range in which every key was put exactly once, see [`Write::RemoveOnce`].
    RemoveRangeOnce {
        keyspace: Keyspace,
        from: Bytes,
        to: Bytes,
    },
}
