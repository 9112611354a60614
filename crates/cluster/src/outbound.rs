//! Message between nodes on its way out.
//!
//! A message is its bytes, wherever they lie: one piece, or two of which the second is large and held by others as well.
//! A large value is in the log, and goes to each follower from there without a copy. Who reads a message has it in one piece.

use bytes::{Bytes, BytesMut};

/// Message between nodes on its way out, with its header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outbound {
    head: Bytes,
    tail: Bytes,
}

/// Shorter pieces are copied behind the head: that costs less than one more piece in the write.
pub const TAIL_MIN: usize = 64 << 10;

impl Outbound {
    /// Message that begins with `head` and ends with `tail`.
    pub fn in_two(head: Bytes, tail: Bytes) -> Self {
        Self { head, tail }
    }

    /// Last piece of a message as its tail: shared where that costs less than a copy, otherwise empty.
    pub fn tail_of(last: &Bytes) -> Bytes {
        if last.len() >= TAIL_MIN {
            last.clone()
        } else {
            Bytes::new()
        }
    }

    /// Its bytes.
    #[expect(clippy::len_without_is_empty, reason = "no message is empty")]
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// The pieces, in their order. The second may be empty.
    pub fn pieces(&self) -> [&Bytes; 2] {
        [&self.head, &self.tail]
    }

    /// All in one piece; two are copied.
    pub fn into_bytes(self) -> Bytes {
        if self.tail.is_empty() {
            return self.head;
        }
        let mut bytes = BytesMut::with_capacity(self.len());
        bytes.extend_from_slice(&self.head);
        bytes.extend_from_slice(&self.tail);
        bytes.freeze()
    }
}

impl From<Bytes> for Outbound {
    fn from(bytes: Bytes) -> Self {
        Self::in_two(bytes, Bytes::new())
    }
}
