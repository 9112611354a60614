//! Messages out: from the queue of a session at its owners, or from an outbox, to the connection; and the client's
//! acknowledgements.
//!
//! ```text
//!  owners of the session ----- SendPublish ------------------------.
//!  outbox: QoS 0 ---------------------------------------------------+---> PUBLISH
//!  outbox: QoS 1 and 2 ---> request a packet id ---> Grant --------'
//! ```

use std::sync::Arc;

use mqtt::connection::Connection;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::memory::MemoryLevel;
use mqtt::message::{Delivery, DeliveryKind};
use mqtt::now::Now;
use mqtt::outbox::DropCause;
use protocol::packet::{Ack, PacketId, Publish, QoS, TopicAlias};
use protocol::{Packet, ReasonCode, Text};
use session_plane::connecting::ConnectionId as ClaimId;
use session_plane::delivering::{DeliveryAnswer, DeliveryQos, Published};
use session_plane::publishing::PacketId as PlanePacketId;
use session_plane::queue_limits::DropReason;
use session_plane::sessions::DroppedMessages;
use session_values::{QueuedMessage, Value};
use smallvec::SmallVec;

use crate::node::{Action, Node};
use crate::replication::{Cause, packet_id_of, plane_packet_id};
use crate::report::Report;
use crate::watch_loss::WatchLoss;

/// A message on its way to a connection.
#[derive(Debug)]
pub struct OutgoingPublish {
    /// The message, and what differs between its receivers.
    pub delivery: Delivery,
    /// Present exactly if the QoS is not 0.
    pub packet_id: Option<PacketId>,
    /// The topic alias to send.
    pub topic_alias: Option<TopicAlias>,
    /// The alias stands for the topic, which is not sent.
    pub is_topic_omitted: bool,
    /// Message Expiry Interval: what is left of the received one.
    pub message_expiry: Option<u32>,
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
    /// Gives a message to the outbox of a session, and sends what may be sent.
    pub(crate) fn deliver(
        &mut self,
        now: Now,
        key: SessionKey,
        delivery: Delivery,
        actions: &mut Vec<Action>,
    ) {
        self.enqueue(now, key, delivery);
        self.pump(now, key, actions);
    }

