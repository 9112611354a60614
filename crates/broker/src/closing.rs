//! How connections and sessions end.

use std::time::{Duration, Instant};

use mqtt::connection::Stage;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::now::Now;
use protocol::packet::{DecodeError, Disconnect, ProtocolVersion};
use protocol::{Packet, ReasonCode, Text};
use session_plane::publishing::DueWill;
use session_plane::sessions::{ConnectionRest, SessionRest};
use session_plane::wills::WillEnd;
use session_plane::{ClientId, SessionExpiry};
use session_values::Content;

use crate::node::{Action, Node, TimerKey};
use crate::overload::NO_MEMORY_TO_READ;
use crate::publishing::Keeping;
use crate::replication::Cause;
use crate::report::{EndedBy, Report};

/// In which way a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// DISCONNECT with Normal disconnection: no will. [MQTT-3.14.4-3]
    Normal,
    /// Everything else.
    Abnormal,
    /// The session is another connection's, or has ended: nothing becomes of it here.
    Replaced,
}

/// How far the end of a node's service is.
#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    /// The node stops, or was removed, and says goodbye by then.
    pub(crate) stops_by: Option<Instant>,
    /// It has; and has stopped when it has left the cluster.
    pub(crate) has_said_goodbye: bool,
    /// The cluster has decided to remove it.
    pub(crate) is_leaving: bool,
}

/// How long a node that stops waits at most for others to lead.
const STOPPING_MAX: Duration = Duration::from_secs(1);

/// Bytes of a packet that is not complete which count as a sign of life. Even a modem of 1 kB/s sends as much within a Keep Alive.
pub const PART_BYTES_MIN: usize = 1_024;

impl Node {
    /// DISCONNECT from the client.
    pub(crate) fn received_disconnect(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        disconnect: &Disconnect,
        actions: &mut Vec<Action>,
    ) {
        if let (Some(expiry), Some(entry)) = (disconnect.session_expiry, self.sessions.get_mut(key)) {
            // [MQTT-3.14.2-2] forbids what section 3.14.2.2.2 calls a protocol error.
            if entry.expiry == 0 && expiry > 0 {
                return self.protocol_error(
                    now,
                    id,
                    "a Session Expiry Interval of 0 cannot be changed",
                    actions,
                );
            }
            entry.expiry = self.config.limits.session_expiry(expiry);
        }
        let ending = if disconnect.reason == ReasonCode::Success {
            Ending::Normal
        } else {
            Ending::Abnormal
        };
        actions.push(Action::Close { connection: id });
        self.counters.ended(disconnect.reason);
        self.report_end(id, EndedBy::Client, actions);
        self.connection_ended(now, id, ending, actions);
    }

    /// The network connection is gone.
    pub(crate) fn lost(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) {
        if self
            .connections
            .get(id)
            .is_some_and(|connection| connection.is_connected())
        {
            self.counters.ended(ReasonCode::UnspecifiedError);
        }
        self.report_end(id, EndedBy::Loss, actions);
        self.connection_ended(now, id, Ending::Abnormal, actions);
    }

