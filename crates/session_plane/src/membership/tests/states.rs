//! States of a node, silence and refusals, members, and what peers know.

use cluster::session_plane::Hlc;

use super::*;
use crate::{Interval, VersionVector};

const ALL: TransferProgress = TransferProgress {
    has_given: true,
    has_received: true,
    has_met_all: true,
};
const GIVEN: TransferProgress = TransferProgress {
    has_given: true,
    has_received: false,
    has_met_all: true,
};
const RECEIVED: TransferProgress = TransferProgress {
    has_given: false,
    has_received: true,
    has_met_all: true,
};

#[track_caller]
fn assert_state_after(membership: &mut Membership, now: u64, progress: TransferProgress, state: NodeState) {
    membership.record_progress(at(now), progress, &mut Vec::new());
    assert_eq!(membership.own().state, state, "{progress:?}");
}

#[test]
fn a_node_that_joins_runs_when_all_is_given_and_received() {
    let mut membership = membership(1);
    meet(&mut membership, 0, &introduction(2, 2, NodeState::Running));
    for progress in [GIVEN, RECEIVED] {
        assert_state_after(&mut membership, FOUND_AFTER, progress, NodeState::Joining);
    }
    assert_state_after(&mut membership, 10, ALL, NodeState::Running);
    assert!(membership.is_changed());
}

#[test]
fn a_node_founds_a_cluster_after_a_time_without_a_running_one() {
    let mut membership = membership(1);
    membership.tick(at(0), &mut Vec::new());
    assert_state_after(&mut membership, FOUND_AFTER - 1, GIVEN, NodeState::Joining);
    assert_state_after(&mut membership, FOUND_AFTER - 1, RECEIVED, NodeState::Joining);
    assert_eq!(membership.founding_at(), Some(at(FOUND_AFTER)));
    let mut actions = Vec::new();
    membership.tick(at(FOUND_AFTER), &mut actions);
    let state = NodeState::Running;
    assert_eq!(actions.pop(), Some(Action::StateChanged { state }));
}

#[test]
fn a_node_that_joins_serves_nobody_before_it_has_met_all_whom_a_running_node_has() {
    let mut membership = membership(1);
    assert!(!membership.may_serve());
    meet(&mut membership, 0, &introduction(2, 2, NodeState::Running));
    let not_all = TransferProgress {
        has_met_all: false,
        ..ALL
    };
    assert_state_after(&mut membership, 10, not_all, NodeState::Joining);
    assert!(!membership.may_serve());
    assert_eq!(membership.founding_at(), Some(at(FOUND_AFTER)));
    assert_state_after(&mut membership, 20, RECEIVED, NodeState::Joining);
    assert!(membership.may_serve());
    assert_state_after(&mut membership, FOUND_AFTER, not_all, NodeState::Running);
}

#[test]
fn the_smaller_side_gives_then_receives() {
    let mut membership = membership(1);
    membership.enter(NodeState::MergeMinority, &mut Vec::new());
    meet(&mut membership, 0, &introduction(2, 2, NodeState::Running));
    assert_state_after(&mut membership, 10, RECEIVED, NodeState::MergeMinority);
    assert_state_after(&mut membership, 10, ALL, NodeState::Merging);
    // The marker that tells of the state may change owners.
    assert_state_after(&mut membership, 20, ALL, NodeState::Merging);
    mark(&mut membership);
    assert_state_after(&mut membership, 30, GIVEN, NodeState::Merging);
    assert_state_after(&mut membership, 40, RECEIVED, NodeState::Running);
}

#[test]
fn the_smaller_side_goes_on_when_nobody_is_left() {
    let mut membership = membership(1);
    membership.enter(NodeState::MergeMinority, &mut Vec::new());
    mark(&mut membership);
    let nothing = TransferProgress::default();
    assert_state_after(&mut membership, 0, nothing, NodeState::Merging);
}

#[test]
fn progress_is_void_once_the_view_changes() {
    let mut membership = membership(1);
    assert_state_after(&mut membership, 0, RECEIVED, NodeState::Joining);
    meet(&mut membership, 10, &introduction(2, 2, NodeState::Joining));
    membership.tick(at(10), &mut Vec::new());
    assert_eq!(membership.record_heard(at(FOUND_AFTER), node(2)), Ok(()));
    membership.tick(at(FOUND_AFTER), &mut Vec::new());
    assert_eq!(membership.own().state, NodeState::Joining);
}

