//! Deliveries that wait until they may be sent, first in, first out.

use std::collections::VecDeque;

use protocol::packet::QoS;

use super::{DropCause, Dropped};
use crate::ids::QueueSequence;
use crate::limits::{QueueFull, SessionLimits};
use crate::memory::footprint::places;
use crate::message::Delivery;
use crate::now::Now;

/// A session's queue, bounded in messages and bytes.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: u64,
    /// Memory that the deliveries have besides their places and their messages.
    own: u64,
}

#[derive(Debug)]
struct Waiting {
    delivery: Delivery,
    /// What it counts for.
    bytes: u64,
}

impl Queue {
    /// Makes room for a delivery of so many bytes, or says why there is none.
    pub(super) fn make_room(
        &mut self,
        bytes: u64,
        limits: &SessionLimits,
        dropped: &mut Vec<Dropped>,
    ) -> Result<(), DropCause> {
        if bytes > limits.queue_bytes_max {
            return Err(DropCause::QueueBytes);
        }
        while let Some(cause) = self.lacks_room_for(bytes, limits) {
            if limits.queue_full == QueueFull::DropNewest {
                return Err(cause);
            }
            // The client may wait for the PUBREL of a QoS 2 message that may have been sent before a restart.
            let is_kept = |oldest: &Delivery| oldest.dup && oldest.qos == QoS::ExactlyOnce;
            if self.front().is_none_or(is_kept) {
                return Err(cause);
            }
            let Some(oldest) = self.pop() else {
                return Err(cause);
            };
            dropped.push(Dropped::of(cause, &oldest));
        }
        Ok(())
    }

    /// Adds a delivery, of so many bytes, at the end.
    pub(super) fn push(&mut self, delivery: Delivery, bytes: u64) {
        self.bytes += bytes;
        self.own += delivery.own_bytes();
        self.waiting.push_back(Waiting { delivery, bytes });
    }

    /// The delivery that waits for longest.
    pub(super) fn front(&self) -> Option<&Delivery> {
        self.waiting.front().map(|waiting| &waiting.delivery)
    }

    /// Takes the delivery that waits for longest.
    pub(super) fn pop(&mut self) -> Option<Delivery> {
        let Waiting { delivery, bytes } = self.waiting.pop_front()?;
        self.bytes -= bytes;
        self.own -= delivery.own_bytes();
        if self.waiting.is_empty() && self.waiting.capacity() > CAPACITY_KEPT {
            self.waiting = VecDeque::new();
        }
        Some(delivery)
    }

    /// Takes the delivery of this sequence. All are durable, and in the order of their sequences.
    pub(super) fn take_durable(&mut self, sequence: QueueSequence) -> Option<Delivery> {
        let place = self
            .waiting
            .binary_search_by_key(&Some(sequence), |waiting| waiting.delivery.durable);
        let Waiting { delivery, bytes } = self.waiting.remove(place.ok()?)?;
        self.bytes -= bytes;
        self.own -= delivery.own_bytes();
        if self.waiting.is_empty() && self.waiting.capacity() > CAPACITY_KEPT {
            self.waiting = VecDeque::new();
        }
        Some(delivery)
    }

    /// Those with a lower sequence may have been sent.
    pub(super) fn mark_sent_below(&mut self, sent_below: u64) {
        for waiting in &mut self.waiting {
            let sequence = waiting.delivery.durable;
            waiting.delivery.dup = sequence.is_some_and(|sequence| sequence.0 < sent_below);
        }
    }

    /// All deliveries.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Delivery> {
        self.waiting.iter().map(|waiting| &waiting.delivery)
    }

    /// Takes deliveries from the front as long as they have expired, which is for those that were never sent.
    /// [MQTT-3.3.2-5]
    pub(super) fn drop_expired(&mut self, now: Now, dropped: &mut Vec<Dropped>) {
        while self
            .front()
            .is_some_and(|delivery| !delivery.dup && delivery.message.is_expired(now))
        {
            if let Some(delivery) = self.pop() {
                dropped.push(Dropped::of(DropCause::Expired, &delivery));
            }
        }
    }

    /// Takes all deliveries that end with the connection.
    pub(super) fn forget_passing(&mut self, dropped: &mut Vec<Dropped>) {
        let taken = self.take_if(Delivery::is_passing);
        dropped.extend(
            taken
                .iter()
                .map(|delivery| Dropped::of(DropCause::Offline, delivery)),
        );
    }

    /// Takes some deliveries, in their order.
    pub(super) fn take_if(&mut self, is_taken: impl Fn(&Delivery) -> bool) -> Vec<Delivery> {
        if !self.waiting.iter().any(|waiting| is_taken(&waiting.delivery)) {
            return Vec::new();
        }
        let mut taken = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            if is_taken(&waiting.delivery) {
                self.bytes -= waiting.bytes;
                self.own -= waiting.delivery.own_bytes();
                taken.push(waiting.delivery);
            } else {
                self.waiting.push_back(waiting);
            }
        }
        taken
    }

    /// Whether so much waits that shared subscriptions are to pass this session over. One that `was_behind` is until half
    /// of that is left, so that it does not change with every message.
    pub(super) fn is_behind(&self, limits: &SessionLimits, was_behind: bool) -> bool {
        let messages = (limits.queue_messages_max / 2).clamp(1, BEHIND_MESSAGES_MAX);
        let bytes = (limits.queue_bytes_max / 2).max(1);
        let (messages, bytes) = if was_behind {
            (messages.div_ceil(2), bytes.div_ceil(2))
        } else {
            (messages, bytes)
        };
        self.len() as u64 >= u64::from(messages) || self.bytes >= bytes
    }

    /// How many deliveries wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many bytes wait.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its memory, without that of the messages.
    pub(super) fn memory(&self) -> u64 {
        places::<Waiting>(self.waiting.capacity()) + self.own
    }

    /// Gives back memory that it may have taken for a burst.
    pub(super) fn shrink(&mut self) {
        self.waiting.shrink_to_fit();
    }

    fn lacks_room_for(&self, bytes: u64, limits: &SessionLimits) -> Option<DropCause> {
        // One message has room under every setting: otherwise a connected client would receive none.
        let messages_max = u64::from(limits.queue_messages_max.max(1));
        if self.waiting.len() as u64 >= messages_max {
            Some(DropCause::QueueMessages)
        } else if self.bytes + bytes > limits.queue_bytes_max {
            Some(DropCause::QueueBytes)
        } else {
            None
        }
    }
}

/// A session is behind with so many messages waiting, or with half of what its queue may hold if that is less: more than
/// waits for one sync of the disk, and little enough to be caught up with soon.
const BEHIND_MESSAGES_MAX: u32 = 128;

/// How much room an empty queue keeps: enough for a client whose queue fills and empties all the time.
const CAPACITY_KEPT: usize = 64;
