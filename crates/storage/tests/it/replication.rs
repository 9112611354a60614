//! Groups of three: elections, partitions, crashes. Issue by issue this is what the cluster will stand on.

use std::time::Duration;

use bytes::Bytes;
use cluster::replica::record::LogPoint;
use cluster::replica::{Event, Refusal, Request};
use cluster::{NodeId, ReplicaConfig};

use crate::group::{GROUP, Group, seeds};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn three_replicas_elect_one_leader_within_a_second_and_keep_it() {
    let mut group = Group::new(3, 1);
    group.advance(SECOND);
    let leader = group.leader().expect("elected within a second");
    let term = group.replica(leader).term();
    group.advance(60 * SECOND);
    assert_eq!(group.leader(), Some(leader));
    for node in group.nodes() {
        assert_eq!(group.replica(node).leader(), Some(leader));
        assert_eq!(group.replica(node).term(), term);
    }
}

#[test]
fn the_same_seed_gives_the_same_election() {
    let elected = |seed| {
        let mut group = Group::new(3, seed);
        let begin = group.now;
        (group.elect(), group.now - begin)
    };
    for seed in 0..20 {
        assert_eq!(elected(seed), elected(seed), "seed {seed}");
    }
}

/// The entry and its answer for each follower, and one word more that it is committed, which nobody answers.
#[test]
fn an_entry_costs_three_messages_for_each_follower() {
    let mut group = Group::new(3, 5);
    let leader = group.elect();
    group.propose(leader, "before");
    group.settle();
    let sent = group.sent;
    group.propose(leader, "entry");
    group.settle();
    assert_eq!(group.sent - sent, 6);
    for node in group.nodes() {
        assert_eq!(group.member(node).applied.len(), 2, "{node}");
    }
}

#[test]
fn what_is_proposed_is_applied_everywhere() {
    let mut group = Group::new(3, 2);
    let leader = group.elect();
    for number in 0..50 {
        group.propose(leader, format!("{number}"));
        if number % 7 == 0 {
            group.settle();
        }
    }
    group.settle();
    let expected: Vec<_> = (0..50).map(|number| Bytes::from(format!("{number}"))).collect();
    for node in group.nodes() {
        assert_eq!(group.applied_by(node), expected, "{node}");
    }
}

#[test]
fn nothing_is_applied_before_a_majority_has_it_on_disk() {
    let mut group = Group::new(3, 3);
    let leader = group.elect();
    let followers = group.others(leader);
    group.propose(leader, "a");
    group.sync(leader);
    assert_eq!(group.decided(), Vec::<Bytes>::new());
    // Followers have received the entry and written it; no disk has finished.
    for (from, to, bytes) in group.take_wire() {
        group.step(to, Event::Message { from, bytes });
    }
    assert!(
        group.take_wire().is_empty(),
        "no follower promises what is not on its disk"
    );
    assert_eq!(group.decided(), Vec::<Bytes>::new());
    group.sync(followers[0]);
    group.settle();
    assert_eq!(group.decided(), ["a"]);
}

#[test]
fn a_minority_commits_nothing_and_its_leader_steps_down() {
    let mut group = Group::new(3, 4);
    let old = group.elect();
    group.propose(old, "before");
    group.settle();
    group.partition(&[old]);
    group.propose(old, "lost");
    group.settle();
    let read = group.read(old);
    group.advance(2 * SECOND);

    assert!(
        !group.replica(old).is_leader(),
        "a leader that hears no majority steps down"
    );
    assert_eq!(
        group.member(old).refused,
        [(Request::Read { read }, Refusal::NotLeader { leader: None })],
        "its reads are refused, not served"
    );
    let new = group.leader().expect("the majority goes on");
    assert_ne!(new, old);
    group.propose(new, "after");
    group.settle();

    group.heal();
    group.advance(2 * SECOND);
    for node in group.nodes() {
        assert_eq!(group.applied_by(node), ["before", "after"], "{node}");
    }
}

#[test]
fn a_follower_that_was_away_does_not_disturb_the_leader() {
    let mut group = Group::new(3, 5);
    let leader = group.elect();
    let term = group.replica(leader).term();
    let away = group.others(leader)[0];
    group.partition(&[away]);
    group.advance(10 * SECOND);
    group.propose(leader, "meanwhile");
    group.settle();
    group.heal();
    group.advance(5 * SECOND);
    assert_eq!(group.leader(), Some(leader));
    assert_eq!(group.replica(leader).term(), term, "pre-vote keeps the term");
    assert_eq!(group.applied_by(away), ["meanwhile"]);
}

