//! Messages that a plane refuses, and what follows.

use crate::membership::{ConvictionError, HandshakeError, KnowledgeError, MarkerError, NotPresent};
use crate::stream::{ConfirmError, ReceiveError};
use crate::transfer::{AskError, PartError};
use crate::{MisplacedEntry, Run, VectorFull};

/// A message of another node was refused. It changed nothing beyond what its sender had made
/// before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaneError {
    /// Message of an earlier stay.
    #[error(transparent)]
    NotPresent(#[from] NotPresent),
    /// Message of a run that is not the one that is present.
    #[error("{found:?} is not present, {present:?} is: close the connection of the older one")]
    OtherRun {
        /// Sender.
        found: Run,
        /// Run that is present.
        present: Run,
    },
    /// Message of a handshake.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// Ring marker.
    #[error(transparent)]
    Marker(#[from] MarkerError),
    /// Conviction of this node.
    #[error(transparent)]
    Conviction(#[from] ConvictionError),
    /// Knowledge in a heartbeat.
    #[error(transparent)]
    Knowledge(#[from] KnowledgeError),
    /// Event, position or flush.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    /// Confirmation.
    #[error(transparent)]
    Confirm(#[from] ConfirmError),
    /// Question for a slot.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// Part of an answer.
    #[error(transparent)]
    Part(#[from] PartError),
    /// Message that is routed by a ring whose marker has not come.
    #[error("a message is routed by marker {marker}, and the stream of {run:?} is at {position}")]
    RouteAhead {
        /// Run that routes it.
        run: Run,
        /// Marker that it names.
        marker: u64,
        /// Position of the run's stream here.
        position: u64,
    },
    /// Entry of an event, or message, that its slot does not have.
    #[error(transparent)]
    Misplaced(#[from] MisplacedEntry),
    /// Too much waits for the disk.
    #[error("{max} receipts wait for the disk: what was sent comes again over the next connection")]
    TooManyReceipts {
        /// Receipts that wait at most.
        max: usize,
    },
    /// The sender's events are too scattered to say exactly which of them this node has.
    #[error("what this node has of its peers is too scattered: {0}")]
    Full(#[from] VectorFull),
}

impl PlaneError {
    /// The refusal comes about without a fault: the message is dropped, and the connection stays.
    pub fn is_ordinary(&self) -> bool {
        matches!(
            self,
            PlaneError::NotPresent(_)
                | PlaneError::OtherRun { .. }
                | PlaneError::Handshake(HandshakeError::StillPresent { .. } | HandshakeError::Late { .. })
                | PlaneError::Marker(MarkerError::NotPresent(_))
                | PlaneError::Conviction(ConvictionError::NotPresent(_) | ConvictionError::OtherRun { .. })
                | PlaneError::Knowledge(_)
        )
    }
}
