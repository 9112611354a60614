//! Shared subscriptions: of everybody who shares one, exactly one gets each message.
//!
//! A *share* is a share name with a filter; the sessions subscribed to it are its *sharers*. Who is connected and keeps up
//! goes before who is connected, who is connected before who is away. Among equals it goes round, or by a hash that the
//! caller gives; a hash does not look at who keeps up, so that what belongs together stays together.
//!
//! Each choice and each change costs the logarithm of the number of sharers. It is told what becomes of sessions, and
//! does not look for itself. A share exists as long as it has a sharer. Taking it out of the index costs as much as its filter
//! has levels, and is left to [`Shares::sweep`], so that a session leaves many shares at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::topic::SubscriptionFilter;
use slab::Slab;

use super::Subscription;
use super::circle::{Circle, Place, Point};
use super::index::Index;
use crate::ids::SessionKey;
use crate::memory::footprint::{cloned_text, places, tree_entry};

/// A share's place in memory; used again after its last sharer has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShareKey(u32);

/// How good a sharer is for the next message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Standing {
    /// Connected, and takes what it gets.
    Free,
    /// Connected, and much waits in its queue.
    Behind,
    /// Not connected: what it gets waits until it is back.
    #[default]
    Away,
}

/// Who gets a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// For which share.
    pub share: Arc<SubscriptionFilter>,
    /// Whose turn it is.
    pub session: SessionKey,
    /// How that session subscribed.
    pub subscription: Subscription,
}

/// All shared subscriptions of a node.
#[derive(Debug)]
pub struct Shares {
    shares: Slab<Share>,
    by_filter: BTreeMap<Arc<SubscriptionFilter>, ShareKey>,
    index: Index<ShareKey, ()>,
    subscriptions: usize,
    /// Shares without sharers that may still be in the index, each once.
    emptied: Vec<ShareKey>,
    /// How many shares have no sharers.
    empty: usize,
    /// The memory of the shares' names and filters.
    filters: u64,
}

#[derive(Debug)]
struct Share {
    filter: Arc<SubscriptionFilter>,
    sharers: BTreeMap<SessionKey, Sharer>,
    free: Circle,
    behind: Circle,
    away: Circle,
    /// Who had the latest turn.
    latest: Place,
    /// It is among [`Shares::emptied`].
    is_emptied: bool,
}

#[derive(Debug)]
struct Sharer {
    point: Point,
    standing: Standing,
    subscription: Subscription,
}

impl Shares {
    /// No share yet. `seed` is to be random, so that no client can choose names whose hashes collide.
    pub fn new(seed: u64) -> Self {
        Self {
            shares: Slab::new(),
            by_filter: BTreeMap::new(),
            index: Index::new(seed),
            subscriptions: 0,
            emptied: Vec::new(),
            empty: 0,
            filters: 0,
        }
    }

    /// Adds a session to a share; `point` is that of its client id. A subscription that it had is replaced and returned:
    /// it stays one sharer. (section 4.8.2)
    pub fn subscribe(
        &mut self,
        session: SessionKey,
        point: Point,
        filter: &SubscriptionFilter,
        subscription: Subscription,
    ) -> Option<Subscription> {
        assert!(filter.share.is_some(), "only shared subscriptions have sharers");
        let key = self.share_or_new(filter);
        let share = &mut self.shares[key.0 as usize];
        if let Some(sharer) = share.sharers.get_mut(&session) {
            return Some(std::mem::replace(&mut sharer.subscription, subscription));
        }
        let sharer = Sharer {
            point,
            standing: Standing::Away,
            subscription,
        };
        self.empty -= usize::from(share.sharers.is_empty());
        share.sharers.insert(session, sharer);
        share.away.insert((point, session));
        self.subscriptions += 1;
        None
    }

    /// Removes a session from a share; false if it was not in it.
    pub fn unsubscribe(&mut self, session: SessionKey, filter: &SubscriptionFilter) -> bool {
        let Some(key) = self.by_filter.get(filter).copied() else {
            return false;
        };
        let share = &mut self.shares[key.0 as usize];
        let Some(sharer) = share.sharers.remove(&session) else {
            return false;
        };
        share.circle(sharer.standing).remove((sharer.point, session));
        self.subscriptions -= 1;
        if share.sharers.is_empty() {
            self.empty += 1;
            // Whoever comes begins anew.
            share.latest = nobody();
            if !std::mem::replace(&mut share.is_emptied, true) {
                self.emptied.push(key);
            }
        }
        true
    }

    /// Whether there may be something to sweep.
    pub fn is_swept(&self) -> bool {
        self.emptied.is_empty()
    }

    /// Forgets one share that has no sharers, if there is one left; its filter.
    pub fn sweep(&mut self) -> Option<Arc<SubscriptionFilter>> {
        while let Some(key) = self.emptied.pop() {
            let place = key.0 as usize;
            self.shares[place].is_emptied = false;
            if self.shares[place].sharers.is_empty() {
                let filter = self.shares.remove(place).filter;
                self.index.remove(&filter.filter, key);
                self.by_filter.remove(&filter);
                self.filters -= filter_bytes(&filter);
                self.empty -= 1;
                return Some(filter);
            }
        }
        self.emptied = Vec::new();
        None
    }

    /// Takes note of how a sharer stands now.
    pub fn stand(&mut self, session: SessionKey, filter: &SubscriptionFilter, standing: Standing) {
        let Some(key) = self.by_filter.get(filter) else {
            return;
        };
        let share = &mut self.shares[key.0 as usize];
        let Some(sharer) = share.sharers.get_mut(&session) else {
            return;
        };
        let before = std::mem::replace(&mut sharer.standing, standing);
        let place = (sharer.point, session);
        share.circle(before).remove(place);
        share.circle(standing).insert(place);
    }

