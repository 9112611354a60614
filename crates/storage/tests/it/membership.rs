//! Groups whose members change: one at a time and several at once, while requests go on, under every disturbance that the group
//! knows. The group itself checks at every step that no term has two leaders and that no two nodes apply different entries.

use std::time::Duration;

use cluster::replica::MemberChange::{Learn, Leave, Vote};
use cluster::replica::{Event, MemberChange, Refusal, Request};
use cluster::{Index, NodeId};

use crate::group::{Group, seeds};

const SECOND: Duration = Duration::from_secs(1);

impl Group {
    fn change(&mut self, node: NodeId, changes: &[MemberChange]) {
        let changes = changes.to_vec();
        self.step(node, Event::ChangeMembers { changes });
    }

    fn voters(&self, node: NodeId) -> Vec<u64> {
        let members = self.replica(node).members();
        assert!(!members.is_joint());
        members.voters.iter().map(|node| node.0).collect()
    }

    fn last_refusal(&self, node: NodeId) -> Option<Refusal> {
        let is_change = |request: &Request| matches!(request, Request::ChangeMembers { .. });
        let refused = self.member(node).refused.last();
        refused
            .filter(|(request, _)| is_change(request))
            .map(|(_, refusal)| *refusal)
    }
}

#[test]
fn a_new_node_learns_everything_and_then_votes() {
    let mut group = Group::new(3, 1);
    let leader = group.elect();
    group.propose(leader, "before");
    group.settle();
    group.add(NodeId(4));
    group.advance(5 * SECOND);
    assert_eq!(group.replica(NodeId(4)).deadline(), None, "it waits to be told");

    group.change(leader, &[Learn(NodeId(4))]);
    group.settle();
    group.advance(SECOND);
    assert_eq!(group.applied_by(NodeId(4)), ["before"]);
    assert_eq!(group.replica(NodeId(4)).leader(), Some(leader));
    let progress = group.replica(leader).progress();
    let learner = progress
        .iter()
        .find(|progress| progress.node == NodeId(4))
        .unwrap();
    assert!(!learner.is_voter);
    assert!(learner.is_active);
    assert_eq!(learner.matched, group.replica(leader).last());

    group.change(leader, &[Vote(NodeId(4))]);
    group.settle();
    for node in group.nodes() {
        assert_eq!(group.voters(node), [1, 2, 3, 4]);
    }
}

#[test]
fn several_change_at_once() {
    let mut group = Group::new(3, 2);
    let leader = group.elect();
    let others = group.others(leader);
    for node in [4, 5].map(NodeId) {
        group.add(node);
        group.change(leader, &[Learn(node)]);
        group.advance(SECOND);
    }
    let changes = [
        Vote(NodeId(4)),
        Vote(NodeId(5)),
        Learn(others[0]),
        Leave(others[1]),
    ];
    group.change(leader, &changes);
    group.propose(leader, "meanwhile");
    group.settle();
    let mut expected = vec![leader.0, 4, 5];
    expected.sort_unstable();
    for node in [leader, NodeId(4), NodeId(5), others[0]] {
        assert_eq!(group.voters(node), expected);
        assert_eq!(group.applied_by(node), ["meanwhile"]);
    }
    assert_eq!(group.replica(leader).members().learners, [others[0]].into());
}

#[test]
fn what_would_stop_the_group_is_refused() {
    let mut group = Group::new(3, 3);
    let leader = group.elect();
    let others = group.others(leader);
    let refused = |group: &mut Group, node, changes: &[MemberChange], refusal| {
        group.change(node, changes);
        assert_eq!(group.last_refusal(node), Some(refusal));
    };
    let not_leader = Refusal::NotLeader { leader: Some(leader) };
    refused(&mut group, others[0], &[Leave(others[1])], not_leader);
    let (own, new) = (leader, NodeId(4));
    refused(&mut group, leader, &[Leave(own)], Refusal::Leads { node: own });
    refused(&mut group, leader, &[Learn(own)], Refusal::Leads { node: own });
    refused(&mut group, leader, &[Vote(new)], Refusal::Behind { node: new });
    refused(&mut group, leader, &[], Refusal::ImpossibleMembers);

    group.change(leader, &[Learn(new)]);
    refused(&mut group, leader, &[Learn(NodeId(5))], Refusal::ChangeUnderWay);
    group.settle();
    refused(&mut group, leader, &[Vote(new)], Refusal::Behind { node: new });

    group.crash(others[0]);
    group.advance(SECOND);
    refused(&mut group, leader, &[Leave(others[1])], Refusal::NoMajority);
    group.change(leader, &[Leave(others[0])]);
    group.settle();
    assert_eq!(group.voters(leader).len(), 2);
}

#[test]
fn a_removed_node_does_not_disturb_and_knows_when_it_was_told() {
    let mut group = Group::new(3, 4);
    let leader = group.elect();
    let removed = group.others(leader)[0];
    group.partition(&[removed]);
    group.advance(5 * SECOND);
    group.change(leader, &[Leave(removed)]);
    group.settle();
    let term = group.replica(leader).term();

    group.heal();
    group.advance(20 * SECOND);
    assert_eq!(group.leader(), Some(leader));
    assert_eq!(group.replica(leader).term(), term, "it asks for votes in vain");
    assert!(group.replica(removed).leader().is_none());

    let told = group
        .nodes()
        .into_iter()
        .find(|node| ![leader, removed].contains(node))
        .unwrap();
    group.change(leader, &[Learn(told)]);
    group.settle();
    group.partition(&[told]);
    group.advance(20 * SECOND);
    assert_eq!(group.replica(told).leader(), None, "its leader is silent");
    assert_eq!(group.replica(told).deadline(), None, "it never asks for votes");
}

