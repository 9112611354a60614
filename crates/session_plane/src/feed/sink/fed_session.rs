//! Session that is fed: the owners that may feed it, what it holds, and its window.
//!
//! *Invariant*: an owner may send as much as, with what is held, fills the window once. Grants only
//! grow.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::NodeId;

use super::known_deliveries::KnownDeliveries;
use super::{SinkAction, SinkLimits, send};
use crate::feed::message::{FeedAction, FeedId, FeedItems, FeedMessage, FeedOpen, QueueId, QueueKey, Window};
use crate::feed::{DeliveryChanges, FeedError};
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, VersionVector};

/// Session that is fed.
#[derive(Debug)]
pub(super) struct FedSession {
    /// Event with which the session began.
    birth: Dot,
    owners: Vec<NodeId>,
    /// Owner that is asked next.
    turn: usize,
    /// Owners that were asked since the last one has answered.
    asked: usize,
    feed: Option<OpenFeed>,
    /// Messages that were passed on and not acknowledged, with their bytes.
    held: BTreeMap<QueueKey, u64>,
    held_bytes: u64,
    deliveries: KnownDeliveries,
    /// Last event of this node's run before the session was fed.
    own_after: Dot,
    /// Events among which those are that removed messages which were passed on.
    removed_by: VersionVector,
}

/// Feed that an owner sends.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenFeed {
    pub(super) id: FeedId,
    pub(super) owner: NodeId,
    next_number: u64,
    received: Window,
    granted: Window,
}

/// Effect of an owner's message, beside its items.
#[derive(Debug)]
pub(super) struct Received<V> {
    /// Messages that are held no more.
    pub(super) removed: Vec<QueueKey>,
    pub(super) deliveries: DeliveryChanges<V>,
}

impl<V> Default for Received<V> {
    /// No effect.
    fn default() -> Received<V> {
        Received {
            removed: Vec::new(),
            deliveries: DeliveryChanges::default(),
        }
    }
}

impl FedSession {
    /// Session that holds nothing. `own_after` is the last event of this node's run.
    pub(super) fn new(birth: Dot, owners: Vec<NodeId>, own_after: Dot) -> FedSession {
        FedSession {
            birth,
            owners,
            turn: 0,
            asked: 0,
            feed: None,
            held: BTreeMap::new(),
            held_bytes: 0,
            deliveries: KnownDeliveries::default(),
            own_after,
            removed_by: VersionVector::default(),
        }
    }

    pub(super) fn feed(&self) -> Option<&OpenFeed> {
        self.feed.as_ref()
    }

    pub(super) fn take_feed(&mut self) -> Option<OpenFeed> {
        self.feed.take()
    }

    /// Sets the owners; each may be asked again.
    pub(super) fn change_owners(&mut self, owners: Vec<NodeId>) {
        self.owners = owners;
        self.turn = 0;
        self.asked = 0;
    }

    /// Each owner may be asked again.
    pub(super) fn reset(&mut self) {
        self.asked = 0;
    }

    /// Asks the next owner; gives the question. None where each was asked without an answer, or too
    /// much is known.
    ///
    /// Only a copy that has seen the removals of what was passed on answers: it does not send that
    /// again.
    pub(super) fn open<V>(
        &mut self,
        id: FeedId,
        client: ClientId,
        known: &Arc<VersionVector>,
        window: Window,
    ) -> Option<FeedAction<V>> {
        if self.asked >= self.owners.len() {
            return None;
        }
        let birth = self.birth;
        let owner = *self.owners.get(self.turn % self.owners.len())?;
        let known = self.known_with_removals(known)?;
        self.asked += 1;
        self.turn += 1;
        let granted = self.room(window);
        self.feed = Some(OpenFeed {
            id,
            owner,
            next_number: 0,
            received: Window::default(),
            granted,
        });
        let message = FeedMessage::Open(FeedOpen {
            feed: id,
            queue: QueueId { client, birth },
            known,
            held: self.held.keys().copied().collect(),
            deliveries: self.deliveries.named(),
            own_after: self.own_after,
            window: granted,
        });
        Some(FeedAction { to: owner, message })
    }

