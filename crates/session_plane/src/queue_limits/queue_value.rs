//! Values of queued messages, as far as the limits of queues read them.

use bytes::Bytes;

/// Value of entries that may be queued messages.
pub trait QueueValue {
    /// Bytes for which a message of a queue counts. It is a function of the value, and equal on every node. 0
    /// in entries of other kinds.
    fn queue_bytes(&self) -> u64;

    /// Unix milliseconds at which the message expires. None: never, or the value is of another entry.
    fn expires_at(&self) -> Option<u64>;
}

/// Values that nobody reads.
impl QueueValue for Bytes {
    fn queue_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn expires_at(&self) -> Option<u64> {
        None
    }
}

/// Values of tests: some bytes, and no end.
#[cfg(test)]
mod of_numbers {
    use super::QueueValue;

    impl QueueValue for u64 {
        fn queue_bytes(&self) -> u64 {
            *self % 1_000
        }

        fn expires_at(&self) -> Option<u64> {
            None
        }
    }

    impl QueueValue for u8 {
        fn queue_bytes(&self) -> u64 {
            u64::from(*self)
        }

        fn expires_at(&self) -> Option<u64> {
            None
        }
    }
}
