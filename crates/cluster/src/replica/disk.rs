//! Whether a replica's own disk keeps up.
//!
//! A majority of disks decides, and it need not be the leader's: but the leader applies only what is on its own, and takes the next entry then.
//! So a leader with a slow disk holds everybody up while the others could do without it. A replica knows that of itself alone: here is how
//! long its oldest write has been on its way, and whether that was too long lately.

use std::time::{Duration, Instant};

use raft::StateRole;

use super::Replica;
use super::busy::time_for;
use crate::NodeId;

/// Time after which a disk is slow with a small write: a hundred times what a good one takes, and longer than an election. The time that
/// the bytes on their way take comes on top.
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
    /// Bytes of all writes that are on their way to it.
    bytes: usize,
}

impl Disk {
    /// Looks whether the disk is slow with the oldest write that is on its way: it is from this moment on.
    fn look(&mut self, now: Instant, slow_from: Option<Instant>) {
        self.is_held_up = slow_from.is_some_and(|slow_from| slow_from <= now);
        if self.is_held_up {
            self.slow_at = Some(now);
            self.was_prompt = false;
        }
    }

    /// Gives the disk a write of so many bytes, behind those on their way. Returns the moment from which on the disk is slow with it.
    ///
    /// A replica that leads has its uncommitted bytes on their way at most, or a single entry of 256 MiB. So a disk that hangs is slow
    /// after nine seconds at the latest.
    pub(super) fn give(&mut self, now: Instant, bytes: usize) -> Instant {
        self.bytes += bytes;
        now + SLOW_AFTER + time_for(self.bytes)
    }

    /// Notes that a write of so many bytes is durable. The disk would have been slow with it from this moment on.
    pub(super) fn wrote(&mut self, now: Instant, bytes: usize, slow_from: Instant) {
        self.bytes -= bytes;
        self.was_prompt |= now < slow_from;
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
        let oldest = self.in_flight.front().map(|persist| persist.slow_from);
        self.disk.look(now, oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::tests::origin;

    /// A write that takes so long; its replica is stepped every 100 ms.
    fn write(disk: &mut Disk, now: &mut Instant, takes: Duration) {
        let (given_at, slow_from) = (*now, disk.give(*now, 0));
        while *now < given_at + takes {
            *now += Duration::from_millis(100);
            disk.look(*now, Some(slow_from));
        }
        disk.wrote(*now, 0, slow_from);
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
        disk.look(now + SLOW_AFTER, Some(now + SLOW_AFTER));
        assert!(disk.is_held_up);
        assert!(disk.is_slow(now + SLOW_AFTER));
    }

    #[test]
    fn what_is_given_behind_a_large_write_has_its_time_too() {
        let (now, mut disk) = (origin(), Disk::default());
        let large = disk.give(now, 64 << 20);
        let small = disk.give(now, 10);
        assert_eq!(large, now + SLOW_AFTER + Duration::from_secs(2));
        assert!(small > large);
        disk.wrote(now, 64 << 20, large);
        assert!(disk.give(now, 10) < now + SLOW_AFTER + Duration::from_millis(1));
    }
}