#[test]
fn the_last_one_is_alone_and_another_may_come() {
    let mut group = Group::new(2, 5);
    let leader = group.elect();
    let other = group.others(leader)[0];
    group.change(leader, &[Leave(other)]);
    group.settle();
    assert!(group.replica(leader).is_alone());
    group.propose(leader, "alone");
    group.settle();
    assert_eq!(group.applied_by(leader), ["alone"]);
    group.crash(leader);
    group.start(leader);
    group.settle();
    assert_eq!(group.leader(), Some(leader));
    assert_eq!(group.applied_by(leader), ["alone"]);
}

#[test]
fn who_takes_part_is_known_after_a_crash_with_and_without_the_log() {
    let mut group = Group::new(3, 6);
    let leader = group.elect();
    group.add(NodeId(4));
    group.change(leader, &[Learn(NodeId(4))]);
    group.advance(SECOND);
    group.change(leader, &[Vote(NodeId(4))]);
    group.advance(SECOND);
    for node in [1, 2].map(NodeId) {
        group.take_snapshot(node);
    }
    group.settle();
    for node in group.nodes() {
        group.crash(node);
    }
    for node in group.nodes() {
        group.start(node);
        assert_eq!(group.voters(node), [1, 2, 3, 4], "{node}");
    }
}

#[test]
fn a_new_node_gets_what_the_log_has_no_more_and_who_takes_part() {
    let mut group = Group::with_config(3, 8, |config| config.log_tail_entries = 3);
    let leader = group.elect();
    group.change(leader, &[Learn(NodeId(5))]);
    for number in 0..50 {
        group.propose(leader, format!("{number}"));
        group.settle();
    }
    group.take_snapshot(leader);
    group.add(NodeId(4));
    group.change(leader, &[Learn(NodeId(4))]);
    group.advance(SECOND);
    assert_eq!(group.member(NodeId(4)).restored, 1);
    assert_eq!(group.applied_by(NodeId(4)), group.decided());
    let members = group.replica(leader).members().clone();
    assert_eq!(group.replica(NodeId(4)).members(), &members);
    group.crash(NodeId(4));
    group.start(NodeId(4));
    assert_eq!(group.replica(NodeId(4)).members(), &members);
}

/// The snapshot is on disk, the record of the members is not.
#[test]
fn changes_within_a_snapshot_are_found_in_the_log() {
    let mut group = Group::new(3, 7);
    let leader = group.elect();
    group.change(leader, &[Learn(NodeId(4))]);
    group.settle_but_for_members(leader);
    assert!(group.replica(leader).members().contains(NodeId(4)));
    group.take_snapshot(leader);
    group.crash_hard(leader);
    group.start(leader);
    assert!(group.replica(leader).members().contains(NodeId(4)));
}

/// Members come, change and go, over crashes, splits, lost, doubled and delayed messages; then peace.
#[test]
fn any_disturbance_of_any_change_leaves_the_replicas_in_agreement() {
    let (mut changed, mut restored) = (0, 0);
    for seed in 0..seeds() {
        // In every other run the log is cut, so that who was away needs snapshots.
        let mut group = Group::with_config(3, seed, |config| {
            if config.seed.is_multiple_of(2) {
                config.log_tail_entries = 2;
            }
        });
        for node in (4..=NODES).map(NodeId) {
            group.add(node);
        }
        for number in 0..800 {
            disturb(&mut group, number);
        }
        let leader = group.make_peace();
        let decided = group.decided();
        let members = group.replica(leader).members().clone();
        assert!(!members.is_joint(), "seed {seed}: {members:?}");
        for node in members.all() {
            assert_eq!(group.applied_by(node), decided, "seed {seed}, {node}");
            assert_eq!(group.replica(node).members(), &members, "seed {seed}, {node}");
        }
        changed += u64::from(members.index > Index::ZERO);
        let nodes = group.nodes();
        restored += nodes.iter().map(|node| group.member(*node).restored).sum::<u64>();
    }
    assert!(restored > seeds() / 100, "{restored} snapshots");
    assert!(changed > seeds() / 2, "{changed} runs changed something");
}

const NODES: u64 = 6;

fn disturb(group: &mut Group, number: u64) {
    let node = NodeId(group.random.between(1, NODES as usize + 1) as u64);
    let leader = group.leader().unwrap_or(node);
    match group.random.between(0, 125) {
        100..=111 => group.propose(leader, format!("{number}")),
        112..=121 => {
            let count = group.random.between(1, 4);
            let changes: Vec<_> = (0..count).map(|_| any_change(group)).collect();
            group.change(leader, &changes);
        }
        122.. if group.member(leader).replica.is_some() => drop(group.read(leader)),
        what => group.disturb(node, what),
    }
}

fn any_change(group: &mut Group) -> MemberChange {
    let node = NodeId(group.random.between(1, NODES as usize + 1) as u64);
    match group.random.between(0, 4) {
        0 => Learn(node),
        1 => Leave(node),
        _ => Vote(node),
    }
}
