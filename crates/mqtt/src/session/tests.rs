//! A session, a client and a disk that play together.

mod kinds;
mod model;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::write::Write;
use protocol::TopicName;
use protocol::properties::MessageProperties;
use smallvec::SmallVec;

use super::*;
use crate::limits::QueueFull;
use crate::memory::Held;
use crate::message::{DeliveryKind, Message};
use crate::now::epoch;
use crate::records;

const NUMBER: SessionNumber = SessionNumber(5);
const LIMITS: SessionLimits = SessionLimits {
    queue_messages_max: 100,
    inflight_max: 10,
    queue_full: QueueFull::DropOldest,
    queue_bytes_max: 1 << 20,
};

fn at(second: u64) -> Now {
    thread_local!(static ORIGIN: std::time::Instant = epoch());
    Now {
        instant: ORIGIN.with(|origin| *origin) + Duration::from_secs(second),
        wall: 1_000_000 + second * 1_000,
        system_wall: 1_000_000 + second * 1_000,
    }
}

fn id(id: u16) -> PacketId {
    PacketId::new(id).unwrap()
}

fn delivery(qos: QoS, payload: &str, expires_at: Option<Now>) -> Delivery {
    let message = Message {
        topic: TopicName::parse(Text::from_static("t")).unwrap(),
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        properties: MessageProperties::default(),
        qos,
        retain: false,
        publisher: None,
        expires_at: expires_at.map(|now| now.instant),
        received_at: at(0).instant,
        origin: crate::origin::Origin::Unknown,
        id: None,
        is_passing: false,
        held: Held::default(),
    };
    let subscription_ids = SmallVec::new();
    Delivery {
        message: Arc::new(message),
        qos,
        retain: false,
        subscription_ids,
        share: None,
        durable: None,
        kind: DeliveryKind::Message,
        dup: false,
        is_resumed: false,
    }
}

/// A session whose writes are kept, and what it says to the client as short words: `PUBLISH 1 a`, `PUBLISH! 1 a` with
/// DUP, `PUBREL 1`.
struct Play {
    session: Session,
    second: u64,
    dropped: Vec<Dropped>,
    disk: Disk,
    limits: SessionLimits,
}

/// What is on disk and what is on its way there.
#[derive(Default)]
struct Disk {
    queue: BTreeMap<Bytes, Bytes>,
    unsynced: Vec<Write>,
    record: Option<SessionRecord>,
}

impl Play {
    /// A durable session, connected.
    fn new(limits: SessionLimits, receive_maximum: u16) -> Self {
        let session = Session::new(NUMBER, Text::from_static("c"), limits);
        let mut play = Self {
            session,
            second: 0,
            dropped: vec![],
            disk: Disk::default(),
            limits,
        };
        play.connect(receive_maximum);
        play
    }

    fn connect(&mut self, receive_maximum: u16) {
        self.session.connect(receive_maximum, true);
        self.sync();
        self.disk.record = Some(self.session.record(at(self.second).wall, 3_600, None));
    }

    fn disconnect(&mut self) {
        self.session.disconnect(&mut self.dropped);
        self.forget_dropped();
        self.sync();
        self.disk.record = Some(self.session.record(at(self.second).wall, 3_600, None));
    }

    fn push(&mut self, qos: QoS, payload: &str) -> PushOutcome {
        self.push_expiring(qos, payload, None)
    }

    fn push_expiring(&mut self, qos: QoS, payload: &str, expires_at: Option<u64>) -> PushOutcome {
        self.push_this(delivery(qos, payload, expires_at.map(at)))
    }

    fn push_this(&mut self, delivery: Delivery) -> PushOutcome {
        let value =
            (delivery.qos != QoS::AtMostOnce).then(|| records::queue::value(&delivery, at(self.second)));
        let outcome = self.session.push(at(self.second), delivery, &mut self.dropped);
        self.forget_dropped();
        if let PushOutcome::Queued {
            durable: Some(sequence),
        } = outcome
        {
            self.disk
                .unsynced
                .push(records::queue::put(NUMBER, sequence, value.unwrap()));
        }
        outcome
    }

    fn change(&mut self, change: Change) {
        self.disk.unsynced.extend(records::queue::change(NUMBER, change));
    }

    fn next(&mut self) -> Option<Outgoing> {
        let next = self.session.next(at(self.second), &mut self.dropped);
        self.forget_dropped();
        next
    }

