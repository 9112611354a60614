//! Records: golden bytes, and what is refused.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};

use super::*;
use crate::dirty::ClientEntryId;
use crate::progress::Progress;
use crate::wire::{Fault, Subject, WireError};
use crate::{
    AssignedMessage, Birth, ClientDot, ClientEntry, ClientId, ConnectionOrder, Dot, Entry, EntryId,
    EntryKind, Fact, GroupId, Interval, MemberTerms, Pending, Run, SessionEntries, Slot, SlotOutOfRange,
    VersionVector,
};

type Reader = RecordsReader<Bytes, Bytes>;
type Records = BTreeMap<Bytes, Bytes>;

fn dot(number: u64) -> Dot {
    let run = Run {
        node: NodeId(1),
        incarnation: Incarnation(2),
    };
    Dot { run, number }
}

fn vector(first: u64, last: u64) -> VersionVector {
    VersionVector::of_apart(Interval::new(dot(1).run, first, last))
}

fn slot(number: u16) -> Slot {
    Slot::new(number).expect("in range")
}

fn client() -> ClientId {
    ClientId::new(b"press").expect("short")
}

fn entry(fact: Fact, value: &'static [u8]) -> Entry<Bytes> {
    Entry {
        birth: Birth {
            dot: dot(1),
            clock: Hlc::at(1_000),
            is_clean: true,
        },
        clock: Hlc::at(2_000),
        fact,
        value: Bytes::from_static(value),
    }
}

fn id(kind: EntryKind, number: u64) -> ClientEntryId {
    let id = EntryId {
        kind,
        dot: dot(number),
    };
    let client = client();
    ClientEntryId { client, id }
}

/// One record of each kind, and a few forms of values.
fn sample() -> Records {
    let mut batch = RecordBatch::default();
    batch.put_clock(Hlc::at(3_000));
    batch.put_cohort(CohortId(0), &Progress::whole(vector(1, 9)));
    let other = Progress::of_sets(vector(1, 3), vector(5, 6), vector(4, 4)).expect("apart");
    batch.put_cohort(CohortId(1), &other);
    batch.put_copy(slot(7), CohortId(0));
    batch.put_copy(slot(8), CohortId(1));
    batch.put_content(dot(5), &Bytes::from_static(b"content"));
    batch.put_entry(
        slot(7),
        &id(EntryKind::Session, 1),
        &entry(Fact::Session { connected: None }, b"s"),
    );
    batch.put_entry(
        slot(7),
        &id(EntryKind::Message, 5),
        &entry(Fact::Message, b"content"),
    );
    let delivery = Fact::Delivery { message: dot(5) };
    batch.put_entry(slot(8), &id(EntryKind::Delivery, 6), &entry(delivery, b"d"));
    batch.put_single(
        slot(8),
        &ClientDot {
            client: client(),
            dot: dot(4),
        },
    );
    let clock = Hlc::at(1_500);
    let message = Bytes::from_static(b"content");
    batch.put_pending(slot(8), dot(5), &Pending { clock, message });
    puts_of(batch)
}

fn read(records: &Records) -> Result<ReadRecords<Bytes, Bytes>, RecordError> {
    let mut reader = Reader::default();
    for (key, value) in records {
        reader.read(key.clone(), value)?;
    }
    Ok(reader.finish())
}

fn key_of(kind: RecordKind, records: &Records) -> Bytes {
    let mut keys = records.keys();
    let key = keys.find(|key| key.first() == Some(&kind.number()));
    key.expect("a record of each kind").clone()
}

/// Entries of a shared group, one of each kind.
fn sample_of_group() -> Records {
    let client = GroupId::new(b"presses/plant/+/cmd").expect("short");
    let client = client.key();
    let assigned = AssignedMessage {
        message: dot(5),
        presence: dot(3),
    };
    let facts = [
        (
            2,
            Fact::Member(Box::new(MemberTerms {
                client: ClientId::new(b"press").expect("short"),
                since: Some(Hlc::at(1_500)),
            })),
        ),
        (3, Fact::Presence),
        (5, Fact::Message),
        (6, Fact::Assignment(Box::new(assigned))),
    ];
    let mut batch = RecordBatch::default();
    batch.put_cohort(CohortId(0), &Progress::whole(vector(1, 9)));
    batch.put_copy(slot(7), CohortId(0));
    batch.put_content(dot(5), &Bytes::from_static(b"content"));
    for (number, fact) in facts {
        let (kind, dot) = (fact.kind(), dot(number));
        let is_message = kind == EntryKind::Message;
        let value: &'static [u8] = if is_message { b"content" } else { b"g" };
        let of = ClientEntryId {
            client: client.clone(),
            id: EntryId { kind, dot },
        };
        batch.put_entry(slot(7), &of, &entry(fact, value));
    }
    puts_of(batch)
}

