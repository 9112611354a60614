//! Feed of one queue to one peer: what the peer has, and what is to be sent.
//!
//! *Invariant*: while the feed is open, each message of the queue is in exactly one of `held` and
//! `unsent`. `foreign` has what the copy has not decided upon.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster::NodeId;

use super::delivery_feed::{DeliveryFeed, ToldNext};
use crate::feed::message::{FeedId, FeedItem, FeedItems, FeedOpen, QueueKey, Window};
use crate::feed::{DeliveryChanges, FeedDelivery, FeedError, Queues};
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, Interval, VersionVector};

/// Feed of one queue to one peer.
#[derive(Debug)]
pub(super) struct QueueFeed {
    id: FeedId,
    /// Event with which the session of the connection began.
    birth: Dot,
    known: Arc<VersionVector>,
    is_open: bool,
    /// Messages at the peer that were not acknowledged, as far as this node knows.
    held: BTreeSet<QueueKey>,
    /// Messages that the peer has from another owner and that this queue lacks. They are not sent if
    /// they come. At most as many as the peer had when it opened the feed or the feed went on.
    foreign: BTreeSet<QueueKey>,
    /// Messages to send. Empty while the feed is not open.
    unsent: BTreeSet<QueueKey>,
    deliveries: DeliveryFeed,
    sent: Window,
    granted: Window,
    next_number: u64,
}

/// Changes that the receiver is told of at once.
#[derive(Debug, Default)]
pub(super) struct Changes {
    removed: Vec<QueueKey>,
    /// Events among which those are that removed messages and deliveries.
    removed_by: VersionVector,
    deliveries: ToldNext,
}

impl Changes {
    /// Changes by one event. The events before it in its run exist as well.
    fn by_event(by: Dot, removed: Option<QueueKey>, deliveries: ToldNext) -> Changes {
        let mut removed_by = VersionVector::default();
        let has_removals = removed.is_some() || !deliveries.ended.is_empty();
        let events = Interval::up_to(by.run, by.number).filter(|_| has_removals);
        if let Some(events) = events {
            removed_by
                .insert(events)
                .expect("a vector has room for one interval");
        }
        Changes {
            removed: removed.into_iter().collect(),
            removed_by,
            deliveries,
        }
    }

    /// Changes that remove nothing.
    fn of_deliveries(deliveries: ToldNext) -> Changes {
        Changes {
            deliveries,
            ..Changes::default()
        }
    }
}

impl QueueFeed {
    /// Feed that a peer asks for.
    pub(super) fn new(open: FeedOpen) -> QueueFeed {
        QueueFeed {
            deliveries: DeliveryFeed::new(&open),
            id: open.feed,
            birth: open.queue.birth,
            known: open.known,
            is_open: false,
            held: BTreeSet::new(),
            foreign: open.held,
            unsent: BTreeSet::new(),
            sent: Window::default(),
            granted: open.window,
            next_number: 0,
        }
    }

    pub(super) fn id(&self) -> FeedId {
        self.id
    }

    /// Grants more.
    pub(super) fn widen(&mut self, peer: NodeId, window: Window) -> Result<(), FeedError> {
        if window.items < self.granted.items || window.bytes < self.granted.bytes {
            let feed = self.id;
            return Err(FeedError::WindowGoesBack { peer, feed });
        }
        self.granted = window;
        Ok(())
    }

    /// The feed is open, and the session of the connection does not count.
    pub(super) fn is_beaten<V>(&self, client: &ClientId, queues: &impl Queues<V>) -> bool {
        self.is_open && !queues.has_session(client, self.birth)
    }

    /// Stops sending until the queue is read again.
    pub(super) fn pause(&mut self) {
        self.is_open = false;
        self.unsent.clear();
    }

    /// Reads the whole queue; gives what the peer is to be told beside its messages. None where the
    /// copy does not answer yet.
    pub(super) fn read<V>(&mut self, client: &ClientId, queues: &impl Queues<V>) -> Option<Changes> {
        let queue = queues.read(client, &self.known)?;
        self.is_open = true;
        self.foreign.append(&mut self.held);
        self.held = self.foreign.extract_if(.., |key| queue.contains(key)).collect();
        let is_removed = |key: &QueueKey| queues.covers(client, key.dot);
        let removed: Vec<QueueKey> = self.foreign.extract_if(.., is_removed).collect();
        self.unsent = queue.difference(&self.held).copied().collect();
        let deliveries = self.deliveries.read(client, queues);
        if removed.is_empty() && deliveries.ended.is_empty() {
            return Some(Changes::of_deliveries(deliveries));
        }
        let removed_by = queues.known(client);
        Some(Changes {
            removed,
            removed_by,
            deliveries,
        })
    }

