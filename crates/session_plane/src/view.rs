//! View of a node: the nodes that it takes for present, with their states.
//!
//! A ring marker carries a view: from that event on its sender routes by the ring of this view. So
//! the receiver knows for each event which nodes its sender took for owners. *Invariant*: a view
//! has at least one node and at most [`NODES_MAX`], each once, in ascending order. So the same
//! nodes in any order are the same view.

use cluster::NodeId;

use crate::Run;

/// Nodes of a view at most. A view of more is refused whole, and its sender is not joined.
pub const NODES_MAX: usize = 100;

/// State of a node's life in its cluster.
///
/// ```text
///  JOINING ----> RUNNING <----- MERGING
///                   |              ^
///                   v              |
///             MERGE_MINORITY ------'
/// ```
///
/// A node that is declared dead is in no view, whatever its state was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeState {
    /// Gives what it holds, and gets what it will own. On the Minority ring.
    Joining,
    /// Has what it owns. On both rings.
    Running,
    /// Was on the smaller side of a split, and gives what it holds. On no ring.
    MergeMinority,
    /// Has given what it held, and gets what it will own. On the Minority ring.
    Merging,
}

impl NodeState {
    /// The node is on the Primary ring: its owners serve.
    pub fn is_on_primary(self) -> bool {
        self == NodeState::Running
    }

    /// The node is on the Minority ring: the owners once joins and merges have ended.
    pub fn is_on_minority(self) -> bool {
        self != NodeState::MergeMinority
    }
}

/// Incarnation number of SWIM (Das et al., 2002): one stay of a run among the present nodes.
///
/// A run raises it at each handshake, and to refute its own conviction. Hearsay names the number
/// that it convicts. The incarnation in a [`Run`] is another one: it counts starts, and a
/// conviction does not end a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SwimIncarnation(pub u32);

/// Node that a view has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PresentNode {
    /// Node, and the start of it that is present.
    pub run: Run,
    /// Highest incarnation of the run that the view's node has heard of.
    pub incarnation: SwimIncarnation,
    /// State of the node.
    pub state: NodeState,
}

/// Nodes that a node takes for present.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct View {
    /// In ascending order.
    nodes: Vec<PresentNode>,
}

impl View {
    /// View with `nodes`, in any order.
    ///
    /// # Errors
    ///
    /// [`ViewError`] where they are no nodes of a view.
    pub fn new(mut nodes: Vec<PresentNode>) -> Result<View, ViewError> {
        if nodes.is_empty() {
            return Err(ViewError::Empty);
        }
        if nodes.len() > NODES_MAX {
            return Err(ViewError::TooManyNodes { count: nodes.len() });
        }
        nodes.sort_unstable();
        if nodes.iter().any(|present| present.run.node == NodeId(0)) {
            return Err(ViewError::NodeZero);
        }
        let twice = nodes.windows(2).find_map(|pair| match pair {
            [one, other] if one.run.node == other.run.node => Some(one.run.node),
            _ => None,
        });
        match twice {
            Some(node) => Err(ViewError::NodeTwice { node }),
            None => Ok(View { nodes }),
        }
    }

    /// Present nodes, in ascending order.
    pub fn nodes(&self) -> &[PresentNode] {
        &self.nodes
    }

    /// Entry of `node`, if it is present.
    pub fn find(&self, node: NodeId) -> Option<&PresentNode> {
        let index = self.nodes.binary_search_by_key(&node, |present| present.run.node);
        index.ok().and_then(|index| self.nodes.get(index))
    }

    /// The ring of both views is the same: they have the same nodes in the same states.
    pub(crate) fn has_ring_of(&self, other: &View) -> bool {
        let is_placed_alike = |(mine, theirs): (&PresentNode, &PresentNode)| {
            mine.run.node == theirs.run.node && mine.state == theirs.state
        };
        self.nodes.len() == other.nodes.len() && self.nodes.iter().zip(&other.nodes).all(is_placed_alike)
    }

    /// Both views have the same runs, in the same states.
    pub(crate) fn has_runs_of(&self, other: &View) -> bool {
        let mut both = self.nodes.iter().zip(&other.nodes);
        self.has_ring_of(other) && both.all(|(mine, theirs)| mine.run == theirs.run)
    }
}

/// Nodes that are no view. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// A view has at least the node whose view it is.
    #[error("a view has no node")]
    Empty,
    /// A view would have more than [`NODES_MAX`] nodes.
    #[error("a view has {count} nodes, at most {NODES_MAX}")]
    TooManyNodes {
        /// Nodes that were named.
        count: usize,
    },
    /// Zero is no node's id.
    #[error("a view names node 0")]
    NodeZero,
    /// A node has one state.
    #[error("a view names node {} twice", .node.0)]
    NodeTwice {
        /// Node that was named twice.
        node: NodeId,
    },
}

#[cfg(test)]
pub(crate) mod tests {
    use cluster::Incarnation;

    use super::*;

    /// Node with the id `node` in `state`.
    pub(crate) fn present(node: u64, state: NodeState) -> PresentNode {
        PresentNode {
            run: Run {
                node: NodeId(node),
                incarnation: Incarnation(1),
            },
            incarnation: SwimIncarnation(1),
            state,
        }
    }

    fn running(ids: impl IntoIterator<Item = u64>) -> Result<View, ViewError> {
        View::new(
            ids.into_iter()
                .map(|node| present(node, NodeState::Running))
                .collect(),
        )
    }

    #[test]
    fn what_is_no_view_is_refused_by_name() {
        assert_eq!(running([]), Err(ViewError::Empty));
        assert_eq!(running([1, 0]), Err(ViewError::NodeZero));
        assert_eq!(running([3, 2, 3]), Err(ViewError::NodeTwice { node: NodeId(3) }));
        assert_eq!(running(1..=101), Err(ViewError::TooManyNodes { count: 101 }));
        assert_eq!(
            running([3, 2, 3]).map_err(|error| error.to_string()),
            Err("a view names node 3 twice".to_owned())
        );
    }

    #[test]
    fn two_starts_of_a_node_are_one_node_twice() {
        let mut again = present(2, NodeState::Joining);
        again.run.incarnation = Incarnation(2);
        let nodes = vec![
            present(2, NodeState::Running),
            present(1, NodeState::Running),
            again,
        ];
        assert_eq!(View::new(nodes), Err(ViewError::NodeTwice { node: NodeId(2) }));
    }

    #[test]
    fn a_node_of_the_view_is_found() {
        let view = running([5, 1, 9]).expect("a view");
        let ids: Vec<u64> = view.nodes().iter().map(|present| present.run.node.0).collect();
        assert_eq!(ids, [1, 5, 9]);
        assert_eq!(view.find(NodeId(5)), Some(&present(5, NodeState::Running)));
        assert_eq!(view.find(NodeId(4)), None);
    }
}
