//! Between the node and its state store: requests go in, answers and notifications become messages.

use std::sync::Arc;

use bytes::Bytes;
use cluster::{GroupId, NodeId};
use mqtt::acks::{AckSequence, Acknowledgement};
use mqtt::authentication::Authentication;
use mqtt::authorization::Right;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::memory::Held;
use mqtt::message::{Delivery, DeliveryKind, Message};
use mqtt::now::Now;
use mqtt::policies::{ConnectionAccess, is_below_sys};
use mqtt::response::{Asking, LateResponse};
use protocol::packet::{Ack, ProtocolVersion, Publish, QoS};
use protocol::properties::MessageProperties;
use protocol::state_store::{Notification, notification_topic};
use protocol::{ReasonCode, TopicName};
use smallvec::SmallVec;
use state_service::{
    Answer, Asker, Checked, Output, Pending, Refused, Remark, RequestTrace, StateStoreService, check,
    check_envelope, properties, reply_room,
};
use store::{Change, Effect};

use crate::node::{Action, Node};
use crate::overload::RESPONSE_WOULD_WAIT;
use crate::publishing::Keeping;
use crate::reply_limits::REPLIES_WAIT;
use crate::report::{CopyNews, Report};
use crate::slow::SlowKind;

impl Node {
    /// PUBLISH to the invoke topic.
    pub(crate) fn received_invoke(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        publish: Publish,
        actions: &mut Vec<Action>,
    ) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let room = check_envelope(&publish, connection.version)
            .and_then(|()| reply_room::room(&publish, connection.packet_size_max));
        let reply_room = match room {
            Ok(room) => room,
            Err(Refused::NotARequest(why)) => {
                return self.not_a_request(now, id, key, &publish, why, actions);
            }
            Err(Refused::ResponseTopic(why)) => {
                let topic = publish.properties.response_topic.clone();
                let refusal = (ReasonCode::TopicNameInvalid, why);
                return self.disconnect_about(now, id, topic, refusal, actions);
            }
            Err(Refused::Expired) => {
                self.counters.store_expired += 1;
                return self.acknowledge_request(now, id, &publish, ReasonCode::Success, None, actions);
            }
        };
        let Some(asking) = self.asking(now, id, key, &publish, actions) else {
            return;
        };
        let span = self
            .tracer
            .begin(now.instant, &publish.properties.user_properties);
        let (Some(connection), Some(entry)) = (self.connections.get_mut(id), self.sessions.get(key)) else {
            return;
        };
        let Some(packet_id) = publish.packet_id else {
            return;
        };
        let asker = Asker {
            asking,
            access: connection.access.as_deref_mut().map(ConnectionAccess::access),
            client_id: entry.client_id.as_str(),
            principal: connection
                .authentication
                .as_deref()
                .and_then(Authentication::principal),
            scan_seal: self.groups.scan_seal(),
            watcher: self.groups.watcher(id.0),
            given_until: self.groups.given_until(),
            ack: connection.acks.open(true, None),
            packet_id,
            reply_room,
            trace: span.map(|span| Box::new(RequestTrace::new(span))),
            held: self.memory.requests.hold(Pending::memory(&publish)),
        };
        match check(now, asker, publish, self.groups.dialect()) {
            Checked::Call(mut call) => {
                let group = self.groups.of_call(&mut call);
                // A request that is refused leaves nothing behind that would have to be ended.
                if call.is_watch() && self.groups.get(group).is_some_and(StateStoreService::takes_calls) {
                    connection.has_watches = true;
                    self.groups.watches(id.0, group);
                }
                self.with_group(now, group, actions, |service, outputs| {
                    service.call(now, call, outputs);
                });
            }
            Checked::Refused(answer, remark) => {
                self.report_refused((id, key), remark, actions);
                self.answer(now, answer, actions);
            }
        }
    }

    /// Counts and reports why a request was refused, if an operator wants to know.
    fn report_refused(
        &mut self,
        (id, key): (ConnectionId, SessionKey),
        remark: Remark,
        actions: &mut Vec<Action>,
    ) {
        match remark {
            Remark::Nothing => {}
            Remark::ClockAhead(ahead_ms) => {
                self.counters.store_clock_ahead += 1;
                let Some(entry) = self.sessions.get(key) else {
                    return;
                };
                actions.push(Action::Report(Report::ClockAhead {
                    connection: id,
                    client_id: entry.client_id.clone(),
                    ahead_ms,
                }));
            }
            Remark::Denied(right, denied) => {
                self.deny(Some(id), key, right, &String::from_utf8_lossy(&denied), actions);
            }
        }
    }

    /// Whether the response may be sent where the request wants it, and is not sure to wait for memory. If not, the request is
    /// refused and not executed.
    fn asking(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        publish: &Publish,
        actions: &mut Vec<Action>,
    ) -> Option<Asking> {
        if self.lacks_memory_for_response(key) {
            self.counters.memory_refused += 1;
            let (reason, why) = (ReasonCode::QuotaExceeded, Some(RESPONSE_WOULD_WAIT));
            self.acknowledge_request(now, id, publish, reason, why, actions);
            return None;
        }
        if self.has_too_many_replies(key) {
            self.counters.store_replies_waiting += 1;
            let (reason, why) = (ReasonCode::QuotaExceeded, Some(REPLIES_WAIT));
            self.acknowledge_request(now, id, publish, reason, why, actions);
            return None;
        }
        let topic = publish.properties.response_topic.clone()?;
        let topic = TopicName::parse(topic).ok()?;
        if is_below_sys(topic.as_str()) {
            self.deny(Some(id), key, Right::Respond, topic.as_str(), actions);
            let why = "topics below $SYS are the server's own";
            self.acknowledge_request(now, id, publish, ReasonCode::NotAuthorized, Some(why), actions);
            return None;
        }
        let may_publish = self.may_publish(id, &topic) || self.is_own_response(key, &topic);
        Some(Asking {
            connection: id,
            may_publish,
        })
    }

    /// What comes out of the state store.
    pub(crate) fn state_store_output(
        &mut self,
        now: Now,
        group: GroupId,
        output: Output,
        actions: &mut Vec<Action>,
    ) {
        match output {
            Output::Persist(ticket, writes, needs_disk) => {
                let ticket = self.commits.log(group, ticket);
                actions.push(Action::Persist {
                    ticket,
                    writes,
                    needs_disk,
                });
            }
            Output::Snapshot { index, term, image } => actions.push(Action::Snapshot {
                group,
                index,
                term,
                image,
            }),
            Output::ToPeer { to, message } => actions.push(Action::ToPeer { to, message }),
            Output::Missing { node, missing } => {
                actions.push(Action::Report(Report::LogTooShort { group, node, missing }));
            }
            Output::Dropped { from, error } => drop_message(from, error, actions),
            Output::Leader { leader, term } => {
                if leader.is_none() {
                    self.miss_leader(group);
                }
                actions.push(Action::Report(Report::Leader { group, leader, term }));
            }
            Output::Answer(answer) => self.answer(now, answer, actions),
            Output::Traced(spans) => actions.push(Action::Traced(spans)),
            Output::Frozen { question, image } => actions.push(Action::Frozen { question, image }),
            Output::PutBack { question, outcome } => self.put_back_ended(question, outcome, actions),
            Output::Effect(effect) => self.notify(now, effect, actions),
            Output::Differs { index } => {
                self.counters.store_differences += 1;
                let news = CopyNews::Differs { index };
                actions.push(Action::Report(Report::Copy { group, news }));
            }
            Output::Fetches => {
                let news = CopyNews::Fetched;
                actions.push(Action::Report(Report::Copy { group, news }));
            }
            Output::Undecided { index } => {
                self.counters.store_undecided += 1;
                let news = CopyNews::Undecided { index };
                actions.push(Action::Report(Report::Copy { group, news }));
            }
            Output::DiskHeldUp { to } => {
                self.counters.leaders_held_up += 1;
                actions.push(Action::Report(Report::DiskHeldUp { group, to }));
            }
            Output::SnapshotUnreadable => {
                let news = CopyNews::SnapshotUnreadable;
                actions.push(Action::Report(Report::Copy { group, news }));
            }
            Output::TimeReckoned { by } => {
                self.counters.times_reckoned += 1;
                actions.push(Action::Report(Report::TimeReckoned { group, by }));
            }
            Output::StoreReplaced => {
                self.counters.store_replaced += 1;
                let news = CopyNews::Replaced;
                actions.push(Action::Report(Report::Copy { group, news }));
            }
        }
    }

    /// Sends the response, then acknowledges the request: whoever is not acknowledged asks again, and is told the same. The other way round
    /// if that might be told something else.
    fn answer(&mut self, now: Now, mut answer: Answer, actions: &mut Vec<Action>) {
        actions.push(Action::Decided {
            verb: answer.verb,
            took: answer.took,
        });
        if answer.took >= self.config.limits.slow_operation {
            let (kind, began) = (SlowKind::Request(answer.verb), now.instant - answer.took);
            self.note_slow(
                now,
                answer.asking.connection,
                (kind, began),
                answer.key.clone(),
                actions,
            );
        }
        if let Some(trace) = answer.trace.take() {
            self.end_request_trace(now, *trace, &answer, actions);
        }
        let ack = Acknowledgement::PubAck(Ack::new(answer.packet_id, ReasonCode::Success));
        let (asking, sequence, is_forgotten) = (answer.asking, answer.ack, answer.is_forgotten);
        if let Some(watched) = answer.watched.clone() {
            self.look_at_watch(now, asking.connection, watched, actions);
        }
        let (verb, is_error) = (answer.verb, answer.is_error);
        let is_sent_as_it_is = match response(now, answer) {
            Some(message) if is_forgotten => {
                self.respond_late((asking, sequence), message);
                true
            }
            Some(message) => self.publish_response(now, message, asking, actions),
            None => true,
        };
        self.counters.decided(verb, is_error || !is_sent_as_it_is);
        self.acknowledge(now, asking.connection, sequence, ack, actions);
    }

    /// Sends a response behind PUBACK on one connection, or never: a session that kept it would give it to a client which
    /// has lost both, and sends the request again.
    fn respond_late(&mut self, (asking, sequence): (Asking, AckSequence), message: Message) {
        let message = message.counted(&self.memory.messages);
        if let Some(connection) = self.connections.get_mut(asking.connection) {
            let response = LateResponse { message, asking };
            connection.acks.respond_behind(sequence, response);
        }
    }

    /// Hands a key's change to the session of the client that watches it.
    fn notify(&mut self, now: Now, effect: Effect, actions: &mut Vec<Action>) {
        let Effect::Changed {
            watcher,
            dialect,
            key,
            change,
            version,
        } = effect;
        let id = ConnectionId(watcher.connection);
        if !self.may_read(id, &key) {
            return;
        }
        let Some(session) = self
            .connections
            .get(id)
            .and_then(mqtt::connection::Connection::session)
        else {
            return;
        };
        let Some(entry) = self.sessions.get(session) else {
            return;
        };
        let Some(topic) = notification_topic(entry.client_id.as_str(), &key) else {
            return;
        };
        let payload = match change {
            Change::Set { value } => Notification::Set { value }.encode(dialect),
            Change::Delete => Notification::Delete.encode(dialect),
        };
        let mut message = own_message(now, topic, payload);
        message.properties.user_properties = properties::of_notification(version);
        self.counters.store_notifications += 1;
        if self.policies.has_auditors {
            self.notify_auditors(now, (session, &key), message.clone(), actions);
        }
        let delivery = Delivery {
            message: Arc::new(message),
            qos: QoS::AtLeastOnce,
            retain: false,
            subscription_ids: SmallVec::new(),
            kind: DeliveryKind::Notification,
            dup: false,
        };
        self.deliver(now, session, delivery, actions);
    }

    /// Hands a notification to other sessions that have subscribed to it and may hear what others are notified of the key. Only
    /// sessions with a connection at this node do: nothing is kept for the others.
    fn notify_auditors(
        &mut self,
        now: Now,
        (watching, key): (SessionKey, &[u8]),
        message: Message,
        actions: &mut Vec<Action>,
    ) {
        let mut scratch = std::mem::take(&mut self.routes);
        scratch.begin();
        let (subscriptions, sessions) = (&self.subscriptions, &mut self.sessions);
        let (connections, policies) = (&self.connections, &self.policies);
        subscriptions.matches(message.topic.as_str(), &mut |session, subscription| {
            let Some(entry) = sessions.get_mut(session).filter(|_| session != watching) else {
                return;
            };
            let connection = connections.get(entry.connection);
            if connection.is_some_and(|connection| policies.may_audit(connection, key)) {
                scratch.add(session, entry, subscription, &message);
            }
        });
        self.publish_to(now, message, scratch, Keeping::Memory, actions);
    }

    /// A PUBLISH to the invoke topic that is no request: refused as far as the client can be told.
    fn not_a_request(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        publish: &Publish,
        why: &'static str,
        actions: &mut Vec<Action>,
    ) {
        self.counters.store_not_requests += 1;
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let reason = match connection.version {
            ProtocolVersion::V5 => ReasonCode::ImplementationSpecificError,
            ProtocolVersion::V311 => ReasonCode::Success,
        };
        self.report_refused_publish(id, key, &publish.topic, (reason, why), actions);
        self.acknowledge_request(now, id, publish, reason, Some(why), actions);
    }

    fn acknowledge_request(
        &mut self,
        now: Now,
        id: ConnectionId,
        publish: &Publish,
        reason: ReasonCode,
        why: Option<&str>,
        actions: &mut Vec<Action>,
    ) {
        let Some(packet_id) = publish.packet_id else {
            return;
        };
        let ack = match why {
            Some(why) => self.refusing_ack(id, packet_id, reason, why),
            None => Ack::new(packet_id, reason),
        };
        self.confirm(now, id, publish.qos, ack, actions);
    }
}

/// The response to a request, or `None` if it comes too late to be of use.
fn response(now: Now, answer: Answer) -> Option<Message> {
    let topic = TopicName::parse(answer.response_topic).ok()?;
    if answer.expires_at.is_some_and(|at| at <= now.instant) {
        return None;
    }
    let mut message = own_message(now, topic, answer.payload);
    message.expires_at = answer.expires_at;
    message.properties.correlation_data = Some(answer.correlation_data);
    message.properties.user_properties = match (answer.unsupported_version, answer.version) {
        (Some(asked), _) => properties::of_unsupported_version(&asked),
        (None, version) => properties::of_response(version, answer.details.as_deref()),
    };
    Some(message)
}

fn own_message(now: Now, topic: TopicName, payload: Bytes) -> Message {
    Message {
        topic,
        payload,
        properties: MessageProperties::default(),
        qos: QoS::AtLeastOnce,
        retain: false,
        publisher: None,
        expires_at: None,
        received_at: now.instant,
        held: Held::default(),
    }
}

pub(crate) fn drop_message(from: NodeId, error: impl std::fmt::Display, actions: &mut Vec<Action>) {
    let why = error.to_string();
    actions.push(Action::Report(Report::PeerMessageDropped { from, why }));
}
