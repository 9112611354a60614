//! One cluster member as a state machine.
//!
//! [`Node::step`] takes what happened and says what to do; nothing here reads a clock, a socket or a disk. This
//! file only routes: connecting is in `handshake.rs`, messages in `publishing.rs` and `delivery.rs`, subscriptions
//! in `subscribing.rs` and `sharing.rs`, who a client is in `authenticating.rs`, the end of connections in `closing.rs`, the state store in
//! `invoking.rs`.
//!
//! Invariant: whatever tells somebody "done" leaves only after [`Event::Durable`] for all it depends on.

mod event;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::replica::Replica;
use cluster::{GroupId, Index, Term};
use mqtt::acks::{AckSequence, Acknowledgement};
use mqtt::connection::{Connection, Connections, Stage};
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::limits::Limits;
use mqtt::memory::Memory;
use mqtt::now::Now;
use mqtt::policies::{Policies, PoliciesInForce};
use mqtt::response::LateResponse;
use mqtt::retained::Retained;
use mqtt::subscriptions::{Shares, Subscriptions};
use mqtt::timers::Timers;
use mqtt::traces::{Tracer, TracesConfig};
use protocol::Packet;
use session_plane::SlotSet;
use session_plane::delivering::DeliveryAnswer;
use state_service::{Groups, Output, StateStoreService};
use store::Store;

pub use self::event::{Action, Event};
use crate::backups::Restorations;
use crate::claims::Claims;
use crate::closing::Shutdown;
use crate::commits::Commits;
use crate::control_group::ControlGroup;
use crate::counters::{Counters, Gauges, ReplicaGauges};
use crate::redirect::Redirect;
use crate::relay::Relay;
use crate::replication::Replication;
use crate::routing::ShareStrategy;
use crate::sessions::{ForcedEnds, Sessions};
use crate::slow::SlowKind;
use crate::sys_topics::SysTopics;
use crate::turns::{Turns, Work, WorkCounters};
use crate::unknown_recipients::UnknownRecipients;
use crate::watch_loss::WatchLoss;

/// Settings of a node.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// All limits.
    pub limits: Limits,
    /// How often what is below `$SYS` is published; `None`: never.
    pub sys_interval: Option<Duration>,
    /// Who of those who share a subscription gets a message.
    pub share_strategy: ShareStrategy,
    /// Time for which a node may be silent until nobody waits for it any more.
    pub silence_max: Duration,
    /// What clients may do, by listener.
    pub policies: Policies,
    /// Another server for the clients.
    pub redirect: Option<Redirect>,
    /// What is traced; `None`: nothing.
    pub traces: Option<TracesConfig>,
    /// Slots of the cluster, the same ones at all nodes; `None`: all. Simulations of a few clients have those of
    /// these clients.
    pub slots: Option<SlotSet>,
    /// Seeds whatever must not be guessable by clients: hashers, assigned client ids.
    pub seed: u64,
}

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TimerKey {
    /// The first packet, and later silence.
    Connection(ConnectionId),
    /// The end of a pause of a client that published too fast.
    Pace(ConnectionId),
    /// The end of a pause of a publisher while memory is critical.
    HeldBack(ConnectionId),
    /// The end of a re-authentication, or of what the last one found out.
    Authentication(ConnectionId),
    /// The next connections whose clients may have what they may not have any more.
    Withdrawal,
    /// The next part of what is too much for one turn.
    Turn,
}

/// What a timer costs, in [units](crate::turns), whatever it is for.
const TIMER_UNITS: u64 = 4;

/// A cluster member: connections, sessions, subscriptions, retained messages and the state store.
#[derive(Debug)]
pub struct Node {
    pub(crate) config: NodeConfig,
    pub(crate) connections: Connections,
    /// Connections at the session plane.
    pub(crate) claims: Claims,
    /// Sessions of connected clients.
    pub(crate) sessions: Sessions,
    pub(crate) forced_ends: ForcedEnds,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) shares: Shares,
    pub(crate) retained: Retained,
    pub(crate) replication: Box<Replication>,
    /// Packets that wait until the recipients of messages are known.
    pub(crate) held: UnknownRecipients,
    pub(crate) timers: Timers<TimerKey>,
    pub(crate) commits: Commits,
    pub(crate) groups: Groups,
    /// Where the node is a member of a cluster.
    pub(crate) control: Option<Box<ControlGroup>>,
    /// Ways round broken links to other nodes.
    pub(crate) relay: Relay,
    /// Items that an operator has put back, until they are on disk.
    pub(crate) restorations: Restorations,
    pub(crate) outputs: Vec<Output>,
    pub(crate) routes: crate::routing::RouteScratch,
    pub(crate) tracer: Tracer,
    pub(crate) work: Work,
    pub(crate) turns: Turns,
    pub(crate) counters: Counters,
    pub(crate) memory: Memory,
    pub(crate) sys_topics: SysTopics,
    pub(crate) policies: PoliciesInForce,
    /// Connections that have missed a change of a key that they watch, until the step ends.
    pub(crate) missed: BTreeMap<ConnectionId, WatchLoss>,
    /// Connections whose CONNECT waits until it is known who sent it.
    pub(crate) authenticating: usize,
    pub(crate) ending: Shutdown,
    pub(crate) random: u64,
}

