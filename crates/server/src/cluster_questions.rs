//! What operators have asked about the cluster, until it is answered.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use crate::admin::ClusterAnswered;

/// Who waits for which answer.
#[derive(Debug, Default)]
pub(crate) struct ClusterQuestions {
    waiting: BTreeMap<u64, oneshot::Sender<ClusterAnswered>>,
    next: u64,
}

impl ClusterQuestions {
    /// A number for a question. Who has gone is forgotten.
    pub(crate) fn ask(&mut self, answer: oneshot::Sender<ClusterAnswered>) -> u64 {
        self.waiting.retain(|_, answer| !answer.is_closed());
        self.next += 1;
        self.waiting.insert(self.next, answer);
        self.next
    }

    /// The answer.
    pub(crate) fn answer(&mut self, question: u64, answered: ClusterAnswered) {
        if let Some(waiting) = self.waiting.remove(&question) {
            // Whoever asked may have gone.
            let _ = waiting.send(answered);
        }
    }
}