#[test]
fn a_leader_that_dies_is_replaced_within_a_second_and_nothing_acknowledged_is_lost() {
    let mut split_votes = 0;
    for seed in 0..50 {
        let mut group = Group::new(3, seed);
        let old = group.elect();
        for number in 0..5 {
            group.propose(old, format!("{number}"));
        }
        group.settle();
        group.crash(old);
        let died = group.now;
        while group.leader().is_none() {
            group.advance(Duration::from_millis(10));
            assert!(
                group.now - died < 2 * SECOND,
                "seed {seed}: no leader for two seconds"
            );
        }
        split_votes += u32::from(group.now - died >= SECOND);
        group.start(old);
        group.advance(2 * SECOND);
        for node in group.nodes() {
            assert_eq!(
                group.applied_by(node),
                ["0", "1", "2", "3", "4"],
                "seed {seed}, {node}"
            );
        }
    }
    assert!(
        split_votes <= 1,
        "{split_votes} of 50 elections took more than a second"
    );
}

#[test]
fn entries_that_never_got_a_majority_are_replaced() {
    let mut group = Group::new(3, 6);
    let old = group.elect();
    group.partition(&[old]);
    for number in 0..10 {
        group.propose(old, format!("lost {number}"));
    }
    group.settle();
    let new = loop {
        group.advance(SECOND);
        match group.leader() {
            Some(leader) if leader != old => break leader,
            _ => {}
        }
    };
    group.propose(new, "kept");
    group.settle();
    group.heal();
    group.advance(2 * SECOND);
    // The replaced entries are gone from the disk as well.
    group.crash(old);
    group.start(old);
    group.advance(2 * SECOND);
    assert_eq!(group.applied_by(old), ["kept"]);
}

#[test]
fn reads_are_confirmed_by_a_majority_in_one_round() {
    let mut group = Group::new(3, 7);
    let leader = group.elect();
    group.take_wire();
    for _ in 0..100 {
        group.read(leader);
    }
    assert_eq!(group.reads_served, 0, "not without a majority");
    let rounds = group.take_wire();
    assert_eq!(
        rounds.len(),
        2,
        "one heartbeat to each follower, the other 99 reads wait for the next round"
    );
    for (from, to, bytes) in rounds {
        group.step(to, Event::Message { from, bytes });
    }
    group.settle();
    assert_eq!(group.reads_served, 100);
}

#[test]
fn a_group_of_one_survives_crashes_and_cuts_its_log() {
    for seed in 0..100 {
        let mut group = Group::new(1, seed);
        let node = NodeId(1);
        let mut acknowledged = Vec::new();
        group.settle();
        for number in 0..200 {
            match group.random.between(0, 12) {
                0 => {
                    group.crash(node);
                    group.start(node);
                    group.sync(node);
                    let applied = group.applied_by(node);
                    assert!(
                        applied.starts_with(&acknowledged),
                        "seed {seed}: something acknowledged is lost"
                    );
                }
                1 => group.take_snapshot(node),
                2..=4 => group.sync(node),
                _ => group.propose(node, format!("{number}")),
            }
            acknowledged = group.applied_by(node);
        }
        group.settle();
        group.take_snapshot(node);
        group.settle();
        assert_eq!(group.replica(node).deadline(), None);
    }
}

#[test]
fn a_large_log_is_cut_in_slices() {
    let mut group = Group::new(1, 1);
    let node = NodeId(1);
    group.settle();
    for number in 0..3_000 {
        group.propose(node, format!("{number}"));
    }
    group.settle();
    let before = group.replica(node).log_bytes();
    group.take_snapshot(node);
    group.settle();
    assert!(group.replica(node).log_bytes() <= before);
    let recovered = {
        let point = group.replica(node).applied();
        storage::recover_group(&group.member(node).disk, GROUP, Some(point)).unwrap()
    };
    assert_eq!(recovered.entries, []);
    assert_eq!(
        recovered.removable_from,
        recovered.log_start.index.next(),
        "all slices were removed"
    );
}

