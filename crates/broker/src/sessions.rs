//! Sessions of the clients that are connected to this node.
//!
//! A session outlives its connection at the owners of its slot. What is here begins with CONNACK and ends with the
//! connection: subscriptions as they are looked up for each message, and deliveries that nobody stores.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use cluster::session_plane::Hlc;
use mqtt::acks::AckSequence;
use mqtt::client_ids::ClientIds;
use mqtt::filters::Filters;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::limits::SessionLimits;
use mqtt::memory::footprint::{block, cloned_text, places};
use mqtt::outbox::Outbox;
use mqtt::ownership::Owner;
use mqtt::subscriptions::Standing;
use protocol::Text;
use protocol::packet::PacketId;
use protocol::topic::SubscriptionFilter;
use session_plane::connecting::ConnectionId as ClaimId;
use session_plane::delivering::Published;
use session_plane::{Birth, Dot};
use session_values::Value;
use slab::Slab;
use smallvec::SmallVec;

use crate::node::Node;
use crate::retained_delivery::AllDue;
use crate::unacknowledged::Unacknowledged;

/// Session of a connected client.
#[derive(Debug)]
pub(crate) struct SessionEntry {
    pub(crate) client_id: Text,
    pub(crate) connection: ConnectionId,
    /// Name of the connection at the session plane.
    pub(crate) claim: ClaimId,
    pub(crate) birth: Birth,
    /// The session outlives its connection, as CONNECT has said: the owners store what is for it.
    pub(crate) is_durable: bool,
    /// Seconds after the end of the connection; 0: it ends with it; `u32::MAX`: never.
    pub(crate) expiry: u32,
    /// Will Delay Interval in seconds, if the connection has a will.
    pub(crate) will_delay: Option<u32>,
    /// Whom it belongs to.
    pub(crate) owner: Option<Box<Owner>>,
    pub(crate) filters: Filters,
    /// Events of the subscriptions that the owners have.
    pub(crate) entries: BTreeMap<SubscriptionFilter, SubscriptionEntry>,
    pub(crate) outbox: Outbox,
    /// Deliveries of the outbox that were sent, until the client has them.
    pub(crate) unacknowledged: Unacknowledged,
    /// A packet id is asked for, for the first delivery of the outbox.
    pub(crate) is_requested: bool,
    /// Stored messages that came before CONNACK was sent.
    pub(crate) early: VecDeque<Published<Value>>,
    pub(crate) exchanges: Exchanges,
    /// Retained messages for new subscriptions, as far as they were not delivered.
    pub(crate) due: AllDue,
    /// Retained messages that the owners store, and that were not sent: a page at most.
    pub(crate) paged: BTreeSet<Dot>,
    /// Place of this session in the route being worked out, if `mark` is the route's.
    pub(crate) route_place: u32,
    pub(crate) route_mark: u64,
    /// By how much its subscriptions have raised [what a message may cost](mqtt::limits::Limits::matching_steps_max).
    pub(crate) matching_steps: u32,
    /// As the shares know it that the session is in.
    pub(crate) standing: Standing,
    /// Part of the totals that it has.
    pub(crate) counted: Counted,
}

/// Subscription that the owners have.
#[derive(Debug)]
pub(crate) struct SubscriptionEntry {
    /// Events that have made it; several after a split.
    pub(crate) dots: SmallVec<[Dot; 1]>,
    /// Clock of the first SUBSCRIBE to the filter.
    pub(crate) since: Hlc,
}

/// QoS 2 messages of the client, from PUBLISH to PUBCOMP.
#[derive(Debug, Default)]
pub(crate) struct Exchanges(BTreeMap<PacketId, Exchange>);

/// QoS 2 message of the client.
#[derive(Debug, Default)]
struct Exchange {
    /// Answers that wait for the session plane.
    waiting: SmallVec<[AckSequence; 1]>,
    /// PUBREL came before PUBREC was sent.
    is_released: bool,
}

impl Exchanges {
    /// A PUBLISH came, whose answer has this place.
    pub(crate) fn begin(&mut self, packet_id: PacketId, answer: AckSequence) {
        self.0.entry(packet_id).or_default().waiting.push(answer);
    }

    /// Answers of a packet id, which wait no more.
    pub(crate) fn answer(&mut self, packet_id: PacketId) -> SmallVec<[AckSequence; 1]> {
        let exchange = self.0.get_mut(&packet_id);
        exchange
            .map(|exchange| std::mem::take(&mut exchange.waiting))
            .unwrap_or_default()
    }

