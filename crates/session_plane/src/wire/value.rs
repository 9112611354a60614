//! Values that the node chooses, as bytes.

use bytes::Bytes;

/// Value of an entry, content of a message, or content of an event.
///
/// *Invariant*: bytes that were accepted are the bytes of the value. So a message has one encoding.
pub trait WireValue: Sized {
    /// Bytes of the value. A value that keeps its bytes gives them without a copy.
    fn to_bytes(&self) -> Bytes;

    /// Value with these bytes, which may share their memory. None where they are no value.
    fn from_bytes(bytes: Bytes) -> Option<Self>;
}

impl WireValue for Bytes {
    /// Shares the memory.
    fn to_bytes(&self) -> Bytes {
        self.clone()
    }

    /// Shares the memory; any bytes are a value.
    fn from_bytes(bytes: Bytes) -> Option<Bytes> {
        Some(bytes)
    }
}
