//! Two nodes whose handshakes are lost, repeated and late in any order.

use super::*;

/// Step of a pair.
#[derive(Debug, Clone)]
enum Step {
    Offer(usize),
    /// Delivers a message that was sent at some time; it may come again.
    Deliver(Index, bool),
    GiveUp(usize),
    Restart(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..2_usize).prop_map(Step::Offer),
        8 => (any::<Index>(), any::<bool>()).prop_map(|(which, again)| Step::Deliver(which, again)),
        2 => (0..2_usize).prop_map(Step::GiveUp),
        1 => (0..2_usize).prop_map(Step::Restart),
    ];
    proptest::collection::vec(step, 0..120)
}

/// Stay as both name it: runs and incarnations of the lower and the higher node.
type Named = [(Run, SwimIncarnation); 2];

struct Pair {
    sides: [Membership; 2],
    starts: [u32; 2],
    /// Messages that were sent, and the side that they go to.
    sent: Vec<(usize, Handshake)>,
    /// Stays that each side has had.
    had: [Vec<Named>; 2],
}

impl Pair {
    fn new() -> Pair {
        let side = |id| Membership::new(at(0), &config(id, 1, 2)).expect("a cluster");
        Pair {
            sides: [side(1), side(2)],
            starts: [1, 1],
            sent: Vec::new(),
            had: [Vec::new(), Vec::new()],
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Offer(side) => self.offer(*side),
            Step::Deliver(which, again) if !self.sent.is_empty() => {
                let which = which.index(self.sent.len());
                let (to, message) = self.sent[which].clone();
                if !again {
                    self.sent.remove(which);
                }
                self.deliver(to, &message);
            }
            Step::Deliver(..) => {}
            Step::GiveUp(side) => {
                let peer = node(2 - *side as u64);
                let _ = self.sides[*side].give_up(peer, &mut Vec::new());
            }
            Step::Restart(side) => {
                self.starts[*side] += 1;
                let config = config(1 + *side as u64, self.starts[*side], 2);
                self.sides[*side] = Membership::new(at(0), &config).expect("a cluster");
            }
        }
    }

    fn offer(&mut self, side: usize) {
        let mut actions = Vec::new();
        self.sides[side].offer_handshakes(&mut actions);
        self.send(side, &actions);
    }

    fn send(&mut self, side: usize, actions: &[Action]) {
        for action in actions {
            if let Action::SendHandshake { message, .. } = action {
                self.sent.push((1 - side, message.clone()));
            }
        }
    }

    fn deliver(&mut self, to: usize, message: &Handshake) {
        let mut actions = Vec::new();
        let from = node(2 - to as u64);
        let received = self.sides[to].receive_handshake(at(0), from, message, &mut actions);
        let is_harmless = matches!(
            received,
            Ok(())
                | Err(HandshakeError::Late { .. }
                    | HandshakeError::StillPresent { .. }
                    | HandshakeError::OlderRun { .. })
        );
        assert!(is_harmless, "{received:?}");
        if actions.iter().any(|action| matches!(action, Action::Met { .. })) {
            self.check_met(to);
        }
        self.send(to, &actions);
    }

    /// A stay begins once, and only while the other side is in no other one.
    fn check_met(&mut self, side: usize) {
        let stay = self.stay(side).expect("the side has met");
        assert!(!self.had[side].contains(&stay), "a stay begins again");
        self.had[side].push(stay);
        let runs = [self.sides[0].own().run, self.sides[1].own().run];
        let other = self.stay(1 - side);
        if let Some(other) =
            other.filter(|other| [other[0].0, other[1].0] == runs && stay.map(|of| of.0) == runs)
        {
            assert_eq!(stay, other, "two stays at once");
        }
    }

    fn stay(&self, side: usize) -> Option<Named> {
        let own = self.sides[side].own().run;
        let peer = self.sides[side].peer(node(2 - side as u64))?;
        let numbers = match &peer.begun {
            peer::Begun::Confirmed(confirm) => [confirm.offer, confirm.answer.incarnation],
            peer::Begun::Answered(answered) => [answered.offer, answered.answer],
        };
        let runs = if side == 0 {
            [own, peer.present.run]
        } else {
            [peer.present.run, own]
        };
        Some([(runs[0], numbers[0]), (runs[1], numbers[1])])
    }

    /// Both give up, and nothing is lost any more.
    fn come_to_rest(&mut self) {
        self.sent.clear();
        for side in 0..2 {
            let _ = self.sides[side].give_up(node(2 - side as u64), &mut Vec::new());
        }
        for side in 0..2 {
            self.offer(side);
        }
        while let Some((to, message)) = self.sent.pop() {
            self.deliver(to, &message);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn hands_are_shaken_only_after_both_have_given_up(steps in steps()) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.step(step);
        }
        pair.come_to_rest();
        let (lower, higher) = (pair.stay(0), pair.stay(1));
        prop_assert!(lower.is_some());
        prop_assert_eq!(lower, higher);
    }
}

/// Pair of which the lower side has met the higher one, and its Confirm is under way.
fn half_met() -> Pair {
    let mut pair = Pair::new();
    pair.offer(0);
    for _ in 0..2 {
        let (to, message) = pair.sent.remove(0);
        pair.deliver(to, &message);
    }
    assert!(pair.stay(0).is_some());
    assert!(pair.stay(1).is_none());
    pair
}

