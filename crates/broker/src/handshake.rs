//! CONNECT to CONNACK.

use std::time::Duration;

use bytes::Bytes;
use cluster::Write;
use mqtt::connection::Stage;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::now::Now;
use mqtt::pacing::Pace;
use mqtt::records::session::SessionRecord;
use mqtt::session::Session;
use mqtt::{records, topic_alias, will};
use protocol::packet::{ConnAck, ConnAckProperties, Connect, Disconnect, ProtocolVersion, encoded_len};
use protocol::properties::Explanation;
use protocol::{Packet, ReasonCode, Text};

use crate::clients::Sought;
use crate::closing::Ending;
use crate::node::{Action, Node, TimerKey};
use crate::overload::{MEMORY_FULL, WILL_WHEN_FULL};
use crate::report::Report;
use crate::sessions::SessionEntry;
use crate::slow::SlowKind;
use crate::waiting::Waiter;

/// A CONNECT that is not accepted.
struct Refusal {
    reason: ReasonCode,
    why: &'static str,
}

/// As many clients as may be are connected.
const CONNECTIONS_FULL: Refusal = Refusal {
    reason: ReasonCode::ServerBusy,
    why: "the limit of connections is reached",
};

/// A CONNECT that is, with what was made of its wishes.
struct Accepted {
    connect: Connect,
    /// Session Expiry Interval in seconds.
    expiry: u32,
    /// In seconds; 0 is none.
    keep_alive: u16,
}

impl Node {
    /// The first packet of a connection.
    pub(crate) fn connect(
        &mut self,
        now: Now,
        id: ConnectionId,
        connect: Box<Connect>,
        actions: &mut Vec<Action>,
    ) {
        self.speak(now, id, &connect, actions);
        let is_asked = self
            .connections
            .get(id)
            .is_some_and(|connection| connection.is_asked);
        match self.admit(&connect, is_asked) {
            Ok(()) if is_asked => self.ask_connect(now, id, connect, actions),
            Ok(()) => self.welcome(now, id, *connect, None, actions),
            Err(refusal) => {
                self.refuse_client(id, Some(connect.client_id), refusal.reason, refusal.why, actions);
            }
        }
    }

    /// Lets a client in that may be. `proof` is for the client: the last word of its authentication.
    pub(crate) fn welcome(
        &mut self,
        now: Now,
        id: ConnectionId,
        connect: Connect,
        proof: Option<Bytes>,
        actions: &mut Vec<Action>,
    ) {
        // Others may have become known while it said who it is.
        if self.connections.known_len() >= self.config.limits.connections_max as usize {
            let Refusal { reason, why } = CONNECTIONS_FULL;
            return self.refuse_client(id, Some(connect.client_id), reason, why, actions);
        }
        let Some(client_id) = self.name_and_permit(id, &connect, actions) else {
            return;
        };
        self.connections.know(id);
        if self.must_seek(&connect) {
            let sought = self.sought(connect, proof);
            return self.seek(now, id, sought, actions);
        }
        self.accept(now, id, (connect, client_id, proof), actions);
    }

    /// The client id under which a client may connect as it wishes. `None`: it may not, and was told so.
    fn name_and_permit(
        &mut self,
        id: ConnectionId,
        connect: &Connect,
        actions: &mut Vec<Action>,
    ) -> Option<Text> {
        let client_id = match self.name(connect) {
            Ok(client_id) => client_id,
            Err(refusal) => {
                let client_id = Some(connect.client_id.clone());
                self.refuse_client(id, client_id, refusal.reason, refusal.why, actions);
                return None;
            }
        };
        if let Err((right, resource)) = self.permit(id, &client_id, connect.will.as_ref()) {
            self.deny_connect(id, client_id, right, &resource, actions);
            return None;
        }
        Some(client_id)
    }

    /// A client whose session other nodes are asked for.
    fn sought(&self, mut connect: Connect, proof: Option<Bytes>) -> Sought {
        // They have done what they are for.
        (connect.username, connect.password) = (None, None);
        let connect = Box::new(connect);
        let bytes = encoded_len(&Packet::Connect(connect.clone()), connect.version);
        Sought {
            held: self.memory.connects.hold(bytes as u64),
            connect,
            proof,
            tries: 0,
        }
    }

