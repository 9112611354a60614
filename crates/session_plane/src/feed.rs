//! Feed: the queue of a session, from an owner to the node of its connection.
//!
//! The node of a connection opens a feed at an owner and grants a window. The owner answers once
//! its copy is merged and has all that the asker knows (rules `serve-merged` and
//! `ask-with-known`). It sends the queue in the order of clocks, and goes on as the queue grows.
//! When that owner is lost, the node opens a feed at the next one and says what it has. So nothing
//! is skipped, and nothing is passed on twice. Packet ids of older connections come beside the
//! messages.
//!
//! [`FeedSource`] and [`FeedSink`] are the two halves of a node. A node that owns the slot feeds
//! itself: a copy with a hole that a present holder may fill lacks what the node knows, and does not
//! answer (rule `own-copy-covers`). `docs/decisions/2026-11-28-feed-of-a-session.md` says why it is made so.

mod delivery;
mod error;
mod message;
mod place;
mod queues;
mod sink;
mod source;

pub use delivery::{DeliveryChanges, FeedDelivery, KnownDelivery};
pub use error::{FeedError, FeedsFull};
pub use message::{
    CloseReason, FeedAction, FeedId, FeedItem, FeedItems, FeedMessage, FeedOpen, QueueId, QueueKey, Window,
};
pub use queues::Queues;
pub use sink::{FeedSink, SinkAction, SinkEvent, SinkLimits};
pub use source::{FeedSource, SourceEvent, SourceLimits};

use place::FeedPlace;

#[cfg(test)]
mod tests;
