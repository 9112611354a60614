//! Who wants which messages: the subscriptions of all sessions, found by topic name.
//!
//! [`Subscriptions`] has those that a session has for itself, [`Shares`] the shared ones. Both are told by the sessions'
//! own lists what to add and remove, and do not know which subscriptions one session has. What a match means for the
//! receiver (No Local, overlapping subscriptions) is the caller's business.
//!
//! The hashes are seeded by the caller because clients choose the names. Visits come in an order that depends on the
//! calls alone, not on the seed.

mod arena;
mod circle;
mod exact;
mod hashing;
mod index;
mod shares;
mod subscribers;
mod table;
mod trie;

use protocol::TopicFilter;
use protocol::packet::{SubscriptionId, SubscriptionOptions};

pub use self::circle::{Point, point_of};
pub use self::index::Index;
pub use self::shares::{Chosen, ShareKey, Shares, Standing};
use crate::ids::SessionKey;

/// How one session subscribed to one filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Subscription {
    /// As in its SUBSCRIBE.
    pub options: SubscriptionOptions,
    /// The Subscription Identifier of its SUBSCRIBE.
    pub id: Option<SubscriptionId>,
}

/// All subscriptions of a node that are not shared.
#[derive(Debug)]
pub struct Subscriptions {
    index: Index<SessionKey, Subscription>,
    len: usize,
}

impl Subscriptions {
    /// No subscription yet. `seed` is to be random, so that no client can choose names whose hashes collide.
    pub fn new(seed: u64) -> Self {
        Self {
            index: Index::new(seed),
            len: 0,
        }
    }

    /// Adds a subscription. One that the session had to the same filter is replaced and returned. [MQTT-3.8.4-3]
    pub fn subscribe(
        &mut self,
        session: SessionKey,
        filter: &TopicFilter,
        subscription: Subscription,
    ) -> Option<Subscription> {
        let replaced = self.index.insert(filter, session, subscription);
        self.len += usize::from(replaced.is_none());
        replaced
    }

    /// Removes a subscription; false if there was none. The filters are compared character by character.
    /// [MQTT-3.10.4-1]
    pub fn unsubscribe(&mut self, session: SessionKey, filter: &TopicFilter) -> bool {
        let existed = self.index.remove(filter, session);
        self.len -= usize::from(existed);
        existed
    }

    /// How many steps finding the subscriptions for a topic takes at most, and how many with one to this filter as well.
    pub fn reach_with(&self, filter: &TopicFilter) -> (u32, u32) {
        self.index.reach_with(filter)
    }

    /// How many such steps there were since the start.
    pub fn visited(&self) -> u64 {
        self.index.visited()
    }

    /// Visits every subscription that a message to `topic` is for: a session with several once for each.
    pub fn matches(&self, topic: &str, visit: &mut impl FnMut(SessionKey, &Subscription)) {
        self.index.matches(topic, visit);
    }

    /// The same, with whether the subscription is to the topic itself, without wildcards.
    pub fn matches_by_kind(&self, topic: &str, visit: &mut impl FnMut(SessionKey, &Subscription, bool)) {
        self.index.matches_by_kind(topic, visit);
    }

    /// The memory of all filters and of who is subscribed to them.
    pub fn bytes(&self) -> u64 {
        self.index.bytes()
    }

    /// How many subscriptions there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests;