    /// PUBREL came. False: it waits until PUBREC is sent.
    pub(crate) fn release(&mut self, packet_id: PacketId) -> bool {
        let early = self
            .0
            .get_mut(&packet_id)
            .filter(|exchange| !exchange.waiting.is_empty());
        match early {
            Some(exchange) => {
                exchange.is_released = true;
                false
            }
            None => true,
        }
    }

    /// Takes a PUBREL that came before PUBREC was sent.
    pub(crate) fn take_release(&mut self, packet_id: PacketId) -> bool {
        let exchange = self.0.get_mut(&packet_id);
        exchange.is_some_and(|exchange| std::mem::take(&mut exchange.is_released))
    }

    /// The packet id is free.
    pub(crate) fn end(&mut self, packet_id: PacketId) {
        self.0.remove(&packet_id);
    }

    /// A PUBLISH with the packet id came on this connection, and the id is not free.
    pub(crate) fn contains(&self, packet_id: PacketId) -> bool {
        self.0.contains_key(&packet_id)
    }

    /// Number of packet ids that are not free.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl SessionEntry {
    pub(crate) fn new(
        client_id: Text,
        connection: ConnectionId,
        (claim, birth): (ClaimId, Birth),
        limits: SessionLimits,
    ) -> Self {
        Self {
            client_id,
            connection,
            claim,
            birth,
            is_durable: false,
            expiry: 0,
            will_delay: None,
            owner: None,
            filters: Filters::default(),
            entries: BTreeMap::new(),
            outbox: Outbox::new(limits),
            unacknowledged: Unacknowledged::default(),
            is_requested: false,
            early: VecDeque::new(),
            exchanges: Exchanges::default(),
            due: AllDue::default(),
            paged: BTreeSet::new(),
            route_place: 0,
            route_mark: 0,
            matching_steps: 0,
            standing: Standing::Away,
            counted: Counted::default(),
        }
    }
}

/// Clients whose connections the server has ended lately.
///
/// Some clients come back at once and for ever, whatever they were told: two that share a client id, or one that repeats
/// what it was disconnected for. From the fourth time on their CONNACK waits, longer each time.
#[derive(Debug, Default)]
pub(crate) struct ForcedEnds {
    clients: BTreeMap<Text, Recent>,
    /// Ends in their order, with the clients.
    in_order: VecDeque<ForcedEnd>,
}

/// End of a connection.
#[derive(Debug)]
struct ForcedEnd {
    at: Instant,
    client_id: Text,
}

/// Ends that are remembered; of more the oldest are forgotten.
const FORCED_ENDS_MAX: usize = 16_384;

#[derive(Debug, Clone, Copy)]
struct Recent {
    count: u32,
    latest: Instant,
}

/// Without a forced end for so long, all are forgotten.
const FORCED_ENDS_FORGOTTEN_AFTER: Duration = Duration::from_secs(30);

/// So many in a row are nothing to worry about.
const FORCED_ENDS_FREE: u32 = 3;

/// What each further one costs, and what it costs at most.
const PAUSE_STEP: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(5);

impl ForcedEnds {
    /// The server ends a connection of a client.
    pub(crate) fn count(&mut self, now: Instant, client_id: &Text) {
        self.forget(now);
        let recent = self.clients.entry(client_id.clone()).or_insert(Recent {
            count: 0,
            latest: now,
        });
        recent.count = recent.count.saturating_add(1);
        recent.latest = now;
        self.in_order.push_back(ForcedEnd {
            at: now,
            client_id: client_id.clone(),
        });
    }

    /// Time that the next CONNACK of a client waits.
    pub(crate) fn pause(&mut self, now: Instant, client_id: &Text) -> Duration {
        self.forget(now);
        let count = self.clients.get(client_id).map_or(0, |recent| recent.count);
        PAUSE_STEP
            .saturating_mul(count.saturating_sub(FORCED_ENDS_FREE))
            .min(PAUSE_MAX)
    }

    fn forget(&mut self, now: Instant) {
        let is_over = |at: Instant| now >= at + FORCED_ENDS_FORGOTTEN_AFTER;
        let is_full = |len: usize| len >= FORCED_ENDS_MAX;
        while let Some(first) = self.in_order.front()
            && (is_over(first.at) || is_full(self.in_order.len()))
        {
            let Some(ForcedEnd { at, client_id }) = self.in_order.pop_front() else {
                return;
            };
            if self
                .clients
                .get(&client_id)
                .is_some_and(|recent| recent.latest == at)
            {
                self.clients.remove(&client_id);
            }
        }
    }
}

/// Sessions by key and by client id.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// `None`: it has ended, and some of its subscriptions are still there.
    slab: Slab<Option<Box<SessionEntry>>>,
    by_client_id: ClientIds,
    /// Kept up to date: walking through a million sessions would stop everybody for a while.
    totals: Totals,
}

