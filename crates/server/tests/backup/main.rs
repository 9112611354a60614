//! Backups that are damaged anywhere are refused, and nothing of what is wrong with them is taken for a record.

mod check;

use std::path::Path;

use broker::backups::{RetainedItem, SessionItem, SessionPart};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use protocol::Text;
use server::backup::{About, Problem, Record};
use store::{KeyRecord, Version};

use self::check::{backup_input, encoded, read};

/// What may happen to a file.
#[derive(Debug, Clone)]
enum Damage {
    Flip(usize, u32),
    Overwrite(usize, Vec<u8>),
    Insert(usize, Vec<u8>),
    /// Bytes from here on, so many.
    Lose(usize, usize),
    CutOff(usize),
    /// A piece is there a second time, behind itself or elsewhere.
    Repeat(usize, usize, usize),
    /// Two neighbouring pieces have changed places.
    Exchange(usize, usize, usize),
}

impl Damage {
    /// Places are taken modulo what there is.
    fn done_to(&self, bytes: &[u8]) -> Vec<u8> {
        let at = |place: usize| place % (bytes.len() + 1);
        let mut out = bytes.to_vec();
        match self {
            Self::Flip(place, bit) => out[place % bytes.len()] ^= 1 << bit,
            Self::Overwrite(place, with) => {
                let place = place % bytes.len();
                let length = with.len().min(bytes.len() - place);
                out[place..place + length].copy_from_slice(&with[..length]);
            }
            Self::Insert(place, what) => {
                out.splice(at(*place)..at(*place), what.iter().copied());
            }
            Self::Lose(from, length) => {
                let from = from % bytes.len();
                let to = (from + 1 + length).min(bytes.len());
                out.drain(from..to);
            }
            Self::CutOff(length) => out.truncate(length % bytes.len()),
            Self::Repeat(from, length, to) => {
                let from = from % bytes.len();
                let piece = bytes[from..(from + 1 + length).min(bytes.len())].to_vec();
                out.splice(at(*to)..at(*to), piece);
            }
            Self::Exchange(from, first, second) => {
                let from = from % bytes.len();
                let middle = (from + 1 + first).min(bytes.len());
                let to = (middle + 1 + second).min(bytes.len());
                out[from..to].rotate_left(middle - from);
            }
        }
        out
    }
}

fn damages() -> impl Strategy<Value = Damage> {
    let place = 0_usize..1 << 20;
    let length = prop_oneof![0_usize..16, 0_usize..4_096];
    prop_oneof![
        (place.clone(), 0_u32..8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (place.clone(), vec(any::<u8>(), 1..20)).prop_map(|(at, with)| Damage::Overwrite(at, with)),
        (place.clone(), vec(any::<u8>(), 1..80)).prop_map(|(at, what)| Damage::Insert(at, what)),
        (place.clone(), length.clone()).prop_map(|(from, length)| Damage::Lose(from, length)),
        place.clone().prop_map(Damage::CutOff),
        (place.clone(), length.clone(), place.clone())
            .prop_map(|(from, length, to)| Damage::Repeat(from, length, to)),
        (place, length.clone(), length)
            .prop_map(|(from, first, second)| Damage::Exchange(from, first, second)),
    ]
}

fn some_bytes(max: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..max).prop_map(Bytes::from)
}

fn some_text() -> impl Strategy<Value = Text> {
    "[a-z]{1,12}".prop_map(|text| Text::from_bytes(Bytes::from(text)).expect("letters"))
}

fn parts() -> impl Strategy<Value = SessionPart> {
    prop_oneof![
        (some_bytes(20), some_bytes(8)).prop_map(|(key, value)| SessionPart::Subscription(key, value)),
        some_bytes(4).prop_map(SessionPart::Received),
        (some_bytes(9), some_bytes(300)).prop_map(|(key, value)| SessionPart::Delivery(key, value)),
    ]
}