    /// Lets a client in whose session is here, or nowhere.
    pub(crate) fn let_in(&mut self, now: Now, id: ConnectionId, sought: Sought, actions: &mut Vec<Action>) {
        let Sought {
            connect, proof, held, ..
        } = sought;
        // It waits no more.
        drop(held);
        if self.connections.far_len() > self.config.limits.connections_max as usize && id.is_far() {
            let why = "the limit of connections is reached at the node with the session";
            return self.refuse_client(id, Some(connect.client_id), ReasonCode::ServerBusy, why, actions);
        }
        // Since it was permitted the session may have come here, and another node may have other rules.
        let Some(client_id) = self.name_and_permit(id, &connect, actions) else {
            return;
        };
        self.accept(now, id, (*connect, client_id, proof), actions);
    }

    /// Gives a client its session, which is here or begins here.
    fn accept(
        &mut self,
        now: Now,
        id: ConnectionId,
        (connect, client_id, proof): (Connect, Text, Option<Bytes>),
        actions: &mut Vec<Action>,
    ) {
        let limits = &self.config.limits;
        let asked_expiry = expiry_asked(&connect);
        let expiry = limits.session_expiry(asked_expiry);
        let keep_alive = limits
            .server_keep_alive(connect.keep_alive)
            .filter(|_| connect.version == ProtocolVersion::V5);
        let properties = ConnAckProperties {
            session_expiry: (expiry != asked_expiry).then_some(expiry),
            receive_maximum: Some(limits.receive_maximum),
            packet_size_max: Some(limits.packet_size_max),
            assigned_client_id: connect.client_id.is_empty().then(|| client_id.clone()),
            topic_alias_maximum: Some(limits.topic_alias_maximum),
            response_information: response_information(&connect, &client_id),
            server_keep_alive: keep_alive,
            // [MQTT-4.12.0-5]: that it is supported was decided before.
            authentication_method: connect.properties.authentication_method.clone(),
            authentication_data: proof,
            ..ConnAckProperties::default()
        };
        if !has_room_for(&connect, &properties) {
            let why = "the Maximum Packet Size is too small for CONNACK";
            let reason = ReasonCode::ImplementationSpecificError;
            return self.refuse_client(id, Some(client_id), reason, why, actions);
        }
        let keep_alive = keep_alive.unwrap_or(connect.keep_alive);
        let (key, session_present) = self.take_session(now, &client_id, connect.clean_start, expiry, actions);
        self.attach(
            now,
            id,
            key,
            Accepted {
                connect,
                expiry,
                keep_alive,
            },
            actions,
        );
        actions.push(Action::Report(Report::Connected {
            connection: id,
            client_id,
            principal: self.principal(id).cloned(),
            session_present,
        }));
        let packet = Packet::ConnAck(Box::new(ConnAck {
            session_present,
            reason: ReasonCode::Success,
            properties,
        }));
        self.send_connack(now, id, key, packet, actions);
    }

    /// CONNACK with success, when all that it says is durable; of a client that the server has disconnected too often lately,
    /// after a pause.
    fn send_connack(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        packet: Packet,
        actions: &mut Vec<Action>,
    ) {
        let pause = self
            .sessions
            .get(key)
            .map_or(Duration::ZERO, |entry| entry.forced_ends.pause(now.instant));
        if pause.is_zero() {
            let waiter = Waiter::Connack {
                connection: id,
                packet,
            };
            // What it publishes reaches all nodes, and what it is subscribed to reaches it from all.
            let waiter = self.after_nodes(now, key, waiter);
            // Also what others did to the session before: that it ended must not be undone by a crash.
            return self.after_commit(now, waiter, actions);
        }
        if let Some(connection) = self.connections.get_mut(id) {
            connection.held_connack = Some(Box::new(packet));
            self.timers
                .schedule(TimerKey::Connection(id), now.instant + pause);
        }
    }

