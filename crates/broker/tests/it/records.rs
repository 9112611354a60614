//! Every record as bytes that a released version wrote: it is written the same today, and read back.
//!
//! `UPDATE=1` writes the files of a new format version; files of a released one are never changed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::session_plane::Hlc;
use cluster::write::Write;
use cluster::{Incarnation, NodeId};
use mqtt::ids::{QueueSequence, SessionNumber};
use mqtt::memory::Held;
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::ownership::Owner;
use mqtt::principal::Principal;
use mqtt::records::queue::{QueueRecord, WaitingRecord};
use mqtt::records::retained::RetainedRecord;
use mqtt::records::session::{Positions, Presence, SessionRecord};
use mqtt::records::{self, RecordError};
use mqtt::retained::Edition;
use mqtt::subscriptions::Subscription;
use proptest::prelude::*;
use protocol::packet::{PacketId, QoS, RetainHandling, SubscriptionId, SubscriptionOptions, Will};
use protocol::properties::{MessageProperties, UserProperties};
use protocol::topic::SubscriptionFilter;
use protocol::{Text, TopicName};

use crate::alone::now;

const NUMBER: SessionNumber = SessionNumber(0x0102_0304_0506_0708);

fn text(text: &str) -> Text {
    Text::new(text).unwrap()
}

fn id(id: u16) -> PacketId {
    PacketId::new(id).unwrap()
}

fn properties() -> MessageProperties {
    MessageProperties {
        payload_is_utf8: Some(true),
        message_expiry: Some(60),
        content_type: Some(text("text/plain")),
        response_topic: Some(text("answers/1")),
        correlation_data: Some(Bytes::from_static(&[1, 2, 3])),
        user_properties: UserProperties::from_pairs([("a", "1"), ("a", "2")]).unwrap(),
    }
}

fn full_message(now: Now) -> Message {
    Message {
        topic: TopicName::parse(text("plant/1/temperature")).unwrap(),
        payload: Bytes::from_static(b"21.5"),
        properties: properties(),
        qos: QoS::ExactlyOnce,
        retain: true,
        publisher: None,
        expires_at: Some(now.instant + Duration::from_secs(60)),
        received_at: now.instant,
        held: Held::default(),
    }
}

fn bare_message(now: Now) -> Message {
    Message {
        topic: TopicName::parse(text("t")).unwrap(),
        payload: Bytes::new(),
        properties: MessageProperties::default(),
        qos: QoS::AtLeastOnce,
        retain: false,
        publisher: None,
        expires_at: None,
        received_at: now.instant,
        held: Held::default(),
    }
}

fn delivery(message: Message, ids: &[u32]) -> WaitingRecord {
    WaitingRecord {
        qos: message.qos,
        retain: message.retain,
        message: Arc::new(message),
        subscription_ids: ids.iter().map(|id| SubscriptionId::new(*id).unwrap()).collect(),
        share: None,
    }
}

fn queue_write(record: &QueueRecord, now: Now) -> Write {
    records::queue::put_record(NUMBER, QueueSequence(9), record, now)
}

/// Value of the record of a delivery.
fn queue_value(delivery: WaitingRecord, now: Now) -> Bytes {
    value_of(queue_write(&QueueRecord::Waiting(delivery), now))
}

fn value_of(write: Write) -> Bytes {
    match write {
        Write::Put { value, .. } => value,
        other => panic!("it is not put: {other:?}"),
    }
}

/// What a delivery's released record says.
fn read_queue(name: &str, now: Now) -> QueueRecord {
    let (key, value) = released(name);
    let (number, sequence, record) = records::queue::decode(&key, value, now).unwrap();
    assert_eq!((number, sequence), (NUMBER, QueueSequence(9)), "{name}");
    record
}

fn session_record(will: Option<Will>, presence: Presence) -> SessionRecord {
    let positions = Positions {
        next_sequence: 1_000,
        sent_below: 900,
    };
    SessionRecord {
        number: NUMBER,
        expiry: 3_600,
        presence,
        positions,
        will,
        owner: None,
    }
}

fn owned(record: SessionRecord, principal: Option<Principal>, policy: Option<&str>) -> SessionRecord {
    SessionRecord {
        owner: Owner::of(principal, policy.map(text)),
        ..record
    }
}

fn principal() -> Principal {
    let attributes = [("floor", "3"), ("site", "north")];
    let attributes = attributes.map(|(name, value)| (text(name), text(value)));
    Principal::new(text("pump-7"), attributes.into_iter().collect())
}

fn will() -> Will {
    Will {
        topic: TopicName::parse(text("wills/1")).unwrap(),
        payload: Bytes::from_static(b"gone"),
        qos: QoS::AtLeastOnce,
        retain: true,
        delay: Some(30),
        properties: properties(),
    }
}

