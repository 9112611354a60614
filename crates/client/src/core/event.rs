//! What happens to a session, and what its driver has to do.

use std::time::{Duration, Instant};

use protocol::ReasonCode;
use protocol::packet::Packet;

use super::connection::ConnectionState;
use super::operation::{DeliveryId, Item, Operation, OperationError, OperationId, Outcome, StreamId};
use super::subscriptions::Streams;

/// The two times that a session needs to know.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// For timeouts.
    pub instant: Instant,
    /// For `__ts`: milliseconds since the Unix epoch.
    pub wall: u64,
}

/// What happens to a session.
#[derive(Debug)]
pub enum Event {
    /// Connect for the first time.
    Start,
    /// The transport that [`Action::Open`] asked for is there.
    TransportOpened,
    /// The transport failed, or could not be opened, or was closed by the other side.
    TransportClosed,
    /// A packet came.
    Received(Packet),
    /// Received bytes were no packet.
    Malformed(ReasonCode),
    /// The caller wants something.
    Submit {
        /// Names it.
        operation: OperationId,
        /// What.
        request: Operation,
        /// After this long it fails with `TimedOut`.
        timeout: Duration,
    },
    /// The caller has what [`Action::Deliver`] gave it.
    Taken(DeliveryId),
    /// The caller wants the session to end.
    Disconnect,
    /// The deadline has come.
    Timeout,
}

/// What the driver of a session has to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a transport, then report [`Event::TransportOpened`] or [`Event::TransportClosed`].
    Open,
    /// Close the transport once everything sent is written; nothing more from it is to be reported.
    Close,
    /// Send a packet.
    Send(Packet),
    /// Hand something to streams; report [`Event::Taken`] when all of them have it.
    Deliver {
        /// Names it.
        delivery: DeliveryId,
        /// At least one.
        streams: Streams,
        /// What they receive.
        item: Item,
    },
    /// Tell a stream of a gap, after what was delivered to it before.
    Gap(StreamId),
    /// A stream will receive nothing any more.
    EndStream {
        /// Which.
        stream: StreamId,
        /// Why.
        error: OperationError,
    },
    /// An operation has ended.
    Complete {
        /// Which.
        operation: OperationId,
        /// How.
        result: Result<Outcome, OperationError>,
    },
    /// For the caller to show.
    StateChanged(ConnectionState),
}
