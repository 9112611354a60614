//! A leader hands its leadership over, or tries to.

use std::time::Duration;

use cluster::NodeId;
use cluster::replica::{Event, Refusal, Request};

use crate::group::Group;

/// A group of three, its leader, and one who follows.
fn group(seed: u64) -> (Group, NodeId, NodeId) {
    let mut group = Group::new(3, seed);
    let leader = group.elect();
    let to = group.nodes().into_iter().find(|node| *node != leader).unwrap();
    (group, leader, to)
}

#[test]
fn a_leader_hands_over_at_once_with_all_that_it_has_taken() {
    for seed in 0..20 {
        let (mut group, leader, to) = group(seed);
        group.propose(leader, "before");
        group.step(leader, Event::Transfer { to });
        let began = group.now;
        group.settle();
        assert_eq!(group.now, began, "no timeout was needed");
        assert_eq!(group.leader(), Some(to), "seed {seed}");
        assert!(!group.replica(leader).is_leader());
        group.propose(to, "after");
        group.settle();
        assert_eq!(group.decided(), ["before", "after"]);
    }
}

#[test]
fn nothing_is_proposed_while_it_hands_over() {
    let (mut group, leader, to) = group(1);
    group.step(leader, Event::Transfer { to });
    assert!(group.replica(leader).is_handing_over());
    group.propose(leader, "meanwhile");
    assert!(matches!(
        group.member(leader).refused[..],
        [(Request::Propose { .. }, Refusal::NotLeader { .. })]
    ));
}

#[test]
fn a_leader_whose_successor_does_not_come_leads_on() {
    let (mut group, leader, to) = group(2);
    group.step(leader, Event::Transfer { to });
    group.partition(&[to]);
    group.settle();
    assert!(group.replica(leader).is_handing_over());
    group.advance(Duration::from_millis(400));
    assert_eq!(group.leader(), Some(leader));
    assert!(!group.replica(leader).is_handing_over());
    group.propose(leader, "on");
    group.settle();
    assert_eq!(group.decided(), ["on"]);

    group.advance(Duration::from_millis(400));
    // It was not heard of for too long.
    group.step(leader, Event::Transfer { to });
    assert!(matches!(
        group.member(leader).refused[..],
        [(Request::Transfer { to: refused }, Refusal::NotCaughtUp)] if refused == to
    ));
    group.heal();
    group.advance(Duration::from_millis(400));
    group.step(leader, Event::Transfer { to });
    group.settle();
    assert_eq!(group.leader(), Some(to));
}

#[test]
fn only_a_leader_hands_over_and_only_to_another_voter() {
    let (mut group, leader, follower) = group(3);
    let refused = |group: &mut Group, node: NodeId, to: NodeId| {
        group.step(node, Event::Transfer { to });
        let last = group.member(node).refused.last();
        last.is_some_and(|(request, _)| *request == Request::Transfer { to })
    };
    assert!(refused(&mut group, follower, leader));
    assert!(refused(&mut group, leader, leader));
    assert!(refused(&mut group, leader, NodeId(99)));
}
