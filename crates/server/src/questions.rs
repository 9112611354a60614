//! What operators have asked of the node, until it is answered.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

/// Who waits for which answer.
#[derive(Debug)]
pub(crate) struct Questions<T> {
    waiting: BTreeMap<u64, oneshot::Sender<T>>,
    next: u64,
}

impl<T> Default for Questions<T> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<T> Questions<T> {
    /// A number for a question. Who has gone is forgotten.
    pub(crate) fn ask(&mut self, answer: oneshot::Sender<T>) -> u64 {
        self.waiting.retain(|_, answer| !answer.is_closed());
        self.next += 1;
        self.waiting.insert(self.next, answer);
        self.next
    }

    /// The answer.
    pub(crate) fn answer(&mut self, question: u64, answered: T) {
        if let Some(waiting) = self.waiting.remove(&question) {
            // Whoever asked may have gone.
            let _ = waiting.send(answered);
        }
    }
}
