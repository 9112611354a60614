//! Feeding: queues of sessions, from the copies of owners to the connections of clients (rules 32, 33
//! and 52 to 55).
//!
//! What the plane reports of this node's copies goes to [`FeedSource`], and what owners send to
//! [`FeedSink`]. A node that owns a slot feeds itself in the same way.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cluster::NodeId;

use super::acting::Queue;
use super::queues::QueueView;
use super::{ClusterView, Sessions, SessionsAction, SessionsMessage, SessionsValue};
use crate::connecting::{ClusterState, ConnectionId};
use crate::delivering::{DeliveringEvent, DeliveryValue, FedMessages, QueuedMessage};
use crate::feed::{
    DeliveryChanges, FeedAction, FeedDelivery, FeedError, FeedItem, FeedItems, FeedMessage, QueueId,
    QueueKey, SinkAction, SinkEvent, SinkLimits, SourceEvent, SourceLimits,
};
use crate::plane::{ChangedSession, Matching, Now, RemovedEntry};
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, FeedSink, FeedSource, Run, Slot};

/// Limits of feeds, and their time.
#[derive(Debug, Clone, Copy)]
pub struct FeedConfig {
    /// At the node of connections.
    pub sink: SinkLimits,
    /// At an owner.
    pub source: SourceLimits,
    /// Time after which a client whose owners all refuse it is fed again.
    pub retry_after: Duration,
}

/// Both halves of the feeds of a node.
#[derive(Debug)]
pub(super) struct Feeds {
    sink: FeedSink,
    source: FeedSource,
    retry_after: Duration,
    retry_at: Option<Instant>,
    /// Clients whose connections here have ended since they were taken last.
    left: BTreeSet<ClientId>,
}

impl Feeds {
    pub(super) fn new(run: Run, config: FeedConfig) -> Feeds {
        Feeds {
            sink: FeedSink::new(run, config.sink),
            source: FeedSource::new(config.source),
            retry_after: config.retry_after,
            retry_at: None,
            left: BTreeSet::new(),
        }
    }

    /// Time at which clients without a feed are fed again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Takes the clients that what was passed on to them may have come back from: their feed here or their
    /// connection has ended.
    pub(super) fn take_ended(&mut self) -> BTreeSet<ClientId> {
        let mut ended = std::mem::take(&mut self.left);
        ended.append(&mut self.source.take_ended());
        ended
    }

    /// Messages of a client that this node has sent as an owner, and that are not acknowledged.
    pub(super) fn held_of(&self, client: &ClientId) -> impl Iterator<Item = Dot> {
        self.source.held_of(client)
    }

    /// Feeds at this node as an owner, and clients here without a feed.
    pub(super) fn waiting(&self) -> usize {
        self.source.waiting() + self.sink.stalled()
    }
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Begins to feed a connection that has its session.
    pub(super) fn begin_feed(&mut self, connection: ConnectionId, queue: &mut Queue<V, M>) {
        let (Some(client), Some(birth)) = (self.client_of(connection), self.birth(connection)) else {
            return;
        };
        let owners = self.owners_to_ask(Slot::of_client(client.as_bytes()));
        let known = ClusterView { plane: &self.plane }.known();
        self.fed.insert(client.clone(), connection);
        let birth = birth.dot;
        let queue_of = QueueId { client, birth };
        let begun = self.feeds.sink.begin(queue_of, owners, &known, &mut queue.sink);
        debug_assert!(begun.is_ok(), "there are as many feeds as connections may be");
    }

    /// Ends the feed of a connection, unless another one of its client has it.
    pub(super) fn end_feed(&mut self, connection: ConnectionId, queue: &mut Queue<V, M>) {
        let Some(client) = self
            .client_of(connection)
            .filter(|client| self.fed.get(client) == Some(&connection))
        else {
            return;
        };
        self.fed.remove(&client);
        self.feeds.left.insert(client.clone());
        self.step_sink(SinkEvent::Ended { client }, queue);
    }

    pub(super) fn client_of(&self, connection: ConnectionId) -> Option<ClientId> {
        let client = self.clients.get(&connection)?;
        Some(client.client().clone())
    }

    /// Present owners of a slot, this node first.
    fn owners_to_ask(&self, slot: Slot) -> Vec<NodeId> {
        let own = self.plane.run().node;
        let mut owners: Vec<NodeId> = self.plane.owners(slot).collect();
        owners.sort_by_key(|owner| *owner != own);
        owners
    }

    pub(super) fn step_sink(&mut self, event: SinkEvent<V>, queue: &mut Queue<V, M>) {
        let stepped = self.step_sink_of(event, queue);
        debug_assert!(stepped.is_ok(), "this node keeps to the protocol");
    }

