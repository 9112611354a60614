use cluster::Incarnation;
use cluster::session_plane::Actor;

use super::*;

fn clock() -> VectorClock {
    let actor = Actor {
        node: NodeId(2),
        incarnation: Incarnation(1),
    };
    let mut clock = VectorClock::new();
    clock.increment(actor, 0).expect("there is room");
    clock
}

/// Every change once, and one value twice.
fn changes() -> Vec<Change> {
    let bytes = Bytes::from_static;
    let value = bytes(b"value");
    vec![
        Change::Session(bytes(b"session")),
        Change::Subscribed(bytes(b"a/#"), bytes(b"options")),
        Change::Unsubscribed(bytes(b"b")),
        Change::Delivery(bytes(b"one"), value.clone()),
        Change::Delivery(bytes(b"two"), value),
        Change::Delivered(bytes(b"one")),
        Change::Received(bytes(b"\0\x01")),
        Change::Released(bytes(b"\0\x01")),
    ]
}

/// Messages of version 1, with their bytes behind version, kind and incarnation.
fn all() -> Vec<Golden> {
    let mut all = offers();
    all.extend(sessions());
    all.extend(words());
    all
}

type Golden = (CopyMessage, u8, &'static [u8]);

/// Those that begin a copy.
fn offers() -> Vec<Golden> {
    let number = SessionNumber(7);
    let origin = Mark {
        node: NodeId(4),
        number: Some(SessionNumber(6)),
        next_sequence: 9,
    };
    vec![
        (
            CopyMessage::Offer {
                number,
                client_id: Text::from_static("me"),
                clock: clock(),
                is_connected: true,
                origins: Vec::new(),
            },
            2,
            b"\0\0\0\0\0\0\0\x07\0\x02me\0\0\0\x1f\x01\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\x01",
        ),
        (
            CopyMessage::Offer {
                number,
                client_id: Text::from_static("me"),
                clock: clock(),
                is_connected: true,
                origins: vec![origin],
            },
            11,
            b"\0\0\0\0\0\0\0\x07\0\x02me\0\0\0\x1f\x01\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\x01\
              \x01\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x09",
        ),
    ]
}

/// Those with sessions.
fn sessions() -> Vec<Golden> {
    let number = SessionNumber(7);
    let client_id = Text::from_static("me");
    let position = Position {
        incarnation: 3,
        number: 4,
    };
    let piece = |what| Piece {
        number,
        event: 5,
        what,
    };
    let part = Part {
        number,
        client_id: client_id.clone(),
        clock: clock(),
        is_first: true,
        is_last: false,
        positions: Positions::new(),
        changes: vec![Change::Unsubscribed(Bytes::from_static(b"b"))],
    };
    vec![
        (
            CopyMessage::Changes(
                Positions::from([(NodeId(1), position)]),
                vec![
                    piece(What::GoesOn(changes())),
                    piece(What::Begins(client_id, Vec::new())),
                    piece(What::HasEnded),
                ],
            ),
            4,
            b"\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x03\0\0\0\0\0\0\0\x04\
              \0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x05\0\0\0\0\x08\
              \x01\0\0\0\0\x07session\x02\0\x03a/#\0\0\0\0\x07options\x03\0\x01b\
              \x04\0\x03one\0\0\0\0\x05value\x04\0\x03two\x01\0\0\0\x02\x05\0\x03one\x06\0\x02\0\x01\x07\0\x02\0\x01\
              \0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x05\x01\0\x02me\0\0\0\0\
              \0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x05\x02",
        ),
        (
            CopyMessage::Whole(Box::new(part)),
            5,
            b"\0\0\0\0\0\0\0\x07\0\x02me\0\0\0\x1f\x01\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\
              \x01\0\0\0\0\0\x01\x03\0\x01b",
        ),
    ]
}

/// Those without.
fn words() -> Vec<Golden> {
    let number = SessionNumber(7);
    let other = Other {
        clock: clock(),
        holder: NodeId(3),
        is_connected: false,
    };
    let ended = Ended {
        client_id: Text::from_static("me"),
        at: 6,
        clock: clock(),
        away: vec![NodeId(4)],
    };
    vec![
        (
            CopyMessage::Ended(ended),
            10,
            b"\0\x02me\0\0\0\0\0\0\0\x06\0\0\0\x1f\x01\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\
              \x01\0\0\0\0\0\0\0\x04",
        ),
        (CopyMessage::Begin, 1, b""),
        (CopyMessage::All, 3, b""),
        (CopyMessage::Answer(number, CopyAnswer::Have), 6, b"\0\0\0\0\0\0\0\x07\0"),
        (CopyMessage::Answer(number, CopyAnswer::Want), 6, b"\0\0\0\0\0\0\0\x07\x01"),
        (
            CopyMessage::Answer(number, CopyAnswer::Other(other)),
            6,
            b"\0\0\0\0\0\0\0\x07\x02\0\0\0\x1f\x01\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\
              \0\0\0\0\0\0\0\x03\0",
        ),
        (CopyMessage::Drop(number), 7, b"\0\0\0\0\0\0\0\x07"),
        (CopyMessage::Ask(8), 8, b"\0\0\0\0\0\0\0\x08"),
        (CopyMessage::Done(8), 9, b"\0\0\0\0\0\0\0\x08"),
    ]
}

/// Bytes that version 1 sends. Another form needs another version.
#[test]
fn messages_are_written_and_read_as_ever() {
    for (message, kind, rest) in all() {
        let bytes = encode(9, &message);
        let expected = [&[1, kind, 0, 0, 0, 9], rest].concat();
        assert_eq!(bytes, expected, "{message:?}");
        assert_eq!(decode(&bytes).expect("it is one"), (9, message));
    }
}

#[test]
fn what_is_cut_short_or_too_long_is_refused() {
    for (message, _, _) in all() {
        let bytes = encode(9, &message);
        for length in 0..bytes.len() {
            // A list of sessions may end behind each of them.
            if let Ok((_, found)) = decode(&bytes.slice(..length)) {
                assert!(matches!(found, CopyMessage::Changes(..)), "{message:?} {length}");
            }
        }
        let longer = [&bytes[..], b"x"].concat();
        assert!(decode(&longer.into()).is_err(), "{message:?}");
    }
}

#[test]
fn another_version_is_refused() {
    let error = decode(&Bytes::from_static(b"\x02\x01\0\0\0\x09")).expect_err("it is none");
    assert!(matches!(error, PeerError::Version { found: 2 }));
}
