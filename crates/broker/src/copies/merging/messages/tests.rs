use std::num::NonZeroU64;

use cluster::session_plane::Actor;
use mqtt::origin::MessageId;

use super::*;

fn id(id: u16) -> PacketId {
    PacketId::new(id).expect("above 0")
}

fn word(run: u32, number: u64) -> Word {
    Word {
        run: Incarnation(run),
        number,
    }
}

fn leave() -> Leave {
    let mut clock = VectorClock::new();
    let actor = Actor {
        node: NodeId(2),
        incarnation: Incarnation(1),
    };
    clock.increment(actor, 0).expect("there is room");
    Leave {
        number: SessionNumber(1),
        client_id: Text::new("c").expect("short"),
        is_first: true,
        is_last: true,
        had_client: true,
        is_incomplete: false,
        is_clean: false,
        record: Bytes::from_static(b"r"),
        clock,
        mark: Some(Mark {
            node: NodeId(3),
            number: Some(SessionNumber(4)),
            next_sequence: 5,
        }),
        lost_at: Some(6),
        subscribed: vec![Bytes::from_static(b"a")],
        unsubscribed: vec![Bytes::from_static(b"b")],
        subscriptions: vec![(Bytes::from_static(b"a"), Bytes::from_static(b"v"))],
    }
}

fn leavings() -> Leavings {
    Leavings {
        number: SessionNumber(1),
        is_first: true,
        is_last: false,
        sent_below: 9,
        remaining: vec![(7, None), (8, Some(id(2)))],
        received: vec![id(3)],
        deliveries: vec![Left {
            sequence: 9,
            is_known: true,
            value: Bytes::from_static(b"v"),
        }],
    }
}

fn got() -> Got {
    let mut got = Got::default();
    let id = MessageId {
        node: NodeId(2),
        run: 3,
        number: NonZeroU64::new(4).expect("above 0"),
    };
    got.insert(id, 1);
    got
}

fn examples() -> Vec<(MergeMessage, &'static [u8])> {
    let since = Since {
        incarnation: 2,
        number: 3,
        redirected: vec![(4, 5)],
        losses: vec![LossSaid {
            lost: NodeId(6),
            after: word(7, 8),
            number: 9,
        }],
    };
    vec![
        (
            MergeMessage::Leave(Box::new(leave())),
            b"\x02\x01\0\0\0\0\0\0\0\x01\0\x01c\x4f\0\0\0\x01r\
              \0\0\0\x1f\x01\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\
              \0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x06\
              \0\x01\0\x01a\0\x01\0\x01b\0\0\0\x01\0\x01a\0\0\0\x01v",
        ),
        (
            MergeMessage::Joined(
                SessionNumber(1),
                Joined {
                    base: Some(From::common(2)),
                    taken: Some((NodeId(3), word(4, 5))),
                },
            ),
            b"\x02\x02\0\0\0\0\0\0\0\x01\x07\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\x04\0\0\0\0\0\0\0\x05",
        ),
        (
            MergeMessage::Joined(
                SessionNumber(1),
                Joined {
                    base: None,
                    taken: None,
                },
            ),
            b"\x02\x02\0\0\0\0\0\0\0\x01\0",
        ),
        (
            MergeMessage::Fence(1, NodeId(2)),
            b"\x02\x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02",
        ),
        (
            MergeMessage::Fenced(1, since),
            b"\x02\x04\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x03\0\x01\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05\
              \0\x01\0\0\0\0\0\0\0\x06\0\0\0\x07\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x09",
        ),
        (
            MergeMessage::Leavings(Box::new(leavings())),
            b"\x02\x05\0\0\0\0\0\0\0\x01\x01\0\0\0\0\0\0\0\x09\
              \0\0\0\x02\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\0\0\x08\0\x02\0\x01\0\x03\
              \0\0\0\x01\0\0\0\0\0\0\0\x09\x01\0\0\0\x01v",
        ),
        (
            MergeMessage::Merged(SessionNumber(1), true),
            b"\x02\x06\0\0\0\0\0\0\0\x01\x01",
        ),
        (
            MergeMessage::Crossed(SessionNumber(1)),
            b"\x02\x0a\0\0\0\0\0\0\0\x01",
        ),
        (MergeMessage::Sound(3), b"\x02\x07\0\0\0\0\0\0\0\x03"),
        (MergeMessage::Sounded(3), b"\x02\x08\0\0\0\0\0\0\0\x03"),
        (
            MergeMessage::Acknowledged(SessionNumber(1), got()),
            b"\x02\x09\0\0\0\0\0\0\0\x01\0\x01\
              \0\0\0\0\0\0\0\x02\0\0\0\x03\0\x01\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x04",
        ),
    ]
}

/// Bytes of version 2. Another form needs another version.
#[test]
fn messages_are_written_as_ever() {
    for (message, bytes) in examples() {
        assert_eq!(encode(&message), bytes, "{message:?}");
        assert_eq!(decode(&Bytes::from_static(bytes)), Ok(message));
    }
}

#[test]
fn other_bytes_are_refused() {
    for (message, bytes) in examples() {
        for length in 2..bytes.len() {
            let cut = Bytes::from_static(&bytes[..length]);
            assert_eq!(decode(&cut), Err(PeerError::Damaged), "{message:?}");
        }
        let longer = Bytes::from([bytes, &[0]].concat());
        assert_eq!(decode(&longer), Err(PeerError::Damaged), "{message:?}");
    }
    let later = Bytes::from_static(b"\x03\x06\0\0\0\0\0\0\0\x01\x01");
    assert_eq!(decode(&later), Err(PeerError::Version { found: 3 }));
    assert_eq!(decode(&Bytes::new()), Err(PeerError::Version { found: 0 }));
}
