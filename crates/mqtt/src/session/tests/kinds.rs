//! Messages, replies and notifications in one queue, each with limits of its own.

use super::*;
use crate::limits::NOTIFICATIONS_MAX;

const FULL_WITH_TWO: SessionLimits = SessionLimits {
    queue_messages_max: 2,
    queue_bytes_max: 64 << 20,
    ..LIMITS
};

fn push(play: &mut Play, kind: DeliveryKind, payload: &str) -> PushOutcome {
    let delivery = Delivery {
        kind,
        ..delivery(Q1, payload, None)
    };
    play.session.push(at(0), delivery, &mut play.dropped)
}

#[test]
fn replies_and_notifications_outlast_messages_and_keep_their_place() {
    for (queue_full, said) in [
        (QueueFull::DropOldest, ["n", "r", "b", "c", "s"]),
        (QueueFull::DropNewest, ["n", "a", "r", "b", "s"]),
    ] {
        let limits = SessionLimits {
            queue_full,
            ..FULL_WITH_TWO
        };
        let mut play = Play::new(limits, 10);
        for (kind, payload) in [
            (DeliveryKind::Notification, "n"),
            (DeliveryKind::Message, "a"),
            (DeliveryKind::Reply, "r"),
            (DeliveryKind::Message, "b"),
            (DeliveryKind::Message, "c"),
            (DeliveryKind::Reply, "s"),
        ] {
            push(&mut play, kind, payload);
        }
        assert_eq!(play.session.replies().0, 2);
        let payloads: Vec<_> = play
            .says()
            .iter()
            .map(|words| words[words.len() - 1..].to_owned())
            .collect();
        assert_eq!(payloads, said, "{queue_full:?}");
        assert_eq!((play.session.replies(), play.session.queue_bytes()), ((0, 0), 0));
    }
}

#[test]
fn as_many_notifications_wait_as_keys_may_be_watched() {
    let mut play = Play::new(FULL_WITH_TWO, 10);
    for _ in 0..NOTIFICATIONS_MAX {
        let outcome = push(&mut play, DeliveryKind::Notification, "n");
        assert_eq!(outcome, PushOutcome::Queued { durable: None });
    }
    assert_eq!(
        push(&mut play, DeliveryKind::Notification, "n"),
        PushOutcome::Dropped(DropCause::QueueMessages)
    );
    push(&mut play, DeliveryKind::Message, "a");
    assert_eq!(play.causes(), [], "a message has a place beside them");
}

#[test]
fn the_bytes_of_notifications_are_bounded_and_those_of_replies_are_not() {
    let limits = SessionLimits {
        queue_bytes_max: 1_000,
        ..LIMITS
    };
    let mut play = Play::new(limits, 10);
    let large = "x".repeat(600);
    for kind in [
        DeliveryKind::Notification,
        DeliveryKind::Reply,
        DeliveryKind::Reply,
    ] {
        let outcome = push(&mut play, kind, &large);
        assert_eq!(outcome, PushOutcome::Queued { durable: None });
    }
    assert_eq!(
        push(&mut play, DeliveryKind::Notification, &large),
        PushOutcome::Dropped(DropCause::QueueBytes)
    );
}
