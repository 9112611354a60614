//! Filters with wildcards: a trie of their levels.
//!
//! A node is the beginning of some filters up to a level. Its children by name are found in one hash table for the
//! whole trie, keyed by (parent, name), so that a node is one cache line whatever the number of its children; its `+`
//! child is a field, and who subscribed to the node with `/#` behind it is kept in the node. A node exists as long
//! as a filter needs it.
//!
//! Matching walks all nodes of one depth at a time, so neither depth nor width of what clients subscribe to can
//! exhaust the stack; [`crate::limits::Limits::topic_levels_max`] bounds the depth before it comes here.
//!
//! How many nodes a message can visit is known beforehand: of the children by name of a node one at most, and its `+` child. So
//! the *reach* of a node is one, with the largest reach of its children by name, and that of its `+` child. Whoever subscribes asks
//! for the reach of the root first, and keeps it below a limit: then no topic, whatever it is, costs more than that.

use std::cell::Cell;
use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::arena::Arena;
use super::hashing::{NameHash, index, position};
use super::subscribers::Subscribers;
use super::table::{Slot, Table};
use crate::memory::footprint::{block, tree};

/// The subscribers of each filter that has a wildcard.
#[derive(Debug)]
pub(super) struct Trie<K, V> {
    nodes: Arena<Node<K, V>>,
    /// The memory of the nodes' names.
    names: u64,
    /// The memory of the reaches of nodes whose children differ in it.
    reaches: u64,
    children: Table,
    hash: NameHash,
    /// Nodes that messages have visited.
    visited: Cell<u64>,
}

#[derive(Debug)]
struct Node<K, V> {
    name: Box<str>,
    parent: u32,
    /// The child for the level `+`, or [`NONE`].
    plus: u32,
    /// How many children by name it has, and the reach of each.
    named: Reaches,
    /// How many nodes a message visits at most that comes by here, this one included.
    reach: u32,
    /// Of the filter that ends here.
    ending: Subscribers<K, V>,
    /// Of the filter that goes on with `#` and ends.
    multi_level: Subscribers<K, V>,
}

impl<K: Copy + Ord, V: Copy> Trie<K, V> {
    pub(super) fn new(seed: u64) -> Self {
        let mut nodes = Arena::new();
        let root = nodes.insert(Node::new("", NONE));
        assert_eq!(root, position(ROOT));
        Self {
            nodes,
            names: 0,
            reaches: 0,
            children: Table::new(),
            hash: NameHash::new(seed),
            visited: Cell::new(0),
        }
    }

    /// How many nodes a message visits at most, whatever its topic.
    pub(super) fn reach(&self) -> u32 {
        self.node(ROOT).reach
    }

    /// The same, if there were a subscription to `filter` as well.
    pub(super) fn reach_with(&self, filter: &str) -> u32 {
        let mut path: SmallVec<[(u32, bool); FRONTIER_INLINE]> = SmallVec::new();
        let mut at = Some(ROOT);
        let mut missing: u32 = 0;
        for level in filter.split('/').filter(|level| *level != "#") {
            let Some(parent) = at else {
                missing += 1;
                continue;
            };
            path.push((parent, level == "+"));
            at = match level {
                "+" => Some(self.node(parent).plus).filter(|plus| *plus != NONE),
                name => self.child(parent, name),
            };
            missing += u32::from(at.is_none());
        }
        if missing == 0 {
            return self.reach();
        }
        // Nodes are only added here, so that no reach gets smaller.
        path.iter().rev().fold(missing, |child, (parent, is_plus)| {
            let node = self.node(*parent);
            if *is_plus {
                1 + node.named.most() + child
            } else {
                1 + node.named.most().max(child) + self.reach_of(node.plus)
            }
        })
    }

    /// Nodes that messages have visited since the start.
    pub(super) fn visited(&self) -> u64 {
        self.visited.get()
    }

