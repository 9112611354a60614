use super::node::{Node, ask_release, asked, node, older, session};
use super::*;

fn claimant() -> Claimant {
    Claimant {
        clock: Hlc::at(101),
        dot: dot(0, 1),
    }
}

/// Rule `claim-anew`: answers to the owners of an earlier ring are void.
#[test]
fn a_change_of_the_ring_voids_answers() {
    let mut at = Node::new(LIMITS);
    at.connect(false);
    let own = dot(0, 1);
    at.answer(1, own, 1, &KnownSession::default());
    at.cluster.owners = vec![node(2), node(3)];
    assert_eq!(asked(&at.step(Event::RingChanged)), [(node(2), 2), (node(3), 2)]);
    assert_eq!(at.answer(2, own, 1, &KnownSession::default()), []);
    assert_eq!(
        at.answer(1, own, 2, &KnownSession::default()),
        [],
        "it was not asked"
    );
    assert_eq!(at.writes, []);
    at.answer(2, own, 2, &KnownSession::default());
    at.answer(3, own, 2, &KnownSession::default());
    assert_eq!(at.writes.len(), 1);
}

/// The session's entry is written once, and CONNACK waits for the new owners.
#[test]
fn a_change_of_the_ring_voids_the_wait_for_the_entry() {
    let mut at = Node::new(LIMITS);
    let (connection, _) = at.connect(false);
    let own = dot(0, 1);
    at.answer_all(own, 1, &KnownSession::default());
    at.step(Event::RingChanged);
    assert_eq!(at.step(Event::SessionDurable { connection, round: 1 }), []);
    let birth = birth_of(dot(3, 5));
    let found = session(&[(dot(3, 5), Fact::Session { connected: None }, birth)]);
    let waits = Action::AwaitSession {
        connection,
        entry: dot(0, 2),
        round: 2,
    };
    assert_eq!(at.answer_all(own, 2, &found), [waits]);
    assert_eq!(at.step(Event::SessionDurable { connection, round: 1 }), []);
    assert_eq!(at.writes.len(), 1, "the entry is there");
    let accepted = at.step(Event::SessionDurable { connection, round: 2 });
    assert!(matches!(accepted[..], [Action::Accept { is_present: true, .. }]));
}

#[test]
fn releases_are_asked_for_again_after_a_change_of_the_ring() {
    let mut at = Node::new(LIMITS);
    at.connect(false);
    let (own, old) = (dot(0, 1), dot(3, 4));
    let known = session(&[older(old)]);
    at.answer_all(own, 1, &known);
    at.step(Event::RingChanged);
    assert_eq!(at.answer_all(own, 2, &known), [ask_release(old, claimant())]);
}

/// The owners may have been asked before the connection had ended.
#[test]
fn a_release_that_ends_while_owners_are_asked_is_followed_by_a_reading() {
    let mut at = Node::new(LIMITS);
    at.connect(false);
    let (own, old) = (dot(0, 1), dot(3, 4));
    let known = session(&[older(old)]);
    at.answer_all(own, 1, &known);
    at.step(Event::RingChanged);
    assert_eq!(at.released(old, own, true), []);
    assert_eq!(
        asked(&at.answer_all(own, 2, &known)),
        [(node(1), 3), (node(2), 3)]
    );
}

#[test]
fn an_owner_that_was_given_up_is_waited_for_no_longer() {
    let mut at = Node::new(LIMITS);
    at.connect(false);
    let own = dot(0, 1);
    at.answer(1, own, 1, &KnownSession::default());
    at.cluster.present.remove(&node(2));
    at.step(Event::PeerLost(node(2)));
    assert_eq!(at.writes.len(), 1, "the other owner has answered");
}

/// Nothing was read yet, so nothing can be decided.
#[test]
fn a_claim_waits_for_one_owner_at_least() {
    let mut at = Node::new(LIMITS);
    at.connect(false);
    for of in [1, 2] {
        at.cluster.present.remove(&node(of));
        assert_eq!(at.step(Event::PeerLost(node(of))), []);
    }
    assert_eq!(at.writes, []);
    at.cluster.owners = vec![node(0)];
    assert_eq!(asked(&at.step(Event::RingChanged)), [(node(0), 2)]);
}

#[test]
fn a_node_that_was_given_up_ends_no_connection() {
    let mut at = Node::new(LIMITS);
    at.connect(false);
    let (own, lost, other) = (dot(0, 1), dot(3, 4), dot(2, 6));
    let known = session(&[older(lost), older(other)]);
    assert_eq!(at.answer_all(own, 1, &known).len(), 2);
    at.cluster.present.remove(&node(3));
    assert_eq!(at.step(Event::PeerLost(node(3))), [], "the other goes on");
    assert_eq!(at.released(other, own, true).len(), 2);
    at.answer_all(own, 2, &known);
    let ended = Write::OlderEnded(ConnectionEnd {
        connection: other,
        will: None,
    });
    assert_eq!(at.writes[0], ended);
    assert!(matches!(at.writes[1..], [Write::SessionStart(_)]));
}

#[test]
fn a_claimant_that_was_given_up_is_not_answered() {
    let mut at = Node::new(LIMITS);
    let (connection, old) = at.connect_new();
    let by = Claimant {
        clock: Hlc::at(200),
        dot: dot(3, 1),
    };
    at.release(3, Release { old, by: Some(by) });
    at.step(Event::PeerLost(node(3)));
    assert_eq!(at.step(Event::Closed { connection }), []);
}

/// Rule `connection-to-new-owners`.
#[test]
fn new_owners_get_the_entries_of_connections() {
    let mut at = Node::new(LIMITS);
    let (connection, dot) = at.connect_new();
    at.begin(false).expect("room");
    assert_eq!(at.step(Event::OwnersChanged(slot())), []);
    at.cluster.owners = vec![node(2), node(3)];
    let to = vec![node(3)];
    let given = Action::Give { connection, dot, to };
    assert_eq!(
        at.step(Event::OwnersChanged(slot())),
        [given],
        "the other is not made"
    );
    assert_eq!(at.step(Event::OwnersChanged(slot())), []);
    at.cluster.owners = vec![node(1), node(2)];
    let to = vec![node(1)];
    let given = Action::Give { connection, dot, to };
    assert_eq!(
        at.step(Event::OwnersChanged(slot())),
        [given],
        "it was no owner meanwhile"
    );
}

#[test]
fn what_a_link_has_lost_is_asked_for_again() {
    let mut at = Node::new(LIMITS);
    at.connect(false);
    let (own, old) = (dot(0, 1), dot(3, 4));
    at.answer(1, own, 1, &session(&[older(old)]));
    assert_eq!(at.step(Event::LinkRenewed(node(1))), [], "it has answered");
    assert_eq!(asked(&at.step(Event::LinkRenewed(node(2)))), [(node(2), 1)]);
    at.answer(2, own, 1, &KnownSession::default());
    assert_eq!(
        at.step(Event::LinkRenewed(node(3))),
        [ask_release(old, claimant())]
    );
}
