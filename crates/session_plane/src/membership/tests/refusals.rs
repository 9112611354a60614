//! Input that is refused by name, and changes nothing.

use cluster::session_plane::Hlc;

use super::*;
use crate::{Dot, Interval, VersionVector};

/// Node 2, which has met 3, and is offered a handshake by 1.
fn met() -> Membership {
    let mut membership = membership(2);
    meet(&mut membership, 0, &introduction(3, 5, NodeState::Running));
    membership
}

#[track_caller]
fn assert_refused(mut membership: Membership, from: u64, message: &Handshake, error: HandshakeError) {
    let before = format!("{membership:?}");
    let mut actions = Vec::new();
    let refused = membership.receive_handshake(at(0), node(from), message, &mut actions);
    assert_eq!(refused, Err(error));
    assert_eq!(actions, []);
    assert_eq!(format!("{membership:?}"), before);
}

fn offer(change: impl FnOnce(&mut Introduction)) -> Handshake {
    let mut introduction = introduction(4, 2, NodeState::Running);
    change(&mut introduction);
    Handshake::Offer(introduction)
}

fn offer_of_3(start: u32) -> Handshake {
    let mut introduction = introduction(3, 2, NodeState::Running);
    introduction.run = run(3, start);
    Handshake::Offer(introduction)
}

#[test]
fn strangers_and_impostors_are_refused() {
    let found = run(4, 1);
    let wrong = |from| HandshakeError::WrongSender {
        from: node(from),
        found,
    };
    assert_refused(met(), 1, &offer(|_| {}), wrong(1));
    let own = offer(|introduction| introduction.run.node = node(2));
    let found = run(2, 1);
    let from = node(2);
    assert_refused(met(), 2, &own, HandshakeError::WrongSender { from, found });
    let stranger = offer(|introduction| introduction.run.node = node(9));
    assert_refused(met(), 9, &stranger, HandshakeError::UnknownNode { node: node(9) });
}

#[test]
fn an_older_run_is_refused_and_a_newer_one_ends_the_older() {
    let mut membership = met();
    let newer = offer_of_3(7);
    let mut actions = Vec::new();
    assert_eq!(
        membership.receive_handshake(at(0), node(3), &newer, &mut actions),
        Ok(())
    );
    let reason = GiveUpReason::NewerRun;
    let run_before = run(3, 1);
    assert_eq!(
        actions[0],
        Action::GaveUp {
            run: run_before,
            reason
        }
    );
    assert!(!membership.is_present(node(3)));
    mark(&mut membership);
    let older = offer_of_3(6);
    let (found, known) = (run(3, 6), Incarnation(7));
    assert_refused(membership, 3, &older, HandshakeError::OlderRun { found, known });
}

#[test]
fn numbers_out_of_range_are_refused() {
    for number in [0, SWIM_INCARNATION_MAX.0 + 1, u32::MAX] {
        let incarnation = SwimIncarnation(number);
        let message = offer(|introduction| introduction.incarnation = incarnation);
        let run = run(4, 1);
        assert_refused(
            met(),
            4,
            &message,
            HandshakeError::IncarnationOutOfRange { run, incarnation },
        );
    }
    for (nodes, lowest) in [(0, 4), (101, 4), (2, 0), (2, 5), (1, 3)] {
        let lowest = node(lowest);
        let side = Side { nodes, lowest };
        let message = offer(|introduction| introduction.side = side);
        let run = run(4, 1);
        assert_refused(met(), 4, &message, HandshakeError::InvalidSide { run, side });
    }
}

fn answer(from: u64, incarnation: u32, offer: Stay) -> Handshake {
    Handshake::Answer(Answer {
        introduction: introduction(from, incarnation, NodeState::Running),
        offer,
    })
}

fn stay(of: Run, incarnation: u32) -> Stay {
    Stay {
        run: of,
        incarnation: SwimIncarnation(incarnation),
    }
}

