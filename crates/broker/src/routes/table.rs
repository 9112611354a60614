//! What the other nodes want: the filters that they have announced, found by topic name.
//!
//! Each node's entries are its own business: there is nothing to resolve. Filters of all nodes are in one index of the kind that
//! sessions are found by, with nodes in the place of sessions, so a message is looked up once however many nodes there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use mqtt::memory::footprint::{block, places, text, tree, tree_entry};
use mqtt::origin::Slots;
use mqtt::subscriptions::{Index, Point};
use protocol::topic::{SubscriptionFilter, TopicFilter};
use slab::Slab;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How many nodes of the trie of their filters a message visits at most: as many as the default of
/// [`mqtt::limits::Limits::matching_steps_max`]. What goes beyond it lets a node have everything.
const REACH_MAX: u32 = 8_192;

/// A node's place here, below 64.
pub(crate) type Slot = usize;

/// What the other nodes want.
#[derive(Debug)]
pub(super) struct RouteTable {
    filters: Index<u8, ()>,
    shares: Slab<RemoteShare>,
    by_filter: BTreeMap<Arc<SubscriptionFilter>, u32>,
    share_index: Index<u32, ()>,
    nodes: BTreeMap<Slot, NodeRoutes>,
    /// Nodes with more filters than are kept.
    wants_all: Slots,
    bytes_max: u64,
}

/// What one node has announced.
#[derive(Debug, Default)]
struct NodeRoutes {
    filters: BTreeMap<TopicFilter, u64>,
    /// Where it takes part, and in which announcement it said so.
    shares: BTreeMap<u32, u64>,
    /// Rises with each announcement of everything.
    round: u64,
    bytes: u64,
    /// In the present round something of it was not kept.
    is_over: bool,
}

/// A share that has members at other nodes.
#[derive(Debug)]
struct RemoteShare {
    filter: Arc<SubscriptionFilter>,
    /// How many of each node are connected, and all.
    counts: BTreeMap<Slot, (u32, u32)>,
    turn: u64,
}

/// A node that may be chosen for a share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// `None`: this node.
    pub(super) slot: Option<Slot>,
    pub(super) node: u64,
    pub(super) connected: u32,
    pub(super) all: u32,
}

impl RouteTable {
    /// Nothing is wanted. `seed` is for the hashes; `bytes_max` is for all nodes together.
    pub(super) fn new(seed: u64, bytes_max: u64) -> Self {
        Self {
            filters: Index::new(seed),
            shares: Slab::new(),
            by_filter: BTreeMap::new(),
            share_index: Index::new(seed),
            nodes: BTreeMap::new(),
            wants_all: 0,
            bytes_max,
        }
    }

    /// The node announces everything anew.
    pub(super) fn begin(&mut self, slot: Slot) {
        let routes = self.nodes.entry(slot).or_default();
        routes.round += 1;
        routes.is_over = false;
    }

    /// It has announced everything: what it did not name is gone.
    pub(super) fn end(&mut self, slot: Slot) {
        let Some(routes) = self.nodes.get(&slot) else {
            return;
        };
        let is_old = |round: u64| round != routes.round;
        let filters = routes.filters.iter().filter(|(_, round)| is_old(**round));
        let filters: Vec<_> = filters.map(|(filter, _)| filter.clone()).collect();
        let shares = routes.shares.iter().filter(|(_, round)| is_old(**round));
        let shares: Vec<_> = shares.map(|(share, _)| *share).collect();
        for filter in filters {
            self.remove(slot, &filter);
        }
        for share in shares {
            self.leave(slot, share);
        }
        let routes = self.nodes.get(&slot);
        if routes.is_some_and(|routes| !routes.is_over) {
            self.wants_all &= !(1 << slot);
        }
    }

    /// What a node wants for subscriptions of its own, and whether that is everything.
    pub(super) fn wanted(&self, slot: Slot) -> (bool, impl ExactSizeIterator<Item = &TopicFilter>) {
        let filters = self.nodes.get(&slot).map(|routes| &routes.filters);
        let filters = filters.unwrap_or(const { &BTreeMap::new() });
        (self.wants_all >> slot & 1 == 1, filters.keys())
    }

