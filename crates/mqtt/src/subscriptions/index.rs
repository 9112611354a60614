//! Who is found by which topic name: the filters of one kind of subscription.
//!
//! Filters without wildcards are in a hash table, found with one probe; the others in a trie of their levels.

use protocol::TopicFilter;

use super::exact::ExactFilters;
use super::trie::Trie;

/// Filters, and under each the keys that are subscribed to it.
#[derive(Debug)]
pub struct Index<K, V> {
    pub(super) exact: ExactFilters<K, V>,
    pub(super) wildcards: Trie<K, V>,
    /// The memory of filters with several subscribers.
    many: u64,
}

impl<K: Copy + Ord, V: Copy> Index<K, V> {
    /// No filter yet; `seed` is for the hashes.
    pub fn new(seed: u64) -> Self {
        Self {
            exact: ExactFilters::new(seed),
            wildcards: Trie::new(seed),
            many: 0,
        }
    }

    /// Adds a key under a filter and returns what it replaces.
    pub fn insert(&mut self, filter: &TopicFilter, key: K, value: V) -> Option<V> {
        let subscribers = if filter.is_exact() {
            self.exact.subscribers(filter.as_str())
        } else {
            self.wildcards.subscribers(filter.as_str())
        };
        let before = subscribers.bytes();
        let replaced = subscribers.insert(key, value);
        self.many = self.many + subscribers.bytes() - before;
        replaced
    }

    /// Removes a key under a filter; false if it was not there.
    pub fn remove(&mut self, filter: &TopicFilter, key: K) -> bool {
        let removed = if filter.is_exact() {
            self.exact.unsubscribe(key, filter.as_str())
        } else {
            self.wildcards.unsubscribe(key, filter.as_str())
        };
        self.many -= removed.unwrap_or(0);
        removed.is_some()
    }

    /// The memory of all filters and of what is under them.
    pub fn bytes(&self) -> u64 {
        self.exact.bytes() + self.wildcards.bytes() + self.many
    }

    /// How many nodes of the trie of filters with wildcards a message visits at most, and how many if there were this filter as well.
    pub fn reach_with(&self, filter: &TopicFilter) -> (u32, u32) {
        let before = self.wildcards.reach();
        let after = if filter.is_exact() {
            before
        } else {
            self.wildcards.reach_with(filter.as_str())
        };
        (before, after)
    }

    /// How many nodes of the trie messages have visited since the start.
    pub fn visited(&self) -> u64 {
        self.wildcards.visited()
    }

    /// Visits every key under every filter that matches `topic`.
    pub fn matches(&self, topic: &str, visit: &mut impl FnMut(K, &V)) {
        self.matches_exactly(topic, visit);
        self.wildcards.matches(topic, visit);
    }

    /// The same, and says whether the filter is the topic itself.
    pub(crate) fn matches_by_kind(&self, topic: &str, visit: &mut impl FnMut(K, &V, bool)) {
        self.matches_exactly(topic, &mut |key, value: &V| visit(key, value, true));
        self.wildcards
            .matches(topic, &mut |key, value: &V| visit(key, value, false));
    }

    /// Visits every key under the filter that is `topic` itself, without wildcards.
    pub(crate) fn matches_exactly(&self, topic: &str, visit: &mut impl FnMut(K, &V)) {
        if let Some(subscribers) = self.exact.get(topic) {
            subscribers.visit(visit);
        }
    }
}