    /// A client that was held back has waited long enough.
    pub(crate) fn release_connack(
        &mut self,
        now: Now,
        id: ConnectionId,
        packet: Packet,
        actions: &mut Vec<Action>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.last_received = now.instant;
        if let Some(silence_max) = connection.silence_max() {
            self.timers
                .schedule(TimerKey::Connection(id), now.instant + silence_max);
        }
        let Some(key) = connection.session() else { return };
        let waiter = Waiter::Connack {
            connection: id,
            packet,
        };
        let waiter = self.after_nodes(now, key, waiter);
        self.after_commit(now, waiter, actions);
    }

    /// CONNACK with success: what had to be durable is.
    pub(crate) fn accepted(&mut self, now: Now, id: ConnectionId, packet: Packet, actions: &mut Vec<Action>) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Some(key) = connection.session() else { return };
        connection.stage = Stage::Connected(key);
        // Nothing was read since its CONNECT.
        let connect = (SlowKind::Connect, connection.last_received);
        self.note_slow(now, id, connect, None, actions);
        self.counters.answered(ReasonCode::Success);
        actions.push(Action::Send {
            connection: id,
            packet,
        });
        actions.push(Action::Resume { connection: id });
        // What is inflight comes first, then what waits. [MQTT-4.4.0-1]
        self.pump(now, key, actions);
    }

    /// Takes over how the connection speaks.
    pub(crate) fn speak(&mut self, now: Now, id: ConnectionId, connect: &Connect, actions: &mut Vec<Action>) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let properties = &connect.properties;
        connection.version = connect.version;
        connection.is_bridge = connect.is_bridge;
        connection.wants_problem_information = properties.request_problem_information.unwrap_or(true);
        connection.packet_size_max = properties.packet_size_max.unwrap_or(u32::MAX);
        connection.pace = Pace::new(now.instant, &self.config.limits);
        let packet_size_max = connection.packet_size_max;
        actions.push(Action::Speak {
            connection: id,
            version: connect.version,
            packet_size_max,
        });
        let limits = &self.config.limits;
        if connect.version == ProtocolVersion::V5 {
            connection.inbound_aliases = None;
            let outbound = properties
                .topic_alias_maximum
                .unwrap_or(0)
                .min(limits.topic_alias_outbound_max);
            connection.outbound_aliases =
                (outbound > 0).then(|| Box::new(topic_alias::Outbound::new(outbound, &self.memory.aliases)));
            if limits.topic_alias_maximum > 0 {
                connection.inbound_aliases = Some(Box::new(topic_alias::Inbound::new(
                    limits.topic_alias_maximum,
                    &self.memory.aliases,
                )));
            }
        }
    }

    /// Whether the client may connect, whoever it is.
    fn admit(&self, connect: &Connect, is_asked: bool) -> Result<(), Refusal> {
        if let Some(reason) = self.sends_away() {
            return Err(Refusal {
                reason,
                why: "clients of this server use another one",
            });
        }
        if self.connections.known_len() >= self.config.limits.connections_max as usize {
            return Err(CONNECTIONS_FULL);
        }
        if connect.properties.authentication_method.is_some() && !is_asked {
            let why = "the Authentication Method is not supported";
            return Err(Refusal {
                reason: ReasonCode::BadAuthenticationMethod,
                why,
            });
        }
        // Who has a session comes back to take what waits in it, but brings nothing large along.
        let will = connect.will.as_ref().map_or(0, will::size);
        if self.is_memory_full() && (!self.is_known(connect) || will > WILL_WHEN_FULL) {
            let (reason, why) = MEMORY_FULL;
            return Err(Refusal { reason, why });
        }
        Ok(())
    }

    fn is_known(&self, connect: &Connect) -> bool {
        !connect.client_id.is_empty() && self.sessions.find(&connect.client_id).is_some()
    }

    /// The client id under which the client may have a session.
    fn name(&mut self, connect: &Connect) -> Result<Text, Refusal> {
        let has_none = connect.client_id.is_empty();
        // [MQTT-3.1.3-8] of version 3.1.1.
        if has_none && connect.version == ProtocolVersion::V311 && !connect.clean_start {
            return Err(Refusal {
                reason: ReasonCode::ClientIdentifierNotValid,
                why: "an empty client id needs Clean Session",
            });
        }
        if !self.is_known(connect) && self.sessions.len() >= self.config.limits.sessions_max as usize {
            return Err(Refusal {
                reason: ReasonCode::QuotaExceeded,
                why: "the limit of sessions is reached",
            });
        }
        if has_none {
            return Ok(self.assign_client_id());
        }
        Ok(connect.client_id.detached())
    }

    /// [MQTT-3.1.3-6] [MQTT-3.2.2-16]
    fn assign_client_id(&mut self) -> Text {
        loop {
            let random = self.random();
            let client_id = Text::new(format!("statehold-{random:016x}")).expect("short and without U+0000");
            if self.sessions.find(&client_id).is_none() {
                return client_id;
            }
        }
    }

    /// CONNACK with a failure, and the end of the connection.
    pub(crate) fn refuse(
        &mut self,
        id: ConnectionId,
        reason: ReasonCode,
        why: &str,
        actions: &mut Vec<Action>,
    ) {
        let client_id = self.waiting_client(id);
        self.refuse_client(id, client_id, reason, why, actions);
    }

    /// The same for a client that has said who it is, or nobody knows.
    pub(crate) fn refuse_client(
        &mut self,
        id: ConnectionId,
        client_id: Option<Text>,
        reason: ReasonCode,
        why: &str,
        actions: &mut Vec<Action>,
    ) {
        let report = Report::Refused {
            connection: id,
            client_id,
            reason,
            why: why.to_owned(),
        };
        self.end_connect(id, reason, why, report, actions);
    }

    /// The same; `report` is what the operator is told of it.
    pub(crate) fn end_connect(
        &mut self,
        id: ConnectionId,
        reason: ReasonCode,
        why: &str,
        report: Report,
        actions: &mut Vec<Action>,
    ) {
        self.counters.answered(reason);
        let explanation = self.explain(id, why);
        let properties = ConnAckProperties {
            server_reference: self.server_reference(id, reason),
            explanation,
            ..ConnAckProperties::default()
        };
        let packet = Packet::ConnAck(Box::new(ConnAck {
            session_present: false,
            reason,
            properties,
        }));
        actions.push(Action::Send {
            connection: id,
            packet,
        });
        actions.push(Action::Report(report));
        self.close_unconnected(id, actions);
    }

    /// The Reason String, for those who want one. [MQTT-3.1.2-29]
    pub(crate) fn explain(&self, id: ConnectionId, why: &str) -> Explanation {
        let is_wanted = self
            .connections
            .get(id)
            .is_some_and(|connection| connection.wants_problem_information);
        let reason_string = if is_wanted { Text::new(why).ok() } else { None };
        Explanation {
            reason_string,
            ..Explanation::default()
        }
    }

    /// Finds or makes the session; ends whatever connection it has.
    fn take_session(
        &mut self,
        now: Now,
        client_id: &Text,
        clean_start: bool,
        expiry: u32,
        actions: &mut Vec<Action>,
    ) -> (SessionKey, bool) {
        if let Some(key) = self.sessions.find(client_id) {
            self.take_over(now, key, clean_start, actions);
        }
        match self.sessions.find(client_id) {
            Some(key) if !clean_start => return (key, true),
            Some(key) => self.discard_session(now, key, actions), // [MQTT-3.1.2-4]
            None => {}
        }
        if expiry > 0 {
            self.forget_copy(client_id);
        }
        let number = self.sessions.next_number();
        let session = Session::new(number, client_id.clone(), self.config.limits.of_session());
        if clean_start && expiry > 0 {
            self.note_begun_anew(number);
        }
        let entry = SessionEntry::new(session, expiry);
        (self.sessions.insert(client_id, entry), false)
    }

    /// Ends the connection that a session has, because its client id connects again. [MQTT-3.1.4-3]
    fn take_over(&mut self, now: Now, key: SessionKey, clean_start: bool, actions: &mut Vec<Action>) {
        let Some(old) = self.sessions.get(key).and_then(|entry| entry.connection) else {
            return;
        };
        self.end_for_another(now, old, actions);
        if clean_start && self.sessions.get(key).is_some() {
            self.discard_session(now, key, actions);
        }
    }

    /// Ends a connection because its client has another one. [MQTT-3.1.4-3]
    pub(crate) fn end_for_another(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) {
        self.counters.takeovers += 1;
        let (reason, why) = (
            ReasonCode::SessionTakenOver,
            "another connection uses this client id",
        );
        self.report_disconnect(id, None, (reason, why), actions);
        let disconnect = Disconnect {
            explanation: self.explain(id, why),
            ..Disconnect::new(reason)
        };
        self.send_disconnect(now, id, disconnect, actions);
        actions.push(Action::Close { connection: id });
        // A session that goes on keeps a delayed will from firing; one that ends does not. [MQTT-3.1.3-9]
        self.connection_ended(now, id, Ending::Abnormal, actions);
    }

    /// Binds connection and session.
    fn attach(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        accepted: Accepted,
        actions: &mut Vec<Action>,
    ) {
        let Accepted {
            connect,
            expiry,
            keep_alive,
        } = accepted;
        self.will_step(now, will::Event::Connected { session: key }, actions);
        self.timers.cancel(TimerKey::Session(key));
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        entry.connection = Some(id);
        entry.expiry = expiry;
        entry.disconnected_at = None;
        entry.will = connect.will.map(|will| Box::new(will::detached(&will)));
        let receive_maximum = connect.properties.receive_maximum.unwrap_or(u16::MAX);
        let is_durable = expiry > 0 || entry.session.is_durable();
        entry.session.connect(receive_maximum, is_durable);
        let number = entry.session.number;
        self.note_used(now, number);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.stage = Stage::Accepting(key);
            connection.connected_at = now.wall;
            connection.keep_alive = keep_alive;
            match connection.silence_max() {
                Some(silence_max) => self
                    .timers
                    .schedule(TimerKey::Connection(id), now.instant + silence_max),
                None => {
                    self.timers.cancel(TimerKey::Connection(id));
                }
            }
        }
        self.own(id, key);
        self.withdraw_subscriptions(now, id, key, actions);
        self.note_standing(key);
        self.write_session(now, key);
    }

    /// Writes the session's record, if it has one.
    pub(crate) fn write_session(&mut self, now: Now, key: SessionKey) {
        if let Some(record) = self.session_record(now, key) {
            self.commits.write(record);
        }
    }

    /// The session's record, if it has one.
    pub(crate) fn session_record(&self, now: Now, key: SessionKey) -> Option<Write> {
        let entry = self.sessions.get(key)?;
        if !entry.session.is_durable() {
            return None;
        }
        // A will that waits for its delay belongs to the record until it is published.
        let will = entry.will.as_deref().or_else(|| self.wills.get(key));
        let since = entry.disconnected_at.unwrap_or(now.wall);
        let record = SessionRecord {
            owner: entry.owner.as_deref().cloned(),
            ..entry.session.record(since, entry.expiry, will.cloned())
        };
        Some(records::session::put(&entry.session.client_id, &record))
    }
}