    /// All that the session says until it waits for something.
    fn says(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next())
            .map(|outgoing| words(&outgoing))
            .collect()
    }

    /// Everything written is on disk, and the session knows.
    fn sync(&mut self) {
        for write in self.disk.unsynced.drain(..) {
            match write {
                Write::Put { key, value, .. } => {
                    self.disk.queue.insert(key, value);
                }
                Write::RemoveOnce { key, .. } | Write::Remove { key, .. } => {
                    self.disk.queue.remove(&key);
                }
                Write::RemoveRange { .. } | Write::RemoveRangeOnce { .. } => {
                    panic!("no range is removed here")
                }
            }
        }
        self.session.persisted(self.session.written());
    }

    /// The server is killed and starts again: what was not synced is lost.
    fn crash(&mut self) {
        let record = self.disk.record.clone().unwrap();
        self.session = Session::restore(Text::from_static("c"), &record, self.limits);
        self.disk.unsynced.clear();
        for (key, value) in &self.disk.queue {
            let (_, sequence, found) = records::queue::decode(key, value.clone(), at(self.second)).unwrap();
            self.session.restore_delivery(sequence, found);
        }
    }

    fn causes(&mut self) -> Vec<DropCause> {
        self.dropped.drain(..).map(|dropped| dropped.cause).collect()
    }

    fn forget_dropped(&mut self) {
        for sequence in self.dropped.iter().filter_map(|dropped| dropped.durable) {
            let write = records::queue::remove_once(NUMBER, sequence);
            if !self.disk.unsynced.contains(&write) {
                self.disk.unsynced.push(write);
            }
        }
    }
}

fn words(outgoing: &Outgoing) -> String {
    match outgoing {
        Outgoing::Release { packet_id } => format!("PUBREL {}", packet_id.get()),
        Outgoing::Publish { delivery, packet_id } => {
            let dup = if delivery.dup { "!" } else { "" };
            let id = packet_id.map_or(0, PacketId::get);
            format!(
                "PUBLISH{dup} {id} {}",
                std::str::from_utf8(&delivery.message.payload).unwrap()
            )
        }
    }
}

use QoS::{AtLeastOnce as Q1, AtMostOnce as Q0, ExactlyOnce as Q2};

#[test]
fn mqtt_4_6_0_6_messages_leave_in_the_order_in_which_they_came() {
    let mut play = Play::new(LIMITS, 10);
    for (qos, payload) in [(Q1, "a"), (Q0, "b"), (Q1, "c"), (Q2, "d"), (Q0, "e")] {
        play.push(qos, payload);
    }
    assert_eq!(
        play.says(),
        ["PUBLISH 1 a", "PUBLISH 0 b", "PUBLISH 2 c"],
        "QoS 2 waits for the disk, and what is behind it"
    );
    play.sync();
    assert_eq!(play.says(), ["PUBLISH 3 d", "PUBLISH 0 e"]);
}

#[test]
fn mqtt_3_3_4_9_no_more_than_receive_maximum_are_on_their_way() {
    let mut play = Play::new(LIMITS, 2);
    for payload in ["a", "b", "c", "d"] {
        play.push(Q1, payload);
    }
    assert_eq!(play.says(), ["PUBLISH 1 a", "PUBLISH 2 b"]);
    assert!(play.session.puback(id(2)).is_ok());
    assert_eq!(play.says(), ["PUBLISH 3 c"]);
    play.disconnect();
    play.connect(1);
    assert_eq!(play.says(), ["PUBLISH! 1 a"], "also when it is sent again");
    assert!(play.session.puback(id(1)).is_ok());
    assert_eq!(play.says(), ["PUBLISH! 3 c"]);
    assert!(play.session.puback(id(3)).is_ok());
    assert_eq!(play.says(), ["PUBLISH 4 d"]);
}

