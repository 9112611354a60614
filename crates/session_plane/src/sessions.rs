//! Sessions: the connections of a node's clients, upon its plane.
//!
//! ```text
//!   node: connect, publish_once, close      connections to peers
//!      |        ^ Accept, Received,            |           ^
//!      v        | Disconnect, Closed           v receive   | Send, next_message
//!   .---------------------------- Sessions -------------------------------.
//!   | Connections   claims of sessions   <-->   Questions   at an owner   |
//!   | Publishing    QoS 2 messages of clients, routed under numbers       |
//!   | Wills         left by connections, published by primary owners      |
//!   | Expiring      sessions without a connection, ended by these         |
//!   | Limiting      queues beyond their limits, by these, too             |
//!   | FeedSink      queues of connected clients <-->  FeedSource          |
//!   | Delivering    packet ids of what feeds and groups give              |
//!   |      | entries          ^ durable, merged, the ring has changed     |
//!   |      v                  |                                           |
//!   |   Plane   replication                                               |
//!   '---------------------------------------------------------------------'
//! ```
//!
//! What a claim writes are events of the plane. What the plane reports are events of claims. A
//! message to this node itself goes round inside.
//!
//! *Invariants*: entries of a connection are made in the order in which claims ask for them. A
//! connection has closed when all its events are durable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use cluster::NodeId;

use crate::connecting::{Connect, ConnectionEvent, ConnectionId, Connections, ConnectionsFull, Questions};
use crate::delivering::Delivering;
use crate::groups::{GroupSink, GroupSource};
use crate::membership::MembersError;
use crate::plane::{Matching, NewChange, Now, PersistPoint, Plane, PlaneImage, TopicWrite};
use crate::publishing::{PublishingEvent, PublishingMessage};
use crate::stream::{ConfirmError, StreamFull};
use crate::transfer::TransferBytes;
use crate::{
    ClientId, Dot, Expiring, Interests, MadeEvent, Publishing, QueueLimiting, Recipients, RecordBatch,
    RecordValue, SlotSet, Wills,
};

mod acting;
mod action;
mod carrying;
mod closing;
mod cluster_view;
mod config;
mod confirming;
mod deciding;
mod deliveries;
mod dropping;
mod ending;
mod enqueueing;
mod entries;
mod error;
mod exchanges;
mod feeding;
mod group_changes;
mod group_view;
mod interested;
mod members;
mod memberships;
mod message;
mod moving;
mod orphaned;
mod owner_view;
mod parts;
mod queues;
mod reports;
mod route_queues;
mod routing;
mod storing;
mod value;
mod waits;
mod watched_slots;
mod willing;

pub use action::{ConnectionViolation, SessionsAction};
pub use carrying::{CarriedMembership, CarriedSession};
pub use closing::{ConnectionRest, SessionRest};
pub use config::SessionsConfig;
pub use dropping::{DroppedMessage, DroppedMessages};
pub use entries::ConnectionValues;
pub use error::SessionsError;
pub use feeding::FeedConfig;
pub use members::GroupConfig;
pub use message::SessionsMessage;
pub use value::SessionsValue;
pub use willing::NewWill;

use acting::Queue;
use cluster_view::ClusterView;
use deliveries::StoringDeliveries;
use entries::{ClientConnection, EntryWrite};
use exchanges::WaitingUses;
use feeding::Feeds;
use members::Members;
use parts::Parts;
use route_queues::RouteQueues;
use waits::Waits;
use watched_slots::WatchedSlots;

