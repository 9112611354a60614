//! Delivery: what the entry of a packet id to a client says, and which of several counts.
//!
//! A packet id, and a message, has one such entry while all nodes see each other. After a split it may
//! have several: one for each side on which the client was connected.

use cluster::session_plane::Hlc;

use crate::Dot;
use crate::publishing::PacketId;

/// QoS of a message that has a packet id. A message of QoS 0 has none, and is not for this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeliveryQos {
    /// QoS 1.
    AtLeastOnce,
    /// QoS 2.
    ExactlyOnce,
}

/// Stage of a packet id to a client.
///
/// ```text
///          PUBREC             PUBCOMP
///   Sent ---------> Released ---------> removed
///     |                                    ^
///     | the message is gone                |
///     '---------------> Freeing -----------'  PUBCOMP
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeliveryStage {
    /// PUBLISH goes out with this QoS; with DUP from the second connection on.
    Sent(DeliveryQos),
    /// The client has sent PUBREC, so it has the message. PUBREL goes out.
    Released,
    /// PUBREL goes out, and the entry says nothing of its message: that is gone, or goes another way.
    Freeing,
}

/// Packet id of a message and its stage: the value of an entry of
/// [`EntryKind::Delivery`](crate::EntryKind::Delivery). The entry's fact names the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PacketDelivery {
    /// The packet id.
    pub packet_id: PacketId,
    /// Clock of the session's entry that the CONNECT of the writing connection has written.
    pub connection_clock: Hlc,
    /// Place among the packets of the session that begin a stage. The next connection sends PUBLISH
    /// packets, and PUBREL packets, in this order.
    pub order: u64,
    /// The stage.
    pub stage: DeliveryStage,
}

/// Order of deliveries of one packet id; the last one counts (rule `later-connection`).
///
/// A connection writes its entries in the order of their dots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Precedence {
    pub(super) connection_clock: Hlc,
    pub(super) entry: Dot,
}
