use std::sync::Arc;

use bytes::Bytes;
use cluster::peer_header::group_of;
use cluster::random::Random;
use mqtt::memory::Held;
use proptest::prelude::*;
use protocol::packet::QoS;
use protocol::properties::{MessageProperties, UserProperties};
use protocol::{Text, TopicName};

use super::*;
use crate::epoch;

fn now() -> Now {
    Now {
        instant: epoch(),
        wall: 1_000_000,
        system_wall: 1_000_000,
    }
}

fn text(text: &str) -> Text {
    Text::new(text).expect("a text")
}

fn shared(filter: &str) -> SubscriptionFilter {
    SubscriptionFilter::parse(text(filter)).expect("a filter")
}

fn message(now: Now) -> Message {
    Message {
        topic: TopicName::parse(text("a/b")).expect("a topic"),
        payload: Bytes::from_static(b"payload"),
        properties: MessageProperties::default(),
        qos: QoS::AtLeastOnce,
        retain: true,
        publisher: None,
        expires_at: None,
        received_at: now.instant,
        origin: mqtt::origin::Origin::Unknown,
        id: None,
        is_passing: false,
        held: Held::default(),
    }
}

type Golden = (Frame, Bytes, &'static [u8]);

/// A message for a share and for subscriptions, and what of it comes before the message.
fn forwarded(now: Now) -> (Forwarded, Vec<u8>) {
    let share = shared("$share/s/a");
    let point = Some(Point::of_number(9));
    let mut receivers = Vec::new();
    put_receivers(&mut receivers, true, &[(Arc::new(share.clone()), point)]);
    let forwarded = Forwarded {
        is_for_subscriptions: true,
        shares: smallvec::smallvec![(share, point)],
        message: message(now),
    };
    (forwarded, receivers)
}

const LOST_NODE: NodeId = NodeId(7);

/// Every kind of item.
fn frame_of_items(now: Now) -> Golden {
    let filter = TopicFilter::parse(text("a/+")).expect("a filter");
    let share = shared("$share/s/a");
    let (forwarded, receivers) = forwarded(now);
    let body = forwarded::encode(&forwarded.message, now);
    let mut frame = items(5, 1, 2, 0);
    put_item(&mut frame, 3, [&[ADD], &[], b"a/+"]);
    put_item(&mut frame, 4, [&[REMOVE], &[], b"a/+"]);
    put_item(&mut frame, 5, [&[SHARE], &[], &share_item(&share, (1, 2))]);
    put_item(&mut frame, 6, [&[BEGIN], &[], &[]]);
    put_item(&mut frame, 7, [&[END], &[], &[]]);
    put_item(&mut frame, 8, [&[MESSAGE, 0, 0, 0, 10], &receivers, &body]);
    put_item(&mut frame, 9, [&[Subject::Copies.kind()], &[], b"copy"]);
    put_item(&mut frame, 10, [&[ASK], &[], &[]]);
    let lost = Lost {
        node: LOST_NODE,
        after: Word {
            run: Incarnation(2),
            number: 4,
        },
    };
    put_item(&mut frame, 11, [&[LOST], &[], &lost_item(lost)]);
    put_item(&mut frame, 12, [&[TAKEN_OVER], &[], &node_item(LOST_NODE)]);
    let came = came_by(&[(LOST_NODE, 6)]);
    put_item(&mut frame, 13, [&[REDIRECTED, 0, 0, 0, 10], &came, &body]);
    let debt = owed(3, &[LOST_NODE], &[(LOST_NODE, 6)]);
    put_item(&mut frame, 14, [&[OWED, 0, 0, 0, 10], &debt, &body]);
    put_item(&mut frame, 15, [&[KNOWN], &[], &known_item(7)]);
    let debt = OwedMessage {
        number: 3,
        side: [LOST_NODE].into(),
        came_by: [(LOST_NODE, 6)].into(),
        message: message(now),
    };
    let redirected = Redirected {
        came_by: [(LOST_NODE, 6)].into(),
        message: message(now),
    };
    let share = Item::Share {
        filter: share,
        connected: 1,
        all: 2,
    };
    let items = vec![
        (3, Item::Add(filter.clone())),
        (4, Item::Remove(filter)),
        (5, share),
        (6, Item::Begin),
        (7, Item::End),
        (8, Item::Message(Box::new(forwarded))),
        (9, Item::About(Subject::Copies, Bytes::from_static(b"copy"))),
        (10, Item::Ask),
        (11, Item::Lost(lost)),
        (12, Item::TakenOver(LOST_NODE)),
        (13, Item::Redirected(Box::new(redirected))),
        (14, Item::Owed(Box::new(debt))),
        (15, Item::Known(7)),
    ];
    let found = Frame::Items {
        after: 1,
        settled: 2,
        items,
    };
    (found, frame.freeze(), ITEMS_GOLDEN)
}

/// Frames of version 1, with what they say.
fn all(now: Now) -> Vec<Golden> {
    let (forwarded, receivers) = forwarded(now);
    let body = forwarded::encode(&forwarded.message, now);
    let mut unnumbered = loose(5);
    put_message(&mut unnumbered, [&[], &receivers, &body]);
    let said = Answer {
        incarnation: 6,
        probe: 7,
        taken: 8,
        on_disk: 10,
        durable: 9,
        has_gap: true,
        declined: vec![(8, shared("$share/s/a"))],
    };
    vec![
        frame_of_items(now),
        (
            Frame::Probe { number: 7 },
            probe(5, 7),
            b"\x01\xff\xff\xff\xfe\x20\0\0\0\x05\0\0\0\0\0\0\0\x07",
        ),
        (
            Frame::Loose(vec![forwarded]),
            unnumbered.freeze(),
            b"\x01\xff\xff\xff\xfe\x22\0\0\0\x05\0\0\0\x29\x01\x01\x01\0\0\0\0\0\0\0\x09\0\x0a$share/s/a\
              \0\x05\0\x03a/b\0\0\0\x07payload",
        ),
        (
            Frame::Answer(said.clone()),
            answer(5, &said),
            b"\x01\xff\xff\xff\xfe\x24\0\0\0\x05\0\0\0\x06\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x0a\
              \0\0\0\0\0\0\0\x09\x01\0\0\0\0\0\0\0\x08\0\x0a$share/s/a",
        ),
    ]
}

const ITEMS_GOLDEN: &[u8] = b"\x01\xff\xff\xff\xfe\x21\0\0\0\x05\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\
              \0\0\0\0\0\0\0\x03\0\0\0\x04\x01a/+\
              \0\0\0\0\0\0\0\x04\0\0\0\x04\x02a/+\
              \0\0\0\0\0\0\0\x05\0\0\0\x13\x03\0\0\0\x01\0\0\0\x02$share/s/a\
              \0\0\0\0\0\0\0\x06\0\0\0\x01\x04\
              \0\0\0\0\0\0\0\x07\0\0\0\x01\x05\
              \0\0\0\0\0\0\0\x08\0\0\0\x2e\x06\0\0\0\x0a\x01\x01\x01\0\0\0\0\0\0\0\x09\0\x0a$share/s/a\
              \0\x05\0\x03a/b\0\0\0\x07payload\
              \0\0\0\0\0\0\0\x09\0\0\0\x05\x08copy\
              \0\0\0\0\0\0\0\x0a\0\0\0\x01\x0a\
              \0\0\0\0\0\0\0\x0b\0\0\0\x15\x0b\0\0\0\0\0\0\0\x07\0\0\0\x02\0\0\0\0\0\0\0\x04\
              \0\0\0\0\0\0\0\x0c\0\0\0\x09\x0c\0\0\0\0\0\0\0\x07\
              \0\0\0\0\0\0\0\x0d\0\0\0\x28\x0d\0\0\0\x0a\x01\0\0\0\0\0\0\0\x07\
              \0\0\0\0\0\0\0\x06\0\x05\0\x03a/b\0\0\0\x07payload\
              \0\0\0\0\0\0\0\x0e\0\0\0\x39\x10\0\0\0\x0a\0\0\0\0\0\0\0\x03\x01\0\0\0\0\0\0\0\x07\x01\0\0\0\0\0\0\0\x07\
              \0\0\0\0\0\0\0\x06\0\x05\0\x03a/b\0\0\0\x07payload\
              \0\0\0\0\0\0\0\x0f\0\0\0\x09\x11\0\0\0\0\0\0\0\x07";

/// Bytes that version 1 sends. Another form needs another version.
#[test]
fn frames_of_version_1_are_written_as_ever_and_read() {
    let now = now();
    for (frame, bytes, golden) in all(now) {
        assert_eq!(
            bytes.escape_ascii().to_string(),
            golden.escape_ascii().to_string(),
            "{frame:?}"
        );
        assert_eq!(decode(&bytes, now), Ok((5, frame)));
    }
}

#[test]
fn another_version_is_refused() {
    for (_, bytes, _) in all(now()) {
        assert_eq!(group_of(&bytes), Ok(ROUTES));
        for found in [0, 2] {
            let other = Bytes::from([&[found], &bytes[1..]].concat());
            assert_eq!(group_of(&other), Err(PeerError::Version { found }));
        }
    }
}

#[test]
fn any_bytes_are_a_frame_or_are_refused() {
    let now = now();
    let mut random = Random::new(1);
    let frames = all(now);
    for round in 0..20_000 {
        let (_, bytes, _) = &frames[round % 4];
        let mut bytes = bytes.to_vec();
        for _ in 0..random.between(1, 4) {
            let place = random.between(5, bytes.len());
            bytes[place] = random.next() as u8;
        }
        bytes.truncate(random.between(6, bytes.len() + 1));
        let _ = decode(&bytes.into(), now);
    }
}

fn properties() -> impl Strategy<Value = MessageProperties> {
    let short = || proptest::option::of("[a-z]{0,8}");
    let pairs = proptest::collection::vec(("[a-z$]{1,4}", "[a-z]{0,4}"), 0..4);
    let bytes = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9));
    (
        proptest::option::of(any::<bool>()),
        short(),
        short(),
        bytes,
        pairs,
    )
        .prop_map(
            |(payload_is_utf8, content_type, response, correlation_data, pairs)| {
                let pairs = pairs.iter().map(|(name, value)| (&**name, &**value));
                let user_properties = UserProperties::from_pairs(pairs).expect("short texts");
                MessageProperties {
                    payload_is_utf8,
                    message_expiry: None,
                    content_type: content_type.map(|content| text(&content)),
                    response_topic: response.map(|topic| text(&format!("r{topic}"))),
                    correlation_data: correlation_data.map(Bytes::from),
                    user_properties,
                }
            },
        )
}

