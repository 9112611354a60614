use super::node::{Node, ask_release, asked, messages, node, older, session};
use super::*;

/// Claimant of the first CONNECT at a [`Node`].
fn claimant() -> Claimant {
    Claimant {
        clock: Hlc::at(101),
        dot: dot(0, 1),
    }
}

#[test]
fn a_client_without_an_older_connection_is_accepted_in_two_round_trips() {
    let mut at = Node::new(LIMITS);
    let (connection, first) = at.connect(false);
    assert_eq!(asked(&first), [(node(1), 1), (node(2), 1)]);
    let own = dot(0, 1);
    let second = at.answer_all(own, 1, &KnownSession::default());
    let entry = dot(0, 2);
    let waits = Action::AwaitSession {
        connection,
        entry,
        round: 1,
    };
    assert_eq!(second, [waits], "nobody is asked again");
    let start = SessionStart {
        birth: SessionBirth::New {
            clock: Hlc::at(101),
            is_clean: false,
        },
        connected: Hlc::at(101),
        removes: BTreeSet::new(),
        after: Hlc::at(101),
        left_at: None,
    };
    assert_eq!(at.writes, [Write::SessionStart(start)]);
    assert!(
        !at.connections.is_live(connection),
        "the entry is not durable yet"
    );
    let accepted = at.step(Event::SessionDurable { connection, round: 1 });
    assert!(matches!(
        accepted[..],
        [Action::Accept {
            is_present: false,
            ..
        }]
    ));
    assert!(at.connections.is_live(connection));
    assert_eq!(at.connections.deadline(), None);
}

/// Rule `ask-with-known`.
#[test]
fn a_question_carries_what_the_node_knows() {
    let mut at = Node::new(LIMITS);
    let (_, actions) = at.connect(false);
    let ask = match messages(&actions)[..] {
        [(_, ConnectingMessage::Ask(ask)), _] => ask.clone(),
        ref other => panic!("{other:?}"),
    };
    assert_eq!(ask.client, client(0));
    assert_eq!(ask.connection, dot(0, 1));
    assert_eq!(ask.known, at.cluster.known());
}

#[test]
fn a_session_is_found_where_one_owner_has_it() {
    let mut at = Node::new(LIMITS);
    let (connection, _) = at.connect(false);
    let own = dot(0, 1);
    let birth = birth_of(dot(3, 4));
    let known = session(&[
        (dot(3, 4), Fact::Session { connected: None }, birth),
        (dot(3, 6), Fact::Session { connected: None }, birth),
        (dot(3, 7), Fact::Subscription, birth),
    ]);
    assert_eq!(at.answer(1, own, 1, &known), []);
    at.answer(2, own, 1, &KnownSession::default());
    let start = SessionStart {
        birth: SessionBirth::Resumed(birth),
        connected: Hlc::at(101),
        removes: BTreeSet::from([dot(3, 4), dot(3, 6)]),
        after: Hlc::at(101),
        left_at: None,
    };
    assert_eq!(
        at.writes,
        [Write::SessionStart(start)],
        "anew, with the same birth"
    );
    let accepted = at.step(Event::SessionDurable { connection, round: 1 });
    let [
        Action::Accept {
            is_present: true,
            session,
            ..
        },
    ] = &accepted[..]
    else {
        panic!("{accepted:?}");
    };
    let left: Vec<EntryKind> = session.entries().iter().map(|(id, _)| id.kind).collect();
    assert_eq!(left, [EntryKind::Subscription]);
}

/// The merge rule: an owner that covers an entry and lacks it says that it was removed.
#[test]
fn a_session_that_an_owner_has_removed_is_not_found() {
    let mut at = Node::new(LIMITS);
    at.connect(false);
    let own = dot(0, 1);
    let birth = birth_of(dot(3, 4));
    at.answer(
        1,
        own,
        1,
        &session(&[(dot(3, 4), Fact::Session { connected: None }, birth)]),
    );
    let covered = node::vector(&[dot(3, 5)]);
    let removed = KnownSession::from_parts(covered, BTreeSet::new(), Vec::new()).expect("an answer");
    at.answer(2, own, 1, &removed);
    assert!(matches!(
        &at.writes[..],
        [Write::SessionStart(SessionStart {
            birth: SessionBirth::New { .. },
            ..
        })]
    ));
}

