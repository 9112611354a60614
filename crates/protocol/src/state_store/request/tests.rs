use super::*;

fn payload(arguments: &[&str]) -> Bytes {
    let arguments: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
    encode_arguments(&arguments)
}

fn parse(arguments: &[&str]) -> Result<Request, RequestError> {
    Request::parse(&payload(arguments))
}

fn set(condition: Condition, expires_in: Option<u64>) -> Result<Request, RequestError> {
    Ok(Request::Set {
        key: Bytes::from_static(b"k"),
        value: Bytes::from_static(b"v"),
        condition,
        expires_in,
    })
}

fn equal_to(value: &'static str) -> Condition {
    Condition::NotExistsOrEqualTo(Bytes::from_static(value.as_bytes()))
}

fn options(options: &[&str]) -> Result<Request, RequestError> {
    parse(&[&["SET", "k", "v"], options].concat())
}

#[test]
fn the_samples_of_the_published_text_are_requests() {
    let sample = |text: &'static str| Request::parse(&Bytes::from_static(text.as_bytes())).unwrap();
    let key = Bytes::from_static(b"SETKEY2");
    assert_eq!(
        sample("*3\r\n$3\r\nset\r\n$7\r\nSETKEY2\r\n$6\r\nVALUE5\r\n"),
        Request::Set {
            key: key.clone(),
            value: Bytes::from_static(b"VALUE5"),
            condition: Condition::None,
            expires_in: None
        }
    );
    assert_eq!(
        sample("*2\r\n$3\r\nget\r\n$7\r\nSETKEY2\r\n"),
        Request::Get { key: key.clone() }
    );
    assert_eq!(
        sample("*2\r\n$3\r\ndel\r\n$7\r\nSETKEY2\r\n"),
        Request::Del { key: key.clone() }
    );
    assert_eq!(
        sample("*3\r\n$4\r\nvdel\r\n$7\r\nSETKEY2\r\n$3\r\nABC\r\n"),
        Request::VDel {
            key,
            value: Bytes::from_static(b"ABC")
        }
    );
    assert_eq!(
        sample("*2\r\n$9\r\nKEYNOTIFY\r\n$7\r\nSOMEKEY\r\n"),
        Request::KeyNotify {
            key: Bytes::from_static(b"SOMEKEY"),
            stop: false
        }
    );
}

#[test]
fn verbs_and_options_are_taken_in_any_case() {
    assert_eq!(
        parse(&["sEt", "k", "v", "nEx", "pX", "5"]),
        set(Condition::NotExistsOrEqual, Some(5))
    );
    assert_eq!(options(&["nx"]), set(Condition::NotExists, None));
    let stop = Request::KeyNotify {
        key: Bytes::from_static(b"k"),
        stop: true,
    };
    assert_eq!(parse(&["keynotify", "k", "stop"]), Ok(stop));
}

#[test]
fn keynotify_takes_the_option_get_of_the_text() {
    let watch = Request::KeyNotify {
        key: Bytes::from_static(b"k"),
        stop: false,
    };
    assert_eq!(parse(&["KEYNOTIFY", "k", "GET"]), Ok(watch));
    assert_eq!(parse(&["KEYNOTIFY", "k", "VALUE"]), Err(RequestError::Syntax));
    assert_eq!(
        parse(&["KEYNOTIFY", "k", "GET", "STOP"]),
        Err(RequestError::WrongArguments)
    );
}

#[test]
fn options_come_in_any_order() {
    assert_eq!(options(&["NX", "PX", "5"]), set(Condition::NotExists, Some(5)));
    assert_eq!(options(&["PX", "5", "NX"]), set(Condition::NotExists, Some(5)));
    assert_eq!(
        options(&["PX", "5", "NEX"]),
        set(Condition::NotExistsOrEqual, Some(5))
    );
    assert_eq!(options(&["NEX", "old", "PX", "5"]), set(equal_to("old"), Some(5)));
    assert_eq!(options(&["PX", "5", "NEX", "old"]), set(equal_to("old"), Some(5)));
}

#[test]
fn nex_alone_compares_with_the_value_being_set_and_nex_value_with_the_given_one() {
    assert_eq!(options(&["NEX"]), set(Condition::NotExistsOrEqual, None));
    assert_eq!(
        options(&["NEX", "PX", "5"]),
        set(Condition::NotExistsOrEqual, Some(5))
    );
    assert_eq!(options(&["NEX", "old"]), set(equal_to("old"), None));
    assert_eq!(options(&["NEX", ""]), set(equal_to(""), None));
    assert_eq!(options(&["NEX", "PX"]), set(equal_to("PX"), None));
    assert_eq!(options(&["NEX", "NX"]), set(equal_to("NX"), None));
    assert_eq!(options(&["NEX", "PX", "PX", "5"]), set(equal_to("PX"), Some(5)));
}

#[test]
fn options_that_do_not_fit_are_a_syntax_error() {
    let wrong: [&[&str]; 14] = [
        &["XX"],
        &[""],
        &["NX", "NX"],
        &["NX", "NEX"],
        &["NEX", "old", "NX"],
        &["PX"],
        &["PX", "5", "PX", "5"],
        &["PX", "5", "PX", "6"],
        &["NX", "PX"],
        &["NEX", "old", "PX"],
        &["NEX", "old", "XX"],
        &["NEX", "PX", "NX"],
        &["NEX", "PX", "5", "NX"],
        &["EX", "5"],
    ];
    for wrong in wrong {
        assert_eq!(options(wrong), Err(RequestError::Syntax), "{wrong:?}");
    }
}

