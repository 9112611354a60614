//! Ring: the owners of every slot, as they follow from one view.
//!
//! The placement is consistent hashing (Karger et al., Consistent Hashing and Random Trees, 1997)
//! with the preference lists of Dynamo. Each node has [`VIRTUAL_NODES`] places on a circle of
//! hashes. Slots stand on it at equal distances. The owners of a slot are the first distinct nodes
//! clockwise from it: the first three of the Primary ring, then the first three of the Minority
//! ring. Where no node is RUNNING, all present nodes are on the Primary ring.
//!
//! So a node that goes leaves its slots to all others, and nothing else moves. Nodes with equal
//! views have equal rings: places follow from ids alone, and are a format for ever.
//!
//! The maps of every node ([`Slot::is_of_every_node`]) are on no circle. All nodes of the view own
//! them, in any state: one that joins, or was on the smaller side of a split, routes too.

use cluster::NodeId;

use crate::hash::hash;
use crate::view::NODES_MAX;
use crate::{NodeState, Slot, SlotSet, View};

/// Owners on each of the two rings of a slot that a hash names, or as many as the ring has nodes.
pub const OWNERS: usize = 3;

/// Places of each node on the circle.
///
/// With 500 of them the arcs of a node deviate by about 1 / sqrt(500), which is 4.5 %, from the
/// mean. Of ten nodes each owns 95 to 103 % of its share of the slots, and is the primary owner of
/// 87 to 107 %.
pub const VIRTUAL_NODES: u32 = 500;

/// Owners of every slot.
///
/// Takes 28 KiB and 9 bytes for each node. It is made once for each view, in about 10 ms for 100
/// nodes; owners are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// Nodes of the view, in ascending order.
    nodes: Vec<NodeId>,
    /// By slot that a hash names.
    owners: Vec<Owners>,
    /// Owners of the maps of every node, as indexes into `nodes`; the primary owner first.
    every_node: Vec<u8>,
}

/// Owners of one slot, as indexes into the nodes of the ring; the primary owner first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Owners {
    nodes: [u8; 2 * OWNERS],
    count: u8,
}

// A walk marks the nodes that it has met in 128 bits, and an index is one byte.
const _: () = assert!(NODES_MAX <= 128);

impl Ring {
    /// Ring of `view`.
    pub fn new(view: &View) -> Ring {
        let nodes: Vec<NodeId> = view.nodes().iter().map(|present| present.run.node).collect();
        let states: Vec<NodeState> = view.nodes().iter().map(|present| present.state).collect();
        let no_primary = !states.iter().any(|state| state.is_on_primary());
        let owners = match nodes.len() {
            // Most nodes start alone, and many stay so.
            1 => vec![Owners::of_one(); usize::from(Slot::HASHED)],
            _ => {
                let all = Circle::new(&nodes);
                let primary = all.only(|node| no_primary || states[node].is_on_primary());
                let minority = all.only(|node| states[node].is_on_minority());
                owners_of_slots(&primary, &minority)
            }
        };
        Ring {
            owners,
            every_node: primary_first(&states),
            nodes,
        }
    }

    /// Owners of `slot`, each once, the primary owner first.
    ///
    /// At least one. Of a slot that a hash names at most twice [`OWNERS`]; of a map of every node all
    /// nodes of the view.
    pub fn owners(&self, slot: Slot) -> impl ExactSizeIterator<Item = NodeId> + '_ {
        let owners = self.owners_of(slot);
        owners.iter().map(|index| self.nodes[usize::from(*index)])
    }

    /// First owner of `slot`: on the Primary ring, where a node is RUNNING.
    ///
    /// Of a map of every node the lowest RUNNING node; where none is, the lowest of all.
    pub fn primary_owner(&self, slot: Slot) -> NodeId {
        let first = self
            .owners_of(slot)
            .first()
            .expect("a view has at least one node");
        self.nodes[usize::from(*first)]
    }

    /// `node` is an owner of `slot`.
    pub fn is_owner(&self, node: NodeId, slot: Slot) -> bool {
        self.owners(slot).any(|owner| owner == node)
    }

    /// Slots that `node` owns; a pass over all slots.
    pub fn slots_of(&self, node: NodeId) -> SlotSet {
        let Some(index) = self.index_of(node) else {
            return SlotSet::default();
        };
        Slot::all()
            .filter(|slot| self.owners_of(*slot).contains(&index))
            .collect()
    }

    fn owners_of(&self, slot: Slot) -> &[u8] {
        let owners = self.owners.get(slot.index());
        owners.map_or(&self.every_node, Owners::indexes)
    }

    fn index_of(&self, node: NodeId) -> Option<u8> {
        let index = self.nodes.binary_search(&node).ok()?;
        u8::try_from(index).ok()
    }
}

