use super::*;

/// Written by Mosquitto 2.0.11 at its end.
const GOLDEN: &[u8] = include_bytes!("../../../../tests/golden/import/mosquitto-2.0.db");

fn read(file: &[u8]) -> Result<Vec<Record>, FileError> {
    let mut database = Database::open(file, 1 << 20)?;
    let mut records = Vec::new();
    while let Some(record) = database.next()? {
        records.push(record);
    }
    Ok(records)
}

/// A file of this version with these chunks.
fn file(version: u32, chunks: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.extend([0; 4]);
    file.extend(version.to_be_bytes());
    for (kind, body) in chunks {
        let kind = kind.to_be_bytes();
        file.extend(if version >= STRUCTURES_SINCE {
            &kind[..]
        } else {
            &kind[2..]
        });
        file.extend(u32::try_from(body.len()).expect("short").to_be_bytes());
        file.extend(body);
    }
    file
}

fn text(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("short").to_be_bytes();
    [&length[..], text.as_bytes()].concat()
}

#[test]
fn everything_that_a_real_server_has_kept_is_read() {
    let records = read(GOLDEN).expect("a file");
    let retained: Vec<_> = records
        .iter()
        .filter_map(|record| match record {
            Record::Retained { number } => Some(*number),
            _ => None,
        })
        .collect();
    let mut messages = Vec::new();
    for record in &records {
        if let Record::Message(stored) = record
            && retained.contains(&stored.number)
        {
            let topic = String::from_utf8(stored.topic.clone()).expect("text");
            messages.push((topic, stored.payload.clone(), stored.qos));
        }
    }
    messages.sort();
    let expected = [
        ("plant/0", b"value 0".to_vec(), 0),
        ("plant/1", b"value 1".to_vec(), 1),
        ("plant/2", b"value 2".to_vec(), 2),
        ("plant/binary", b"\x00\xff\r\n".to_vec(), 0),
        ("plant/properties", br#"{"a":1}"#.to_vec(), 1),
    ];
    let expected = expected.map(|(topic, payload, qos)| (topic.to_owned(), payload, qos));
    assert_eq!(messages, expected);

    let subscribed = |client_id: &str, filter: &str, qos, options, identifier| {
        Record::Subscription(Subscribed {
            client_id: client_id.into(),
            filter: filter.into(),
            qos,
            options,
            identifier,
        })
    };
    for expected in [
        subscribed("old-client", "plant/#", 1, 0, 0),
        subscribed("old-client", "other/+", 1, 0, 0),
        subscribed("new-client", "commands/+/x", 2, 8, 0),
        subscribed("identified", "ids/#", 1, 0, 7),
    ] {
        assert!(records.contains(&expected), "{expected:?} in {records:?}");
    }
    let queued = records.iter().filter_map(|record| match record {
        Record::Queued(queued) if queued.client_id == b"old-client" => Some(queued),
        _ => None,
    });
    let queued: Vec<_> = queued
        .map(|queued| (queued.stage, queued.qos, queued.retain))
        .collect();
    // Four that are retained: its client went before it had acknowledged them; and three that came later.
    let (retained, later) = ((Stage::Waiting, 1, true), (Stage::Waiting, 1, false));
    let of_no_qos = (Stage::Waiting, 0, true);
    let expected = [retained, retained, retained, of_no_qos, later, later, later];
    assert_eq!(queued, expected);
    let session = |client_id: &str| {
        records.iter().find_map(|record| match record {
            Record::Session {
                client_id: id,
                expiry,
            } if id == client_id.as_bytes() => Some(*expiry),
            _ => None,
        })
    };
    let old = session("old-client").expect("there");
    assert_eq!(old.interval, u32::MAX);
    let new = session("new-client").expect("there");
    assert_eq!(new.interval, 4_000_000_000);
    assert!(new.at.is_some_and(|at| at > 5_700_000_000), "{new:?}");
}

#[test]
fn properties_and_expiry_of_messages_are_read() {
    let records = read(GOLDEN).expect("a file");
    let found = records.iter().find_map(|record| match record {
        Record::Message(stored) if stored.topic == b"plant/properties" => Some(stored),
        _ => None,
    });
    let stored = found.expect("there");
    assert!(
        stored.expires_at.is_some_and(|at| at > 5_700_000_000),
        "{stored:?}"
    );
    let properties = String::from_utf8_lossy(&stored.properties);
    assert!(
        properties.contains("application/json") && properties.contains("name"),
        "{properties}"
    );
    assert_eq!(usize::from(stored.properties[0]), stored.properties.len() - 1);
}

#[test]
fn older_versions_are_read() {
    let number = 7_u64.to_le_bytes();
    for version in [3, 4] {
        let source = if version == 4 {
            [text("user"), vec![7, 91]].concat()
        } else {
            Vec::new()
        };
        let tail = [text("a/b"), vec![1, 1], vec![0, 0, 0, 2], b"xy".to_vec()].concat();
        let message = [number.to_vec(), text("publisher"), source, vec![0, 1, 0, 2], tail].concat();
        let chunks = [
            (1, vec![1, 8, 0, 0, 0, 0, 0, 0, 0, 0]),
            (MESSAGE, message),
            (SESSION, [text("c"), vec![0, 9], vec![0; 8]].concat()),
            (
                QUEUED,
                [text("c"), number.to_vec(), vec![0, 1, 1, 0, 1, 3, 0]].concat(),
            ),
            (RETAINED, number.to_vec()),
            (SUBSCRIPTION, [text("c"), text("a/#"), vec![1]].concat()),
        ];
        let found = read(&file(version, &chunks)).expect("read");
        let expected = [
            Record::Message(Stored {
                number: 7,
                topic: b"a/b".to_vec(),
                payload: b"xy".to_vec(),
                qos: 1,
                expires_at: None,
                properties: vec![0],
            }),
            Record::Session {
                client_id: b"c".to_vec(),
                expiry: Expiry {
                    interval: u32::MAX,
                    at: None,
                },
            },
            Record::Queued(Queued {
                client_id: b"c".to_vec(),
                number: 7,
                packet_id: 1,
                qos: 1,
                retain: false,
                stage: Stage::Sent,
                properties: vec![0],
            }),
            Record::Retained { number: 7 },
            Record::Subscription(Subscribed {
                client_id: b"c".to_vec(),
                filter: b"a/#".to_vec(),
                qos: 1,
                options: 0,
                identifier: 0,
            }),
        ];
        assert_eq!(found, expected, "version {version}");
    }
    // Version 5 has sessions without a user name.
    let session = [[0; 8].as_slice(), &[0, 0, 0, 60], &[0, 9, 0, 1], b"c"].concat();
    let expiry = Expiry {
        interval: 60,
        at: None,
    };
    let expected = Record::Session {
        client_id: b"c".to_vec(),
        expiry,
    };
    assert_eq!(read(&file(5, &[(SESSION, session)])).expect("read"), [expected]);
}

#[test]
fn how_far_a_message_is_follows_from_its_state() {
    let number = 7_u64.to_le_bytes();
    let stage = |direction, state, dup| {
        let queued = [
            text("c"),
            number.to_vec(),
            vec![0, 1, 2, 0, direction, state, dup],
        ]
        .concat();
        match read(&file(4, &[(QUEUED, queued)])).expect("read").pop() {
            Some(Record::Queued(queued)) => queued.stage,
            other => panic!("{other:?}"),
        }
    };
    for (state, expected) in [
        (11, Stage::Waiting),
        (4, Stage::Waiting),
        (5, Stage::Sent),
        (6, Stage::Released),
        (9, Stage::Released),
    ] {
        assert_eq!(stage(1, state, 0), expected, "{state}");
        assert_eq!(stage(0, state, 0), Stage::FromClient);
    }
    assert_eq!(stage(1, 4, 1), Stage::Sent);
}

#[test]
fn a_message_that_is_too_large_is_named_and_what_follows_is_found() {
    let mut message = [7_u64.to_le_bytes(), [0; 8]].concat();
    message.extend((2_u32 << 20).to_be_bytes());
    message.extend([0, 0, 0, 2, 0, 1, 0, 3, 0, 0, 1, 0]);
    message.extend(b"iduA/b");
    message.extend(vec![7; 2 << 20]);
    let retained = 7_u64.to_le_bytes().to_vec();
    let found = read(&file(6, &[(MESSAGE, message), (RETAINED, retained)])).expect("read");
    let expected = [
        Record::TooLarge {
            number: 7,
            topic: b"A/b".to_vec(),
        },
        Record::Retained { number: 7 },
    ];
    assert_eq!(found, expected);
}

#[test]
fn damage_is_an_error_or_a_smaller_file_and_never_more() {
    let whole = read(GOLDEN).expect("a file").len();
    for length in 0..GOLDEN.len() {
        // Between two chunks nothing shows that there were more.
        if let Ok(found) = read(&GOLDEN[..length]) {
            assert!(found.len() < whole, "{length}");
        }
    }
    for place in 0..GOLDEN.len() {
        for bit in [1, 0x10, 0x80] {
            let mut bytes = GOLDEN.to_vec();
            bytes[place] ^= bit;
            if let Ok(found) = read(&bytes) {
                assert!(found.len() <= whole + 1, "byte {place}");
            }
        }
    }
}

#[test]
fn what_is_no_database_is_told() {
    let error = |file: &[u8]| read(file).expect_err("not to be read").to_string();
    assert!(error(b"").contains("no database of Mosquitto"));
    assert!(error(b"REDIS0010").contains("no database of Mosquitto"));
    assert!(error(&file(7, &[])).contains("version 7"));
    assert!(error(&file(2, &[])).contains("3 to 6"));
    assert!(error(&file(6, &[(RETAINED, vec![1])])).contains("damaged"));
    let mut endless = file(6, &[]);
    endless.extend([0, 0, 0, 2, 0xFF, 0xFF, 0xFF, 0xFF]);
    assert!(error(&endless).contains("damaged"));
}