    fn step_source(&mut self, event: SourceEvent, queue: &mut Queue<V, M>) {
        let queues = QueueView { plane: &self.plane };
        let stepped = self.feeds.source.step(event, &queues, &mut queue.feed);
        debug_assert!(stepped.is_ok(), "this node keeps to the protocol");
    }

    /// Receives a message about a feed, from a peer or from this node itself.
    pub(super) fn receive_feed(
        &mut self,
        from: NodeId,
        message: FeedMessage<V>,
        queue: &mut Queue<V, M>,
    ) -> Result<(), FeedError> {
        let of_sink = match message {
            FeedMessage::Open(open) => return self.receive_source(SourceEvent::Opened { from, open }, queue),
            FeedMessage::Window { feed, window } => {
                return self.receive_source(SourceEvent::WindowGranted { from, feed, window }, queue);
            }
            FeedMessage::Close { feed } => {
                return self.receive_source(SourceEvent::Closed { from, feed }, queue);
            }
            FeedMessage::Items(items) => {
                check_values(from, &items)?;
                SinkEvent::ItemsReceived { from, items }
            }
            FeedMessage::Closed { feed, .. } => SinkEvent::Closed { from, feed },
        };
        self.step_sink_of(of_sink, queue)
    }

    fn step_sink_of(&mut self, event: SinkEvent<V>, queue: &mut Queue<V, M>) -> Result<(), FeedError> {
        let view = ClusterView { plane: &self.plane };
        self.feeds.sink.step(event, || view.known(), &mut queue.sink)
    }

    fn receive_source(&mut self, event: SourceEvent, queue: &mut Queue<V, M>) -> Result<(), FeedError> {
        let queues = QueueView { plane: &self.plane };
        self.feeds.source.step(event, &queues, &mut queue.feed)
    }

    /// Sends a message about a feed.
    pub(super) fn apply_feed(
        &mut self,
        action: FeedAction<V>,
        queue: &mut Queue<V, M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        let FeedAction { to, message } = action;
        if to == self.plane.run().node {
            let received = self.receive_feed(to, message, queue);
            debug_assert!(received.is_ok(), "this node keeps to the protocol");
        } else {
            let message = SessionsMessage::Feed(message);
            actions.push(SessionsAction::Send { to, message });
        }
    }

    /// Passes on what a sink gives to connections.
    pub(super) fn apply_sink(&mut self, action: SinkAction<V>, queue: &mut Queue<V, M>) {
        match action {
            SinkAction::Send(action) => queue.feed.push(action),
            SinkAction::Deliver {
                client,
                deliveries,
                items,
            } => {
                if let Some(connection) = self.fed.get(&client).copied() {
                    self.see_clocks(&items);
                    let fed = fed_messages(deliveries, items);
                    self.step_delivering(DeliveringEvent::Fed { connection, fed }, queue);
                }
            }
            SinkAction::Withdraw { client, keys } => {
                if let Some(connection) = self.fed.get(&client).copied() {
                    self.step_delivering(DeliveringEvent::Withdrawn { connection, keys }, queue);
                }
            }
        }
    }

    /// Sees the clocks of messages that a connection may send: the end of the connection is later.
    fn see_clocks(&mut self, items: &[FeedItem<V>]) {
        if let Some(latest) = items.iter().map(|item| item.key.clock).max() {
            self.plane.see(latest);
        }
    }

    /// A message was queued for a client of a copy of this node.
    pub(super) fn feed_queued(&mut self, client: &ClientId, message: Dot, queue: &mut Queue<V, M>) {
        let Some(clock) = self.plane.message_clock(client, message) else {
            return;
        };
        let (client, key) = (client.clone(), QueueKey { clock, dot: message });
        self.step_source(SourceEvent::Appended { client, key }, queue);
    }

    /// A message that a client matches is pending in a copy of this node: it gets it now.
    pub(super) fn feed_pending(&mut self, client: ClientId, key: QueueKey, queue: &mut Queue<V, M>) {
        self.step_source(SourceEvent::Appended { client, key }, queue);
    }

