use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::plan::{GroupView, RemovalRefused, Step, check_removal, has_arrived, is_settled, next_step};
use super::{
    CONTROL, Command, Control, ControlRecordError, NodeStage, decode_command, decode_state, encode_command,
    encode_state,
};
use crate::forming::{Founder, Founding};
use crate::random::Random;
use crate::replica::record::LogPoint;
use crate::replica::{MemberChange, MemberProgress, Members};
use crate::{GroupId, Index, NodeId, Term};

fn founder(node: u64) -> Founder {
    Founder {
        node: NodeId(node),
        address: format!("n{node}:7000").parse().unwrap(),
    }
}

fn control(founders: u64) -> Control {
    Control::new(&Founding::new((1..=founders).map(founder).collect(), 2).unwrap())
}

fn add(node: u64) -> Command {
    Command::Add(founder(node))
}

/// A group whose changes are carried out at once.
struct Group {
    members: Members,
    leader: NodeId,
    dead: BTreeSet<NodeId>,
}

impl Group {
    fn of(founders: u64) -> Group {
        Group {
            members: Members::founders((1..=founders).map(NodeId)),
            leader: NodeId(1),
            dead: BTreeSet::new(),
        }
    }

    fn next(&self, control: &Control) -> Option<Step> {
        let progress = |node: NodeId| MemberProgress {
            node,
            is_voter: self.members.is_voter(node),
            matched: Index(10),
            is_active: !self.dead.contains(&node),
            is_rolled_back: false,
        };
        let others = self.members.all().into_iter().filter(|node| *node != self.leader);
        let progress: Vec<_> = others.map(progress).collect();
        let view = GroupView {
            leader: self.leader,
            members: &self.members,
            progress: &progress,
            last: Index(10),
        };
        next_step(control, view)
    }

    /// Takes all steps; each has to leave a majority, and the leader its vote.
    fn settle(&mut self, control: &Control) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some(step) = self.next(control) {
            match &step {
                Step::Change(changes) => {
                    let after = self.members.after(changes).expect("a group can have them");
                    let is_there = |node: NodeId| !self.dead.contains(&node);
                    assert!(after.has_majority(is_there), "{changes:?} of {:?}", self.members);
                    assert!(after.voters.contains(&self.leader));
                    self.members = after;
                }
                Step::HandOver(to) => {
                    assert!(self.members.voters.contains(to));
                    assert!(!self.dead.contains(to));
                    self.leader = *to;
                }
            }
            steps.push(step);
            assert!(steps.len() < 100, "it does not end: {steps:?}");
        }
        steps
    }
}

#[test]
fn a_node_that_comes_learns_and_votes_where_a_vote_is_missing() {
    let (mut control, mut group) = (control(3), Group::of(3));
    assert_eq!(group.settle(&control), []);
    control.apply(7, &add(4));
    assert_eq!(control.stage(NodeId(4)), Some(NodeStage::Joining));
    assert!(!is_settled(&control, &group.members, &|_| false));
    assert_eq!(
        group.settle(&control),
        [Step::Change(vec![MemberChange::Learn(NodeId(4))])],
        "three vote"
    );
    assert!(is_settled(&control, &group.members, &|_| false));

    let (mut control, mut group) = (super::tests::control(2), Group::of(2));
    control.apply(7, &add(4));
    group.settle(&control);
    assert_eq!(group.members.voters.len(), 3);
}

#[test]
fn the_vote_of_a_node_that_goes_is_given_to_another_one() {
    let (mut control, mut group) = (control(3), Group::of(3));
    control.apply(7, &add(4));
    group.settle(&control);
    control.apply(8, &Command::Remove(NodeId(2)));
    assert_eq!(
        group.settle(&control),
        [
            Step::Change(vec![
                MemberChange::Vote(NodeId(4)),
                MemberChange::Learn(NodeId(2))
            ]),
            Step::Change(vec![MemberChange::Leave(NodeId(2))]),
        ]
    );
    assert_eq!(group.members.all(), [1, 3, 4].map(NodeId).into());
}

