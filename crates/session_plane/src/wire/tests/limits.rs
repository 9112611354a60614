//! What a peer announces does not decide what is reserved.

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};

use super::refusals::refusal;
use super::*;
use crate::client_id::CLIENT_ID_BYTES_MAX;
use crate::feed::{DeliveryChanges, FeedDelivery, FeedItem, KnownDelivery, QueueKey};
use crate::transfer::{
    Block, BlockAnswer, Digest, EntryCheck, Group, KeptEntry, ListedEntry, OwnEvent, RunPosition,
    SessionBlocks, SessionDifference,
};
use crate::version_vector::INTERVALS_MAX;
use crate::view::NODES_MAX;
use crate::wire::field::Field;
use crate::{
    Birth, Change, ClientDot, ClientId, ClientIdTooLong, Dot, Entry, EntryId, EntryKind, Fact, NodeState,
    Pending, PendingMessage, PresentNode, Run, SlotOutOfRange, SlotSet, SwimIncarnation, VectorFull,
    VersionVector, ViewError,
};

/// Memory that an item of a list takes at most, for each byte that it was sent in.
const MEMORY_FACTOR: usize = 32;

const RUN: Run = Run {
    node: NodeId(1),
    incarnation: Incarnation(1),
};

const DOT: Dot = Dot { run: RUN, number: 1 };

/// The shortest value of an item has the bytes that a list counts for it, and little memory.
fn check<T: Field>(shortest: &T) {
    let mut without = Writer::new(Kind::Hello);
    without.put_run(RUN);
    let mut with = Writer::new(Kind::Hello);
    with.put_run(RUN);
    with.put(shortest);
    let bytes = with.finish().len() - without.finish().len();
    let name = std::any::type_name::<T>();
    assert_eq!(bytes, T::BYTES_MIN, "{name}");
    let memory = size_of::<T>();
    assert!(
        memory <= bytes * MEMORY_FACTOR,
        "{name}: {memory} bytes of memory"
    );
}

#[test]
fn a_list_takes_memory_in_proportion_to_its_bytes() {
    let id = EntryId {
        kind: EntryKind::Message,
        dot: DOT,
    };
    check(&DOT);
    check(&RunPosition { run: RUN, number: 0 });
    check(&PresentNode {
        run: RUN,
        incarnation: SwimIncarnation(0),
        state: NodeState::Running,
    });
    check(&Block {
        last: id,
        digest: Digest([0; Digest::BYTES]),
    });
    check(&KeptEntry {
        id,
        check: EntryCheck(0),
    });
    check(&BlockAnswer::Equal);
    check(&Group {
        last: None,
        shared: Digest([0; Digest::BYTES]),
        has_others: false,
    });
    check(&SessionBlocks {
        client: client(),
        blocks: Vec::new(),
    });
    check(&ClientDot {
        client: client(),
        dot: DOT,
    });
}

#[test]
fn a_list_with_values_takes_memory_in_proportion_to_its_bytes() {
    let key = QueueKey {
        clock: Hlc::ZERO,
        dot: DOT,
    };
    check(&key);
    check(&FeedItem {
        key,
        value: Bytes::new(),
    });
    check(&KnownDelivery {
        message: DOT,
        is_gone: false,
    });
    check(&FeedDelivery {
        dot: DOT,
        known: KnownDelivery {
            message: DOT,
            is_gone: false,
        },
        value: Bytes::new(),
    });
    check(&DeliveryChanges::<Bytes>::default());
    check(&pending());
    check(&ListedEntry {
        dot: DOT,
        entry: entry(),
    });
    check(&SessionDifference::<Bytes> {
        client: client(),
        blocks: Vec::new(),
        entries: Vec::new(),
    });
    let change = Change {
        dot: DOT,
        client: client(),
        removes: Vec::new(),
        adds: None,
    };
    check(&OwnEvent::<Bytes, Bytes>::Change(change));
    check(&SentEvent {
        dot: DOT,
        kind: SentEventKind::Change(SlotSet::default()),
        payload: EventPayload {
            clock: Hlc::ZERO,
            known: VersionVector::default(),
            content: Bytes::new(),
        },
    });
}

#[test]
fn a_list_that_is_longer_than_its_message_is_refused() {
    let count = 1 << 40;
    let long = [0x80, 0x80, 0x80, 0x80, 0x80, 0x20];
    let after_slot = |form: &[u8]| [&[5, 1], form, &long[..], &[0; 8]].concat();
    let after_slots = |form: &[u8]| [&[1, 1, 5], form, &long[..], &[0; 8]].concat();
    let too_many = |bytes| Fault::TooMany { count, bytes };
    let in_field = |kind, fields: &[u8]| refusal(kind, fields);
    assert_eq!(
        in_field(Kind::AskSlots, &after_slots(&[])),
        ("positions", too_many(8))
    );
    assert_eq!(
        in_field(Kind::SlotPart, &after_slot(&[0, 1])),
        ("groups", too_many(8))
    );
    assert_eq!(
        in_field(Kind::SlotPart, &after_slot(&[0, 3])),
        ("entries of a rest", too_many(8))
    );
    assert_eq!(
        in_field(Kind::AskSlots, &after_slots(&[0])),
        ("numbers that an asker lacks", too_many(8))
    );
    // Nine bytes are two intervals, not three.
    let vector = [&[1, 1, 5, 0, 3][..], &[0; 9]].concat();
    let fault = Fault::TooMany { count: 3, bytes: 9 };
    assert_eq!(
        in_field(Kind::AskSlots, &vector),
        ("numbers that an asker lacks", fault)
    );
}

