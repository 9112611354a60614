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

use super::message::{CloseReason, FeedAction, FeedId, FeedItems, FeedMessage, FeedOpen, QueueKey, Window};
use super::{FeedError, FeedPlace, Queues};
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, Slot};

mod event;
mod queue_feed;

pub use event::SourceEvent;

use queue_feed::{QueueFeed, Removal};

/// Limits of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceLimits {
    /// Feeds of one peer at most. A further one is closed as [`CloseReason::Full`].
    pub feeds_per_peer_max: usize,
    /// Messages at the receiver of a feed at most, that were not acknowledged. Not below
    /// [`SinkLimits::window`](super::SinkLimits::window) of the peers. Beyond them nothing is sent,
    /// and a question that names more is refused.
    pub held_max: usize,
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
    peers: BTreeMap<NodeId, PeerFeeds>,
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
            peers: BTreeMap::new(),
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
            SourceEvent::Appended { client, key } => self.append(client, key, queues, actions),
            SourceEvent::Removed { client, key, by } => self.withdraw(client, key, by, queues, actions),
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
        let place = FeedPlace::of_client(open.client.clone());
        let fed = FedPeer { place, peer: from };
        self.remove(&fed);
        let peer = self.peers.entry(from).or_default();
        if let Some(reason) = refusal(&fed, queues, peer.places.len(), self.limits.feeds_per_peer_max) {
            actions.push(closed(from, feed, reason));
            return Ok(());
        }
        peer.places.insert(feed, fed.place.clone());
        let of_client = self.feeds.entry(fed.place.clone()).or_default();
        of_client.insert(from, QueueFeed::new(open));
        self.read(fed, queues, actions);
        Ok(())
    }

    fn check_open(&self, peer: NodeId, open: &FeedOpen) -> Result<(), FeedError> {
        let feed = open.feed;
        let last = FeedId(self.peers.get(&peer).map_or(0, |peer| peer.last));
        if feed <= last {
            return Err(FeedError::FeedGoesBack { peer, feed, last });
        }
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
        let Some(removal) = feed.read(client, queues) else {
            self.waiting.insert(fed);
            return;
        };
        self.waiting.remove(&fed);
        let items = feed.next_items(client, queues, self.limits.held_max, removal);
        actions.extend(items.map(|items| sent(fed.peer, items)));
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
            let client = &fed.place.client;
            let items = feed.next_items(client, queues, self.limits.held_max, Removal::default());
            actions.extend(items.map(|items| sent(fed.peer, items)));
        }
        Ok(())
    }

    fn append<V: TransferBytes>(
        &mut self,
        client: ClientId,
        key: QueueKey,
        queues: &impl Queues<V>,
        actions: &mut Vec<FeedAction<V>>,
    ) {
        let place = FeedPlace::of_client(client);
        for (peer, feed) in self.feeds.get_mut(&place).into_iter().flatten() {
            feed.append(key);
            let items = feed.next_items(&place.client, queues, self.limits.held_max, Removal::default());
            actions.extend(items.map(|items| sent(*peer, items)));
        }
    }

    fn withdraw<V: TransferBytes>(
        &mut self,
        client: ClientId,
        key: QueueKey,
        by: Dot,
        queues: &impl Queues<V>,
        actions: &mut Vec<FeedAction<V>>,
    ) {
        let place = FeedPlace::of_client(client);
        for (peer, feed) in self.feeds.get_mut(&place).into_iter().flatten() {
            // The receiver knows what it has removed itself.
            let is_untold = feed.remove(key) && by.run.node != *peer;
            let removal = is_untold.then(|| Removal::by_event(key, by));
            let removal = removal.unwrap_or_default();
            let items = feed.next_items(&place.client, queues, self.limits.held_max, removal);
            actions.extend(items.map(|items| sent(*peer, items)));
        }
    }

    fn resume<V: TransferBytes>(
        &mut self,
        slot: Slot,
        queues: &impl Queues<V>,
        actions: &mut Vec<FeedAction<V>>,
    ) {
        let from = FedPeer {
            place: FeedPlace::first_of(slot),
            peer: NodeId(0),
        };
        let waiting = self.waiting.range(from..);
        let waiting: Vec<FedPeer> = waiting
            .take_while(|fed| fed.place.slot == slot)
            .cloned()
            .collect();
        for fed in waiting {
            self.read(fed, queues, actions);
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
        self.waiting.remove(fed);
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
