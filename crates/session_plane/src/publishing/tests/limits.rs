//! Limits, violations of clients, and refused confirmations of peers.

use super::node::*;
use super::*;

#[test]
fn a_connection_with_too_many_messages_is_closed() {
    let maximum = 2;
    let mut node = Node::new(PublishingLimits {
        waiting_per_connection_max: maximum,
        ..LIMITS
    });
    node.publish_and_route(FIRST, 1, 1);
    node.publish(FIRST, 2, 2);
    let refused = [PublishingAction::Disconnect {
        connection: FIRST,
        reason: PublishViolation::ReceiveMaximumExceeded { maximum },
    }];
    assert_eq!(node.publish(FIRST, 3, 3), refused);
    assert_eq!(node.publish(SECOND, 3, 3).len(), 1, "another connection has room");
    (1..=3).for_each(|from| drop(node.confirm(from, number(1), 1)));
    assert_eq!(written(&node.publish(FIRST, 3, 3)).len(), 1, "PUBREC makes room");
}

#[test]
fn early_messages_count_for_their_connection() {
    let maximum = 1;
    let mut node = Node::without_routes(PublishingLimits {
        waiting_per_connection_max: maximum,
        ..LIMITS
    });
    assert_eq!(node.publish(FIRST, 1, 1), []);
    let refused = node.publish(FIRST, 2, 2);
    assert!(
        matches!(&refused[..], [PublishingAction::Disconnect { .. }]),
        "{refused:?}"
    );
}

#[test]
fn a_message_beyond_those_of_the_run_is_refused_and_leaves_nothing() {
    let waiting_max = 2;
    let mut node = Node::new(PublishingLimits {
        waiting_max,
        ..LIMITS
    });
    node.publish_and_route(FIRST, 1, 1);
    node.publish(FIRST, 2, 2);
    let reason = RefusePublish::TooManyWaiting { waiting_max };
    let refused = |connection, id| PublishingAction::Refuse {
        connection,
        packet_id: packet_id(id),
        reason,
    };
    assert_eq!(node.publish(SECOND, 3, 3), [refused(SECOND, 3)]);
    let theirs = number_of(run_of(3, 1), 9);
    let content = content(4);
    let found = Some(NumberedMessage {
        number: theirs,
        content,
    });
    let third = ConnectionId(3);
    node.open(third, 1, 200, vec![use_of(50, 60, found)]);
    assert_eq!(
        node.publish_dup(third, 7, 4),
        [refused(third, 7)],
        "with DUP, too"
    );
    (1..=3).for_each(|from| drop(node.confirm(from, number(1), 1)));
    assert_eq!(written(&node.publish_dup(third, 7, 4)).len(), 1);
    assert_eq!(
        reason.to_string(),
        "2 QoS 2 messages wait for PUBREC, as many as may"
    );
}

#[test]
fn numbers_that_were_given_up_are_not_more_than_vectors_have_room_for() {
    let given_up_max = 2;
    let mut node = Node::new(PublishingLimits {
        given_up_max,
        ..LIMITS
    });
    node.publish(FIRST, 1, 1);
    node.publish(FIRST, 2, 2);
    node.close(FIRST);
    let refused = [PublishingAction::Refuse {
        connection: SECOND,
        packet_id: packet_id(3),
        reason: RefusePublish::TooManyGivenUp { given_up_max },
    }];
    assert_eq!(node.publish(SECOND, 3, 3), refused);
    let number = number(1);
    assert_eq!(
        node.step(PublishingEvent::RoutedByPeer {
            from: NodeId(2),
            number,
        }),
        []
    );
    assert_eq!(
        written(&node.publish(SECOND, 3, 3)).len(),
        1,
        "a peer has routed one"
    );
}

#[test]
fn mqtt_4_3_3_4_pubrel_before_pubrec_ends_the_connection() {
    let refused = [PublishingAction::Disconnect {
        connection: FIRST,
        reason: PublishViolation::EarlyPubrel {
            packet_id: packet_id(7),
        },
    }];
    let mut node = Node::new(LIMITS);
    node.publish_and_route(FIRST, 7, 1);
    assert_eq!(node.pubrel(FIRST, 7), refused);
    let mut node = Node::without_routes(LIMITS);
    node.publish(FIRST, 7, 1);
    assert_eq!(node.pubrel(FIRST, 7), refused);
}

#[test]
fn reserved_numbers_are_those_that_wait() {
    let mut node = Node::new(LIMITS);
    assert_eq!(node.publishing.reserved(), VersionVector::default());
    node.publish_and_route(FIRST, 1, 1);
    (2..=4).for_each(|of| drop(node.publish(FIRST, of, u128::from(of))));
    for reserved in 2..=4 {
        assert!(node.publishing.reserved().covers(number(reserved)));
    }
    assert!(node.publishing.reserved().covers(number(1)), "a node may lack it");
    assert!(!node.publishing.reserved().covers(number(5)));
    node.close(FIRST);
    let only = Interval::one(number(1)).expect("a number");
    assert_eq!(node.publishing.reserved(), VersionVector::of_apart([only]));
    for from in 1..=3 {
        node.confirm(from, number(1), 1);
    }
    assert_eq!(node.publishing.reserved(), VersionVector::default());
}

#[test]
fn confirmations_of_what_was_not_sent_are_refused_by_name() {
    let mut node = Node::new(LIMITS);
    node.publish_and_route(FIRST, 7, 1);
    let (peer, last) = (NodeId(2), 1);
    let confirmed = |number, marker| {
        PublishingEvent::RouteConfirmed(RouteConfirmation {
            from: peer,
            number,
            marker,
        })
    };
    for number in [number(2), event(1)] {
        let refused = node.try_step(confirmed(number, 1));
        assert_eq!(refused, Err(PublishingError::NotGivenOut { peer, number }));
    }
    let refused = node.try_step(confirmed(number(1), 2));
    assert_eq!(
        refused,
        Err(PublishingError::LaterRing {
            peer,
            number: number(1),
            marker: 2,
            last,
        })
    );
    let theirs = number_of(run_of(3, 1), 9);
    assert_eq!(
        node.try_step(confirmed(theirs, 1)),
        Ok(Vec::new()),
        "it may have had PUBREC"
    );
    assert_eq!(node.confirm(9, number(1), 1), [], "a node that was not sent it");
    (1..=2).for_each(|from| drop(node.confirm(from, number(1), 1)));
    assert_eq!(node.confirm(3, number(1), 1), [pubrec(FIRST, 7)]);
    assert_eq!(node.confirm(3, number(1), 1), []);
}

#[test]
fn what_comes_of_a_connection_that_has_ended_is_nothing() {
    let mut node = Node::new(LIMITS);
    node.close(FIRST);
    assert_eq!(node.close(FIRST), []);
    assert_eq!(node.publish(FIRST, 7, 1), []);
    assert_eq!(node.pubrel(FIRST, 7), []);
    let uses = vec![use_of(50, 60, None)];
    let merged = PublishingEvent::UsesMerged {
        connection: FIRST,
        uses,
    };
    assert_eq!(node.step(merged), []);
    assert_eq!(node.publishing.waiting(), 0);
}
