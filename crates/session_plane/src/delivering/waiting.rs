//! Messages that have no packet id of this connection yet.
//!
//! Messages of the queue go in its order, those of groups in the order in which they were given. Both
//! take turns, so that neither waits for the end of the other.
//!
//! *Invariant*: the order has those messages of the queue that no older delivery goes on with.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::delivery::DeliveryQos;
use super::event::{GivenMessage, QueuedMessage};
use crate::Dot;
use crate::feed::QueueKey;

/// Messages that wait.
#[derive(Debug)]
pub(super) struct WaitingMessages<V> {
    queued: BTreeMap<Dot, QueuedMessage<V>>,
    order: BTreeSet<QueueKey>,
    given: VecDeque<GivenMessage<V>>,
    is_turn_of_groups: bool,
}

/// Message that gets a packet id.
#[derive(Debug)]
pub(super) enum NextMessage<V> {
    Queued(QueuedMessage<V>),
    Given(GivenMessage<V>),
}

impl<V> WaitingMessages<V> {
    /// Adds a message of the queue, which is new to the client.
    pub(super) fn insert(&mut self, message: QueuedMessage<V>) {
        self.order.insert(message.key);
        self.queued.insert(message.key.dot, message);
    }

    pub(super) fn give(&mut self, given: GivenMessage<V>) {
        self.given.push_back(given);
    }

    /// Place of a message of the queue.
    pub(super) fn queued_key(&self, message: Dot) -> Option<QueueKey> {
        self.queued.get(&message).map(|queued| queued.key)
    }

    pub(super) fn contains(&self, message: Dot) -> bool {
        self.queued.contains_key(&message)
    }

    /// Says whether a message of the queue gets a new packet id, or goes on with one.
    pub(super) fn set_new(&mut self, message: Dot, is_new: bool) {
        let Some(key) = self.queued.get(&message).map(|queued| queued.key) else {
            return;
        };
        if is_new {
            self.order.insert(key);
        } else {
            self.order.remove(&key);
        }
    }

    pub(super) fn remove(&mut self, message: Dot) -> Option<QueuedMessage<V>> {
        let removed = self.queued.remove(&message)?;
        self.order.remove(&removed.key);
        Some(removed)
    }

    /// Event of the message that gets a packet id next.
    pub(super) fn next(&self) -> Option<Dot> {
        let queued = self.order.first().map(|key| key.dot);
        let given = self.given.front().map(|given| given.message.message);
        if self.is_turn_of_groups {
            given.or(queued)
        } else {
            queued.or(given)
        }
    }

    /// Takes the message that gets a packet id next.
    pub(super) fn take_next(&mut self) -> Option<NextMessage<V>> {
        let is_of_group = self.order.is_empty() || (self.is_turn_of_groups && !self.given.is_empty());
        self.is_turn_of_groups = !is_of_group;
        if is_of_group {
            return self.given.pop_front().map(NextMessage::Given);
        }
        let first = self.order.first()?.dot;
        self.remove(first).map(NextMessage::Queued)
    }

    /// Takes the next message if a shared group gave it with QoS 2: it moves into the queue of the session.
    pub(super) fn take_next_to_move(&mut self) -> Option<GivenMessage<V>> {
        let is_next = self.order.is_empty() || self.is_turn_of_groups;
        let is_moved = |given: &GivenMessage<V>| given.qos == DeliveryQos::ExactlyOnce;
        let is_moved = is_next && self.given.front().is_some_and(is_moved);
        let moved = is_moved.then(|| self.given.pop_front()).flatten()?;
        self.is_turn_of_groups = false;
        Some(moved)
    }

    pub(super) fn len(&self) -> usize {
        self.queued.len() + self.given.len()
    }
}

impl<V> Default for WaitingMessages<V> {
    /// None.
    fn default() -> WaitingMessages<V> {
        WaitingMessages {
            queued: BTreeMap::new(),
            order: BTreeSet::new(),
            given: VecDeque::new(),
            is_turn_of_groups: false,
        }
    }
}