proptest! {
    #[test]
    fn a_message_comes_out_as_it_went_in_with_what_is_left_of_its_time(
        properties in properties(),
        payload in proptest::collection::vec(any::<u8>(), 0..64),
        qos in 0..3_usize,
        retain in any::<bool>(),
        expiry in proptest::option::of(1..100_000_u32),
        waited in 0..5_000_u64,
        ahead in 0..1_000_000_u64,
    ) {
        let sent = now();
        let message = Message {
            payload: payload.into(),
            properties: MessageProperties { message_expiry: expiry, ..properties },
            qos: [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce][qos],
            retain,
            expires_at: expiry.map(|seconds| sent.instant + Duration::from_secs(seconds.into())),
            ..message(sent)
        };
        let bytes = forwarded::encode(&message, sent);
        // Clocks of nodes differ, and an instant is another one there.
        let there = Now {
            instant: sent.instant + Duration::from_secs(3),
            wall: sent.wall + ahead,
            system_wall: sent.wall + ahead,
        };
        let waited = Duration::from_millis(waited);
        let found = forwarded::decode(bytes, waited, there).expect("it was encoded");
        let left = expiry.map(|seconds| Duration::from_secs(seconds.into()).saturating_sub(waited));
        let expected = Message {
            expires_at: left.map(|left| there.instant + left),
            received_at: there.instant,
            ..message
        };
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn subjects_are_items_of_these_kinds_for_ever() {
    let subjects = [(7, Subject::Clients), (8, Subject::Copies), (14, Subject::Wills)];
    for (kind, subject) in subjects {
        assert_eq!(subject.kind(), kind);
        assert_eq!(Subject::of(kind), Some(subject));
    }
}
