//! Messages in: from a PUBLISH to the sessions it is for.

use std::sync::Arc;

use mqtt::acks::Acknowledgement;
use mqtt::authorization::Right;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::memory::MemoryLevel;
use mqtt::message::{DeliveryKind, Message};
use mqtt::now::Now;
use mqtt::policies::is_servers_own;
use mqtt::records;
use mqtt::records::topic_value::Told;
use protocol::packet::{Ack, PacketId, ProtocolVersion, Publish, QoS};
use protocol::state_store::{INVOKE_TOPIC, is_reserved};
use protocol::{ReasonCode, Text, TopicName};

use crate::denial::NOT_AUTHORIZED;
use crate::node::{Action, Node};
use crate::overload::MEMORY_SCARCE;
use crate::replication::{ReplicatedEvent, RetainOutcome};
use crate::report::Report;
use crate::routes::{Came, Elsewhere, WaitId};
use crate::routing::RouteScratch;
use crate::waiting::Waiter;

/// Whether persistent sessions keep a message over a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// On disk, before its publisher hears of success.
    Durable,
    /// In memory: what the server says of itself. Retained or queued, it is gone after a restart.
    Memory,
    /// In memory: a reply of the state store to the client of this session.
    Reply(SessionKey),
}

impl Keeping {
    /// Kind of the delivery to a session.
    fn kind_for(self, session: SessionKey) -> DeliveryKind {
        match self {
            Self::Durable => DeliveryKind::Message,
            Self::Reply(asker) if asker == session => DeliveryKind::Reply,
            Self::Memory | Self::Reply(_) => DeliveryKind::Own,
        }
    }
}

/// What became of a message.
#[derive(Debug)]
pub(crate) struct Published {
    reason: ReasonCode,
    /// Other nodes do not have it yet.
    awaited: Awaited,
}

/// What is waited for before a message is acknowledged, beside this node's disk.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Awaited {
    /// Other nodes, which the message goes to.
    pub(crate) wait: Option<WaitId>,
    /// All nodes, which retain it.
    pub(crate) event: Option<ReplicatedEvent>,
}

impl Awaited {
    /// Nothing is.
    fn is_nothing(self) -> bool {
        self.wait.is_none() && self.event.is_none()
    }
}

impl Node {
    /// PUBLISH from a client.
    pub(crate) fn received_publish(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        mut publish: Box<Publish>,
        actions: &mut Vec<Action>,
    ) {
        self.counters.received(publish.qos, publish.payload.len());
        self.tracer.message = None;
        self.pace(now, id, publish.topic.len() + publish.payload.len());
        if publish.qos != QoS::AtMostOnce && self.is_receive_maximum_exceeded(id, key, &publish) {
            let refusal = (ReasonCode::ReceiveMaximumExceeded, TOO_MANY_UNACKNOWLEDGED);
            return self.disconnect_about(now, id, sent_topic(&publish), refusal, actions);
        }
        let topic = match self.resolve_topic(id, &mut publish) {
            Ok(topic) => topic,
            Err(refusal) => return self.disconnect_about(now, id, sent_topic(&publish), refusal, actions),
        };
        if topic.as_str() == INVOKE_TOPIC {
            return self.received_invoke(now, id, key, *publish, actions);
        }
        self.begin_message_trace(now, &topic, &publish);
        self.hold_back(now, id, key, (&topic, &publish));
        if publish.qos == QoS::ExactlyOnce && self.is_received_again(now, id, key, &publish, actions) {
            return;
        }
        if let Some((reason, why)) = self.refusal_of(id, &topic) {
            if reason == ReasonCode::NotAuthorized {
                self.deny(Some(id), key, Right::Publish, topic.as_str(), actions);
            }
            return self.refuse_publish(now, id, (key, &publish, topic.text()), (reason, why), actions);
        }
        if publish.qos != QoS::AtMostOnce && !self.has_room_to_retain(&topic, &publish) {
            self.counters.dropped.retained_full += 1;
            let refusal = (ReasonCode::QuotaExceeded, RETAINED_FULL);
            return self.refuse_publish(now, id, (key, &publish, topic.text()), refusal, actions);
        }
        let (qos, packet_id) = (publish.qos, publish.packet_id);
        let mut message =
            Message::from_publish(*publish, topic, Some(key), now).counted(&self.memory.messages);
        let mut scratch = self.route(&message);
        if let Some(peers) = self.peers.as_mut().filter(|_| qos != QoS::AtMostOnce) {
            message.origin = peers.own_origin(&scratch.elsewhere);
            message.id = peers.latest_id();
        }
        if self.memory.level > MemoryLevel::Normal && self.lacks_memory_for(&message, &scratch.routes) {
            let Some(packet_id) = packet_id else {
                self.drop_waiting(&mut scratch);
                self.publish_to(now, Arc::new(message), scratch, Keeping::Durable, actions);
                return;
            };
            scratch.routes.clear();
            scratch.elsewhere.clear();
            self.routes = scratch;
            self.counters.memory_refused += 1;
            return self.refuse_for_memory(now, id, (key, &message.topic), (qos, packet_id), actions);
        }
        let kept = packet_id.filter(|_| qos == QoS::ExactlyOnce);
        if let Some(kept) = kept {
            self.note_received(key, kept);
        }
        let topic = message.topic.clone();
        let published = self.publish_to(now, Arc::new(message), scratch, Keeping::Durable, actions);
        if published.reason.is_error() {
            let refusal = (published.reason, RETAINED_FULL);
            self.report_refused_publish(id, key, topic.text(), refusal, actions);
        }
        if let Some(kept) = kept.filter(|_| published.awaited.is_nothing()) {
            self.keep_received(key, kept);
        }
        self.hold_for_nodes(id);
        let Some(packet_id) = packet_id else { return };
        let ack = Ack::new(packet_id, published.reason);
        self.confirm_after(now, id, qos, (ack, published.awaited), actions);
    }

