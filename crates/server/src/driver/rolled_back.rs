//! The part of a driver in the end of a node that is rolled back (`peers/past.rs`, `goodbye.rs`).

use storage::{Fault, RolledBack};

use super::{Driver, Inputs};
use crate::condition::Condition;
use crate::peers::not_serving;

impl Driver {
    /// Waits until this node is rolled back. Returns the cause.
    pub(crate) async fn rolled_back(&self) -> String {
        match &self.peers {
            Some(peers) => peers.rolled_back().await,
            None => std::future::pending().await,
        }
    }

    /// Keeps on the disk that this node is rolled back.
    pub(crate) fn record_rolled_back(&self, cause: &str) -> Result<(), Fault> {
        let cause = cause.to_owned();
        self.disk.put(RolledBack { cause }.put())
    }

    /// Answers operators in place of a node that is rolled back.
    pub(crate) async fn answer_aside(&self, cause: String, inputs: &mut Inputs) {
        if let Some(peers) = &self.peers {
            not_serving::answer_all(peers, &Condition::RolledBack(cause), &mut inputs.admin).await;
        }
    }

    /// Why this node takes no part in its cluster any more.
    pub(super) fn rolled_back_cause(&self) -> Option<String> {
        self.peers.as_ref()?.rolled_back_cause()
    }
}
