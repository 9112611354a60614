//! Messages in: from a PUBLISH to the sessions it is for.

use std::sync::Arc;

use cluster::NodeId;
use mqtt::acks::Acknowledgement;
use mqtt::authorization::Right;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::memory::MemoryLevel;
use mqtt::message::{DeliveryKind, Message};
use mqtt::now::Now;
use mqtt::policies::is_servers_own;
use mqtt::records::message::MessageParts;
use protocol::packet::{Ack, PacketId, ProtocolVersion, Publish, QoS};
use protocol::state_store::{INVOKE_TOPIC, is_reserved};
use protocol::{Packet, ReasonCode, Text, TopicName};
use session_plane::connecting::ConnectionId as ClaimId;
use session_plane::publishing::{self, PacketId as PlanePacketId};
use session_plane::stream::StreamFull;
use session_values::{Content, ContentParts};

use crate::denial::NOT_AUTHORIZED;
use crate::node::{Action, Node};
use crate::overload::MEMORY_SCARCE;
use crate::replication::{
    Awaited, Cause, ReplicatedEvent, RetainOutcome, Waiter, packet_id_of, plane_packet_id,
};
use crate::report::Report;
use crate::routing::RouteScratch;
use crate::unknown_recipients::HeldPublish;

/// How far a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// To all nodes, and to the owners of sessions that outlive their connections, before its publisher hears of success.
    Durable,
    /// To connected clients of this node: what the server says of itself.
    Memory,
    /// The same: a reply of the state store to the client of this session.
    Reply(SessionKey),
}

impl Keeping {
    /// Kind of the delivery to a session.
    fn kind_for(self, session: SessionKey) -> DeliveryKind {
        match self {
            Self::Reply(asker) if asker == session => DeliveryKind::Reply,
            Self::Durable | Self::Memory | Self::Reply(_) => DeliveryKind::Message,
        }
    }
}

