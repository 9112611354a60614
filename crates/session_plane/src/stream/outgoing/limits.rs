//! Limits of an outgoing stream, and what is refused where they are reached.

use cluster::NodeId;

/// Limits of an outgoing stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutgoingLimits {
    /// Events kept at most; see [`StreamFull`].
    pub events_max: usize,
    /// Bytes of kept events, which the last one may exceed; see [`StreamFull`].
    pub bytes_max: usize,
    /// Rings kept at most; see [`RingsFull`]. At least twice the nodes of a view, so that all peers
    /// can be given up.
    pub rings_max: usize,
    /// Owners that have a change durably, for each of its slots, before it is durable. At least 1.
    pub copies_min: usize,
}

/// A change was refused: too much is not durable. Nothing was changed.
///
/// The node stops accepting changes until confirmations make room. It does not give the peer up for
/// that: a slow peer is mostly one of several under the same load, and a change of the ring would
/// add a transfer to it. The failure detector gives up a peer that is behind and has confirmed
/// nothing for `silence_max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many events are not durable: {events} with {bytes} bytes")]
pub struct StreamFull {
    /// Events that are kept.
    pub events: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Receiver that is furthest behind. None if events wait for owners to be sent to.
    pub behind: Option<NodeId>,
}

/// A ring marker was refused: too many older rings have numbers without enough copies. Nothing was
/// changed.
///
/// A marker that welcomes a peer is refused at half of them already, and the handshake with it. So
/// there is room to give peers up. The node then gives up the peer that is behind. If none is, its
/// events find no owners however often the ring changes, and the node ends its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{rings} rings have events without enough copies")]
pub struct RingsFull {
    /// Rings that are kept.
    pub rings: usize,
    /// Receiver that is furthest behind.
    pub behind: Option<NodeId>,
}
