use cluster::random::Random;

use super::*;

/// Messages of version 1, with their bytes behind version, kind and incarnation.
fn all() -> Vec<(WillMessage, u8, &'static [u8])> {
    let numbers = || vec![SessionNumber(1 << 32 | 2), SessionNumber(3)];
    let guard = WillMessage::Guard {
        client_id: Text::from_static("me"),
        record: Bytes::from_static(b"record"),
    };
    vec![
        (WillMessage::Begin, 1, b""),
        (guard, 2, b"\0\x02merecord"),
        (WillMessage::All, 3, b""),
        (
            WillMessage::Gone(numbers()),
            4,
            b"\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x03",
        ),
        (
            WillMessage::Ask(9, numbers()),
            5,
            b"\0\0\0\0\0\0\0\x09\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x03",
        ),
        (WillMessage::LetGo(9, Vec::new()), 6, b"\0\0\0\0\0\0\0\x09"),
        (
            WillMessage::Published(NodeId(7), numbers()),
            7,
            b"\0\0\0\0\0\0\0\x07\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x03",
        ),
        (
            WillMessage::Heard(numbers()),
            8,
            b"\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x03",
        ),
    ]
}

/// Bytes that version 1 sends. Another form needs another version.
#[test]
fn messages_are_written_and_read_as_ever() {
    for (message, kind, rest) in all() {
        let bytes = encode(5, &message);
        let expected = [&[1, kind, 0, 0, 0, 5], rest].concat();
        assert_eq!(bytes, expected, "{message:?}");
        assert_eq!(decode(&bytes).expect("it is one"), (5, message));
    }
}

#[test]
fn what_is_cut_short_is_refused_or_says_less() {
    for (message, _, _) in all() {
        let bytes = encode(5, &message);
        for length in 0..bytes.len() {
            // A list of numbers may end behind each of them, and whether a record is whole is its own business.
            if let Ok((_, found)) = decode(&bytes.slice(..length)) {
                assert_ne!(found, message, "{length}");
                assert!(
                    !matches!(found, WillMessage::Begin | WillMessage::All),
                    "{message:?}"
                );
            }
        }
        let longer = [&bytes[..], b"x"].concat();
        let longer = decode(&longer.into());
        assert!(
            longer.is_err() || matches!(message, WillMessage::Guard { .. }),
            "{message:?}"
        );
    }
}

#[test]
fn another_version_or_kind_is_refused() {
    let error = decode(&Bytes::from_static(b"\x02\x01\0\0\0\x05")).expect_err("it is none");
    assert!(matches!(error, PeerError::Version { found: 2 }));
    for kind in [0, 9] {
        let bytes = Bytes::copy_from_slice(&[1, kind, 0, 0, 0, 5]);
        assert!(matches!(decode(&bytes), Err(PeerError::Damaged)), "{kind}");
    }
}

#[test]
fn whatever_comes_is_read_or_refused() {
    let mut random = Random::new(1);
    for (message, _, _) in all() {
        for _ in 0..2_000 {
            let mut bytes = encode(5, &message).to_vec();
            let place = random.between(0, bytes.len());
            bytes[place] = random.next() as u8;
            if let Ok((incarnation, found)) = decode(&bytes.clone().into()) {
                assert_eq!(encode(incarnation, &found), bytes);
            }
        }
    }
}
