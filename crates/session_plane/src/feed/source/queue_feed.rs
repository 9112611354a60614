//! Feed of one queue to one peer: what the peer has, and what is to be sent.
//!
//! *Invariant*: while the feed is open, each message of the queue is in exactly one of `held` and
//! `unsent`. `foreign` has what the copy has not decided upon.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster::NodeId;

use crate::feed::message::{FeedId, FeedItem, FeedItems, FeedOpen, QueueKey, Window};
use crate::feed::{FeedError, Queues};
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, Interval, VersionVector};

/// Feed of one queue to one peer.
#[derive(Debug)]
pub(super) struct QueueFeed {
    id: FeedId,
    known: Arc<VersionVector>,
    is_open: bool,
    /// Messages at the peer that were not acknowledged, as far as this node knows.
    held: BTreeSet<QueueKey>,
    /// Messages that the peer has from another owner and that this queue lacks. They are not sent if
    /// they come. At most as many as the peer had when it opened the feed or the feed went on.
    foreign: BTreeSet<QueueKey>,
    /// Messages to send. Empty while the feed is not open.
    unsent: BTreeSet<QueueKey>,
    sent: Window,
    granted: Window,
    next_number: u64,
}

/// Messages that were removed, and the events among which those are that removed them.
#[derive(Debug, Default)]
pub(super) struct Removal {
    keys: Vec<QueueKey>,
    by: VersionVector,
}

impl Removal {
    /// Removal of one message by one event. The events before it in its run exist as well.
    pub(super) fn by_event(key: QueueKey, by: Dot) -> Removal {
        let mut removed_by = VersionVector::default();
        if let Some(events) = Interval::up_to(by.run, by.number) {
            removed_by
                .insert(events)
                .expect("a vector has room for one interval");
        }
        Removal {
            keys: vec![key],
            by: removed_by,
        }
    }
}

impl QueueFeed {
    /// Feed that a peer asks for.
    pub(super) fn new(open: FeedOpen) -> QueueFeed {
        QueueFeed {
            id: open.feed,
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

    /// Stops sending until the queue is read again.
    pub(super) fn pause(&mut self) {
        self.is_open = false;
        self.unsent.clear();
    }

    /// Reads the whole queue; gives what the peer has and the copy has removed. None where the copy
    /// does not answer yet.
    pub(super) fn read<V>(&mut self, client: &ClientId, queues: &impl Queues<V>) -> Option<Removal> {
        let queue = queues.read(client, &self.known)?;
        self.is_open = true;
        self.foreign.append(&mut self.held);
        self.held = self.foreign.extract_if(.., |key| queue.contains(key)).collect();
        let is_removed = |key: &QueueKey| queues.covers(client, key.dot);
        let keys: Vec<QueueKey> = self.foreign.extract_if(.., is_removed).collect();
        self.unsent = queue.difference(&self.held).copied().collect();
        if keys.is_empty() {
            return Some(Removal::default());
        }
        let by = queues.known(client);
        Some(Removal { keys, by })
    }

    /// Adds a message of the queue.
    pub(super) fn append(&mut self, key: QueueKey) {
        if !self.is_open || self.held.contains(&key) {
            return;
        }
        let of_peer = if self.foreign.remove(&key) {
            &mut self.held
        } else {
            &mut self.unsent
        };
        of_peer.insert(key);
    }

    /// Removes a message of the queue; tells whether the peer has it.
    pub(super) fn remove(&mut self, key: QueueKey) -> bool {
        // What is removed while the feed waits is found when the queue is read.
        self.unsent.remove(&key);
        self.is_open && self.held.remove(&key)
    }

    /// Next message to the peer, as far as its window allows. None where there is nothing to say.
    pub(super) fn next_items<V: TransferBytes>(
        &mut self,
        client: &ClientId,
        queues: &impl Queues<V>,
        held_max: usize,
        removal: Removal,
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
        if !is_answer && items.is_empty() && removal.keys.is_empty() {
            return None;
        }
        self.next_number += 1;
        Some(FeedItems {
            feed: self.id,
            number,
            items,
            removed: removal.keys,
            removed_by: removal.by,
        })
    }
}
