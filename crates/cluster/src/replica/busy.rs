//! Followers that are at work on a large entry.
//!
//! A follower takes an entry in one step, in which it answers nobody: with 70 MiB on a machine that is busy, a second. A leader that took
//! that for silence would step down, and the next one would give the followers as much to do.
//!
//! So a leader waits for a follower in proportion to the first entry that it was sent and has not acknowledged. Safety does not
//! depend on it: a leader that finds no quorum ends its term, and decides nothing without one in any case.

use std::time::Duration;

use raft::{Progress, StateRole};

use super::Replica;
use crate::{Index, NodeId};

/// What a node takes of entries at least, and its disk. A leader that was cut off with an entry of 256 MiB, the largest, steps down eight
/// seconds later.
const BYTES_A_SECOND: usize = 32 << 20;

/// How long so many bytes may take.
pub(super) fn time_for(bytes: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / BYTES_A_SECOND as f64)
}

impl Replica {
    /// Takes no follower for silent that may be at work.
    pub(super) fn wait_for_busy_followers(&mut self) {
        let raft = &self.raft.raft;
        if raft.state != StateRole::Leader {
            return;
        }
        let followers = raft.prs().iter();
        let busy = followers.filter(|(id, progress)| self.is_busy(NodeId(**id), progress));
        let busy: Vec<u64> = busy.map(|(id, _)| *id).collect();
        for id in busy {
            if let Some(progress) = self.raft.raft.mut_prs().get_mut(id) {
                progress.recent_active = true;
            }
        }
    }

    /// Whether a follower may be at work on the next entry since it was heard last.
    fn is_busy(&self, follower: NodeId, progress: &Progress) -> bool {
        let next = Index(progress.matched + 1);
        let was_sent = next.0 < progress.next_idx || progress.is_paused();
        let Some(data) = self.raft.store().data_at(next).filter(|_| was_sent) else {
            return false;
        };
        let works_for = time_for(data.len());
        let heard = self.heard.get(&follower);
        heard.is_some_and(|heard| self.clock.now().saturating_duration_since(*heard) < works_for)
    }
}
