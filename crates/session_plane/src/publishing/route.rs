//! Messages of a route, as plain structs. [`crate::wire`] has their encoding.
//!
//! ```text
//!   node that routes                              each present node
//!     | Route (number, marker, known) -----------> |  covers the number for its slots by the marker's
//!     |                                            |  ring; takes the message where it matches
//!     | <------------ ConfirmRoute (number, marker) |  once that is durable
//! ```
//!
//! *Invariant*: a routed message is for one slot of its receiver at least. A node that owns no slot
//! that the message matches gets the number alone.

use std::sync::Arc;

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::error::NoSlots;
use super::event::RouteConfirmation;
use crate::{Dot, SlotSet, VersionVector};

/// Message from one node to another. `M` is the content of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishingMessage<M> {
    /// A number is routed.
    Route(Route<M>),
    /// The sender has taken a routed number.
    Confirm(ConfirmRoute),
}

/// Number that is routed to every present node, as one of them gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route<M> {
    /// QoS 2 number.
    pub number: Dot,
    /// Ring marker of the sender by whose ring the receiver covers the number; from 1.
    pub marker: u64,
    /// Clock of the message, by which subscriptions match it.
    pub clock: Hlc,
    /// Events that the sender knows to exist (rule `causal`).
    pub known: Arc<VersionVector>,
    /// Message. None where it matches no slot of the receiver.
    pub message: Option<RoutedMessage<M>>,
}

/// Message of a route, for slots of its receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutedMessage<M> {
    slots: SlotSet,
    content: M,
}

/// Confirmation that the sender has taken a routed number durably.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfirmRoute {
    /// QoS 2 number.
    pub number: Dot,
    /// Ring marker that the route named.
    pub marker: u64,
}

impl<M> RoutedMessage<M> {
    /// Message for those slots of the receiver that it matches.
    ///
    /// # Errors
    ///
    /// [`NoSlots`] where there is none.
    pub fn new(slots: SlotSet, content: M) -> Result<RoutedMessage<M>, NoSlots> {
        if slots.is_empty() {
            return Err(NoSlots);
        }
        Ok(RoutedMessage { slots, content })
    }

    /// Slots of the receiver that the message matches.
    pub fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// Content of the message.
    pub fn content(&self) -> &M {
        &self.content
    }

    /// Content of the message, for its only user.
    pub fn into_content(self) -> M {
        self.content
    }
}

impl ConfirmRoute {
    /// Confirmation as [`Publishing`](super::Publishing) takes it, of the node that sent it.
    pub fn of_node(self, from: NodeId) -> RouteConfirmation {
        let ConfirmRoute { number, marker } = self;
        RouteConfirmation { from, number, marker }
    }
}
