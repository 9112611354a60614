//! The client without sockets and clocks: one MQTT 5 session and the state store on top of it.
//!
//! [`Session`] is a state machine: `step(now, event, &mut actions)` and `deadline()`. Whoever drives it opens
//! transports, moves packets and tells the time; the simulator does so with virtual time. The session survives
//! its connections: it connects again, resumes what was inflight, makes subscriptions again when the server has
//! lost them, and registers watched keys again.
//!
//! Of the actions returned together, those of one kind keep their order, and [`Action::Close`] comes after
//! every [`Action::Send`]; otherwise they may be executed in any order.

mod answers;
mod backoff;
mod connection;
mod event;
mod incoming;

pub mod lock;
mod operation;
mod options;
mod outgoing;
mod packet_ids;
mod parked;
mod requests;
mod server_limits;
mod submit;
pub(crate) mod subscriptions;
#[cfg(test)]
pub(crate) mod tests;
mod timeouts;
mod watches;

use std::time::Instant;

use protocol::hlc::HlcClock;
use protocol::packet::{ConnAck, Connect, ConnectProperties, Packet, ProtocolVersion};
use protocol::properties::UserProperties;
use protocol::{ReasonCode, Text};

pub use self::backoff::BackoffLimits;
pub use self::connection::{ConnectionState, LossCause};
pub use self::event::{Action, Event, Now};
pub use self::operation::TopicError;
pub use self::operation::{
    DeliveryId, Item, Message, Operation, OperationError, OperationId, Outcome, StreamId,
};
pub use self::options::{Reconnect, SessionOptions};
pub use self::server_limits::ServerLimits;
pub use self::subscriptions::Streams;

use self::connection::{Connection, Due, goodbye};
use self::incoming::Incoming;
use self::outgoing::{Outgoing, Owner};
use self::packet_ids::PacketIds;
use self::parked::Parked;
use self::requests::Requests;
use self::subscriptions::Subscriptions;
use self::timeouts::Timeouts;
use self::watches::Watches;

/// One MQTT 5 session of a client; see the module.
#[derive(Debug)]
pub struct Session {
    options: SessionOptions,
    connection: Connection,
    ids: PacketIds,
    outgoing: Outgoing,
    incoming: Incoming,
    parked: Parked,
    subscriptions: Subscriptions,
    requests: Requests,
    watches: Watches,
    timeouts: Timeouts,
    clock: HlcClock,
    /// To be sent at the end of this step.
    packets: Vec<Packet>,
    is_closing: bool,
}

impl Session {
    /// The first stream id that a caller may use; the session keeps those below for itself.
    pub const FIRST_STREAM: StreamId = StreamId(16);
    /// The subscription to this client's response topic.
    const RESPONSES: StreamId = StreamId(1);
    /// The subscription to this client's notifications.
    const NOTIFICATIONS: StreamId = StreamId(2);

    /// A session that has not started.
    pub fn new(options: SessionOptions) -> Self {
        Self {
            connection: Connection::new(&options),
            ids: PacketIds::default(),
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            parked: Parked::default(),
            subscriptions: Subscriptions::default(),
            requests: Requests::new(&options.client_id, options.seed),
            watches: Watches::new(&options.client_id),
            timeouts: Timeouts::default(),
            clock: clock(&options.client_id),
            packets: Vec::new(),
            is_closing: false,
            options,
        }
    }

