//! Exchanges of authentication: who may send what and when, and what the answers of the edge lead to.
//! (MQTT 5.0 section 4.12)
//!
//! The types are in `mqtt/src/authentication.rs`. A CONNECT that waits for an answer has no session yet.

use bytes::Bytes;
use mqtt::authentication::{Answer, Authentication, Credentials, Exchange, Question, Turn};
use mqtt::connection::{Connection, Stage};
use mqtt::ids::ConnectionId;
use mqtt::memory::footprint::block;
use mqtt::now::Now;
use mqtt::principal::Principal;
use protocol::packet::{Auth, Connect, encoded_len};
use protocol::properties::Explanation;
use protocol::{Packet, ReasonCode, Text};

use crate::node::{Action, Node, TimerKey};

impl Node {
    /// Asks who the client of a CONNECT is.
    pub(crate) fn ask_connect(
        &mut self,
        now: Now,
        id: ConnectionId,
        mut connect: Box<Connect>,
        actions: &mut Vec<Action>,
    ) {
        let until = now.instant + self.config.limits.connect_timeout;
        // What is left of it below is part of one piece of memory, as long as the packet.
        let bytes = encoded_len(&Packet::Connect(connect.clone()), connect.version);
        let held = self
            .memory
            .connects
            .hold(bytes as u64 + block(size_of::<Connect>()));
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        self.authenticating += 1;
        let question = Question {
            method: connect.properties.authentication_method.clone(),
            data: connect.properties.authentication_data.take(),
            credentials: Some(Credentials {
                client_id: connect.client_id.clone(),
                username: connect.username.take(),
                password: connect.password.take(),
            }),
            continuation: None,
            principal: None,
        };
        connection.stage = Stage::Authenticating;
        connection.authentication = Some(Box::new(Authentication {
            method: question.method.clone(),
            principal: None,
            expires_at: None,
            exchange: Some(Exchange {
                turn: Turn::Edge,
                until,
            }),
            connect: Some((connect, held)),
        }));
        actions.push(Action::Authenticate {
            connection: id,
            question,
        });
    }

    /// The client id of a CONNECT that waits.
    pub(crate) fn waiting_client(&self, id: ConnectionId) -> Option<Text> {
        let authentication = self.authentication(id);
        match authentication.and_then(|authentication| authentication.connect.as_ref()) {
            Some((connect, _)) => Some(connect.client_id.clone()),
            None => {
                let claim = self.claims.waiting(id);
                claim
                    .map(|claim| claim.client_id.clone())
                    .or_else(|| self.client_of(id))
            }
        }
    }

    /// A packet before CONNACK. [MQTT-4.12.0-3] and [MQTT-3.1.2-30] allow two.
    pub(crate) fn received_authenticating(
        &mut self,
        now: Now,
        id: ConnectionId,
        packet: Packet,
        actions: &mut Vec<Action>,
    ) {
        match packet {
            Packet::Disconnect(_) => self.close_unconnected(id, actions),
            Packet::Auth(auth) if auth.reason == ReasonCode::ContinueAuthentication => {
                if let Err(why) = self.ask_again(now, id, auth, actions) {
                    self.refuse(id, ReasonCode::ProtocolError, why, actions);
                }
            }
            _ => {
                let why = "another packet than AUTH or DISCONNECT before CONNACK";
                self.refuse(id, ReasonCode::ProtocolError, why, actions);
            }
        }
    }

    /// AUTH from a client that is connected: it authenticates again, and all else goes on meanwhile.
    pub(crate) fn received_auth(
        &mut self,
        now: Now,
        id: ConnectionId,
        auth: Auth,
        actions: &mut Vec<Action>,
    ) {
        if let Err(why) = self.ask_again(now, id, auth, actions) {
            return self.protocol_error(now, id, why, actions);
        }
        self.schedule_authentication(id);
    }

