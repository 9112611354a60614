//! Followers that are at work on a large entry.
//!
//! A follower takes an entry in one step, in which it answers nobody. A step with 70 MiB takes a second on a machine that is busy. A leader
//! that took that for silence would step down, and the next leader would give the followers as much to do.
//!
//! So a leader takes a follower for present for a time after it heard it last. That time is in proportion to the first entry that the
//! follower was sent and has not acknowledged, and at most [`WORK_MAX`]. A leader looks for its quorum once in the shortest election
//! timeout. So one that hears no quorum steps down after that time and two such timeouts: 8.6 s with the default timeouts. One whose own
//! steps are late excuses its followers besides, each time anew: it may lead on, in name, for as long as it is late.
//!
//! Followers do not wait for a leader any longer. Safety does not depend on these times: a leader decides nothing, and answers no read,
//! without a quorum.

use std::time::Duration;

use raft::{Progress, StateRole};

use super::Replica;
use crate::{Index, NodeId};

/// Rate at which a node and its disk take entries at least.
const BYTES_A_SECOND: usize = 32 << 20;

/// Longest work on one entry: as long as one of 256 MiB takes, the largest packet of MQTT.
const WORK_MAX: Duration = Duration::from_secs(8);

/// Longest time that so many bytes take.
pub(super) fn time_for(bytes: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / BYTES_A_SECOND as f64)
}

/// Longest time in which a follower that works on an entry of so many bytes answers nobody.
fn work_on(bytes: usize) -> Duration {
    time_for(bytes).min(WORK_MAX)
}

impl Replica {
    /// Takes followers that may be at work for present when the leader looks for its quorum.
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

    /// Whether a follower may be at work on its next entry since it was heard last.
    fn is_busy(&self, follower: NodeId, progress: &Progress) -> bool {
        let next = Index(progress.matched + 1);
        let was_sent = next.0 < progress.next_idx || progress.is_paused();
        let Some(data) = self.raft.store().data_at(next).filter(|_| was_sent) else {
            return false;
        };
        let heard = self.heard.get(&follower);
        let silent_for = heard.map(|heard| self.clock.now().saturating_duration_since(*heard));
        silent_for.is_some_and(|silent_for| silent_for < work_on(data.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_as_long_as_its_bytes_and_the_largest_entry_is_the_limit() {
        assert_eq!(work_on(0), Duration::ZERO);
        assert_eq!(work_on(BYTES_A_SECOND / 2), Duration::from_millis(500));
        assert_eq!(work_on(256 << 20), WORK_MAX);
        assert_eq!(work_on(usize::MAX), WORK_MAX);
    }
}
