//! Nodes come, go, are split and come together again, on a network that delays and loses.

mod messages;
mod net;

use std::time::Duration;

use self::net::{DEAD_AFTER, Net};
use crate::session_plane::lifecycle::NodeState::{
    Dead, Joining, MergeMinority, Merging, NotJoined, Running, ShuttingDown,
};

#[test]
fn nodes_that_start_together_find_each_other() {
    let mut net = Net::new(1, 3);
    net.calm();
    for node in 1..=3 {
        assert_eq!(net.states_of(node, node), [Joining, Running]);
    }
}

#[test]
fn a_node_alone_in_its_cluster_runs_at_once() {
    let mut net = Net::new(2, 1);
    net.pass(Duration::ZERO);
    assert_eq!(net.states_of(1, 1), [Joining, Running]);
}

#[test]
fn a_node_does_not_wait_for_ever_for_one_that_is_not_there() {
    let mut net = Net::new(3, 3);
    net.kill(3);
    net.pass(4 * DEAD_AFTER);
    assert_eq!(net.states_of(1, 1), [Joining, Running]);
    assert_eq!(net.states_of(2, 2), [Joining, Running]);
    net.start(3);
    net.calm();
    assert_eq!(net.states_of(3, 3), [Joining, Running]);
    assert_eq!(net.states_of(1, 3), [Joining, Running], "as the first one saw it");
}

#[test]
fn a_node_that_is_gone_is_dead_for_the_others_and_comes_back_as_a_new_one() {
    let mut net = Net::new(4, 3);
    net.calm();
    net.forget();
    net.kill(2);
    net.pass(3 * DEAD_AFTER);
    assert_eq!(net.states_of(1, 2), [Dead]);
    assert_eq!(net.states_of(3, 2), [Dead]);
    net.start(2);
    net.calm();
    assert_eq!(net.states_of(1, 2), [Dead, NotJoined, Joining, Running]);
    assert_eq!(net.states_of(1, 1), []);
}

/// Both are told at one moment that they were taken for dead, and nobody is left who has heard how both are called since.
#[test]
fn nodes_of_the_larger_side_do_not_lose_each_other_when_the_smaller_one_dies_as_the_split_heals() {
    for step in 0..40 {
        let mut net = Net::new(step.into(), 3);
        net.calm();
        net.split(&[vec![1], vec![2, 3]]);
        net.pass(3 * DEAD_AFTER);
        net.heal();
        net.forget();
        net.pass(step * DEAD_AFTER / 40);
        net.kill(1);
        net.pass(5 * DEAD_AFTER);
        assert_eq!(
            (net.states_of(2, 3), net.states_of(3, 2)),
            (vec![], vec![]),
            "{step}"
        );
    }
}

#[test]
fn the_smaller_side_of_a_split_merges_and_the_larger_one_goes_on() {
    for (sides, merging) in [
        (vec![vec![1], vec![2, 3]], vec![1]),
        (vec![vec![1, 2], vec![3]], vec![3]),
        (vec![vec![1, 4], vec![2, 3]], vec![2, 3]),
        (vec![vec![1], vec![2, 3, 4], vec![5]], vec![1, 5]),
        (vec![vec![1, 2], vec![3, 4], vec![5]], vec![3, 4, 5]),
    ] {
        let nodes = sides.iter().map(Vec::len).sum::<usize>() as u64;
        let mut net = Net::new(5, nodes);
        net.calm();
        net.forget();
        net.split(&sides);
        net.pass(5 * DEAD_AFTER);
        net.heal();
        net.calm();
        for node in 1..=nodes {
            let states = net.states_of(node, node);
            match merging.contains(&node) {
                // Twice, if it met the other smaller side first.
                true => assert!(states.ends_with(&[MergeMinority, Merging, Running]), "{states:?}"),
                false => assert_eq!(states, [], "{node} of {sides:?}"),
            }
        }
    }
}

