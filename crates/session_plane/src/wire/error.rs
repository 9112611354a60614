//! Bytes that are no message, and what is wrong with them.

use super::{Kind, VERSION};
use crate::connecting::KnownSessionError;
use crate::groups::NoGroup;
use crate::interests::FilterTooLong;
use crate::publishing::NoRecipients;
use crate::{ClientIdTooLong, EndedError, SettledError, SlotOutOfRange, VectorFull, ViewError};

/// Bytes of a peer were refused: no part of the message was applied.
///
/// The connection to the peer is to be closed. The peer is met again over the next one, unless its
/// version is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A frame has a version and a kind.
    #[error("a message of {bytes} bytes has no version and kind")]
    NoFrame {
        /// Bytes of the message.
        bytes: usize,
    },
    /// The sender encodes its messages otherwise.
    #[error(
        "the peer speaks version {found} of the session plane, this node version {VERSION}: \
         run one release on all nodes"
    )]
    OtherVersion {
        /// Version of the sender.
        found: u8,
    },
    /// No message has the number.
    #[error("a message of kind {number} is unknown to version {VERSION}: run one release on all nodes")]
    UnknownKind {
        /// Number that came.
        number: u8,
    },
    /// The kind is that of another module than the one that reads the message.
    #[error("a {kind} message (kind {}) is none of its module", .kind.number())]
    MisplacedKind {
        /// Kind that came.
        kind: Kind,
    },
    /// A field of the message is no value of its type.
    #[error("{of}: {field}: {fault}")]
    Field {
        /// What was read.
        of: Subject,
        /// Field of the message, or of a part of it.
        field: &'static str,
        /// What is wrong.
        fault: Fault,
    },
    /// The message goes on behind its last field.
    #[error("{of}: {bytes} bytes are left over")]
    LeftOver {
        /// What was read.
        of: Subject,
        /// Bytes behind the last field.
        bytes: usize,
    },
}

/// What is encoded: a message, or a record, which has the same types of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Subject {
    /// Message between nodes.
    #[error("{0} message")]
    Message(Kind),
    /// Record of the disk.
    #[error("record")]
    Record,
}

/// Fault of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The message ends in the field.
    #[error("the message ends too early")]
    TooShort,
    /// A number has one form, the shortest, and at most 64 bits.
    #[error("a number is not in its shortest form, or has more than 64 bits")]
    InvalidNumber,
    /// A number is above its range.
    #[error("{found} is out of range: at most {max}")]
    TooHigh {
        /// Number that came.
        found: u64,
        /// Highest number.
        max: u64,
    },
    /// A number is 0 and counts from 1.
    #[error("the number 0 names nothing")]
    Zero,
    /// A byte chooses among forms that the field has.
    #[error("{found} is none of the forms of the field")]
    UnknownForm {
        /// Byte that came.
        found: u8,
    },
    /// A list is longer than what follows.
    #[error("a list of {count} items in {bytes} bytes")]
    TooMany {
        /// Items that are announced.
        count: u64,
        /// Bytes that follow.
        bytes: usize,
    },
    /// A run is named by its place among those before it.
    #[error("the message has named {known} runs so far, not {found}")]
    UnknownRun {
        /// Place that came.
        found: u64,
        /// Runs before it.
        known: usize,
    },
    /// A run is spelled out once in a message.
    #[error("a run is spelled out twice")]
    RunTwice,
    /// Items, or numbers, are in strictly ascending order.
    #[error("items or numbers are not in ascending order")]
    NotAscending,
    /// A hybrid logical clock leaves room for later ones.
    #[error("a clock is out of range")]
    InvalidClock,
    /// There is no such slot.
    #[error(transparent)]
    Slot(#[from] SlotOutOfRange),
    /// A client id is too long.
    #[error(transparent)]
    ClientId(#[from] ClientIdTooLong),
    /// A filter is longer than MQTT allows.
    #[error(transparent)]
    Filter(#[from] FilterTooLong),
    /// Nodes are no view.
    #[error(transparent)]
    View(#[from] ViewError),
    /// A version vector is too long.
    #[error(transparent)]
    Vector(#[from] VectorFull),
    /// Runs and events are not what a member settles.
    #[error(transparent)]
    Settled(#[from] SettledError),
    /// Parts are no end of a session.
    #[error(transparent)]
    Ended(#[from] EndedError),
    /// Parts are no session as an owner has it.
    #[error(transparent)]
    Session(#[from] KnownSessionError),
    /// A routed message is for no slot.
    #[error(transparent)]
    NoRecipients(#[from] NoRecipients),
    /// A group is named by the key of a client.
    #[error(transparent)]
    NoGroup(#[from] NoGroup),
    /// The node refuses the bytes of a value.
    #[error("{bytes} bytes are no value of the node")]
    Value {
        /// Bytes of the value.
        bytes: usize,
    },
}