#[test]
fn a_peer_is_given_up_by_silence_and_earlier_where_its_process_is_gone() {
    let gone_at = |refused: Option<u64>, heard: Option<u64>| {
        let mut membership = membership(1);
        meet(&mut membership, 0, &introduction(2, 2, NodeState::Running));
        if refused.is_some() {
            assert_eq!(membership.record_refused(node(2)), Ok(()));
        }
        if let Some(heard) = heard {
            assert_eq!(membership.record_heard(at(heard), node(2)), Ok(()));
        }
        let found = (0..3_000).find(|now| {
            let mut actions = Vec::new();
            membership.tick(at(*now), &mut actions);
            actions
                .iter()
                .any(|action| matches!(action, Action::GaveUp { .. }))
        });
        found.expect("a silent peer is given up")
    };
    assert_eq!(gone_at(None, None), SILENCE_MAX);
    assert_eq!(gone_at(None, Some(200)), 200 + SILENCE_MAX);
    assert_eq!(gone_at(Some(0), None), GONE);
    assert_eq!(
        gone_at(Some(0), Some(200)),
        200 + SILENCE_MAX,
        "it has said something since"
    );
}

#[test]
fn absent_members_are_offered_a_handshake_from_time_to_time() {
    let mut membership = membership(2);
    let mut actions = Vec::new();
    membership.tick(at(0), &mut actions);
    let to = actions.iter().filter_map(|action| match action {
        Action::SendHandshake { to, message } => {
            assert!(matches!(message, Handshake::Offer(_)));
            Some(to.0)
        }
        _ => None,
    });
    assert_eq!(to.collect::<Vec<_>>(), [1, 3, 4]);
    assert_eq!(membership.deadline(), Some(at(OFFER_EVERY)));
    actions.clear();
    membership.tick(at(OFFER_EVERY - 1), &mut actions);
    assert_eq!(actions, []);
    // A connection to one of them has begun.
    membership.offer_at_once(at(OFFER_EVERY - 1));
    assert_eq!(membership.deadline(), Some(at(OFFER_EVERY - 1)));
    membership.tick(at(OFFER_EVERY - 1), &mut actions);
    assert_eq!(actions.len(), 3);
}

#[test]
fn a_removed_node_stays_until_it_is_given_up() {
    let mut membership = membership(1);
    meet(&mut membership, 0, &introduction(2, 2, NodeState::Running));
    let members: BTreeSet<NodeId> = [node(1), node(3)].into();
    assert_eq!(membership.set_members(at(0), &members), Ok(()));
    assert!(membership.is_present(node(2)));
    assert!(!membership.is_complete(), "3 is not present");
    meet(&mut membership, 0, &introduction(3, 2, NodeState::Running));
    assert!(membership.is_complete());
    membership.tick(at(SILENCE_MAX), &mut Vec::new());
    assert!(!membership.is_present(node(2)));
    let offer = Handshake::Offer(introduction(2, 3, NodeState::Running));
    let refused = membership.receive_handshake(at(0), node(2), &offer, &mut Vec::new());
    assert_eq!(refused, Err(HandshakeError::UnknownNode { node: node(2) }));
    assert_eq!(membership.members.len(), 1, "nothing is kept of it");
}

fn up_to(last: u64) -> VersionVector {
    let mut vector = VersionVector::default();
    let interval = Interval::up_to(run(4, 1), last).expect("a number");
    vector.insert(interval).expect("room");
    vector
}

/// Rule `told-among-all`.
#[test]
fn knowledge_counts_that_was_told_among_all_members() {
    let mut membership = membership(1);
    let all = [(1, 1), (2, 2), (3, 2), (4, 2)];
    for (id, _) in all.into_iter().skip(1) {
        meet(&mut membership, 0, &introduction(id, 2, NodeState::Running));
    }
    assert_eq!(membership.members(), (1..=4).map(node).collect());
    let (few, more) = (&all[..3], [&all[..], &[(5, 1)]].concat());
    for (nodes, counts) in [(few, false), (&all[..], true), (&more, false), (&all[..], true)] {
        for id in 2..=4 {
            // Node 4 is in no view of the first round but its own.
            let nodes = if id == 4 { &all[..] } else { nodes };
            let marker = membership.receive_marker(at(0), node(id), &view(nodes), &mut Vec::new());
            assert_eq!(marker, Ok(()));
            assert_eq!(
                membership.record_knowledge(node(id), &up_to(9), Hlc::ZERO),
                Ok(())
            );
        }
        assert_eq!(
            membership.is_known_to_all(&up_to(9), Hlc::ZERO),
            counts,
            "{nodes:?}"
        );
    }
    assert_eq!(membership.marked_runs_of(node(2)), membership.present_runs());
}

