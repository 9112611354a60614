//! Streams: how the events of a run reach the nodes that need them.
//!
//! ```text
//!  push, push_marker         send_event            receive_event
//!  ----------------> OutgoingStream ----> network ----> IncomingStream ---> copies
//!  <---------------     of this run                       of a peer's run
//!    durable dots         ^      <------------------------- durable position
//!                         | confirm
//! ```
//!
//! One stream goes from each run to each present node: the events that the node needs, in order,
//! and the position, also when nothing was for it. The receiver confirms a position once everything
//! up to it is durable there. After a broken connection the sender goes on from that position.
//!
//! Nothing here does I/O or reads a clock. The node moves events, persists them, and decides who is
//! present.

mod event;
mod incoming;
mod outgoing;
mod peer_stream;
mod resend;
mod ring_epoch;
mod routing;

pub use event::{EventKind, NumberRange, StreamEvent};
pub use incoming::{
    CoveredSlots, Flush, FlushedSlots, IncomingLimits, IncomingStream, ReceiveError, Received, ReceivedFlush,
    TakenFlush, TakenPart,
};
pub use outgoing::{
    GivingId, OutgoingLimits, OutgoingStream, RingsFull, StreamFull, StreamMessage, Unconfirmed,
};
pub use peer_stream::{ConfirmError, StreamPosition};
pub use resend::{Resend, ResendId};
pub use routing::Routing;

#[cfg(test)]
pub(crate) mod tests;