#[test]
fn the_word_of_a_state_is_another_one_after_a_change_and_after_a_start() {
    let mut net = Net::new(5, 3);
    net.calm();
    let before = [1, 2, 3].map(|node| net.state_word(node));
    net.split(&[vec![1], vec![2, 3]]);
    net.pass(5 * DEAD_AFTER);
    net.heal();
    net.calm();
    net.kill(2);
    net.start(2);
    net.calm();
    let after = [1, 2, 3].map(|node| net.state_word(node));
    assert!(before[0] < after[0], "it has merged: {before:?} {after:?}");
    assert!(before[1] < after[1], "it has started anew: {before:?} {after:?}");
    assert_eq!(before[2], after[2], "it was RUNNING all the while");
}

#[test]
fn a_node_that_stood_still_merges() {
    let mut net = Net::new(6, 3);
    net.calm();
    net.forget();
    net.pause(1, 6 * DEAD_AFTER);
    net.pass(6 * DEAD_AFTER);
    net.calm();
    assert_eq!(net.states_of(2, 2), []);
    assert_eq!(net.states_of(1, 1), [MergeMinority, Merging, Running]);
    assert_eq!(net.states_of(2, 1), [Dead, MergeMinority, Merging, Running]);
}

#[test]
fn a_node_that_is_stopped_hands_over_and_is_not_taken_for_dead() {
    let mut net = Net::new(7, 3);
    net.calm();
    net.forget();
    net.stop(3);
    net.pass(DEAD_AFTER);
    net.kill(3);
    net.pass(4 * DEAD_AFTER);
    assert_eq!(net.states_of(3, 3), [ShuttingDown, NotJoined]);
    assert_eq!(net.states_of(1, 3), [ShuttingDown, NotJoined]);
}

/// Nobody merges with a node that leaves, so it does so whichever of them would stay.
#[test]
fn a_node_that_parts_with_another_one_while_it_leaves_merges_and_then_leaves() {
    for (leaving, other) in [(3, 1), (1, 3)] {
        let mut net = Net::new(7, 3);
        net.calm();
        net.forget();
        net.stop(leaving);
        net.unlink(leaving, other);
        net.link(leaving, other);
        net.pass(4 * DEAD_AFTER);
        let states = net.states_of(leaving, leaving);
        let merges = [
            ShuttingDown,
            MergeMinority,
            Merging,
            Running,
            ShuttingDown,
            NotJoined,
        ];
        assert_eq!(states, merges, "{leaving} parts with {other}");
        assert_eq!(net.states_of(other, leaving).last(), Some(&NotJoined));
    }
}

#[test]
fn a_link_that_is_cut_between_two_of_three_changes_nothing() {
    let mut net = Net::new(8, 3);
    net.calm();
    net.forget();
    net.cut(1, 2);
    net.cut(2, 1);
    net.pass(10 * DEAD_AFTER);
    for node in 1..=3 {
        assert_eq!(net.states_of(1, node), []);
    }
}

#[test]
fn a_node_that_relies_on_its_links_takes_nobody_for_dead_who_is_linked() {
    let mut net = Net::new(9, 3);
    net.calm();
    net.rely_on_links(1);
    net.forget();
    net.split(&[vec![1], vec![2, 3]]);
    net.pass(5 * DEAD_AFTER);
    assert_eq!(net.states_of(1, 2), []);
    net.unlink(1, 2);
    assert_eq!(net.states_of(1, 2), [Dead]);
    assert_eq!(net.states_of(1, 3), []);
}

/// R1 to R4: whatever happens, what was acknowledged is everywhere in the end, and everybody runs.
#[test]
fn nothing_acknowledged_is_lost_by_nodes_that_come_and_go() {
    let mut acknowledged = 0;
    for seed in 1..=300 {
        let mut net = Net::new(seed, 3 + seed % 3);
        net.storm(60);
        net.calm();
        acknowledged += net.check(seed);
    }
    assert!(acknowledged > 10_000, "{acknowledged} were acknowledged");
}

#[test]
fn nodes_that_are_stopped_in_a_storm_leave_and_nothing_acknowledged_is_lost() {
    let mut acknowledged = 0;
    for seed in 1..=300 {
        let mut net = Net::new(seed, 3 + seed % 3);
        net.storm(20);
        for node in 1..=2 {
            net.stop(node);
            net.storm(4);
            net.leave(node);
        }
        net.calm();
        acknowledged += net.check(seed);
    }
    assert!(acknowledged > 5_000, "{acknowledged} were acknowledged");
}
