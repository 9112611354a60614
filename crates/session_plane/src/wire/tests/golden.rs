//! Golden files: bytes of each kind as version 1 writes them. They are never edited.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use cluster::NodeId;

use super::contents::PlaneSample;
use super::*;
use crate::feed::{
    CloseReason, DeliveryChanges, FeedDelivery, FeedId, FeedItem, FeedItems, FeedOpen, KnownDelivery,
    QueueId, Window,
};
use crate::membership::{Answer, Handshake, Stay};
use crate::stream::{CoveredSlots, NumberRange, ResendId, StreamPosition};
use crate::transfer::RunPosition;
use crate::{NodeState, SwimIncarnation, View};

mod connecting;
mod contents;
mod expiry;
mod groups;
mod interests;
mod publishing;
mod retained;
mod slots;
mod values;

use connecting::claims;
use expiry::{expiring, expiring_session, expiry_part};
use groups::{given, group_part};
use interests::interests;
use publishing::routes;
use retained::{clearing, retained_part, retaining};
use slots::{parts, questions};
use values::{client, clock, dot, event, introduction, key, present, run, settled, slot_set, vector};

#[test]
fn version_1_is_written_as_ever_and_read() {
    let mut kinds = BTreeSet::new();
    for (name, message) in goldens() {
        let golden = compare(name, &message.encode());
        let read = Sample::decode(golden.clone());
        assert_eq!(read.as_ref(), Ok(&message), "{name}");
        assert_eq!(read.map(|message| message.encode()), Ok(golden), "{name}");
        kinds.insert(message.kind());
    }
    assert_eq!(kinds, KINDS.iter().map(|row| row.kind).collect());
}

#[test]
fn version_1_has_contents_of_events_as_ever() {
    let of_topics = [
        ("content-change-retained", retaining()),
        ("content-change-cleared", clearing()),
        ("content-change-expiry", expiring()),
    ];
    for (name, message) in contents::contents().into_iter().chain(of_topics) {
        let golden = compare(name, &message.encode());
        assert_eq!(PlaneSample::decode(golden), Ok(message), "{name}");
    }
}

fn compare(name: &str, bytes: &[u8]) -> Bytes {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    let path = folder.join(name).with_extension("message");
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(&folder).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    let golden = fs::read(path).unwrap();
    assert_eq!(golden, bytes, "{name}");
    Bytes::from(golden)
}

/// One message of each kind at least, by the name of its file.
pub(super) fn goldens() -> Vec<(&'static str, Sample)> {
    let mut all = vec![("hello", Message::Hello(Hello { run: run(1) }))];
    let planes = [membership(), streams(), flushes(), questions(), parts()];
    let planes = planes.into_iter().flatten();
    all.extend(planes.map(|(name, message)| (name, Message::Replication(message))));
    let claims = claims().into_iter();
    all.extend(claims.map(|(name, message)| (name, Message::Connecting(message))));
    all.extend(feeds());
    let routes = routes().into_iter();
    all.extend(routes.map(|(name, message)| (name, Message::Publishing(message))));
    all.push(("give", Message::Groups(given())));
    let interests = interests().into_iter();
    all.extend(interests.map(|(name, message)| (name, Message::Interests(message))));
    all.push(("slot-part-group-facts", Message::Replication(group_part())));
    all.push(("slot-part-retained", Message::Replication(retained_part())));
    all.push(("slot-part-expiry", Message::Replication(expiry_part())));
    all.push(("session-expiring", expiring_session()));
    all
}

fn membership() -> Vec<(&'static str, Replication)> {
    let stay = |node, incarnation| Stay {
        run: run(node),
        incarnation: SwimIncarnation(incarnation),
    };
    let answer = Answer {
        introduction: introduction(2, NodeState::Merging),
        offer: stay(1, 4),
    };
    let confirm = crate::membership::Confirm {
        introduction: introduction(1, NodeState::MergeMinority),
        offer: SwimIncarnation(4),
        answer: stay(2, 5),
        minority: Some(NodeId(2)),
    };
    vec![
        (
            "handshake-offer",
            Replication::Handshake(Handshake::Offer(introduction(1, NodeState::Running))),
        ),
        (
            "handshake-answer",
            Replication::Handshake(Handshake::Answer(answer)),
        ),
        (
            "handshake-confirm",
            Replication::Handshake(Handshake::Confirm(confirm)),
        ),
        ("conviction", Replication::Conviction(stay(3, 300))),
    ]
}