#[test]
fn mqtt_4_4_0_1_what_was_not_acknowledged_is_sent_again_with_its_packet_id() {
    let mut play = Play::new(LIMITS, 10);
    for (qos, payload) in [(Q1, "a"), (Q2, "b"), (Q2, "c"), (Q1, "d")] {
        play.push(qos, payload);
    }
    play.sync();
    assert_eq!(
        play.says(),
        ["PUBLISH 1 a", "PUBLISH 2 b", "PUBLISH 3 c", "PUBLISH 4 d"]
    );
    let change = play.session.pubrec(id(3), false).unwrap();
    play.change(change);
    assert_eq!(
        change,
        Change::Release {
            sequence: QueueSequence(2),
            packet_id: id(3)
        }
    );
    assert_eq!(play.says(), [""; 0], "PUBREL waits for the disk");
    play.disconnect();
    play.push(Q1, "e");
    play.connect(10);
    assert_eq!(
        play.says(),
        [
            "PUBREL 3",
            "PUBLISH! 1 a",
            "PUBLISH! 2 b",
            "PUBLISH! 4 d",
            "PUBLISH 5 e"
        ]
    );
}

#[test]
fn mqtt_4_3_3_5_a_second_pubrec_is_answered_with_pubrel_again() {
    let mut play = Play::new(LIMITS, 10);
    play.push(Q2, "a");
    play.sync();
    play.says();
    let change = play.session.pubrec(id(1), false).unwrap();
    play.change(change);
    play.sync();
    assert_eq!(play.says(), ["PUBREL 1"]);
    assert_eq!(play.session.pubrec(id(1), false), Ok(Change::Nothing));
    assert_eq!(play.says(), ["PUBREL 1"]);
    let removed = Change::Remove {
        sequence: QueueSequence(0),
        is_written_once: false,
    };
    assert_eq!(play.session.pubcomp(id(1)), Ok(removed));
    assert_eq!(play.session.pubcomp(id(1)), Err(AckError::NotFound));
    assert_eq!(play.session.inflight_len(), 0);
}

#[test]
fn mqtt_4_4_0_2_a_refused_qos_2_message_is_not_released() {
    let mut play = Play::new(LIMITS, 10);
    play.push(Q2, "a");
    play.sync();
    play.says();
    let removed = Change::Remove {
        sequence: QueueSequence(0),
        is_written_once: true,
    };
    assert_eq!(play.session.pubrec(id(1), true), Ok(removed));
    assert_eq!(play.says(), [""; 0]);
}

#[test]
fn an_acknowledgement_of_another_kind_changes_nothing() {
    let mut play = Play::new(LIMITS, 10);
    play.push(Q1, "a");
    play.push(Q2, "b");
    play.sync();
    play.says();
    assert_eq!(play.session.puback(id(2)), Err(AckError::WrongState));
    assert_eq!(play.session.pubrec(id(1), false), Err(AckError::WrongState));
    assert_eq!(play.session.pubcomp(id(2)), Err(AckError::WrongState));
    assert_eq!(play.session.puback(id(9)), Err(AckError::NotFound));
    assert_eq!(play.session.inflight_len(), 2);
    let _ = play.session.pubrec(id(2), false);
    assert_eq!(
        play.session.pubcomp(id(2)),
        Err(AckError::WrongState),
        "the PUBREL has not been sent"
    );
}

#[test]
fn after_a_crash_all_that_may_have_been_sent_carries_dup_and_its_packet_id() {
    let mut play = Play::new(LIMITS, 3);
    for (qos, payload) in [(Q1, "a"), (Q2, "b"), (Q1, "c"), (Q1, "d"), (Q2, "e")] {
        play.push(qos, payload);
    }
    play.sync();
    assert_eq!(play.says(), ["PUBLISH 1 a", "PUBLISH 2 b", "PUBLISH 3 c"]);
    play.crash();
    play.connect(10);
    let again = [
        "PUBLISH! 1 a",
        "PUBLISH! 2 b",
        "PUBLISH! 3 c",
        "PUBLISH! 4 d",
        "PUBLISH! 5 e",
    ];
    assert_eq!(play.says(), again);
}

#[test]
fn after_a_crash_released_messages_are_not_sent_again() {
    let mut play = Play::new(LIMITS, 10);
    play.push(Q2, "a");
    play.sync();
    play.says();
    let change = play.session.pubrec(id(1), false).unwrap();
    play.change(change);
    play.sync();
    play.crash();
    play.connect(10);
    assert_eq!(play.says(), ["PUBREL 1"]);
    let removed = Change::Remove {
        sequence: QueueSequence(0),
        is_written_once: false,
    };
    assert_eq!(play.session.pubcomp(id(1)), Ok(removed));
}