/// Sessions of clients at one run of one node.
///
/// `V` is the value of entries, `M` the content of messages, `R` finds the sessions that a message
/// matches.
#[derive(Debug)]
pub struct Sessions<V, M, R> {
    plane: Plane<V, M, R>,
    connections: Connections<V>,
    questions: Questions,
    publishing: Publishing<M>,
    waiting_uses: WaitingUses<V>,
    routes: RouteQueues<M>,
    feeds: Feeds,
    members: Members,
    parts: Parts,
    /// Connections that are fed, by their clients.
    fed: BTreeMap<ClientId, ConnectionId>,
    delivering: Delivering<V>,
    storing_deliveries: StoringDeliveries<V>,
    wills: Wills,
    /// Slots with wills, and whether this node decides about them.
    will_slots: WatchedSlots,
    expiring: Expiring,
    /// Slots in which something expires once this node decides about them.
    expiry_slots: WatchedSlots,
    limiting: QueueLimiting,
    /// Slots in which a queue exceeds a limit once this node decides about them.
    queue_slots: WatchedSlots,
    /// Connections by what is written for them.
    clients: BTreeMap<ConnectionId, ClientConnection<V>>,
    waits: Waits,
    /// Changes of the ring so far: the ring by which an entry was made.
    ring: u64,
    interests: Interests,
    /// Entries that wait for room in the stream, in their order.
    stalled: VecDeque<EntryWrite<V>>,
    /// Value of entries that say no more than their fact.
    blank: V,
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Sessions of a run without connections, with what is on the disk.
    ///
    /// `blank` is the value of entries that say no more than their fact: ends of connections and of
    /// sessions.
    ///
    /// # Errors
    ///
    /// [`MembersError`] where the configured members are no cluster.
    ///
    /// # Panics
    ///
    /// If there may be more connections than feeds, or if less may wait for a packet id than feeds and groups
    /// may give.
    pub fn new(
        now: Now,
        config: &SessionsConfig,
        image: PlaneImage<V, M>,
        matching: R,
        blank: V,
    ) -> Result<Sessions<V, M, R>, MembersError> {
        config.check();
        let plane = Plane::new(now, &config.plane, image, matching)?;
        Ok(Sessions {
            connections: Connections::new(plane.run(), config.connections),
            questions: Questions::new(config.questions),
            publishing: Publishing::new(plane.run(), config.publishing),
            waiting_uses: WaitingUses::new(),
            routes: RouteQueues::default(),
            wills: Wills::new(plane.run(), config.wills),
            will_slots: WatchedSlots::default(),
            expiring: Expiring::new(config.expiring()),
            expiry_slots: WatchedSlots::default(),
            limiting: QueueLimiting::new(config.queues),
            queue_slots: WatchedSlots::default(),
            feeds: Feeds::new(plane.run(), config.feeds),
            members: Members::new(&plane, config.groups.sink),
            parts: Parts::new(plane.run(), config.groups.source),
            fed: BTreeMap::new(),
            delivering: Delivering::new(config.delivering),
            storing_deliveries: StoringDeliveries::default(),
            plane,
            clients: BTreeMap::new(),
            waits: Waits::default(),
            ring: 0,
            interests: Interests::new(config.interests),
            stalled: VecDeque::new(),
            blank,
        })
    }

    /// Begins the claim of a client that connects. [`SessionsAction::Accept`] or
    /// [`SessionsAction::Refuse`] ends it.
    ///
    /// # Errors
    ///
    /// [`ConnectionsFull`] where there is no room. The node refuses the CONNECT with 0x97, Quota
    /// exceeded.
    pub fn connect(
        &mut self,
        now: Now,
        connect: Connect,
        values: ConnectionValues<V>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) -> Result<ConnectionId, ConnectionsFull> {
        let client = connect.client.clone();
        let mut queue = Queue::default();
        let view = ClusterView { plane: &self.plane };
        let begun = self
            .connections
            .begin(now.monotonic, connect, &view, &mut queue.connecting)?;
        self.clients.insert(begun, ClientConnection::new(client, values));
        self.apply(now, queue, actions);
        Ok(begun)
    }

    /// Changes the session of a connection in `slots`. [`SessionsAction::Durable`] reports it.
    ///
    /// # Errors
    ///
    /// [`StreamFull`] where too much is not durable: the client waits.
    pub fn change(
        &mut self,
        now: Now,
        connection: ConnectionId,
        slots: SlotSet,
        change: NewChange<V>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) -> Result<MadeEvent, StreamFull> {
        let mut queue = Queue::default();
        let made = self.plane.change(now, slots, change, &mut queue.plane)?;
        self.note_event(Some(connection), made.dot);
        self.apply(now, queue, actions);
        Ok(made)
    }