/// Where the client may have replies sent to: what the state store's clients use. A client id that is no part of a topic
/// name gets none. (section 3.2.2.3.15)
fn response_information(connect: &Connect, client_id: &Text) -> Option<Text> {
    let is_wanted = connect.properties.request_response_information == Some(true);
    let is_level = !client_id.contains(['/', '+', '#']);
    (is_wanted && is_level)
        .then(|| Text::new(format!("clients/{}/", &**client_id)).ok())
        .flatten()
}

/// Whether the client takes a CONNACK that accepts it, of which nothing is left out. [MQTT-3.1.2-24]
fn has_room_for(connect: &Connect, properties: &ConnAckProperties) -> bool {
    let Some(packet_size_max) = connect.properties.packet_size_max else {
        return true;
    };
    let connack = Packet::ConnAck(Box::new(ConnAck {
        session_present: false,
        reason: ReasonCode::Success,
        properties: properties.clone(),
    }));
    encoded_len(&connack, connect.version) <= packet_size_max as usize
}

/// The Session Expiry Interval asked for; 3.1.1 knows only "ends now" and "never ends".
fn expiry_asked(connect: &Connect) -> u32 {
    match connect.version {
        ProtocolVersion::V5 => connect.properties.session_expiry.unwrap_or(0),
        ProtocolVersion::V311 if connect.clean_start => 0,
        ProtocolVersion::V311 => u32::MAX,
    }
}
