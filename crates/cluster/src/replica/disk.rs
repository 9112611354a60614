//! Whether a replica's own disk keeps up.
//!
//! A majority of disks decides, and it need not be the leader's: but the leader applies only what is on its own, and takes the next entry then.
//! So a leader with a slow disk holds everybody up while the others could do without it. A replica knows that of itself alone: here is how
//! long its oldest write has been on its way, and whether that was too long lately.

use std::time::{Duration, Instant};

use raft::StateRole;

use super::Replica;
use crate::NodeId;

/// A disk that takes longer for a write is slow. A hundred times what a good one takes, and longer than an election.
const SLOW_AFTER: Duration = Duration::from_secs(1);

/// A disk that was slow counts as slow for so long after that, and then until it has done a write in time.
const SLOW_FOR: Duration = Duration::from_secs(30);

/// What was seen of the disk.
#[derive(Debug, Default)]
pub(super) struct Disk {
    is_held_up: bool,
    slow_at: Option<Instant>,
    /// A write was done in time since it was slow.
    was_prompt: bool,
}

impl Disk {
    /// The oldest write that is on its way was given to the disk at this moment.
    fn look(&mut self, now: Instant, oldest: Option<Instant>) {
        self.is_held_up = oldest.is_some_and(|given_at| given_at + SLOW_AFTER <= now);
        if self.is_held_up {
            self.slow_at = Some(now);
            self.was_prompt = false;
        }
    }

    /// A write is durable that was given to the disk at this moment.
    pub(super) fn wrote(&mut self, now: Instant, given_at: Instant) {
        self.was_prompt |= now < given_at + SLOW_AFTER;
    }

    fn is_slow(&self, now: Instant) -> bool {
        self.slow_at
            .is_some_and(|at| !self.was_prompt || now < at + SLOW_FOR)
    }
}

impl Replica {
    /// Whether the disk takes too long for what it was given, at this moment.
    pub fn is_held_up(&self) -> bool {
        self.disk.is_held_up
    }

    /// Whether the disk takes too long, or did so lately: this replica had better not lead.
    pub fn is_slow(&self) -> bool {
        self.disk.is_slow(self.clock.now())
    }

    /// Whether that node has on its disk what this leader's own disk does not have yet.
    pub fn is_outpaced_by(&self, node: NodeId) -> bool {
        let raft = &self.raft.raft;
        let progress = raft.prs().get(node.0);
        raft.state == StateRole::Leader
            && progress.is_some_and(|progress| progress.matched > raft.raft_log.persisted)
    }

    pub(super) fn look_at_disk(&mut self, now: Instant) {
        let oldest = self.in_flight.front().map(|persist| persist.given_at);
        self.disk.look(now, oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::tests::origin;

    /// A write that takes so long; its replica is stepped every 100 ms.
    fn write(disk: &mut Disk, now: &mut Instant, takes: Duration) {
        let given_at = *now;
        while *now < given_at + takes {
            *now += Duration::from_millis(100);
            disk.look(*now, Some(given_at));
        }
        disk.wrote(*now, given_at);
        disk.look(*now, None);
    }

    #[test]
    fn a_disk_is_slow_until_it_was_fast_for_long_enough() {
        let (fast, slow) = (Duration::from_millis(900), Duration::from_secs(2));
        let (mut now, mut disk) = (origin(), Disk::default());
        write(&mut disk, &mut now, fast);
        assert!(!disk.is_slow(now), "that was in time");
        write(&mut disk, &mut now, slow);
        assert!(!disk.is_held_up, "it is done");
        assert!(disk.is_slow(now + 10 * SLOW_FOR), "nothing was fast since");
        write(&mut disk, &mut now, fast);
        assert!(disk.is_slow(now), "it was slow a moment ago");
        assert!(!disk.is_slow(now + SLOW_FOR));
        write(&mut disk, &mut now, slow);
        assert!(disk.is_slow(now + SLOW_FOR), "it was slow again");
    }

    #[test]
    fn a_write_that_does_not_end_is_seen() {
        let (now, mut disk) = (origin(), Disk::default());
        disk.look(now + 2 * SLOW_AFTER, None);
        assert!(!disk.is_held_up, "there is nothing to do");
        disk.look(now + SLOW_AFTER, Some(now));
        assert!(disk.is_held_up);
        assert!(disk.is_slow(now + SLOW_AFTER));
    }
}
