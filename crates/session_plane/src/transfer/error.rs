//! Messages of a transfer that were refused.

use cluster::NodeId;

use crate::{CopyPartsError, MisplacedEntry, TakeError, VectorFull};

/// A question of a peer was refused. Nothing was changed.
///
/// The peer breaks the protocol: the connection is to be closed. The asker asks anew over the next
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The peer asks for as many slots as it may.
    #[error("node {} asks for more than {slots_max} slots at once", .peer.0)]
    TooManySlots {
        /// Node that asks.
        peer: NodeId,
        /// Slots of one peer at most.
        slots_max: usize,
    },
    /// The question has more positions than a cluster has nodes.
    #[error("a question has {count} positions")]
    TooManyPositions {
        /// Positions of the question.
        count: usize,
    },
    /// The peer asks for a part of an answer for which it has not asked.
    #[error("a part of an answer that was not asked for")]
    UnknownAnswer,
    /// The peer asks for a part of an answer that has not begun.
    #[error("a part of an answer that has not begun")]
    NotBegun,
    /// Parts are asked for one by one.
    #[error("expected a question for part {expected}, found one for part {found}")]
    PartOutOfOrder {
        /// Number of the next part.
        expected: u64,
        /// Number that was asked for.
        found: u64,
    },
    /// The content that is wanted cannot be next.
    #[error("a question for content that is not next")]
    Unexpected,
    /// The range of clients ends before it begins.
    #[error("a question for an empty range of clients")]
    EmptyRange,
    /// Clients are in ascending order, and in the range.
    #[error("clients of a question are not in ascending order, or not in its range")]
    ClientsNotAscending,
    /// Blocks are in ascending order, and a client has at least one.
    #[error("blocks of a question are not in ascending order")]
    BlocksNotAscending,
    /// The question is longer than a part.
    #[error("a question is too long")]
    TooLong,
}

/// A part of an answer was refused. The copy was not changed.
///
/// The answer is void: the asker drops it, and the holder stays unanswered. A part that breaks the
/// protocol closes the connection too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// The part answers a question that was never put.
    #[error("an answer to no question")]
    UnknownQuestion,
    /// Parts come one by one.
    #[error("expected part {expected}, found part {found}")]
    PartOutOfOrder {
        /// Number of the next part.
        expected: u64,
        /// Number that came.
        found: u64,
    },
    /// The part was not asked for.
    #[error("a part that was not asked for")]
    Unexpected,
    /// The first part of a header has its sets of events, and no other part has.
    #[error("the sets of an answer are missing, or come twice")]
    MisplacedBegin,
    /// Clients are in ascending order, and in the range.
    #[error("clients of a part are not in ascending order, or not in the range of the question")]
    ClientsNotAscending,
    /// Entries are in ascending order, and kept entries in their block.
    #[error("entries of a part are not in ascending order, or not in their block")]
    EntriesNotAscending,
    /// A part has an answer for each block of the question.
    #[error("expected answers for {expected} blocks, found {found}")]
    WrongBlocks {
        /// Blocks of the question.
        expected: usize,
        /// Blocks of the part.
        found: usize,
    },
    /// The asker has no room for more parts.
    #[error("answers of {bytes} bytes wait to be merged, at most {bytes_max}")]
    StagingFull {
        /// Bytes with this part.
        bytes: usize,
        /// Bytes at most.
        bytes_max: usize,
    },
    /// The parts are no copy.
    #[error(transparent)]
    NoCopy(#[from] CopyPartsError),
    /// The slot does not have such entries.
    #[error(transparent)]
    Misplaced(#[from] MisplacedEntry),
    /// An event of the holder has no room.
    #[error(transparent)]
    NoRoom(#[from] TakeError),
    /// The merged vector would be too long.
    #[error(transparent)]
    VectorFull(#[from] VectorFull),
}