fn streams() -> Vec<(&'static str, Replication)> {
    let view = View::new(vec![
        present(1, NodeState::Running),
        present(2, NodeState::Joining),
    ]);
    let marker = SentEventKind::RingMarker(view.expect("a view"));
    let change = |slots: &[u16]| SentEventKind::Change(slot_set(slots));
    let next = NextEvent {
        after: 40,
        event: event(43, change(&[9, 2_000, 4_096])),
    };
    let heartbeat = Heartbeat {
        position: Some(StreamPosition {
            after: 43,
            number: 70,
        }),
        confirmed: Some(12),
        stable: 41,
        clock: clock(5),
        known: vector(),
        settled: settled(),
    };
    let confirm = Confirm {
        number: 70,
        known: vector(),
    };
    let resend = SentResend {
        id: ResendId(3),
        slots: slot_set(&[0, 1, 4_095, 4_096, 4_097]),
        numbers: NumberRange { first: 20, last: 45 },
        events: vec![event(30, change(&[1])), event(45, change(&[4_095, 4_097]))],
    };
    vec![
        ("welcome", Replication::Welcome(event(38, marker))),
        ("event", Replication::Event(next)),
        ("heartbeat", Replication::Heartbeat(heartbeat)),
        ("confirm", Replication::Confirm(confirm)),
        ("resend", Replication::Resend(resend)),
        ("confirm-resent", Replication::ConfirmResent(ResendId(3))),
    ]
}

fn flushes() -> Vec<(&'static str, Replication)> {
    let covered = |first, last, slots: &[u16]| CoveredSlots {
        numbers: NumberRange { first, last },
        slots: slot_set(slots),
    };
    let change = SentEventKind::Change(slot_set(&[9]));
    let view = View::new(vec![present(1, NodeState::Running)]).expect("a view");
    let last = event(43, change);
    let flush = SentFlush {
        run: last.dot.run,
        from: 40,
        to: 44,
        base: Some(view),
        events: vec![last],
        slots: vec![covered(41, 42, &[9, 2_000]), covered(43, 44, &[9])],
    };
    let position = RunPosition {
        run: run(3),
        number: 41,
    };
    vec![
        ("flush-position", Replication::FlushPosition(position)),
        ("flush-events", Replication::FlushEvents(flush)),
    ]
}

fn feeds() -> Vec<(&'static str, Sample)> {
    let (feed, window) = (
        FeedId(6),
        Window {
            items: 100,
            bytes: 65_536,
        },
    );
    let known = |number, is_gone| KnownDelivery {
        message: dot(1, number),
        is_gone,
    };
    let open = FeedOpen {
        feed,
        queue: QueueId {
            client: client("panel"),
            birth: dot(1, 2),
        },
        known: Arc::new(vector()),
        held: BTreeSet::from([key(11), key(12)]),
        deliveries: BTreeMap::from([(dot(2, 13), known(11, false)), (dot(2, 14), known(12, true))]),
        own_after: dot(2, 0),
        window,
    };
    let items = FeedItems {
        feed,
        number: 1,
        deliveries: DeliveryChanges {
            added: vec![FeedDelivery {
                dot: dot(3, 15),
                known: known(16, false),
                value: Bytes::from_static(b"id 4"),
            }],
            gone: vec![dot(3, 17)],
            ended: vec![dot(3, 18)],
        },
        items: vec![FeedItem {
            key: key(19),
            value: Bytes::from_static(b"content"),
        }],
        removed: vec![key(11)],
        removed_by: vector(),
    };
    let closed = |reason| Message::Feed(FeedMessage::Closed { feed, reason });
    vec![
        ("feed-open", Message::Feed(FeedMessage::Open(open))),
        ("feed-items", Message::Feed(FeedMessage::Items(items))),
        ("feed-window", Message::Feed(FeedMessage::Window { feed, window })),
        ("feed-close", Message::Feed(FeedMessage::Close { feed })),
        ("feed-closed-not-owner", closed(CloseReason::NotOwner)),
        ("feed-closed-full", closed(CloseReason::Full)),
        ("feed-closed-deliveries", closed(CloseReason::TooManyDeliveries)),
        ("feed-closed-no-session", closed(CloseReason::NoSession)),
    ]
}