/// DUP is set where an older connection may have sent a message. [MQTT-3.3.1-1]
#[test]
fn the_end_of_the_last_connection_is_known_where_its_own_node_has_written_it() {
    let left_at = |sessions: &[Dot], expiries: &[Dot]| {
        let mut at = Node::new(LIMITS);
        at.connect(false);
        let birth = birth_of(dot(3, 4));
        let of_kind = |dots: &[Dot], fact: Fact| {
            dots.iter()
                .map(move |dot| (*dot, fact.clone(), birth))
                .collect::<Vec<_>>()
        };
        let entries = [
            of_kind(sessions, Fact::Session { connected: None }),
            of_kind(expiries, Fact::Expiry { connected: None }),
        ]
        .concat();
        at.answer_all(dot(0, 1), 1, &session(&entries));
        match &at.writes[..] {
            [Write::SessionStart(start)] => start.left_at,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(left_at(&[dot(3, 4)], &[dot(3, 9)]), Some(Hlc::at(9)));
    assert_eq!(left_at(&[dot(3, 4)], &[]), None, "nobody has said it");
    let by_owner = left_at(&[dot(3, 4)], &[dot(2, 9)]);
    assert_eq!(
        by_owner, None,
        "the owner may not know what the connection has sent"
    );
    let of_older = left_at(&[dot(3, 8)], &[dot(3, 6)]);
    assert_eq!(of_older, None, "it is that of a connection before the last one");
    let of_sides = left_at(&[dot(3, 4), dot(2, 5)], &[dot(3, 9)]);
    assert_eq!(of_sides, None, "each side of a split had a connection");
}

#[test]
fn the_entry_is_later_than_all_that_was_seen() {
    let mut at = Node::new(LIMITS);
    at.connect(false);
    let birth = birth_of(dot(3, 400));
    at.answer_all(
        dot(0, 1),
        1,
        &session(&[(dot(3, 400), Fact::Session { connected: None }, birth)]),
    );
    let [Write::SessionStart(start)] = &at.writes[..] else {
        panic!("{:?}", at.writes);
    };
    assert_eq!(start.after, Hlc::at(400));
}

#[test]
fn a_clean_start_ends_the_older_session_first() {
    let mut at = Node::new(LIMITS);
    let (connection, _) = at.connect(true);
    let birth = birth_of(dot(3, 4));
    let known = session(&[
        (dot(3, 4), Fact::Session { connected: None }, birth),
        (dot(3, 5), Fact::Subscription, birth),
    ]);
    at.answer_all(dot(0, 1), 1, &known);
    let end = SessionEnd {
        removes: BTreeSet::from([dot(3, 4), dot(3, 5)]),
        left: known.entries().ending(known.covered()),
    };
    assert!(end.left.is_some(), "every end leaves an entry");
    assert_eq!(at.writes[0], Write::SessionEnd(end));
    assert!(matches!(
        &at.writes[1..],
        [Write::SessionStart(SessionStart {
            birth: SessionBirth::New { is_clean: true, .. },
            ..
        })]
    ));
    let accepted = at.step(Event::SessionDurable { connection, round: 1 });
    let [
        Action::Accept {
            is_present: false,
            session,
            ..
        },
    ] = &accepted[..]
    else {
        panic!("{accepted:?}");
    };
    assert!(session.entries().is_empty());
}

/// Rule `end-beats`: what was begun clean leaves an end, in place of an older one.
#[test]
fn a_session_that_was_begun_clean_leaves_an_end() {
    let mut at = Node::new(LIMITS);
    at.connect(true);
    let clean = |dot| Birth {
        is_clean: true,
        ..birth_of(dot)
    };
    let known = session(&[
        (dot(3, 1), Fact::End(Box::default()), clean(dot(4, 1))),
        (dot(3, 2), Fact::Session { connected: None }, clean(dot(3, 2))),
        older(dot(3, 3)),
    ]);
    at.cluster.present.remove(&node(3));
    at.answer_all(dot(0, 1), 1, &known);
    let end = SessionEnd {
        removes: BTreeSet::from([dot(3, 1), dot(3, 2)]),
        left: known.entries().ending(known.covered()),
    };
    let left = end.left.as_ref().expect("a session has ended");
    assert_eq!(left.birth, clean(dot(3, 2)));
    let Fact::End(ended) = &left.fact else {
        panic!("{left:?}");
    };
    assert!(ended.seen().covers(dot(3, 2)), "the owners had decided upon it");
    assert_eq!(at.writes[0], Write::SessionEnd(end), "the connection stays");
}

/// Rule `read-after-release`.
#[test]
fn the_session_is_read_again_after_a_release() {
    let mut at = Node::new(LIMITS);
    let (connection, _) = at.connect(false);
    let (own, old, birth) = (dot(0, 1), dot(3, 4), birth_of(dot(3, 3)));
    let known = session(&[(dot(3, 3), Fact::Session { connected: None }, birth), older(old)]);
    assert_eq!(at.answer_all(own, 1, &known), [ask_release(old, claimant())]);
    assert_eq!(asked(&at.released(old, own, true)), [(node(1), 2), (node(2), 2)]);
    assert_eq!(at.writes, [], "nothing is decided by the first answers");
    let last = session(&[
        (dot(3, 3), Fact::Session { connected: None }, birth),
        older(old),
        (dot(3, 9), Fact::Subscription, birth),
    ]);
    at.answer_all(own, 2, &last);
    let accepted = at.step(Event::SessionDurable { connection, round: 2 });
    let [Action::Accept { session, .. }] = &accepted[..] else {
        panic!("{accepted:?}");
    };
    let kind = EntryKind::Subscription;
    let subscription = session.entries().get(crate::EntryId { kind, dot: dot(3, 9) });
    assert!(subscription.is_some(), "it came before the release");
}

/// An older connection that shows in the second answers is released, and the session read once more.
#[test]
fn each_release_is_followed_by_a_reading() {
    let mut at = Node::new(LIMITS);
    at.connect(false);
    let (own, old, other) = (dot(0, 1), dot(3, 4), dot(2, 9));
    at.answer_all(own, 1, &session(&[older(old)]));
    at.released(old, own, true);
    let actions = at.answer_all(own, 2, &session(&[older(old), older(other)]));
    assert_eq!(actions, [ask_release(other, claimant())], "the first is released");
    assert_eq!(asked(&at.released(other, own, true)).len(), 2);
    at.answer_all(own, 3, &session(&[older(old), older(other)]));
    assert_eq!(at.writes.len(), 3, "both connections are removed");
}

/// A client is never kept out by what it has left behind.
#[test]
fn releases_of_one_claim_are_bounded() {
    let mut at = Node::new(LIMITS);
    at.connect(false);
    let (own, all) = (dot(0, 1), [1, 2, 3].map(|number| dot(3, number)));
    let known = session(&all.map(older));
    let first = all[..2].iter().map(|old| ask_release(*old, claimant()));
    assert_eq!(at.answer_all(own, 1, &known), first.collect::<Vec<_>>());
    assert_eq!(at.released(all[0], own, true), []);
    at.released(all[1], own, true);
    assert_eq!(at.answer_all(own, 2, &known), [ask_release(all[2], claimant())]);
    at.released(all[2], own, true);
    at.answer_all(own, 3, &known);
    assert_eq!(at.writes.len(), 4, "all three are removed");
}

/// Rule `keep-open-connections`.
#[test]
fn only_connections_that_have_ended_are_removed() {
    let mut at = Node::new(LIMITS);
    at.connect(false);
    let (own, released, away) = (dot(0, 1), dot(3, 4), dot(5, 2));
    let restarted = dot(2, 5);
    let newer = Run {
        incarnation: cluster::Incarnation(2),
        ..restarted.run
    };
    at.cluster.present.insert(newer.node, newer);
    let mut unmet = dot(1, 5);
    unmet.run.incarnation = cluster::Incarnation(2);
    let known = session(&[older(released), older(away), older(restarted), older(unmet)]);
    let actions = at.answer_all(own, 1, &known);
    assert_eq!(
        actions,
        [ask_release(released, claimant())],
        "the others cannot be asked"
    );
    at.released(released, own, true);
    at.answer_all(own, 2, &known);
    let ended = |write: &Write| match write {
        Write::OlderEnded(end) => Some(end.connection),
        _ => None,
    };
    let ended: Vec<Dot> = at.writes.iter().filter_map(ended).collect();
    assert_eq!(ended, [restarted, released], "{away:?} and {unmet:?} may be open");
}

/// Rules `will-left` and `will-cancelled`.
#[test]
fn wills_of_older_connections_are_left_or_cancelled() {
    let will = |connection, delayed_since| {
        Fact::Will(Box::new(WillTerms {
            connection,
            delayed_since,
        }))
    };
    let (ended, away) = (dot(9, 1), dot(5, 2));
    let mut restarted = run(9);
    restarted.incarnation = cluster::Incarnation(2);
    let birth = birth_of(dot(5, 1));
    let known = session(&[
        older(ended),
        (dot(9, 2), will(ended, None), birth),
        older(away),
        (dot(5, 3), will(away, Some(Hlc::at(1))), birth),
    ]);
    for (is_clean, cancelled) in [(false, BTreeSet::from([dot(5, 3)])), (true, BTreeSet::new())] {
        let mut at = Node::new(LIMITS);
        at.cluster.present.insert(restarted.node, restarted);
        at.connect(is_clean);
        at.answer_all(dot(0, 1), 1, &known);
        let left = ConnectionEnd {
            connection: ended,
            will: Some(birth),
        };
        assert_eq!(at.writes[0], Write::OlderEnded(left));
        let [_, Write::SessionStart(start)] = &at.writes[..] else {
            panic!("{:?}", at.writes);
        };
        assert_eq!(start.removes, cancelled);
    }
}

/// It has left it itself, or its client has sent DISCONNECT.
#[test]
fn the_will_of_a_released_connection_is_not_left_again() {
    let mut at = Node::new(LIMITS);
    at.connect(false);
    let (own, old, birth) = (dot(0, 1), dot(3, 4), birth_of(dot(3, 3)));
    let terms = WillTerms {
        connection: old,
        delayed_since: None,
    };
    let known = session(&[older(old), (dot(3, 5), Fact::Will(Box::new(terms)), birth)]);
    at.answer_all(own, 1, &known);
    at.released(old, own, true);
    at.answer_all(own, 2, &known);
    let ended = ConnectionEnd {
        connection: old,
        will: None,
    };
    assert_eq!(at.writes[0], Write::OlderEnded(ended));
}

/// Rule `routes-tell`.
#[test]
fn what_routes_know_of_a_session_counts() {
    let mut at = Node::new(LIMITS);
    let birth = birth_of(dot(3, 4));
    at.cluster.routes = Some(session(&[(dot(3, 4), Fact::Session { connected: None }, birth)]));
    at.connect(false);
    at.answer_all(dot(0, 1), 1, &KnownSession::default());
    assert!(matches!(
        &at.writes[..],
        [Write::SessionStart(SessionStart { birth: SessionBirth::Resumed(found), .. })] if *found == birth
    ));
}

#[test]
fn a_claim_takes_no_longer_than_it_may() {
    let mut at = Node::new(LIMITS);
    let (connection, _) = at.connect(false);
    let due = at.now + LIMITS.claim_max;
    assert_eq!(at.connections.deadline(), Some(due));
    at.answer(1, dot(0, 1), 1, &KnownSession::default());
    let mut actions = Vec::new();
    at.connections.tick(due - Duration::from_millis(1), &mut actions);
    assert_eq!(actions, []);
    at.connections.tick(due, &mut actions);
    let reason = RefuseReason::NotAnswered { owner: node(2) };
    assert_eq!(actions, [Action::Refuse { connection, reason }]);
    assert_eq!(
        at.answer(2, dot(0, 1), 1, &KnownSession::default()),
        [],
        "it comes too late"
    );
    at.step(Event::Closed { connection });
    assert_eq!(at.writes, [Write::Closed { dot: dot(0, 1) }], "its entry goes");
    assert!(at.connections.is_empty());
}

/// Wait that is named when the time is over.
fn overdue(at: &mut Node) -> RefuseReason {
    let mut actions = Vec::new();
    at.connections.tick(at.now + LIMITS.claim_max, &mut actions);
    match actions[..] {
        [Action::Refuse { reason, .. }] => reason,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn each_wait_has_a_name() {
    let mut at = Node::new(LIMITS);
    at.begin(false).expect("room");
    assert_eq!(overdue(&mut at), RefuseReason::NotDurable);
    let mut at = Node::new(LIMITS);
    at.cluster.owners.clear();
    at.connect(false);
    assert_eq!(overdue(&mut at), RefuseReason::NoOwner);
    let mut at = Node::new(LIMITS);
    at.connect(false);
    let old = dot(3, 4);
    at.answer_all(dot(0, 1), 1, &session(&[older(old)]));
    assert_eq!(overdue(&mut at), RefuseReason::NotReleased { old });
    let mut at = Node::new(LIMITS);
    at.connect(false);
    at.answer_all(dot(0, 1), 1, &KnownSession::default());
    assert_eq!(overdue(&mut at), RefuseReason::NotDurable);
}