fn confirm(from: u64, answer: Stay, minority: Option<u64>) -> Handshake {
    Handshake::Confirm(Confirm {
        introduction: introduction(from, 2, NodeState::Running),
        offer: SwimIncarnation(2),
        answer,
        minority: minority.map(node),
    })
}

#[test]
fn the_other_nodes_part_is_refused() {
    let own = run(2, 1);
    let lower_answers = answer(1, 2, stay(own, 2));
    assert_refused(
        met(),
        1,
        &lower_answers,
        HandshakeError::WrongRole { node: node(1) },
    );
    let higher_confirms = confirm(4, stay(own, 2), None);
    assert_refused(
        met(),
        4,
        &higher_confirms,
        HandshakeError::WrongRole { node: node(4) },
    );
    let third_merges = confirm(1, stay(own, 2), Some(3));
    assert_refused(
        met(),
        1,
        &third_merges,
        HandshakeError::WrongRole { node: node(1) },
    );
}

#[test]
fn late_messages_are_refused() {
    let late = |id| HandshakeError::Late { node: node(id) };
    let own = run(2, 1);
    assert_refused(met(), 4, &answer(4, 2, stay(own, 2)), late(4));
    assert_refused(met(), 1, &confirm(1, stay(own, 3), None), late(1));
    let still = HandshakeError::StillPresent { node: node(3) };
    for old in [stay(own, 1), stay(own, 3), stay(run(2, 0), 2)] {
        assert_refused(met(), 3, &answer(3, 5, old), still);
    }
    assert_refused(met(), 3, &answer(3, 6, stay(own, 2)), still);
    let mut asked = met();
    let offer_of_1 = Handshake::Offer(introduction(1, 8, NodeState::Running));
    let received = asked.receive_handshake(at(0), node(1), &offer_of_1, &mut Vec::new());
    assert_eq!(received, Ok(()));
    let older = Handshake::Offer(introduction(1, 7, NodeState::Running));
    assert_refused(asked, 1, &older, late(1));
}

#[test]
fn a_run_without_an_incarnation_left_meets_nobody() {
    let mut membership = met();
    let convicted = stay(run(2, 1), SWIM_INCARNATION_MAX.0);
    let (incarnation, issued) = (SWIM_INCARNATION_MAX, membership.issued);
    let never = ConvictionError::NeverIssued { incarnation, issued };
    assert_eq!(
        membership.receive_conviction(at(0), node(3), convicted),
        Err(never)
    );
    membership.own.incarnation = SWIM_INCARNATION_MAX;
    membership.issued = SWIM_INCARNATION_MAX;
    assert_eq!(membership.receive_conviction(at(0), node(3), convicted), Ok(()));
    assert_eq!(
        membership.own().incarnation,
        SWIM_INCARNATION_MAX,
        "nothing overflows"
    );
    let mut actions = Vec::new();
    membership.tick(at(0), &mut actions);
    assert_eq!(actions, [], "it offers nothing");
    let message = Handshake::Offer(introduction(1, 2, NodeState::Running));
    assert_refused(membership, 1, &message, HandshakeError::IncarnationsUsedUp);
}

#[test]
fn markers_that_cannot_be_the_peers_are_refused() {
    let sender = run(3, 1);
    let (incarnation, issued) = (SwimIncarnation(9), met().issued);
    let high = SwimIncarnation(SWIM_INCARNATION_MAX.0 + 1);
    let cases = [
        (view(&[(2, 2), (4, 5)]), MarkerError::LacksSender { run: sender }),
        (
            view(&[(3, 5), (4, 5)]),
            MarkerError::LacksThisNode { run: sender },
        ),
        (
            view(&[(2, 9), (3, 5)]),
            MarkerError::NeverIssued {
                run: sender,
                incarnation,
                issued,
            },
        ),
        (
            view(&[(2, 2), (3, 5), (4, high.0)]),
            MarkerError::IncarnationOutOfRange {
                run: sender,
                node: node(4),
                incarnation: high,
            },
        ),
    ];
    for (view, error) in cases {
        let mut membership = met();
        let before = format!("{membership:?}");
        let refused = membership.receive_marker(at(9), node(3), &view, &mut Vec::new());
        assert_eq!(refused, Err(error));
        assert_eq!(format!("{membership:?}"), before);
    }
}