/// Outcome of a publication.
#[derive(Debug)]
pub(crate) struct Published {
    reason: ReasonCode,
    awaited: Awaited,
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
        if publish.qos != QoS::AtMostOnce && !self.replication.sessions().knows_recipients() {
            return self.hold_publish(id, HeldPublish { publish, topic });
        }
        self.publish_received(now, (id, key), publish, topic, actions);
    }

    /// Publishes the message of a PUBLISH, whose recipients are known.
    pub(crate) fn publish_received(
        &mut self,
        now: Now,
        (id, key): (ConnectionId, SessionKey),
        publish: Box<Publish>,
        topic: TopicName,
        actions: &mut Vec<Action>,
    ) {
        self.begin_message_trace(now, &topic, &publish);
        self.hold_back(now, id, key, (&topic, &publish));
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
        let (qos, packet_id, is_dup) = (publish.qos, publish.packet_id, publish.dup);
        let message = Message::from_publish(*publish, topic, Some(key), now).counted(&self.memory.messages);
        let mut scratch = self.route(&message, Keeping::Durable);
        if self.memory.level > MemoryLevel::Normal && self.lacks_memory_for(&message, &scratch) {
            let Some(packet_id) = packet_id else {
                self.drop_waiting(&mut scratch);
                self.publish_to(now, message, scratch, Keeping::Durable, actions);
                return;
            };
            scratch.clear();
            self.routes = scratch;
            self.counters.memory_refused += 1;
            return self.refuse_for_memory(now, id, (key, &message.topic), (qos, packet_id), actions);
        }
        if let Some(packet_id) = packet_id.filter(|_| qos == QoS::ExactlyOnce) {
            scratch.clear();
            self.routes = scratch;
            return self.publish_once(now, (id, key), message, (packet_id, is_dup), actions);
        }
        let topic = message.topic.clone();
        let published = self.publish_to(now, message, scratch, Keeping::Durable, actions);
        if published.reason.is_error() {
            let refusal = (published.reason, RETAINED_FULL);
            self.report_refused_publish(id, key, topic.text(), refusal, actions);
        }
        self.hold_for_plane(id);
        let Some(packet_id) = packet_id else { return };
        let ack = Ack::new(packet_id, published.reason);
        self.confirm_after(now, id, qos, (ack, published.awaited), actions);
    }

    /// Publishes a message with QoS 2: its packet id is at the owners of the client before it is routed.
    fn publish_once(
        &mut self,
        now: Now,
        (id, key): (ConnectionId, SessionKey),
        message: Message,
        (packet_id, is_dup): (PacketId, bool),
        actions: &mut Vec<Action>,
    ) {
        let Some(entry) = self.sessions.get(key) else {
            return;
        };
        let (claim, client_id) = (entry.claim, entry.client_id.clone());
        let content = self.content_of(now, &message, Some(client_id));
        if message.retain && !(is_dup && self.is_retained_already(now, &message)) {
            let outcome = self.retain(now, &message, Keeping::Durable, actions);
            if outcome.reason.is_error() {
                let topic = message.topic.text().clone();
                self.report_refused_publish(id, key, &topic, (outcome.reason, RETAINED_FULL), actions);
                let ack = Ack::new(packet_id, outcome.reason);
                return self.confirm(now, id, QoS::ExactlyOnce, ack, actions);
            }
        }
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let sequence = connection.acks.open(false, Some(now.instant));
        if let Some(trace) = self.tracer.message.take() {
            connection.acks.trace(sequence, trace);
        }
        if let Some(entry) = self.sessions.get_mut(key) {
            entry.exchanges.begin(packet_id, sequence);
        }
        let publish = publishing::Publish {
            connection: claim,
            packet_id: plane_packet_id(packet_id),
            is_dup,
            content: content.id(),
            body: content,
        };
        self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
            sessions.publish_once(at, publish, made);
        });
        self.hold_for_plane(id);
    }

    /// The topic of a message retains it: a PUBLISH that is sent again does not write it anew.
    fn is_retained_already(&self, now: Now, message: &Message) -> bool {
        let known = self.retained.get(message.topic.as_str(), now);
        known.is_some_and(|known| known.payload == message.payload && known.properties == message.properties)
    }

    /// PUBREC: all nodes have a message, or it has no room.
    pub(crate) fn answer_publish_2(
        &mut self,
        now: Now,
        claim: ClaimId,
        packet_id: PlanePacketId,
        reason: ReasonCode,
        actions: &mut Vec<Action>,
    ) {
        let Some(id) = self.connected_claim(claim) else {
            return;
        };
        let key = self
            .connections
            .get(id)
            .and_then(|connection| connection.session());
        let Some(entry) = key.and_then(|key| self.sessions.get_mut(key)) else {
            return;
        };
        let packet_id = packet_id_of(packet_id);
        let answers = entry.exchanges.answer(packet_id);
        let is_released = entry.exchanges.take_release(packet_id);
        if reason.is_error() {
            entry.exchanges.end(packet_id);
        }
        for sequence in answers {
            let acknowledgement = Acknowledgement::PubRec(Ack::new(packet_id, reason));
            self.acknowledge(now, id, sequence, acknowledgement, actions);
        }
        if is_released {
            self.release_packet_id(now, claim, packet_id, actions);
        }
    }

    /// PUBCOMP: a packet id of the client is free.
    pub(crate) fn freed(
        &mut self,
        claim: ClaimId,
        packet_id: PlanePacketId,
        is_found: bool,
        actions: &mut Vec<Action>,
    ) {
        let Some(id) = self.connected_claim(claim) else {
            return;
        };
        let key = self
            .connections
            .get(id)
            .and_then(|connection| connection.session());
        let Some((key, entry)) = key.and_then(|key| Some((key, self.sessions.get_mut(key)?))) else {
            return;
        };
        let packet_id = packet_id_of(packet_id);
        entry.exchanges.end(packet_id);
        let reason = if is_found {
            ReasonCode::Success
        } else {
            self.report_unknown_id((id, key), "PUBREL", packet_id, actions);
            ReasonCode::PacketIdentifierNotFound
        };
        actions.push(Action::Send {
            connection: id,
            packet: Packet::PubComp(Ack::new(packet_id, reason)), // [MQTT-4.3.3-11]
        });
    }

    /// Routes a message of the server's own, and keeps it as its topic's retained message if it asks for that.
    pub(crate) fn publish_message(
        &mut self,
        now: Now,
        message: Message,
        keeping: Keeping,
        actions: &mut Vec<Action>,
    ) -> Awaited {
        let mut scratch = self.route(&message, keeping);
        if self.is_memory_full() {
            self.drop_waiting(&mut scratch);
        }
        self.publish_to(now, message, scratch, keeping, actions).awaited
    }

    pub(crate) fn publish_to(
        &mut self,
        now: Now,
        message: Message,
        scratch: RouteScratch,
        keeping: Keeping,
        actions: &mut Vec<Action>,
    ) -> Published {
        let mut awaited = Awaited::default();
        let mut reason = ReasonCode::Success;
        if message.retain {
            let outcome = self.retain(now, &message, keeping, actions);
            reason = outcome.reason;
            awaited.events.extend(outcome.event);
        }
        if keeping == Keeping::Durable && !scratch.is_local() {
            match self.send_to_recipients(now, &message, &scratch, actions) {
                Ok(event) => awaited.events.extend(event),
                Err(StreamFull { .. }) => reason = ReasonCode::QuotaExceeded,
            }
        }
        self.deliver_to_routes(now, Arc::new(message), scratch, keeping, actions);
        Published { reason, awaited }
    }

    /// Sends a message to the owners of sessions, and to the nodes of connected ones.
    fn send_to_recipients(
        &mut self,
        now: Now,
        message: &Message,
        scratch: &RouteScratch,
        actions: &mut Vec<Action>,
    ) -> Result<Option<ReplicatedEvent>, StreamFull> {
        let publisher = message.publisher.and_then(|key| self.sessions.get(key));
        let publisher = publisher.map(|entry| entry.client_id.clone());
        let content = self.content_of(now, message, publisher);
        if message.qos == QoS::AtMostOnce {
            let nodes: Vec<NodeId> = scratch.recipients.nodes.iter().copied().collect();
            self.with_sessions(now, Cause::Own, actions, |sessions, _, made| {
                sessions.pass(nodes.into_iter(), &content, made);
            });
            return Ok(None);
        }
        let to = scratch.recipients.clone();
        let dot = self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
            sessions.publish(at, to, content, made)
        })?;
        self.replication.open_event(dot);
        Ok(Some(ReplicatedEvent::of_dot(dot)))
    }

    /// Content of a message, as nodes replicate it.
    pub(crate) fn content_of(&self, now: Now, message: &Message, publisher: Option<Text>) -> Content {
        Content::new(&ContentParts {
            message: MessageParts {
                topic: message.topic.clone(),
                payload: message.payload.clone(),
                properties: message.properties.clone(),
                qos: message.qos,
                retain: message.retain,
            },
            expires_at: message.expires_at.map(|at| now.wall_of(at)),
            publisher,
        })
    }

    /// Delivers a message of another node, or one that all nodes have, to connected sessions of this node.
    pub(crate) fn deliver_content(&mut self, now: Now, content: &Content, actions: &mut Vec<Action>) {
        let mut message = content.to_message(now).counted(&self.memory.messages);
        message.publisher = content.publisher().and_then(|client| self.sessions.find(client));
        let mut scratch = self.route_here(&message, Keeping::Durable);
        if self.is_memory_full() {
            self.drop_waiting(&mut scratch);
        }
        self.deliver_to_routes(now, Arc::new(message), scratch, Keeping::Durable, actions);
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
        scratch.clear();
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
        let sequence = connection.acks.open(true, Some(now.instant));
        if let Some(trace) = self.tracer.message.take() {
            connection.acks.trace(sequence, trace);
        }
        let waiter = Waiter::Ack {
            connection: id,
            sequence,
            acknowledgement: acknowledgement(qos, ack),
        };
        self.after(now, &awaited, waiter, actions);
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
                client_id: entry.client_id.clone(),
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
        let exchanges = &entry.exchanges;
        let is_again = |packet_id| publish.qos == QoS::ExactlyOnce && exchanges.contains(packet_id);
        let outstanding = if publish.packet_id.is_some_and(is_again) {
            connection.acks.undecided()
        } else {
            connection.acks.counted() + exchanges.len()
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

    /// [MQTT-3.3.1-5] [MQTT-3.3.1-6]
    pub(crate) fn retain(
        &mut self,
        now: Now,
        message: &Message,
        keeping: Keeping,
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
        self.retain_everywhere(now, message, actions)
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
