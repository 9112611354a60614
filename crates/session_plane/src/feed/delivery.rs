//! Packet ids of a session in a feed: its deliveries, and which of them have lost their message.
//!
//! The node of a connection goes on with the packet ids that older connections have given. It
//! sends PUBREL for one whose message is gone, and does not give it to another message before
//! PUBCOMP (rule `release-gone`). A message is gone if the owner's copy covers it and has no entry
//! of it. Deliveries of the connection itself are not told.
//!
//! *Invariant*: an owner tells a delivery before it sends the message that the delivery names, or
//! with it.

use crate::Dot;

/// Delivery that the node of the connection was told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownDelivery {
    /// Event of the message.
    pub message: Dot,
    /// The message is gone.
    pub is_gone: bool,
}

/// Delivery of a session, with its packet id and stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedDelivery<V> {
    /// Event of the delivery.
    pub dot: Dot,
    /// Its message.
    pub known: KnownDelivery,
    /// Value of the delivery's entry.
    pub value: V,
}

/// Changes of a session's deliveries since the message before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryChanges<V> {
    /// Deliveries that the receiver lacks.
    pub added: Vec<FeedDelivery<V>>,
    /// Events of deliveries that have lost their message.
    pub gone: Vec<Dot>,
    /// Events of deliveries that others than the receiver have removed.
    pub ended: Vec<Dot>,
}

impl<V> DeliveryChanges<V> {
    /// Nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.gone.is_empty() && self.ended.is_empty()
    }
}

impl<V> Default for DeliveryChanges<V> {
    /// No change.
    fn default() -> DeliveryChanges<V> {
        DeliveryChanges {
            added: Vec::new(),
            gone: Vec::new(),
            ended: Vec::new(),
        }
    }
}