    /// Puts a message into the outbox of a session.
    pub(crate) fn enqueue(&mut self, now: Now, key: SessionKey, delivery: Delivery) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let kind = delivery.kind;
        let mut dropped = Vec::new();
        let pushed = entry.outbox.push(now, delivery, &mut dropped);
        self.count_dropped(&dropped);
        if let Err(cause) = pushed {
            self.counters.dropped.count(cause);
            if kind == DeliveryKind::Notification {
                self.miss_notification(key, cause);
            }
        }
    }

    /// Sends what the session has to send, as long as the connection keeps up.
    pub(crate) fn pump(&mut self, now: Now, key: SessionKey, actions: &mut Vec<Action>) {
        self.send_outbox(now, key, actions);
        let entry = self.sessions.get(key);
        if entry.is_some_and(|entry| !entry.due.is_empty()) {
            self.deliver_retained(now, key, actions);
        }
        self.note_standing(key);
    }

    /// Sends from the outbox until the connection does not keep up, or a packet id is to be granted.
    pub(crate) fn send_outbox(&mut self, now: Now, key: SessionKey, actions: &mut Vec<Action>) {
        let mut dropped = Vec::new();
        while self.may_send(key)
            && let Some(entry) = self.sessions.get_mut(key)
            && let Some(qos) = entry.outbox.front(now, &mut dropped).map(|delivery| delivery.qos)
        {
            if entry.is_requested {
                break;
            }
            let Some(qos) = delivery_qos(qos) else {
                if let Some(delivery) = entry.outbox.pop() {
                    self.send(now, key, (delivery, None), actions);
                }
                continue;
            };
            entry.is_requested = true;
            let claim = entry.claim;
            self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
                sessions.request_packet_id(at, claim, qos, made);
            });
            let Some(packet_id) = self.replication.take_grant(claim) else {
                break;
            };
            if let Some(entry) = self.sessions.get_mut(key) {
                entry.is_requested = false;
                if let Some(delivery) = entry.outbox.pop() {
                    self.send_own(now, key, (delivery, packet_id_of(packet_id)), actions);
                }
            }
        }
        self.count_dropped(&dropped);
    }

    /// A packet id is granted, for the first delivery of an outbox. The delivery may have gone meanwhile.
    pub(crate) fn granted(
        &mut self,
        now: Now,
        claim: ClaimId,
        (packet_id, qos): (PlanePacketId, DeliveryQos),
        actions: &mut Vec<Action>,
    ) {
        let Some((_, key)) = self.session_of_claim(claim) else {
            return;
        };
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        entry.is_requested = false;
        let mut dropped = Vec::new();
        let front = entry.outbox.front(now, &mut dropped);
        let is_wanted = front.is_some_and(|delivery| delivery_qos(delivery.qos) == Some(qos));
        let delivery = if is_wanted { entry.outbox.pop() } else { None };
        self.count_dropped(&dropped);
        match delivery {
            Some(delivery) => self.send_own(now, key, (delivery, packet_id_of(packet_id)), actions),
            None => self.answer_delivery(now, claim, packet_id, DeliveryAnswer::Discarded, actions),
        }
        self.pump(now, key, actions);
    }

    /// The owners have the packet id of a stored message.
    pub(crate) fn send_stored(&mut self, now: Now, published: Published<Value>, actions: &mut Vec<Action>) {
        let Some((id, key)) = self.session_of_claim(published.connection) else {
            return;
        };
        let is_accepted = self.is_connected(id);
        if let Some(entry) = self.sessions.get_mut(key).filter(|_| !is_accepted) {
            entry.early.push_back(published);
            return;
        }
        let (claim, packet_id, message) = (published.connection, published.packet_id, published.message);
        match self.stored_delivery(now, key, published) {
            Ok(delivery) => {
                self.send(now, key, (delivery, Some(packet_id_of(packet_id))), actions);
            }
            Err(cause) => {
                self.counters.dropped.count(cause);
                self.answer_delivery(now, claim, packet_id, DeliveryAnswer::Discarded, actions);
            }
        }
        self.note_paged(now, key, message, actions);
        self.note_standing(key);
    }

    /// Sends a message of a shared group to a member that takes it with QoS 0.
    pub(crate) fn send_shared_unstored(
        &mut self,
        now: Now,
        claim: ClaimId,
        value: Value,
        actions: &mut Vec<Action>,
    ) {
        let (Some((_, key)), Value::Message(queued)) = (self.session_of_claim(claim), value) else {
            return;
        };
        let message = queued.content().to_message(now);
        if message.is_expired(now) {
            self.counters.dropped.count(DropCause::Expired);
            return;
        }
        if !self.may_still_get(key, &message.topic) {
            self.counters.dropped.count(DropCause::NotAuthorized);
            return;
        }
        let delivery = Delivery {
            qos: QoS::AtMostOnce,
            retain: queued.retain(),
            subscription_ids: ids_of(&queued),
            message: Arc::new(message),
            kind: DeliveryKind::Message,
            dup: false,
        };
        self.deliver(now, key, delivery, actions);
    }

    /// The primary owner has dropped messages of a queue that is full.
    pub(crate) fn dropped_from_queue(
        &mut self,
        now: Now,
        dropped: &DroppedMessages<Value>,
        actions: &mut Vec<Action>,
    ) {
        let count = dropped.messages.len() as u64;
        match dropped.reason {
            DropReason::QueueMessages | DropReason::QueueBytes => self.counters.dropped.queue_full += count,
            DropReason::Expired => self.counters.dropped.expired += count,
        }
        let client_id = std::str::from_utf8(dropped.place.client.as_bytes());
        let Some(key) = client_id.ok().and_then(|id| self.sessions.find(id)) else {
            return;
        };
        for message in &dropped.messages {
            self.note_paged(now, key, message.message, actions);
        }
    }

    /// Sends what came before CONNACK. [MQTT-4.4.0-1]
    pub(crate) fn send_early(&mut self, now: Now, key: SessionKey, actions: &mut Vec<Action>) {
        let early = self
            .sessions
            .get_mut(key)
            .map(|entry| std::mem::take(&mut entry.early));
        for published in early.into_iter().flatten() {
            self.send_stored(now, published, actions);
        }
    }

    /// Delivery of a stored message, unless the client is not to get it. What may have been sent before is sent
    /// again. [MQTT-4.3.3-7]
    fn stored_delivery(
        &self,
        now: Now,
        key: SessionKey,
        published: Published<Value>,
    ) -> Result<Delivery, DropCause> {
        let Value::Message(queued) = published.value else {
            return Err(DropCause::NotAuthorized);
        };
        let message = queued.content().to_message(now);
        let is_sent = published.is_dup && published.qos == DeliveryQos::ExactlyOnce;
        if !is_sent && message.is_expired(now) {
            return Err(DropCause::Expired);
        }
        if !is_sent && !self.may_still_get(key, &message.topic) {
            return Err(DropCause::NotAuthorized);
        }
        Ok(Delivery {
            qos: match published.qos {
                DeliveryQos::AtLeastOnce => QoS::AtLeastOnce,
                DeliveryQos::ExactlyOnce => QoS::ExactlyOnce,
            },
            retain: queued.retain(),
            subscription_ids: ids_of(&queued),
            message: Arc::new(message),
            kind: DeliveryKind::Message,
            dup: published.is_dup,
        })
    }

    fn may_send(&self, key: SessionKey) -> bool {
        let connection = self
            .sessions
            .get(key)
            .and_then(|entry| self.connections.get(entry.connection));
        connection.is_some_and(|connection| {
            let has_missed = self.missed.contains_key(&connection.id);
            let is_ready = connection.is_connected() && !connection.is_congested;
            is_ready && !has_missed && !self.policies.is_due(connection)
        })
    }

    /// Sends a PUBLISH. One that is larger than the client takes counts as delivered [MQTT-3.1.2-25]: false.
    pub(crate) fn send(
        &mut self,
        now: Now,
        key: SessionKey,
        (delivery, packet_id): (Delivery, Option<PacketId>),
        actions: &mut Vec<Action>,
    ) -> bool {
        let Some(entry) = self.sessions.get(key) else {
            return false;
        };
        let (claim, kind) = (entry.claim, delivery.kind);
        let Some(connection) = self.connections.get_mut(entry.connection) else {
            return false;
        };
        let (qos, size) = (delivery.qos, delivery.message.payload.len());
        let is_scarce = self.memory.level > MemoryLevel::Normal;
        let Some(publish) = prepare(now, connection, delivery, (packet_id, is_scarce)) else {
            self.counters.dropped.too_large += 1;
            if let Some(packet_id) = packet_id {
                self.answer_delivery(
                    now,
                    claim,
                    plane_packet_id(packet_id),
                    DeliveryAnswer::Discarded,
                    actions,
                );
            }
            if kind == DeliveryKind::Notification {
                self.miss_change(key, WatchLoss::PacketSize);
            }
            return false;
        };
        let (connection, is_congested) = (connection.id, connection.is_congested);
        self.counters.sent(qos, size);
        actions.push(Action::Publish { connection, publish });
        if is_congested {
            actions.push(Action::ReportDrained { connection });
            self.pause_session(now, claim, true, actions);
        }
        true
    }

    /// The socket of a client takes no more messages, or takes them again.
    pub(crate) fn pause_session(
        &mut self,
        now: Now,
        claim: ClaimId,
        is_paused: bool,
        actions: &mut Vec<Action>,
    ) {
        self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
            sessions.pause(at, claim, is_paused, made);
        });
    }

    fn answer_delivery(
        &mut self,
        now: Now,
        claim: ClaimId,
        packet_id: PlanePacketId,
        answer: DeliveryAnswer,
        actions: &mut Vec<Action>,
    ) {
        self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
            sessions.answer(at, claim, packet_id, answer, made);
        });
    }

    /// PUBACK, PUBREC or PUBCOMP. One with a packet id that is unknown is left over from before.
    pub(crate) fn received_answer(
        &mut self,
        now: Now,
        key: SessionKey,
        (packet_id, answer): (PacketId, DeliveryAnswer),
        actions: &mut Vec<Action>,
    ) {
        if let Some(entry) = self.sessions.get_mut(key) {
            let claim = entry.claim;
            entry.unacknowledged.remove(packet_id);
            self.answer_delivery(now, claim, plane_packet_id(packet_id), answer, actions);
        }
    }

    /// PUBREL: the packet id is free when that is durable at the owners.
    pub(crate) fn received_pubrel(
        &mut self,
        now: Now,
        key: SessionKey,
        ack: &Ack,
        actions: &mut Vec<Action>,
    ) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        if entry.exchanges.release(ack.packet_id) {
            let claim = entry.claim;
            self.release_packet_id(now, claim, ack.packet_id, actions);
        }
    }

    /// Frees a packet id of the client.
    pub(crate) fn release_packet_id(
        &mut self,
        now: Now,
        claim: ClaimId,
        packet_id: PacketId,
        actions: &mut Vec<Action>,
    ) {
        let packet_id = plane_packet_id(packet_id);
        self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
            sessions.release(at, claim, packet_id, made);
        });
    }

    /// Sends PUBREL of a message, or of a packet id that nobody uses.
    pub(crate) fn send_pubrel(
        &mut self,
        claim: ClaimId,
        packet_id: PlanePacketId,
        is_found: bool,
        actions: &mut Vec<Action>,
    ) {
        let Some((connection, key)) = self.session_of_claim(claim) else {
            return;
        };
        let packet_id = packet_id_of(packet_id);
        let reason = if is_found {
            ReasonCode::Success
        } else {
            self.report_unknown_id((connection, key), "PUBREC", packet_id, actions);
            ReasonCode::PacketIdentifierNotFound
        };
        let packet = Packet::PubRel(Ack::new(packet_id, reason));
        actions.push(Action::Send { connection, packet });
    }

    /// Connection and session of a claim, once it has come to its end.
    pub(crate) fn session_of_claim(&self, claim: ClaimId) -> Option<(ConnectionId, SessionKey)> {
        let id = self.claims.connection(claim)?;
        Some((id, self.connections.get(id)?.session()?))
    }

    /// Tells the operator that a packet id is not known, which the client is told as well.
    pub(crate) fn report_unknown_id(
        &self,
        (id, key): (ConnectionId, SessionKey),
        packet: &'static str,
        packet_id: PacketId,
        actions: &mut Vec<Action>,
    ) {
        if let Some(entry) = self.sessions.get(key) {
            actions.push(Action::Report(Report::PacketIdUnknown {
                connection: id,
                client_id: entry.client_id.clone(),
                packet,
                packet_id: packet_id.get(),
            }));
        }
    }

    /// Counts deliveries of an outbox that are not sent.
    pub(crate) fn count_dropped(&mut self, dropped: &[DropCause]) {
        for cause in dropped {
            self.counters.dropped.count(*cause);
        }
    }
}

fn delivery_qos(qos: QoS) -> Option<DeliveryQos> {
    match qos {
        QoS::AtMostOnce => None,
        QoS::AtLeastOnce => Some(DeliveryQos::AtLeastOnce),
        QoS::ExactlyOnce => Some(DeliveryQos::ExactlyOnce),
    }
}

fn ids_of(queued: &QueuedMessage) -> SmallVec<[protocol::packet::SubscriptionId; 1]> {
    SmallVec::from_slice(queued.subscription_ids())
}

/// Makes a delivery ready to be sent, or `None` if the client does not take packets of its size. While memory is scarce
/// no topic gets an alias.
fn prepare(
    now: Now,
    connection: &mut Connection,
    delivery: Delivery,
    (packet_id, is_scarce): (Option<PacketId>, bool),
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
            DropCause::NotAuthorized => self.not_authorized += 1,
            DropCause::WatchEnded => self.watch_ended += 1,
        }
    }
}
