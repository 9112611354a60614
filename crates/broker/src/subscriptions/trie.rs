//! Filters with wildcards: a trie of their levels.
//!
//! A node is the beginning of some filters up to a level. Its children by name are found in one hash table for the
//! whole trie, keyed by (parent, name), so that a node is one cache line whatever the number of its children; its `+`
//! child is a field, and who subscribed to the node with `/#` behind it is kept in the node. A node exists as long
//! as a filter needs it.
//!
//! Matching walks all nodes of one depth at a time, so neither depth nor width of what clients subscribe to can
//! exhaust the stack; [`crate::limits::Limits::topic_levels_max`] bounds the depth before it comes here.

use hashbrown::HashTable;
use slab::Slab;
use smallvec::SmallVec;

use super::hashing::{NameHash, Slot, index, position};
use super::subscribers::Subscribers;

/// The subscribers of each filter that has a wildcard.
#[derive(Debug)]
pub(super) struct Trie<K, V> {
    nodes: Slab<Node<K, V>>,
    children: HashTable<Slot>,
    hash: NameHash,
}

#[derive(Debug)]
struct Node<K, V> {
    name: Box<str>,
    parent: u32,
    /// The child for the level `+`, or [`NONE`].
    plus: u32,
    /// How many children by name it has.
    named: u32,
    /// Of the filter that ends here.
    ending: Subscribers<K, V>,
    /// Of the filter that goes on with `#` and ends.
    multi_level: Subscribers<K, V>,
}

impl<K: Copy + Ord, V: Copy> Trie<K, V> {
    pub(super) fn new(seed: u64) -> Self {
        let mut nodes = Slab::new();
        let root = nodes.insert(Node::new("", NONE));
        assert_eq!(root, position(ROOT));
        Self {
            nodes,
            children: HashTable::new(),
            hash: NameHash::new(seed),
        }
    }

    /// The subscribers of `filter`, which the caller adds one to.
    pub(super) fn subscribers(&mut self, filter: &str) -> &mut Subscribers<K, V> {
        let mut at = ROOT;
        for level in filter.split('/') {
            at = match level {
                "#" => return &mut self.node_mut(at).multi_level,
                "+" => self.plus_child_or_new(at),
                name => self.child_or_new(at, name),
            };
        }
        &mut self.node_mut(at).ending
    }

    /// Removes a subscription, and the nodes that no other filter needs.
    pub(super) fn unsubscribe(&mut self, key: K, filter: &str) -> bool {
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
            let Some(next) = next else { return false };
            at = next;
        }
        let node = self.node_mut(at);
        let subscribers = if is_multi_level {
            &mut node.multi_level
        } else {
            &mut node.ending
        };
        let existed = subscribers.remove(key);
        self.prune(at);
        existed
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
                if node.named > 0 {
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
        }
        for at in &nodes {
            self.node(*at).ending.visit(visit);
        }
    }

    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn prune(&mut self, from: u32) {
        let mut at = from;
        while at != ROOT && self.node(at).is_unneeded() {
            let node = self.nodes.remove(position(at));
            let parent = node.parent;
            if self.node(parent).plus == at {
                self.node_mut(parent).plus = NONE;
            } else {
                let hash = Slot::spread(self.hash.of(parent, &node.name));
                let slot = self.children.find_entry(hash, |slot| slot.index == at);
                slot.expect("a child that is not `+` is in the table").remove();
                self.node_mut(parent).named -= 1;
            }
            at = parent;
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
        let slot = Slot { hash, index: new };
        self.children
            .insert_unique(Slot::spread(hash), slot, |slot| Slot::spread(slot.hash));
        self.node_mut(parent).named += 1;
        new
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
        self.children
            .find(Slot::spread(hash), is_it)
            .map(|slot| slot.index)
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
            named: 0,
            ending: Subscribers::None,
            multi_level: Subscribers::None,
        }
    }

    fn is_unneeded(&self) -> bool {
        self.named == 0 && self.plus == NONE && self.ending.is_empty() && self.multi_level.is_empty()
    }
}

const ROOT: u32 = 0;
const NONE: u32 = u32::MAX;

/// How many nodes of one depth are walked without an allocation: filters that differ in `+` and names at four levels.
const FRONTIER_INLINE: usize = 16;