/// Session without a connection.
fn sample_of_expiry() -> Records {
    let mut batch = RecordBatch::default();
    batch.put_cohort(CohortId(0), &Progress::whole(vector(1, 9)));
    batch.put_copy(slot(7), CohortId(0));
    let session = Fact::Session {
        connected: Some(Hlc::at(2_000)),
    };
    batch.put_entry(slot(7), &id(EntryKind::Session, 1), &entry(session, b"s"));
    let expiry = Fact::Expiry {
        connected: Some(ConnectionOrder::of_connection(dot(1), Hlc::at(2_000))),
    };
    batch.put_entry(slot(7), &id(EntryKind::Expiry, 8), &entry(expiry, b"e"));
    puts_of(batch)
}

/// Messages of one topic that two nodes have retained on two sides of a split, and a clear.
fn sample_of_topic() -> Records {
    let mut entries = SessionEntries::default();
    for (number, fact, value) in [
        (2, Fact::Retained, b"0".as_slice()),
        (5, Fact::Retained, b"content"),
        (7, Fact::Cleared, b""),
    ] {
        let dot = dot(number);
        let clock = Hlc::at(1_000 + number);
        let is_clean = false;
        let entry = Entry {
            birth: Birth { dot, clock, is_clean },
            clock,
            fact,
            value: Bytes::from_static(value),
        };
        entries.insert(dot, entry);
    }
    topic_records(&entries)
}

fn topic_records(entries: &SessionEntries<Bytes>) -> Records {
    let topic = ClientId::new(b"plant/7/state").expect("short");
    let mut batch = RecordBatch::default();
    batch.put_cohort(CohortId(0), &Progress::whole(vector(1, 9)));
    batch.put_copy(Slot::RETAINED, CohortId(0));
    batch.put_topic(Slot::RETAINED, &topic, entries);
    puts_of(batch)
}

fn puts_of(batch: RecordBatch) -> Records {
    let puts = batch.into_writes().into_iter().map(|write| match write {
        RecordWrite::Put { key, value } => (key, value),
        other => panic!("{other:?}"),
    });
    puts.collect()
}

#[test]
fn version_1_is_written_as_ever() {
    compare("records-1.hex", sample());
    compare("records-1-groups.hex", sample_of_group());
    compare("records-1-retained.hex", sample_of_topic());
    compare("records-1-expiry.hex", sample_of_expiry());
}

fn compare(name: &str, records: Records) {
    let mut lines = String::new();
    for (key, value) in records {
        writeln!(lines, "{key:x} {value:x}").expect("a string has room");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &lines).expect("the folder is writable");
    }
    assert_eq!(lines, fs::read_to_string(path).expect("the golden file"));
}

#[test]
fn records_are_read_as_they_were_written() {
    let read = read(&sample()).expect("records");
    assert_eq!(read.clock, Hlc::at(3_000));
    assert_eq!(read.cohorts[&CohortId(0)], Progress::whole(vector(1, 9)));
    assert_eq!(*read.cohorts[&CohortId(1)].holes(), vector(4, 4));
    let whole = &read.copies[&slot(7)];
    assert!(matches!(whole.place, Place::Cohort(CohortId(0))));
    let values = whole.entries.iter().map(|entry| entry.entry.clone());
    let expected = [
        entry(Fact::Session { connected: None }, b"s"),
        entry(Fact::Message, b"content"),
    ];
    assert_eq!(values.collect::<Vec<_>>(), expected);
    let other = &read.copies[&slot(8)];
    assert!(matches!(other.place, Place::Cohort(CohortId(1))));
    assert_eq!(
        other.single,
        [ClientDot {
            client: client(),
            dot: dot(4)
        }]
    );
    assert_eq!(&other.pending[0].pending.message[..], b"content");
}

#[test]
fn entries_of_a_group_are_read_as_they_were_written() {
    let read = read(&sample_of_group()).expect("records");
    let entries = &read.copies[&slot(7)].entries;
    let kinds = entries.iter().map(|entry| entry.entry.fact.kind());
    let expected = [
        EntryKind::Message,
        EntryKind::Member,
        EntryKind::Presence,
        EntryKind::Assignment,
    ];
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
    let is_of_group = |entry: &ClientEntry<Bytes>| GroupId::of_key(&entry.client).is_some();
    assert!(entries.iter().all(is_of_group));
}

#[test]
fn retained_messages_are_read_as_they_were_written() {
    let read = read(&sample_of_topic()).expect("records");
    let entries = &read.copies[&Slot::RETAINED].entries;
    let read = entries
        .iter()
        .map(|of| (of.dot, of.entry.fact.clone(), &of.entry.value[..]));
    let expected = [
        (dot(2), Fact::Retained, b"0".as_slice()),
        (dot(5), Fact::Retained, b"content"),
        (dot(7), Fact::Cleared, b""),
    ];
    assert_eq!(read.collect::<Vec<_>>(), expected);
    assert!(entries.iter().all(|of| of.client.as_bytes() == b"plant/7/state"));
}