#[test]
fn mqtt_3_3_1_1_after_a_crash_messages_queued_while_offline_have_no_dup() {
    let mut play = Play::new(LIMITS, 10);
    play.push(Q1, "a");
    assert_eq!(play.says(), ["PUBLISH 1 a"]);
    play.disconnect();
    play.push(Q1, "b");
    play.sync();
    play.crash();
    play.connect(10);
    assert_eq!(play.says(), ["PUBLISH! 1 a", "PUBLISH 2 b"]);
}

#[test]
fn sequences_and_packet_ids_go_on_after_a_restart_with_an_empty_queue() {
    let mut play = Play::new(LIMITS, 10);
    play.push(Q1, "a");
    play.says();
    let change = play.session.puback(id(1)).unwrap();
    play.change(change);
    play.disconnect();
    play.crash();
    play.connect(10);
    play.push(Q1, "b");
    assert_eq!(play.says(), ["PUBLISH 2 b"]);
}

#[test]
fn mqtt_3_3_2_5_expired_messages_are_not_sent() {
    let mut play = Play::new(LIMITS, 1);
    play.push(Q1, "a");
    play.push_expiring(Q1, "b", Some(5));
    play.push_expiring(Q1, "c", Some(9));
    assert_eq!(play.says(), ["PUBLISH 1 a"]);
    play.second = 5;
    assert!(play.session.puback(id(1)).is_ok());
    assert_eq!(play.says(), ["PUBLISH 3 c"]);
    assert_eq!(play.causes(), [DropCause::Expired]);
    assert_eq!(
        play.push_expiring(Q1, "d", Some(4)),
        PushOutcome::Dropped(DropCause::Expired)
    );
}

#[test]
fn mqtt_3_3_2_6_the_interval_sent_is_what_is_left() {
    let mut play = Play::new(LIMITS, 1);
    play.push_expiring(Q1, "a", Some(60));
    play.second = 25;
    let Some(Outgoing::Publish { delivery, packet_id }) = play.next() else {
        panic!("nothing is sent")
    };
    assert_eq!(
        delivery.to_publish(packet_id, at(25)).properties.message_expiry,
        Some(35)
    );
}

#[test]
fn a_full_queue_drops_the_oldest_or_the_newest() {
    for (queue_full, kept, outcome) in [
        (
            QueueFull::DropOldest,
            ["PUBLISH 2 b", "PUBLISH 3 c"],
            PushOutcome::Queued {
                durable: Some(QueueSequence(2)),
            },
        ),
        (
            QueueFull::DropNewest,
            ["PUBLISH 1 a", "PUBLISH 2 b"],
            PushOutcome::Dropped(DropCause::QueueMessages),
        ),
    ] {
        let mut play = Play::new(
            SessionLimits {
                queue_messages_max: 2,
                queue_full,
                ..LIMITS
            },
            10,
        );
        play.disconnect();
        play.push(Q1, "a");
        play.push(Q1, "b");
        assert_eq!(play.push(Q1, "c"), outcome);
        play.sync();
        assert_eq!(play.disk.queue.len(), 2);
        play.connect(10);
        assert_eq!(play.says(), kept);
    }
}

#[test]
fn a_large_message_takes_the_place_of_several() {
    let limits = SessionLimits {
        queue_bytes_max: 1_000,
        ..LIMITS
    };
    let mut play = Play::new(limits, 10);
    play.disconnect();
    for payload in ["a", "b", "c"] {
        play.push(Q1, payload);
    }
    play.push(Q1, &"d".repeat(400));
    assert_eq!(play.causes(), [DropCause::QueueBytes, DropCause::QueueBytes]);
    assert_eq!(
        play.push(Q1, &"e".repeat(1_000)),
        PushOutcome::Dropped(DropCause::QueueBytes)
    );
    assert_eq!(play.session.queue_len(), 2);
    assert_eq!(play.session.queue_bytes(), 2 * 257 + 1 + 400);
}

#[test]
fn qos_0_is_not_kept_for_a_client_that_is_away() {
    let mut play = Play::new(LIMITS, 1);
    play.push(Q1, "a");
    play.push(Q1, "b");
    play.push(Q0, "c");
    assert_eq!(play.says(), ["PUBLISH 1 a"]);
    play.disconnect();
    assert_eq!(play.causes(), [DropCause::Offline]);
    assert_eq!(play.push(Q0, "d"), PushOutcome::Dropped(DropCause::Offline));
    play.connect(10);
    assert_eq!(play.says(), ["PUBLISH! 1 a", "PUBLISH 2 b"]);
}