    /// Routes a message of the server's own, and keeps it as its topic's retained message if it asks for that.
    pub(crate) fn publish_message(
        &mut self,
        now: Now,
        message: Arc<Message>,
        keeping: Keeping,
        actions: &mut Vec<Action>,
    ) {
        let mut scratch = self.route(&message);
        if self.is_memory_full() {
            self.drop_waiting(&mut scratch);
        }
        self.publish_to(now, message, scratch, keeping, actions);
    }

    /// The same for one that is to be durable; with what is to be waited for.
    pub(crate) fn publish_awaited(
        &mut self,
        now: Now,
        message: Arc<Message>,
        actions: &mut Vec<Action>,
    ) -> Awaited {
        let mut scratch = self.route(&message);
        if self.is_memory_full() {
            self.drop_waiting(&mut scratch);
        }
        self.publish_to(now, message, scratch, Keeping::Durable, actions)
            .awaited
    }

    pub(crate) fn publish_to(
        &mut self,
        now: Now,
        message: Arc<Message>,
        mut scratch: RouteScratch,
        keeping: Keeping,
        actions: &mut Vec<Action>,
    ) -> Published {
        let is_for_others = keeping == Keeping::Durable && !scratch.elsewhere.is_empty();
        let wait = is_for_others.then(|| self.open_wait(&message)).flatten();
        let RetainOutcome { reason, event } = if message.retain {
            self.add_heirs(&mut scratch.elsewhere);
            self.retain(now, &message, keeping, &scratch.elsewhere, actions)
        } else {
            RetainOutcome::DONE
        };
        if keeping == Keeping::Durable && !scratch.elsewhere.is_empty() {
            self.forward(now, &message, &mut scratch.elsewhere, wait);
        }
        let wait = self.keep_open(wait);
        if keeping == Keeping::Durable {
            self.keep_late(&message, &Came::here());
        }
        self.deliver_to_routes(now, message, scratch, keeping, actions);
        let awaited = Awaited { wait, event };
        Published { reason, awaited }
    }

    /// Gives a message to the sessions of this node that it is for.
    #[inline]
    pub(crate) fn deliver_to_routes(
        &mut self,
        now: Now,
        message: Arc<Message>,
        mut scratch: RouteScratch,
        keeping: Keeping,
        actions: &mut Vec<Action>,
    ) {
        let message = if self.is_kept_by_any(&scratch) {
            Arc::new(message.detached())
        } else {
            message
        };
        for route in scratch.routes.drain(..) {
            let session = route.session;
            let delivery = route.delivery(&message, keeping.kind_for(session));
            self.deliver(now, session, delivery, actions);
        }
        self.stored = None;
        self.routes = scratch;
    }