fn shared_filter() -> (SubscriptionFilter, Subscription) {
    let options = SubscriptionOptions {
        qos: QoS::ExactlyOnce,
        no_local: false,
        retain_as_published: true,
        retain_handling: RetainHandling::DoNotSend,
    };
    let filter = SubscriptionFilter::parse(text("$share/workers/jobs/+/#")).unwrap();
    (
        filter,
        Subscription {
            options,
            id: SubscriptionId::new(268_435_455),
        },
    )
}

/// Compares a write with a golden file, and returns its key and value as the file has them.
fn golden(name: &str, write: Write) -> (Bytes, Bytes) {
    golden_of("v1", name, write)
}

fn golden_of(version: &str, name: &str, write: Write) -> (Bytes, Bytes) {
    let Write::Put { key, value, .. } = write else {
        panic!("{name} is not put: {write:?}")
    };
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(version)
        .join(name);
    let mut bytes = u16::try_from(key.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(&key);
    bytes.extend_from_slice(&value);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &bytes).unwrap();
    }
    let found = Bytes::from(std::fs::read(&path).unwrap());
    assert_eq!(
        Bytes::from(bytes),
        found,
        "{name} is written in another way than it was released"
    );
    released(&format!("{version}/{name}"))
}

/// Key and value of a golden record.
pub(crate) fn released(name: &str) -> (Bytes, Bytes) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let released = Bytes::from(std::fs::read(path).unwrap());
    let value_from = 2 + usize::from(u16::from_be_bytes([released[0], released[1]]));
    (released.slice(2..value_from), released.slice(value_from..))
}

#[test]
fn queue_records_are_as_released() {
    let now = now();
    let (filter, _) = shared_filter();
    let shared = WaitingRecord {
        share: Some(Arc::new(filter)),
        ..delivery(full_message(now), &[7])
    };
    for (version, name, delivery) in [
        (
            "v1",
            "queue-full.bin",
            delivery(full_message(now), &[1, 268_435_455]),
        ),
        ("v1", "queue-bare.bin", delivery(bare_message(now), &[])),
        ("v2", "queue-shared.bin", shared),
    ] {
        let record = QueueRecord::Waiting(delivery);
        golden_of(version, name, queue_write(&record, now));
        assert_eq!(read_queue(&format!("{version}/{name}"), now), record);
    }
    let released = QueueRecord::Released { packet_id: id(10) };
    golden("queue-released.bin", queue_write(&released, now));
    assert_eq!(read_queue("v1/queue-released.bin", now), released);
}

/// Records that only older builds have written: of what was in flight over a split, and of messages with ids.
#[test]
fn older_queue_records_are_read() {
    let now = now();
    let (filter, _) = shared_filter();
    let share = || Some(Arc::new(filter.clone()));
    let full = |share| WaitingRecord {
        share,
        ..delivery(full_message(now), &[7])
    };
    for (name, delivery) in [
        ("v3/queue-resumed.bin", full(None)),
        ("v3/queue-resumed-shared.bin", full(share())),
        ("v4/queue-id.bin", delivery(bare_message(now), &[])),
        ("v4/queue-id-full.bin", full(share())),
    ] {
        assert_eq!(read_queue(name, now), QueueRecord::Waiting(delivery), "{name}");
    }
    let (key, value) = released("v4/queue-id.bin");
    // With the same message, and of a version that knows no ids.
    let mut damaged = value.to_vec();
    (damaged[0], damaged[2]) = (3, damaged[2] & 0b111);
    let what = "a message has an id where none is to be, or none";
    let record = "queue";
    let read = records::queue::decode(&key, damaged.into(), now);
    assert_eq!(read, Err(RecordError::Damaged { record, what }));
}

#[test]
fn a_share_without_a_name_is_damaged() {
    let (key, value) = released("v2/queue-shared.bin");
    // Version, kind, flags, the count, one identifier and the length come before the filter.
    let mut damaged = value.to_vec();
    damaged[11] = b'x';
    let what = "a share has no name";
    let record = "queue";
    assert_eq!(
        records::queue::decode(&key, damaged.into(), now()),
        Err(RecordError::Damaged { record, what })
    );
}

#[test]
fn retained_records_are_as_released() {
    let now = now();
    let (key, value) = golden(
        "retained-full.bin",
        records::retained::put(&full_message(now), now),
    );
    let record = RetainedRecord {
        topic: full_message(now).topic,
        edition: None,
        message: Some(full_message(now)),
    };
    assert_eq!(records::retained::decode(&key, value, now), Ok(record));
}

