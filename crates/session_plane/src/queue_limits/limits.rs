//! Limits of one queue, and what gives way.

/// Limits of each queue of a session, and of each part of a shared group.
///
/// Until the primary owner has dropped messages, a queue has what was published meanwhile as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// Messages at most. One message always has room, also where this is 0.
    pub messages_max: u64,
    /// Bytes at most ([`QueueValue::queue_bytes`](super::QueueValue::queue_bytes)). A message that has more
    /// alone is dropped.
    pub bytes_max: u64,
    /// What gives way.
    pub full: QueueFull,
    /// Queues of which a tick drops messages; at least 1. Further ones stay due.
    pub dropping_max: usize,
}

/// What gives way in a queue that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueFull {
    /// Messages that wait for longest.
    DropOldest,
    /// Messages that came last.
    DropNewest,
}

impl QueueLimits {
    /// Messages that one event removes at most.
    pub const MESSAGES_OF_A_CHANGE: usize = 256;

    /// Limits that no queue exceeds.
    pub const NONE: QueueLimits = QueueLimits {
        messages_max: u64::MAX,
        bytes_max: u64::MAX,
        full: QueueFull::DropOldest,
        dropping_max: 1,
    };

    /// Checks that something can be dropped.
    pub(crate) fn check(&self) {
        assert!(self.dropping_max >= 1, "a tick drops messages of one queue");
    }

    /// Messages that have room.
    pub(super) fn messages_max(&self) -> u64 {
        self.messages_max.max(1)
    }
}