    /// Publishes a message. [`SessionsAction::Durable`] reports it.
    ///
    /// # Errors
    ///
    /// [`StreamFull`] where too much is not durable: the publisher waits.
    pub fn publish(
        &mut self,
        now: Now,
        to: Recipients,
        message: M,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) -> Result<Dot, StreamFull> {
        let mut queue = Queue::default();
        let dot = self.plane.publish(now, to, message, &mut queue.plane)?;
        self.apply(now, queue, actions);
        Ok(dot)
    }

    /// Writes what a topic retains at every node ([`Plane::retain`]). [`SessionsAction::Durable`] reports
    /// the event that was made.
    ///
    /// # Errors
    ///
    /// [`StreamFull`] where too much is not durable: the publisher waits.
    pub fn retain(
        &mut self,
        now: Now,
        topic: &ClientId,
        write: TopicWrite<V>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) -> Result<Option<MadeEvent>, StreamFull> {
        let mut queue = Queue::default();
        let made = self.plane.retain(now, topic, write, &mut queue.plane)?;
        self.apply(now, queue, actions);
        Ok(made)
    }

    /// Takes the topics whose retained messages have changed ([`Plane::take_retained_changes`]).
    pub fn take_retained_changes(&mut self) -> BTreeSet<ClientId> {
        self.plane.take_retained_changes()
    }

    /// Does what is due at `now`, after everything that has arrived was handed in.
    pub fn tick(&mut self, now: Now, actions: &mut Vec<SessionsAction<V, M>>) {
        let (mut queue, mut outgoing) = (Queue::default(), Vec::new());
        if self.plane.deadline() <= now.monotonic {
            self.plane.tick(now, &mut queue.plane);
        }
        self.connections.tick(now.monotonic, &mut queue.connecting);
        self.questions.tick(now.monotonic, &mut outgoing);
        queue.send(outgoing);
        self.retry_feeds(now, &mut queue);
        self.tick_decided(now, &mut queue);
        self.apply(now, queue, actions);
    }

    /// Time at which [`Sessions::tick`] has something to do.
    pub fn deadline(&self) -> Instant {
        let plane = self.plane.deadline();
        self.deadline_beside_plane().map_or(plane, |own| own.min(plane))
    }

    /// The same without what the plane does for its peers.
    pub fn deadline_beside_plane(&self) -> Option<Instant> {
        let own = [
            self.connections.deadline(),
            self.questions.deadline(),
            self.feeds.deadline(),
            self.wills.deadline(),
            self.expiring.deadline(),
            self.limiting.deadline(),
        ];
        own.into_iter().flatten().min()
    }

    /// Point for the disk ([`Plane::persist_point`]).
    pub fn persist_point(&mut self, batch: &mut RecordBatch) -> PersistPoint
    where
        V: RecordValue,
        M: RecordValue,
    {
        self.plane.persist_point(batch)
    }

    /// Everything up to `point` is on the disk ([`Plane::persisted`]).
    ///
    /// # Errors
    ///
    /// [`ConfirmError`] where points come in another order.
    pub fn persisted(
        &mut self,
        now: Now,
        point: PersistPoint,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) -> Result<(), ConfirmError> {
        let mut queue = Queue::default();
        let persisted = self.plane.persisted(point, &mut queue.plane);
        self.apply(now, queue, actions);
        persisted
    }

