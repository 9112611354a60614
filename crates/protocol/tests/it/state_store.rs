//! The state store protocol against arbitrary and against nearly valid input.

use bytes::Bytes;
use proptest::prelude::*;
use statehold_protocol::Hlc;
use statehold_protocol::state_store::{
    Condition, Dialect, ErrorText, Glob, Notification, Reply, ReplyError, Request, RequestError, RequestKind,
};

/// Pieces that RESP payloads are made of, so that random ones come close to valid ones.
fn payload() -> impl Strategy<Value = Bytes> {
    let piece = prop_oneof![
        (0_usize..9).prop_map(|count| format!("*{count}\r\n").into_bytes()),
        (0_usize..12).prop_map(|length| format!("${length}\r\n").into_bytes()),
        argument().prop_map(|argument| bulk(&argument)),
        prop::sample::select(vec![
            "\r\n", "$-1\r\n", ":1\r\n", ":-1\r\n", "+OK\r\n", "-ERR ", "$", "*", "\n"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| Bytes::from(pieces.concat()))
}

fn argument() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "SET",
        "get",
        "Del",
        "VDEL",
        "KEYNOTIFY",
        "SCAN",
        "STOP",
        "NX",
        "NEX",
        "px",
        "100",
        "1.5",
        "0",
        "key",
        "",
        "NOTIFY",
        "DELETE",
        "VALUE",
    ];
    prop_oneof![
        prop::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
    ]
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn array(arguments: &[Vec<u8>]) -> Bytes {
    let header = format!("*{}\r\n", arguments.len()).into_bytes();
    let arguments = arguments.iter().map(|argument| bulk(argument));
    Bytes::from(
        std::iter::once(header)
            .chain(arguments)
            .collect::<Vec<_>>()
            .concat(),
    )
}

fn request() -> impl Strategy<Value = Request> {
    let key = || prop::collection::vec(any::<u8>(), 1..20).prop_map(Bytes::from);
    let value = || argument().prop_map(Bytes::from);
    let condition = prop_oneof![
        Just(Condition::None),
        Just(Condition::NotExists),
        Just(Condition::NotExistsOrEqual),
        value().prop_map(Condition::NotExistsOrEqualTo),
    ];
    let expires_in = prop::option::of(1..=Request::EXPIRES_IN_MAX_MS);
    prop_oneof![
        (key(), value(), condition, expires_in).prop_map(|(key, value, condition, expires_in)| {
            Request::Set {
                key,
                value,
                condition,
                expires_in,
            }
        }),
        key().prop_map(|key| Request::Get { key }),
        key().prop_map(|key| Request::Del { key }),
        (key(), value()).prop_map(|(key, value)| Request::VDel { key, value }),
        (key(), any::<bool>()).prop_map(|(key, stop)| Request::KeyNotify { key, stop }),
        (value(), prop::option::of(value())).prop_map(|(pattern, token)| Request::Scan { pattern, token }),
    ]
}

/// Whether a pattern of these few characters matches, by trying everything.
fn matches_naively(pattern: &[char], key: &[char]) -> bool {
    match pattern {
        [] => key.is_empty(),
        ['*', rest @ ..] => (0..=key.len()).any(|skipped| matches_naively(rest, &key[skipped..])),
        ['?', rest @ ..] => !key.is_empty() && matches_naively(rest, &key[1..]),
        // The only classes that the strategy makes.
        ['[', '!', 'a', ']', rest @ ..] => {
            key.first().is_some_and(|first| *first != 'a') && matches_naively(rest, &key[1..])
        }
        ['[', 'a', '-', 'b', ']', rest @ ..] => {
            matches!(key.first(), Some('a' | 'b')) && matches_naively(rest, &key[1..])
        }
        [literal, rest @ ..] => key.first() == Some(literal) && matches_naively(rest, &key[1..]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_payload_makes_parsing_panic(payload in prop_oneof![
        payload(),
        prop::collection::vec(any::<u8>(), 0..60).prop_map(Bytes::from),
    ]) {
        if let Ok(request) = Request::parse(&payload) {
            prop_assert!(request.key().is_none_or(|key| !key.is_empty()));
            prop_assert_eq!(Request::parse(&request.encode()), Ok(request));
        }
        for kind in RequestKind::ALL {
            match Reply::parse(&payload, kind) {
                Ok(reply) => prop_assert_eq!(Reply::parse(&reply.encode(Dialect::Sdk), kind), Ok(reply)),
                Err(ReplyError::Refused { text }) => prop_assert_eq!(ErrorText::from_text(&text), None),
                Err(ReplyError::Malformed) => {}
            }
        }
        if let Ok(notification) = Notification::parse(&payload) {
            let encoded = notification.encode(Dialect::Published);
            prop_assert_eq!(Notification::parse(&encoded), Ok(notification));
        }
    }

    #[test]
    fn an_array_of_bulk_strings_is_a_request_or_refused_by_what_it_says(
        arguments in prop::collection::vec(argument(), 1..10)
    ) {
        let payload = array(&arguments);
        if let Ok(request) = Request::parse(&payload) {
            prop_assert_eq!(Request::parse(&request.encode()), Ok(request));
        }
        // Without its last byte, or with one more, it is no array of bulk strings any more.
        let cut = payload.slice(..payload.len() - 1);
        prop_assert_eq!(Request::parse(&cut), Err(RequestError::Syntax));
        let longer = Bytes::from([&payload[..], b"\n"].concat());
        prop_assert_eq!(Request::parse(&longer), Err(RequestError::Syntax));
    }

    #[test]
    fn a_request_is_parsed_as_it_was_encoded(request in request()) {
        prop_assert_eq!(Request::parse(&request.encode()), Ok(request));
    }

    #[test]
    fn a_pattern_matches_what_trying_everything_matches(
        pieces in prop::collection::vec(prop::sample::select(vec!["*", "?", "a", "b", "é", "[!a]", "[a-b]"]), 0..8),
        key in prop::collection::vec(prop::sample::select(vec!['a', 'b', 'é', '-']), 0..10),
    ) {
        let pattern = pieces.concat();
        let glob = Glob::compile(pattern.as_bytes()).unwrap();
        let text: String = key.iter().collect();
        let characters: Vec<char> = pattern.chars().collect();
        prop_assert_eq!(glob.matches(text.as_bytes()), matches_naively(&characters, &key));
        prop_assert!(!glob.matches(text.as_bytes()) || text.as_bytes().starts_with(glob.prefix().unwrap()));
    }

    #[test]
    fn no_pattern_makes_compiling_panic(pattern in prop::collection::vec(prop_oneof![
        any::<u8>(), prop::sample::select(b"[]!-*?^".to_vec())
    ], 0..20), key in prop::collection::vec(any::<u8>(), 0..20)) {
        if let Ok(glob) = Glob::compile(&pattern) {
            glob.matches(&key);
            glob.matches(&pattern);
        }
    }

    #[test]
    fn a_timestamp_is_read_as_it_was_written(text in prop_oneof![
        "[0-9]{0,22}:[0-9]{0,22}:[a-zA-Z]{0,3}", "[0-9:a +-]{0,12}", any::<String>()
    ]) {
        if let Ok(hlc) = Hlc::parse(&text) {
            prop_assert_eq!(Hlc::parse(&hlc.to_string()), Ok(hlc));
        }
    }
}