#[test]
fn a_confirm_that_is_lost_is_sent_again() {
    let mut pair = half_met();
    pair.sent.clear();
    pair.offer(1);
    for _ in 0..2 {
        let (to, message) = pair.sent.remove(0);
        pair.deliver(to, &message);
    }
    assert_eq!(pair.stay(1), pair.stay(0));
    assert_eq!(pair.had, [[pair.stay(0).unwrap()], [pair.stay(0).unwrap()]]);
}

#[test]
fn a_node_that_is_still_present_is_not_met() {
    let mut pair = half_met();
    let (to, message) = pair.sent.remove(0);
    pair.deliver(to, &message);
    let stay = pair.stay(1);
    let peer = node(2);
    assert_eq!(pair.sides[0].give_up(peer, &mut Vec::new()), Ok(()));
    pair.offer(0);
    let (_, offer) = pair.sent.remove(0);
    let mut actions = Vec::new();
    let received = pair.sides[1].receive_handshake(at(0), node(1), &offer, &mut actions);
    assert_eq!(received, Ok(()));
    assert_eq!(actions, []);
    assert_eq!(pair.stay(1), stay);
}

#[test]
fn an_offer_is_not_taken_for_an_answer() {
    let mut membership = membership(1);
    let peer = introduction(2, 2, NodeState::Running);
    meet(&mut membership, 0, &peer);
    let offer = Handshake::Offer(introduction(2, 3, NodeState::Running));
    let received = membership.receive_handshake(at(SILENCE_MAX - 1), node(2), &offer, &mut Vec::new());
    assert_eq!(received, Ok(()));
    membership.tick(at(SILENCE_MAX), &mut Vec::new());
    assert!(!membership.is_present(node(2)));
}

#[test]
fn a_node_that_was_given_up_first_is_expected_for_a_while() {
    let mut membership = membership(1);
    meet(&mut membership, 0, &introduction(2, 2, NodeState::Running));
    let offered = SILENCE_MAX / 2;
    let offer = |membership: &mut Membership, incarnation| {
        let offer = Handshake::Offer(introduction(2, incarnation, NodeState::Running));
        membership.receive_handshake(at(offered), node(2), &offer, &mut Vec::new())
    };
    let late = offer(&mut membership, 2);
    assert_eq!(
        late,
        Err(HandshakeError::StillPresent { node: node(2) }),
        "before the stay"
    );
    assert_eq!(offer(&mut membership, 3), Ok(()));
    assert!(!membership.is_expected(), "it is present");
    membership.tick(at(SILENCE_MAX), &mut Vec::new());
    assert!(!membership.is_present(node(2)));
    assert!(membership.is_expected());
    membership.tick(at(offered + SILENCE_MAX - 1), &mut Vec::new());
    assert!(membership.is_expected());
    assert_eq!(membership.deadline(), Some(at(offered + SILENCE_MAX)));
    membership.tick(at(offered + SILENCE_MAX), &mut Vec::new());
    assert!(!membership.is_expected(), "it may be that nothing reaches it");
}

#[test]
fn a_node_that_is_met_or_was_silent_is_not_expected() {
    let mut membership = membership(1);
    let peer = introduction(2, 2, NodeState::Running);
    meet(&mut membership, 0, &peer);
    membership.tick(at(SILENCE_MAX), &mut Vec::new());
    assert!(!membership.is_present(node(2)));
    assert!(!membership.is_expected(), "nothing says that it lives");
    meet(
        &mut membership,
        SILENCE_MAX,
        &introduction(2, 3, NodeState::Running),
    );
    let offer = Handshake::Offer(introduction(2, 4, NodeState::Running));
    let received = membership.receive_handshake(at(SILENCE_MAX), node(2), &offer, &mut Vec::new());
    assert_eq!(received, Ok(()));
    assert_eq!(membership.give_up(node(2), &mut Vec::new()), Ok(()));
    assert!(membership.is_expected());
    meet(
        &mut membership,
        SILENCE_MAX,
        &introduction(2, 5, NodeState::Running),
    );
    assert!(!membership.is_expected());
}

#[test]
fn the_lower_node_says_which_side_is_the_smaller() {
    let side = |nodes, lowest| Side {
        nodes,
        lowest: node(lowest),
    };
    let cases = [
        (side(1, 4), NodeState::Running, Some(4)),
        (side(2, 2), NodeState::Running, Some(1)),
        (side(1, 4), NodeState::Joining, None),
        (side(2, 1), NodeState::Merging, None),
    ];
    for (side, state, minority) in cases {
        let mut membership = membership(1);
        membership.enter(NodeState::Running, &mut Vec::new());
        mark(&mut membership);
        let mut peer = introduction(4, 2, state);
        peer.side = side;
        meet(&mut membership, 0, &peer);
        let is_minority = membership.own().state == NodeState::MergeMinority;
        assert_eq!(is_minority, minority == Some(1), "{side:?} {state:?}");
        let again = Handshake::Answer(Answer {
            introduction: peer,
            offer: Stay {
                run: run(1, 1),
                incarnation: SwimIncarnation(2),
            },
        });
        let mut actions = Vec::new();
        assert_eq!(
            membership.receive_handshake(at(0), node(4), &again, &mut actions),
            Ok(())
        );
        let Handshake::Confirm(confirm) = last_sent(&actions) else {
            panic!("an answer is confirmed")
        };
        assert_eq!(confirm.minority, minority.map(node));
        assert_eq!(confirm.introduction.incarnation, membership.own().incarnation);
    }
}