    /// Takes an event in; what has to be done comes out in `actions`.
    pub fn step(&mut self, now: Now, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Start => self.open(now, actions),
            Event::TransportOpened => {
                if self.connection.opened() {
                    self.packets.push(Packet::Connect(Box::new(self.connect())));
                }
            }
            Event::TransportClosed => self.lose(now, LossCause::Transport, actions),
            Event::Received(packet) => self.receive(now, packet, actions),
            Event::Malformed(reason) => self.lose(now, LossCause::Violation { reason }, actions),
            Event::Submit {
                operation,
                request,
                timeout,
            } => {
                self.submit(now, operation, request, timeout, actions);
            }
            Event::Taken(delivery) => self.incoming.taken(delivery),
            Event::Disconnect => self.lose(now, LossCause::Requested, actions),
            Event::Timeout => self.time_passed(now, actions),
        }
        self.send_waiting(now, actions);
        if !self.packets.is_empty() {
            self.connection.sent(now.instant);
            actions.extend(self.packets.drain(..).map(Action::Send));
        }
        if std::mem::take(&mut self.is_closing) {
            actions.push(Action::Close);
        }
    }

    /// When the driver must next call `step` with [`Event::Timeout`].
    pub fn deadline(&self) -> Option<Instant> {
        let watches = if self.connection.limits().is_some() {
            self.watches.deadline()
        } else {
            None
        };
        [
            self.connection.deadline(),
            self.timeouts.deadline(),
            self.parked.deadline(),
            watches,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// True when nothing will happen any more.
    pub fn is_ended(&self) -> bool {
        self.connection.is_ended()
    }

    fn open(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.connection.open(now.instant);
        actions.push(Action::StateChanged(ConnectionState::Connecting));
        actions.push(Action::Open);
    }

    fn receive(&mut self, now: Now, packet: Packet, actions: &mut Vec<Action>) {
        if !self.connection.has_transport() {
            return;
        }
        self.connection.received(now.instant);
        match packet {
            Packet::ConnAck(connack) => self.connected(now, &connack, actions),
            Packet::Publish(publish) => self.published(now, *publish, actions),
            Packet::PubAck(ack) | Packet::PubComp(ack) => {
                let ended = self.outgoing.acknowledged(&ack, &mut self.ids);
                self.end_deliveries(now, ended, actions);
            }
            Packet::PubRec(ack) => {
                let ended = self.outgoing.received(&ack, &mut self.ids, &mut self.packets);
                self.end_deliveries(now, ended, actions);
            }
            Packet::PubRel(ack) => self.incoming.released(ack.packet_id, &mut self.packets),
            Packet::SubAck(suback) => self.subscribed(now, suback, actions),
            Packet::UnsubAck(unsuback) => {
                let operation = self.subscriptions.unsuback(unsuback.packet_id, &mut self.ids);
                self.complete(operation, Ok(Outcome::Unsubscribed), actions);
            }
            Packet::PingResp => self.connection.ponged(),
            Packet::Disconnect(disconnect) => {
                let explanation = disconnect.explanation.reason_string;
                self.lose(
                    now,
                    LossCause::Disconnected {
                        reason: disconnect.reason,
                        explanation,
                    },
                    actions,
                );
            }
            // None of these comes from a server; AUTH needs a method, and this client offers none. [MQTT-4.12.0-6]
            Packet::Connect(_)
            | Packet::Subscribe(_)
            | Packet::Unsubscribe(_)
            | Packet::PingReq
            | Packet::Auth(_) => {
                self.lose(
                    now,
                    LossCause::Violation {
                        reason: ReasonCode::ProtocolError,
                    },
                    actions,
                );
            }
        }
    }

    fn connected(&mut self, now: Now, connack: &ConnAck, actions: &mut Vec<Action>) {
        let is_clean = self.is_clean();
        let is_first = !self.connection.has_been_up();
        if let Err(cause) = self.connection.connected(now.instant, connack) {
            return self.lose(now, cause, actions);
        }
        let session_present = connack.session_present;
        if session_present && is_clean {
            // [MQTT-3.2.2-4]: there is no state on this side that could be resumed.
            return self.lose(
                now,
                LossCause::Violation {
                    reason: ReasonCode::ProtocolError,
                },
                actions,
            );
        }
        actions.push(Action::StateChanged(ConnectionState::Connected {
            session_present,
        }));
        if session_present {
            if is_first {
                self.parked.open(now.instant);
            }
            self.outgoing.resend(now.instant, &mut self.packets);
        } else {
            self.start_over(now, actions);
        }
    }

    /// The server has no session: what it should know is told to it again.
    fn start_over(&mut self, now: Now, actions: &mut Vec<Action>) {
        let ended = self.outgoing.start_over(&mut self.ids);
        self.end_deliveries(now, ended, actions);
        self.incoming.session_lost();
        self.subscriptions.session_lost();
        // A request that was acknowledged and not answered: its reply was lost with the session.
        for unanswered in self.requests.unanswered() {
            let owner = Owner::Request(unanswered.request);
            if !self.outgoing.has(owner) {
                let message = unanswered.message.clone();
                self.outgoing.push(owner, message, Some(unanswered.until));
            }
        }
    }

    /// The connection is gone, or has to go because of `cause`.
    fn lose(&mut self, now: Now, cause: LossCause, actions: &mut Vec<Action>) {
        let has_transport = self.connection.has_transport();
        if self.connection.is_ended() || (!has_transport && cause != LossCause::Requested) {
            return;
        }
        if self.connection.can_say_goodbye() {
            self.packets.extend(goodbye(&cause));
        }
        self.is_closing = has_transport;
        self.incoming.connection_lost();
        self.parked.connection_lost();
        self.subscriptions.connection_lost(&mut self.ids);
        self.watches.connection_lost();
        for request in self.requests.drop_watches() {
            self.outgoing.forget(Owner::Request(request));
            self.timeouts.remove_request(request);
        }
        match self.connection.lost(now.instant, &cause) {
            Some(wait) => actions.push(Action::StateChanged(ConnectionState::Waiting { wait, cause })),
            None => {
                self.end_everything(actions);
                actions.push(Action::StateChanged(ConnectionState::Ended { cause }));
            }
        }
    }

    fn time_passed(&mut self, now: Now, actions: &mut Vec<Action>) {
        match self.connection.due(now.instant) {
            Some(Due::Open) => self.open(now, actions),
            Some(Due::Ping) => self.packets.push(Packet::PingReq),
            Some(Due::Lost(cause)) => self.lose(now, cause, actions),
            None => {}
        }
        for delivery in self.parked.close_if_due(now.instant) {
            self.incoming.taken(delivery);
        }
        self.end_overdue(now, actions);
    }

    /// Sends everything that may be sent. Subscriptions leave first: the reply to a request must find its own.
    fn send_waiting(&mut self, now: Now, actions: &mut Vec<Action>) {
        let Some(limits) = self.connection.limits().copied() else {
            return;
        };
        self.incoming.acknowledge(&mut self.packets);
        self.register_watches(now);
        let with_ids = limits.subscription_identifiers_available && self.options.subscription_identifiers;
        for operation in self
            .subscriptions
            .send(with_ids, &mut self.ids, &mut self.packets)
        {
            self.complete(Some(operation), Ok(Outcome::Unsubscribed), actions);
        }
        let ended = self
            .outgoing
            .send(now.instant, &limits, &mut self.ids, &mut self.packets);
        self.end_deliveries(now, ended, actions);
    }

    /// A clean start is for the first connection only: later ones resume.
    fn is_clean(&self) -> bool {
        self.options.clean_start && !self.connection.has_been_up()
    }

    fn connect(&self) -> Connect {
        let options = &self.options;
        Connect {
            version: ProtocolVersion::V5,
            is_bridge: false,
            client_id: options.client_id.clone(),
            clean_start: self.is_clean(),
            keep_alive: options.keep_alive,
            will: options.will.clone(),
            username: options.username.clone(),
            password: options.password.clone(),
            properties: ConnectProperties {
                session_expiry: Some(options.session_expiry),
                receive_maximum: Some(options.receive_maximum),
                packet_size_max: Some(options.packet_size_max),
                user_properties: UserProperties::EMPTY,
                ..ConnectProperties::default()
            },
        }
    }
}

/// The clock of `__ts`. A colon would not fit into a timestamp.
fn clock(client_id: &Text) -> HlcClock {
    let node = Text::new(client_id.replace(':', "-")).ok();
    let clock = node.and_then(HlcClock::new);
    clock
        .or_else(|| HlcClock::new(Text::from_static("client")))
        .expect("the fallback is a node name")
}
