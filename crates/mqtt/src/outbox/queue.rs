//! Deliveries that wait until they may be sent, first in, first out.
//!
//! They leave in one order, but each [kind](DeliveryKind) waits in a line of its own, with limits of its own. So none
//! takes the place of another, and the oldest message is found at once, however many notifications are before it:
//!
//! - Messages are bounded by the limits of queues, which say what gives way.
//! - Replies are not bounded here: the node refuses requests of a client that has too many (`broker/src/reply_limits.rs`).
//! - Notifications are as many as keys may be watched, with as many bytes as messages. One more is refused, and the node
//!   ends the connection.

use std::collections::VecDeque;

use super::DropCause;
use crate::limits::{NOTIFICATIONS_MAX, QueueFull, SessionLimits};
use crate::memory::footprint::{block, places};
use crate::message::{Delivery, DeliveryKind};
use crate::now::Now;

/// A session's queue, bounded in messages and bytes.
#[derive(Debug, Default)]
pub(super) struct Queue {
    messages: Line,
    /// Deliveries that are no messages; most sessions have none.
    apart: Option<Box<Apart>>,
}

/// Lines beside the one of messages.
#[derive(Debug, Default)]
struct Apart {
    replies: Line,
    notifications: Line,
}

/// Deliveries of one kind, in their order.
#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    bytes: u64,
    /// Memory that the deliveries have besides their places and their messages.
    own: u64,
}

#[derive(Debug)]
struct Waiting {
    delivery: Delivery,
    /// Bytes that it counts for.
    bytes: u64,
    /// Place among the deliveries of all lines.
    place: u64,
}

impl Queue {
    /// Makes room for a delivery of so many bytes, or says why there is none.
    pub(super) fn make_room(
        &mut self,
        kind: DeliveryKind,
        bytes: u64,
        limits: &SessionLimits,
        dropped: &mut Vec<DropCause>,
    ) -> Result<(), DropCause> {
        match kind {
            DeliveryKind::Message => self.make_room_for_message(bytes, limits, dropped),
            DeliveryKind::Reply => Ok(()),
            DeliveryKind::Notification => {
                let line = &self.apart.get_or_insert_default().notifications;
                let lack = line.lacks_room_for(bytes, NOTIFICATIONS_MAX, limits.queue_bytes_max);
                lack.map_or(Ok(()), Err)
            }
        }
    }

    fn make_room_for_message(
        &mut self,
        bytes: u64,
        limits: &SessionLimits,
        dropped: &mut Vec<DropCause>,
    ) -> Result<(), DropCause> {
        if bytes > limits.queue_bytes_max {
            return Err(DropCause::QueueBytes);
        }
        // One message has room under every setting: otherwise a connected client would receive none.
        let count_max = limits.queue_messages_max.max(1) as usize;
        while let Some(cause) = self
            .messages
            .lacks_room_for(bytes, count_max, limits.queue_bytes_max)
        {
            if limits.queue_full == QueueFull::DropNewest {
                return Err(cause);
            }
            if self.messages.take(0).is_none() {
                return Err(cause);
            }
            dropped.push(cause);
        }
        Ok(())
    }

    /// Adds a delivery, of so many bytes, at the end.
    pub(super) fn push(&mut self, delivery: Delivery, bytes: u64) {
        let lasts = self.lines().filter_map(|line| line.waiting.back());
        let place = lasts.map(|waiting| waiting.place + 1).max().unwrap_or(0);
        let line = match delivery.kind {
            DeliveryKind::Message => &mut self.messages,
            DeliveryKind::Reply => &mut self.apart.get_or_insert_default().replies,
            DeliveryKind::Notification => &mut self.apart.get_or_insert_default().notifications,
        };
        line.push(Waiting {
            delivery,
            bytes,
            place,
        });
    }

    /// The delivery that waits for longest.
    pub(super) fn front(&self) -> Option<&Delivery> {
        let fronts = self.lines().filter_map(|line| line.waiting.front());
        let first = fronts.min_by_key(|waiting| waiting.place)?;
        Some(&first.delivery)
    }

    /// Takes the delivery that waits for longest.
    pub(super) fn pop(&mut self) -> Option<Delivery> {
        let place = |line: &&mut Line| line.waiting.front().map(|waiting| waiting.place);
        let lines = self.lines_mut().filter(|line| place(line).is_some());
        lines.min_by_key(place)?.take(0)
    }

