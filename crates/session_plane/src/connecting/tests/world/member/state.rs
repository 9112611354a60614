//! State of a node that its connections and questions read.

use super::*;

/// What connections and questions read.
#[derive(Debug)]
pub(in crate::connecting::tests) struct State {
    pub(super) own: NodeId,
    pub(super) view: ViewOf,
    pub(in crate::connecting::tests) copy: Sample,
    /// Nodes whose copies are to be merged.
    pub(super) unanswered: BTreeSet<NodeId>,
}

impl ClusterState<Value> for State {
    fn owners(&self, slot: Slot) -> Vec<NodeId> {
        let nodes: Vec<NodeId> = self.view.keys().copied().collect();
        let first = usize::from(slot.number());
        (first..first + 2.min(nodes.len()))
            .map(|at| nodes[at % nodes.len()])
            .collect()
    }

    fn present_run(&self, node: NodeId) -> Option<Run> {
        self.view.get(&node).copied()
    }

    fn known(&self) -> Arc<VersionVector> {
        Arc::new(self.copy.covered().clone())
    }

    fn routes(&self, _: &ClientId) -> Option<KnownSession<Value>> {
        None
    }
}

impl OwnedSessions<Value> for State {
    fn read(&self, client: &ClientId, known: &VersionVector) -> Option<KnownSession<Value>> {
        let is_owner = self
            .owners(Slot::of_client(client.as_bytes()))
            .contains(&self.own);
        let is_ready = is_owner && self.unanswered.is_empty() && self.copy.has_all(known);
        is_ready.then(|| KnownSession::of_copy(&self.copy, client))
    }
}