    /// How many steps finding the shares for a topic takes at most, and how many with one of this filter as well.
    pub fn reach_with(&self, filter: &SubscriptionFilter) -> (u32, u32) {
        self.index.reach_with(&filter.filter)
    }

    /// How many such steps there were since the start.
    pub fn visited(&self) -> u64 {
        self.index.visited()
    }

    /// Visits every share that a message to `topic` is for.
    pub fn matches(&self, topic: &str, visit: &mut impl FnMut(ShareKey)) {
        self.index
            .matches(topic, &mut |share, ()| self.visit_shared(share, visit));
    }

    /// Visits the shares whose filter is `topic` itself, without wildcards.
    pub fn matches_exactly(&self, topic: &str, visit: &mut impl FnMut(ShareKey)) {
        self.index
            .matches_exactly(topic, &mut |share, ()| self.visit_shared(share, visit));
    }

    fn visit_shared(&self, share: ShareKey, visit: &mut impl FnMut(ShareKey)) {
        if !self.shares[share.0 as usize].sharers.is_empty() {
            visit(share);
        }
    }

    /// Chooses who gets a message: with a `point` always the same one, as long as those who are connected are the same;
    /// without one whose turn it is.
    pub fn choose(&mut self, share: ShareKey, point: Option<Point>) -> Option<Chosen> {
        let share = self.shares.get_mut(share.0 as usize)?;
        let (_, session) = match point {
            Some(point) => share.nearest(point)?,
            None => share.next()?,
        };
        Some(Chosen {
            share: Arc::clone(&share.filter),
            session,
            subscription: share.sharers.get(&session)?.subscription,
        })
    }

    /// The share with this name and filter.
    pub fn find(&self, filter: &SubscriptionFilter) -> Option<ShareKey> {
        let key = self.by_filter.get(filter).copied();
        key.filter(|key| !self.shares[key.0 as usize].sharers.is_empty())
    }

    /// The name and filter of a share, as all its deliveries have it.
    pub fn filter(&self, filter: &SubscriptionFilter) -> Option<Arc<SubscriptionFilter>> {
        self.by_filter
            .get_key_value(filter)
            .map(|(filter, _)| Arc::clone(filter))
    }

    /// How many sharers a share has: those that are connected, and all.
    pub fn count(&self, filter: &SubscriptionFilter) -> (usize, usize) {
        let share = self.find(filter).map(|key| &self.shares[key.0 as usize]);
        share.map_or((0, 0), |share| {
            let connected = share.free.len() + share.behind.len();
            (connected, connected + share.away.len())
        })
    }

    /// The name and filter of the share at this place.
    pub fn filter_at(&self, share: ShareKey) -> Option<&Arc<SubscriptionFilter>> {
        self.shares.get(share.0 as usize).map(|share| &share.filter)
    }

    /// How many shares there are.
    pub fn len(&self) -> usize {
        self.shares.len() - self.empty
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory of all shares.
    pub fn bytes(&self) -> u64 {
        let sharer = tree_entry::<SessionKey, Sharer>() + tree_entry::<Place, ()>();
        let share = FIRST_NODES + tree_entry::<Arc<SubscriptionFilter>, ShareKey>();
        self.index.bytes()
            + self.filters
            + places::<Share>(self.shares.capacity())
            + places::<ShareKey>(self.emptied.capacity())
            + self.shares.len() as u64 * share
            + self.subscriptions as u64 * sharer
    }

    /// How many subscriptions all sessions have to all shares.
    pub fn subscriptions(&self) -> usize {
        self.subscriptions
    }

    fn share_or_new(&mut self, filter: &SubscriptionFilter) -> ShareKey {
        if let Some(key) = self.by_filter.get(filter) {
            return *key;
        }
        // In memory of its own: a share stays for long after the packet it came in.
        let filter = Arc::new(filter.detached());
        let share = Share {
            filter: Arc::clone(&filter),
            sharers: BTreeMap::new(),
            free: Circle::default(),
            behind: Circle::default(),
            away: Circle::default(),
            latest: nobody(),
            is_emptied: false,
        };
        self.empty += 1;
        let key = ShareKey(u32::try_from(self.shares.insert(share)).expect("fewer than 2^32 shares"));
        self.index.insert(&filter.filter, key, ());
        self.filters += filter_bytes(&filter);
        self.by_filter.insert(filter, key);
        key
    }
}

fn filter_bytes(filter: &SubscriptionFilter) -> u64 {
    let share = filter.share.as_ref().map_or(0, cloned_text);
    SHARED_FILTER + share + cloned_text(filter.filter.text())
}

/// The struct behind an `Arc`.
const SHARED_FILTER: u64 = 80;

/// The first nodes of what a share has: its sharers, and their circles. They are there as a whole for one sharer.
const FIRST_NODES: u64 = 520;

/// Whose turn it was before anybody had one.
fn nobody() -> Place {
    (Point::default(), SessionKey(0))
}

impl Share {
    fn next(&mut self) -> Option<Place> {
        let circles = [&self.free, &self.behind, &self.away];
        let next = circles.into_iter().find_map(|circle| circle.next(self.latest))?;
        self.latest = next;
        Some(next)
    }

    fn nearest(&self, point: Point) -> Option<Place> {
        let connected = [&self.free, &self.behind];
        let nearest = connected
            .into_iter()
            .filter_map(|circle| circle.nearest(point))
            .min();
        let (_, place) = nearest.or_else(|| self.away.nearest(point))?;
        Some(place)
    }

    fn circle(&mut self, standing: Standing) -> &mut Circle {
        match standing {
            Standing::Free => &mut self.free,
            Standing::Behind => &mut self.behind,
            Standing::Away => &mut self.away,
        }
    }
}

#[cfg(test)]
mod tests;
