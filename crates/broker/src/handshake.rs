//! CONNECT to CONNACK.

use std::num::NonZeroU16;
use std::time::Duration;

use mqtt::connection::Stage;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::now::Now;
use mqtt::ownership::Owner;
use mqtt::pacing::Pace;
use mqtt::{topic_alias, will};
use protocol::packet::{ConnAck, ConnAckProperties, Connect, Disconnect, ProtocolVersion, encoded_len};
use protocol::properties::Explanation;
use protocol::{Packet, ReasonCode, Text};
use session_plane::connecting::{self, ConnectionId as ClaimId, KnownSession, RefuseReason};
use session_plane::sessions::{ConnectionRest, ConnectionValues, NewWill, SessionRest};
use session_plane::wills::WillEnd;
use session_plane::{Birth, ClientId, SessionExpiry};
use session_values::{Content, SessionTerms, Value, WillMessage};

use crate::claims::{Claim, Proof, Terms};
use crate::closing::Ending;
use crate::node::{Action, Node, TimerKey};
use crate::overload::{MEMORY_FULL, WILL_WHEN_FULL};
use crate::replication::Cause;
use crate::report::Report;
use crate::sessions::SessionEntry;
use crate::slow::SlowKind;

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

/// A message that was published now would miss the sessions of an older data directory.
const TAKING_OVER: Refusal = Refusal {
    reason: ReasonCode::ServerBusy,
    why: "the server takes over the sessions of its older version",
};

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
            Ok(()) => self.welcome(now, id, connect, None, actions),
            Err(refusal) => {
                self.refuse_client(id, Some(connect.client_id), refusal.reason, refusal.why, actions);
            }
        }
    }

    /// Claims the session of a client that may be let in. `proof` is for the client: the last word of its
    /// authentication.
    pub(crate) fn welcome(
        &mut self,
        now: Now,
        id: ConnectionId,
        connect: Box<Connect>,
        proof: Proof,
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
        let terms = self.terms(&connect, &client_id, proof);
        if !has_room_for(&connect, &terms.properties) {
            let why = "the Maximum Packet Size is too small for CONNACK";
            let reason = ReasonCode::ImplementationSpecificError;
            return self.refuse_client(id, Some(client_id), reason, why, actions);
        }
        self.claim(now, id, connect, (client_id, terms), actions);
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

    /// Terms on which a client is let in.
    fn terms(&self, connect: &Connect, client_id: &Text, proof: Proof) -> Terms {
        let limits = &self.config.limits;
        let asked_expiry = expiry_asked(connect);
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
            response_information: response_information(connect, client_id),
            server_keep_alive: keep_alive,
            // [MQTT-4.12.0-5]: that it is supported was decided before.
            authentication_method: connect.properties.authentication_method.clone(),
            authentication_data: proof,
            ..ConnAckProperties::default()
        };
        Terms {
            expiry,
            keep_alive: keep_alive.unwrap_or(connect.keep_alive),
            properties,
        }
    }

    /// Claims the session of a client from its owners.
    fn claim(
        &mut self,
        now: Now,
        id: ConnectionId,
        mut connect: Box<Connect>,
        (client_id, terms): (Text, Terms),
        actions: &mut Vec<Action>,
    ) {
        // They have done what they are for.
        (connect.username, connect.password) = (None, None);
        let owner = Owner::of(self.principal(id).cloned(), self.policy_name(id));
        let values = connection_values(&connect, &client_id, (terms.expiry, owner));
        let asked = connecting::Connect {
            client: ClientId::new(client_id.as_bytes()).expect("a client id is a string of MQTT"),
            is_clean: connect.clean_start,
        };
        let begun = self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
            sessions.connect(at, asked, values, made)
        });
        let Ok(claim) = begun else {
            let Refusal { reason, why } = CONNECTIONS_FULL;
            return self.refuse_client(id, Some(client_id), reason, why, actions);
        };
        let bytes = encoded_len(&Packet::Connect(connect.clone()), connect.version);
        let held = self.memory.connects.hold(bytes as u64);
        self.claims.begin(
            id,
            Claim::new(claim, connect, (client_id, terms), (now.instant, held)),
        );
        self.timers.cancel(TimerKey::Connection(id));
        if let Some(connection) = self.connections.get_mut(id) {
            connection.stage = Stage::Claiming;
        }
    }

    /// A client has its session.
    pub(crate) fn claimed(
        &mut self,
        now: Now,
        claim: ClaimId,
        is_present: bool,
        (birth, known): (Birth, &KnownSession<Value>),
        actions: &mut Vec<Action>,
    ) {
        let Some(id) = self.claims.connection(claim) else {
            return;
        };
        let Some(Claim {
            connect,
            client_id,
            terms,
            since,
            ..
        }) = self.claims.take(id)
        else {
            return;
        };
        let forced = self.forced_ends.pause(now.instant, &client_id);
        let key = self.begin_session(now, id, (claim, birth), (&connect, &client_id, &terms));
        self.resume_subscriptions(key, birth, known);
        self.withdraw_subscriptions(now, id, key, actions);
        self.sessions.recount(key);
        self.note_slow(now, id, (SlowKind::Connect, since), None, actions);
        actions.push(Action::Report(Report::Connected {
            connection: id,
            client_id,
            principal: self.principal(id).cloned(),
            session_present: is_present,
        }));
        let packet = Packet::ConnAck(Box::new(ConnAck {
            session_present: is_present,
            reason: ReasonCode::Success,
            properties: terms.properties,
        }));
        self.send_connack(now, id, (packet, forced), actions);
    }

    /// A client gets no session.
    pub(crate) fn claim_refused(
        &mut self,
        now: Now,
        claim: ClaimId,
        refused: RefuseReason,
        actions: &mut Vec<Action>,
    ) {
        let Some(id) = self.claims.connection(claim) else {
            return;
        };
        let (client_id, why) = (self.waiting_client(id), refused.to_string());
        self.end_claim(now, id, actions);
        self.refuse_client(id, client_id, ReasonCode::ServerUnavailable, &why, actions);
    }

    /// Ends a claim: the client has left, or gets no session.
    pub(crate) fn end_claim(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) {
        let Some(claim) = self.claims.take(id) else {
            return;
        };
        self.claims.end(claim.id);
        let rest = ConnectionRest {
            will: WillEnd::Dropped,
            session: SessionRest::Expires(SessionExpiry::of_seconds(claim.terms.expiry)),
        };
        self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
            sessions.close(at, claim.id, rest, made);
        });
    }

    /// CONNACK with success; of a client that the server has disconnected too often lately, after a pause.
    fn send_connack(
        &mut self,
        now: Now,
        id: ConnectionId,
        (packet, pause): (Packet, Duration),
        actions: &mut Vec<Action>,
    ) {
        if pause.is_zero() {
            return self.accept_when_known(now, id, packet, actions);
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
        self.accept_when_known(now, id, packet, actions);
    }

    /// CONNACK, once it is known who is to get what the client publishes.
    fn accept_when_known(&mut self, now: Now, id: ConnectionId, packet: Packet, actions: &mut Vec<Action>) {
        if self.replication.sessions().knows_recipients() {
            self.accepted(now, id, packet, actions);
        } else {
            self.held.connacks.insert(id, packet);
        }
    }

    /// CONNACK with success: what had to be durable is.
    pub(crate) fn accepted(&mut self, now: Now, id: ConnectionId, packet: Packet, actions: &mut Vec<Action>) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Some(key) = connection.session() else { return };
        connection.stage = Stage::Connected(key);
        self.counters.answered(ReasonCode::Success);
        actions.push(Action::Send {
            connection: id,
            packet,
        });
        actions.push(Action::Resume { connection: id });
        self.send_early(now, key, actions);
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
        if self.replication.has_older_sessions() {
            return Err(TAKING_OVER);
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
        !connect.client_id.is_empty() && self.replication.has_session(&connect.client_id)
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
        if !self.is_known(connect)
            && self.replication.sessions_len() >= self.config.limits.sessions_max as usize
        {
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
            if !self.replication.has_session(&client_id) {
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

    /// Ends a connection because its client has another one. [MQTT-3.1.4-3]
    pub(crate) fn end_for_another(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) {
        self.counters.takeovers += 1;
        let why = "another connection uses this client id";
        self.end_without_session(now, id, (ReasonCode::SessionTakenOver, why), actions);
    }

    /// Ends a connection whose session is not its own any more.
    pub(crate) fn end_without_session(
        &mut self,
        now: Now,
        id: ConnectionId,
        (reason, why): (ReasonCode, &str),
        actions: &mut Vec<Action>,
    ) {
        self.report_disconnect(id, None, (reason, why), actions);
        let disconnect = Disconnect {
            explanation: self.explain(id, why),
            ..Disconnect::new(reason)
        };
        self.send_disconnect(now, id, disconnect, actions);
        actions.push(Action::Close { connection: id });
        self.connection_ended(now, id, Ending::Replaced, actions);
    }

    /// Begins the session of a connection at this node.
    fn begin_session(
        &mut self,
        now: Now,
        id: ConnectionId,
        (claim, birth): (ClaimId, Birth),
        (connect, client_id, terms): (&Connect, &Text, &Terms),
    ) -> SessionKey {
        let entry = SessionEntry {
            is_durable: terms.expiry > 0,
            expiry: terms.expiry,
            will_delay: connect.will.as_ref().map(|will| will.delay.unwrap_or(0)),
            ..SessionEntry::new(
                client_id.clone(),
                id,
                (claim, birth),
                self.config.limits.of_session(),
            )
        };
        let key = self.sessions.insert(client_id, entry);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.stage = Stage::Accepting(key);
            connection.connected_at = now.wall;
            connection.last_received = now.instant;
            connection.keep_alive = terms.keep_alive;
            if let Some(silence_max) = connection.silence_max() {
                self.timers
                    .schedule(TimerKey::Connection(id), now.instant + silence_max);
            }
        }
        self.own(id, key);
        key
    }
}

/// Values of the entries that a CONNECT makes.
fn connection_values(
    connect: &Connect,
    client_id: &Text,
    (expiry, owner): (u32, Option<Owner>),
) -> ConnectionValues<Value> {
    let receive_maximum = connect.properties.receive_maximum.unwrap_or(u16::MAX);
    let will = connect.will.as_ref().map(|will| {
        let content = Content::of_will(will, Some(client_id.clone()));
        let delay = will.delay.unwrap_or(0);
        NewWill {
            value: Value::Will(WillMessage::new(content, delay)),
            is_delayed: delay > 0,
        }
    });
    ConnectionValues {
        connection: Value::Blank,
        session: Value::Session(SessionTerms::new(expiry, owner)),
        will,
        receive_maximum: NonZeroU16::new(receive_maximum).unwrap_or(NonZeroU16::MAX),
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
