//! Convictions, refutations, and mutual convictions, event by event.

use super::*;

/// Node 1, which has met 2, 3 and 4 in incarnation 5, and has their first markers.
fn met() -> Membership {
    let mut membership = membership(1);
    for id in 2..=4 {
        meet(&mut membership, 0, &introduction(id, 5, NodeState::Running));
    }
    for id in 2..=4 {
        hear(&mut membership, 0, id, &[(1, 4), (2, 5), (3, 5), (4, 5)]);
    }
    mark(&mut membership);
    membership
}

/// Takes a marker, and gives the convictions that are sent.
fn hear(membership: &mut Membership, now: u64, from: u64, nodes: &[(u64, u32)]) -> Vec<u64> {
    let mut actions = Vec::new();
    let received = membership.receive_marker(at(now), node(from), &view(nodes), &mut actions);
    assert_eq!(received, Ok(()));
    let convicted = actions.iter().map(|action| match action {
        Action::SendConviction { to, convicted } => {
            assert_eq!(convicted.run.node, *to);
            to.0
        }
        other => panic!("a marker leads to {other:?}"),
    });
    convicted.collect()
}

/// All peers are heard, and those that are not suspected are answered.
fn exchange(membership: &mut Membership, now: u64) {
    for id in 2..=4 {
        if membership.is_present(node(id)) {
            assert_eq!(membership.record_heard(at(now), node(id)), Ok(()));
            assert_eq!(membership.record_answered(at(now), node(id)), Ok(()));
        }
    }
}

fn suspects(membership: &Membership) -> Vec<u64> {
    let answered: Vec<NodeId> = membership.answered_peers().collect();
    let suspects = membership.peers().filter(|peer| !answered.contains(peer));
    suspects.map(|peer| peer.0).collect()
}

#[track_caller]
fn assert_gone(membership: &mut Membership, now: u64, gone: &[(u64, GiveUpReason)]) {
    let mut actions = Vec::new();
    membership.tick(at(now), &mut actions);
    let given_up = actions.iter().filter_map(|action| match action {
        Action::GaveUp { run, reason } => Some((run.node.0, *reason)),
        _ => None,
    });
    assert_eq!(given_up.collect::<Vec<_>>(), gone);
}

#[test]
fn a_suspect_is_given_up_half_a_silence_after_the_last_answer() {
    let mut membership = met();
    exchange(&mut membership, 100);
    assert_eq!(hear(&mut membership, 200, 2, &[(1, 4), (2, 5), (4, 5)]), [3]);
    assert_eq!(suspects(&membership), [3]);
    exchange(&mut membership, 300);
    assert_gone(&mut membership, 599, &[]);
    assert_eq!(membership.deadline(), Some(at(600)));
    let by = node(2);
    assert_gone(&mut membership, 600, &[(3, GiveUpReason::Convicted { by })]);
    assert!(membership.is_changed());
    assert_eq!(membership.view().find(node(3)), None);
}

#[test]
fn a_conviction_of_an_old_incarnation_harms_nobody() {
    let mut membership = met();
    // Node 3 has shaken hands since, or has refuted: it is in a newer stay.
    assert_eq!(
        hear(&mut membership, 100, 3, &[(1, 4), (2, 5), (3, 6), (4, 5)]),
        []
    );
    assert_eq!(hear(&mut membership, 100, 2, &[(1, 4), (2, 5), (4, 5)]), []);
    assert_eq!(suspects(&membership), []);
    exchange(&mut membership, 500);
    assert_gone(&mut membership, 1_400, &[]);
}

#[test]
fn a_conviction_of_another_run_harms_nobody() {
    let mut membership = met();
    let mut nodes = view(&[(1, 4), (2, 5), (3, 5), (4, 5)]).nodes().to_vec();
    nodes[2].run = run(3, 9);
    let other = View::new(nodes).expect("a view");
    let mut actions = Vec::new();
    assert_eq!(
        membership.receive_marker(at(0), node(2), &other, &mut actions),
        Ok(())
    );
    assert_eq!(hear(&mut membership, 100, 2, &[(1, 4), (2, 5), (4, 5)]), []);
    assert_eq!(suspects(&membership), []);
}

#[test]
fn a_higher_incarnation_refutes_whoever_tells_of_it() {
    for from in [3, 4] {
        let mut membership = met();
        assert_eq!(hear(&mut membership, 100, 2, &[(1, 4), (2, 5), (4, 5)]), [3]);
        let same = [(1, 4), (2, 5), (3, 5), (4, 5)];
        assert_eq!(hear(&mut membership, 150, from, &same), []);
        assert_eq!(suspects(&membership), [3]);
        let refuting = [(1, 4), (2, 5), (3, 6), (4, 5)];
        assert_eq!(hear(&mut membership, 200, from, &refuting), []);
        assert_eq!(suspects(&membership), []);
        exchange(&mut membership, 300);
        assert_gone(&mut membership, 900, &[]);
        // What named the incarnation before is old.
        assert_eq!(hear(&mut membership, 950, 2, &same), []);
        assert_eq!(hear(&mut membership, 950, 2, &[(1, 4), (2, 5), (4, 5)]), []);
    }
}