impl Node {
    /// Works through one event.
    pub fn step(&mut self, now: Now, event: Event, actions: &mut Vec<Action>) {
        let before = actions.len();
        match event {
            Event::Opened {
                connection,
                waited,
                is_asked,
                policy,
            } => {
                self.opened(now, connection, waited, is_asked);
                if let Some(connection) = self.connections.get_mut(connection) {
                    connection.policy = policy;
                }
            }
            Event::Policies(policies) => self.replace_policies(now, policies),
            Event::Authenticated { connection, answer } => {
                self.authenticated(now, connection, answer, actions);
            }
            Event::Received { connection, packet } => self.received(now, connection, packet, actions),
            Event::PartReceived { connection } => self.part_received(now, connection),
            Event::Violated { connection, error } => self.violated(now, connection, &error, actions),
            Event::Dismissed { connection, why } => self.dismiss(now, connection, &why, actions),
            Event::Lost { connection } => self.lost(now, connection, actions),
            Event::Drained { connection } => self.drained(now, connection, actions),
            Event::Durable { ticket } => self.durable(now, ticket, actions),
            Event::SnapshotWritten { group, index, term } => {
                self.with_group(now, group, actions, |service, outputs| {
                    service.snapshot_written(now, index, term, outputs);
                });
            }
            Event::SnapshotFailed { group } => {
                self.with_group(now, group, actions, |service, outputs| {
                    service.snapshot_failed(outputs);
                });
            }
            Event::Cluster { question, asks } => self.cluster_question(now, question, asks, actions),
            Event::Administer { question, wanted } => self.administer(now, question, wanted, actions),
            Event::Called { caller } => {
                self.with_control(now, actions, |control, _, _, _| control.called(now, caller));
            }
            Event::Links { reached } => {
                self.greet_planes(now, &reached, actions);
                self.links_changed(now, reached, actions);
            }
            Event::Heard { from } => self.heard(now, from, actions),
            Event::Peer { from, message } => self.peer_message(now, from, &message, actions),
            Event::Buffered {
                outbound,
                inbound,
                engine,
            } => {
                (self.memory.outbound, self.memory.inbound) = (outbound, inbound);
                self.memory.engine = engine;
            }
            Event::Overrun { connection } => self.overrun(now, connection, actions),
            Event::Flush => {
                self.flush(now, actions);
                self.end_turn();
            }
            Event::Stop => self.stop(now, actions),
            Event::Timeout => self.timeout(now, actions),
        }
        self.end_watchers(now, actions);
        self.watch_memory(now, actions);
        self.go_on_stopping(now, actions);
        self.take_news(now, actions);
        self.go_round(&mut actions[before..]);
    }

    /// When the node must be stepped with [`Event::Timeout`] next.
    pub fn deadline(&self, now: Now) -> Option<Instant> {
        let deadlines = [
            self.timers.next(),
            self.retained.next_expiry(),
            self.replication.deadline(),
            self.groups.deadline(now),
            self.control.as_ref().map(|control| control.deadline()),
            self.relay.deadline(),
            self.sys_topics.deadline(),
            self.ending.stops_by,
        ];
        deadlines.into_iter().flatten().min()
    }

    /// False while a connection's next packets must wait; [`Action::Resume`] ends it.
    pub fn is_reading(&self, connection: ConnectionId) -> bool {
        let connection = self.connections.get(connection);
        !self.is_stopping() && connection.is_some_and(|connection| connection.is_reading())
    }

    /// Whether a connection's client has been let in.
    pub fn is_connected(&self, connection: ConnectionId) -> bool {
        let connection = self.connections.get(connection);
        connection.is_some_and(|connection| connection.is_connected())
    }

