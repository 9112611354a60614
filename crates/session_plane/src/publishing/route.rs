//! Messages of a route, as plain structs. [`crate::wire`] has their encoding.
//!
//! ```text
//!   node that routes                              each present node
//!     | Route (number, marker, known) -----------> |  covers the number for its slots by the marker's
//!     |                                            |  ring; takes the message where it matches
//!     | <------------ ConfirmRoute (number, marker) |  once that is durable
//! ```
//!
//! *Invariant*: a routed message is for a slot of its receiver, or for transient sessions there. A node that
//! has none of both gets the number alone.

use std::sync::Arc;

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::error::NoRecipients;
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
    /// Message. None where it matches nothing at the receiver.
    pub message: Option<RoutedMessage<M>>,
}

/// Message of a route, as it is for its receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutedMessage<M> {
    to: RoutedTo,
    content: M,
}

/// What a routed message is for at its receiver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoutedTo {
    /// Slots of the receiver that it matches.
    pub slots: SlotSet,
    /// It is for transient sessions there.
    pub is_transient: bool,
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
    /// Message for what it matches at its receiver.
    ///
    /// # Errors
    ///
    /// [`NoRecipients`] where that is nothing.
    pub fn new(to: RoutedTo, content: M) -> Result<RoutedMessage<M>, NoRecipients> {
        if to.slots.is_empty() && !to.is_transient {
            return Err(NoRecipients);
        }
        Ok(RoutedMessage { to, content })
    }

    /// What the message is for.
    pub fn to(&self) -> &RoutedTo {
        &self.to
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