#[test]
fn others_are_not_believed_about_a_node_that_is_no_suspect() {
    let mut membership = met();
    assert_eq!(
        hear(&mut membership, 100, 2, &[(1, 4), (2, 5), (3, 900), (4, 5)]),
        []
    );
    let known = membership.find(node(3)).map(|known| known.incarnation);
    assert_eq!(known, Some(SwimIncarnation(5)));
}

#[test]
fn of_a_mutual_conviction_the_higher_goes_and_cannot_refute() {
    for first in [3, 4] {
        let mut membership = met();
        let mut lost = BTreeMap::from([
            (3, vec![(1, 4), (2, 5), (3, 5)]),
            (4, vec![(1, 4), (2, 5), (4, 5)]),
        ]);
        let second = 7 - first;
        assert_eq!(hear(&mut membership, 100, first, &lost[&first]), [second]);
        assert_eq!(hear(&mut membership, 200, second, &lost[&second]), []);
        assert_eq!(suspects(&membership), [4]);
        lost.get_mut(&4).expect("listed above")[2] = (4, 6);
        assert_eq!(hear(&mut membership, 300, 4, &lost[&4]), []);
        assert_eq!(suspects(&membership), [4]);
        exchange(&mut membership, 400);
        let by = node(3);
        assert_gone(&mut membership, 700, &[(4, GiveUpReason::Convicted { by })]);
        exchange(&mut membership, 1_000);
        assert_gone(&mut membership, 1_900, &[]);
    }
}

#[test]
fn a_mutual_conviction_ends_when_both_meet_again_or_one_is_given_up() {
    let convicted = || {
        let mut membership = met();
        hear(&mut membership, 100, 3, &[(1, 4), (2, 5), (3, 5)]);
        hear(&mut membership, 200, 4, &[(1, 4), (2, 5), (4, 5)]);
        assert_eq!(suspects(&membership), [4]);
        membership
    };
    for from in [3, 4] {
        let mut membership = convicted();
        hear(&mut membership, 300, from, &[(1, 4), (2, 5), (3, 6), (4, 6)]);
        assert_eq!(suspects(&membership), []);
        // From here on each may convict the other anew, and it is mutual only if both do.
        let lost = [(1, 4), (2, 5), (from, 6)];
        assert_eq!(hear(&mut membership, 400, from, &lost), [7 - from]);
    }
    let mut membership = convicted();
    assert_eq!(membership.give_up(node(3), &mut Vec::new()), Ok(()));
    assert_eq!(suspects(&membership), []);
}

#[test]
fn a_conviction_of_an_older_stay_is_no_part_of_a_mutual_one() {
    let mut membership = met();
    hear(&mut membership, 100, 3, &[(1, 4), (2, 5), (3, 5)]);
    assert_eq!(membership.give_up(node(4), &mut Vec::new()), Ok(()));
    mark(&mut membership);
    meet(&mut membership, 200, &introduction(4, 7, NodeState::Running));
    hear(&mut membership, 300, 4, &[(1, 5), (2, 5), (3, 5), (4, 7)]);
    assert_eq!(hear(&mut membership, 400, 4, &[(1, 5), (2, 5), (4, 7)]), [3]);
    assert_eq!(suspects(&membership), [3], "4 has not been given up in this stay");
}

#[test]
fn a_node_that_hears_itself_convicted_refutes_once() {
    let mut membership = met();
    let convicted = Stay {
        run: run(1, 1),
        incarnation: membership.own().incarnation,
    };
    assert!(!membership.is_changed());
    for _ in 0..2 {
        let heard = membership.receive_conviction(at(10), node(2), convicted);
        assert_eq!(heard, Ok(()));
        let raised = SwimIncarnation(convicted.incarnation.0 + 1);
        assert_eq!(membership.own().incarnation, raised);
        assert!(membership.is_changed(), "a marker refutes");
    }
    mark(&mut membership);
    assert_eq!(membership.receive_conviction(at(10), node(2), convicted), Ok(()));
    assert!(!membership.is_changed());
}

#[test]
fn incarnations_of_others_ask_for_no_marker() {
    let mut membership = met();
    hear(&mut membership, 100, 3, &[(1, 4), (2, 5), (3, 6), (4, 5)]);
    assert!(!membership.is_changed());
    assert_eq!(membership.find(node(3)).map(|known| known.incarnation.0), Some(6));
}
