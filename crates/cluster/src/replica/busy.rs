//! Followers that are at work on a large entry.
//!
//! A follower takes an entry in one step, in which it answers nobody. A step with 70 MiB takes a second on a machine that is busy. A leader
//! that took that for silence would step down, and the next leader would give the followers as much to do.
//!
//! So a leader takes a follower for present for a time after it heard it last. That time is in proportion to the entries that the
//! follower has to take before the first heartbeat that it owes an answer, and at most [`WORK_MAX`]. Entries behind that heartbeat do not
//! count: a leader that proposes more and more while it hears nobody is to step down all the same.
//!
//! A leader looks for its quorum once in the shortest election timeout. So one that hears no quorum steps down after that time and two
//! such timeouts: 8.6 s with the default timeouts. One whose own steps are late excuses its followers besides, each time anew: it may lead
//! on, in name, for as long as it is late.
//!
//! Followers do not wait for a leader any longer. Safety does not depend on these times: a leader decides nothing, and answers no read,
//! without a quorum.

use std::time::{Duration, Instant};

use bytes::Bytes;
use raft::{Progress, ProgressState, StateRole};

use super::Replica;
use super::log::Log;
use crate::{Index, NodeId, Term};

/// Rate at which a node and its disk take entries at least.
const BYTES_A_SECOND: usize = 32 << 20;

/// Longest work: as long as an entry of 256 MiB takes, the largest packet of MQTT.
const WORK_MAX: Duration = Duration::from_secs(8);

/// Longest time that so many bytes take.
pub(super) fn time_for(bytes: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / BYTES_A_SECOND as f64)
}

/// Longest time in which a follower that works on so many bytes of entries answers nobody.
fn work_on(bytes: usize) -> Duration {
    time_for(bytes).min(WORK_MAX)
}

/// Work of a follower that has fallen silent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    /// Term of the leader that measured it.
    term: Term,
    /// When the follower was heard last.
    heard: Instant,
    /// How long it may be silent since then.
    time: Duration,
}

impl Replica {
    /// Takes followers that may be at work for present when the leader looks for its quorum.
    pub(super) fn wait_for_busy_followers(&mut self) {
        if self.raft.raft.state != StateRole::Leader {
            return;
        }
        self.measure_work();
        let now = self.clock.now();
        for (id, progress) in self.raft.raft.mut_prs().iter_mut() {
            let work = self.work.get(&NodeId(*id));
            let is_busy = |work: &Work| now.saturating_duration_since(work.heard) < work.time;
            progress.recent_active |= work.is_some_and(is_busy);
        }
    }

    /// Measures the work of followers that were not heard for a heartbeat, once for each silence: a heartbeat is on its way to them, and
    /// entries that are sent from now on are behind it.
    fn measure_work(&mut self) {
        let term = self.term();
        for (id, progress) in self.raft.raft.prs().iter() {
            let follower = NodeId(*id);
            let Some(heard) = self.heard.get(&follower).copied() else {
                continue;
            };
            let is_known = |work: &Work| work.term == term && work.heard == heard;
            let silent_for = self.clock.now().saturating_duration_since(heard);
            if silent_for < self.config.heartbeat_interval || self.work.get(&follower).is_some_and(is_known) {
                continue;
            }
            let time = work_on(bytes_sent(self.raft.store(), progress));
            self.work.insert(follower, Work { term, heard, time });
        }
    }
}

/// Bytes of the entries that a follower was sent and has not acknowledged.
fn bytes_sent(log: &Log, progress: &Progress) -> usize {
    let next = progress.next_idx;
    let sent = match progress.state {
        ProgressState::Replicate => progress.matched + 1..next,
        // Nobody knows what the follower has. A probe carries the next entry, and others only if all are small.
        ProgressState::Probe => next..next + u64::from(progress.is_paused()),
        ProgressState::Snapshot => next..next,
    };
    let entries = sent.filter_map(|index| log.data_at(Index(index)));
    entries.map(Bytes::len).sum()
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