    /// Takes deliveries from the front as long as they have expired. [MQTT-3.3.2-5]
    pub(super) fn drop_expired(&mut self, now: Now, dropped: &mut Vec<DropCause>) {
        while self
            .front()
            .is_some_and(|delivery| delivery.message.is_expired(now))
        {
            self.pop();
            dropped.push(DropCause::Expired);
        }
    }

    /// Takes some deliveries, those of each kind in their order.
    pub(super) fn take_if(&mut self, is_taken: impl Fn(&Delivery) -> bool) -> Vec<Delivery> {
        let mut taken = Vec::new();
        for line in self.lines_mut() {
            line.take_if(&is_taken, &mut taken);
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
        self.len() as u64 >= u64::from(messages) || self.bytes() >= bytes
    }

    /// How many deliveries wait.
    pub(super) fn len(&self) -> usize {
        self.lines().map(|line| line.waiting.len()).sum()
    }

    /// How many replies wait, and their bytes.
    pub(super) fn replies(&self) -> (usize, u64) {
        let replies = self.apart.as_ref().map(|apart| &apart.replies);
        replies.map_or((0, 0), |line| (line.waiting.len(), line.bytes))
    }

    /// How many bytes wait.
    pub(super) fn bytes(&self) -> u64 {
        self.lines().map(|line| line.bytes).sum()
    }

    /// Its memory, without that of the messages.
    pub(super) fn memory(&self) -> u64 {
        let apart = self.apart.as_ref().map_or(0, |_| block(size_of::<Apart>()));
        let lines = self.lines();
        let lines = lines.map(|line| places::<Waiting>(line.waiting.capacity()) + line.own);
        apart + lines.sum::<u64>()
    }

    fn lines(&self) -> impl Iterator<Item = &Line> {
        let apart = self.apart.iter();
        let apart = apart.flat_map(|apart| [&apart.replies, &apart.notifications]);
        std::iter::once(&self.messages).chain(apart)
    }

    fn lines_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        let apart = self.apart.iter_mut();
        let apart = apart.flat_map(|apart| [&mut apart.replies, &mut apart.notifications]);
        std::iter::once(&mut self.messages).chain(apart)
    }
}

impl Line {
    fn lacks_room_for(&self, bytes: u64, count_max: usize, bytes_max: u64) -> Option<DropCause> {
        if self.waiting.len() >= count_max {
            Some(DropCause::QueueMessages)
        } else if self.bytes + bytes > bytes_max {
            Some(DropCause::QueueBytes)
        } else {
            None
        }
    }

    fn push(&mut self, waiting: Waiting) {
        self.bytes += waiting.bytes;
        self.own += waiting.delivery.own_bytes();
        self.waiting.push_back(waiting);
    }

    fn take(&mut self, at: usize) -> Option<Delivery> {
        let waiting = self.waiting.remove(at)?;
        if self.waiting.is_empty() && self.waiting.capacity() > CAPACITY_KEPT {
            self.waiting = VecDeque::new();
        }
        Some(self.taken(waiting))
    }

    fn take_if(&mut self, is_taken: impl Fn(&Delivery) -> bool, taken: &mut Vec<Delivery>) {
        if !self.waiting.iter().any(|waiting| is_taken(&waiting.delivery)) {
            return;
        }
        for waiting in std::mem::take(&mut self.waiting) {
            if is_taken(&waiting.delivery) {
                taken.push(self.taken(waiting));
            } else {
                self.waiting.push_back(waiting);
            }
        }
    }

    /// Subtracts a delivery that is out of the line.
    fn taken(&mut self, Waiting { delivery, bytes, .. }: Waiting) -> Delivery {
        self.bytes -= bytes;
        self.own -= delivery.own_bytes();
        delivery
    }
}

/// A session is behind with so many messages waiting, or with half of what its queue may hold if that is less: more than
/// waits for one sync of the disk, and little enough to be caught up with soon.
const BEHIND_MESSAGES_MAX: u32 = 128;

/// How much room an empty queue keeps: enough for a client whose queue fills and empties all the time.
const CAPACITY_KEPT: usize = 64;
