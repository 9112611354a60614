//! Messages out: from a session's queue to its connection, and the client's acknowledgements.

use std::sync::Arc;

use bytes::Bytes;
use mqtt::connection::Connection;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::memory::MemoryLevel;
use mqtt::message::{Delivery, DeliveryKind, Message};
use mqtt::now::Now;
use mqtt::records;
use mqtt::session::got::Got;
use mqtt::session::{AckError, Change, DropCause, Dropped, Outgoing, PushOutcome};
use protocol::packet::{Ack, Publish, QoS, TopicAlias};
use protocol::{Packet, ReasonCode, Text};

use crate::node::{Action, Node};
use crate::report::Report;
use crate::waiting::Waiter;
use crate::watch_loss::WatchLoss;

/// A message on its way to a connection.
#[derive(Debug)]
pub struct OutgoingPublish {
    /// The message, and what differs between its receivers.
    pub delivery: Delivery,
    /// Present exactly if the QoS is not 0.
    pub packet_id: Option<protocol::packet::PacketId>,
    /// The topic alias to send.
    pub topic_alias: Option<TopicAlias>,
    /// The alias stands for the topic, which is not sent.
    pub is_topic_omitted: bool,
    /// Message Expiry Interval: what is left of the received one.
    pub message_expiry: Option<u32>,
}

/// How the message that is being routed is stored, until its routing ends.
#[derive(Debug)]
pub(crate) struct StoredValue {
    message: Arc<Message>,
    qos: QoS,
    retain: bool,
    value: Bytes,
}

impl OutgoingPublish {
    /// The packet.
    pub fn to_packet(&self) -> Publish {
        let message = &self.delivery.message;
        let mut properties = message.properties.clone();
        properties.message_expiry = self.message_expiry;
        Publish {
            dup: self.delivery.dup && self.delivery.qos != QoS::AtMostOnce, // [MQTT-3.3.1-2]
            qos: self.delivery.qos,
            retain: self.delivery.retain,
            topic: if self.is_topic_omitted {
                Text::default()
            } else {
                message.topic.text().clone()
            },
            packet_id: self.packet_id,
            topic_alias: self.topic_alias,
            subscription_ids: self.delivery.subscription_ids.clone(),
            properties,
            payload: message.payload.clone(),
        }
    }
}

impl Node {
    /// Gives a message to a session, and sends what may be sent.
    pub(crate) fn deliver(
        &mut self,
        now: Now,
        key: SessionKey,
        delivery: Delivery,
        actions: &mut Vec<Action>,
    ) {
        let must_await_disk = self.enqueue(now, key, delivery);
        if must_await_disk {
            self.await_records(now, key, actions);
        }
        self.pump(now, key, actions);
    }

    /// Puts a message into a session's queue. True if it is not to be sent before it is on disk.
    pub(crate) fn enqueue(&mut self, now: Now, key: SessionKey, delivery: Delivery) -> bool {
        let Some(entry) = self.sessions.get_mut(key) else {
            return false;
        };
        // It has come by another way before.
        if entry.session.has_got(&delivery) {
            self.commits.rely_on_earlier();
            return false;
        }
        let mut dropped = Vec::new();
        let kept = delivery.clone();
        let outcome = entry.session.push(now, delivery, &mut dropped);
        if let (PushOutcome::Queued { .. }, Some(copies)) = (&outcome, &self.copies) {
            copies.note_got(&mut entry.session, Got::id_of(&kept));
        }
        let number = entry.session.number;
        let mut must_await_disk = false;
        match outcome {
            PushOutcome::Queued {
                durable: Some(sequence),
            } => {
                let value = self.stored_value(now, &kept);
                self.commits.write(records::queue::put(number, sequence, value));
                must_await_disk = kept.qos == QoS::ExactlyOnce;
            }
            PushOutcome::Queued { durable: None } => {}
            PushOutcome::Dropped(cause) => {
                self.counters.dropped.count(cause);
                if kept.kind == DeliveryKind::Notification {
                    self.miss_notification(key, cause);
                }
            }
        }
        self.forget(number, &dropped);
        must_await_disk
    }

    /// The bytes that store a delivery: made once for all receivers that get the same.
    fn stored_value(&mut self, now: Now, delivery: &Delivery) -> Bytes {
        let is_same = |stored: &StoredValue| {
            Arc::ptr_eq(&stored.message, &delivery.message)
                && (stored.qos, stored.retain) == (delivery.qos, delivery.retain)
        };
        if !delivery.subscription_ids.is_empty() || delivery.share.is_some() {
            return records::queue::value(delivery, now);
        }
        if let Some(stored) = self.stored.as_ref().filter(|stored| is_same(stored)) {
            return stored.value.clone();
        }
        let value = records::queue::value(delivery, now);
        let message = Arc::clone(&delivery.message);
        self.stored = Some(StoredValue {
            message,
            qos: delivery.qos,
            retain: delivery.retain,
            value: value.clone(),
        });
        value
    }

