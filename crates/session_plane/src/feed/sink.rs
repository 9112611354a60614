//! Sink of feeds: receives the queues of the clients that are connected to this node.
//!
//! ```text
//!            opened at an owner               the owner is lost, or closes the feed
//!   Stalled --------------------> Fed -----------------------------------.
//!      ^                           ^                                     |
//!      |                           '---------- opened at the next one ---|
//!      '------------------------- no other owner, or each has closed it -'
//! ```
//!
//! *Invariants*: a client has one feed at most. What was passed on is *held* until the client has
//! acknowledged it, or an owner has removed it. Each feed names what is held, so no owner sends it
//! again. What was acknowledged is among what the node knows, so each owner that answers has
//! removed it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::NodeId;

use super::message::{FeedAction, FeedId, FeedItem, FeedItems, FeedMessage, QueueId, QueueKey, Window};
use super::{DeliveryChanges, FeedError, FeedPlace, FeedsFull};
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, Run, Slot, VersionVector};

mod fed_session;
mod known_deliveries;

use fed_session::{FedSession, OpenFeed, Received};

/// Limits of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkLimits {
    /// Clients that are fed at most; see [`FeedsFull`].
    pub feeds_max: usize,
    /// Messages of one client, and their bytes, that were passed on and not acknowledged. Each is at
    /// least 1. Owners send no more.
    pub window: Window,
    /// Deliveries of older connections of one client at most. An owner that tells of more is refused.
    /// Not below [`SourceLimits::deliveries_max`](super::SourceLimits::deliveries_max) of the peers.
    pub deliveries_max: usize,
}

/// Event at the node of connections, other than the begin of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkEvent<V> {
    /// A connection has ended.
    Ended {
        /// Its client.
        client: ClientId,
    },
    /// A client has acknowledged a message, and the event that removes it is made. From now on it is
    /// among the events that the node knows.
    Acknowledged {
        /// The client.
        client: ClientId,
        /// The message.
        key: QueueKey,
    },
    /// The connection has removed a delivery of an older one: it has written the packet id anew, or
    /// the client has sent PUBCOMP. The event is among those that the node knows.
    DeliveryEnded {
        /// The client.
        client: ClientId,
        /// Event of the delivery.
        delivery: Dot,
    },
    /// A slot has other owners than before.
    OwnersChanged {
        /// The slot.
        slot: Slot,
        /// Its present owners, in the order in which they are asked.
        owners: Vec<NodeId>,
    },
    /// An owner was given up, or the connection to it is a new one.
    OwnerLost(NodeId),
    /// Items of an owner.
    ItemsReceived {
        /// The owner.
        from: NodeId,
        /// Its message.
        items: FeedItems<V>,
    },
    /// An owner has ended a feed, for whatever reason.
    Closed {
        /// The owner.
        from: NodeId,
        /// The feed.
        feed: FeedId,
    },
    /// Some time has passed: clients that are not fed are fed again.
    Retried,
}

/// What the node does for a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkAction<V> {
    /// Sends a message to an owner.
    Send(FeedAction<V>),
    /// Passes packet ids and messages on to a session, in this order and after those before. The first ones of an
    /// owner are passed on even if there are none: the node knows then which packet ids the session has.
    Deliver {
        /// Client of the session.
        client: ClientId,
        /// Packet ids of older connections. One whose message is gone is released with PUBREL.
        deliveries: DeliveryChanges<V>,
        /// The messages.
        items: Vec<FeedItem<V>>,
    },
    /// Takes back messages that an owner has removed, as far as the client has not received them.
    Withdraw {
        /// Client of the session.
        client: ClientId,
        /// The messages.
        keys: Vec<QueueKey>,
    },
}

/// Feeds of the clients that are connected to this node.
///
/// An item costs O(log n). A feed keeps the keys of what is held, which the window bounds.
#[derive(Debug)]
pub struct FeedSink {
    /// Run of this node.
    run: Run,
    limits: SinkLimits,
    /// Number of the last feed; 0 before the first.
    last: u64,
    sessions: BTreeMap<FeedPlace, FedSession>,
    feeds: BTreeMap<FeedId, FeedPlace>,
    /// Feeds by the owner that sends them.
    owners: BTreeMap<NodeId, BTreeSet<FeedId>>,
    /// Clients without a feed.
    stalled: BTreeSet<FeedPlace>,
}