#[test]
fn nodes_that_are_not_present_are_refused() {
    let mut membership = met();
    let absent = NotPresent { node: node(4) };
    assert_eq!(membership.record_heard(at(0), node(4)), Err(absent));
    assert_eq!(membership.record_answered(at(0), node(4)), Err(absent));
    assert_eq!(membership.record_refused(node(4)), Err(absent));
    assert_eq!(membership.give_up(node(4), &mut Vec::new()), Err(absent));
    let marker = membership.receive_marker(at(0), node(4), &view(&[(2, 2), (4, 5)]), &mut Vec::new());
    assert_eq!(marker, Err(MarkerError::NotPresent(absent)));
    let convicted = membership.receive_conviction(at(0), node(4), stay(run(2, 1), 2));
    assert_eq!(convicted, Err(ConvictionError::NotPresent(absent)));
    let known = membership.record_knowledge(node(4), &VersionVector::default(), Hlc::ZERO);
    assert_eq!(known, Err(KnowledgeError::NotPresent(absent)));
    assert_eq!(absent.to_string(), "node 4 is not present: shake hands first");
}

#[test]
fn a_conviction_of_another_run_is_refused() {
    let mut membership = met();
    let (own, found) = (run(2, 1), run(2, 0));
    let refused = membership.receive_conviction(at(0), node(3), stay(found, 2));
    assert_eq!(refused, Err(ConvictionError::OtherRun { own, found }));
}

#[test]
fn knowledge_that_is_too_scattered_is_refused() {
    let mut membership = met();
    let scattered = |from: u64| {
        let mut vector = VersionVector::default();
        for number in 0..crate::version_vector::INTERVALS_MAX as u64 {
            let dot = Dot {
                run: run(4, 1),
                number: 2 * number + from,
            };
            vector
                .insert(Interval::one(dot).expect("a number"))
                .expect("room");
        }
        vector
    };
    assert_eq!(
        membership.record_knowledge(node(3), &scattered(1), Hlc::ZERO),
        Ok(())
    );
    let apart = scattered(100_001);
    let refused = membership.record_knowledge(node(3), &apart, Hlc::ZERO);
    assert!(matches!(refused, Err(KnowledgeError::Full { peer, .. }) if peer == node(3)));
    assert!(membership.has_told(node(3), &scattered(1)));
    assert!(!membership.has_told(node(3), &apart));
}

#[test]
fn members_that_are_no_cluster_are_refused() {
    let mut membership = met();
    let many: BTreeSet<NodeId> = (1..=101).map(node).collect();
    let before = format!("{membership:?}");
    let refused = membership.set_members(at(0), &many);
    assert_eq!(refused, Err(MembersError::TooMany { count: 101 }));
    let zero = membership.set_members(at(0), &[node(0), node(2)].into());
    assert_eq!(zero, Err(MembersError::NodeZero));
    assert_eq!(format!("{membership:?}"), before);
}

#[test]
fn a_view_has_room_for_its_limit_of_nodes() {
    let mut config = config(1, 1, 100);
    let mut membership = Membership::new(at(0), &config).expect("a cluster");
    for id in 2..=100 {
        meet(&mut membership, 0, &introduction(id, 2, NodeState::Running));
    }
    assert_eq!(membership.view().nodes().len(), NODES_MAX);
    config.members = [node(1), node(200)].into();
    assert_eq!(membership.set_members(at(0), &config.members), Ok(()));
    let mut actions = Vec::new();
    membership.tick(at(0), &mut actions);
    let offer = last_sent(&actions).introduction().stay();
    assert_refused(membership, 200, &answer(200, 2, offer), HandshakeError::ViewFull);
}