    /// A node wants everything, as far as is known.
    pub(super) fn add_all(&mut self, slot: Slot) {
        self.wants_all |= 1 << slot;
    }

    /// Adds a filter. False if it is one too many: then the node gets everything.
    pub(super) fn add(&mut self, slot: Slot, filter: &TopicFilter) -> bool {
        let is_full = self.bytes() + size(filter) > self.bytes_max;
        let routes = self.nodes.entry(slot).or_default();
        if let Some(round) = routes.filters.get_mut(filter) {
            *round = routes.round;
            return true;
        }
        let bytes = size(filter);
        let (before, reach) = self.filters.reach_with(filter);
        if is_full || reach > before.max(REACH_MAX) {
            routes.is_over = true;
            self.wants_all |= 1 << slot;
            return false;
        }
        routes.bytes += bytes;
        routes.filters.insert(filter.detached(), routes.round);
        self.filters.insert(filter, key(slot), ());
        true
    }

    pub(super) fn remove(&mut self, slot: Slot, filter: &TopicFilter) {
        let Some(routes) = self.nodes.get_mut(&slot) else {
            return;
        };
        if routes.filters.remove(filter).is_some() {
            routes.bytes -= size(filter);
            self.filters.remove(filter, key(slot));
        }
    }

    /// Takes note of how many of a node share something. False if it is one share too many, of which nothing is known then.
    pub(super) fn share(&mut self, slot: Slot, filter: &SubscriptionFilter, counts: (u32, u32)) -> bool {
        if counts.1 == 0 {
            if let Some(share) = self.by_filter.get(filter) {
                self.leave(slot, *share);
            }
            return true;
        }
        let is_full = self.bytes() + size_of_share(filter) > self.bytes_max;
        let routes = self.nodes.entry(slot).or_default();
        let known = self.by_filter.get(filter).copied();
        let is_in = known.is_some_and(|share| routes.shares.contains_key(&share));
        let bytes = size_of_share(filter);
        let (before, reach) = self.share_index.reach_with(&filter.filter);
        if !is_in && (is_full || reach > before.max(REACH_MAX)) {
            return false;
        }
        routes.bytes += if is_in { 0 } else { bytes };
        let share = known.unwrap_or_else(|| {
            let filter = Arc::new(filter.detached());
            let share = RemoteShare {
                filter: Arc::clone(&filter),
                counts: BTreeMap::new(),
                turn: 0,
            };
            let place = u32::try_from(self.shares.insert(share)).expect("fewer than 2^32 shares");
            self.share_index.insert(&filter.filter, place, ());
            self.by_filter.insert(filter, place);
            place
        });
        routes.shares.insert(share, routes.round);
        self.shares[share as usize].counts.insert(slot, counts);
        true
    }