    /// Sends what the session has to send, as long as the connection keeps up.
    pub(crate) fn pump(&mut self, now: Now, key: SessionKey, actions: &mut Vec<Action>) {
        self.send_next(now, key, actions);
        let entry = self.sessions.get(key);
        if entry.is_some_and(|entry| !entry.due.is_empty()) {
            self.deliver_retained(now, key, actions);
        }
        self.note_standing(key);
    }

    pub(crate) fn send_next(&mut self, now: Now, key: SessionKey, actions: &mut Vec<Action>) {
        if self.is_held_for_merging(key) {
            return;
        }
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let Some(connection) = entry.connection.and_then(|id| self.connections.get_mut(id)) else {
            return;
        };
        let has_missed = self.missed.contains_key(&connection.id);
        if !connection.is_connected() || has_missed || self.policies.is_due(connection) {
            return;
        }
        let is_scarce = self.memory.level > MemoryLevel::Normal;
        let mut dropped = Vec::new();
        let mut refused = Vec::new();
        while !connection.is_congested {
            let Some(outgoing) = entry.session.next(now, &mut dropped) else {
                break;
            };
            match outgoing {
                Outgoing::Release { packet_id } => {
                    let packet = Packet::PubRel(Ack::new(packet_id, ReasonCode::Success));
                    actions.push(Action::Send {
                        connection: connection.id,
                        packet,
                    });
                }
                Outgoing::Publish { delivery, packet_id } => {
                    let (qos, size) = (delivery.qos, delivery.message.payload.len());
                    let kind = delivery.kind;
                    match prepare(now, connection, delivery, (packet_id, is_scarce)) {
                        Some(publish) => {
                            self.counters.sent(qos, size);
                            actions.push(Action::Publish {
                                connection: connection.id,
                                publish,
                            });
                        }
                        None => {
                            refused.push((kind, packet_id));
                            if kind == DeliveryKind::Notification && connection.has_watches {
                                break;
                            }
                        }
                    }
                }
            }
            if connection.is_congested {
                actions.push(Action::ReportDrained {
                    connection: connection.id,
                });
            }
        }
        let number = entry.session.number;
        self.forget(number, &dropped);
        for (kind, packet_id) in refused {
            self.too_large(key, packet_id);
            if kind == DeliveryKind::Notification {
                self.miss_change(key, WatchLoss::PacketSize);
            }
        }
    }

