//! Source of feeds: sends the queues of this node's sessions to the nodes of their connections.
//!
//! ```text
//!            the copy is merged and has `known`
//!   Waiting ------------------------------------> Open
//!      ^                                            |
//!      '--------------------------------------------'
//!                 the copy is not merged
//! ```
//!
//! *Invariants*: a peer has one feed for each client at most; a later one replaces it. A message is
//! sent once in a feed, and not at all if the peer has said that it has it. A message goes out in
//! the order of keys among those that are in the queue and were not sent.

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;

use super::message::{CloseReason, FeedAction, FeedId, FeedItems, FeedMessage, FeedOpen, Window};
use super::{FeedError, FeedPlace, Queues};
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, Slot};

mod delivery_feed;
mod event;
mod queue_feed;

pub use event::SourceEvent;

use queue_feed::{Changes, QueueFeed};

/// Limits of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceLimits {
    /// Feeds of one peer at most. A further one is closed as [`CloseReason::Full`].
    pub feeds_per_peer_max: usize,
    /// Messages at the receiver of a feed at most, that were not acknowledged. Not below
    /// [`SinkLimits::window`](super::SinkLimits::window) of the peers. Beyond them nothing is sent,
    /// and a question that names more is refused.
    pub held_max: usize,
    /// Deliveries of one session that a feed tells of at most. A feed with more ends as
    /// [`CloseReason::TooManyDeliveries`], and a question that names more is refused. A session has
    /// at most 65,535 on each side of a split: one for each packet id.
    pub deliveries_max: usize,
}

/// Feeds of which this node is an owner.
///
/// A message that is added or removed costs O(log n) for each peer that is fed with the queue. Only
/// the begin of a feed, and a merge, read a whole queue. A feed keeps the keys of what it has not
/// sent; the limits of queues bound them.
#[derive(Debug)]
pub struct FeedSource {
    limits: SourceLimits,
    feeds: BTreeMap<FeedPlace, BTreeMap<NodeId, QueueFeed>>,
    /// Feeds that are not open.
    waiting: BTreeSet<FedPeer>,
    /// Open feeds with a delivery whose message may still come. Some have none any more.
    undecided: BTreeSet<FedPeer>,
    peers: BTreeMap<NodeId, PeerFeeds>,
    /// Clients with feeds that have ended since they were taken last.
    ended: BTreeSet<ClientId>,
}

/// Feed by its place and its receiver.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FedPeer {
    place: FeedPlace,
    peer: NodeId,
}

/// Feeds of one peer.
#[derive(Debug, Default)]
struct PeerFeeds {
    /// Number of the last feed that the peer has opened; 0 before the first.
    last: u64,
    places: BTreeMap<FeedId, FeedPlace>,
}

impl FeedSource {
    /// Source without feeds.
    pub fn new(limits: SourceLimits) -> FeedSource {
        FeedSource {
            limits,
            feeds: BTreeMap::new(),
            waiting: BTreeSet::new(),
            undecided: BTreeSet::new(),
            peers: BTreeMap::new(),
            ended: BTreeSet::new(),
        }
    }

    /// Takes what has happened; appends messages to peers, at most one for each feed.
    ///
    /// # Errors
    ///
    /// [`FeedError`] where a peer's message is refused.
    pub fn step<V: TransferBytes>(
        &mut self,
        event: SourceEvent,
        queues: &impl Queues<V>,
        actions: &mut Vec<FeedAction<V>>,
    ) -> Result<(), FeedError> {
        match event {
            SourceEvent::Opened { from, open } => self.open(from, open, queues, actions)?,
            SourceEvent::WindowGranted { from, feed, window } => {
                if let Some(place) = self.place_of(from, feed)? {
                    self.widen(&FedPeer { place, peer: from }, window, queues, actions)?;
                }
            }
            SourceEvent::Closed { from, feed } => {
                if let Some(place) = self.place_of(from, feed)? {
                    self.remove(&FedPeer { place, peer: from });
                }
            }
            SourceEvent::Appended { client, key } => self.change(client, queues, actions, |feed, _| {
                feed.append(key);
                Changes::default()
            }),
            SourceEvent::Removed { client, key, by } => {
                self.change(client, queues, actions, |feed, _| feed.remove(key, by));
            }
            SourceEvent::DeliveryAdded {
                client,
                delivery,
                message,
            } => self.change(client, queues, actions, |feed, client| {
                feed.add_delivery(delivery, message, client, queues)
            }),
            SourceEvent::DeliveryRemoved { client, delivery, by } => {
                self.change(client, queues, actions, |feed, _| {
                    feed.remove_delivery(delivery, by)
                });
            }
            SourceEvent::CopyReady(slot) => self.resume(slot, queues, actions),
            SourceEvent::CopyUnmerged(slot) => self.pause(slot),
            SourceEvent::OwnershipEnded(slot) => self.end(slot, actions),
            SourceEvent::PeerLost(peer) => self.lose(peer),
        }
        Ok(())
    }

    /// Feeds of this node, of all peers.
    pub fn len(&self) -> usize {
        self.peers.values().map(|peer| peer.places.len()).sum()
    }