    /// Messages at the peer that were not acknowledged, as far as this node knows.
    pub(super) fn held(&self) -> impl Iterator<Item = Dot> {
        self.held.iter().map(|key| key.dot)
    }

    /// Number of deliveries that the peer was told of.
    pub(super) fn deliveries(&self) -> usize {
        self.deliveries.len()
    }

    /// The message of a delivery may still come.
    pub(super) fn has_undecided(&self) -> bool {
        self.is_open && self.deliveries.has_undecided()
    }

    /// Adds a delivery of the session.
    pub(super) fn add_delivery<V>(
        &mut self,
        delivery: Dot,
        message: Dot,
        client: &ClientId,
        queues: &impl Queues<V>,
    ) -> Changes {
        if !self.is_open {
            return Changes::default();
        }
        Changes::of_deliveries(self.deliveries.add(delivery, message, client, queues))
    }

    /// Removes a delivery of the session.
    pub(super) fn remove_delivery(&mut self, delivery: Dot, by: Dot) -> Changes {
        if !self.is_open {
            return Changes::default();
        }
        Changes::by_event(by, None, self.deliveries.remove(delivery, by))
    }

    /// Looks again for messages of deliveries that may have come.
    pub(super) fn look_again<V>(&mut self, client: &ClientId, queues: &impl Queues<V>) -> Changes {
        Changes::of_deliveries(self.deliveries.look_again(client, queues))
    }

    /// Adds a message of the queue.
    pub(super) fn append(&mut self, key: QueueKey) {
        if !self.is_open || self.held.contains(&key) {
            return;
        }
        self.deliveries.add_message(key.dot);
        let of_peer = if self.foreign.remove(&key) {
            &mut self.held
        } else {
            &mut self.unsent
        };
        of_peer.insert(key);
    }

    /// Removes a message of the queue.
    pub(super) fn remove(&mut self, key: QueueKey, by: Dot) -> Changes {
        if !self.is_open {
            // What is removed while the feed waits is found when the queue is read.
            return Changes::default();
        }
        self.unsent.remove(&key);
        // The receiver knows what it has removed itself.
        let is_untold = self.held.remove(&key) && !self.deliveries.is_of_receiver(by);
        let gone = self.deliveries.remove_message(key.dot);
        Changes::by_event(by, is_untold.then_some(key), gone)
    }

    /// Next message to the peer, as far as its window allows. None where there is nothing to say.
    pub(super) fn next_items<V: TransferBytes>(
        &mut self,
        client: &ClientId,
        queues: &impl Queues<V>,
        held_max: usize,
        changes: Changes,
    ) -> Option<FeedItems<V>> {
        let mut items = Vec::new();
        while self.granted.has_room(self.sent) && self.held.len() < held_max {
            let Some(key) = self.unsent.pop_first() else {
                break;
            };
            let Some(value) = queues.value(client, key) else {
                continue;
            };
            let item = FeedItem { key, value };
            self.sent = self.sent.with_item(item.bytes());
            self.held.insert(key);
            items.push(item);
        }
        let number = self.next_number;
        let is_answer = self.is_open && number == 0;
        let deliveries = self.with_values(changes.deliveries, client, queues);
        if !is_answer && items.is_empty() && changes.removed.is_empty() && deliveries.is_empty() {
            return None;
        }
        self.next_number += 1;
        Some(FeedItems {
            feed: self.id,
            number,
            deliveries,
            items,
            removed: changes.removed,
            removed_by: changes.removed_by,
        })
    }

    fn with_values<V>(
        &self,
        next: ToldNext,
        client: &ClientId,
        queues: &impl Queues<V>,
    ) -> DeliveryChanges<V> {
        let with_value = |dot: Dot| {
            let known = self.deliveries.told(dot)?;
            let value = queues.delivery(client, dot)?;
            Some(FeedDelivery { dot, known, value })
        };
        DeliveryChanges {
            added: next.added.into_iter().filter_map(with_value).collect(),
            gone: next.gone,
            ended: next.ended,
        }
    }
}
