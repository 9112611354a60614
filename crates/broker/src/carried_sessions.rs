//! Carried sessions: records of sessions, as backups and data directories without a session plane have them, become
//! sessions of the plane.
//!
//! A message that was sent and not acknowledged becomes one that was not sent. One that the client has, by its PUBREC, keeps
//! its packet id until PUBCOMP. Packet ids of QoS 2 messages from the client are left out, as their records lack the
//! messages: a client that sends one again publishes it twice. So is the will of a connection, which has ended.

use bytes::Bytes;
use mqtt::now::Now;
use mqtt::records::queue::{self, QueueRecord, WaitingRecord};
use mqtt::records::session::{Presence, SessionRecord};
use mqtt::records::{RecordError, session, subscription};
use session_plane::SessionExpiry;
use session_plane::publishing::PacketId;
use session_plane::sessions::{CarriedMembership, CarriedSession};
use session_values::{QueuedMessage, SessionTerms, SubscriptionParts, SubscriptionTerms, Value};

use crate::backups::{SessionItem, SessionPart};
use crate::node::{Action, Node};
use crate::replication::{Awaited, Cause, ReplicatedEvent};
use crate::subscription_entries::{group_of, plane_client};

/// What has become of a session.
#[derive(Debug)]
pub(crate) enum Carried {
    /// It is put in, once this is durable.
    PutIn(Awaited),
    /// Its client has a session.
    IsThere,
    /// Its interval has passed.
    IsOver,
    /// Too much is not durable.
    HasNoRoom,
}

impl Node {
    /// Puts a session in whose client has none.
    pub(crate) fn carry_session(
        &mut self,
        now: Now,
        item: SessionItem,
        actions: &mut Vec<Action>,
    ) -> Result<Carried, RecordError> {
        let (client_id, record) = session::decode(item.client_id.as_bytes(), item.record.clone())?;
        if self.replication.has_session(&client_id) {
            return Ok(Carried::IsThere);
        }
        if record.expiry == 0 || record.is_over(now.wall) {
            return Ok(Carried::IsOver);
        }
        let carried = self.carried(now, &item, record)?;
        let made = self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
            sessions.carry(at, carried, made)
        });
        let Ok(made) = made else {
            return Ok(Carried::HasNoRoom);
        };
        let mut awaited = Awaited::default();
        for event in made {
            self.replication.open_event(event.dot);
            awaited.events.push(ReplicatedEvent::of(event));
        }
        Ok(Carried::PutIn(awaited))
    }

    fn carried(
        &self,
        now: Now,
        item: &SessionItem,
        record: SessionRecord,
    ) -> Result<CarriedSession<Value>, RecordError> {
        let left = seconds_left(&record, now.wall);
        let mut carried = CarriedSession {
            client: plane_client(&item.client_id),
            session: Value::Session(SessionTerms::new(record.expiry, record.owner)),
            subscriptions: Vec::new(),
            memberships: Vec::new(),
            released: Vec::new(),
            messages: Vec::new(),
            expiry: SessionExpiry::of_seconds(left),
        };
        for part in &item.parts {
            match part {
                SessionPart::Subscription(key, value) => subscribe(&mut carried, key, value.clone())?,
                SessionPart::Delivery(key, value) => {
                    let (_, _, delivery) = queue::decode(&with_number(key), value.clone(), now)?;
                    match delivery {
                        QueueRecord::Waiting(waiting) => carried.messages.push(self.queued(now, &waiting)),
                        QueueRecord::Released { packet_id } => carried.released.push(PacketId(packet_id.0)),
                    }
                }
                SessionPart::Received(_) => {}
            }
        }
        Ok(carried)
    }

    fn queued(&self, now: Now, waiting: &WaitingRecord) -> Value {
        let content = self.content_of(now, &waiting.message, None);
        content.count_in(&self.memory.messages);
        let ids = waiting.subscription_ids.as_slice();
        Value::Message(QueuedMessage::new(content, waiting.qos, waiting.retain, ids))
    }
}

fn subscribe(carried: &mut CarriedSession<Value>, key: &[u8], value: Bytes) -> Result<(), RecordError> {
    let (_, filter, subscription, place) = subscription::decode(&with_number(key), value)?;
    let group = group_of(&filter);
    let value = Value::Subscription(SubscriptionTerms::new(&SubscriptionParts {
        filter,
        options: subscription.options,
        id: subscription.id,
        since: None,
        retained_from: place.map(Bytes::from),
    }));
    match group {
        Some(group) => carried.memberships.push(CarriedMembership { group, value }),
        None => carried.subscriptions.push(value),
    }
    Ok(())
}

/// Seconds after which a session ends: what is left of its interval, and no less than a second.
fn seconds_left(record: &SessionRecord, wall: u64) -> u32 {
    let Presence::Disconnected { since } = record.presence else {
        return record.expiry;
    };
    let ends_at = since.saturating_add(u64::from(record.expiry) * 1_000);
    let left = ends_at.saturating_sub(wall).div_ceil(1_000);
    match record.expiry {
        u32::MAX => u32::MAX,
        _ => u32::try_from(left).map_or(record.expiry, |left| left.clamp(1, record.expiry)),
    }
}

/// Key of a record as a data directory has it: behind the number of a session.
fn with_number(key: &[u8]) -> Vec<u8> {
    [&[0; 8], key].concat()
}