    /// Receives items of the session's feed; gives the messages that are held no more, and the
    /// changes of deliveries that are new.
    pub(super) fn receive<V: TransferBytes>(
        &mut self,
        peer: NodeId,
        message: &mut FeedItems<V>,
        limits: SinkLimits,
    ) -> Result<Received<V>, FeedError> {
        let Some(mut feed) = self.feed else {
            return Ok(Received::default());
        };
        let (expected, found) = (feed.next_number, message.number);
        if found != expected {
            let feed = feed.id;
            return Err(FeedError::OutOfOrder {
                peer,
                feed,
                expected,
                found,
            });
        }
        feed.received = self.check_items(&feed, message)?;
        self.deliveries
            .check(&feed, &message.deliveries, limits.deliveries_max)?;
        self.keep_removals(&feed, message)?;
        feed.next_number += 1;
        self.feed = Some(feed);
        self.asked = 0;
        let removed = message.removed.iter().copied();
        let removed = removed.filter(|key| self.release(*key)).collect();
        let deliveries = self.deliveries.apply(std::mem::take(&mut message.deliveries));
        for item in &message.items {
            self.held.insert(item.key, item.bytes());
            self.held_bytes += item.bytes();
        }
        Ok(Received { removed, deliveries })
    }

    /// Forgets a delivery that this node has removed.
    pub(super) fn end_delivery(&mut self, delivery: Dot) {
        self.deliveries.forget(delivery);
    }

    /// Lets go of a message; tells whether it was held.
    pub(super) fn release(&mut self, key: QueueKey) -> bool {
        let bytes = self.held.remove(&key);
        self.held_bytes -= bytes.unwrap_or(0);
        bytes.is_some()
    }

    /// Grants more, once that is half of the window.
    pub(super) fn grant<V>(&mut self, window: Window) -> Option<SinkAction<V>> {
        let room = self.room(window);
        let feed = self.feed.as_mut()?;
        let grown = Window {
            items: feed.granted.items.max(feed.received.items + room.items),
            bytes: feed.granted.bytes.max(feed.received.bytes + room.bytes),
        };
        let is_half = |more: u64, of: u64| more >= (of / 2).max(1);
        let has_grown = is_half(grown.items - feed.granted.items, window.items)
            || is_half(grown.bytes - feed.granted.bytes, window.bytes);
        if !has_grown {
            return None;
        }
        feed.granted = grown;
        let (feed, owner, window) = (feed.id, feed.owner, grown);
        Some(send(owner, FeedMessage::Window { feed, window }))
    }

    /// Items and bytes that are not held.
    fn room(&self, window: Window) -> Window {
        Window {
            items: window.items.saturating_sub(self.held.len() as u64),
            bytes: window.bytes.saturating_sub(self.held_bytes),
        }
    }

    /// What the node knows, and the events that have removed what was passed on. None where that is
    /// too scattered for a vector: the node learns more, and tries again.
    fn known_with_removals(&mut self, known: &Arc<VersionVector>) -> Option<Arc<VersionVector>> {
        self.removed_by = self.removed_by.minus(known);
        if self.removed_by.is_empty() {
            return Some(Arc::clone(known));
        }
        let mut both = VersionVector::clone(known);
        both.unite(&self.removed_by).ok()?;
        Some(Arc::new(both))
    }

    /// Items that are received with these. They are new, in order, and within the window.
    fn check_items<V: TransferBytes>(
        &self,
        open: &OpenFeed,
        message: &FeedItems<V>,
    ) -> Result<Window, FeedError> {
        let (peer, feed) = (open.owner, open.id);
        let (mut received, mut before) = (open.received, None);
        for item in &message.items {
            let key = item.key;
            if before.is_some_and(|before| before >= key) {
                return Err(FeedError::NotAscending { peer, feed, key });
            }
            if self.held.contains_key(&key) {
                return Err(FeedError::Repeated { peer, feed, key });
            }
            if !open.granted.has_room(received) {
                return Err(FeedError::BeyondWindow { peer, feed, key });
            }
            received = received.with_item(item.bytes());
            before = Some(key);
        }
        Ok(received)
    }

    fn keep_removals<V>(&mut self, open: &OpenFeed, message: &FeedItems<V>) -> Result<(), FeedError> {
        let (peer, feed) = (open.owner, open.id);
        let kept = self.removed_by.unite(&message.removed_by);
        kept.map_err(|_| FeedError::TooScattered { peer, feed })
    }
}