impl FeedSink {
    /// Sink without feeds, of this run of the node.
    pub fn new(run: Run, limits: SinkLimits) -> FeedSink {
        assert!(limits.window.items >= 1, "a window has room for an item");
        assert!(limits.window.bytes >= 1, "a window has room for a byte");
        FeedSink {
            run,
            limits,
            last: 0,
            sessions: BTreeMap::new(),
            feeds: BTreeMap::new(),
            owners: BTreeMap::new(),
            stalled: BTreeSet::new(),
        }
    }

    /// Begins to feed a client that has connected, with its session. A feed of an older connection ends.
    ///
    /// `owners` are the present owners of the client's slot, in the order in which they are asked.
    /// `known` is what the node knows to exist, its own events among it.
    ///
    /// # Errors
    ///
    /// [`FeedsFull`] where the node feeds as many clients as it may.
    pub fn begin<V>(
        &mut self,
        queue: QueueId,
        owners: Vec<NodeId>,
        known: &Arc<VersionVector>,
        actions: &mut Vec<SinkAction<V>>,
    ) -> Result<(), FeedsFull> {
        let place = FeedPlace::of_client(queue.client);
        let feeds_max = self.limits.feeds_max;
        if self.sessions.len() >= feeds_max && !self.sessions.contains_key(&place) {
            return Err(FeedsFull { feeds_max });
        }
        self.end(&place, actions);
        let run = self.run;
        let own_after = Dot {
            run,
            number: known.last_event(run),
        };
        self.sessions
            .insert(place.clone(), FedSession::new(queue.birth, owners, own_after));
        self.open_next(place, known, actions);
        Ok(())
    }

    /// Takes what has happened; appends what the node does. `known` gives what [`FeedSink::begin`] gets; only
    /// events after which feeds begin ask for it.
    ///
    /// # Errors
    ///
    /// [`FeedError`] where an owner's message is refused.
    pub fn step<V: TransferBytes>(
        &mut self,
        event: SinkEvent<V>,
        known: impl Fn() -> Arc<VersionVector>,
        actions: &mut Vec<SinkAction<V>>,
    ) -> Result<(), FeedError> {
        match event {
            SinkEvent::Ended { client } => self.end(&FeedPlace::of_client(client), actions),
            SinkEvent::Acknowledged { client, key } => {
                let place = FeedPlace::of_client(client);
                if let Some(session) = self.sessions.get_mut(&place) {
                    session.release(key);
                    actions.extend(session.grant(self.limits.window));
                }
            }
            SinkEvent::DeliveryEnded { client, delivery } => {
                if let Some(session) = self.sessions.get_mut(&FeedPlace::of_client(client)) {
                    session.end_delivery(delivery);
                }
            }
            SinkEvent::OwnersChanged { slot, owners } => self.change_owners(slot, &owners, &known(), actions),
            SinkEvent::OwnerLost(owner) => self.lose(owner, &known(), actions),
            SinkEvent::ItemsReceived { from, items } => self.receive(from, items, actions)?,
            SinkEvent::Closed { from, feed } => {
                if let Some(place) = self.place_of(from, feed)? {
                    self.forget_feed(&place);
                    self.open_next(place, &known(), actions);
                }
            }
            SinkEvent::Retried => {
                let known = known();
                for place in std::mem::take(&mut self.stalled) {
                    self.reset(&place);
                    self.open_next(place, &known, actions);
                }
            }
        }
        Ok(())
    }

    /// Clients without a feed: the node steps with [`SinkEvent::Retried`] after some time.
    pub fn stalled(&self) -> usize {
        self.stalled.len()
    }

    fn receive<V: TransferBytes>(
        &mut self,
        from: NodeId,
        mut items: FeedItems<V>,
        actions: &mut Vec<SinkAction<V>>,
    ) -> Result<(), FeedError> {
        let Some(place) = self.place_of(from, items.feed)? else {
            return Ok(());
        };
        let Some(session) = self.sessions.get_mut(&place) else {
            return Ok(());
        };
        let is_answer = items.number == 0;
        let Received {
            removed: keys,
            deliveries,
        } = session.receive(from, &mut items, self.limits)?;
        // An empty answer says that the session has no packet ids.
        if is_answer || !items.items.is_empty() || !deliveries.is_empty() {
            let (client, items) = (place.client.clone(), items.items);
            actions.push(SinkAction::Deliver {
                client,
                deliveries,
                items,
            });
        }
        if !keys.is_empty() {
            let client = place.client;
            actions.push(SinkAction::Withdraw { client, keys });
        }
        actions.extend(session.grant(self.limits.window));
        Ok(())
    }

