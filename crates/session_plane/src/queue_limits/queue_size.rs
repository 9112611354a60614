//! Size of a queue, kept while messages come and go.

use super::{QueueLimits, QueueValue};
use crate::{Entry, Fact};

/// Messages of one client, of all its sessions, and their bytes.
///
/// It has what does not count in the limits as well: messages on their way, and those of sessions that have
/// ended. So it is an upper bound. A queue that is within its limits by this bound is not looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueSize {
    /// Messages.
    pub messages: u64,
    /// Bytes of the messages.
    pub bytes: u64,
}

impl QueueSize {
    /// Size of an entry: nothing, if it is of no message.
    pub(crate) fn of_entry<V: QueueValue>(entry: &Entry<V>) -> QueueSize {
        match entry.fact {
            Fact::Message => QueueSize {
                messages: 1,
                bytes: entry.value.queue_bytes(),
            },
            _ => QueueSize::default(),
        }
    }

    /// More messages or bytes than a queue may have.
    pub fn is_beyond(&self, limits: &QueueLimits) -> bool {
        self.messages > limits.messages_max() || self.bytes > limits.bytes_max
    }

    pub(crate) fn add(&mut self, other: QueueSize) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }

    pub(crate) fn subtract(&mut self, other: QueueSize) {
        self.messages -= other.messages;
        self.bytes -= other.bytes;
    }
}