    /// PUBACK.
    pub(crate) fn received_puback(&mut self, key: SessionKey, ack: &Ack) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        // One that is unknown is left over from before a restart of the server.
        if let Ok(change) = entry.session.puback(ack.packet_id) {
            self.change_record(key, change);
        }
    }

    /// PUBREC; the PUBREL follows when it is durable that it will.
    pub(crate) fn received_pubrec(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        ack: &Ack,
        actions: &mut Vec<Action>,
    ) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        match entry.session.pubrec(ack.packet_id, ack.reason.is_error()) {
            Ok(change) => {
                self.change_record(key, change);
                if matches!(change, Change::Release { .. }) {
                    self.await_records(now, key, actions);
                }
            }
            // [MQTT-4.3.3-4] a PUBREC is answered also if it says nothing new.
            Err(AckError::NotFound | AckError::WrongState) if !ack.reason.is_error() => {
                self.report_unknown_id((id, key), "PUBREC", ack, actions);
                let packet = Packet::PubRel(Ack::new(ack.packet_id, ReasonCode::PacketIdentifierNotFound));
                actions.push(Action::Send {
                    connection: id,
                    packet,
                });
            }
            Err(_) => {}
        }
    }

    /// PUBREL: the packet id is free when its removal is durable.
    pub(crate) fn received_pubrel(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        ack: &Ack,
        actions: &mut Vec<Action>,
    ) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let was_known = entry.session.received.release(ack.packet_id);
        if was_known && entry.session.is_durable() {
            self.commits
                .write(records::received::remove(entry.session.number, ack.packet_id));
        }
        let reason = if was_known {
            ReasonCode::Success
        } else {
            self.report_unknown_id((id, key), "PUBREL", ack, actions);
            ReasonCode::PacketIdentifierNotFound
        };
        let packet = Packet::PubComp(Ack::new(ack.packet_id, reason)); // [MQTT-4.3.3-11]
        self.after_commit(
            now,
            Waiter::Act {
                connection: id,
                action: Action::Send {
                    connection: id,
                    packet,
                },
            },
            actions,
        );
    }

    /// Tells the operator that a packet id is not known, which the client is told as well.
    fn report_unknown_id(
        &self,
        (id, key): (ConnectionId, SessionKey),
        packet: &'static str,
        ack: &Ack,
        actions: &mut Vec<Action>,
    ) {
        if let Some(entry) = self.sessions.get(key) {
            actions.push(Action::Report(Report::PacketIdUnknown {
                connection: id,
                client_id: entry.session.client_id.clone(),
                packet,
                packet_id: ack.packet_id.get(),
            }));
        }
    }

    /// PUBCOMP.
    pub(crate) fn received_pubcomp(&mut self, key: SessionKey, ack: &Ack) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        if let Ok(change) = entry.session.pubcomp(ack.packet_id) {
            self.change_record(key, change);
        }
    }

    /// Goes on with the session when everything written for it until now is durable.
    pub(crate) fn await_records(&mut self, now: Now, key: SessionKey, actions: &mut Vec<Action>) {
        let Some(entry) = self.sessions.get(key) else {
            return;
        };
        let (number, written) = (entry.session.number, entry.session.written());
        self.after_commit(
            now,
            Waiter::Records {
                session: key,
                number,
                written,
            },
            actions,
        );
    }

    fn change_record(&mut self, key: SessionKey, change: Change) {
        let Some(entry) = self.sessions.get(key) else {
            return;
        };
        let number = entry.session.number;
        if let Some(write) = records::queue::change(number, change) {
            self.commits.write(write);
        }
    }

    /// Counts what was dropped from a queue, and removes its records.
    pub(crate) fn forget(&mut self, number: mqtt::ids::SessionNumber, dropped: &[Dropped]) {
        for dropped in dropped {
            self.counters.dropped.count(dropped.cause);
            if let Some(sequence) = dropped.durable {
                self.commits.write(records::queue::remove_once(number, sequence));
            }
        }
    }

    /// A message larger than the client takes is treated as if it had been delivered. [MQTT-3.1.2-25]
    fn too_large(&mut self, key: SessionKey, packet_id: Option<protocol::packet::PacketId>) {
        self.counters.dropped.too_large += 1;
        let (Some(packet_id), Some(entry)) = (packet_id, self.sessions.get_mut(key)) else {
            return;
        };
        if let Ok(change) = entry.session.discard(packet_id) {
            self.change_record(key, change);
        }
    }
}

/// Makes a delivery ready to be sent, or `None` if the client does not take packets of its size. While memory is scarce
/// no topic gets an alias.
fn prepare(
    now: Now,
    connection: &mut Connection,
    delivery: Delivery,
    (packet_id, is_scarce): (Option<protocol::packet::PacketId>, bool),
) -> Option<OutgoingPublish> {
    let message = &delivery.message;
    let size = message.size();
    let message_expiry = message.remaining_expiry(now);
    let mut publish = OutgoingPublish {
        packet_id,
        topic_alias: None,
        is_topic_omitted: false,
        message_expiry,
        delivery,
    };
    // The size counts more than a packet has, except for many subscription identifiers.
    let estimate = size + 5 * publish.delivery.subscription_ids.len();
    if estimate >= connection.packet_size_max as usize {
        let length = protocol::packet::encoded_len(
            &Packet::Publish(Box::new(publish.to_packet())),
            connection.version,
        );
        if length > connection.packet_size_max as usize {
            return None;
        }
        // A topic with an alias is a few bytes longer: it might not fit any more.
    } else if let Some(aliases) = &mut connection.outbound_aliases {
        let (topic, alias) = aliases.choose(&publish.delivery.message.topic, is_scarce);
        publish.topic_alias = alias;
        publish.is_topic_omitted = topic.is_empty();
    }
    connection.send_budget = connection.send_budget.saturating_sub(size);
    connection.is_congested = connection.send_budget == 0;
    Some(publish)
}

impl crate::counters::Dropped {
    pub(crate) fn count(&mut self, cause: DropCause) {
        match cause {
            DropCause::Expired => self.expired += 1,
            DropCause::QueueMessages | DropCause::QueueBytes => self.queue_full += 1,
            DropCause::Offline => self.not_connected += 1,
            DropCause::NoSharer => self.no_sharer += 1,
            DropCause::NotAuthorized => self.not_authorized += 1,
            DropCause::WatchEnded => self.watch_ended += 1,
        }
    }
}