#[test]
fn a_key_is_none_of_another_kind_slot_or_length() {
    let refusal = |key: &[u8]| {
        let read = Reader::default().read(Bytes::copy_from_slice(key), &Bytes::from_static(&[1]));
        match read {
            Err(RecordError::Key { error, .. }) => error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refusal(&[]), KeyError::Length);
    assert_eq!(refusal(&[0]), KeyError::UnknownKind { number: 0 });
    assert_eq!(refusal(&[10]), KeyError::UnknownKind { number: 10 });
    assert_eq!(refusal(&[1, 0]), KeyError::Length);
    assert_eq!(refusal(&[4, 0x10]), KeyError::Length);
    assert_eq!(
        refusal(&[4, 0x10, 0x02]),
        KeyError::Slot(SlotOutOfRange { number: 4_098 })
    );
    assert_eq!(refusal(&[&[3][..], &[0; 20]].concat()), KeyError::NoEvent);
    // 14 and 15 are of topics.
    for number in [0, 14, 15, 17] {
        let entry = [&[5, 0, 7][..], &[0; 16], &[number], &[1; 20]].concat();
        assert_eq!(refusal(&entry), KeyError::UnknownEntry { number });
    }
}

#[test]
fn a_topic_has_entries_of_topics_only_and_is_under_its_own_key() {
    let mut entries = SessionEntries::default();
    entries.insert(dot(2), entry(Fact::Session { connected: None }, b"0"));
    let kind = RecordKind::Topic;
    let refused = RecordError::OtherKey { kind };
    assert_eq!(
        read(&topic_records(&entries)).expect_err("no entry of a topic"),
        refused
    );
    let mut records = sample_of_topic();
    let key = key_of(kind, &records);
    let value = records.remove(&key).expect("a topic");
    let mut other = key.to_vec();
    other[3] ^= 1;
    let (more, cut) = ([&value[..], &[0]].concat(), value.slice(..value.len() - 1));
    let other = Bytes::from(other);
    records.insert(other.clone(), value);
    assert_eq!(read(&records).expect_err("another topic"), refused);
    records.remove(&other);
    for damaged in [Bytes::from(more), cut] {
        records.insert(key.clone(), damaged);
        let error = read(&records).expect_err("more or less than a topic");
        assert!(
            matches!(
                error,
                RecordError::Value {
                    kind: RecordKind::Topic,
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn keys_that_do_not_ascend_are_refused() {
    let mut reader = Reader::default();
    let records = sample();
    let (key, value) = records.iter().next_back().expect("records");
    for (key, value) in &records {
        reader.read(key.clone(), value).expect("ascending");
    }
    let kind = RecordKind::Cohort;
    let again = reader.read(key.clone(), value);
    assert_eq!(again, Err(RecordError::NotAscending { kind }));
}

#[test]
fn a_record_that_is_missing_is_named_by_what_needs_it() {
    let without = |kind: RecordKind| {
        let mut records = sample();
        records.remove(&key_of(kind, &records));
        read(&records).expect_err("a record is missing")
    };
    assert_eq!(
        without(RecordKind::Content),
        RecordError::NoContent { dot: dot(5) }
    );
    let (kind, slot) = (RecordKind::Entry, slot(7));
    assert_eq!(without(RecordKind::Copy), RecordError::NoCopy { kind, slot });
    let text = RecordError::NoContent { dot: dot(5) }.to_string();
    assert!(text.starts_with("the content of the message"), "{text}");
}

#[test]
fn a_value_of_another_version_or_with_more_bytes_is_refused() {
    for kind in [
        RecordKind::Clock,
        RecordKind::Cohort,
        RecordKind::Copy,
        RecordKind::Entry,
        RecordKind::Single,
        RecordKind::Pending,
    ] {
        let records = sample();
        let key = key_of(kind, &records);
        let changed = |value: Vec<u8>| {
            let mut records = records.clone();
            records.insert(key.clone(), Bytes::from(value));
            read(&records).expect_err("the value is damaged")
        };
        let value = records[&key].to_vec();
        assert_eq!(changed(Vec::new()), RecordError::OtherVersion { kind, found: 0 });
        let other = [&[2], &value[1..]].concat();
        assert_eq!(changed(other), RecordError::OtherVersion { kind, found: 2 });
        let of = Subject::Record;
        let error = WireError::LeftOver { of, bytes: 1 };
        assert_eq!(
            changed([&value[..], &[0]].concat()),
            RecordError::Value { kind, error }
        );
        let cut = changed(value[..value.len() - 1].to_vec());
        let is_too_short = |error: &WireError| {
            matches!(
                error,
                WireError::Field {
                    fault: Fault::TooShort,
                    ..
                }
            )
        };
        assert!(
            matches!(&cut, RecordError::Value { error, .. } if is_too_short(error)),
            "{cut}"
        );
    }
}

#[test]
fn a_value_under_another_key_is_refused() {
    let mut records = sample();
    let key = key_of(RecordKind::Entry, &records);
    let value = records.remove(&key).expect("an entry");
    let mut other = key.to_vec();
    other[3] ^= 1;
    records.insert(Bytes::from(other), value);
    let kind = RecordKind::Entry;
    assert_eq!(
        read(&records).expect_err("another client"),
        RecordError::OtherKey { kind }
    );
}
