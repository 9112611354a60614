//! Moving: QoS 2 messages of shared groups on their way into the queue of the session (rule
//! 86).
//!
//! ```text
//!           place in the      event is        every node
//!  waiting ------------> asked ------> made ------------> packet id, and on as any message of the queue
//!           Receive Maximum
//! ```
//!
//! A message that has moved is the session's alone: the next connection goes on with it
//! [MQTT-4.8.2-4], and it ends with the session [MQTT-4.8.2-5].
//!
//! *Invariants*: a message has its place of the Receive Maximum from the move on, so a slow client
//! draws no more from its group than it receives. It has no packet id before every present node knows
//! the move: nobody gives it to another member then. Messages begin in the order of their moves.

use std::collections::{BTreeMap, BTreeSet};

use super::action::DeliveringAction;
use super::connection::OpenConnection;
use super::event::{GivenMessage, QueuedMessage, SharedMessage};
use super::waiting::NextMessage;
use crate::Dot;

/// Messages that have a place, and no packet id.
#[derive(Debug)]
pub(super) struct MovingMessages<V> {
    /// Those whose event is not made.
    asked: BTreeSet<SharedMessage>,
    /// Those of the queue, by their events. All are of this run.
    made: BTreeMap<Dot, QueuedMessage<V>>,
    /// Those of `made` whose event every present node knows.
    known: BTreeSet<Dot>,
}

impl<V> Default for MovingMessages<V> {
    /// None.
    fn default() -> MovingMessages<V> {
        MovingMessages {
            asked: BTreeSet::new(),
            made: BTreeMap::new(),
            known: BTreeSet::new(),
        }
    }
}

impl<V> MovingMessages<V> {
    /// Places that are taken.
    pub(super) fn len(&self) -> usize {
        self.asked.len() + self.made.len()
    }

    /// The message of the queue has a place.
    pub(super) fn contains(&self, message: Dot) -> bool {
        self.made.contains_key(&message)
    }

    /// A message has left the queue: its place is free.
    pub(super) fn withdraw(&mut self, message: Dot) {
        self.made.remove(&message);
        self.known.remove(&message);
    }

    /// First message, if it may begin.
    fn next(&self) -> Option<Dot> {
        let first = *self.made.first_key_value()?.0;
        self.known.contains(&first).then_some(first)
    }

    fn take(&mut self, message: Dot) -> Option<QueuedMessage<V>> {
        self.known.remove(&message);
        self.made.remove(&message)
    }
}

impl<V> OpenConnection<V> {
    /// Asks for the move of a message that a shared group gave.
    pub(super) fn begin_move(&mut self, given: GivenMessage<V>, actions: &mut Vec<DeliveringAction<V>>) {
        let GivenMessage { message, value, .. } = given;
        self.moving.asked.insert(message.clone());
        actions.push(DeliveringAction::Move {
            connection: self.id(),
            message,
            value,
        });
    }

    /// The event of a move is made.
    pub(super) fn moved(&mut self, from: &SharedMessage, to: QueuedMessage<V>) {
        if self.moving.asked.remove(from) {
            self.moving.made.insert(to.key.dot, to);
        }
    }

    /// Every present node knows a move.
    pub(super) fn move_known(&mut self, message: Dot) {
        if self.moving.contains(message) {
            self.moving.known.insert(message);
        }
    }

    /// Begins messages that have moved, each in the place that it has.
    pub(super) fn begin_moved(&mut self, actions: &mut Vec<DeliveringAction<V>>) {
        while self.is_fed && !self.is_paused && !self.is_closing() {
            let Some(next) = self.moving.next() else { return };
            let Some(packet_id) = self.ids.for_message(next) else {
                return;
            };
            if let Some(moved) = self.moving.take(next) {
                self.begin(packet_id, NextMessage::Queued(moved), actions);
            }
        }
    }
}