    /// Hands an AUTH on to the edge, if this is the time for it. [MQTT-4.12.0-5]
    fn ask_again(
        &mut self,
        now: Now,
        id: ConnectionId,
        auth: Auth,
        actions: &mut Vec<Action>,
    ) -> Result<(), &'static str> {
        let connection = self.connections.get_mut(id);
        let authentication = connection
            .and_then(|connection| connection.authentication.as_deref_mut())
            .filter(|authentication| authentication.method.is_some())
            .ok_or("AUTH without an Authentication Method in CONNECT")?;
        if auth.method != authentication.method {
            return Err("AUTH with another Authentication Method than CONNECT");
        }
        let (continuation, until) = match (authentication.exchange.take(), auth.reason) {
            (None, ReasonCode::Reauthenticate) => (None, now.instant + self.config.limits.connect_timeout),
            (
                Some(Exchange {
                    turn: Turn::Client(continuation),
                    until,
                }),
                ReasonCode::ContinueAuthentication,
            ) => (Some(continuation), until),
            _ => return Err("an AUTH that nothing asked for"),
        };
        authentication.exchange = Some(Exchange {
            turn: Turn::Edge,
            until,
        });
        actions.push(Action::Authenticate {
            connection: id,
            question: Question {
                method: auth.method,
                data: auth.data,
                credentials: None,
                continuation,
                principal: authentication.principal.clone(),
            },
        });
        Ok(())
    }

    /// The edge has answered. Its connection may be gone.
    pub(crate) fn authenticated(
        &mut self,
        now: Now,
        id: ConnectionId,
        answer: Answer,
        actions: &mut Vec<Action>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let is_first = connection.stage == Stage::Authenticating;
        let Some(authentication) = connection.authentication.as_deref_mut() else {
            return;
        };
        assert!(authentication.is_asked(), "an answer has a question");
        match answer {
            Answer::Continue { data, continuation } => {
                self.ask_client(now, id, data, continuation, actions);
            }
            Answer::Accept {
                principal,
                data,
                expires_in,
            } => {
                let is_another = !is_first && !is_same(principal.as_ref(), authentication.principal.as_ref());
                let is_changed = principal != authentication.principal;
                authentication.exchange = None;
                authentication.principal = principal;
                authentication.expires_at = expires_in.map(|expires_in| now.after(expires_in));
                let connect = authentication.connect.take();
                if is_another {
                    // What the connection has was given to who it was.
                    let why = "the client authenticated again as somebody else";
                    return self.end_authentication(now, id, ReasonCode::NotAuthorized, why, actions);
                }
                self.schedule_authentication(id);
                match connect {
                    Some((connect, _)) => {
                        self.end_waiting(id);
                        self.welcome(now, id, connect, data, actions);
                    }
                    None => {
                        if is_changed {
                            self.grant_again(now, id, actions);
                        }
                        self.reauthenticated(id, data, actions);
                    }
                }
            }
            Answer::Refuse { reason, why } => self.end_authentication(now, id, reason, &why, actions),
        }
    }

    /// AUTH 0x18: the client has to say more. [MQTT-4.12.0-2] [MQTT-4.12.0-6]
    fn ask_client(
        &mut self,
        now: Now,
        id: ConnectionId,
        data: Option<Bytes>,
        continuation: Bytes,
        actions: &mut Vec<Action>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Some(authentication) = connection.authentication.as_deref_mut() else {
            return;
        };
        assert!(authentication.method.is_some(), "only a method asks for more");
        let packet = auth_packet(authentication, ReasonCode::ContinueAuthentication, data);
        if encoded_len(&packet, connection.version) > connection.packet_size_max as usize {
            let why = "the Maximum Packet Size is too small for AUTH";
            return self.end_authentication(now, id, ReasonCode::NotAuthorized, why, actions);
        }
        if let Some(exchange) = &mut authentication.exchange {
            exchange.turn = Turn::Client(continuation);
        }
        actions.push(Action::Send {
            connection: id,
            packet,
        });
        actions.push(Action::Resume { connection: id });
    }

    /// AUTH 0x00: a re-authentication has succeeded.
    fn reauthenticated(&mut self, id: ConnectionId, data: Option<Bytes>, actions: &mut Vec<Action>) {
        self.counters.reauthenticated(ReasonCode::Success);
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let Some(authentication) = connection.authentication.as_deref() else {
            return;
        };
        let mut packet = auth_packet(authentication, ReasonCode::Success, data);
        if encoded_len(&packet, connection.version) > connection.packet_size_max as usize {
            // It says no more than that, and a client with so little room has to be content with it.
            packet = auth_packet(authentication, ReasonCode::Success, None);
        }
        if encoded_len(&packet, connection.version) <= connection.packet_size_max as usize {
            actions.push(Action::Send {
                connection: id,
                packet,
            });
        }
    }

    /// The client is not who it has to be. [MQTT-4.12.0-4] [MQTT-4.12.1-2]
    fn end_authentication(
        &mut self,
        now: Now,
        id: ConnectionId,
        reason: ReasonCode,
        why: &str,
        actions: &mut Vec<Action>,
    ) {
        assert!(reason.is_error(), "a refusal is no success");
        let is_first = self
            .connections
            .get(id)
            .is_some_and(|connection| connection.stage == Stage::Authenticating);
        if is_first {
            return self.refuse(id, reason, why, actions);
        }
        let reason = match reason {
            ReasonCode::ServerBusy | ReasonCode::ServerUnavailable => ReasonCode::ServerBusy,
            _ => ReasonCode::NotAuthorized,
        };
        self.counters.reauthenticated(reason);
        self.disconnect(now, id, reason, why, actions);
    }

    /// The time for CONNECT is over, and it is not known who the client is.
    pub(crate) fn give_up_authentication(&mut self, id: ConnectionId, actions: &mut Vec<Action>) {
        if self.authentication(id).is_some_and(Authentication::is_asked) {
            let why = "it took too long to find out who the client is";
            self.refuse(id, ReasonCode::ServerUnavailable, why, actions);
        } else {
            let why = "the client took too long to say who it is";
            self.refuse(id, ReasonCode::NotAuthorized, why, actions);
        }
    }

    /// A re-authentication has lasted long enough, or the last one no longer holds.
    pub(crate) fn authentication_timer(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) {
        let Some(authentication) = self.authentication(id) else {
            return;
        };
        if authentication.expires_at.is_some_and(|at| at <= now.instant) {
            let why = "the authentication has expired";
            self.disconnect(now, id, ReasonCode::MaximumConnectTime, why, actions);
        } else if authentication
            .exchange
            .as_ref()
            .is_some_and(|exchange| exchange.until <= now.instant)
        {
            let why = "the re-authentication took too long";
            self.end_authentication(now, id, ReasonCode::NotAuthorized, why, actions);
        } else {
            self.schedule_authentication(id);
        }
    }

    /// From here on the CONNECT is worked through as one that nobody had to ask about.
    fn end_waiting(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.stage = Stage::AwaitingConnect;
            self.authenticating -= 1;
        }
    }

    /// Takes a connection out, with all that waits for it.
    pub(crate) fn remove_connection(&mut self, id: ConnectionId) -> Option<Connection> {
        let connection = self.connections.remove(id)?;
        self.timers.cancel(TimerKey::Connection(id));
        self.timers.cancel(TimerKey::Pace(id));
        self.timers.cancel(TimerKey::Authentication(id));
        match connection.stage {
            Stage::Authenticating => self.authenticating -= 1,
            _ => {}
        }
        Some(connection)
    }

    /// Who the connection belongs to, if anybody asked.
    pub(crate) fn principal(&self, id: ConnectionId) -> Option<&Principal> {
        self.authentication(id)?.principal.as_ref()
    }

    fn authentication(&self, id: ConnectionId) -> Option<&Authentication> {
        self.connections.get(id)?.authentication.as_deref()
    }

    fn schedule_authentication(&mut self, id: ConnectionId) {
        match self.authentication(id).and_then(Authentication::deadline) {
            Some(deadline) => self.timers.schedule(TimerKey::Authentication(id), deadline),
            None => {
                self.timers.cancel(TimerKey::Authentication(id));
            }
        }
    }
}

/// Whether two exchanges are of the same principal, or both of nobody.
pub(crate) fn is_same(one: Option<&Principal>, other: Option<&Principal>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.is(other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// [MQTT-4.12.0-5]
fn auth_packet(authentication: &Authentication, reason: ReasonCode, data: Option<Bytes>) -> Packet {
    Packet::Auth(Auth {
        reason,
        method: authentication.method.clone(),
        data,
        explanation: Explanation::default(),
    })
}
