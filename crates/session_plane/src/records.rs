//! Records: what a node has on its disk of its copies, as keys and values.
//!
//! ```text
//! clock                                latest moment that the node has given or seen
//! shared                               sets of events of all copies in step
//! content  | dot                       content of a message, once for all that is queued
//! copy     | slot                      in step, or the copy's own sets of events
//! entry    | slot, client, kind, dot   entry
//! single   | slot, client, dot         single covered dot
//! pending  | slot, dot                 message that is not claimed
//! topic    | slot, topic               entries of a topic
//! ```
//!
//! What a record names has a lower key, so the disk is read in one pass. A key has a hash of the
//! client id or topic, of fixed length; the value has the client id or topic.
//!
//! *Invariants*: the number of a kind is never given to another kind. Each value begins with its
//! version. Both are formats for ever: golden files hold them.

use bytes::Bytes;

mod batch;
mod contents;
mod error;
mod key;
mod reading;
mod topic;

pub use batch::{RecordBatch, RecordWrite};
pub(crate) use contents::{ContentChanges, ContentUses};
pub use error::{KeyError, RecordError};
pub use key::RecordKind;
pub use reading::RecordsReader;
pub(crate) use reading::{Place, ReadCopy, ReadRecords};

/// First byte of all values. It is raised with each change of an encoding.
pub const RECORD_VERSION: u8 = 1;

/// Value as the disk has it.
///
/// The content of a message is the same for every session that it is queued for. So it has a record
/// of its own, and queues have the rest of the value.
///
/// *Invariant*: all values of one event have the same content, or none.
pub trait RecordValue: Sized {
    /// Content that all values of the event share. It shares the memory of the value.
    fn content(&self) -> Option<Bytes>;

    /// Bytes of the value without its content.
    fn to_record(&self) -> Bytes;

    /// Value with these bytes and this content. None where they are no value.
    fn from_record(record: Bytes, content: Option<Bytes>) -> Option<Self>;
}

#[cfg(test)]
mod tests;
