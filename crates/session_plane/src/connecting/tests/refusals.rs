use super::node::{Node, node, session};
use super::*;

fn refused(actions: &[Action]) -> RefuseReason {
    match actions {
        [Action::Refuse { reason, .. }] => *reason,
        other => panic!("{other:?} is no refusal"),
    }
}

#[test]
fn an_owner_that_refuses_leaves_the_connect_undecided() {
    let owner = node(2);
    for (reason, expected) in [
        (AskRefusal::Full, RefuseReason::OwnerFull { owner }),
        (AskRefusal::NotReady, RefuseReason::OwnerNotReady { owner }),
    ] {
        let mut at = Node::new(LIMITS);
        at.connect(false);
        let refusal = |round| Event::QuestionRefused {
            from: owner,
            refused: QuestionRefused {
                connection: dot(0, 1),
                round,
                reason,
            },
        };
        assert_eq!(at.step(refusal(2)), [], "it is of another round");
        assert_eq!(refused(&at.step(refusal(1))), expected);
        assert_eq!(at.connections.claims(), 0);
    }
}

#[test]
fn claims_and_connections_are_bounded() {
    let mut at = Node::new(ConnectionLimits {
        claims_max: 1,
        connections_max: 2,
        ..LIMITS
    });
    at.connect_new();
    at.begin(false).expect("room");
    assert_eq!(at.begin(false), Err(ConnectionsFull::Claims { claims_max: 1 }));
    let mut at = Node::new(ConnectionLimits {
        connections_max: 1,
        ..LIMITS
    });
    let (connection, _) = at.connect_new();
    assert_eq!(
        at.begin(false),
        Err(ConnectionsFull::Connections { connections_max: 1 })
    );
    at.step(Event::Closed { connection });
    at.begin(false).expect("there is room again");
}

#[test]
fn a_client_with_too_many_entries_is_refused() {
    let mut at = Node::new(ConnectionLimits {
        entries_max: 2,
        ..LIMITS
    });
    at.connect(false);
    let birth = birth_of(dot(3, 1));
    let known = session(&[1, 2, 3].map(|number| (dot(3, number), Fact::Subscription, birth)));
    let (count, entries_max) = (3, 2);
    let reason = RefuseReason::TooManyEntries { count, entries_max };
    assert_eq!(refused(&at.answer(1, dot(0, 1), 1, &known)), reason);
}

#[test]
fn answers_that_cannot_be_merged_are_not_guessed_at() {
    let mut at = Node::new(LIMITS);
    at.connect(false);
    let scattered = |from: u64| {
        let mut vector = VersionVector::default();
        for number in 0..crate::version_vector::INTERVALS_MAX as u64 {
            let dot = dot(3, from + 4 * number);
            vector
                .insert(crate::Interval::one(dot).expect("an event"))
                .expect("room");
        }
        KnownSession::from_parts(vector, BTreeSet::new(), Vec::new()).expect("an answer")
    };
    at.answer(1, dot(0, 1), 1, &scattered(1));
    let actions = at.answer(2, dot(0, 1), 1, &scattered(3));
    assert_eq!(refused(&actions), RefuseReason::TooScattered);
}

#[test]
fn bad_messages_name_the_peer_and_change_nothing() {
    let mut at = Node::new(LIMITS);
    let (connection, own) = at.connect_new();
    let peer = node(3);
    let asked = |old, by| Event::ReleaseAsked {
        from: peer,
        release: Release { old, by },
    };
    let by = |dot| {
        let clock = Hlc::at(900);
        Some(Claimant { clock, dot })
    };
    let old = dot(2, 1);
    assert_eq!(
        at.refuse(asked(old, None)),
        ConnectingError::NotHere { peer, old }
    );
    let other = dot(2, 1);
    let of_other = ConnectingError::OfAnotherNode { peer, dot: other };
    assert_eq!(at.refuse(asked(own, by(other))), of_other);
    assert_eq!(
        at.refuse(asked(own, by(dot(3, 0)))),
        ConnectingError::NoEvent { peer }
    );
    let released = Released {
        old: other,
        by: own,
        is_agreed: true,
    };
    let received = Event::ReleasedReceived { from: peer, released };
    assert_eq!(at.refuse(received), of_other);
    assert!(at.connections.is_live(connection));
}

#[test]
fn messages_for_what_has_ended_are_none() {
    let mut at = Node::new(LIMITS);
    let (_, own) = at.connect_new();
    assert_eq!(at.answer(1, own, 1, &KnownSession::default()), []);
    assert_eq!(at.released(dot(3, 1), own, false), []);
    assert_eq!(at.answer(1, dot(0, 99), 1, &KnownSession::default()), []);
    let mut earlier = own;
    earlier.run.incarnation = cluster::Incarnation(0);
    assert_eq!(at.answer(1, earlier, 1, &KnownSession::default()), []);
}