    /// Begins a new connection to a peer: what it owes is asked again.
    pub fn connected(&mut self, now: Now, peer: NodeId, actions: &mut Vec<SessionsAction<V, M>>) {
        let mut queue = Queue::default();
        self.plane.connected(now, peer, &mut queue.plane);
        self.routes.forget(peer);
        self.lose_feeds_of(peer, &mut queue);
        if self.plane.membership().is_present(peer) {
            self.step(ConnectionEvent::LinkRenewed(peer), &mut queue);
            self.give_again_to(peer, &mut queue);
            self.step_own_publishing(PublishingEvent::LinkRenewed(peer), &mut queue);
            self.interests.renew_link(peer);
        }
        self.apply(now, queue, actions);
    }

    /// Sets the configured members ([`Plane::set_members`]).
    ///
    /// # Errors
    ///
    /// [`MembersError`] where they are no cluster. The members are as before.
    pub fn set_members(&mut self, now: Now, members: &BTreeSet<NodeId>) -> Result<(), MembersError> {
        self.plane.set_members(now, members)
    }

    /// The machine of a peer has refused a connection: the process is gone.
    pub fn refused(&mut self, peer: NodeId) {
        self.plane.refused(peer);
    }

    /// Next message to a peer, of this run's stream, its interests or what it routes
    /// ([`Plane::next_message`]).
    pub fn next_message(&mut self, to: NodeId) -> Option<SessionsMessage<V, M>> {
        if let Some(interests) = self.next_interests(to) {
            return Some(interests);
        }
        let plane = &self.plane;
        if let Some(route) = self.routes.next(to, |after| plane.has_sent(to, after)) {
            return Some(SessionsMessage::Publishing(PublishingMessage::Route(route)));
        }
        self.plane.next_message(to).map(SessionsMessage::Replication)
    }

    /// Plane below, to read.
    pub fn plane(&self) -> &Plane<V, M, R> {
        &self.plane
    }

    /// Questions that wait for a copy of this node; a gauge.
    pub fn questions(&self) -> usize {
        self.questions.waiting()
    }

    /// QoS 2 messages of clients, to read.
    pub fn publishing(&self) -> &Publishing<M> {
        &self.publishing
    }

    /// Routed messages that wait for connections to peers; a gauge.
    pub fn queued_routes(&self) -> usize {
        self.routes.len()
    }

    /// Feeds that wait for a copy, and clients without a feed; a gauge.
    pub fn waiting_feeds(&self) -> usize {
        self.feeds.waiting()
    }

    /// Messages to clients under packet ids, to read.
    pub fn delivering(&self) -> &Delivering<V> {
        &self.delivering
    }

    /// Entries of packet ids on their way to the owners; a gauge.
    pub fn storing_deliveries(&self) -> usize {
        self.storing_deliveries.len()
    }

    /// Shared groups at the node of members' connections, to read.
    pub fn group_sink(&self) -> &GroupSink {
        self.members.sink()
    }

    /// Shared groups at the primary owner of their parts, to read.
    pub fn group_source(&self) -> &GroupSource {
        self.parts.source()
    }

    /// Slots with shared groups that wait for this node to decide about them; a gauge.
    pub fn waiting_parts(&self) -> usize {
        self.parts.behind()
    }

    /// Interests of this node, to read.
    pub fn interests(&self) -> &Interests {
        &self.interests
    }

    /// Wills of connections and of slots, to read.
    pub fn wills(&self) -> &Wills {
        &self.wills
    }

    /// Sessions that expire, to read.
    pub fn expiring(&self) -> &Expiring {
        &self.expiring
    }

    /// Queues that exceed a limit and wait for their turn, and slots of which queues may exceed one once this
    /// node decides about them; a gauge.
    pub fn waiting_queues(&self) -> usize {
        let undecided = self.queue_slots.slots();
        let undecided = undecided.iter().filter(|slot| self.plane.is_primary(*slot));
        self.limiting.waiting() + undecided.count()
    }

    /// Connections of clients, to read.
    pub fn connections(&self) -> &Connections<V> {
        &self.connections
    }

    /// Entries that wait for room in the stream; a gauge. Each connection has a few at most, and each membership
    /// whose session has ended one.
    pub fn stalled(&self) -> usize {
        self.stalled.len()
    }
}