#[test]
fn what_is_retained_in_a_cluster_is_as_released() {
    let now = now();
    let edition = Edition {
        at: Hlc::at(now.wall).next(),
        node: NodeId(0x0102),
        incarnation: Incarnation(3),
    };
    let message = full_message(now);
    for (name, message) in [
        ("retained-edition.bin", Some(&message)),
        ("retained-tombstone.bin", None),
    ] {
        let topic = full_message(now).topic;
        let (key, value) = released(&format!("v2/{name}"));
        let record = RetainedRecord {
            topic,
            edition: Some(edition),
            message: message.cloned(),
        };
        assert_eq!(records::retained::decode(&key, value.clone(), now), Ok(record));
        let mut late = value.to_vec();
        late[1] = 0xFF;
        assert!(records::retained::decode(&key, late.into(), now).is_err());
    }
}

#[test]
fn session_records_are_as_released() {
    let client_id = text("client-1");
    let since = 1_700_000_000_000;
    for (name, record) in [
        (
            "session-connected.bin",
            session_record(Some(will()), Presence::Connected { since }),
        ),
        (
            "session-disconnected.bin",
            session_record(None, Presence::Disconnected { since }),
        ),
    ] {
        let (key, value) = golden(name, records::session::put(&client_id, &record));
        assert_eq!(
            records::session::decode(&key, value),
            Ok((client_id.clone(), record))
        );
    }
}

#[test]
fn session_records_with_an_owner_are_as_released() {
    let client_id = text("client-1");
    let since = 1_700_000_000_000;
    let connected = || session_record(Some(will()), Presence::Connected { since });
    for (name, record) in [
        (
            "session-owned.bin",
            owned(connected(), Some(principal()), Some("plant")),
        ),
        (
            "session-named.bin",
            owned(connected(), Some(Principal::named(text("pump-7"))), None),
        ),
        (
            "session-anonymous.bin",
            owned(
                session_record(None, Presence::Disconnected { since }),
                None,
                Some("plant"),
            ),
        ),
    ] {
        let (key, value) = golden_of("v2", name, records::session::put(&client_id, &record));
        assert_eq!(
            records::session::decode(&key, value),
            Ok((client_id.clone(), record))
        );
    }
}

#[test]
fn a_session_record_keeps_the_method_that_found_its_principal_out() {
    let client_id = text("client-1");
    let found = principal().by_method(text("x509"));
    let record = owned(
        session_record(None, Presence::Disconnected { since: 1 }),
        Some(found),
        Some("plant"),
    );
    let (key, value) = golden_of(
        "v2",
        "session-by-method.bin",
        records::session::put(&client_id, &record),
    );
    assert_eq!(records::session::decode(&key, value), Ok((client_id, record)));
}

#[test]
fn subscription_records_are_as_released() {
    let plain = SubscriptionFilter::parse(text("a/b")).unwrap();
    for (name, (filter, subscription)) in [
        ("subscription-shared.bin", shared_filter()),
        ("subscription-plain.bin", (plain, Subscription::default())),
    ] {
        let (key, value) = golden(name, records::subscription::put(NUMBER, &filter, &subscription));
        assert_eq!(
            records::subscription::decode(&key, value),
            Ok((NUMBER, filter, subscription, None))
        );
    }
    let (filter, subscription) = shared_filter();
    let filter = SubscriptionFilter {
        share: None,
        ..filter
    };
    let (key, value) = released("v2/subscription-due.bin");
    assert_eq!(
        records::subscription::decode(&key, value),
        Ok((NUMBER, filter, subscription, Some(b"a\0b".to_vec())))
    );
}

#[test]
fn deadlines_follow_the_wall_clock_over_a_restart() {
    let before = now();
    let value = queue_value(delivery(full_message(before), &[]), before);
    let after = Now {
        instant: before.instant + Duration::from_secs(5),
        wall: before.wall + 20_000,
        system_wall: before.wall + 20_000,
    };
    let key = [0; 16];
    let (_, _, record) = records::queue::decode(&key, value, after).unwrap();
    let QueueRecord::Waiting(delivery) = record else {
        panic!("it is not waiting")
    };
    assert_eq!(delivery.message.remaining_expiry(after), Some(40));
}

#[test]
fn a_session_without_a_client_id_is_damaged() {
    let record = session_record(None, Presence::Connected { since: 0 });
    let Write::Put { value, .. } = records::session::put(&text("client-1"), &record) else {
        panic!("it is not put")
    };
    let what = "a client id is empty";
    let record = "session";
    assert_eq!(
        records::session::decode(&[], value),
        Err(RecordError::Damaged { record, what })
    );
}

#[test]
fn a_place_in_a_queue_that_is_never_reached_is_damaged() {
    let mut record = session_record(None, Presence::Connected { since: 0 });
    record.positions.next_sequence = u64::MAX;
    let Write::Put { key, value, .. } = records::session::put(&text("client-1"), &record) else {
        panic!("it is not put")
    };
    let what = "a place in a queue is too high";
    let record = "session";
    assert_eq!(
        records::session::decode(&key, value),
        Err(RecordError::Damaged { record, what })
    );

    let record = "queue";
    let value = queue_value(delivery(bare_message(now()), &[]), now());
    assert_eq!(
        records::queue::decode(&[0xFF; 16], value, now()),
        Err(RecordError::Damaged { record, what })
    );
}

