//! A group of three over a network that a test can silence: when a replica takes others for silent.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::origin;
use crate::replica::{Action, Event, Recovered, Replica, ReplicaConfig};
use crate::{GroupId, NodeId};

const GROUP: GroupId = GroupId(7);

/// More often than leaders say that they are there.
const STEP: Duration = Duration::from_millis(50);

/// Time for which a leader waits for followers with an entry of 24 MiB.
const WORK: Duration = Duration::from_millis(750);

/// Three replicas whose disks are at once and whose messages are either at once or never.
struct Three {
    now: Instant,
    replicas: Vec<Replica>,
    /// Node that no message reaches, and that does nothing.
    away: Option<NodeId>,
    /// Longest message that arrives, in bytes.
    message_bytes_max: usize,
}

impl Three {
    /// Replicas of which one leads.
    fn leading() -> Three {
        let now = origin();
        let nodes = [NodeId(1), NodeId(2), NodeId(3)];
        let mut waiting = Vec::new();
        let start = |node: NodeId| {
            let mut actions = Vec::new();
            let config = ReplicaConfig::new(GROUP, node, nodes.to_vec(), node.0);
            let replica = Replica::new(now, config, Recovered::nothing(), &mut actions).unwrap();
            waiting.push((node, actions));
            replica
        };
        let replicas = nodes.into_iter().map(start).collect();
        let mut three = Three {
            now,
            replicas,
            away: None,
            message_bytes_max: usize::MAX,
        };
        for (node, actions) in waiting {
            three.carry_out(node, actions, true);
        }
        while three.leader().is_none() {
            three.pass(STEP);
            three.all(|_| Event::Timeout, true);
        }
        three
    }

    fn leader(&self) -> Option<NodeId> {
        let nodes = [NodeId(1), NodeId(2), NodeId(3)];
        let leads =
            |node: &NodeId| self.away != Some(*node) && self.replicas[node.0 as usize - 1].is_leader();
        nodes.into_iter().find(leads)
    }

    fn follower(&self) -> NodeId {
        let leader = self.leader().expect("it leads");
        NodeId(leader.0 % 3 + 1)
    }

    fn replica(&mut self, node: NodeId) -> &mut Replica {
        &mut self.replicas[node.0 as usize - 1]
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn step(&mut self, node: NodeId, event: Event, is_connected: bool) {
        let mut actions = Vec::new();
        let now = self.now;
        self.replica(node).step(now, event, &mut actions);
        self.carry_out(node, actions, is_connected);
    }

    /// Gives the leader an entry of so many bytes.
    fn propose(&mut self, leader: NodeId, bytes: usize, is_connected: bool) {
        let data = Bytes::from(vec![7; bytes]);
        self.step(leader, Event::Propose { data }, is_connected);
    }

    fn all(&mut self, event: impl Fn(NodeId) -> Event, is_connected: bool) {
        for node in [NodeId(1), NodeId(2), NodeId(3)] {
            if self.away != Some(node) {
                self.step(node, event(node), is_connected);
            }
        }
    }

    fn carry_out(&mut self, node: NodeId, actions: Vec<Action>, is_connected: bool) {
        for action in actions {
            match action {
                Action::Persist { ticket, .. } => self.step(node, Event::Persisted { ticket }, is_connected),
                Action::Send { to, message } if is_connected && self.away != Some(to) => {
                    let bytes = message.into_bytes();
                    if bytes.len() <= self.message_bytes_max {
                        self.step(to, Event::Message { from: node, bytes }, is_connected);
                    }
                }
                _ => {}
            }
        }
    }

    /// Lets all that are not away work together for some time.
    fn together_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.pass(STEP);
            self.all(|_| Event::Timeout, true);
        }
    }

    /// Cuts the leader off, and looks how long it leads on: until it looks for its quorum a second time after the work of its followers.
    #[track_caller]
    fn assert_leads_on_for(&mut self, time: Duration) {
        let leader = self.leader().expect("it leads");
        let looks_apart = ReplicaConfig::new(GROUP, leader, Vec::new(), 0).election_timeout_min;
        self.cut_off_for(time + looks_apart - STEP, leader, &Event::Timeout);
        assert!(self.replica(leader).is_leader(), "it waits for its followers");
        self.cut_off_for(looks_apart + STEP, leader, &Event::Timeout);
        assert!(!self.replica(leader).is_leader(), "nobody takes that long");
    }

    /// Lets `node` alone for two seconds: nothing reaches it but `event`, every 50 ms.
    fn cut_off(&mut self, node: NodeId, event: &Event) {
        self.cut_off_for(Duration::from_secs(2), node, event);
    }

    /// Lets `node` alone for some time, as [`Three::cut_off`] does for two seconds.
    fn cut_off_for(&mut self, time: Duration, node: NodeId, event: &Event) {
        let until = self.now + time;
        while self.now < until {
            self.pass(STEP);
            self.step(node, event.clone(), false);
        }
    }
}