#[test]
fn a_follower_that_lacks_what_the_log_has_no_more_gets_a_snapshot() {
    let mut group = Group::with_config(3, 5, |config| config.log_tail_entries = 3);
    let leader = group.elect();
    let away = group.others(leader)[0];
    group.partition(&[away]);
    for number in 0..2_000 {
        group.propose(leader, format!("{number}"));
        group.settle();
    }
    group.take_snapshot(leader);
    group.settle();
    group.heal();
    group.advance(2 * SECOND);
    assert_eq!(group.member(away).restored, 1);
    group.propose(leader, "the last one");
    group.advance(SECOND);
    assert_eq!(group.applied_by(away), group.decided());

    // And it finds its way after a crash.
    group.crash(away);
    group.start(away);
    group.advance(SECOND);
    assert_eq!(group.applied_by(away), group.decided());
    assert_eq!(group.member(away).restored, 1);
}

/// The follower has the entries, and was told nothing of the commit: a leader that has cut its log can only offer a snapshot.
#[test]
fn what_is_in_a_snapshot_that_is_offered_is_committed() {
    let mut group = Group::new(3, 10);
    let leader = group.elect();
    let follower = group.others(leader)[0];
    group.propose(leader, "a");
    for (from, to, bytes) in group.take_wire() {
        group.step(to, Event::Message { from, bytes });
    }
    group.sync(follower);
    group.partition(&[follower]);
    group.settle();
    assert_eq!(group.decided(), ["a"]);
    assert_eq!(group.applied_by(follower), Vec::<Bytes>::new());

    let LogPoint { index, term } = group.replica(leader).applied();
    assert!(!group.replica(follower).lacks(index, term));
    group.step(follower, Event::SnapshotOffered { index, term });
    group.settle();
    assert_eq!(group.applied_by(follower), ["a"]);
}

/// Crashes, partitions, lost, doubled and delayed messages, slow disks; then peace.
#[test]
fn any_disturbance_leaves_the_replicas_in_agreement() {
    let (kept, cut) = (
        |_: &mut _| {},
        |config: &mut ReplicaConfig| {
            config.log_tail_entries = 2;
        },
    );
    let restored = agree_after_disturbance(kept);
    assert_eq!(restored, 0, "nobody lacks what is in the log");
    let restored = agree_after_disturbance(cut);
    assert!(restored > 5, "{restored} snapshots");
}

/// How many snapshots it took.
fn agree_after_disturbance(config: fn(&mut ReplicaConfig)) -> u64 {
    let mut restored = 0;
    for seed in 0..seeds() {
        let mut group = Group::with_config(3, seed, config);
        for number in 0..400 {
            disturb(&mut group, number);
        }
        group.make_peace();
        assert_eq!(group.missing, [], "seed {seed}: no disk lost what it had synced");
        let decided = group.decided();
        for node in group.nodes() {
            assert_eq!(group.applied_by(node), decided, "seed {seed}, {node}");
            restored += group.member(node).restored;
        }
    }
    restored
}

fn disturb(group: &mut Group, number: u64) {
    let node = NodeId(group.random.between(1, 4) as u64);
    let leader = group.leader().unwrap_or(node);
    match group.random.between(0, 125) {
        100..=118 => group.propose(leader, format!("{number}")),
        119..=123 if group.member(leader).replica.is_some() => drop(group.read(leader)),
        124 => group.step(leader, Event::Transfer { to: node }),
        what => group.disturb(node, what),
    }
}

#[test]
fn bytes_of_a_peer_never_panic() {
    let mut group = Group::new(3, 8);
    let leader = group.elect();
    group.propose(leader, "some entry");
    group.read(leader);
    let mut samples = group.take_wire();
    for (from, to, bytes) in samples.clone() {
        group.step(to, Event::Message { from, bytes });
    }
    for node in group.nodes() {
        group.sync(node);
    }
    samples.extend(group.take_wire());
    group.partition(&[leader]);
    group.advance(Duration::from_millis(900));
    samples.extend(group.take_wire());
    assert!(samples.len() > 5);

    let mut random = cluster::random::Random::new(9);
    for round in 0..60_000 {
        let (from, to, bytes) = &samples[round % samples.len()];
        let mut damaged = bytes.to_vec();
        for _ in 0..random.between(1, 4) {
            let position = random.between(0, damaged.len());
            match random.between(0, 4) {
                0 => damaged.truncate(position.max(1)),
                1 => damaged[position] = random.next() as u8,
                2 => damaged[position] ^= 1 << random.between(0, 8),
                _ => damaged.extend_from_slice(&random.next().to_be_bytes()),
            }
        }
        group.step_unchecked(
            *to,
            Event::Message {
                from: *from,
                bytes: damaged.into(),
            },
        );
    }
}