    /// The first acknowledgement of a received message, when all that it promises is durable.
    pub(crate) fn confirm(
        &mut self,
        now: Now,
        id: ConnectionId,
        qos: QoS,
        ack: Ack,
        actions: &mut Vec<Action>,
    ) {
        self.confirm_after(now, id, qos, (ack, Awaited::default()), actions);
    }

    /// The same, when other nodes have what they have to have, too.
    fn confirm_after(
        &mut self,
        now: Now,
        id: ConnectionId,
        qos: QoS,
        (ack, awaited): (Ack, Awaited),
        actions: &mut Vec<Action>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let packet_id = ack.packet_id;
        let key = connection.session();
        let entry = key.and_then(|key| Some((key, self.sessions.get(key)?)));
        let receiver =
            entry.filter(|(_, entry)| qos == QoS::ExactlyOnce && entry.session.received.contains(packet_id));
        let sequence = connection.acks.open(receiver.is_none(), Some(now.instant));
        if let Some(trace) = self.tracer.message.take() {
            connection.acks.trace(sequence, trace);
        }
        let waiter = Waiter::Ack {
            connection: id,
            sequence,
            acknowledgement: acknowledgement(qos, ack),
        };
        let durable = receiver.filter(|(_, entry)| !awaited.is_nothing() && entry.session.is_durable());
        let waiter = match durable {
            Some((session, entry)) => Waiter::Received {
                session,
                number: entry.session.number,
                packet_id,
                then: Box::new(waiter),
            },
            None => waiter,
        };
        self.after_own_writes(now, Self::after_awaited(awaited, waiter), actions);
    }

    /// Lets a waiter wait for what a message needs, too.
    pub(crate) fn after_awaited(awaited: Awaited, waiter: Waiter) -> Waiter {
        let waiter = match awaited.event {
            Some(event) => Waiter::Replicated {
                event,
                then: Box::new(waiter),
            },
            None => waiter,
        };
        Self::after(awaited.wait, waiter)
    }