#[test]
fn what_no_client_would_understand_is_damaged() {
    let now = now();
    let (filter, subscription) = shared_filter();
    let too_high = Subscription {
        id: SubscriptionId::new(268_435_456),
        ..subscription
    };
    let Write::Put { key, value, .. } = records::subscription::put(NUMBER, &filter, &too_high) else {
        panic!("it is not put")
    };
    let what = "a subscription identifier is too high";
    let record = "subscription";
    assert_eq!(
        records::subscription::decode(&key, value),
        Err(RecordError::Damaged { record, what })
    );

    let record = "queue";
    let value = queue_value(delivery(bare_message(now), &[268_435_456]), now);
    assert_eq!(
        records::queue::decode(&[0; 16], value, now),
        Err(RecordError::Damaged { record, what })
    );

    let mut message = full_message(now);
    message.properties.response_topic = Some(text("answers/#"));
    let value = queue_value(delivery(message, &[]), now);
    let what = "a response topic is not valid";
    assert_eq!(
        records::queue::decode(&[0; 16], value, now),
        Err(RecordError::Damaged { record, what })
    );
}

#[test]
fn an_unknown_version_is_refused() {
    let refused = records::subscription::decode(&[0; 9], Bytes::from_static(&[9]));
    let version = 9;
    let record = "subscription";
    assert_eq!(refused, Err(RecordError::UnknownVersion { record, version }));
}

#[test]
fn all_of_a_session_is_one_range_in_each_keyspace() {
    for write in records::remove_all(SessionNumber(7)) {
        let Write::RemoveRange { from, to, .. } = write else {
            panic!("not a range: {write:?}")
        };
        assert_eq!(
            (from.as_ref(), to.as_ref()),
            (&7_u64.to_be_bytes()[..], &8_u64.to_be_bytes()[..])
        );
    }
}

/// Gives bytes to all decoders; whatever they say, they do not panic, and what they accept is what is written again.
fn decode_all(key: &[u8], value: &Bytes) {
    let now = now();
    if let Ok((_, _, record)) = records::queue::decode(key, value.clone(), now) {
        let again = value_of(queue_write(&record, now));
        let read = records::queue::decode(key, again, now).map(|(_, _, record)| record);
        assert_eq!(read, Ok(record));
    }
    let _ = records::retained::decode(key, value.clone(), now);
    if let Ok((client_id, record)) = records::session::decode(key, value.clone()) {
        let _ = records::session::put(&client_id, &record);
    }
    let _ = records::subscription::decode(key, value.clone());
}

/// The value of one of the golden records.
fn released_value() -> impl Strategy<Value = (Bytes, Bytes)> {
    let names = [
        "v1/queue-full",
        "v1/queue-bare",
        "v1/queue-released",
        "v1/retained-full",
        "v1/session-connected",
    ];
    let more = [
        "v2/queue-shared",
        "v3/queue-resumed",
        "v3/queue-resumed-shared",
        "v4/queue-id",
        "v4/queue-id-full",
        "v2/session-owned",
        "v2/subscription-due",
        "v2/retained-edition",
        "v2/retained-tombstone",
        "v1/session-disconnected",
        "v1/subscription-shared",
        "v1/subscription-plain",
    ];
    let all: Vec<&str> = names.into_iter().chain(more).collect();
    prop::sample::select(all).prop_map(|name| released(&format!("{name}.bin")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn no_bytes_make_a_decoder_panic(
        key in prop::collection::vec(any::<u8>(), 0..24),
        version in 1..5_u8,
        kind in 0..3_u8,
        value in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let value = [[version, kind].as_slice(), &value].concat();
        decode_all(&key, &Bytes::from(value));
    }

    #[test]
    fn no_change_of_a_record_makes_a_decoder_panic(
        (key, value) in released_value(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        length in any::<prop::sample::Index>(),
        is_cut: bool,
    ) {
        let mut value = value.to_vec();
        for (position, byte) in changes {
            let position = position.index(value.len());
            value[position] = byte;
        }
        if is_cut {
            value.truncate(length.index(value.len() + 1));
        }
        decode_all(&key, &Bytes::from(value));
    }
}

#[test]
fn a_cut_record_is_damaged_at_every_length() {
    let now = now();
    let value = queue_value(delivery(full_message(now), &[1]), now);
    for length in 0..value.len() {
        assert!(
            records::queue::decode(&[0; 16], value.slice(..length), now).is_err(),
            "cut at {length}"
        );
    }
    assert!(
        records::queue::decode(&[], value, now).is_err(),
        "a key of no bytes"
    );
}