/// The last run of a member may have given another one what nobody has beside it.
#[test]
fn knowledge_counts_that_was_told_among_the_present_runs() {
    let mut membership = membership(1);
    for id in 2..=4 {
        meet(&mut membership, 0, &introduction(id, 2, NodeState::Running));
    }
    let now = view(&[(1, 1), (2, 2), (3, 2), (4, 2)]);
    let of_before = now.nodes().iter().map(|present| match present.run == run(4, 1) {
        true => PresentNode {
            run: run(4, 0),
            ..*present
        },
        false => *present,
    });
    let before = View::new(of_before.collect()).expect("a view");
    for (view, counts) in [(&before, false), (&now, true)] {
        for id in 2..=4 {
            // Node 4 has its own run in each view.
            let view = if id == 4 { &now } else { view };
            let marker = membership.receive_marker(at(0), node(id), view, &mut Vec::new());
            assert_eq!(marker, Ok(()));
            let recorded = membership.record_knowledge(node(id), &up_to(9), Hlc::ZERO);
            assert_eq!(recorded, Ok(()));
        }
        assert_eq!(membership.is_known_to_all(&up_to(9), Hlc::ZERO), counts);
    }
}

/// A peer may know an event before it has seen the event's clock.
#[test]
fn knowledge_counts_with_a_clock_that_is_not_before_the_moment() {
    let mut membership = membership(1);
    for id in 2..=4 {
        meet(&mut membership, 0, &introduction(id, 2, NodeState::Running));
    }
    let all = view(&[(1, 1), (2, 2), (3, 2), (4, 2)]);
    for (id, clock) in [(2, 7), (3, 6), (4, 8)] {
        let marker = membership.receive_marker(at(0), node(id), &all, &mut Vec::new());
        assert_eq!(marker, Ok(()));
        let recorded = membership.record_knowledge(node(id), &up_to(9), Hlc::at(clock));
        assert_eq!(recorded, Ok(()));
    }
    assert!(membership.is_known_to_all(&up_to(9), Hlc::at(6)));
    assert!(!membership.is_known_to_all(&up_to(9), Hlc::at(7)));
    let recorded = membership.record_knowledge(node(3), &up_to(1), Hlc::at(7));
    assert_eq!(recorded, Ok(()));
    assert!(membership.is_known_to_all(&up_to(9), Hlc::at(7)));
}

#[test]
fn knowledge_is_of_one_stay() {
    let mut membership = membership(1);
    for id in 2..=4 {
        meet(&mut membership, 0, &introduction(id, 2, NodeState::Running));
    }
    let all = view(&[(1, 1), (2, 2), (3, 2), (4, 2)]);
    for (id, last) in [(2, 9), (3, 4), (4, 9), (3, 2)] {
        let marker = membership.receive_marker(at(0), node(id), &all, &mut Vec::new());
        assert_eq!(marker, Ok(()));
        assert_eq!(
            membership.record_knowledge(node(id), &up_to(last), Hlc::ZERO),
            Ok(())
        );
    }
    assert!(membership.has_told(node(2), &up_to(9)));
    assert!(membership.has_told(node(3), &up_to(4)), "knowledge grows");
    assert!(!membership.has_told(node(3), &up_to(5)));
    assert!(membership.is_known_to_all(&up_to(4), Hlc::ZERO));
    assert!(!membership.is_known_to_all(&up_to(5), Hlc::ZERO));
    assert_eq!(membership.give_up(node(2), &mut Vec::new()), Ok(()));
    assert!(
        !membership.is_known_to_all(&up_to(4), Hlc::ZERO),
        "a member is away"
    );
    mark(&mut membership);
    meet(&mut membership, 0, &introduction(2, 3, NodeState::Running));
    assert!(!membership.has_told(node(2), &up_to(1)), "it is another stay");
    assert!(!membership.is_known_to_all(&up_to(4), Hlc::ZERO));
}
