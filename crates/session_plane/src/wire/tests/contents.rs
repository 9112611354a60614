//! Contents of events that are drawn at random, by themselves and in their events.

use std::collections::BTreeSet;

use bytes::Bytes;
use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::sample::Index;

use super::samples::{changes, clients, dots, entries, slots, values};
use super::stream_messages::events;
use super::*;
use crate::plane::{EventContent, MessageMove, SessionChange};
use crate::{Birth, Change, ClientId, Dot, GroupId, Run, Slot};

type Content = EventContent<Bytes, Bytes>;

/// Message of a plane, with contents as planes have them.
pub(super) type PlaneSample = Message<Bytes, Bytes, Content>;

fn contents() -> BoxedStrategy<Content> {
    let nodes = btree_set((1..6_u64).prop_map(NodeId), 0..4);
    prop_oneof![
        1 => Just(EventContent::Nothing),
        6 => changes().prop_map(|change| EventContent::Change(without_dot(change))),
        2 => (values(), nodes).prop_map(|(content, nodes)| EventContent::Message { content, nodes }),
        2 => moves().prop_map(EventContent::Move),
    ]
    .boxed()
}

fn moves() -> BoxedStrategy<MessageMove<Bytes>> {
    let of_group = (slots(), vec(any::<u8>(), 0..6), dots(), dots());
    (clients(), entries(), of_group, values())
        .prop_map(
            |(client, entry, (part, name, message, assignment), value)| MessageMove {
                client,
                birth: entry.birth,
                part,
                group: GroupId::new(&name).expect("a short name"),
                message,
                assignment,
                value,
            },
        )
        .boxed()
}

fn without_dot(change: Change<Bytes>) -> SessionChange<Bytes> {
    SessionChange {
        client: change.client,
        removes: change.removes,
        adds: change.adds,
    }
}

/// Event with this content, in the place of `event`'s.
fn with_content(event: SentEvent<Bytes>, content: Content) -> PlaneSample {
    let EventPayload { clock, known, .. } = event.payload;
    let event = SentEvent {
        dot: event.dot,
        kind: event.kind,
        payload: EventPayload {
            clock,
            known,
            content,
        },
    };
    let after = event.dot.number - 1;
    Message::Replication(ReplicationMessage::Event(NextEvent { after, event }))
}

fn read(bytes: &[u8]) -> Option<Content> {
    Content::from_bytes(Bytes::copy_from_slice(bytes))
}