fn records() -> impl Strategy<Value = Record> {
    let version = (1_u64..1 << 40, 1_u32..9).prop_map(|(wall, counter)| Version { wall, counter });
    let key = (
        some_text(),
        some_bytes(200),
        version.clone(),
        any::<Option<u32>>(),
    );
    prop_oneof![
        (0_u32..4, 0_u64..1 << 40, version)
            .prop_map(|(group, clock, floor)| Record::Group(group, clock, floor)),
        key.prop_map(|(key, value, version, deadline)| Record::Key(KeyRecord {
            key: key.as_bytes().to_vec().into(),
            value,
            version,
            deadline: deadline.map(u64::from),
            fencing: None,
        })),
        (some_text(), some_bytes(300)).prop_map(|(topic, value)| Record::Retained(RetainedItem {
            topic: topic.as_bytes().to_vec().into(),
            value,
        })),
        (some_text(), some_bytes(80), vec(parts(), 0..12)).prop_map(|(client_id, record, parts)| {
            Record::Session(SessionItem {
                client_id,
                record,
                parts,
            })
        }),
    ]
}

fn about() -> Record {
    Record::About(About {
        made_at: 1_700_000_000_123,
        cluster: "00000000000000c1".to_owned(),
        server_version: "0.1.0".to_owned(),
        nodes: 3,
        groups: 2,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_damaged_is_refused_and_what_is_before_it_is_as_it_was(
        records in vec(records(), 0..12),
        damages in vec(damages(), 1..4),
        piece in 1_usize..600,
    ) {
        let records = [vec![about()], records].concat();
        let whole = encoded(&records);
        let damaged = damages.iter().fold(whole.clone(), |bytes, damage| {
            if bytes.is_empty() { bytes } else { damage.done_to(&bytes) }
        });
        let (before, error) = read(&damaged, piece);
        if damaged == whole {
            // The damages have undone each other.
            prop_assert_eq!((before, error), (records, None));
        } else {
            prop_assert!(error.is_some(), "nobody has seen it");
            prop_assert!(records.starts_with(&before), "{before:?} are not of the backup");
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut input in vec(any::<u8>(), 0..400), how: u8) {
        input.insert(0, how);
        backup_input(&input);
    }

    /// Behind checksums that are right.
    #[test]
    fn any_change_of_a_body_is_read_or_refused(record in records(), damage in damages()) {
        let whole = encoded(&[record]);
        // Without the head and the frame of the one record, and the end.
        let body = &whole[9 + 8..whole.len() - 77 - 4];
        let damaged = damage.done_to(body);
        let length = u16::try_from(damaged.len()).expect("short").to_be_bytes();
        backup_input(&[&[1][..], &length, &damaged].concat());
        prop_assert_eq!(backup_input(&[&[1][..], &u16::try_from(body.len()).expect("short").to_be_bytes(), body].concat()), 1);
    }
}

/// A number in the file is believed only as far as there are bytes.
#[test]
fn a_record_that_is_announced_and_does_not_come_is_missing() {
    for (length, problem) in [
        (512_u32 << 20, Problem::CutOff),
        ((512 << 20) + 1, Problem::TooLong),
        (u32::MAX, Problem::TooLong),
    ] {
        let crc = crc32c::crc32c_append(crc32c::crc32c(&0_u64.to_be_bytes()), &length.to_be_bytes());
        let stream = [
            &b"STHDBKUP\x01"[..],
            &length.to_be_bytes(),
            &crc.to_be_bytes(),
            b"\x05abc",
        ]
        .concat();
        let (records, error) = read(&stream, 3);
        assert_eq!(
            (records.len(), error.map(|error| error.problem)),
            (0, Some(problem))
        );
    }
}

/// The inputs that a fuzz target begins with, and those that once failed.
#[test]
fn stored_backups_are_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/backup");
    let whole = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/backup"));
    let whole = whole.expect("the file of version 1 is there");
    compare(&folder.join("seed-stream"), &[&[254], &whole[..]].concat());
    compare(&folder.join("seed-bodies"), &bodies(&whole));
    let mut count = 0;
    for file in std::fs::read_dir(&folder).expect("the folder is there") {
        let input = std::fs::read(file.expect("it can be listed").path()).expect("it can be read");
        count += backup_input(&input);
    }
    assert!(count >= 10, "only {count} records");
}

/// The bodies of the records of a stream, as an input has them.
fn bodies(stream: &[u8]) -> Vec<u8> {
    let mut input = vec![1];
    let mut rest = &stream[9..];
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).expect("short");
        input.extend(u16::try_from(length).expect("short").to_be_bytes());
        input.extend_from_slice(&behind[4..4 + length]);
        rest = &behind[4 + length + 4..];
    }
    input
}

fn compare(path: &Path, input: &[u8]) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, input).expect("a seed can be written");
    }
    let stored = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(
        stored == input,
        "{} is stale: UPDATE=1 cargo test -p server --test backup",
        path.display()
    );
}
