//! Events at an owner: messages of peers, changes of queues and of copies.

use cluster::NodeId;

use crate::feed::message::{FeedId, FeedOpen, QueueKey, Window};
use crate::{ClientId, Dot, Slot};

/// Event at an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceEvent {
    /// A peer asks for a queue.
    Opened {
        /// The peer.
        from: NodeId,
        /// Its question.
        open: FeedOpen,
    },
    /// A peer has granted more.
    WindowGranted {
        /// The peer.
        from: NodeId,
        /// Its feed.
        feed: FeedId,
        /// Items and bytes since the feed was opened.
        window: Window,
    },
    /// A peer needs a feed no more.
    Closed {
        /// The peer.
        from: NodeId,
        /// Its feed.
        feed: FeedId,
    },
    /// A message was added to a queue.
    Appended {
        /// Client of the queue.
        client: ClientId,
        /// Place of the message.
        key: QueueKey,
    },
    /// A message was removed from a queue.
    Removed {
        /// Client of the queue.
        client: ClientId,
        /// Place of the message.
        key: QueueKey,
        /// Event that removed it.
        by: Dot,
    },
    /// A delivery was added to a session.
    DeliveryAdded {
        /// Client of the session.
        client: ClientId,
        /// Event of the delivery.
        delivery: Dot,
        /// Message that it names.
        message: Dot,
    },
    /// A delivery was removed from a session. So was one that the copy lacks, which would not come any
    /// more: a peer may have been told of it by another owner. The node tells each removal of an event
    /// that the copy lacks; one that is of no delivery changes nothing.
    DeliveryRemoved {
        /// Client of the session.
        client: ClientId,
        /// Event of the delivery.
        delivery: Dot,
        /// Event that removed it.
        by: Dot,
    },
    /// The copy of a slot has become merged, or has more events than before.
    CopyReady(Slot),
    /// The copy of a slot is not merged any more, or is about to merge: nothing is sent of it until it
    /// is ready.
    CopyUnmerged(Slot),
    /// This node does not own a slot any more.
    OwnershipEnded(Slot),
    /// A peer was given up, or the connection to it is a new one. It opens its feeds anew.
    PeerLost(NodeId),
}
