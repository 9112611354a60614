//! Outbox: deliveries to one connection that no owner stores, in their order.
//!
//! ```text
//!  QoS 0, replies, notifications, transient sessions ---> push ---> Queue ---> front, pop ---> PUBLISH
//! ```
//!
//! What is stored is in the queue of the session, at the owners of its slot. An outbox ends with its connection.
//! A delivery with QoS 1 or 2 leaves when the session plane has granted it a packet id.
//!
//! *Invariants*: messages are bounded by the limits of queues, which say what gives way. Notifications are bounded
//! by the keys that may be watched. Replies are bounded by whoever takes requests.

mod queue;

use self::queue::Queue;
use crate::limits::SessionLimits;
use crate::message::{Delivery, DeliveryKind};
use crate::now::Now;

/// Reason for which a delivery is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropCause {
    /// Its Message Expiry Interval passed before it was sent. [MQTT-3.3.2-5]
    Expired,
    /// The queue has as many messages as allowed.
    QueueMessages,
    /// The queue has as many bytes as allowed.
    QueueBytes,
    /// The connection has ended.
    Offline,
    /// The client may not have it any more.
    NotAuthorized,
    /// Notification of a connection that has missed another one.
    WatchEnded,
}

/// Deliveries that wait for the socket of one connection, or for a packet id.
#[derive(Debug)]
pub struct Outbox {
    queue: Queue,
    limits: SessionLimits,
}

impl Outbox {
    /// Outbox without deliveries.
    pub fn new(limits: SessionLimits) -> Self {
        Self {
            queue: Queue::default(),
            limits,
        }
    }

    /// Adds a delivery behind all others. Causes for which older ones give way to it are appended to `dropped`.
    ///
    /// # Errors
    ///
    /// [`DropCause`] for which there is no room, or no need to send it.
    pub fn push(
        &mut self,
        now: Now,
        delivery: Delivery,
        dropped: &mut Vec<DropCause>,
    ) -> Result<(), DropCause> {
        if delivery.message.is_expired(now) {
            return Err(DropCause::Expired);
        }
        let bytes = delivery.size() as u64;
        self.queue
            .make_room(delivery.kind, bytes, &self.limits, dropped)?;
        self.queue.push(delivery, bytes);
        Ok(())
    }

    /// Delivery that waits for longest and has not expired. Causes for which others go are appended to `dropped`.
    pub fn front(&mut self, now: Now, dropped: &mut Vec<DropCause>) -> Option<&Delivery> {
        self.queue.drop_expired(now, dropped);
        self.queue.front()
    }

    /// Takes the delivery that waits for longest.
    pub fn pop(&mut self) -> Option<Delivery> {
        self.queue.pop()
    }

    /// Keeps what the client may have.
    pub fn keep_allowed(&mut self, is_allowed: impl Fn(&Delivery) -> bool, dropped: &mut Vec<DropCause>) {
        let taken = self.queue.take_if(|delivery| !is_allowed(delivery));
        dropped.extend(taken.iter().map(|_| DropCause::NotAuthorized));
    }

    /// Drops the notifications that wait: their registrations end.
    pub fn drop_notifications(&mut self, dropped: &mut Vec<DropCause>) {
        let taken = self
            .queue
            .take_if(|delivery| delivery.kind == DeliveryKind::Notification);
        dropped.extend(taken.iter().map(|_| DropCause::WatchEnded));
    }

    /// So much waits that the client counts as one that does not keep up. One that `was_behind` is until half of that
    /// is left.
    pub fn is_behind(&self, was_behind: bool) -> bool {
        self.queue.is_behind(&self.limits, was_behind)
    }

    /// Number of deliveries that wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the deliveries that wait.
    pub fn bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// Number of replies that wait, and their bytes.
    pub fn replies(&self) -> (usize, u64) {
        self.queue.replies()
    }

    /// Memory besides the struct itself, without that of the messages.
    pub fn memory(&self) -> u64 {
        self.queue.memory()
    }

    /// Forgets the first deliveries of a connection that has ended. True if there are more.
    pub fn drop_some(&mut self, count: usize) -> bool {
        for _ in 0..count {
            if self.queue.pop().is_none() {
                return false;
            }
        }
        true
    }
}
