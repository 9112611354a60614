//! Refusals of a feed: bad input of a peer, and limits.

use cluster::NodeId;

use super::message::{FeedId, QueueKey};
use crate::Dot;

/// A message of a peer was refused. Nothing was changed; the connection to the peer is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// The peer names a feed that was never opened between the two nodes.
    #[error("node {} names feed {}, which is not open", .peer.0, .feed.0)]
    UnknownFeed {
        /// Node that sent the message.
        peer: NodeId,
        /// Feed that it names.
        feed: FeedId,
    },
    /// The peer opens a feed under a number that is not above those before.
    #[error("node {} opens feed {} after feed {}", .peer.0, .feed.0, .last.0)]
    FeedGoesBack {
        /// Node that sent the message.
        peer: NodeId,
        /// Feed that it opens.
        feed: FeedId,
        /// Last feed that it has opened.
        last: FeedId,
    },
    /// The peer has more messages than a feed may have under way.
    #[error("node {} opens feed {} with {held} messages, at most {held_max}", .peer.0, .feed.0)]
    TooManyHeld {
        /// Node that sent the message.
        peer: NodeId,
        /// Feed that it opens.
        feed: FeedId,
        /// Messages that it names.
        held: usize,
        /// Limit.
        held_max: usize,
    },
    /// The peer names more deliveries than a feed may tell of.
    #[error("node {} names {deliveries} deliveries in feed {}, at most {deliveries_max}", .peer.0, .feed.0)]
    TooManyDeliveries {
        /// Node that sent the message.
        peer: NodeId,
        /// Feed of the deliveries.
        feed: FeedId,
        /// Deliveries with those before.
        deliveries: usize,
        /// Limit.
        deliveries_max: usize,
    },
    /// The peer tells of a delivery that this node knows.
    #[error("node {} tells of the delivery {delivery:?} in feed {} again", .peer.0, .feed.0)]
    DeliveryRepeated {
        /// Node that sent the message.
        peer: NodeId,
        /// Feed of the delivery.
        feed: FeedId,
        /// Event of the delivery.
        delivery: Dot,
    },
    /// A delivery, or its message, has the number 0, which no event has.
    #[error("node {} names the number 0 in feed {}, which no event has", .peer.0, .feed.0)]
    NoEvent {
        /// Node that sent the message.
        peer: NodeId,
        /// Feed of the delivery.
        feed: FeedId,
    },
    /// The peer takes back a part of the window that it has granted.
    #[error("node {} takes back the window of feed {}", .peer.0, .feed.0)]
    WindowGoesBack {
        /// Node that sent the message.
        peer: NodeId,
        /// Feed of the window.
        feed: FeedId,
    },
    /// The peer sends items that are not the next ones.
    #[error("node {} sends number {found} of feed {}, and {expected} is next", .peer.0, .feed.0)]
    OutOfOrder {
        /// Node that sent the message.
        peer: NodeId,
        /// Feed of the items.
        feed: FeedId,
        /// Number that is next.
        expected: u64,
        /// Number that was sent.
        found: u64,
    },
    /// Items of one message are not in ascending order.
    #[error("node {} sends {key:?} of feed {} in disorder", .peer.0, .feed.0)]
    NotAscending {
        /// Node that sent the message.
        peer: NodeId,
        /// Feed of the items.
        feed: FeedId,
        /// First item that is not above the one before.
        key: QueueKey,
    },
    /// The peer sends an item that this node has.
    #[error("node {} sends {key:?} of feed {} again", .peer.0, .feed.0)]
    Repeated {
        /// Node that sent the message.
        peer: NodeId,
        /// Feed of the item.
        feed: FeedId,
        /// The item.
        key: QueueKey,
    },
    /// The peer sends more than this node has granted.
    #[error("node {} sends {key:?} of feed {} beyond the window", .peer.0, .feed.0)]
    BeyondWindow {
        /// Node that sent the message.
        peer: NodeId,
        /// Feed of the item.
        feed: FeedId,
        /// First item beyond the window.
        key: QueueKey,
    },
    /// The peer sends the value of something else as that of a message, or of a delivery.
    #[error("node {} sends {event:?} in feed {} with the value of something else", .peer.0, .feed.0)]
    OtherValue {
        /// Node that sent the message.
        peer: NodeId,
        /// Feed of the value.
        feed: FeedId,
        /// Event of the message or of the delivery.
        event: Dot,
    },
    /// The removals that the peer tells of are of too scattered events.
    #[error("node {} tells of too scattered removals in feed {}", .peer.0, .feed.0)]
    TooScattered {
        /// Node that sent the message.
        peer: NodeId,
        /// Feed of the removals.
        feed: FeedId,
    },
}

/// A feed was not begun: this node has as many as it may. Nothing was changed; the connection is
/// refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a node has no room for more than {feeds_max} feeds")]
pub struct FeedsFull {
    /// Limit.
    pub feeds_max: usize,
}
