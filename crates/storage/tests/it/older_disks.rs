//! Followers whose disk is older than what they have acknowledged: put back from a copy, or without its last writes.

use std::time::Duration;

use cluster::replica::{MemberProgress, ReplicaConfig};
use cluster::{Index, NodeId};
use storage::SimulatedDisk;

use crate::group::Group;

const SECOND: Duration = Duration::from_secs(1);

/// Entries that the leader and the follower alone have.
const ACKNOWLEDGED: usize = 20;

/// A leader, a follower, and a third node that is away while they commit entries.
struct Play {
    group: Group,
    leader: NodeId,
    follower: NodeId,
    away: NodeId,
    /// Disk of the follower before those entries.
    older: SimulatedDisk,
}

impl Play {
    fn new(config: fn(&mut ReplicaConfig)) -> Self {
        let mut group = Group::with_config(3, 7, config);
        let leader = group.elect();
        group.propose(leader, "before");
        group.advance(SECOND);
        let mut others = group.nodes().into_iter().filter(|node| *node != leader);
        let (follower, away) = (others.next().unwrap(), others.next().unwrap());
        let older = group.member(follower).disk.clone();
        group.partition(&[away]);
        for number in 0..ACKNOWLEDGED {
            group.propose(leader, format!("acknowledged {number}"));
        }
        group.settle();
        let play = Self {
            group,
            leader,
            follower,
            away,
            older,
        };
        assert_eq!(play.applied(leader), ACKNOWLEDGED + 1);
        play
    }

    /// The follower starts with the older disk.
    fn put_back(&mut self) {
        let older = self.older.clone();
        self.group.start_with_disk(self.follower, older);
    }

    fn applied(&self, node: NodeId) -> usize {
        self.group.member(node).applied.len()
    }

    /// What the leader knows of the follower.
    fn progress(&self, leader: NodeId) -> MemberProgress {
        let all = self.group.replica(leader).progress();
        *all.iter()
            .find(|progress| progress.node == self.follower)
            .unwrap()
    }
}

#[test]
fn a_disk_that_was_put_back_takes_no_part_and_loses_nothing() {
    let mut play = Play::new(|_| {});
    play.put_back();
    play.group.advance(SECOND / 4);
    assert!(play.group.replica(play.follower).is_rolled_back());
    assert!(play.progress(play.leader).is_rolled_back);
    assert_eq!(play.progress(play.leader).matched, Index::ZERO);
    let mut sayers: Vec<_> = play.group.missing.iter().map(|(by, of, _)| (*by, *of)).collect();
    sayers.sort();
    let mut expected = [(play.leader, play.follower), (play.follower, play.follower)];
    expected.sort();
    assert_eq!(sayers, expected, "each says so once");

    // Without the leader, the two others are no majority: who would lead lacks what was acknowledged.
    play.group.crash(play.leader);
    play.group.heal();
    play.group.advance(10 * SECOND);
    assert_eq!(play.group.leader(), None);
    play.group.start(play.leader);
    let leader = play.group.elect();
    play.group.advance(SECOND);
    assert_eq!(leader, play.leader);
    assert_eq!(play.applied(play.away), ACKNOWLEDGED + 1);
    assert!(play.progress(leader).is_rolled_back, "the next leader is told");
}

#[test]
fn a_leader_knows_older_disks_after_an_election_and_after_a_start() {
    for starts in [false, true] {
        let mut play = Play::new(|_| {});
        let term = play.group.replica(play.leader).term();
        play.group.crash(play.follower);
        // What was acknowledged is on disk with the next entry, which nobody acknowledges.
        play.group.propose(play.leader, "unacknowledged");
        play.group.advance(5 * SECOND);
        if starts {
            play.group.crash(play.leader);
            play.group.start(play.leader);
        }
        play.put_back();
        play.group.advance(5 * SECOND);
        assert!(play.group.replica(play.leader).term() > term);
        assert!(play.group.replica(play.follower).is_rolled_back());
        play.group.heal();
        play.group.advance(5 * SECOND);
        assert_eq!(play.applied(play.away), ACKNOWLEDGED + 2);
    }
}

#[test]
fn the_next_leader_knows_that_the_disk_of_the_last_one_was_put_back() {
    for starts in [false, true] {
        let mut group = Group::with_config(3, 7, |_| {});
        let former = group.elect();
        group.propose(former, "before");
        group.advance(SECOND);
        let older = group.member(former).disk.clone();
        for number in 0..ACKNOWLEDGED {
            group.propose(former, format!("acknowledged {number}"));
        }
        group.advance(SECOND);
        group.propose(former, "the last one");
        group.advance(SECOND);
        group.crash(former);
        if starts {
            for node in group.nodes().into_iter().filter(|node| *node != former) {
                group.crash(node);
                group.start(node);
            }
        }
        let leader = group.elect();
        group.start_with_disk(former, older);
        group.advance(SECOND);
        assert_ne!(leader, former);
        assert!(group.replica(former).is_rolled_back());
    }
}

#[test]
fn a_disk_that_was_put_back_is_known_as_such_after_a_start() {
    let mut play = Play::new(|_| {});
    play.put_back();
    play.group.advance(SECOND / 4);
    play.group.crash(play.follower);
    play.group.start(play.follower);
    assert!(play.group.replica(play.follower).is_rolled_back());
    assert_eq!(play.group.replica(play.follower).deadline(), None);
}

#[test]
fn a_disk_that_may_lose_its_tail_is_filled_up_by_the_same_leader() {
    let mut play = Play::new(|config| config.may_lose_tail = true);
    let term = play.group.replica(play.leader).term();
    play.put_back();
    play.group.advance(SECOND);
    assert_eq!(play.applied(play.follower), ACKNOWLEDGED + 1);
    assert_eq!(play.group.replica(play.follower).missing(), None);
    assert_eq!(play.group.replica(play.leader).term(), term);
    play.group.propose(play.leader, "after");
    play.group.advance(SECOND);
    assert_eq!(play.applied(play.follower), ACKNOWLEDGED + 2);
}

#[test]
fn a_disk_that_has_lost_its_tail_has_no_vote_until_it_is_filled_up() {
    let mut play = Play::new(|config| config.may_lose_tail = true);
    play.put_back();
    // The leader is gone as soon as the follower has heard of what it lacks.
    let follower = play.follower;
    play.group
        .advance_until(|group| group.replica(follower).missing().is_some());
    play.group.sync(follower);
    play.group.crash(play.leader);
    play.group.crash(follower);
    play.group.start(play.follower);
    play.group.heal();
    play.group.advance(10 * SECOND);
    assert_eq!(play.group.leader(), None);
    play.group.start(play.leader);
    assert_eq!(play.group.elect(), play.leader);
    play.group.advance(SECOND);
    for node in [play.follower, play.away] {
        assert_eq!(play.applied(node), ACKNOWLEDGED + 1);
    }
    assert_eq!(play.group.replica(play.follower).missing(), None);
}