impl Sessions {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            slab: Slab::new(),
            by_client_id: ClientIds::new(seed),
            totals: Totals::default(),
        }
    }

    pub(crate) fn insert(&mut self, client_id: &Text, mut entry: SessionEntry) -> SessionKey {
        entry.counted = Counted::of(&entry);
        self.totals.replace(Counted::default(), entry.counted);
        let key = SessionKey(
            u32::try_from(self.slab.insert(Some(Box::new(entry)))).expect("fewer than 2^32 sessions"),
        );
        let replaced = self.by_client_id.insert(client_id.clone(), key);
        assert!(replaced.is_none(), "a client id has one session");
        key
    }

    /// Ends a session. Its key is not given to another one before [`Sessions::release`].
    pub(crate) fn retire(&mut self, key: SessionKey) -> Option<SessionEntry> {
        let entry = self.slab.get_mut(key.0 as usize)?.take()?;
        self.by_client_id.remove(&entry.client_id);
        self.totals.replace(entry.counted, Counted::default());
        Some(*entry)
    }

    /// Nothing refers to the key of a retired session any more.
    pub(crate) fn release(&mut self, key: SessionKey) {
        let retired = self.slab.try_remove(key.0 as usize);
        assert!(
            matches!(retired, Some(None)),
            "only a retired session is released"
        );
    }

    pub(crate) fn find(&self, client_id: &str) -> Option<SessionKey> {
        self.by_client_id.get(client_id)
    }

    pub(crate) fn get(&self, key: SessionKey) -> Option<&SessionEntry> {
        self.slab.get(key.0 as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, key: SessionKey) -> Option<&mut SessionEntry> {
        self.slab.get_mut(key.0 as usize)?.as_deref_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_client_id.count()
    }

    /// Sums over all sessions.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Counts a session anew, after it may have changed.
    pub(crate) fn recount(&mut self, key: SessionKey) {
        if let Some(entry) = self.get_mut(key) {
            let counted = Counted::of(entry);
            let before = std::mem::replace(&mut entry.counted, counted);
            self.totals.replace(before, counted);
        }
    }
}

/// Memory of a session's struct, its place among the others, and its place by client id.
const SESSION: u64 =
    block(size_of::<SessionEntry>()) + places::<Box<SessionEntry>>(2) + places::<(Text, SessionKey)>(2);

/// Sums over all sessions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) waiting_messages: usize,
    pub(crate) waiting_bytes: u64,
    /// Memory of sessions with their subscriptions and outboxes, without that of messages.
    pub(crate) memory: u64,
}

/// Part of the totals that one session has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    memory: u64,
    waiting_bytes: u64,
    waiting_messages: u32,
}

impl Counted {
    fn of(entry: &SessionEntry) -> Self {
        Self {
            memory: SESSION
                + cloned_text(&entry.client_id)
                + entry.filters.bytes()
                + entry.entries.len() as u64 * SUBSCRIPTION_ENTRY
                + entry.outbox.memory()
                + entry.due.memory()
                + entry.owner.as_deref().map_or(0, Owner::memory),
            waiting_bytes: entry.outbox.bytes(),
            waiting_messages: u32::try_from(entry.outbox.len()).expect("fewer than 2^32 messages"),
        }
    }
}

/// Memory of the event of a subscription, by its filter.
const SUBSCRIPTION_ENTRY: u64 = 128;

impl Totals {
    /// Takes out what one session had, and puts in what it has.
    fn replace(&mut self, before: Counted, now: Counted) {
        self.waiting_messages =
            self.waiting_messages - before.waiting_messages as usize + now.waiting_messages as usize;
        self.waiting_bytes = self.waiting_bytes - before.waiting_bytes + now.waiting_bytes;
        self.memory = self.memory - before.memory + now.memory;
    }
}

impl Node {
    /// Client id of a connection that has its session.
    pub(crate) fn client_of(&self, id: ConnectionId) -> Option<Text> {
        let key = self.connections.get(id)?.session()?;
        Some(self.sessions.get(key)?.client_id.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mqtt::connection::Connection;
    use mqtt::policies::ConnectionAccess;

    /// There may be a million sessions and a hundred thousand connections: what grows them has to be worth it for each.
    #[test]
    fn sessions_and_connections_stay_small() {
        let (session, connection) = (size_of::<SessionEntry>(), size_of::<Connection>());
        assert!(session <= 640, "{session} bytes");
        assert!(connection <= 184, "{connection} bytes");
        let granted = size_of::<ConnectionAccess>();
        assert!(granted <= 176, "{granted} bytes");
    }
}
