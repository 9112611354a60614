//! View of a node: the nodes that it takes for present, their states, and the owners of slots that follow from them.
//!
//! A ring marker carries a view. From that event on its sender routes by this view; a receiver therefore knows for each
//! event which nodes its sender took for the owners (section 3 of the specification).

use crate::ids::{NODES, NodeId, NodeSet, Run, SLOTS, Slot};

/// Owners of a slot in each of the two rings.
const OWNERS: usize = 2;

/// State of a node's life in its cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Gives what it holds and gets what it will own.
    Joining,
    /// Whole: on both rings.
    Running,
    /// Of the smaller side of a split: gives what it holds.
    MergeMinority,
    /// Gets what it will own: on the Minority ring.
    Merging,
}

/// Runs of the nodes that are present.
pub type PresentRuns = [Option<Run>; NODES];

/// Nodes that a node takes for present, with their states and incarnations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    pub present: NodeSet,
    pub states: [State; NODES],
    /// Raised by a node at each handshake, so that hearsay names the stay that it convicts.
    pub incarnations: [u16; NODES],
    /// As of the last ring marker.
    pub runs: PresentRuns,
}

impl View {
    /// View of a node that has just been started.
    pub fn alone(node: NodeId) -> View {
        View {
            present: NodeSet::one(node),
            states: [State::Joining; NODES],
            incarnations: [0; NODES],
            runs: [None; NODES],
        }
    }

    pub fn state(&self, node: NodeId) -> State {
        self.states[node.index()]
    }

    pub fn incarnation(&self, node: NodeId) -> u16 {
        self.incarnations[node.index()]
    }

    /// Owners of `slot`: the first RUNNING nodes of the Primary ring, and the first of the Minority ring (rules R1 to R4).
    /// Where no node is RUNNING, the first of all present nodes own too.
    pub fn owners(&self, slot: Slot) -> NodeSet {
        if slot == Slot::ROUTES {
            return self.present;
        }
        let primary = self.first(slot, |state| state == State::Running);
        let minority = self.first(slot, |state| state != State::MergeMinority);
        let fallback = if primary.is_empty() {
            self.first(slot, |_| true)
        } else {
            NodeSet::EMPTY
        };
        primary.union(minority).union(fallback)
    }

    pub fn owns(&self, node: NodeId, slot: Slot) -> bool {
        self.owners(slot).has(node)
    }

    /// Slots that `node` owns, the routes among them.
    pub fn slots_of(self, node: NodeId) -> impl Iterator<Item = Slot> {
        Slot::all().filter(move |slot| self.owns(node, *slot))
    }

    /// Copies that a slot has when all owners are present.
    pub fn owners_wanted(&self) -> usize {
        OWNERS.min(self.present.len())
    }

    /// First RUNNING node of the slot's walk; where no node is RUNNING, the first of all.
    pub fn primary_owner(&self, slot: Slot) -> Option<NodeId> {
        let mut running = self.walk(slot, |state| state == State::Running);
        running.next().or_else(|| self.walk(slot, |_| true).next())
    }

    /// The first nodes on the slot's walk around the ring whose state passes.
    fn first(&self, slot: Slot, passes: impl Fn(State) -> bool) -> NodeSet {
        self.walk(slot, passes).take(OWNERS).collect()
    }

    /// Present nodes whose state passes, in the order of the slot's walk around the ring.
    fn walk(&self, slot: Slot, passes: impl Fn(State) -> bool) -> impl Iterator<Item = NodeId> {
        let walk = WALKS[slot.index()].into_iter();
        walk.filter(move |node| self.present.has(*node) && passes(self.state(*node)))
    }
}

/// All nodes, in the order of each slot's walk around the ring.
const WALKS: [[NodeId; NODES]; SLOTS] = {
    let mut walks = [[NodeId(0); NODES]; SLOTS];
    let mut slot = 0;
    while slot < SLOTS {
        let (mut place, mut found) = (0, 0);
        while place < PLACES {
            let mut node = 0;
            while node < NODES {
                if (node * 5 + slot * 3) % PLACES == place {
                    walks[slot][found] = NodeId(node as u8);
                    found += 1;
                }
                node += 1;
            }
            place += 1;
        }
        slot += 1;
    }
    walks
};

/// Places of the ring.
const PLACES: usize = 11;
