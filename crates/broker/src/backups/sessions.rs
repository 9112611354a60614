//! Sessions for a backup, in the form of the records of a data directory without a session plane.
//!
//! Of each session the terms, the subscriptions and the queue. A message that was sent and not acknowledged comes back
//! as one that was not sent. Packet ids of QoS 2 messages from the client are left out. The will of a connection is not
//! part of a session.

use std::collections::BTreeSet;
use std::ops::Bound;

use bytes::Bytes;
use cluster::write::Write;
use mqtt::ids::{QueueSequence, SessionNumber};
use mqtt::now::Now;
use mqtt::records::queue::{self, QueueRecord, WaitingRecord};
use mqtt::records::session::{self, Positions, Presence, SessionRecord};
use mqtt::records::subscription;
use mqtt::subscriptions::Subscription;
use protocol::Text;
use protocol::packet::PacketId;
use session_plane::delivering::{DeliveryStage, DeliveryValue};
use session_plane::{ClientId, EntryKind, GroupId, SessionEntries};
use session_values::{QueuedMessage, SessionTerms, SubscriptionTerms, Value};

use super::{SessionItem, SessionPart};
use crate::node::Node;
use crate::subscription_entries::terms_of;

impl Node {
    /// Clients that have sessions, behind this one, in ascending order: so many at most.
    pub(super) fn clients_after(&self, after: &str, limit: usize) -> Vec<Text> {
        let after = ClientId::new(after.as_bytes()).ok();
        let after = after.filter(|after| !after.as_bytes().is_empty());
        let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let Some(routes) = self.replication.routes() else {
            return Vec::new();
        };
        let clients = routes.entries.sessions_from(from).map(|(client, _)| client);
        let clients = clients.take_while(|client| GroupId::of_key(client).is_none());
        let names = clients.filter_map(|client| std::str::from_utf8(client.as_bytes()).ok());
        names
            .filter_map(|name| Text::new(name).ok())
            .take(limit)
            .collect()
    }

    /// Session of a client that outlives its connection, if this node is its primary owner.
    pub(super) fn session_for_backup(&self, now: Now, client_id: &Text) -> Option<SessionItem> {
        let client = ClientId::new(client_id.as_bytes()).ok()?;
        let is_primary = self.replication.owners_of(&client).first() == Some(&self.replication.run().node);
        let terms = self.replication.session_of(client_id).filter(|_| is_primary)?;
        if terms.expiry() == 0 {
            return None;
        }
        let copy = self.replication.copy_of(&client)?;
        let entries = copy.entries.session(client.as_bytes())?;
        let messages = messages(entries);
        let subscriptions = entries.of_kind(EntryKind::Subscription);
        let subscriptions = subscriptions.filter_map(|(_, entry)| terms_of(&entry.value));
        let subscriptions = subscriptions.filter_map(subscription_part);
        let released = released(entries)
            .into_iter()
            .map(|packet_id| QueueRecord::Released { packet_id });
        let messages = messages.into_iter().map(|message| waiting(message, now));
        let queue: Vec<QueueRecord> = released.chain(messages).collect();
        let record = record(client_id, terms, queue.len(), now)?;
        let queue = (0..).zip(queue);
        let queue = queue.filter_map(|(sequence, record)| queue_part(sequence, &record, now));
        Some(SessionItem {
            record,
            parts: subscriptions.chain(queue).collect(),
            client_id: client_id.clone(),
        })
    }
}

/// Messages of the queue, in their order.
fn messages(entries: &SessionEntries<Value>) -> Vec<&QueuedMessage> {
    let mut messages: Vec<_> = entries.of_kind(EntryKind::Message).collect();
    messages.sort_by_key(|(dot, entry)| (entry.clock, *dot));
    let messages = messages.into_iter().filter_map(|(_, entry)| match &entry.value {
        Value::Message(message) => Some(message),
        _ => None,
    });
    messages.collect()
}

fn record(client_id: &Text, terms: &SessionTerms, queue: usize, now: Now) -> Option<Bytes> {
    let record = SessionRecord {
        number: NUMBER,
        expiry: terms.expiry(),
        presence: Presence::Disconnected { since: now.wall },
        positions: Positions {
            next_sequence: queue as u64,
            sent_below: 0,
        },
        will: None,
        owner: terms.owner().cloned(),
    };
    match session::put(client_id, &record) {
        Write::Put { value, .. } => Some(value),
        _ => None,
    }
}

fn subscription_part(terms: &SubscriptionTerms) -> Option<SessionPart> {
    let subscription = Subscription {
        options: terms.options(),
        id: terms.id(),
    };
    let write = subscription::put(NUMBER, terms.filter(), &subscription);
    suffix_and_value(write).map(|(key, value)| SessionPart::Subscription(key, value))
}

/// Packet ids of messages that the client has, in the order of their PUBREL packets.
fn released(entries: &SessionEntries<Value>) -> Vec<PacketId> {
    let deliveries = entries.of_kind(EntryKind::Delivery);
    let deliveries = deliveries.filter_map(|(_, entry)| entry.value.packet_delivery());
    let released = deliveries.filter(|delivery| !matches!(delivery.stage, DeliveryStage::Sent(_)));
    let mut ids: Vec<_> = released.map(|of| (of.order, of.packet_id)).collect();
    ids.sort_unstable();
    let mut seen = BTreeSet::new();
    ids.retain(|(_, id)| seen.insert(*id));
    ids.into_iter().map(|(_, id)| PacketId(id.0)).collect()
}

fn waiting(message: &QueuedMessage, now: Now) -> QueueRecord {
    QueueRecord::Waiting(WaitingRecord {
        message: std::sync::Arc::new(message.content().to_message(now)),
        qos: message.qos(),
        retain: message.retain(),
        subscription_ids: message.subscription_ids().iter().copied().collect(),
        share: None,
    })
}

fn queue_part(sequence: u64, record: &QueueRecord, now: Now) -> Option<SessionPart> {
    let write = queue::put_record(NUMBER, QueueSequence(sequence), record, now);
    suffix_and_value(write).map(|(key, value)| SessionPart::Delivery(key, value))
}

/// Key without the number of the session, and value of a record that is stored.
pub(super) fn suffix_and_value(write: Write) -> Option<(Bytes, Bytes)> {
    match write {
        Write::Put { key, value, .. } => Some((key.slice(NUMBER_BYTES..), value)),
        _ => None,
    }
}

/// Number of a session that is put back: it gets one of its own.
pub(super) const NUMBER: SessionNumber = SessionNumber(0);

/// Bytes of the number of a session, with which the keys of its records begin.
const NUMBER_BYTES: usize = 8;