#[test]
fn mqtt_3_1_2_25_a_message_too_large_for_the_client_ends_as_if_it_was_sent() {
    let mut play = Play::new(LIMITS, 1);
    play.push(Q1, "a");
    play.push(Q1, "b");
    assert_eq!(play.says(), ["PUBLISH 1 a"]);
    assert!(play.session.discard(id(1)).is_ok());
    assert_eq!(play.says(), ["PUBLISH 2 b"]);
}

#[test]
fn a_session_that_is_not_durable_waits_for_no_disk() {
    let mut session = Session::new(NUMBER, Text::from_static("c"), LIMITS);
    let mut dropped = vec![];
    session.connect(10, false);
    let outcome = session.push(at(0), delivery(Q2, "a", None), &mut dropped);
    assert_eq!(outcome, PushOutcome::Queued { durable: None });
    assert_eq!(
        session.next(at(0), &mut dropped).map(|next| words(&next)),
        Some("PUBLISH 1 a".into())
    );
    assert_eq!(session.pubrec(id(1), false), Ok(Change::Nothing));
    assert_eq!(
        session.next(at(0), &mut dropped),
        Some(Outgoing::Release { packet_id: id(1) })
    );
    assert_eq!(session.pubcomp(id(1)), Ok(Change::Nothing));
}

#[test]
fn volatile_deliveries_are_not_stored_and_leave_other_packet_ids_free() {
    let mut play = Play::new(LIMITS, 10);
    let volatile = Delivery {
        kind: DeliveryKind::Own,
        ..delivery(Q1, "a", None)
    };
    let outcome = play.session.push(at(0), volatile, &mut play.dropped);
    assert_eq!(outcome, PushOutcome::Queued { durable: None });
    play.push(Q2, "b");
    play.sync();
    assert_eq!(play.says(), ["PUBLISH 1 a", "PUBLISH 2 b"]);
    play.crash();
    play.connect(10);
    assert_eq!(play.says(), ["PUBLISH! 2 b"]);
}

#[test]
fn what_another_session_has_sent_goes_before_what_waits_for_its_packet_identifier() {
    let mut play = Play::new(LIMITS, 10);
    play.disconnect();
    play.push(Q2, "here");
    let place = QueueSequence(u64::from(u16::MAX));
    assert!(play.session.has_room_for_sent(place));
    let there = Delivery {
        is_resumed: true,
        ..delivery(Q2, "there", None)
    };
    let value = records::queue::value(&there, at(0));
    play.disk.unsynced.push(records::queue::put(NUMBER, place, value));
    play.session.take_sent(place, there);
    assert!(!play.session.has_room_for_sent(place));
    play.sync();
    play.connect(10);
    assert_eq!(play.says(), ["PUBLISH! 1 there"]);
    assert_eq!(
        play.session.forget_delivery(place),
        None,
        "the client was sent it"
    );
    play.crash();
    play.connect(10);
    assert_eq!(play.says(), ["PUBLISH! 1 there"]);
    let change = play.session.pubrec(place.packet_id(), false).unwrap();
    play.change(change);
    play.sync();
    assert_eq!(play.says(), ["PUBREL 1"]);
    let change = play.session.pubcomp(place.packet_id()).unwrap();
    play.change(change);
    assert_eq!(play.says(), ["PUBLISH! 1 here"]);
}

#[test]
fn what_another_session_has_sent_is_forgotten_by_one_that_stands_by() {
    let mut play = Play::new(LIMITS, 10);
    play.disconnect();
    let place = QueueSequence(7);
    play.session.take_sent(place, delivery(Q2, "there", None));
    assert_eq!(play.session.forget_delivery(place), Some(true));
    assert_eq!(play.session.forget_delivery(place), None);
    play.connect(10);
    assert_eq!(play.says(), [""; 0]);
}

fn shared(qos: QoS, payload: &str, share: &str) -> Delivery {
    let filter = SubscriptionFilter::parse(Text::new(share).unwrap()).unwrap();
    Delivery {
        share: Some(Arc::new(filter)),
        ..delivery(qos, payload, None)
    }
}

