//! What gives way while memory is scarce, and in which order.
//!
//! First messages that would have to wait for their receivers are refused, while those whose receivers keep up flow on;
//! then publishers are read from slowly; at last nothing is taken that would have to be kept. Clients are heard all the
//! while: their acknowledgements are what makes room. State store requests and messages with [`HIGH_PRIORITY`] go on
//! until memory is full, and those that need no more memory also then.

use std::time::{Duration, Instant};

use mqtt::connection::Connection;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::memory::footprint::{block, places, tree_entry};
use mqtt::memory::{MemoryLevel, MemoryUse};
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::policies::ConnectionAccess;
use protocol::ReasonCode;
use protocol::TopicName;
use protocol::packet::{Publish, QoS};
use protocol::properties::UserProperties;
use protocol::state_store::properties::HIGH_PRIORITY;

use crate::node::{Action, Node, TimerKey};
use crate::report::Report;
use crate::routing::{Route, RouteScratch};
use crate::turns::Unfinished;

/// How long a publisher is not read from after each of its messages while memory is critical.
const HELD_BACK: Duration = Duration::from_secs(1);

/// The same for one that has something to acknowledge: what it says between its messages makes room.
const HELD_BACK_AS_RECEIVER: Duration = Duration::from_millis(50);

/// The largest will, as its message counts, of a client that comes back while memory is full: a kilobyte and the fixed part.
pub(crate) const WILL_WHEN_FULL: u64 = 1_024 + 256;

/// The part of `memory_max` that packets may take which are worked through in turns.
const PART_OF_TURNS: u64 = 16;

/// Within one SUBSCRIBE the limit is looked at after so many bytes.
const SUBSCRIPTIONS_STEP: u64 = 256 << 10;

/// What a client is told whose message is refused.
pub(crate) const MEMORY_SCARCE: &str = "memory is scarce, and the message would have to be kept";

/// What a client is told whose state store request is refused.
pub(crate) const RESPONSE_WOULD_WAIT: &str =
    "memory is full, and the response would wait behind what the client has not taken";

impl Node {
    /// What the node accounts for at this moment.
    pub(crate) fn memory_use(&self) -> MemoryUse {
        let totals = self.sessions.totals();
        let store = self.groups.usage();
        let retained = self.retained.held();
        // Retained messages count themselves as well.
        let messages = self.memory.messages.bytes().saturating_sub(retained);
        MemoryUse {
            messages,
            retained: retained + self.retained.places() + self.replication_bytes(),
            store: store.memory()
                + self.memory.requests.bytes()
                + self.groups.waiting_bytes()
                + self.groups.log_bytes_held(),
            writes: self.commits.bytes() + self.memory.engine,
            outbound: self.memory.outbound,
            inbound: self.memory.inbound,
            clients: self.connections.len() as u64 * CONNECTION
                + self.timers.len() as u64 * TIMER
                + self.memory.aliases.bytes()
                + totals.memory
                + self.subscriptions.bytes()
                + self.shares.bytes()
                + self.turns.memory()
                + self.memory.connects.bytes()
                + self.replication.filter_bytes(),
        }
    }

    /// Finds out whether memory has become more or less scarce in this step.
    pub(crate) fn watch_memory(&mut self, now: Now, actions: &mut Vec<Action>) {
        let memory_max = self.config.limits.memory_max;
        self.memory.is_full_now = false;
        self.memory.subscriptions_seen = self.subscriptions.bytes() + self.shares.bytes();
        let used = self.memory_use().total();
        let level = self.memory.level.next(used, memory_max);
        if level == self.memory.level {
            return;
        }
        let before = std::mem::replace(&mut self.memory.level, level);
        self.counters.memory_scarce += u64::from(before == MemoryLevel::Normal);
        self.groups.note_memory(level == MemoryLevel::Full);
        actions.push(Action::Report(Report::MemoryLevel {
            before,
            level,
            used,
            memory_max,
        }));
        if level < MemoryLevel::Critical {
            for id in std::mem::take(&mut self.memory.held_back) {
                self.timers.cancel(TimerKey::HeldBack(id));
                self.read_on(now, id, actions);
            }
        }
    }

    /// Whether a client's message is refused because it would have to be kept.
    pub(crate) fn lacks_memory_for(&self, message: &Message, scratch: &RouteScratch) -> bool {
        let level = self.memory.level;
        if level < MemoryLevel::Full && self.is_urgent(message) {
            return false;
        }
        let is_kept = |route: &Route| {
            self.would_wait(route) || level == MemoryLevel::Full && route.qos != QoS::AtMostOnce
        };
        let is_stored = level == MemoryLevel::Full && !scratch.recipients.slots.is_empty();
        self.retained.would_grow(message)
            || scratch.routes.iter().any(is_kept)
            || is_stored
            || self.replication.would_wait(message, &scratch.recipients.slots)
    }

    /// Whether a state store request is refused because its response would have to wait: memory is full, and its client does not
    /// keep up. A response to a request that was taken is never dropped while its client is connected, so that no request is
    /// acknowledged and then answered with silence.
    pub(crate) fn lacks_memory_for_response(&self, asker: SessionKey) -> bool {
        let is_behind = |asker| {
            self.sessions
                .get(asker)
                .is_some_and(|entry| entry.outbox.is_behind(true))
        };
        self.is_memory_full() && is_behind(asker)
    }

    /// Whether a message is not retained although nobody can be told: at QoS 0, or one of the server's own.
    pub(crate) fn lacks_memory_to_retain(&self, message: &Message) -> bool {
        let is_own = message.publisher.is_none();
        match self.memory.level {
            MemoryLevel::Normal => false,
            MemoryLevel::Scarce | MemoryLevel::Critical if is_own => false,
            MemoryLevel::Scarce | MemoryLevel::Critical if self.is_urgent(message) => false,
            _ => self.retained.would_grow(message),
        }
    }