    fn change_owners<V>(
        &mut self,
        slot: Slot,
        owners: &[NodeId],
        known: &Arc<VersionVector>,
        actions: &mut Vec<SinkAction<V>>,
    ) {
        let mut unfed = Vec::new();
        let of_slot = self.sessions.range_mut(FeedPlace::first_of(slot)..);
        for (place, session) in of_slot.take_while(|(place, _)| place.slot == slot) {
            session.change_owners(owners.to_vec());
            if session.feed().is_none_or(|feed| !owners.contains(&feed.owner)) {
                unfed.push(place.clone());
            }
        }
        for place in unfed {
            self.close(&place, actions);
            self.open_next(place, known, actions);
        }
    }

    fn lose<V>(&mut self, owner: NodeId, known: &Arc<VersionVector>, actions: &mut Vec<SinkAction<V>>) {
        for feed in self.owners.remove(&owner).unwrap_or_default() {
            if let Some(place) = self.feeds.get(&feed).cloned() {
                self.forget_feed(&place);
                self.open_next(place, known, actions);
            }
        }
    }

    /// Opens a feed at the next owner that was not asked. Where each was, the client is stalled.
    fn open_next<V>(
        &mut self,
        place: FeedPlace,
        known: &Arc<VersionVector>,
        actions: &mut Vec<SinkAction<V>>,
    ) {
        let feed = FeedId(self.last + 1);
        let Some(session) = self.sessions.get_mut(&place) else {
            return;
        };
        let Some(open) = session.open(feed, place.client.clone(), known, self.limits.window) else {
            self.stalled.insert(place);
            return;
        };
        self.last = feed.0;
        self.stalled.remove(&place);
        self.owners.entry(open.to).or_default().insert(feed);
        self.feeds.insert(feed, place);
        actions.push(SinkAction::Send(open));
    }

    /// Ends the feeding of a client.
    fn end<V>(&mut self, place: &FeedPlace, actions: &mut Vec<SinkAction<V>>) {
        self.close(place, actions);
        self.sessions.remove(place);
        self.stalled.remove(place);
    }

    /// Ends the feed of a client, and tells its owner.
    fn close<V>(&mut self, place: &FeedPlace, actions: &mut Vec<SinkAction<V>>) {
        if let Some(OpenFeed { id: feed, owner, .. }) = self.forget_feed(place) {
            actions.push(send(owner, FeedMessage::Close { feed }));
        }
    }

    fn forget_feed(&mut self, place: &FeedPlace) -> Option<OpenFeed> {
        let feed = self.sessions.get_mut(place)?.take_feed()?;
        self.feeds.remove(&feed.id);
        if let Some(of_owner) = self.owners.get_mut(&feed.owner) {
            of_owner.remove(&feed.id);
        }
        Some(feed)
    }

    fn reset(&mut self, place: &FeedPlace) {
        if let Some(session) = self.sessions.get_mut(place) {
            session.reset();
        }
    }

    /// Place of a feed that `from` sends. None where the feed has ended.
    fn place_of(&self, from: NodeId, feed: FeedId) -> Result<Option<FeedPlace>, FeedError> {
        let unknown = FeedError::UnknownFeed { peer: from, feed };
        if feed.0 == 0 || feed.0 > self.last {
            return Err(unknown);
        }
        let Some(place) = self.feeds.get(&feed) else {
            return Ok(None);
        };
        let is_sender = self.owners.get(&from).is_some_and(|feeds| feeds.contains(&feed));
        if is_sender {
            Ok(Some(place.clone()))
        } else {
            Err(unknown)
        }
    }
}

fn send<V>(to: NodeId, message: FeedMessage<V>) -> SinkAction<V> {
    SinkAction::Send(FeedAction { to, message })
}