    /// The node is not in the cluster any more.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.begin(slot);
        self.end(slot);
        self.nodes.remove(&slot);
        self.wants_all &= !(1 << slot);
    }

    /// The nodes that want messages to `topic` for subscriptions of their own.
    pub(super) fn matches(&self, topic: &str) -> Slots {
        let mut found = self.wants_all;
        self.filters.matches(topic, &mut |slot, ()| found |= 1 << slot);
        found
    }

    /// Visits the shares of other nodes that a message to `topic` is for.
    pub(super) fn matching_shares(&self, topic: &str, visit: &mut impl FnMut(u32)) {
        self.share_index.matches(topic, &mut |share, ()| visit(share));
    }

    /// How many nodes of the tries messages have visited since the start.
    pub(super) fn visited(&self) -> u64 {
        self.filters.visited() + self.share_index.visited()
    }

    /// The place of a share in which other nodes take part.
    pub(super) fn find_share(&self, filter: &SubscriptionFilter) -> Option<u32> {
        self.by_filter.get(filter).copied()
    }

    pub(super) fn share_filter(&self, share: u32) -> &Arc<SubscriptionFilter> {
        &self.shares[share as usize].filter
    }

    /// The nodes that take part in a share, with how many are connected there, and all.
    pub(super) fn sharing_nodes(&self, share: u32) -> impl Iterator<Item = (Slot, (u32, u32))> + '_ {
        let counts = &self.shares[share as usize].counts;
        counts.iter().map(|(slot, counts)| (*slot, *counts))
    }

    /// Chooses the node that gets a message: in turn, as often as it has sharers, or with a `point` always the same one. Nodes with
    /// sharers that are connected go before those that have none.
    pub(super) fn choose(
        &mut self,
        share: u32,
        candidates: &[Candidate],
        point: Option<Point>,
    ) -> Option<Candidate> {
        let is_any_connected = candidates.iter().any(|candidate| candidate.connected > 0);
        let weight = |candidate: &Candidate| {
            let count = if is_any_connected {
                candidate.connected
            } else {
                candidate.all
            };
            u64::from(count)
        };
        if let Some(point) = point {
            let candidates = candidates.iter().filter(|candidate| weight(candidate) > 0);
            let best = candidates.max_by_key(|candidate| score(point, candidate.node, weight(candidate)));
            return best.copied();
        }
        let total: u64 = candidates.iter().map(weight).sum();
        let share = &mut self.shares[share as usize];
        share.turn = share.turn.wrapping_add(1);
        let mut turn = share.turn.checked_rem(total)?;
        candidates.iter().copied().find(|candidate| {
            let weight = weight(candidate);
            let is_its_turn = turn < weight;
            turn = turn.saturating_sub(weight);
            is_its_turn
        })
    }

    /// How many filters and shares all nodes have announced.
    pub(super) fn len(&self) -> usize {
        let routes = self.nodes.values();
        routes
            .map(|routes| routes.filters.len() + routes.shares.len())
            .sum()
    }

    /// The memory of all of it.
    pub(super) fn bytes(&self) -> u64 {
        let places: u64 = self.nodes.values().map(|routes| routes.bytes).sum();
        self.filters.bytes() + self.share_index.bytes() + places
    }

    /// A node has nobody in a share any more.
    fn leave(&mut self, slot: Slot, place: u32) {
        let Some(routes) = self.nodes.get_mut(&slot) else {
            return;
        };
        if routes.shares.remove(&place).is_none() {
            return;
        }
        let share = &mut self.shares[place as usize];
        routes.bytes -= size_of_share(&share.filter);
        share.counts.remove(&slot);
        if share.counts.is_empty() {
            let share = self.shares.remove(place as usize);
            self.by_filter.remove(&share.filter);
            self.share_index.remove(&share.filter.filter, place);
        }
    }
}

/// Weighted rendezvous hashing (Thaler, Ravishankar 1998), each sharer a throw: the same on every node.
fn score(point: Point, node: u64, weight: u64) -> u64 {
    let throws = 0..weight.min(THROWS_MAX);
    let bytes = |throw: u64| [point.number(), node, throw].map(u64::to_be_bytes).concat();
    let scores = throws.map(|throw| xxh3_64_with_seed(&bytes(throw), SCORE_SEED));
    scores.max().unwrap_or(0)
}

/// The memory of a filter in the list of a node.
fn size(filter: &TopicFilter) -> u64 {
    text(filter.text()) + tree_entry::<TopicFilter, u64>()
}

/// The memory of a share with one node, as if each node had one of its own.
fn size_of_share(share: &SubscriptionFilter) -> u64 {
    let texts = share.share.as_ref().map_or(0, text) + text(share.filter.text());
    let filter = block(2 * size_of::<usize>() + size_of::<SubscriptionFilter>()) + texts;
    let places = places::<RemoteShare>(1) + tree::<Slot, (u32, u32)>(1);
    filter + places + tree_entry::<Arc<SubscriptionFilter>, u32>() + tree_entry::<u32, u64>()
}

fn key(slot: Slot) -> u8 {
    u8::try_from(slot).expect("fewer than 64 nodes")
}

/// Nodes with more sharers count as if they had as many.
const THROWS_MAX: u64 = 64;

/// Never changed: all nodes must choose the same one.
const SCORE_SEED: u64 = 0x5348_4152_4544_0002;
