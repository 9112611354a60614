//! Unacknowledged: deliveries of this node's own to a session that outlives its connection, until its client has them.
//!
//! Replies and notifications of the state store are sent without an entry at the owners, since clients take nearly all of
//! them at once. What a client has not acknowledged when its connection ends goes into the queue of the session. So the
//! next connection gets it, wherever that is [MQTT-4.4.0-1]. A node that is lost takes them along.

use std::collections::BTreeMap;

use mqtt::ids::SessionKey;
use mqtt::message::{Delivery, Message};
use mqtt::now::Now;
use protocol::packet::{PacketId, QoS, SubscriptionId};
use session_plane::MadeEvent;
use session_plane::stream::StreamFull;
use session_values::{QueuedMessage, Value};

use crate::node::{Action, Node};
use crate::replication::Cause;

/// Deliveries of one session that are kept at most. Further ones are lost if the connection ends.
const KEPT_MAX: usize = 256;

/// Deliveries that were sent and not acknowledged. Mostly none, so it is small.
#[derive(Debug, Default)]
pub(crate) struct Unacknowledged(Option<Box<SentDeliveries>>);

#[derive(Debug, Default)]
struct SentDeliveries {
    next: u64,
    in_order: BTreeMap<u64, Delivery>,
    places: BTreeMap<PacketId, u64>,
}

impl Unacknowledged {
    /// A delivery was sent under a packet id.
    fn add(&mut self, packet_id: PacketId, delivery: Delivery) {
        let sent = self.0.get_or_insert_default();
        if sent.in_order.len() < KEPT_MAX {
            sent.in_order.insert(sent.next, delivery);
            sent.places.insert(packet_id, sent.next);
            sent.next += 1;
        }
    }

    /// The client has acknowledged a packet id.
    pub(crate) fn remove(&mut self, packet_id: PacketId) {
        let Some(sent) = &mut self.0 else { return };
        if let Some(place) = sent.places.remove(&packet_id) {
            sent.in_order.remove(&place);
        }
        self.0.take_if(|sent| sent.in_order.is_empty());
    }

    /// Deliveries in the order in which they were sent.
    fn take(&mut self) -> Vec<Delivery> {
        let sent = self.0.take();
        sent.map(|sent| sent.in_order.into_values().collect())
            .unwrap_or_default()
    }
}

impl Node {
    /// Sends a delivery of an outbox under a packet id, and keeps it until it is acknowledged.
    pub(crate) fn send_own(
        &mut self,
        now: Now,
        key: SessionKey,
        (delivery, packet_id): (Delivery, PacketId),
        actions: &mut Vec<Action>,
    ) {
        let kept = delivery.clone();
        let is_sent = self.send(now, key, (delivery, Some(packet_id)), actions);
        if let Some(entry) = self
            .sessions
            .get_mut(key)
            .filter(|entry| is_sent && entry.is_durable)
        {
            entry.unacknowledged.add(packet_id, kept);
        }
    }

    /// The connection of a session ends: what its client has not acknowledged, or was not sent yet, stays in the queue.
    pub(crate) fn store_unacknowledged(&mut self, now: Now, key: SessionKey, actions: &mut Vec<Action>) {
        let entry = self.sessions.get_mut(key);
        let Some(entry) = entry.filter(|entry| entry.is_durable && entry.expiry > 0) else {
            return;
        };
        let mut kept = entry.unacknowledged.take();
        while kept.len() < KEPT_MAX
            && let Some(delivery) = entry.outbox.pop()
        {
            kept.extend((delivery.qos != QoS::AtMostOnce).then_some(delivery));
        }
        for delivery in kept {
            let ids = delivery.subscription_ids.as_slice();
            let stored = self.store_message(now, key, &delivery.message, (delivery.qos, false, ids), actions);
            self.counters.dropped.not_connected += u64::from(!matches!(stored, Ok(Some(_))));
        }
    }

    /// Puts a message into the queue that the owners of a session have. It is delivered like any other message of the
    /// queue. None where the session has left.
    ///
    /// # Errors
    ///
    /// [`StreamFull`] where too much is not durable.
    pub(crate) fn store_message(
        &mut self,
        now: Now,
        key: SessionKey,
        message: &Message,
        (qos, is_retained, ids): (QoS, bool, &[SubscriptionId]),
        actions: &mut Vec<Action>,
    ) -> Result<Option<MadeEvent>, StreamFull> {
        let content = self.content_of(now, message, None);
        content.count_in(&self.memory.messages);
        let queued = QueuedMessage::new(content, qos, is_retained, ids);
        let Some(claim) = self.sessions.get(key).map(|entry| entry.claim) else {
            return Ok(None);
        };
        self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
            sessions.enqueue(at, claim, Value::Message(queued), made)
        })
    }
}