#[test]
fn a_follower_takes_its_leader_for_silent_unless_parts_of_its_message_come() {
    let mut three = Three::leading();
    let (follower, leader) = (three.follower(), three.leader());
    let from = leader.expect("it leads");
    three.cut_off(follower, &Event::Heard { from });
    assert_eq!(three.replica(follower).leader(), leader);
    three.cut_off(follower, &Event::Timeout);
    assert_eq!(three.replica(follower).leader(), None);
}

#[test]
fn parts_of_another_followers_message_do_not_speak_for_the_leader() {
    let mut three = Three::leading();
    let (follower, leader) = (three.follower(), three.leader());
    let other = NodeId(6 - follower.0 - leader.expect("it leads").0);
    three.cut_off(follower, &Event::Heard { from: other });
    assert_eq!(three.replica(follower).leader(), None);
}

#[test]
fn a_leader_leads_on_while_a_follower_takes_its_message() {
    let mut three = Three::leading();
    let (follower, leader) = (three.follower(), three.leader().expect("it leads"));
    three.cut_off(leader, &Event::Heard { from: follower });
    assert!(three.replica(leader).is_leader());
    three.cut_off(leader, &Event::Timeout);
    assert!(!three.replica(leader).is_leader());
}

#[test]
fn a_replica_that_was_held_up_takes_nobody_for_silent() {
    let mut three = Three::leading();
    let (follower, leader) = (three.follower(), three.leader());
    three.pass(Duration::from_secs(2));
    three.all(|_| Event::Timeout, false);
    assert_eq!(three.replica(follower).leader(), leader);
    assert_eq!(three.leader(), leader);
    // The next look counts.
    three.cut_off(follower, &Event::Timeout);
    assert_eq!(three.replica(follower).leader(), None);
    three.cut_off(leader.expect("it leads"), &Event::Timeout);
    assert_eq!(three.leader(), None);
}

#[test]
fn a_replica_that_is_always_late_takes_its_leader_for_silent_in_the_end() {
    let mut three = Three::leading();
    let follower = three.follower();
    for _ in 0..40 {
        three.pass(Duration::from_secs(1));
        three.step(follower, Event::Timeout, false);
    }
    assert_eq!(three.replica(follower).leader(), None);
}

/// Followers answer nobody while they take a large entry, here for 750 ms. The leader steps down two election timeouts later.
#[test]
fn a_leader_leads_on_while_followers_are_at_work_on_a_large_entry_and_no_longer() {
    let mut three = Three::leading();
    let leader = three.leader().expect("it leads");
    three.propose(leader, 24 << 20, false);
    three.assert_leads_on_for(WORK);
}

/// What a follower was sent together keeps it at work together.
#[test]
fn entries_that_followers_were_sent_count_together() {
    for entries in [[100, 24 << 20], [24 << 20, 100], [12 << 20, 12 << 20]] {
        let mut three = Three::leading();
        let leader = three.leader().expect("it leads");
        for bytes in entries {
            three.propose(leader, bytes, false);
        }
        three.assert_leads_on_for(WORK);
    }
}

/// The followers have been silent for a moment, with nothing to do.
#[test]
fn an_entry_counts_that_followers_are_sent_before_the_next_heartbeat() {
    let mut three = Three::leading();
    let leader = three.leader().expect("it leads");
    three.cut_off_for(STEP, leader, &Event::Timeout);
    three.propose(leader, 24 << 20, false);
    three.assert_leads_on_for(WORK - STEP);
}

#[test]
fn the_work_of_followers_is_measured_in_each_silence() {
    let mut three = Three::leading();
    let leader = three.leader().expect("it leads");
    three.cut_off_for(4 * STEP, leader, &Event::Timeout);
    three.together_for(8 * STEP);
    three.propose(leader, 24 << 20, false);
    three.assert_leads_on_for(WORK);
}

/// A large entry that waits at the leader, behind as many messages as may be on the way.
#[test]
fn an_entry_that_was_not_sent_excuses_nobody() {
    let mut three = Three::leading();
    let leader = three.leader().expect("it leads");
    let on_the_way = ReplicaConfig::new(GROUP, leader, Vec::new(), 0).messages_inflight_max;
    for _ in 0..on_the_way {
        three.propose(leader, 100, false);
    }
    three.propose(leader, 24 << 20, false);
    three.assert_leads_on_for(Duration::ZERO);
}