    /// The subscribers of `filter`, which the caller adds one to.
    pub(super) fn subscribers(&mut self, filter: &str) -> &mut Subscribers<K, V> {
        let (mut at, before) = (ROOT, self.nodes.len());
        let mut is_multi_level = false;
        for level in filter.split('/') {
            at = match level {
                "#" => {
                    is_multi_level = true;
                    break;
                }
                "+" => self.plus_child_or_new(at),
                name => self.child_or_new(at, name),
            };
        }
        if self.nodes.len() > before {
            // Once for all that are new.
            self.note_reach(self.node(at).parent);
        }
        let node = self.node_mut(at);
        if is_multi_level {
            &mut node.multi_level
        } else {
            &mut node.ending
        }
    }

    /// Removes a subscription, and the nodes that no other filter needs. The memory of several subscribers that it gives
    /// back; `None`: there was no such subscription.
    pub(super) fn unsubscribe(&mut self, key: K, filter: &str) -> Option<u64> {
        let mut at = ROOT;
        let mut is_multi_level = false;
        for level in filter.split('/') {
            let next = match level {
                "#" => {
                    is_multi_level = true;
                    break;
                }
                "+" => Some(self.node(at).plus).filter(|plus| *plus != NONE),
                name => self.child(at, name),
            };
            at = next?;
        }
        let node = self.node_mut(at);
        let subscribers = if is_multi_level {
            &mut node.multi_level
        } else {
            &mut node.ending
        };
        let removed = subscribers.remove(key);
        self.prune(at);
        removed
    }

    /// Visits the subscriptions to all filters that match `topic`.
    pub(super) fn matches(&self, topic: &str, visit: &mut impl FnMut(K, &V)) {
        let mut nodes: SmallVec<[u32; FRONTIER_INLINE]> = SmallVec::new();
        let mut children: SmallVec<[u32; FRONTIER_INLINE]> = SmallVec::new();
        nodes.push(ROOT);

        // A wildcard at the start does not match a topic that starts with `$`. [MQTT-4.7.2-1]
        let mut is_hidden_from_wildcards = topic.starts_with('$');
        if !is_hidden_from_wildcards {
            self.node(ROOT).multi_level.visit(visit);
        }
        for level in topic.split('/') {
            children.clear();
            for at in &nodes {
                let node = self.node(*at);
                if node.named.count > 0 {
                    children.extend(self.child(*at, level));
                }
                if node.plus != NONE && !is_hidden_from_wildcards {
                    children.push(node.plus);
                }
            }
            // `a/#` matches `a` and everything below it. (section 4.7.1.2)
            for at in &children {
                self.node(*at).multi_level.visit(visit);
            }
            std::mem::swap(&mut nodes, &mut children);
            is_hidden_from_wildcards = false;
            self.visited.set(self.visited.get() + nodes.len() as u64);
        }
        for at in &nodes {
            self.node(*at).ending.visit(visit);
        }
    }

    /// The memory of all nodes, without that of several subscribers of one.
    pub(super) fn bytes(&self) -> u64 {
        self.nodes.bytes() + self.children.bytes() + self.names + self.reaches
    }

    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn prune(&mut self, from: u32) {
        let mut at = from;
        while at != ROOT && self.node(at).is_unneeded() {
            let node = self.nodes.remove(position(at));
            self.names -= block(node.name.len());
            let parent = node.parent;
            if self.node(parent).plus == at {
                self.node_mut(parent).plus = NONE;
            } else {
                let was_there = self.children.remove(self.hash.of(parent, &node.name), at);
                assert!(was_there, "a child that is not `+` is in the table");
                self.change_named(parent, |named| named.remove(node.reach));
            }
            at = parent;
        }
        if at != from {
            self.note_reach(at);
        }
    }

    fn plus_child_or_new(&mut self, parent: u32) -> u32 {
        let plus = self.node(parent).plus;
        if plus != NONE {
            return plus;
        }
        let new = index(self.nodes.insert(Node::new("", parent)));
        self.node_mut(parent).plus = new;
        new
    }

    fn child_or_new(&mut self, parent: u32, name: &str) -> u32 {
        let hash = self.hash.of(parent, name);
        if let Some(child) = self.find(hash, parent, name) {
            return child;
        }
        let new = index(self.nodes.insert(Node::new(name, parent)));
        self.names += block(name.len());
        self.children.insert(Slot { hash, index: new });
        self.change_named(parent, |named| named.insert(1));
        new
    }