    /// Takes out the routes on which a message would wait: for those that nobody can be told of.
    pub(crate) fn drop_waiting(&mut self, scratch: &mut RouteScratch) {
        self.drop_waiting_but(scratch, None);
    }

    /// The same, without the route to `kept`.
    pub(crate) fn drop_waiting_but(&mut self, scratch: &mut RouteScratch, kept: Option<SessionKey>) {
        let found = scratch.routes.len();
        scratch
            .routes
            .retain(|route| Some(route.session) == kept || !self.would_wait(route));
        self.counters.dropped.memory += (found - scratch.routes.len()) as u64;
    }

    /// While memory is critical, a publisher is not read from for a moment after each message.
    pub(crate) fn hold_back(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        (topic, publish): (&TopicName, &Publish),
    ) {
        if self.memory.level < MemoryLevel::Critical {
            return;
        }
        let properties = &publish.properties.user_properties;
        if self.memory.level < MemoryLevel::Full && self.counts_as_urgent(Some(key), topic, properties) {
            return;
        }
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let entry = self.sessions.get(key);
        let claim = entry.map(|entry| entry.claim);
        let is_receiver = claim.is_some_and(|claim| self.replication.has_in_flight(claim));
        let pause = if is_receiver {
            HELD_BACK_AS_RECEIVER
        } else {
            HELD_BACK
        };
        connection.is_held_back = true;
        self.counters.held_back += 1;
        self.memory.held_back.insert(id);
        self.timers.schedule(TimerKey::HeldBack(id), now.instant + pause);
    }

    /// A publisher has waited long enough for its next message.
    pub(crate) fn end_holding_back(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) {
        self.memory.held_back.remove(&id);
        self.read_on(now, id, actions);
    }

    /// A connection has ended: nothing of it is held back any more.
    pub(crate) fn forget_held_back(&mut self, id: ConnectionId) {
        if self.memory.held_back.remove(&id) {
            self.timers.cancel(TimerKey::HeldBack(id));
        }
    }

    /// Whether a further subscription may not be taken. One SUBSCRIBE may have so many that the limit is looked at within it.
    pub(crate) fn lacks_memory_to_subscribe(&mut self, key: SessionKey) -> bool {
        let taken = self.subscriptions.bytes() + self.shares.bytes();
        if taken >= self.memory.subscriptions_seen + SUBSCRIPTIONS_STEP {
            self.memory.subscriptions_seen = taken;
            self.sessions.recount(key);
            self.memory.is_full_now = self.memory_use().total() >= self.config.limits.memory_max;
        }
        self.memory.is_full_now || self.is_memory_full()
    }

    /// Whether the rest of a packet is too much to wait for its turn. At least one may.
    pub(crate) fn lacks_memory_for_turn(&self, rest: &Unfinished) -> bool {
        let waiting = self.turns.packets();
        waiting > 0 && waiting + rest.packet() > self.config.limits.memory_max / PART_OF_TURNS
    }

    /// Whether nothing more may be taken that has to be kept.
    pub fn is_memory_full(&self) -> bool {
        self.memory.level == MemoryLevel::Full
    }

    fn read_on(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.is_held_back = false;
        // It could not be heard; its silence begins now.
        connection.last_received = now.instant;
        actions.push(Action::Resume { connection: id });
    }

    fn is_urgent(&self, message: &Message) -> bool {
        self.counts_as_urgent(
            message.publisher,
            &message.topic,
            &message.properties.user_properties,
        )
    }

    /// Whether a publisher says that its message matters more than others, and may say so. What comes from another node was
    /// looked at there.
    fn counts_as_urgent(
        &self,
        publisher: Option<SessionKey>,
        topic: &TopicName,
        properties: &UserProperties,
    ) -> bool {
        if !self.config.limits.high_priority || !is_high_priority(properties) {
            return false;
        }
        let entry = publisher.and_then(|key| self.sessions.get(key));
        let connection = entry.and_then(|entry| self.connections.get(entry.connection));
        connection.is_none_or(|connection| self.policies.may_hurry(connection, topic))
    }

    /// Whether a delivery would have to wait for its receiver: it is away, or does not keep up.
    fn would_wait(&self, route: &Route) -> bool {
        let entry = self.sessions.get(route.session);
        entry.is_some_and(|entry| entry.outbox.is_behind(true))
    }
}

/// Whether the publisher says that its message matters more than others: by the property's presence, whatever its value.
fn is_high_priority(properties: &UserProperties) -> bool {
    properties.find(HIGH_PRIORITY).is_some()
}

/// What a client is told that is not taken in while memory is full.
pub(crate) const MEMORY_FULL: (ReasonCode, &str) = (ReasonCode::QuotaExceeded, "memory is full");

/// What a client is told whose packet grew while there was no memory for the rest of it.
pub(crate) const NO_MEMORY_TO_READ: (ReasonCode, &str) = (
    ReasonCode::QuotaExceeded,
    "there is no memory for the rest of the packet",
);

// What the account adds for each of what it does not measure: structs and their places in maps.

/// A connection's struct and its place, which a list that grows has twice; and what it may do, which only clients with a policy
/// have. Its socket is in the edge's part.
const CONNECTION: u64 = block(size_of::<Connection>())
    + 2 * places::<Option<Box<Connection>>>(1)
    + block(size_of::<ConnectionAccess>()) / 2;

/// A deadline, in the order of time and by its key.
const TIMER: u64 = tree_entry::<TimerKey, Instant>() + tree_entry::<(Instant, TimerKey), ()>();