/// The followers have lost the entry, and were asked for what they lack.
#[test]
fn an_entry_that_followers_are_sent_again_counts() {
    let mut three = Three::leading();
    let leader = three.leader().expect("it leads");
    three.message_bytes_max = 1 << 20;
    three.propose(leader, 24 << 20, true);
    three.together_for(6 * STEP);
    three.assert_leads_on_for(WORK);
}

/// A new leader does not know what a node has that is away: it was sent none of that.
#[test]
fn entries_of_the_leader_before_excuse_nobody() {
    let mut three = Three::leading();
    let before = three.leader().expect("it leads");
    three.propose(before, 64 << 20, true);
    three.away = Some(before);
    while three.leader().is_none() {
        three.together_for(STEP);
    }
    three.assert_leads_on_for(Duration::ZERO);
}

/// A node that is away and was at work has nothing to do for the same leader in another term.
#[test]
fn work_of_another_term_excuses_nobody() {
    let mut three = Three::leading();
    let (follower, leader) = (three.follower(), three.leader().expect("it leads"));
    three.away = Some(NodeId(6 - follower.0 - leader.0));
    three.propose(leader, 64 << 20, true);
    three.together_for(4 * STEP);
    for to in [follower, leader] {
        let from = three.leader().expect("it leads");
        three.step(from, Event::Transfer { to }, true);
        assert_eq!(three.leader(), Some(to));
    }
    three.assert_leads_on_for(Duration::ZERO);
}

/// A leader that proposes more and more while it hears nobody is waited for no longer: what is behind a heartbeat without an answer does not count.
#[test]
fn further_entries_do_not_prolong_the_time_of_a_leader_that_hears_nobody() {
    let mut three = Three::leading();
    let leader = three.leader().expect("it leads");
    for _ in 0..15 {
        three.propose(leader, 2 << 20, false);
        three.cut_off_for(STEP, leader, &Event::Timeout);
    }
    assert!(!three.replica(leader).is_leader());
}

/// The leader alone waits: its followers take it for silent behind a large entry as soon as without one.
#[test]
fn a_follower_with_a_large_entry_takes_its_leader_for_silent_in_the_usual_time() {
    let mut three = Three::leading();
    let (follower, leader) = (three.follower(), three.leader().expect("it leads"));
    three.propose(leader, 24 << 20, true);
    three.cut_off_for(Duration::from_millis(650), follower, &Event::Timeout);
    assert_eq!(three.replica(follower).leader(), None);
}

#[test]
fn a_small_entry_excuses_nobody() {
    let mut three = Three::leading();
    let leader = three.leader().expect("it leads");
    three.propose(leader, 100, false);
    three.cut_off_for(Duration::from_millis(750), leader, &Event::Timeout);
    assert!(!three.replica(leader).is_leader());
}

/// The time for the work begins when the whole entry has come.
#[test]
fn a_follower_works_on_a_large_entry_after_its_parts_have_come() {
    let mut three = Three::leading();
    let (follower, leader) = (three.follower(), three.leader().expect("it leads"));
    three.propose(leader, 24 << 20, false);
    three.cut_off(leader, &Event::Heard { from: follower });
    three.cut_off_for(Duration::from_millis(750), leader, &Event::Timeout);
    assert!(three.replica(leader).is_leader());
}

/// The followers have the entry long before.
#[test]
fn a_disk_is_slow_in_proportion_to_what_it_was_given() {
    let mut three = Three::leading();
    let leader = three.leader().expect("it leads");
    for (bytes, is_slow_after) in [(100, 1.1), (32 << 20, 2.1)] {
        let data = Bytes::from(vec![7; bytes]);
        let mut actions = Vec::new();
        let now = three.now;
        three
            .replica(leader)
            .step(now, Event::Propose { data }, &mut actions);
        three.pass(Duration::from_secs_f64(is_slow_after - 0.2));
        three.all(|_| Event::Timeout, true);
        assert!(!three.replica(leader).is_held_up(), "{bytes} bytes");
        three.pass(Duration::from_millis(200));
        three.all(|_| Event::Timeout, true);
        assert!(three.replica(leader).is_held_up(), "{bytes} bytes");
        three.carry_out(leader, actions, true);
        three.all(|_| Event::Timeout, true);
        assert!(!three.replica(leader).is_held_up());
    }
}
