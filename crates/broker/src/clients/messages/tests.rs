use mqtt::principal::Principal;
use proptest::prelude::*;
use protocol::packet::ConnectProperties;

use super::*;

fn owner() -> Owner {
    Owner {
        principal: Some(Principal::named(Text::from_static("who"))),
        policy: Some(Text::from_static("p")),
    }
}

fn connect() -> Box<Connect> {
    Box::new(Connect {
        clean_start: false,
        keep_alive: 60,
        properties: ConnectProperties {
            session_expiry: Some(9),
            ..ConnectProperties::default()
        },
        ..Connect::new(Text::from_static("me"))
    })
}

fn who() -> Principal {
    Principal::named(Text::from_static("who"))
}

fn take(principal: Principal) -> ClientMessage {
    let take = Take {
        at: 2,
        clean_start: true,
        client_id: Text::from_static("me"),
        principal: Some(principal),
    };
    ClientMessage::Take(QuestionNumber(1), take)
}

/// Messages of version 1, with their bytes behind the version.
fn all() -> Vec<(ClientMessage, &'static [u8])> {
    let number = TunnelNumber(7);
    let tunnel = |said| ClientMessage::OfTunnel(number, said);
    let mqtt = Bytes::from_static(b"\xc0\0");
    vec![
        (
            take(who()),
            b"\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\x01\0\x02me\x01\0\x03who",
        ),
        (
            take(who().by_method(Text::from_static("x509"))),
            b"\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\x01\0\x02me\x02\0\x04x509\0\x03who",
        ),
        (
            ClientMessage::Answer(QuestionNumber(1), Place::Held { is_running: true }),
            b"\x02\0\0\0\0\0\0\0\x01\x01",
        ),
        (
            ClientMessage::Names(vec![Text::from_static("a"), Text::from_static("b")]),
            b"\x03\0\x01a\0\x01b",
        ),
        (
            ClientMessage::Open(
                number,
                Box::new(Opening {
                    connect: connect(),
                    owner: Some(owner()),
                    proof: Some(Bytes::from_static(b"!")),
                }),
            ),
            b"\x04\0\0\0\0\0\0\0\x07\0\0\0\x0d\x03\0\x03who\0\0\0\0\0\x01p\x01\0\0\0\x01!\
              \x10\x14\0\x04MQTT\x05\0\0\x3c\x05\x11\0\0\0\x09\0\x02me",
        ),
        (ClientMessage::Begin, b"\x0e"),
        (tunnel(TunnelMessage::Elsewhere), b"\x05\0\0\0\0\0\0\0\x07"),
        (
            tunnel(TunnelMessage::Packets(mqtt.clone())),
            b"\x06\0\0\0\0\0\0\0\x07\xc0\0",
        ),
        (
            tunnel(TunnelMessage::Bytes(mqtt)),
            b"\x07\0\0\0\0\0\0\0\x07\xc0\0",
        ),
        (
            tunnel(TunnelMessage::Taken(2)),
            b"\x08\0\0\0\0\0\0\0\x07\0\0\0\x02",
        ),
        (tunnel(TunnelMessage::Ask), b"\x09\0\0\0\0\0\0\0\x07"),
        (tunnel(TunnelMessage::Drained), b"\x0a\0\0\0\0\0\0\0\x07"),
        (tunnel(TunnelMessage::Close), b"\x0b\0\0\0\0\0\0\0\x07"),
        (tunnel(TunnelMessage::Gone), b"\x0c\0\0\0\0\0\0\0\x07"),
        (
            tunnel(TunnelMessage::Known(None)),
            b"\x0d\0\0\0\0\0\0\0\x07\0\0\0\0",
        ),
    ]
}

/// Another form needs another version.
#[test]
fn messages_about_clients_are_written_as_ever() {
    for (message, golden) in all() {
        let bytes = put(&message);
        assert_eq!(&bytes[1..], golden, "{message:?}");
        assert_eq!(bytes[0], 1, "{message:?}");
        assert_eq!(read(&bytes), Ok(message));
    }
}

#[test]
fn every_place_comes_back_from_its_code_and_no_other_code_is_one() {
    let known: Vec<Place> = (0..=u8::MAX).map_while(Place::of).collect();
    assert_eq!(known.len(), 7);
    for (code, place) in known.into_iter().enumerate() {
        assert_eq!(usize::from(place.code()), code);
    }
    assert_eq!((7..=u8::MAX).find_map(Place::of), None);
}

#[test]
fn what_is_cut_off_or_of_another_version_is_refused() {
    for (message, _) in all() {
        let bytes = put(&message);
        for length in 2..bytes.len() {
            let is_text_only = |message: &ClientMessage| {
                // Any number of names, or of bytes, is a message.
                matches!(
                    message,
                    ClientMessage::Names(_)
                        | ClientMessage::OfTunnel(_, TunnelMessage::Packets(_) | TunnelMessage::Bytes(_))
                )
            };
            if !is_text_only(&message) {
                assert_eq!(
                    read(&bytes.slice(..length)),
                    Err(PeerError::Damaged),
                    "{message:?}"
                );
            }
        }
        let mut other = bytes.to_vec();
        other[0] = 2;
        assert_eq!(read(&other.into()), Err(PeerError::Version { found: 2 }));
    }
}

proptest! {
    #[test]
    fn no_bytes_do_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..64), kind in 0_u8..16) {
        if let [version, of_kind, ..] = &mut bytes[..] {
            (*version, *of_kind) = (1, kind);
        }
        if let Ok(message) = read(&bytes.clone().into())
            && !matches!(message, ClientMessage::Open(..))
        {
            prop_assert_eq!(put(&message), bytes);
        }
    }
}