    /// An event has changed a session in a copy of this node.
    pub(super) fn feed_change(&mut self, changed: &ChangedSession, queue: &mut Queue<V, M>) {
        let ChangedSession { client, by, .. } = changed;
        for removed in &changed.removed {
            let (client, by) = (client.clone(), *by);
            let event = match *removed {
                RemovedEntry::Message { dot, clock } => {
                    let key = QueueKey { clock, dot };
                    SourceEvent::Removed { client, key, by }
                }
                RemovedEntry::Other(delivery) => SourceEvent::DeliveryRemoved { client, delivery, by },
            };
            self.step_source(event, queue);
        }
        if let Some(clock) = changed.queued {
            let (client, key) = (client.clone(), QueueKey { clock, dot: *by });
            self.step_source(SourceEvent::Appended { client, key }, queue);
        }
        if let Some(message) = changed.delivered {
            let (client, delivery) = (client.clone(), *by);
            let event = SourceEvent::DeliveryAdded {
                client,
                delivery,
                message,
            };
            self.step_source(event, queue);
        }
    }

    /// Copies are about to be read anew: they have merged.
    pub(super) fn pause_feeds(&mut self, slot: Slot, queue: &mut Queue<V, M>) {
        self.step_source(SourceEvent::CopyUnmerged(slot), queue);
    }

    /// Stops the feeds of a copy that waits for answers.
    pub(super) fn pause_unmerged(&mut self, slot: Slot, queue: &mut Queue<V, M>) {
        if !self.plane.is_merged(slot) {
            self.step_source(SourceEvent::CopyUnmerged(slot), queue);
        }
    }

    /// Goes on with feeds whose copies have come to be whole, or have more.
    pub(super) fn resume_feeds(&mut self, queue: &mut Queue<V, M>) {
        for slot in self.feeds.source.slots_to_read() {
            if self.plane.is_merged(slot) {
                self.step_source(SourceEvent::CopyReady(slot), queue);
            }
        }
    }

    /// The ring has changed: feeds end where this node is no owner, and begin at other owners.
    pub(super) fn change_owners_of_feeds(&mut self, queue: &mut Queue<V, M>) {
        for slot in self.feeds.source.slots() {
            if !self.plane.is_owner(slot) {
                self.step_source(SourceEvent::OwnershipEnded(slot), queue);
            }
        }
        let slots: Vec<Slot> = self.connections.slots().collect();
        for slot in slots {
            let owners = self.owners_to_ask(slot);
            self.step_sink(SinkEvent::OwnersChanged { slot, owners }, queue);
        }
    }

    /// A peer was given up, or the connection to it is a new one.
    pub(super) fn lose_feeds_of(&mut self, peer: NodeId, queue: &mut Queue<V, M>) {
        self.step_source(SourceEvent::PeerLost(peer), queue);
        self.step_sink(SinkEvent::OwnerLost(peer), queue);
    }

    /// Feeds clients again whose owners have all refused, after some time.
    pub(super) fn retry_feeds(&mut self, now: Now, queue: &mut Queue<V, M>) {
        if self.feeds.retry_at.is_some_and(|at| at <= now.monotonic) {
            self.feeds.retry_at = None;
            self.step_sink(SinkEvent::Retried, queue);
        }
    }

    /// Sets the time of the next try, if a client waits for it.
    pub(super) fn plan_retry(&mut self, now: Now) {
        if self.feeds.sink.stalled() == 0 {
            self.feeds.retry_at = None;
        } else if self.feeds.retry_at.is_none() {
            self.feeds.retry_at = Some(now.monotonic + self.feeds.retry_after);
        }
    }
}

/// Values of messages are those of messages, and values of packet ids those of packet ids.
fn check_values<V: DeliveryValue>(peer: NodeId, items: &FeedItems<V>) -> Result<(), FeedError> {
    let feed = items.feed;
    let messages = items
        .items
        .iter()
        .filter(|item| item.value.delivery_qos().is_none());
    let added = items.deliveries.added.iter();
    let deliveries = added.filter(|added| added.value.packet_delivery().is_none());
    let others = messages.map(|item| item.key.dot);
    match others.chain(deliveries.map(|added| added.dot)).next() {
        Some(event) => Err(FeedError::OtherValue { peer, feed, event }),
        None => Ok(()),
    }
}

/// Messages of a feed with their QoS, and packet ids. All values were checked.
fn fed_messages<V: DeliveryValue>(deliveries: DeliveryChanges<V>, items: Vec<FeedItem<V>>) -> FedMessages<V> {
    let DeliveryChanges { added, gone, ended } = deliveries;
    let added = added
        .into_iter()
        .filter_map(|FeedDelivery { dot, known, value }| {
            let value = value.packet_delivery()?;
            Some(FeedDelivery { dot, known, value })
        });
    let messages = items.into_iter().filter_map(|FeedItem { key, value }| {
        let qos = value.delivery_qos()?;
        Some(QueuedMessage { key, qos, value })
    });
    FedMessages {
        deliveries: DeliveryChanges {
            added: added.collect(),
            gone,
            ended,
        },
        messages: messages.collect(),
    }
}