/// Bytes that are accepted are those of their content.
fn check(bytes: &[u8]) {
    if let Some(content) = read(bytes) {
        assert_eq!(content.to_bytes(), bytes, "{content:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_content_is_read_as_it_was_written(content in contents()) {
        prop_assert_eq!(Content::from_bytes(content.to_bytes()), Some(content));
    }

    #[test]
    fn an_event_has_its_content(event in events(), content in contents()) {
        let message = with_content(event, content);
        prop_assert_eq!(PlaneSample::decode(message.encode()), Ok(message));
    }

    #[test]
    fn a_content_that_ends_early_or_goes_on_is_refused(content in contents(), at in any::<Index>()) {
        let bytes = content.to_bytes();
        prop_assert_eq!(read(&bytes[..at.index(bytes.len())]), None);
        prop_assert_eq!(read(&[&bytes[..], &[0]].concat()), None);
    }

    #[test]
    fn a_changed_byte_of_a_content_is_refused_or_makes_another(
        content in contents(),
        at in any::<Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = content.to_bytes().to_vec();
        let at = at.index(bytes.len());
        let before = std::mem::replace(&mut bytes[at], byte);
        check(&bytes);
        if byte != before {
            prop_assert_ne!(read(&bytes), Some(content));
        }
    }

    #[test]
    fn any_bytes_are_refused_or_are_a_content(form in 0..6_u8, fields in vec(any::<u8>(), 0..120)) {
        check(&[&[form][..], &fields].concat());
    }

    #[test]
    fn small_bytes_are_refused_or_are_a_content(form in 0..6_u8, fields in vec(0..4_u8, 0..90)) {
        check(&[&[form][..], &fields].concat());
    }

    /// A transfer has the bytes of a change behind its dot, but for runs that the dot has named.
    #[test]
    fn a_change_is_written_as_in_a_transfer(change in changes()) {
        let mut of_transfer = Writer::of_value();
        of_transfer.put(&change);
        let mut of_event = Writer::of_value();
        of_event.put(&change.dot);
        of_event.put(&without_dot(change));
        prop_assert_eq!(of_transfer.finish(), of_event.finish());
    }
}

#[test]
fn a_content_that_is_none_is_refused_in_the_name_of_its_event() {
    let run = [0, 0, 0, 0, 0, 0, 0, 0, 1, 7];
    let event = |content: &[u8]| {
        let begin = [VERSION, Kind::Event.number(), 2];
        let length = [u8::try_from(content.len()).expect("a short content")];
        let parts = [&begin[..], &run, &[3, 0, 0], &[0; 8], &[0], &length, content];
        PlaneSample::decode(Bytes::from(parts.concat()))
    };
    assert!(event(&[0]).is_ok());
    assert!(event(&[1, 1, b'a', 0, 0]).is_ok());
    assert!(event(&[2, 1, 8]).is_ok());
    let none: [&[u8]; 8] = [
        // No form, one that is unknown, and bytes behind the last field.
        &[],
        &[3],
        &[0, 0],
        // A change that ends early, or removes more than it has bytes for, or has no such entry.
        &[1, 1, b'a', 0],
        &[1, 1, b'a', 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0],
        &[1, 1, b'a', 0, 2],
        // A message that ends early, and one that goes on.
        &[2, 2, 8],
        &[2, 1, 8, 8],
    ];
    for content in none {
        let bytes = content.len();
        let expected = WireError::Field {
            of: Subject::Message(Kind::Event),
            field: "content of an event",
            fault: Fault::Value { bytes },
        };
        assert_eq!(event(content), Err(expected), "{content:?}");
    }
}

#[test]
fn a_move_names_a_group() {
    let name = b"presses";
    let dot = |number| {
        let run = Run {
            node: NodeId(1),
            incarnation: Incarnation(7),
        };
        Dot { run, number }
    };
    let content = Content::Move(MessageMove {
        client: ClientId::new(b"panel").expect("short"),
        birth: Birth::of_group_message(dot(1), Hlc::at(1)),
        part: Slot::of_client(name),
        group: GroupId::new(name).expect("short"),
        message: dot(2),
        assignment: dot(3),
        value: Bytes::new(),
    });
    let mut bytes = content.to_bytes().to_vec();
    let key = bytes.windows(name.len()).position(|found| found == name);
    bytes[key.expect("it has the name") - 1] = b'a';
    assert_eq!(read(&bytes), None);
}

#[test]
fn the_node_refuses_values_in_a_content() {
    type Numbers = EventContent<u64, u64>;
    let nodes = BTreeSet::new();
    let content = Numbers::Message { content: 7, nodes };
    let message = content.to_bytes();
    assert_eq!(Numbers::from_bytes(message.clone()), Some(content));
    let mut shorter = message.to_vec();
    shorter.pop();
    shorter[1] -= 1;
    assert_eq!(Numbers::from_bytes(Bytes::from(shorter.clone())), None);
    assert!(read(&shorter).is_some());
}

#[test]
fn a_message_in_a_content_shares_its_memory() {
    let (content, nodes) = (Bytes::from(vec![7; 1_000]), BTreeSet::new());
    let bytes = Content::Message { content, nodes }.to_bytes();
    let range = bytes.as_ptr_range();
    let Some(Content::Message { content: message, .. }) = Content::from_bytes(bytes.clone()) else {
        panic!("a message");
    };
    assert!(range.contains(&message.as_ptr()));
    assert_eq!(message, bytes[bytes.len() - 1_000..]);
}