#[test]
fn an_expiry_is_milliseconds_from_1_to_2_53_and_a_fraction_is_rounded_up() {
    let right = [
        ("1", 1),
        ("10000", 10_000),
        ("0010", 10),
        ("9007199254740992", 1 << 53),
        ("1.5", 2),
        ("1.0", 1),
        ("0.0001", 1),
        ("9007199254740991.5", 1 << 53),
    ];
    for (text, milliseconds) in right {
        assert_eq!(
            options(&["PX", text]),
            set(Condition::None, Some(milliseconds)),
            "{text}"
        );
    }
    let wrong = [
        "0",
        "0.0",
        "-1",
        "+1",
        "",
        " 1",
        "1 ",
        "1.",
        ".5",
        "1.5.5",
        "1e3",
        "0x10",
        "abc",
        "9007199254740993",
        "9007199254740992.5",
        "18446744073709551616",
        "18446744073709551615.5",
        "99999999999999999999999",
    ];
    for text in wrong {
        assert_eq!(options(&["PX", text]), Err(RequestError::Syntax), "{text}");
    }
}

#[test]
fn checks_are_made_in_the_order_of_the_contract() {
    // RESP before the verb.
    let unfinished = Bytes::from_static(b"*2\r\n$4\r\nNONE\r\n");
    assert_eq!(Request::parse(&unfinished), Err(RequestError::Syntax));
    assert_eq!(
        Request::parse(&Bytes::from_static(b"*0\r\n")),
        Err(RequestError::Syntax)
    );
    // The verb before the number of arguments.
    assert_eq!(parse(&["NONE"]), Err(RequestError::UnknownCommand));
    assert_eq!(parse(&[""]), Err(RequestError::UnknownCommand));
    // The number of arguments before the key.
    assert_eq!(parse(&["GET", "", "x"]), Err(RequestError::WrongArguments));
    // The key before the options.
    assert_eq!(parse(&["SET", "", "v", "XX"]), Err(RequestError::KeyLengthZero));
    assert_eq!(parse(&["KEYNOTIFY", "", "XX"]), Err(RequestError::KeyLengthZero));
    assert_eq!(parse(&["KEYNOTIFY", "k", "XX"]), Err(RequestError::Syntax));
}

#[test]
fn every_command_has_its_number_of_arguments() {
    for kind in RequestKind::ALL {
        let verb = std::str::from_utf8(kind.verb()).unwrap();
        let (least, most) = kind.argument_counts();
        for count in 1..12 {
            let arguments: Vec<&str> = std::iter::once(verb)
                .chain(std::iter::repeat_n("x", count - 1))
                .collect();
            let is_wrong = parse(&arguments) == Err(RequestError::WrongArguments);
            assert_eq!(is_wrong, count < least || count > most, "{arguments:?}");
        }
    }
}

#[test]
fn a_key_is_any_bytes_but_not_none() {
    for verb in ["GET", "DEL"] {
        assert_eq!(parse(&[verb, ""]), Err(RequestError::KeyLengthZero));
    }
    assert_eq!(parse(&["VDEL", "", "v"]), Err(RequestError::KeyLengthZero));
    let request = Request::parse(&Bytes::from_static(b"*2\r\n$3\r\nGET\r\n$4\r\n\0\r\n\xff\r\n")).unwrap();
    assert_eq!(request.key().unwrap(), &b"\0\r\n\xff"[..]);
    assert!(parse(&["SCAN", ""]).is_ok());
}

#[test]
fn keys_and_values_share_the_memory_of_the_payload() {
    let payload = payload(&["SET", "key", "value", "NEX", "other"]);
    let within = |part: &Bytes| payload.as_ptr_range().contains(&part.as_ptr());
    let Ok(Request::Set {
        key,
        value,
        condition: Condition::NotExistsOrEqualTo(other),
        ..
    }) = Request::parse(&payload)
    else {
        panic!("not a SET NEX value");
    };
    assert!(within(&key) && within(&value) && within(&other));
}

#[test]
fn what_is_encoded_is_parsed_again() {
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    let conditions = [
        Condition::None,
        Condition::NotExists,
        Condition::NotExistsOrEqual,
        equal_to("PX"),
        equal_to("NX"),
    ];
    let mut requests = vec![
        Request::Get { key: bytes("k") },
        Request::Del { key: bytes("k") },
        Request::VDel {
            key: bytes("k"),
            value: bytes(""),
        },
        Request::KeyNotify {
            key: bytes("k"),
            stop: false,
        },
        Request::KeyNotify {
            key: bytes("k"),
            stop: true,
        },
        Request::Scan {
            pattern: bytes("*"),
            token: None,
        },
        Request::Scan {
            pattern: bytes("*"),
            token: Some(bytes("\r\n")),
        },
    ];
    for condition in conditions {
        for expires_in in [None, Some(1), Some(Request::EXPIRES_IN_MAX_MS)] {
            requests.push(set(condition.clone(), expires_in).unwrap());
        }
    }
    for request in requests {
        assert_eq!(
            Request::parse(&request.encode()),
            Ok(request.clone()),
            "{request:?}"
        );
    }
}
