//! Rings and the states of nodes.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::random::Random;
use crate::session_plane::lifecycle::{NodeState, Reason, TRANSITIONS, majority, next};
use crate::session_plane::ring::VNODES;

/// Ids as nodes make them: at random.
fn ids(seed: u64, count: usize) -> Vec<NodeId> {
    let mut random = Random::new(seed);
    (0..count).map(|_| NodeId(random.next() | 1)).collect()
}

/// How far the largest deviation of a node's share is from the mean.
fn deviation(ring: &Ring, replication_factor: usize) -> f64 {
    let mean = replication_factor as f64 / ring.nodes().len() as f64;
    let shares = ring.shares(replication_factor).into_iter();
    shares
        .map(|(_, share)| (share / mean - 1.0).abs())
        .fold(0.0, f64::max)
}

#[test]
fn what_a_node_holds_is_within_15_percent_of_the_mean() {
    for count in (3..=10).chain([16, 25, 50, 75, 100]) {
        for seed in 0..4 {
            let ring = Ring::new(ids(seed << 8 | count as u64, count));
            let held = deviation(&ring, 3);
            assert!(held < 0.15, "{count} nodes, seed {seed}: {held}");
        }
    }
}

/// The home's part is one vnode's arc and not three, so it deviates more. With random ids one node of a thousand exceeds 15 %.
#[test]
fn what_a_node_is_home_of_is_within_15_percent_of_the_mean_as_a_rule() {
    let (mut nodes, mut beyond) = (0, 0);
    for count in (3..=10).chain([16, 25, 50, 75, 100]) {
        for seed in 0..4 {
            let ring = Ring::new(ids(seed << 8 | count as u64, count));
            let mean = 1.0 / count as f64;
            let shares = ring.shares(1);
            let total: f64 = shares.iter().map(|(_, share)| share).sum();
            assert!((total - 1.0).abs() < 1e-9);
            nodes += count;
            beyond += shares
                .iter()
                .filter(|(_, share)| (share / mean - 1.0).abs() > 0.15)
                .count();
        }
    }
    assert!(beyond * 300 <= nodes, "{beyond} of {nodes}");
}

#[test]
fn owners_are_as_many_distinct_nodes_as_there_are_or_as_are_wanted() {
    let ring = Ring::new(ids(1, 2));
    assert_eq!(ring.owners(b"client", 3).len(), 2);
    assert_ne!(ring.owners(b"client", 3)[0], ring.owners(b"client", 3)[1]);
    assert_eq!(ring.owners(b"client", 1)[0], ring.home(b"client").unwrap());
    assert!(Ring::new([]).owners(b"client", 3).is_empty());
    assert_eq!(Ring::new([]).home(b"client"), None);
    assert_eq!(Ring::new([NodeId(7), NodeId(7)]).home(b"client"), Some(NodeId(7)));
    assert_eq!(VNODES, 500);
}

/// Another placement would give every record other owners than it has.
#[test]
fn placement_is_as_ever() {
    let ring = Ring::new((1..=5).map(NodeId));
    let owners = |key: &[u8]| ring.owners(key, 3).iter().map(|node| node.0).collect::<Vec<_>>();
    assert_eq!([owners(b""), owners(b"client"), owners(b"plant/line/1")], PLACED);
}

const PLACED: [[u64; 3]; 3] = [[3, 1, 4], [1, 5, 3], [4, 5, 1]];

#[test]
fn the_rings_are_of_nodes_in_their_states() {
    let states = [
        (NodeId(1), NodeState::NotJoined),
        (NodeId(2), NodeState::Joining),
        (NodeId(3), NodeState::Running),
        (NodeId(4), NodeState::MergeMinority),
        (NodeId(5), NodeState::Merging),
        (NodeId(6), NodeState::ShuttingDown),
        (NodeId(7), NodeState::Dead),
    ];
    assert_eq!(Ring::primary(states).nodes(), [NodeId(3)]);
    assert_eq!(Ring::minority(states).nodes(), [NodeId(2), NodeId(3), NodeId(5)]);
}

#[test]
fn every_state_is_reached_and_only_the_table_leads_on() {
    use NodeState::{Dead, Joining, MergeMinority, Merging, NotJoined, Running};
    let way = [
        (Reason::Found, Joining),
        (Reason::HandedOver, Running),
        (Reason::SmallerSide, MergeMinority),
        (Reason::HandedOverToPrimary, Merging),
        (Reason::HandedOver, Running),
        (Reason::NotHeardOf, Dead),
    ];
    let mut state = NotJoined;
    for (reason, expected) in way {
        state = next(state, reason).unwrap();
        assert_eq!(state, expected);
    }
    assert!(TRANSITIONS.iter().all(|(from, _, _)| *from != Dead));
    assert_eq!(next(NotJoined, Reason::HandedOver), None);
    assert_eq!(next(MergeMinority, Reason::SplitAgain), Some(Running));
    let mut pairs: Vec<_> = TRANSITIONS
        .iter()
        .map(|(from, reason, _)| (*from, *reason))
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!(pairs.len(), TRANSITIONS.len(), "one state follows for one reason");
    let mut reached = BTreeSet::from([NotJoined]);
    for _ in 0..TRANSITIONS.len() {
        let further = TRANSITIONS.iter().filter(|(from, _, _)| reached.contains(from));
        let further: Vec<_> = further.map(|(_, _, to)| *to).collect();
        reached.extend(further);
    }
    assert_eq!(reached.len(), 7);
}

#[test]
fn the_larger_side_goes_on_and_of_equal_ones_that_with_the_lowest_id() {
    let sides = |sides: &[&[u64]]| -> Vec<BTreeSet<NodeId>> {
        let side = |side: &&[u64]| side.iter().copied().map(NodeId).collect();
        sides.iter().map(side).collect()
    };
    assert_eq!(majority(&sides(&[&[1], &[2, 3]])), Some(1));
    assert_eq!(majority(&sides(&[&[2, 4], &[1, 3]])), Some(1));
    assert_eq!(majority(&sides(&[&[3], &[2], &[4]])), Some(1));
    assert_eq!(majority(&sides(&[&[5, 6], &[1], &[2, 3]])), Some(2));
    assert_eq!(majority(&sides(&[&[], &[9]])), Some(1));
    assert_eq!(majority(&sides(&[&[]])), None);
    assert_eq!(majority(&[]), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A node that comes takes a place among the owners of some keys, and the last of them goes; nothing else moves, and they stay in their order.
    #[test]
    fn a_join_moves_only_what_it_must(seed in any::<u64>(), count in 1..12_usize, keys in prop::collection::vec(any::<u64>(), 64)) {
        let nodes = ids(seed, count + 1);
        let (joiner, old) = nodes.split_last().unwrap();
        let (before, after) = (Ring::new(old.iter().copied()), Ring::new(nodes.iter().copied()));
        for key in keys {
            let key = key.to_be_bytes();
            let (had, has) = (before.owners(&key, 3), after.owners(&key, 3));
            let mut expected = had.clone();
            if let Some(at) = has.iter().position(|node| node == joiner) {
                expected.insert(at, *joiner);
                expected.truncate(3);
            }
            prop_assert_eq!(has, expected);
        }
    }
}