    /// From [`Event::Stop`] on until the node has stopped: others take over what it leads and what it holds, what it took is decided, and it says goodbye.
    pub fn is_stopping(&self) -> bool {
        self.ending.stops_by.is_some()
    }

    /// False while there are keys about which the state store cannot decide anything.
    pub fn is_available(&self) -> bool {
        self.groups.is_available()
    }

    /// What was counted since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The work that was done since the start.
    pub fn work(&self) -> WorkCounters {
        let scan_keys = self.groups.iter().map(StateStoreService::scan_steps).sum();
        WorkCounters {
            scan_keys,
            ..self.work.counters
        }
    }

    /// The groups of the state store.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        self.groups.ids()
    }

    /// A group of the state store, to look at.
    pub fn state_store(&self, group: GroupId) -> Option<&Store> {
        self.groups.get(group).map(StateStoreService::store)
    }

    /// The same, for a simulator to damage it.
    pub fn state_store_mut(&mut self, group: GroupId) -> Option<&mut Store> {
        self.groups.get_mut(group).map(StateStoreService::store_mut)
    }

    /// Up to which entry of its log that is.
    pub fn applied(&self, group: GroupId) -> Option<Index> {
        let service = self.groups.get(group)?;
        Some(service.replica().applied().index)
    }

    /// In which term this node leads a group; `None`: it does not.
    pub fn leads(&self, group: GroupId) -> Option<Term> {
        let replica = self.groups.get(group)?.replica();
        replica.is_leader().then(|| replica.term())
    }

    /// What there is at this moment.
    pub fn gauges(&self) -> Gauges {
        let replicas = || self.groups.iter().map(StateStoreService::replica);
        let totals = self.sessions.totals();
        Gauges {
            connections: self.connections.len(),
            authenticating: self.authenticating,
            sessions: self.replication.sessions_len(),
            subscriptions: self.subscriptions.len() + self.shares.subscriptions(),
            shares: self.shares.len(),
            retained_messages: self.retained.len(),
            retained_bytes: self.retained.bytes(),
            retained_own_messages: self.retained.own_messages(),
            retained_own_bytes: self.retained.own_bytes(),
            replication: self.replication_figures(),
            sessions_connected: self.sessions.len(),
            inflight: self.replication.in_flight(),
            waiting_messages: totals.waiting_messages,
            waiting_bytes: totals.waiting_bytes,
            log_applied: replicas().map(|replica| replica.applied().index.0).sum(),
            log_term: replicas().map(|replica| replica.term().0).max().unwrap_or(0),
            log_bytes: replicas().map(Replica::log_bytes).sum(),
            store: self.groups.usage(),
            store_quota: self.groups.quota(),
            store_requests_waiting: self.groups.pending_len(),
            memory: self.memory_use(),
            memory_max: self.config.limits.memory_max,
            memory_level: self.memory.level,
        }
    }

    /// This node's part in each group of the state store.
    pub fn replicas(&self) -> impl Iterator<Item = ReplicaGauges> + '_ {
        let replicas = self.groups.iter().map(StateStoreService::replica);
        replicas.map(ReplicaGauges::of)
    }

    /// A number that clients cannot guess, from the seed.
    pub(crate) fn random(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea, Flood 2014): every seed gives a full period.
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn opened(&mut self, now: Now, id: ConnectionId, waited: Duration, is_asked: bool) {
        self.connections.insert(Connection::new(
            id,
            now.instant,
            is_asked,
            self.config.limits.outbound_bytes_max as usize,
        ));
        self.timers.schedule(
            TimerKey::Connection(id),
            now.instant + self.config.limits.connect_timeout.saturating_sub(waited),
        );
        self.counters.connections_opened += 1;
    }

    pub(crate) fn received(&mut self, now: Now, id: ConnectionId, packet: Packet, actions: &mut Vec<Action>) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.last_received = now.instant;
        let key = match (connection.stage, packet) {
            (Stage::AwaitingConnect, Packet::Connect(connect)) => {
                return self.connect(now, id, connect, actions);
            }
            // [MQTT-3.1.0-1]: nothing but a close answers another first packet.
            (Stage::AwaitingConnect, _) => return self.close_unconnected(id, actions),
            (Stage::Authenticating, packet) => {
                return self.received_authenticating(now, id, packet, actions);
            }
            // Nothing is read while its session is claimed.
            (Stage::Claiming, _) => return,
            (Stage::Accepting(key) | Stage::Connected(key), packet) => {
                self.received_connected(now, id, key, packet, actions);
                key
            }
        };
        self.pump(now, key, actions);
    }

    fn received_connected(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        packet: Packet,
        actions: &mut Vec<Action>,
    ) {
        match packet {
            Packet::Publish(publish) => self.received_publish(now, id, key, publish, actions),
            Packet::PubAck(ack) => {
                self.received_answer(now, key, (ack.packet_id, DeliveryAnswer::Puback), actions);
            }
            Packet::PubRec(ack) => {
                let answer = match ack.reason.is_error() {
                    true => DeliveryAnswer::PubrecError,
                    false => DeliveryAnswer::Pubrec,
                };
                self.received_answer(now, key, (ack.packet_id, answer), actions);
            }
            Packet::PubRel(ack) => self.received_pubrel(now, key, &ack, actions),
            Packet::PubComp(ack) => {
                self.received_answer(now, key, (ack.packet_id, DeliveryAnswer::Pubcomp), actions);
            }
            Packet::Subscribe(subscribe) => self.received_subscribe(now, id, key, subscribe, actions),
            Packet::Unsubscribe(unsubscribe) => self.received_unsubscribe(now, id, key, unsubscribe, actions),
            Packet::PingReq => actions.push(Action::Send {
                connection: id,
                packet: Packet::PingResp,
            }),
            Packet::Disconnect(disconnect) => self.received_disconnect(now, id, key, &disconnect, actions),
            Packet::Connect(_) => self.protocol_error(now, id, "a second CONNECT", actions), // [MQTT-3.1.0-2]
            Packet::Auth(auth) => self.received_auth(now, id, auth, actions),
            Packet::ConnAck(_) | Packet::SubAck(_) | Packet::UnsubAck(_) | Packet::PingResp => {
                self.protocol_error(now, id, "a packet that only servers send", actions);
            }
        }
    }

    pub(crate) fn drained(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.is_congested = false;
        connection.send_budget = self.config.limits.outbound_bytes_max as usize;
        let Some(key) = connection.session() else { return };
        if let Some(entry) = self.sessions.get(key) {
            let claim = entry.claim;
            self.pause_session(now, claim, false, actions);
        }
        self.pump(now, key, actions);
    }

    /// Decides a received PUBLISH.
    pub(crate) fn acknowledge(
        &mut self,
        now: Now,
        id: ConnectionId,
        sequence: AckSequence,
        acknowledgement: Acknowledgement,
        actions: &mut Vec<Action>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let (mut traced, mut responses) = (Vec::new(), Vec::new());
        let received = connection
            .acks
            .decide(now.instant, sequence, acknowledgement, |ready| {
                actions.push(Action::Send {
                    connection: id,
                    packet: ready.acknowledgement.into(),
                });
                traced.extend(ready.trace.map(|trace| *trace));
                responses.extend(ready.response);
            });
        self.end_message_traces(now, id, traced, actions);
        for response in responses {
            let LateResponse { message, asking } = *response;
            self.publish_response(now, message, asking, actions);
        }
        if let Some(received) = received {
            self.note_slow(now, id, (SlowKind::Publish, received), None, actions);
        }
    }

    fn flush(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.wait_for_sweep(now);
        self.with_each_group(now, actions, |service, outputs| service.flush(now, outputs));
        if self.control.as_ref().is_some_and(|control| control.has_news()) {
            self.with_control(now, actions, |control, _, outputs, actions| {
                control.flush(now, outputs, actions);
            });
        }
        self.flush_replication(now, actions);
        self.close_batch(actions);
    }

    fn timeout(&mut self, now: Now, actions: &mut Vec<Action>) {
        // What is left when the turn is over is still due, and comes in the next one.
        while !self.work.is_turn_over()
            && let Some(timer) = self.timers.due(now.instant)
        {
            self.work.charge(TIMER_UNITS);
            match timer {
                TimerKey::Connection(id) => self.connection_timer(now, id, actions),
                TimerKey::Pace(id) => self.end_pause(now, id, actions),
                TimerKey::HeldBack(id) => self.end_holding_back(now, id, actions),
                TimerKey::Authentication(id) => self.authentication_timer(now, id, actions),
                TimerKey::Withdrawal => self.go_on_withdrawing(now, actions),
                TimerKey::Turn => self.take_turns(now, actions),
            }
        }
        self.drop_expired_retained(now);
        self.publish_sys_topics(now, actions);
        self.with_each_group(now, actions, |service, outputs| service.timeout(now, outputs));
        self.control_timeout(now, actions);
        self.relay_timeout(now, actions);
        self.replication_timeout(now, actions);
    }
}
