//! Slots of sessions, and the nodes that own them.

use std::collections::BTreeMap;

use cluster::session_plane::lifecycle::NodeState;
use cluster::{Incarnation, NodeId};
use session_plane::Slot;

use crate::node::Node;

/// Slots of one node, as the node that is asked sees its ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotsOfNode {
    /// Node.
    pub node: NodeId,
    /// State of the node in the session plane.
    pub state: NodeState,
    /// Slots that the node owns.
    pub owned: usize,
    /// Slots of which the node is the primary owner.
    pub primary: usize,
}

/// Stay of this node among the present nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presence {
    /// State of the node in the session plane.
    pub state: NodeState,
    /// Run of the node.
    pub run: Incarnation,
    /// Number of the stay. The node raises it whenever it meets another node.
    pub number: u32,
}

impl Node {
    /// Slots of each node of the cluster, by id. None where there is no cluster.
    pub fn slots_of_nodes(&self) -> Option<Vec<SlotsOfNode>> {
        self.control.as_ref()?;
        let plane = self.replication.sessions().plane();
        let mut counts: BTreeMap<NodeId, (usize, usize)> = BTreeMap::new();
        for slot in Slot::all().filter(|slot| !slot.is_of_every_node()) {
            for (place, node) in plane.owners(slot).enumerate() {
                let (owned, primary) = counts.entry(node).or_default();
                *owned += 1;
                *primary += usize::from(place == 0);
            }
        }
        let slots = self.node_states().into_iter().map(|(node, state)| {
            let (owned, primary) = counts.get(&node).copied().unwrap_or_default();
            SlotsOfNode {
                node,
                state,
                owned,
                primary,
            }
        });
        Some(slots.collect())
    }

    /// Stay of this node among the present nodes. None where there is no cluster.
    pub fn presence(&self) -> Option<Presence> {
        self.control.as_ref()?;
        let own = self.replication.sessions().plane().membership().own();
        Some(Presence {
            state: self.replication.state_of(own.run.node),
            run: own.run.incarnation,
            number: own.incarnation.0,
        })
    }
}
