//! Limits of queues: the primary owner of a slot drops messages of a queue that has too many (section
//! "Limits of queues" of `docs/internals/session-plane.md`).
//!
//! ```text
//!              a message is queued, a copy merges
//!  (within) --------------------------------------> due ---- tick ----> dropping
//!     ^                                              ^                     |
//!     |            nothing was to be dropped         |  changed meanwhile  | event made
//!     '----------------------------------------------+---------------------'
//! ```
//!
//! A copy knows the [`QueueSize`] of each client without a walk over its queue. [`QueueLimiting`] remembers
//! which queues exceed a limit by that. [`Excess`] finds what is to be dropped, when the event is made.
//!
//! *Invariants*: this node drops only while it decides about the slot. What is on its way to the client is
//! neither counted nor dropped. A queue within its limits has no state here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use crate::Slot;

mod event;
mod excess;
mod limits;
mod queue_size;
mod queue_state;
mod queue_value;

pub use event::{QueueEvent, QueuePlace};
pub use excess::{DropReason, Excess, QueuedWeight, Victim};
pub use limits::{QueueFull, QueueLimits};
pub use queue_size::QueueSize;
pub use queue_state::QueueState;
pub use queue_value::QueueValue;

/// Time from one tick that drops to the next one. So a queue that is full is not walked over for each message.
const DROP_EVERY: Duration = Duration::from_millis(20);

/// Queues that exceed a limit at this node.
///
/// A change of a client costs O(log n). A merge costs a pass over the clients of the slot, and a change of
/// the ring one over all slots that this node decides about; neither looks at messages. What a tick drops of a
/// queue costs one pass over it.
#[derive(Debug)]
pub struct QueueLimiting {
    limits: QueueLimits,
    /// Queues to look at, in the order in which they came.
    due: VecDeque<QueuePlace>,
    /// The same.
    waiting: BTreeSet<QueuePlace>,
    /// Queues of which an event is to be made, and whether they have changed since.
    dropping: BTreeMap<QueuePlace, bool>,
    /// Time of the next tick that drops. None while nothing is due.
    drop_at: Option<Instant>,
    /// Time before which no tick drops.
    not_before: Option<Instant>,
}

impl QueueLimiting {
    /// No queue exceeds a limit.
    ///
    /// # Panics
    ///
    /// If the limits let nothing be dropped.
    pub fn new(limits: QueueLimits) -> QueueLimiting {
        limits.check();
        QueueLimiting {
            limits,
            due: VecDeque::new(),
            waiting: BTreeSet::new(),
            dropping: BTreeMap::new(),
            drop_at: None,
            not_before: None,
        }
    }

    /// Takes what has happened. What follows is done by the next [`QueueLimiting::tick`].
    pub fn step(&mut self, now: Instant, event: QueueEvent, state: &impl QueueState) {
        match event {
            QueueEvent::Changed(place) => self.look(now, place, state),
            QueueEvent::CopyChanged { slot } => self.look_at_slot(now, slot, state),
            QueueEvent::RingChanged => {
                for slot in state.decided() {
                    self.look_at_slot(now, slot, state);
                }
            }
            QueueEvent::Made(place) => {
                if self.dropping.remove(&place) == Some(true) {
                    self.look(now, place, state);
                }
            }
        }
    }

    /// Appends the queues of which events are to be made: as many as a tick may.
    pub fn tick(&mut self, now: Instant, state: &impl QueueState, places: &mut Vec<QueuePlace>) {
        if self.drop_at.is_none_or(|at| at > now) {
            return;
        }
        for _ in 0..self.limits.dropping_max {
            let Some(place) = self.due.pop_front() else {
                break;
            };
            self.waiting.remove(&place);
            if self.is_beyond(&place, state) {
                self.dropping.insert(place.clone(), false);
                places.push(place);
            }
        }
        self.not_before = Some(now + DROP_EVERY);
        self.drop_at = self.not_before.filter(|_| !self.due.is_empty());
    }

    /// Time at which [`QueueLimiting::tick`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.drop_at
    }

    /// Limits of each queue.
    pub fn limits(&self) -> &QueueLimits {
        &self.limits
    }

    /// Queues that wait for their turn, or of which an event is to be made; a gauge.
    pub fn waiting(&self) -> usize {
        self.due.len() + self.dropping.len()
    }

    fn look_at_slot(&mut self, now: Instant, slot: Slot, state: &impl QueueState) {
        for place in state.queues_beyond(slot, &self.limits) {
            self.look(now, place, state);
        }
    }

    /// Looks at a queue that may have become longer.
    fn look(&mut self, now: Instant, place: QueuePlace, state: &impl QueueState) {
        if let Some(has_changed) = self.dropping.get_mut(&place) {
            *has_changed = true;
        } else if !self.waiting.contains(&place) && self.is_beyond(&place, state) {
            self.waiting.insert(place.clone());
            self.due.push_back(place);
            let at = self.not_before.map_or(now, |not_before| not_before.max(now));
            self.drop_at.get_or_insert(at);
        }
    }

    fn is_beyond(&self, place: &QueuePlace, state: &impl QueueState) -> bool {
        state.size(place).is_beyond(&self.limits) && state.decides(place.slot)
    }
}

#[cfg(test)]
mod tests;
