//! Records: what a node has on its disk of its copies, as keys and values.
//!
//! ```text
//! clock                                latest moment that the node has given or seen
//! content  | dot                       content of a message, once for all that is queued
//! copy     | slot                      number of the copy's cohort
//! entry    | slot, client, kind, dot   entry
//! single   | slot, client, dot         single covered dot
//! pending  | slot, dot                 message that is not claimed
//! topic    | slot, topic               entries of a topic
//! cohort   | number                    sets of events that copies share
//! ```
//!
//! What an entry or a message names has a lower key, so the disk is read in one pass. Before there were cohorts a copy had
//! its own sets of events, or those of one record of shared sets: such records are read, and written anew. A key has a hash of the
//! client id or topic, of fixed length; the value has the client id or topic.
//!
//! *Invariants*: the number of a kind is never given to another kind. Each value begins with its
//! version. Both are formats for ever: golden files hold them.

use bytes::Bytes;

mod batch;
mod contents;
mod copy_form;
mod error;
mod key;
mod reading;
mod topic;

pub use batch::{RecordBatch, RecordWrite};
pub(crate) use contents::{ContentChanges, ContentUses};
pub use error::{KeyError, RecordError};
pub(crate) use key::CohortId;
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
