//! Messages of a feed, as plain structs. [`crate::wire`] has their encoding.
//!
//! ```text
//!   sink                                          source
//!     | FeedOpen (known, held, window) ---------> |  waits until its copy covers `known`
//!     | <---------------- FeedItems 0             |  the answer, with what the window allows
//!     | <---------------- FeedItems 1, 2, ...     |  as the queue grows, and what was removed of it;
//!     |                                           |  packet ids of older connections
//!     | FeedWindow ------------------------------> |  as the client acknowledges
//!     | FeedClose --------------------------------> |  the connection has ended
//!     | <---------------- FeedClosed              |  or: the source is no owner any more
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::delivery::{DeliveryChanges, KnownDelivery};
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, VersionVector};

/// Number of a feed among those of the run that opens it; from 1. Later feeds have higher numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FeedId(pub u64);

/// Place of a message in a queue. Queues are read in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueKey {
    /// Clock of the message.
    pub clock: Hlc,
    /// Event of the PUBLISH.
    pub dot: Dot,
}

/// Queue of a client, for the connection of one session.
///
/// After a split a client may have a session of each side. Both count, unless one was begun with a Clean
/// Start later. Then the connection of the other one is not fed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId {
    /// Client of the session.
    pub client: ClientId,
    /// Event with which the session began.
    pub birth: Dot,
}

/// Items and bytes since a feed was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// Items.
    pub items: u64,
    /// Bytes of the items ([`FeedItem::bytes`]). The last item may exceed them.
    pub bytes: u64,
}

impl Window {
    /// After `used` there is room for an item.
    pub(super) fn has_room(self, used: Window) -> bool {
        used.items < self.items && used.bytes < self.bytes
    }

    /// Window with one item more.
    #[must_use]
    pub(super) fn with_item(self, bytes: u64) -> Window {
        Window {
            items: self.items + 1,
            bytes: self.bytes + bytes,
        }
    }
}

/// Message of a feed, and its receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedAction<V> {
    /// Node that the message is for.
    pub to: NodeId,
    /// The message.
    pub message: FeedMessage<V>,
}

/// Message from one node to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedMessage<V> {
    /// Question of a connection's node for a queue.
    Open(FeedOpen),
    /// Messages of the queue.
    Items(FeedItems<V>),
    /// Grant of the connection's node.
    Window {
        /// Feed that may go on.
        feed: FeedId,
        /// Items and bytes since the feed was opened, at most.
        window: Window,
    },
    /// The connection's node needs the feed no more.
    Close {
        /// Feed that ends.
        feed: FeedId,
    },
    /// The owner does not serve the feed, or serves it no more.
    Closed {
        /// Feed that ends.
        feed: FeedId,
        /// Reason of the owner.
        reason: CloseReason,
    },
}

/// Reason of an owner to end a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The node does not own the slot.
    NotOwner,
    /// The node serves as many feeds of the asker as it may.
    Full,
    /// The session has more deliveries than a feed may tell of.
    TooManyDeliveries,
    /// The session of the connection does not count: another one has beaten it, or it has ended.
    NoSession,
}

/// Question for the queue of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedOpen {
    /// Names the feed.
    pub feed: FeedId,
    /// Queue that is asked for.
    pub queue: QueueId,
    /// Events that the asker knows to exist. Only a copy that has them answers (rule
    /// `ask-with-known`).
    pub known: Arc<VersionVector>,
    /// Messages that the asker has: it passed them on, and the client has not acknowledged them.
    pub held: BTreeSet<QueueKey>,
    /// Deliveries of older connections that the asker was told of and that are not removed.
    pub deliveries: BTreeMap<Dot, KnownDelivery>,
    /// Run of the asker, and its last event before the connection was fed. Later deliveries of that
    /// run are of the connection itself: they are not told.
    pub own_after: Dot,
    /// Items and bytes at most.
    pub window: Window,
}

/// Message of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedItem<V> {
    /// Place in the queue.
    pub key: QueueKey,
    /// Value of the message's entry.
    pub value: V,
}

impl<V: TransferBytes> FeedItem<V> {
    /// Bytes that the item takes of a window.
    pub fn bytes(&self) -> u64 {
        KEY_BYTES + self.value.bytes() as u64
    }
}

/// Next messages of a queue, and what was removed of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedItems<V> {
    /// Feed that the items are of.
    pub feed: FeedId,
    /// Number among the messages of the feed; from 0, without gaps.
    pub number: u64,
    /// Packet ids, which are taken before the messages.
    pub deliveries: DeliveryChanges<V>,
    /// Messages in ascending order of their keys.
    pub items: Vec<FeedItem<V>>,
    /// Messages that others than the asker have removed.
    pub removed: Vec<QueueKey>,
    /// Events among which those are that removed them, and the deliveries that have ended.
    pub removed_by: VersionVector,
}

/// Bytes of a key: a clock and a dot.
const KEY_BYTES: u64 = 28;
