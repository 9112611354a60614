//! Message under way to a client, under a packet id of this connection.
//!
//! ```text
//!            stored       in turn           PUBREC                stored
//!   Storing -------> Ready ----> Published -------> StoringPubrel -------> ReadyForPubrel
//!                                                                               | in turn
//!                                                                               v
//!                                                                            Released
//! ```

use super::delivery::{DeliveryQos, DeliveryStage};
use super::event::SharedMessage;
use crate::Dot;

/// Use of a packet id.
#[derive(Debug)]
pub(super) struct InFlight<V> {
    pub(super) source: Source,
    pub(super) qos: DeliveryQos,
    pub(super) phase: Phase,
    /// Place among the packets of the session that begin a stage.
    pub(super) order: u64,
    /// Entry of the packet id at the owners.
    pub(super) entry: Option<Dot>,
    /// Content, until PUBLISH is sent.
    pub(super) value: Option<V>,
    /// DUP flag.
    pub(super) is_dup: bool,
    /// An older connection may have told the client of the packet id.
    pub(super) is_resumed: bool,
    /// The message has left its queue before PUBLISH was sent.
    pub(super) is_withdrawn: bool,
    /// It takes a place of the Receive Maximum.
    pub(super) is_counted: bool,
}

/// What is under way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// Message of the queue.
    Queue(Dot),
    /// Message of a shared group, with QoS 1.
    Group(SharedMessage),
    /// None: the packet id is released. Its entry names this event.
    Freed(Dot),
}

/// Phase of a packet id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The entry is on its way to the owners.
    Storing,
    /// PUBLISH waits for those before it.
    Ready,
    /// PUBLISH was sent.
    Published,
    /// The stage of PUBREL is on its way to the owners.
    StoringPubrel,
    /// PUBREL waits for those before it.
    ReadyForPubrel,
    /// PUBREL was sent.
    Released,
}

impl<V> InFlight<V> {
    /// Packet id of an older connection that goes on with PUBREL.
    pub(super) fn releasing(source: Source, order: u64) -> InFlight<V> {
        InFlight {
            source,
            qos: DeliveryQos::ExactlyOnce,
            phase: Phase::StoringPubrel,
            order,
            entry: None,
            value: None,
            is_dup: false,
            is_resumed: true,
            is_withdrawn: false,
            is_counted: false,
        }
    }

    /// PUBLISH was not sent by this connection, and goes out.
    pub(super) fn is_before_publish(&self) -> bool {
        matches!(self.phase, Phase::Storing | Phase::Ready)
    }

    /// Stage that the entry says.
    pub(super) fn stage(&self) -> DeliveryStage {
        match (&self.source, self.phase) {
            (Source::Freed(_), _) => DeliveryStage::Freeing,
            (_, Phase::Storing | Phase::Ready | Phase::Published) => DeliveryStage::Sent(self.qos),
            _ => DeliveryStage::Released,
        }
    }

    /// Event that the entry names.
    pub(super) fn message(&self) -> Dot {
        match &self.source {
            Source::Queue(message) | Source::Freed(message) => *message,
            Source::Group(of_group) => of_group.message,
        }
    }
}
