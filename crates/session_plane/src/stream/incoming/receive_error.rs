//! Input of a stream that was refused.

use crate::Run;

/// Input of a peer was refused. Nothing was changed.
///
/// The connection is to be closed. The sender goes on from the confirmed position over the next
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The event is of another run than the stream.
    #[error("expected events of {expected:?}, found one of {found:?}")]
    OtherRun {
        /// Run of the stream.
        expected: Run,
        /// Run of the event.
        found: Run,
    },
    /// A stream begins with a Welcome.
    #[error("{run:?} sends before its Welcome")]
    NotBegun {
        /// Run of the stream.
        run: Run,
    },
    /// A Welcome is a ring marker.
    #[error("{run:?} begins its stream with {number}, which is no ring marker")]
    NotAMarker {
        /// Run of the stream.
        run: Run,
        /// Number of the event.
        number: u64,
    },
    /// No run has that many events; QoS 2 numbers are not of a stream.
    #[error("{run:?} sends {number}, which is out of range")]
    OutOfRange {
        /// Run of the stream.
        run: Run,
        /// Number that came.
        number: u64,
    },
    /// The view of a marker lacks its sender, or this node.
    #[error("{run:?} sends the ring marker {number} with a view that lacks itself or this node")]
    ForeignView {
        /// Run of the stream.
        run: Run,
        /// Number of the marker.
        number: u64,
    },
    /// Something before it was for this node and did not come.
    #[error("{run:?} skipped numbers: expected what comes after {expected}, found what comes after {found}")]
    Skipped {
        /// Run of the stream.
        run: Run,
        /// Position of this node.
        expected: u64,
        /// Position that the sender takes this node to have.
        found: u64,
    },
    /// A number came again over one connection, or a position is lower than before.
    #[error("{run:?} went back from {position} to {number}")]
    GoesBack {
        /// Run of the stream.
        run: Run,
        /// Highest number so far.
        position: u64,
        /// Number that came.
        number: u64,
    },
    /// The stable position is above what this node has confirmed.
    #[error("{run:?} takes {number} for stable, and this node has {durable}")]
    StableTooEarly {
        /// Run of the stream.
        run: Run,
        /// Position that this node confirms.
        durable: u64,
        /// Position that came.
        number: u64,
    },
}
