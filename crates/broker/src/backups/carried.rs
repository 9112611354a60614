//! Sessions that another server had, in the form in which those of a backup come back.

use std::sync::Arc;

use cluster::write::Write;
use mqtt::ids::QueueSequence;
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::records::queue::{QueueRecord, WaitingRecord};
use mqtt::records::session::{Positions, Presence, SessionRecord};
use mqtt::records::{queue, session, subscription};
use mqtt::subscriptions::Subscription;
use protocol::packet::{PacketId, Publish, QoS, SubscriptionId, SubscriptionOptions};
use protocol::topic::SubscriptionFilter;
use protocol::{Text, TopicName};

use super::sessions::{NUMBER, suffix_and_value};
use super::{SessionItem, SessionPart};

/// A durable session of another server, without a connection. It belongs to the first client that comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarriedSession {
    /// Whose; not empty.
    pub client_id: Text,
    /// How long it lasts from now on, in seconds; `u32::MAX` is for ever.
    pub expiry: u32,
    /// What it is subscribed to.
    pub subscriptions: Vec<CarriedSubscription>,
    /// What was to be delivered, in its order.
    pub deliveries: Vec<CarriedDelivery>,
}

/// A subscription of such a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarriedSubscription {
    /// To what.
    pub filter: SubscriptionFilter,
    /// How.
    pub options: SubscriptionOptions,
    /// The identifier that its messages carry.
    pub id: Option<SubscriptionId>,
}

/// Something that was to be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CarriedDelivery {
    /// A message, as it would be sent to this client but for its packet identifier, and DUP if it was. One of QoS 0 is left out: no queue has
    /// them.
    Waiting(TopicName, Box<Publish>),
    /// The client has the message, and waits for PUBREL.
    Released(PacketId),
}

impl CarriedSession {
    /// As it comes back.
    pub fn item(self, now: Now) -> SessionItem {
        let deliveries = self.deliveries.into_iter().filter(CarriedDelivery::is_kept);
        let deliveries: Vec<_> = deliveries.collect();
        let record = SessionRecord {
            number: NUMBER,
            expiry: self.expiry,
            presence: Presence::Disconnected { since: now.wall },
            positions: Positions {
                next_sequence: deliveries.len() as u64,
                sent_below: 0,
            },
            will: None,
            owner: None,
        };
        let record = match session::put(&self.client_id, &record) {
            Write::Put { value, .. } => value,
            _ => unreachable!("it stores a session"),
        };
        let subscriptions = self.subscriptions.into_iter().map(|carried| {
            let subscription = Subscription {
                options: carried.options,
                id: carried.id,
            };
            let write = subscription::put(NUMBER, &carried.filter, &subscription);
            suffix_and_value(write).map(|(key, value)| SessionPart::Subscription(key, value))
        });
        let deliveries = (0..).zip(deliveries).map(|(sequence, delivery)| {
            let sequence = QueueSequence(sequence);
            let write = queue::put_record(NUMBER, sequence, &delivery.record(now), now);
            suffix_and_value(write).map(|(key, value)| SessionPart::Delivery(key, value))
        });
        SessionItem {
            record,
            parts: subscriptions.chain(deliveries).flatten().collect(),
            client_id: self.client_id,
        }
    }
}

impl CarriedDelivery {
    fn is_kept(&self) -> bool {
        match self {
            Self::Waiting(_, publish) => publish.qos != QoS::AtMostOnce,
            Self::Released(_) => true,
        }
    }

    fn record(self, now: Now) -> QueueRecord {
        match self {
            Self::Released(packet_id) => QueueRecord::Released { packet_id },
            Self::Waiting(topic, publish) => QueueRecord::Waiting(WaitingRecord {
                qos: publish.qos,
                retain: publish.retain,
                subscription_ids: publish.subscription_ids.iter().copied().collect(),
                share: None,
                message: Arc::new(Message::from_publish(*publish, topic, None, now)),
            }),
        }
    }
}