fn payloads(deliveries: &[Delivery]) -> Vec<&str> {
    let payloads = deliveries.iter().map(|delivery| &delivery.message.payload[..]);
    payloads
        .map(|payload| std::str::from_utf8(payload).unwrap())
        .collect()
}

#[test]
fn mqtt_4_8_2_5_what_was_sent_with_qos_2_is_for_nobody_else() {
    let mut play = Play::new(LIMITS, 4);
    for (qos, payload) in [(Q1, "sent 1"), (Q2, "sent 2"), (Q2, "released")] {
        play.push_this(shared(qos, payload, "$share/x/t"));
    }
    play.push(Q1, "its own");
    for (qos, payload) in [(Q1, "waits 1"), (Q2, "waits 2")] {
        play.push_this(shared(qos, payload, "$share/x/t"));
    }
    play.sync();
    assert_eq!(play.says().len(), 4);
    assert!(play.session.pubrec(id(3), false).is_ok());
    assert_eq!(
        payloads(&play.session.take_shared()),
        ["sent 1", "waits 1", "waits 2"]
    );
}

#[test]
fn mqtt_4_8_2_5_what_may_have_been_sent_before_a_crash_with_qos_2_is_for_nobody_else() {
    let mut play = Play::new(LIMITS, 1);
    for (qos, payload) in [(Q2, "sent 2"), (Q1, "waits 1"), (Q2, "waits 2")] {
        play.push_this(shared(qos, payload, "$share/x/t"));
    }
    play.sync();
    assert_eq!(play.says(), ["PUBLISH 1 sent 2"]);
    play.crash();
    assert_eq!(payloads(&play.session.take_shared()), ["waits 1"]);
}

#[test]
fn mqtt_3_10_4_3_what_was_sent_stays_when_a_shared_subscription_ends() {
    let mut play = Play::new(LIMITS, 1);
    for (share, payload) in [
        ("$share/x/t", "sent"),
        ("$share/x/t", "waits"),
        ("$share/y/t", "other"),
    ] {
        play.push_this(shared(Q1, payload, share));
    }
    assert_eq!(play.says(), ["PUBLISH 1 sent"]);
    let filter = shared(Q1, "", "$share/x/t").share.unwrap();
    assert_eq!(payloads(&play.session.take_waiting(&filter)), ["waits"]);
    assert!(play.session.puback(id(1)).is_ok());
    assert_eq!(play.says(), ["PUBLISH 3 other"]);
}

#[test]
fn a_session_is_behind_from_half_a_queue_on_until_it_has_a_quarter() {
    let limits = SessionLimits {
        queue_messages_max: 8,
        ..LIMITS
    };
    let mut play = Play::new(limits, 1);
    for _ in 0..5 {
        assert!(!play.session.is_behind(false));
        play.push(Q1, "x");
        play.says();
    }
    assert!(play.session.is_behind(false));
    for number in 1..=3 {
        assert!(play.session.is_behind(true));
        assert!(play.session.puback(id(number)).is_ok());
        play.says();
    }
    assert!(!play.session.is_behind(true));
}

/// One delivery is never acknowledged while all the other packet ids are used once.
fn packet_id_after_a_round(qos: QoS) -> Vec<String> {
    let mut play = Play::new(LIMITS, 2);
    play.push(Q1, "never acknowledged");
    play.sync();
    play.says();
    for number in 2..=u16::MAX {
        play.push(Q1, "x");
        assert_eq!(play.says().len(), 1);
        assert!(play.session.puback(id(number)).is_ok());
    }
    play.push(qos, "y");
    play.sync();
    play.says()
}

#[test]
fn mqtt_2_2_1_4_qos_1_takes_another_packet_id_when_its_own_is_in_use() {
    assert_eq!(packet_id_after_a_round(Q1), ["PUBLISH 2 y"]);
}

#[test]
fn mqtt_2_2_1_4_qos_2_waits_when_its_packet_id_is_in_use() {
    assert_eq!(packet_id_after_a_round(Q2), [""; 0]);
}

#[test]
fn an_idle_session_with_a_subscription_takes_a_few_hundred_bytes() {
    assert!(size_of::<Session>() <= 360, "{} bytes", size_of::<Session>());
    let session = Session::new(NUMBER, Text::from_static("c"), LIMITS);
    assert_eq!(
        session.queue_len() + session.inflight_len() + session.received.len(),
        0
    );
}