#[test]
fn a_leader_that_goes_hands_over_first() {
    let (mut control, mut group) = (control(3), Group::of(3));
    group.dead.insert(NodeId(2));
    control.apply(8, &Command::Remove(NodeId(1)));
    assert_eq!(group.next(&control), Some(Step::HandOver(NodeId(3))));
}

#[test]
fn a_step_that_would_leave_no_majority_waits() {
    let (mut control, mut group) = (control(3), Group::of(3));
    control.apply(8, &Command::Remove(NodeId(2)));
    group.dead.insert(NodeId(3));
    assert_eq!(group.settle(&control), [], "the vote of 2 is needed");
    control.apply(9, &Command::Remove(NodeId(3)));
    group.settle(&control);
    assert_eq!(group.members.all(), [NodeId(1)].into(), "3 goes first");
}

#[test]
fn a_node_has_arrived_when_no_vote_is_missing() {
    let (mut control, mut group) = (control(2), Group::of(2));
    control.apply(7, &add(3));
    control.apply(7, &add(4));
    let has_arrived = |group: &Group, node| has_arrived(&control, &group.members, NodeId(node));
    assert!(!has_arrived(&group, 3));
    group.dead.insert(NodeId(3));
    group.settle(&control);
    assert!(!group.members.voters.contains(&NodeId(3)));
    assert!(has_arrived(&group, 3) && has_arrived(&group, 4), "three vote");
    group.members.voters.remove(&NodeId(4));
    group.members.learners.insert(NodeId(4));
    assert!(!has_arrived(&group, 3) && !has_arrived(&group, 4));
}

#[test]
fn a_command_that_does_not_fit_changes_nothing() {
    let mut control = control(1);
    let before = control.clone();
    for command in [
        add(1),
        Command::Remove(NodeId(1)),
        Command::Remove(NodeId(9)),
        Command::Joined(NodeId(1)),
        Command::Left(NodeId(1)),
    ] {
        control.apply(9, &command);
        assert_eq!(control, before, "{command:?}");
    }
    control.apply(1, &add(2));
    control.apply(2, &Command::Remove(NodeId(2)));
    control.apply(3, &Command::Left(NodeId(2)));
    assert!(control.is_removed(NodeId(2)));
    control.apply(4, &add(2));
    assert_eq!(control.stage(NodeId(2)), None, "it never comes back");
}

#[test]
fn a_node_is_where_it_said_last() {
    let mut control = control(3);
    let elsewhere = Founder {
        node: NodeId(2),
        address: "other:7000".parse().unwrap(),
    };
    control.apply(1, &Command::Moved(elsewhere.clone()));
    assert!(control.peers().contains(&elsewhere));
    assert!(!control.peers().contains(&founder(2)));
}

#[test]
fn who_leaves_is_not_wanted_as_a_leader() {
    let mut control = control(3);
    let (group, node) = (GroupId(1), NodeId(2));
    control.apply(1, &Command::Lead { group, node });
    assert_eq!(control.leads(group), Some(node));
    control.apply(2, &Command::Remove(node));
    assert_eq!(control.leads(group), None);
}

#[test]
fn what_a_removal_would_stop_is_said() {
    let control = control(3);
    let members = Members::founders([1, 2, 3].map(NodeId));
    let check = |node, is_forced, dead: &[u64]| {
        let is_there = |node: NodeId| !dead.contains(&node.0);
        let groups = [(GroupId(0), &members), (CONTROL, &members)];
        check_removal(&control, groups.into_iter(), NodeId(node), is_forced, &is_there)
    };
    assert_eq!(check(3, false, &[]), Ok(()));
    assert_eq!(check(3, true, &[3]), Ok(()));
    let node = NodeId(3);
    assert_eq!(check(3, false, &[3]), Err(RemovalRefused::Unreachable { node }));
    let node = NodeId(9);
    assert_eq!(check(9, true, &[]), Err(RemovalRefused::Unknown { node }));
    let refused = check(3, false, &[2]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "group 0 could decide nothing any more: of its voters 0000000000000001, 0000000000000002 only \
         0000000000000001 can be reached"
    );
}