    /// Feeds that wait for their copy.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Messages of a client that peers have from this node, and that are not acknowledged.
    pub(crate) fn held_of(&self, client: &ClientId) -> impl Iterator<Item = Dot> {
        let feeds = self.feeds.get(&FeedPlace::of_client(client.clone()));
        let feeds = feeds.into_iter().flat_map(BTreeMap::values);
        feeds.flat_map(QueueFeed::held)
    }

    /// Takes the clients with feeds that have ended: what was passed on waits again.
    pub(crate) fn take_ended(&mut self) -> BTreeSet<ClientId> {
        std::mem::take(&mut self.ended)
    }

    /// Slots with feeds.
    pub fn slots(&self) -> BTreeSet<Slot> {
        self.feeds.keys().map(|place| place.slot).collect()
    }

    /// Slots whose feeds wait for their copies to have more.
    pub fn slots_to_read(&self) -> BTreeSet<Slot> {
        let waiting = self.waiting.iter().chain(&self.undecided);
        waiting.map(|fed| fed.place.slot).collect()
    }

    /// There is no feed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn open<V: TransferBytes>(
        &mut self,
        from: NodeId,
        open: FeedOpen,
        queues: &impl Queues<V>,
        actions: &mut Vec<FeedAction<V>>,
    ) -> Result<(), FeedError> {
        let feed = open.feed;
        self.check_open(from, &open)?;
        self.peers.entry(from).or_default().last = feed.0;
        let place = FeedPlace::of_client(open.queue.client.clone());
        let fed = FedPeer { place, peer: from };
        self.remove(&fed);
        let peer = self.peers.entry(from).or_default();
        if let Some(reason) = refusal(&fed, queues, peer.places.len(), self.limits.feeds_per_peer_max) {
            actions.push(closed(from, feed, reason));
            return Ok(());
        }
        peer.places.insert(feed, fed.place.clone());
        let feed = QueueFeed::new(open);
        self.feeds
            .entry(fed.place.clone())
            .or_default()
            .insert(from, feed);
        self.read(fed, queues, actions);
        Ok(())
    }

    fn check_open(&self, peer: NodeId, open: &FeedOpen) -> Result<(), FeedError> {
        let feed = open.feed;
        let last = FeedId(self.peers.get(&peer).map_or(0, |peer| peer.last));
        if feed <= last {
            return Err(FeedError::FeedGoesBack { peer, feed, last });
        }
        delivery_feed::check_named(peer, open, self.limits.deliveries_max)?;
        let (held, held_max) = (open.held.len(), self.limits.held_max);
        if held > held_max {
            return Err(FeedError::TooManyHeld {
                peer,
                feed,
                held,
                held_max,
            });
        }
        Ok(())
    }

    /// Begins to send a queue, or goes on after a merge, once the copy is ready for it.
    fn read<V: TransferBytes>(
        &mut self,
        fed: FedPeer,
        queues: &impl Queues<V>,
        actions: &mut Vec<FeedAction<V>>,
    ) {
        let client = &fed.place.client;
        let Some(feed) = self
            .feeds
            .get_mut(&fed.place)
            .and_then(|of| of.get_mut(&fed.peer))
        else {
            return;
        };
        let Some(changes) = feed.read(client, queues) else {
            self.waiting.insert(fed);
            return;
        };
        self.waiting.remove(&fed);
        self.change_one(&fed, queues, actions, |_, _| changes);
    }

    fn widen<V: TransferBytes>(
        &mut self,
        fed: &FedPeer,
        window: Window,
        queues: &impl Queues<V>,
        actions: &mut Vec<FeedAction<V>>,
    ) -> Result<(), FeedError> {
        let of_client = self.feeds.get_mut(&fed.place);
        if let Some(feed) = of_client.and_then(|of_client| of_client.get_mut(&fed.peer)) {
            feed.widen(fed.peer, window)?;
            self.change_one(fed, queues, actions, |_, _| Changes::default());
        }
        Ok(())
    }

    /// Changes the feeds of a client, and sends what they are to send.
    fn change<V: TransferBytes>(
        &mut self,
        client: ClientId,
        queues: &impl Queues<V>,
        actions: &mut Vec<FeedAction<V>>,
        change: impl Fn(&mut QueueFeed, &ClientId) -> Changes,
    ) {
        let place = FeedPlace::of_client(client);
        let of_client = self.feeds.get(&place).into_iter().flatten();
        let peers: Vec<NodeId> = of_client.map(|(peer, _)| *peer).collect();
        for peer in peers {
            let place = place.clone();
            self.change_one(&FedPeer { place, peer }, queues, actions, &change);
        }
    }

    /// Changes a feed, and sends what it is to send. One that has too many deliveries ends, and so does one
    /// of a session that does not count: nothing of the other session is for its connection.
    fn change_one<V: TransferBytes>(
        &mut self,
        fed: &FedPeer,
        queues: &impl Queues<V>,
        actions: &mut Vec<FeedAction<V>>,
        change: impl FnOnce(&mut QueueFeed, &ClientId) -> Changes,
    ) {
        let (client, limits) = (&fed.place.client, self.limits);
        let of_client = self.feeds.get_mut(&fed.place);
        let Some(feed) = of_client.and_then(|of_client| of_client.get_mut(&fed.peer)) else {
            return;
        };
        let changes = change(feed, client);
        let is_full = feed.deliveries() > limits.deliveries_max;
        let reason = is_full.then_some(CloseReason::TooManyDeliveries);
        let beaten = feed.is_beaten(client, queues).then_some(CloseReason::NoSession);
        if let Some(reason) = beaten.or(reason) {
            let ended = self.remove(fed);
            actions.extend(ended.map(|feed| closed(fed.peer, feed, reason)));
            return;
        }
        if feed.has_undecided() {
            self.undecided.insert(fed.clone());
        }
        let items = feed.next_items(client, queues, limits.held_max, changes);
        actions.extend(items.map(|items| sent(fed.peer, items)));
    }

    /// Reads what waits for the copy, and looks for messages of deliveries again.
    fn resume<V: TransferBytes>(
        &mut self,
        slot: Slot,
        queues: &impl Queues<V>,
        actions: &mut Vec<FeedAction<V>>,
    ) {
        for fed in of_slot(&self.waiting, slot) {
            self.undecided.remove(&fed);
            self.read(fed, queues, actions);
        }
        for fed in of_slot(&self.undecided, slot) {
            self.undecided.remove(&fed);
            self.change_one(&fed, queues, actions, |feed, client| {
                feed.look_again(client, queues)
            });
        }
    }

    fn pause(&mut self, slot: Slot) {
        let of_slot = self.feeds.range_mut(FeedPlace::first_of(slot)..);
        for (place, feeds) in of_slot.take_while(|(place, _)| place.slot == slot) {
            for (peer, feed) in feeds {
                feed.pause();
                let (place, peer) = (place.clone(), *peer);
                self.waiting.insert(FedPeer { place, peer });
            }
        }
    }

    fn end<V>(&mut self, slot: Slot, actions: &mut Vec<FeedAction<V>>) {
        let of_slot = self.feeds.range(FeedPlace::first_of(slot)..);
        let of_slot = of_slot.take_while(|(place, _)| place.slot == slot);
        let ended = of_slot.flat_map(|(place, feeds)| {
            feeds.keys().map(|peer| FedPeer {
                place: place.clone(),
                peer: *peer,
            })
        });
        for fed in ended.collect::<Vec<FedPeer>>() {
            if let Some(feed) = self.remove(&fed) {
                actions.push(closed(fed.peer, feed, CloseReason::NotOwner));
            }
        }
    }

    fn lose(&mut self, peer: NodeId) {
        let lost = self.peers.remove(&peer).unwrap_or_default();
        for place in lost.places.into_values() {
            self.remove(&FedPeer { place, peer });
        }
    }

    /// Removes a feed; gives its number.
    fn remove(&mut self, fed: &FedPeer) -> Option<FeedId> {
        let of_client = self.feeds.get_mut(&fed.place)?;
        let removed = of_client.remove(&fed.peer)?.id();
        if of_client.is_empty() {
            self.feeds.remove(&fed.place);
        }
        self.ended.insert(fed.place.client.clone());
        self.waiting.remove(fed);
        self.undecided.remove(fed);
        if let Some(peer) = self.peers.get_mut(&fed.peer) {
            peer.places.remove(&removed);
        }
        Some(removed)
    }

    /// Place of a peer's feed. None where the feed has ended.
    fn place_of(&self, peer: NodeId, feed: FeedId) -> Result<Option<FeedPlace>, FeedError> {
        let opened = self
            .peers
            .get(&peer)
            .filter(|opened| feed.0 > 0 && feed.0 <= opened.last);
        let opened = opened.ok_or(FeedError::UnknownFeed { peer, feed })?;
        Ok(opened.places.get(&feed).cloned())
    }
}

/// Feeds of a slot.
fn of_slot(feeds: &BTreeSet<FedPeer>, slot: Slot) -> Vec<FedPeer> {
    let from = FedPeer {
        place: FeedPlace::first_of(slot),
        peer: NodeId(0),
    };
    let of_slot = feeds.range(from..).take_while(|fed| fed.place.slot == slot);
    of_slot.cloned().collect()
}

/// Reason why a feed is not opened.
fn refusal<V>(fed: &FedPeer, queues: &impl Queues<V>, feeds: usize, feeds_max: usize) -> Option<CloseReason> {
    if !queues.is_owned(fed.place.slot) {
        Some(CloseReason::NotOwner)
    } else if feeds >= feeds_max {
        Some(CloseReason::Full)
    } else {
        None
    }
}

fn sent<V>(to: NodeId, items: FeedItems<V>) -> FeedAction<V> {
    let message = FeedMessage::Items(items);
    FeedAction { to, message }
}

fn closed<V>(to: NodeId, feed: FeedId, reason: CloseReason) -> FeedAction<V> {
    let message = FeedMessage::Closed { feed, reason };
    FeedAction { to, message }
}
