//! Queues of the sessions that a node owns, as a feed reads them.

use std::collections::{BTreeMap, BTreeSet};

use super::message::QueueKey;
use crate::{ClientId, Dot, Slot, VersionVector};

/// Queues of this node's copies. The node gives them: only it can match pending messages.
pub trait Queues<V> {
    /// This node owns the slot.
    fn is_owned(&self, slot: Slot) -> bool;

    /// The session that began with the event `birth` counts in the copy: no other one has beaten it, and it
    /// has not ended.
    fn has_session(&self, client: &ClientId, birth: Dot) -> bool;

    /// Whole queue of a client. A message is in it if its entry counts, or if it is pending and
    /// matches.
    ///
    /// None where the copy is not merged, or lacks some of `known` that a present holder may have (rule
    /// `ask-with-known`). The node tells when that has changed
    /// ([`SourceEvent::CopyReady`](super::SourceEvent::CopyReady)).
    fn read(&self, client: &ClientId, known: &VersionVector) -> Option<BTreeSet<QueueKey>>;

    /// Value of a message of the queue. None where it is in the queue no more.
    fn value(&self, client: &ClientId, key: QueueKey) -> Option<V>;

    /// The message is in the queue of the client, as [`Queues::read`] says.
    fn is_queued(&self, client: &ClientId, message: Dot) -> bool;

    /// Deliveries of the client that count, each with the message that it names.
    fn deliveries(&self, client: &ClientId) -> BTreeMap<Dot, Dot>;

    /// Value of a delivery that counts. None where there is none.
    fn delivery(&self, client: &ClientId, delivery: Dot) -> Option<V>;

    /// The copy has decided upon the event as far as the client is concerned.
    fn covers(&self, client: &ClientId, dot: Dot) -> bool;

    /// Events that the copy of the client's slot covers or has taken.
    fn known(&self, client: &ClientId) -> VersionVector;
}