/// Nodes come, go and die in any order; every group always gets where it is to be, by steps that leave it a majority.
#[test]
fn any_wish_is_reached_by_safe_steps() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (mut control, mut group) = (control(3), Group::of(3));
        let mut newest = 3;
        for _ in 0..30 {
            let nodes: Vec<_> = control.staying().collect();
            let any = nodes[random.between(0, nodes.len())];
            match random.between(0, 4) {
                0 if nodes.len() < 6 => {
                    newest += 1;
                    control.apply(newest, &add(newest));
                }
                1 if any != group.leader => {
                    group.dead.insert(any);
                    if !group.members.has_majority(|node| !group.dead.contains(&node)) {
                        group.dead.remove(&any);
                    }
                }
                2 => group.dead.clear(),
                _ => {
                    let is_there = |node: NodeId| !group.dead.contains(&node);
                    let groups = [(CONTROL, &group.members)];
                    if check_removal(&control, groups.into_iter(), any, true, &is_there).is_ok() {
                        control.apply(1, &Command::Remove(any));
                    }
                }
            }
            group.settle(&control);
            if group.dead.is_empty() {
                assert!(is_settled(&control, &group.members, &|_| false), "seed {seed}");
                let wanted = control.voters_wanted().min(control.staying().count());
                assert_eq!(group.members.voters.len(), wanted, "seed {seed}");
            }
            for node in control.nodes().keys().copied().collect::<Vec<_>>() {
                if !group.members.contains(node) {
                    control.apply(2, &Command::Left(node));
                }
            }
        }
    }
}

/// Bytes that version 1 writes. Another form needs another version.
#[test]
fn commands_and_states_of_version_1_are_written_as_ever_and_read() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    let compare = |name: &str, bytes: &[u8]| {
        let path = golden.join(name);
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, bytes).unwrap();
        }
        assert_eq!(fs::read(path).unwrap(), bytes, "{name}");
    };
    let mut control = control(3);
    let commands = [
        ("add", add(4)),
        ("remove", Command::Remove(NodeId(2))),
        ("joined", Command::Joined(NodeId(4))),
        ("left", Command::Left(NodeId(2))),
        (
            "lead",
            Command::Lead {
                group: GroupId(1),
                node: NodeId(4),
            },
        ),
        ("moved", Command::Moved(founder(4))),
    ];
    for (at, (name, command)) in (0x0102_0304_0506_0708..).zip(commands) {
        let bytes = encode_command(at, &command);
        compare(&format!("control-{name}.entry"), &bytes);
        assert_eq!(decode_command(&bytes), Ok((at, command.clone())));
        for length in 1..bytes.len() {
            assert_eq!(
                decode_command(&bytes[..length]),
                Err(ControlRecordError::Malformed)
            );
        }
        control.apply(at, &command);
    }
    control.apply(9, &Command::Remove(NodeId(3)));
    let point = LogPoint {
        index: Index(7),
        term: Term(3),
    };
    let bytes = encode_state(point, &control);
    compare("control.record", &bytes);
    assert_eq!(decode_state(&bytes), Ok((point, control)));
    for place in 0..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[place] ^= 1;
        assert_eq!(decode_state(&damaged), Err(ControlRecordError::Checksum));
    }
}

#[test]
fn the_same_commands_make_the_same_cluster() {
    let mut states = BTreeMap::new();
    for _ in 0..2 {
        let mut control = control(3);
        for command in [add(4), Command::Remove(NodeId(1)), Command::Joined(NodeId(4))] {
            control.apply(5, &command);
        }
        states.insert(encode_state(LogPoint::START, &control), ());
    }
    assert_eq!(states.len(), 1);
}