    /// The children of a node have changed, and so may the reach of it and of those above.
    fn note_reach(&mut self, mut at: u32) {
        loop {
            let node = self.node(at);
            let reach = 1 + node.named.most() + self.reach_of(node.plus);
            let node = self.node_mut(at);
            let before = std::mem::replace(&mut node.reach, reach);
            if before == reach || at == ROOT {
                return;
            }
            let parent = node.parent;
            if self.node(parent).plus != at {
                self.change_named(parent, |named| {
                    named.remove(before);
                    named.insert(reach);
                });
            }
            at = parent;
        }
    }

    fn change_named(&mut self, at: u32, change: impl FnOnce(&mut Reaches)) {
        let named = &mut self.node_mut(at).named;
        let before = named.bytes();
        change(named);
        let after = named.bytes();
        self.reaches = self.reaches - before + after;
    }

    fn reach_of(&self, at: u32) -> u32 {
        if at == NONE { 0 } else { self.node(at).reach }
    }

    fn child(&self, parent: u32, name: &str) -> Option<u32> {
        self.find(self.hash.of(parent, name), parent, name)
    }

    fn find(&self, hash: u32, parent: u32, name: &str) -> Option<u32> {
        let is_it = |slot: &Slot| {
            slot.hash == hash && {
                let node = self.node(slot.index);
                node.parent == parent && *node.name == *name
            }
        };
        self.children.find(hash, is_it)
    }

    fn node(&self, at: u32) -> &Node<K, V> {
        &self.nodes[position(at)]
    }

    fn node_mut(&mut self, at: u32) -> &mut Node<K, V> {
        &mut self.nodes[position(at)]
    }
}

impl<K: Copy + Ord, V: Copy> Node<K, V> {
    fn new(name: &str, parent: u32) -> Self {
        Self {
            name: name.into(),
            parent,
            plus: NONE,
            named: Reaches::default(),
            reach: 1,
            ending: Subscribers::None,
            multi_level: Subscribers::None,
        }
    }

    fn is_unneeded(&self) -> bool {
        self.named.count == 0 && self.plus == NONE && self.ending.is_empty() && self.multi_level.is_empty()
    }
}

/// The reaches of children by name. Nearly always all are the same, also where there are a million.
#[derive(Debug, Default)]
struct Reaches {
    count: u32,
    /// The largest of them.
    most: u32,
    /// How many there are of each, if they differ.
    #[expect(
        clippy::box_collection,
        reason = "a tree in place would make each node larger"
    )]
    different: Option<Box<BTreeMap<u32, u32>>>,
}

impl Reaches {
    fn most(&self) -> u32 {
        self.most
    }

    /// Memory besides the place that it is in.
    fn bytes(&self) -> u64 {
        self.different.as_deref().map_or(0, |different| {
            block(size_of_val(different)) + tree::<u32, u32>(different.len())
        })
    }

    fn insert(&mut self, reach: u32) {
        if self.count > 0 && self.most != reach && self.different.is_none() {
            self.different = Some(Box::new(BTreeMap::from([(self.most, self.count)])));
        }
        if let Some(different) = &mut self.different {
            *different.entry(reach).or_default() += 1;
        }
        self.most = if self.count == 0 {
            reach
        } else {
            self.most.max(reach)
        };
        self.count += 1;
    }

    fn remove(&mut self, reach: u32) {
        self.count -= 1;
        if let Some(different) = &mut self.different {
            if let Some(count) = different.get_mut(&reach) {
                *count -= 1;
                if *count == 0 {
                    different.remove(&reach);
                }
            }
            self.most = different.keys().next_back().copied().unwrap_or(0);
            if different.len() <= 1 {
                self.different = None;
            }
        }
        if self.count == 0 {
            self.most = 0;
        }
    }
}

const ROOT: u32 = 0;
const NONE: u32 = u32::MAX;

/// How many nodes of one depth are walked without an allocation: filters that differ in `+` and names at four levels.
const FRONTIER_INLINE: usize = 16;