#[test]
fn a_vector_has_so_many_intervals_at_most() {
    let fields = |count: usize| {
        let mut writer = Writer::new(Kind::AskSlots);
        writer.put_fixed(&[1, 1, 5, 0]);
        writer.put_number(count as u64);
        for number in 0..count as u64 {
            writer.put_run(RUN);
            writer.put_number(u64::from(number > 0));
            writer.put_number(0);
            writer.put_number(0);
        }
        writer.finish()
    };
    assert!(Sample::decode(fields(INTERVALS_MAX)).is_ok());
    let error = Sample::decode(fields(INTERVALS_MAX + 1)).expect_err("too long");
    assert_eq!(
        error,
        field(Kind::AskSlots, "numbers that an asker lacks", VectorFull)
    );
}

#[test]
fn a_view_has_so_many_nodes_at_most() {
    let fields = |count: usize| {
        let mut writer = Writer::new(Kind::Welcome);
        writer.put_run(RUN);
        writer.put_fixed(&[1, 1]);
        writer.put_number(count as u64);
        for node in 1..=count as u64 {
            writer.put_run(Run {
                node: NodeId(node),
                incarnation: Incarnation(1),
            });
            writer.put_fixed(&[1, 2]);
        }
        writer.put_fixed(&[0; 10]);
        writer.finish()
    };
    assert!(Sample::decode(fields(NODES_MAX)).is_ok());
    let error = Sample::decode(fields(NODES_MAX + 1)).expect_err("too long");
    let fault = ViewError::TooManyNodes { count: 101 };
    assert_eq!(error, field(Kind::Welcome, "view of a ring marker", fault));
}

#[test]
fn a_client_id_has_so_many_bytes_at_most() {
    let fields = |bytes: usize| {
        let mut writer = Writer::new(Kind::AskPart);
        writer.put_fixed(&[5, 1, 0, 2]);
        writer.put_bytes(&vec![b'a'; bytes]);
        writer.finish()
    };
    assert!(Sample::decode(fields(CLIENT_ID_BYTES_MAX)).is_ok());
    let error = Sample::decode(fields(CLIENT_ID_BYTES_MAX + 1)).expect_err("too long");
    let fault = ClientIdTooLong { bytes: 65_536 };
    assert_eq!(error, field(Kind::AskPart, "last client before", fault));
}

#[test]
fn a_set_has_every_slot_at_most() {
    let fields = |slots: usize| {
        let mut writer = Writer::new(Kind::Resend);
        writer.put_number(1);
        writer.put_number(slots as u64);
        writer.put_fixed(&vec![0; slots]);
        writer.put_fixed(&[1, 0, 0]);
        writer.finish()
    };
    let message = Sample::decode(fields(4_098)).expect("all slots");
    let Message::Replication(Replication::Resend(resend)) = message else {
        panic!("{message:?}");
    };
    assert_eq!(resend.slots, crate::Slot::all().collect::<SlotSet>());
    let error = Sample::decode(fields(4_099)).expect_err("too many");
    let fault = SlotOutOfRange { number: 4_098 };
    assert_eq!(error, field(Kind::Resend, "slots of a resend", fault));
}

/// The bytes of a value are those of the message, not a copy.
#[test]
fn values_share_the_memory_of_their_message() {
    let message = Replication::Welcome(SentEvent {
        dot: DOT,
        kind: SentEventKind::Change(SlotSet::default()),
        payload: EventPayload {
            clock: Hlc::ZERO,
            known: VersionVector::default(),
            content: Bytes::from(vec![7; 1_000]),
        },
    });
    let bytes = Sample::Replication(message).encode();
    let range = bytes.as_ptr_range();
    let Ok(Message::Replication(Replication::Welcome(event))) = Sample::decode(bytes.clone()) else {
        panic!("a Welcome");
    };
    assert!(range.contains(&event.payload.content.as_ptr()));
    assert_eq!(bytes[bytes.len() - 1_000..], event.payload.content);
}

fn field(message: Kind, field: &'static str, fault: impl Into<Fault>) -> WireError {
    let fault = fault.into();
    let of = Subject::Message(message);
    WireError::Field { of, field, fault }
}

fn client() -> ClientId {
    ClientId::new(b"").expect("a short id")
}

fn pending() -> PendingMessage<Bytes> {
    PendingMessage {
        dot: DOT,
        pending: Pending {
            clock: Hlc::ZERO,
            message: Bytes::new(),
        },
    }
}

fn entry() -> Entry<Bytes> {
    Entry {
        birth: Birth {
            dot: DOT,
            clock: Hlc::ZERO,
            is_clean: false,
        },
        clock: Hlc::ZERO,
        fact: Fact::Message,
        value: Bytes::new(),
    }
}
