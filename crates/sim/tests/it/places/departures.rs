//! Nodes that somebody stops, or takes out of the cluster.

use std::time::Duration;

use broker::{ClusterAnswer, ClusterChange, ClusterQuestion};
use cluster::NodeId;

use super::Places;

/// What a node has said last arrives in this time.
const LAST_WORDS: Duration = Duration::from_millis(10);

/// How long an operator waits for an answer before he asks again.
const PATIENCE: Duration = Duration::from_millis(500);

impl Places {
    /// Somebody stops a node. It hands over, says goodbye, and is gone.
    pub(crate) fn stop(&mut self, node: usize) {
        self.nodes[node].as_mut().expect("it is there").stop();
        self.until("the end of a clean stop", |places| {
            !places.machine(node).node().is_stopping()
        });
        self.run(LAST_WORDS);
        self.kill(node);
    }

    /// Somebody takes a node out of the cluster, by way of another one, and switches it off when all others know.
    pub(crate) fn remove(&mut self, node: usize, through: usize) {
        let gone = NodeId(node as u64 + 1);
        let remove = ClusterQuestion::Change(ClusterChange::Remove {
            node: gone,
            is_forced: !self.is_there(node),
        });
        let is_taken = (0..20).any(|_| self.is_answered(through, &remove));
        assert!(is_taken, "nobody removes {gone}");
        self.until("that all others know of a removal", |places| {
            let others = places
                .nodes
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != node);
            let mut others = others.filter_map(|(_, machine)| machine.as_ref());
            others.all(|machine| machine.removed.contains(&gone))
        });
        self.kill(node);
    }

    /// Whether a node does what it is asked.
    fn is_answered(&mut self, node: usize, asks: &ClusterQuestion) -> bool {
        let asked = self.nodes[node].as_mut().expect("it is there");
        asked.ask_cluster(asks.clone());
        self.run(PATIENCE);
        let asked = self.nodes[node].as_mut().expect("it is there");
        let answer = asked.take_cluster_answers().pop();
        matches!(answer, Some(ClusterAnswer::Taken(_)))
    }
}