    /// Refuses a message without ending the connection; at QoS 0 nobody can be told.
    fn refuse_publish(
        &mut self,
        now: Now,
        id: ConnectionId,
        (key, publish, topic): (SessionKey, &Publish, &Text),
        (reason, why): (ReasonCode, &'static str),
        actions: &mut Vec<Action>,
    ) {
        self.report_refused_publish(id, key, topic, (reason, why), actions);
        let Some(packet_id) = publish.packet_id else {
            return;
        };
        let ack = self.refusing_ack(id, packet_id, reason, why);
        self.confirm(now, id, publish.qos, ack, actions);
    }

    /// Tells the operator that a PUBLISH is refused.
    pub(crate) fn report_refused_publish(
        &self,
        id: ConnectionId,
        key: SessionKey,
        topic: &Text,
        (reason, why): (ReasonCode, &'static str),
        actions: &mut Vec<Action>,
    ) {
        if let Some(entry) = self.sessions.get(key) {
            actions.push(Action::Report(Report::PublishRefused {
                connection: id,
                client_id: entry.session.client_id.clone(),
                topic: topic.clone(),
                reason,
                why,
            }));
        }
    }

    /// Refuses a message that the client may send again when there is memory. An acknowledgement of version 3.1.1 cannot
    /// say so: it would have the client forget the message. [MQTT-4.8.0-2] of version 3.1.1
    fn refuse_for_memory(
        &mut self,
        now: Now,
        id: ConnectionId,
        (key, topic): (SessionKey, &TopicName),
        (qos, packet_id): (QoS, PacketId),
        actions: &mut Vec<Action>,
    ) {
        let reason = ReasonCode::QuotaExceeded;
        let connection = self.connections.get(id);
        if connection.is_some_and(|connection| connection.version == ProtocolVersion::V311) {
            let topic = Some(topic.text().clone());
            return self.disconnect_about(now, id, topic, (reason, MEMORY_SCARCE), actions);
        }
        self.report_refused_publish(id, key, topic.text(), (reason, MEMORY_SCARCE), actions);
        let ack = self.refusing_ack(id, packet_id, reason, MEMORY_SCARCE);
        self.confirm(now, id, qos, ack, actions);
    }

    /// Adds the Reason String for those who want one.
    pub(crate) fn refusing_ack(
        &self,
        id: ConnectionId,
        packet_id: PacketId,
        reason: ReasonCode,
        why: &str,
    ) -> Ack {
        let explanation = self.explain(id, why);
        let is_v5 = self
            .connections
            .get(id)
            .is_some_and(|connection| connection.version == ProtocolVersion::V5);
        let explanation = (is_v5 && explanation.reason_string.is_some()).then(|| Box::new(explanation));
        Ack {
            explanation,
            ..Ack::new(packet_id, reason)
        }
    }

    /// [MQTT-3.3.4-7] [MQTT-3.3.4-8]; a 3.1.1 client cannot know the limit, so it is only held to the protocol's own.
    ///
    /// A QoS 2 message that is sent again is not one more [MQTT-4.3.3-10]; those only have to wait for their turn.
    fn is_receive_maximum_exceeded(&self, id: ConnectionId, key: SessionKey, publish: &Publish) -> bool {
        let Some(connection) = self.connections.get(id) else {
            return false;
        };
        let Some(entry) = self.sessions.get(key) else {
            return false;
        };
        let limit = match connection.version {
            ProtocolVersion::V5 => self.config.limits.receive_maximum,
            ProtocolVersion::V311 => u16::MAX,
        };
        let received = &entry.session.received;
        let is_again = |packet_id| publish.qos == QoS::ExactlyOnce && received.contains(packet_id);
        let outstanding = if publish.packet_id.is_some_and(is_again) {
            connection.acks.undecided()
        } else {
            connection.acks.counted() + received.len()
        };
        outstanding >= usize::from(limit)
    }

    fn resolve_topic(
        &mut self,
        id: ConnectionId,
        publish: &mut Publish,
    ) -> Result<TopicName, (ReasonCode, &'static str)> {
        if publish.topic_alias.is_some() {
            let is_full = self.is_memory_full();
            let aliases = self
                .connections
                .get_mut(id)
                .and_then(|connection| connection.inbound_aliases.as_mut());
            let Some(aliases) = aliases else {
                return Err((ReasonCode::TopicAliasInvalid, "topic aliases are not accepted"));
            };
            return aliases.resolve(publish, is_full).map_err(|reason| match reason {
                ReasonCode::QuotaExceeded => (reason, "memory is full, and the topic alias would take more"),
                _ => (
                    reason,
                    "the topic alias is above the maximum or stands for no topic",
                ),
            });
        }
        let topic = TopicName::parse(publish.topic.clone());
        let topic = topic.map_err(|_| {
            (
                ReasonCode::TopicNameInvalid,
                "the topic name is empty or has wildcards",
            )
        })?;
        let is_allowed = self.config.limits.allow_topic(topic.as_str());
        if !is_allowed && publish.qos == QoS::AtMostOnce {
            return Err((ReasonCode::TopicNameInvalid, TOPIC_TOO_LONG));
        }
        Ok(topic)
    }

    /// Topics that the client may not publish to.
    fn refusal_of(&mut self, id: ConnectionId, topic: &TopicName) -> Option<(ReasonCode, &'static str)> {
        if !self.config.limits.allow_topic(topic.as_str()) {
            return Some((ReasonCode::TopicNameInvalid, TOPIC_TOO_LONG));
        }
        if is_reserved(topic.as_str()) {
            return Some((
                ReasonCode::NotAuthorized,
                "the topic is reserved for notifications of the state store",
            ));
        }
        if is_servers_own(topic.as_str()) {
            return Some((
                ReasonCode::NotAuthorized,
                "topics below $SYS are the server's own",
            ));
        }
        (!self.may_publish(id, topic)).then_some((ReasonCode::NotAuthorized, NOT_AUTHORIZED))
    }

    /// Whether a message that is to be retained can be. One that cannot is refused as a whole: an error says that it was
    /// not taken, and a QoS 2 sender forgets its packet id with it.
    fn has_room_to_retain(&self, topic: &TopicName, publish: &Publish) -> bool {
        if !publish.retain || publish.payload.is_empty() {
            return true;
        }
        let size = mqtt::message::size(topic.as_str(), &publish.payload, &publish.properties);
        self.has_room_for_topic(topic, size)
    }

    /// QoS 2: one whose packet id is known was routed already. [MQTT-4.3.3-10]
    fn is_received_again(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        publish: &Publish,
        actions: &mut Vec<Action>,
    ) -> bool {
        let (Some(packet_id), Some(entry)) = (publish.packet_id, self.sessions.get(key)) else {
            return false;
        };
        if !entry.session.received.contains(packet_id) {
            return false;
        }
        // What the first one wrote may still be on its way to the disk.
        let Some(connection) = self.connections.get_mut(id) else {
            return true;
        };
        let sequence = connection.acks.open(false, Some(now.instant));
        let acknowledgement = Acknowledgement::PubRec(Ack::new(packet_id, ReasonCode::Success));
        let waiter = Waiter::Ack {
            connection: id,
            sequence,
            acknowledgement,
        };
        // And on its way to other nodes.
        let wait = self.peers.as_mut().and_then(|peers| peers.wait_for_messages());
        let waiter = match wait {
            Some(_) => Self::after(wait, Waiter::Durable(Box::new(waiter))),
            None => waiter,
        };
        let event = self.replication.latest_open();
        let waiter = Self::after_awaited(Awaited { wait: None, event }, waiter);
        self.after_commit(now, waiter, actions);
        true
    }

    /// QoS 2: the message is taken; its packet id is known from now on.
    fn note_received(&mut self, key: SessionKey, packet_id: PacketId) {
        if let Some(entry) = self.sessions.get_mut(key) {
            entry.session.received.insert(packet_id);
        }
    }

    /// The packet id is known over a restart, too: in one batch with what this node keeps of the message. Where other nodes get it, it
    /// is kept when they have it: else a crash could acknowledge what they never got.
    fn keep_received(&mut self, key: SessionKey, packet_id: PacketId) {
        let entry = self.sessions.get(key);
        if let Some(entry) = entry.filter(|entry| entry.session.is_durable()) {
            self.commits
                .write(records::received::put(entry.session.number, packet_id));
        }
    }

    /// [MQTT-3.3.1-5] [MQTT-3.3.1-6]
    fn retain(
        &mut self,
        now: Now,
        message: &Arc<Message>,
        keeping: Keeping,
        elsewhere: &Elsewhere,
        actions: &mut Vec<Action>,
    ) -> RetainOutcome {
        let is_clear = message.payload.is_empty();
        if !is_clear && self.lacks_memory_to_retain(message) {
            self.counters.dropped.memory += 1;
            return RetainOutcome::DONE;
        }
        if keeping != Keeping::Durable {
            match is_clear {
                true => self.retained.remove(&message.topic),
                false => self.retained.keep_own(Arc::new(message.detached())),
            };
            return RetainOutcome::DONE;
        }
        let told = match &self.peers {
            Some(peers) if !is_clear => peers.told(elsewhere),
            _ => Told::All,
        };
        self.retain_everywhere(now, message, &told, actions)
    }

    /// Retained messages whose Message Expiry Interval has passed are gone. [MQTT-3.3.2-5]
    pub(crate) fn drop_expired_retained(&mut self, now: Now) {
        // What is left when the turn is over has its next deadline, and is sent to nobody.
        while !self.work.is_turn_over()
            && let Some((message, edition)) = self.retained.pop_expired(now)
        {
            self.work.charge(EXPIRED_UNITS);
            if edition.is_some() {
                self.note_expired(&message.topic);
            }
        }
    }
}

/// What taking out a message costs that has expired, in [units](crate::turns).
const EXPIRED_UNITS: u64 = 2;

/// What a client is told whose topic name passes the limits.
const TOPIC_TOO_LONG: &str = "the topic name is too long or has too many levels";

/// What a client is told that sends more than it may.
const TOO_MANY_UNACKNOWLEDGED: &str =
    "more messages without acknowledgement than the server's Receive Maximum";

/// What a client is told whose message finds no room to be retained.
const RETAINED_FULL: &str = "the limit of retained messages is reached";

/// The topic name of a PUBLISH, if an alias does not stand for it.
fn sent_topic(publish: &Publish) -> Option<Text> {
    Some(publish.topic.clone()).filter(|topic| !topic.is_empty())
}

fn acknowledgement(qos: QoS, ack: Ack) -> Acknowledgement {
    match qos {
        QoS::ExactlyOnce => Acknowledgement::PubRec(ack),
        QoS::AtMostOnce | QoS::AtLeastOnce => Acknowledgement::PubAck(ack),
    }
}
