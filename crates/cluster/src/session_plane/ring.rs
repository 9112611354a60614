//! Which nodes own a record: consistent hashing (Karger et al., Consistent Hashing and Random Trees, 1997).
//!
//! Every node has many vnodes on a circle of hashes. A key's owners are the first distinct nodes clockwise from the key's hash. So a node that comes
//! takes something from all others, one that goes leaves something to all others, and nothing else moves.
//!
//! Where vnodes are follows from the node's id and nothing else, and a key's hash from its bytes: all nodes with the same states see the same ring.
//! Client ids come from clients, who may find many that one node owns; they can make as many sessions with ids that are not alike.

use smallvec::SmallVec;
use xxhash_rust::xxh64::xxh64;

use super::lifecycle::NodeState;
use crate::NodeId;

/// Vnodes of each node. The share of a node deviates by about 1 / sqrt(500), which is 4.5 %, from the mean.
pub const VNODES: u32 = 500;

/// A key's owners, the home first.
pub type Owners = SmallVec<[NodeId; 4]>;

/// Who owns what, as of the states of all nodes at one time.
///
/// 10 bytes for each vnode: 500 KB for 100 nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// Sorted by id.
    nodes: Vec<NodeId>,
    /// Where vnodes are, sorted; apart from whose they are, so that a search touches less memory.
    places: Vec<u64>,
    /// Whose the vnode at the same index in `places` is: an index into `nodes`.
    holders: Vec<u16>,
}

impl Ring {
    /// A ring of these nodes. At most 65,536.
    pub fn new(nodes: impl IntoIterator<Item = NodeId>) -> Ring {
        let mut nodes: Vec<NodeId> = nodes.into_iter().collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut vnodes = Vec::with_capacity(nodes.len() * VNODES as usize);
        for (index, node) in nodes.iter().enumerate() {
            let index = u16::try_from(index).expect("fewer than 65,536 nodes");
            vnodes.extend((0..VNODES).map(|vnode| (place(*node, vnode), index)));
        }
        // Of two vnodes at one place, which takes 2^64 places, the node with the lower id has the first: the same on all nodes.
        vnodes.sort_unstable();
        let (places, holders) = vnodes.into_iter().unzip();
        Ring {
            nodes,
            places,
            holders,
        }
    }

    /// Who is responsible now.
    pub fn primary(states: impl IntoIterator<Item = (NodeId, NodeState)>) -> Ring {
        let states = states.into_iter().filter(|(_, state)| state.is_in_primary());
        Ring::new(states.map(|(node, _)| node))
    }

    /// Who will be responsible when joins and merges have ended.
    pub fn minority(states: impl IntoIterator<Item = (NodeId, NodeState)>) -> Ring {
        let states = states.into_iter().filter(|(_, state)| state.is_in_minority());
        Ring::new(states.map(|(node, _)| node))
    }

    /// The nodes, by id.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// The owners of a key: as many as `replication_factor` says, or as there are.
    pub fn owners(&self, key: &[u8], replication_factor: usize) -> Owners {
        let wanted = replication_factor.min(self.nodes.len());
        self.clockwise(hash(key), wanted)
    }

    /// A key's first owner; `None`: there are no nodes.
    pub fn home(&self, key: &[u8]) -> Option<NodeId> {
        self.owners(key, 1).first().copied()
    }

    /// The part of all keys that each node owns, one of `replication_factor`, by id. All parts are `replication_factor` together.
    pub fn shares(&self, replication_factor: usize) -> Vec<(NodeId, f64)> {
        let mut shares: Vec<(NodeId, f64)> = self.nodes.iter().map(|node| (*node, 0.0)).collect();
        let wanted = replication_factor.min(self.nodes.len());
        let mut before = self.places.last().copied().unwrap_or_default();
        for place in &self.places {
            // The arc that ends here; the first one goes around through 0.
            let arc = place.wrapping_sub(before) as f64 / 2_f64.powi(64);
            for owner in self.clockwise(*place, wanted) {
                let at = self.nodes.binary_search(&owner);
                shares[at.expect("an owner is a node")].1 += arc;
            }
            before = *place;
        }
        shares
    }

    fn clockwise(&self, from: u64, wanted: usize) -> Owners {
        let start = self.places.partition_point(|place| *place < from);
        let (before, after) = self.holders.split_at(start);
        let mut owners = Owners::new();
        for holder in after.iter().chain(before) {
            if owners.len() == wanted {
                break;
            }
            let node = self.nodes[usize::from(*holder)];
            if !owners.contains(&node) {
                owners.push(node);
            }
        }
        owners
    }
}

fn place(node: NodeId, vnode: u32) -> u64 {
    let mut name = [0; 12];
    name[..8].copy_from_slice(&node.0.to_be_bytes());
    name[8..].copy_from_slice(&vnode.to_be_bytes());
    hash(&name)
}

fn hash(bytes: &[u8]) -> u64 {
    xxh64(bytes, SEED)
}

/// Part of the placement for ever: with another seed every record would have other owners.
const SEED: u64 = 0;
