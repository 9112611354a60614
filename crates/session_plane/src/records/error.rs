//! Records that are none, and what is wrong with them.

use super::{RECORD_VERSION, RecordKind};
use crate::wire::WireError;
use crate::{CopyPartsError, Dot, MisplacedEntry, Slot, SlotOutOfRange};

/// Records of a disk were refused. Nothing was made of them: the node does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A key is that of no record.
    #[error("the key {key:02x?}: {error}")]
    Key {
        /// Bytes of the key.
        key: Vec<u8>,
        /// What is wrong with it.
        error: KeyError,
    },
    /// Keys come in ascending order.
    #[error("{kind} record: its key is not above the one before")]
    NotAscending {
        /// Kind of the record.
        kind: RecordKind,
    },
    /// The record was written by another version.
    #[error("{kind} record: it has version {found}, this program reads version {RECORD_VERSION}")]
    OtherVersion {
        /// Kind of the record.
        kind: RecordKind,
        /// Version of the record.
        found: u8,
    },
    /// A value is no value of its kind.
    #[error("{kind} {error}")]
    Value {
        /// Kind of the record.
        kind: RecordKind,
        /// What is wrong with it.
        error: WireError,
    },
    /// The value names another client, or another kind of entry, than its key.
    #[error("{kind} record: its value is not that of its key")]
    OtherKey {
        /// Kind of the record.
        kind: RecordKind,
    },
    /// A message names a content that has no record.
    #[error("the content of the message {dot:?} is missing")]
    NoContent {
        /// Event of the message.
        dot: Dot,
    },
    /// The node refuses the bytes of a value.
    #[error("{kind} record: its bytes are no value of this program")]
    NoValue {
        /// Kind of the record.
        kind: RecordKind,
    },
    /// A record is of a slot that has no copy.
    #[error("{kind} record: {slot:?} has no copy")]
    NoCopy {
        /// Kind of the record.
        kind: RecordKind,
        /// Slot of the record.
        slot: Slot,
    },
    /// The cohort of a copy is missing.
    #[error("copy of {slot:?}: there is no record of its cohort")]
    NoCohort {
        /// Slot of the copy.
        slot: Slot,
    },
    /// Sets of events overlap.
    #[error("{kind} record: covered events, taken events and holes overlap")]
    SetsOverlap {
        /// Kind of the record.
        kind: RecordKind,
    },
    /// Records of a slot are no copy.
    #[error("copy of {slot:?}: {error}")]
    Copy {
        /// Slot of the copy.
        slot: Slot,
        /// What is wrong with it.
        error: CopyPartsError,
    },
    /// A slot does not have such entries.
    #[error(transparent)]
    Misplaced(#[from] MisplacedEntry),
}

/// A key is that of no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No kind has the number.
    #[error("no record has the kind {number}")]
    UnknownKind {
        /// First byte of the key.
        number: u8,
    },
    /// The key is shorter or longer than its kind has it.
    #[error("its length is not that of its kind")]
    Length,
    /// There is no such slot.
    #[error(transparent)]
    Slot(#[from] SlotOutOfRange),
    /// No entry has the kind, or one of a topic, which has no record of its own.
    #[error("no record is of an entry of the kind {number}")]
    UnknownEntry {
        /// Number of the kind.
        number: u8,
    },
    /// A node and an event count from 1.
    #[error("the number 0 names no node and no event")]
    NoEvent,
}