    /// Bytes that are no packet.
    pub(crate) fn violated(
        &mut self,
        now: Now,
        id: ConnectionId,
        error: &DecodeError,
        actions: &mut Vec<Action>,
    ) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        self.counters.violated(error);
        let reason = error.reason_code();
        match connection.stage {
            Stage::AwaitingConnect => {}
            Stage::Authenticating | Stage::Claiming => {
                self.end_claim(now, id, actions);
                return self.refuse(id, reason, &error.to_string(), actions);
            }
            Stage::Accepting(_) | Stage::Connected(_) => {
                let topic = error.topic().cloned();
                return self.disconnect_about(now, id, topic, (reason, &error.to_string()), actions);
            }
        }
        if let Some(version) = error.connack_version() {
            actions.push(Action::Speak {
                connection: id,
                version,
                packet_size_max: u32::MAX,
            });
            return self.refuse(id, reason, &error.to_string(), actions);
        }
        actions.push(Action::Report(Report::Refused {
            connection: id,
            client_id: None,
            reason,
            why: error.to_string(),
        }));
        self.close_unconnected(id, actions);
    }

    /// Ends a connection whose packet grew while there was no memory for the rest of it.
    pub(crate) fn overrun(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        self.counters.overruns += 1;
        let (reason, why) = NO_MEMORY_TO_READ;
        match connection.stage {
            Stage::AwaitingConnect => {
                actions.push(Action::Report(Report::Refused {
                    connection: id,
                    client_id: None,
                    reason,
                    why: why.to_owned(),
                }));
                self.close_unconnected(id, actions);
            }
            Stage::Authenticating | Stage::Claiming => {
                self.end_claim(now, id, actions);
                self.refuse(id, reason, why, actions);
            }
            Stage::Accepting(_) | Stage::Connected(_) => {
                self.disconnect(now, id, reason, why, actions);
            }
        }
    }

    /// The edge does not let the client stay.
    pub(crate) fn dismiss(&mut self, now: Now, id: ConnectionId, why: &str, actions: &mut Vec<Action>) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        match connection.stage {
            Stage::AwaitingConnect => self.close_unconnected(id, actions),
            Stage::Authenticating | Stage::Claiming => {
                self.end_claim(now, id, actions);
                self.refuse(id, ReasonCode::NotAuthorized, why, actions);
            }
            Stage::Accepting(_) | Stage::Connected(_) => {
                self.disconnect(now, id, ReasonCode::NotAuthorized, why, actions);
            }
        }
    }

    /// The client did what the protocol forbids.
    pub(crate) fn protocol_error(
        &mut self,
        now: Now,
        id: ConnectionId,
        why: &str,
        actions: &mut Vec<Action>,
    ) {
        self.disconnect(now, id, ReasonCode::ProtocolError, why, actions);
    }

    /// Ends a connection and says why.
    pub(crate) fn disconnect(
        &mut self,
        now: Now,
        id: ConnectionId,
        reason: ReasonCode,
        why: &str,
        actions: &mut Vec<Action>,
    ) {
        self.disconnect_about(now, id, None, (reason, why), actions);
    }

    /// Ends a connection because of a topic.
    pub(crate) fn disconnect_about(
        &mut self,
        now: Now,
        id: ConnectionId,
        topic: Option<Text>,
        (reason, why): (ReasonCode, &str),
        actions: &mut Vec<Action>,
    ) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        if connection.stage == Stage::Claiming {
            self.end_claim(now, id, actions);
            return self.refuse(id, ReasonCode::ServerUnavailable, why, actions);
        }
        self.report_disconnect(id, topic, (reason, why), actions);
        let disconnect = Disconnect {
            server_reference: self.server_reference(id, reason),
            explanation: self.explain(id, why),
            ..Disconnect::new(reason)
        };
        self.send_disconnect(now, id, disconnect, actions);
        actions.push(Action::Close { connection: id });
        self.connection_ended(now, id, Ending::Abnormal, actions);
    }

    /// Tells the operator why the server ends a client's connection.
    pub(crate) fn report_disconnect(
        &self,
        id: ConnectionId,
        topic: Option<Text>,
        (reason, why): (ReasonCode, &str),
        actions: &mut Vec<Action>,
    ) {
        if let Some(client_id) = self.client_of(id) {
            actions.push(Action::Report(Report::Disconnected {
                connection: id,
                client_id,
                principal: self.principal(id).cloned(),
                reason,
                why: why.to_owned(),
                topic,
            }));
        }
    }

    /// Sends a DISCONNECT where the protocol has one for servers. [MQTT-3.14.0-1]
    pub(crate) fn send_disconnect(
        &mut self,
        now: Now,
        id: ConnectionId,
        disconnect: Disconnect,
        actions: &mut Vec<Action>,
    ) {
        self.counters.ended(disconnect.reason);
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let is_taken_over = disconnect.reason == ReasonCode::SessionTakenOver;
        if let Some(entry) = connection.session().and_then(|key| self.sessions.get(key))
            && (entry.is_durable || is_taken_over)
        {
            self.forced_ends.count(now.instant, &entry.client_id);
        }
        if connection.version == ProtocolVersion::V5 && connection.is_connected() {
            actions.push(Action::Send {
                connection: id,
                packet: Packet::Disconnect(disconnect),
            });
        }
    }

    /// Closes a connection that has no session.
    pub(crate) fn close_unconnected(&mut self, id: ConnectionId, actions: &mut Vec<Action>) {
        self.remove_connection(id);
        actions.push(Action::Close { connection: id });
    }

    /// A connection's silence, or its missing CONNECT, has lasted long enough to look at it.
    pub(crate) fn connection_timer(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if let Some(packet) = connection.held_connack.take() {
            return self.release_connack(now, id, *packet, actions);
        }
        let Some(silence_max) = connection.silence_max() else {
            match connection.stage {
                Stage::AwaitingConnect => self.close_unconnected(id, actions),
                Stage::Authenticating => self.give_up_authentication(id, actions),
                Stage::Claiming | Stage::Accepting(_) | Stage::Connected(_) => {}
            }
            return;
        };
        if !connection.is_reading() {
            // It is the server that does not listen.
            connection.last_received = now.instant;
        }
        let until = connection.last_received + silence_max;
        if until > now.instant {
            // Activity does not touch the timer; it only moves on when it fires.
            self.timers.schedule(TimerKey::Connection(id), until);
        } else {
            // [MQTT-3.1.2-22]
            self.disconnect(
                now,
                id,
                ReasonCode::KeepAliveTimeout,
                "nothing came within the Keep Alive",
                actions,
            );
        }
    }

    /// A packet is on its way. A slow upload is no silence: its client cannot send PINGREQ before the packet ends. One whose bytes come
    /// more slowly than [`PART_BYTES_MIN`] in each Keep Alive is silent all the same, so that no packet is on its way for ever.
    pub(crate) fn part_received(&mut self, now: Now, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        match connection.stage {
            Stage::Accepting(_) | Stage::Connected(_) => connection.last_received = now.instant,
            // Before CONNACK the time for everything together is bounded.
            Stage::AwaitingConnect | Stage::Authenticating | Stage::Claiming => {}
        }
    }

    /// What follows for the session when its connection ends.
    pub(crate) fn connection_ended(
        &mut self,
        now: Now,
        id: ConnectionId,
        ending: Ending,
        actions: &mut Vec<Action>,
    ) {
        let Some(connection) = self.remove_connection(id) else {
            return;
        };
        self.forget_held_back(id);
        if connection.has_watches {
            for group in self.groups.end_watching(id.0).iter() {
                self.with_group(now, group, actions, |service, outputs| {
                    service.connection_ended(now, id.0, outputs);
                });
            }
        }
        self.held.forget(id);
        if let Some(key) = connection.session() {
            self.end_session(now, key, ending, actions);
        } else {
            self.end_claim(now, id, actions);
        }
    }

    /// The session of a connection that has ended leaves this node; its owners have the rest.
    fn end_session(&mut self, now: Now, key: SessionKey, ending: Ending, actions: &mut Vec<Action>) {
        self.store_unacknowledged(now, key, actions);
        self.store_due(now, key, actions);
        let Some(mut entry) = self.sessions.retire(key) else {
            return;
        };
        self.claims.end(entry.claim);
        self.end_waits_of(now, entry.claim, actions);
        self.counters.dropped.not_connected += entry.outbox.len() as u64;
        let delay = Duration::from_secs(u64::from(entry.will_delay.unwrap_or(0).min(entry.expiry)));
        let rest = ConnectionRest {
            will: match ending {
                Ending::Normal => WillEnd::Dropped,
                Ending::Abnormal | Ending::Replaced => WillEnd::Left { delay },
            },
            session: match ending {
                Ending::Normal | Ending::Abnormal => {
                    SessionRest::Expires(SessionExpiry::of_seconds(entry.expiry))
                }
                // Whoever comes finds no session that ends with its connection.
                Ending::Replaced if entry.expiry == 0 => SessionRest::Expires(SessionExpiry::WITH_CONNECTION),
                Ending::Replaced => SessionRest::TakenOver,
            },
        };
        let is_durable = entry.is_durable;
        self.leave_all(now, (key, is_durable), std::mem::take(&mut entry.filters));
        self.drop_outbox(now, entry.outbox);
        self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
            sessions.close(at, entry.claim, rest, made);
        });
    }

    /// A will is due. Its client may have lost the right to publish it meanwhile. What its topic retains is written.
    pub(crate) fn will_due(&mut self, now: Now, due: DueWill, content: &Content, actions: &mut Vec<Action>) {
        let Some(client_id) = client_id_of(&due.client) else {
            return;
        };
        let is_allowed = self.may_publish_will(&client_id, content.topic());
        self.with_sessions(now, Cause::Own, actions, |sessions, at, made| match is_allowed {
            true => sessions.publish_will(at, due, made),
            false => sessions.refuse_will(at, due, made),
        });
        if !is_allowed {
            return self.deny_will(client_id, content.topic(), actions);
        }
        self.counters.wills_published += 1;
        if content.retain() {
            let message = content.published_at(now.wall).to_message(now);
            self.retain(
                now,
                &message.counted(&self.memory.messages),
                Keeping::Durable,
                actions,
            );
        }
    }

    /// Others shall lead what this node leads, and what it has taken shall be decided. After that, or when that takes too long, it
    /// says goodbye.
    pub(crate) fn stop(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.ending.stops_by = Some(now.instant + STOPPING_MAX);
        self.with_each_group(now, actions, |service, outputs| service.stop(now, outputs));
        self.with_control(now, actions, |control, _, outputs, actions| {
            control.stop(now, outputs, actions);
        });
    }

    /// Says goodbye when others lead; and has stopped when others know what became of its sessions, which go on there.
    pub(crate) fn go_on_stopping(&mut self, now: Now, actions: &mut Vec<Action>) {
        let Some(by) = self.ending.stops_by else { return };
        let is_over = by <= now.instant;
        if !self.ending.has_said_goodbye && (is_over || self.groups.have_stopped()) {
            self.ending.has_said_goodbye = true;
            self.say_goodbye(now, actions);
        }
        if is_over || self.ending.has_said_goodbye && self.has_left_nothing() {
            self.ending.stops_by = None;
        }
    }

    /// All that its clients have left is durable at the other nodes.
    fn has_left_nothing(&self) -> bool {
        self.commits.is_settled() && self.replication.is_settled()
    }

    /// Says goodbye to everybody.
    fn say_goodbye(&mut self, now: Now, actions: &mut Vec<Action>) {
        let (reason, why) = self.farewell();
        for id in self.connections.ids() {
            self.disconnect(now, id, reason, why, actions);
        }
    }

    fn report_end(&self, id: ConnectionId, by: EndedBy, actions: &mut Vec<Action>) {
        if let Some(client_id) = self.client_of(id) {
            actions.push(Action::Report(Report::Ended {
                connection: id,
                client_id,
                by,
            }));
        }
    }
}

/// Client id of a client of the session plane. Entries that came from clients have one.
fn client_id_of(client: &ClientId) -> Option<Text> {
    std::str::from_utf8(client.as_bytes())
        .ok()
        .and_then(|id| Text::new(id).ok())
}