impl Owners {
    /// The first node alone.
    fn of_one() -> Owners {
        let mut owners = Owners::default();
        owners.add(0);
        owners
    }

    fn indexes(&self) -> &[u8] {
        &self.nodes[..usize::from(self.count)]
    }

    fn add(&mut self, node: u8) {
        if !self.indexes().contains(&node) {
            self.nodes[usize::from(self.count)] = node;
            self.count += 1;
        }
    }
}

/// Virtual nodes of a ring, in ascending order.
#[derive(Debug)]
struct Circle {
    virtual_nodes: Vec<VirtualNode>,
    nodes: usize,
}

/// One place of a node. Of two at one place the lower node's is the first, on all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct VirtualNode {
    place: u64,
    /// Index into the nodes of the ring.
    node: u8,
}

impl Circle {
    /// Circle of `nodes`, of which a view has few enough for their indexes.
    fn new(nodes: &[NodeId]) -> Circle {
        let mut virtual_nodes = Vec::with_capacity(nodes.len() * VIRTUAL_NODES as usize);
        for (node, id) in (0_u8..).zip(nodes) {
            virtual_nodes.extend((0..VIRTUAL_NODES).map(|number| VirtualNode {
                place: place(*id, number),
                node,
            }));
        }
        virtual_nodes.sort_unstable();
        Circle {
            virtual_nodes,
            nodes: nodes.len(),
        }
    }

    /// Circle of the nodes that `is_on` selects.
    fn only(&self, is_on: impl Fn(usize) -> bool) -> Circle {
        let all = self.virtual_nodes.iter().copied();
        Circle {
            virtual_nodes: all.filter(|place| is_on(usize::from(place.node))).collect(),
            nodes: (0..self.nodes).filter(|node| is_on(*node)).count(),
        }
    }

    /// Adds the first distinct nodes clockwise from the place `start`. Ends with the last of them, so that no walk
    /// goes around in vain.
    fn add_owners(&self, start: usize, owners: &mut Owners) {
        let (mut met, mut left) = (0_u128, OWNERS.min(self.nodes));
        let (before, after) = self.virtual_nodes.split_at(start);
        for at in after.iter().chain(before) {
            if left == 0 {
                return;
            }
            let bit = 1_u128 << at.node;
            if met & bit == 0 {
                met |= bit;
                left -= 1;
                owners.add(at.node);
            }
        }
    }

    /// Moves `start` on to the first place that is not before `slot`. Slots come in ascending order.
    fn move_to(&self, slot: Slot, start: &mut usize) {
        let from = u64::from(slot.number()) * (u64::MAX / u64::from(Slot::HASHED) + 1);
        while self.virtual_nodes.get(*start).is_some_and(|at| at.place < from) {
            *start += 1;
        }
    }
}

/// Owners of every slot that a hash names: those on the Primary ring, then those on the Minority ring.
fn owners_of_slots(primary: &Circle, minority: &Circle) -> Vec<Owners> {
    let mut starts = [0; 2];
    let of_slot = |slot: Slot| {
        let mut owners = Owners::default();
        for (circle, start) in [primary, minority].into_iter().zip(&mut starts) {
            circle.move_to(slot, start);
            circle.add_owners(*start, &mut owners);
        }
        owners
    };
    Slot::hashed().map(of_slot).collect()
}

/// Indexes of all nodes: the first RUNNING one, then the rest in ascending order.
fn primary_first(states: &[NodeState]) -> Vec<u8> {
    let mut indexes: Vec<u8> = (0_u8..).zip(states).map(|(node, _)| node).collect();
    let primary = states.iter().position(|state| state.is_on_primary());
    if let Some(before) = primary.and_then(|primary| indexes.get_mut(..=primary)) {
        before.rotate_right(1);
    }
    indexes
}

/// Place of a virtual node: the hash of the node's id and the virtual node's number, both
/// big-endian.
fn place(node: NodeId, number: u32) -> u64 {
    let mut name = [0; 12];
    name[..8].copy_from_slice(&node.0.to_be_bytes());
    name[8..].copy_from_slice(&number.to_be_bytes());
    hash(&name)
}

#[cfg(test)]
mod tests;
