//! Entries that their slot does not have are refused by name, and change nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster::NodeId;

use super::world::TestMessage;
use super::*;
use crate::plane::{EventContent, PlaneError, PlaneMessage, SessionChange};
use crate::publishing::{Route, RoutedMessage, RoutedTo};
use crate::stream::{CoveredSlots, NumberRange, ResendId};
use crate::transfer::ListedEntry;
use crate::wire::{NextEvent, SentEvent, SentEventKind, SentFlush, SentResend};
use crate::{Birth, EVENT_NUMBER_MAX, Entry, MisplacedEntry, RecordBatch, RecordError, RecordsReader, Run};

type Sent = SentEvent<EventContent<Text, ()>>;

/// Event that node 2 is about to send to node 1.
fn next(world: &mut World) -> NextEvent<EventContent<Text, ()>> {
    retain(world, 2, "a", 1);
    match world.node(2).plane.next_message(NodeId(1)) {
        Some(PlaneMessage::Event(next)) => next,
        other => panic!("{other:?}"),
    }
}

fn change(event: &mut Sent) -> &mut SessionChange<Text> {
    match &mut event.payload.content {
        EventContent::Change(change) => change,
        other => panic!("{other:?}"),
    }
}

/// Entry of another kind among topics.
fn a_session_among_topics(event: &mut Sent) -> MisplacedEntry {
    if let Some(entry) = &mut change(event).adds {
        entry.fact = Fact::Session { connected: None };
    }
    let (slot, kind) = (Slot::RETAINED, EntryKind::Session);
    MisplacedEntry { slot, kind }
}

/// Retained message among other entries, too.
fn a_topic_among_routes(event: &mut Sent) -> MisplacedEntry {
    event.kind = SentEventKind::Change(SlotSet::from_iter([Slot::ROUTES, Slot::RETAINED]));
    let (slot, kind) = (Slot::ROUTES, EntryKind::Retained);
    MisplacedEntry { slot, kind }
}

/// Clear among other entries, too.
fn a_clear_among_routes(event: &mut Sent) -> MisplacedEntry {
    if let Some(entry) = &mut change(event).adds {
        entry.fact = Fact::Cleared;
    }
    let kind = EntryKind::Cleared;
    let slot = a_topic_among_routes(event).slot;
    MisplacedEntry { slot, kind }
}

fn a_message_among_topics(event: &mut Sent) -> MisplacedEntry {
    event.payload.content = EventContent::Message {
        content: (),
        nodes: BTreeSet::new(),
    };
    let (slot, kind) = (Slot::RETAINED, EntryKind::Message);
    MisplacedEntry { slot, kind }
}

/// Node 1 refuses a message of node 2, and has what it had before.
#[track_caller]
fn refuse(world: &mut World, message: TestMessage, expected: MisplacedEntry) {
    let run = world.plane(2).run();
    let known = world.plane(1).known().clone();
    let received = world.act(1, |plane, at, actions| plane.receive(at, run, message, actions));
    let refused = received.expect_err("its slot does not have the entry");
    assert_eq!(refused, PlaneError::Misplaced(expected));
    assert!(!refused.is_ordinary(), "the connection is closed");
    let plane = world.plane(1);
    assert_eq!(*plane.known(), known);
    for slot in [Slot::ROUTES, Slot::RETAINED] {
        let copy = plane.copy(slot).expect("a copy");
        assert_eq!(copy.entries.sessions().next(), None);
    }
}

#[test]
fn an_event_is_refused_in_each_message_that_brings_it() {
    for misplace in [
        a_session_among_topics,
        a_topic_among_routes,
        a_clear_among_routes,
        a_message_among_topics,
    ] {
        let mut world = at_rest(2);
        let next = next(&mut world);
        let mut event = next.event.clone();
        let expected = misplace(&mut event);
        let numbers = NumberRange::one(event.dot.number);
        let slots = SlotSet::from_iter([Slot::RETAINED]);
        let (after, run) = (next.after, event.dot.run);
        refuse(
            &mut world,
            PlaneMessage::Resend(SentResend {
                id: ResendId(1),
                slots: slots.clone(),
                numbers,
                events: vec![event.clone()],
            }),
            expected,
        );
        refuse(
            &mut world,
            PlaneMessage::FlushEvents(SentFlush {
                run,
                from: after,
                to: event.dot.number,
                base: None,
                events: vec![event.clone()],
                slots: vec![CoveredSlots { numbers, slots }],
            }),
            expected,
        );
        refuse(
            &mut world,
            PlaneMessage::Event(NextEvent { after, event }),
            expected,
        );
        let taken = world.act(1, |plane, at, actions| {
            plane.receive(at, run, PlaneMessage::Event(next), actions)
        });
        assert_eq!(taken, Ok(()), "the stream goes on");
        assert_eq!(texts(&world, 1, "a"), Some(1));
    }
}

#[test]
fn no_message_is_routed_to_topics() {
    let mut world = at_rest(2);
    let (run, marker) = (world.plane(2).run(), world.plane(2).marker());
    let to = RoutedTo {
        slots: SlotSet::from_iter([Slot::RETAINED]),
        is_transient: true,
    };
    let number = EVENT_NUMBER_MAX + 1;
    let route = Route {
        number: Dot { run, number },
        marker,
        clock: Hlc::ZERO,
        known: Arc::default(),
        message: RoutedMessage::new(to, ()).ok(),
    };
    let (slot, kind) = (Slot::RETAINED, EntryKind::Message);
    let taken = world.act(1, |plane, at, actions| plane.take_route(at, run, route, actions));
    assert_eq!(taken, Err(PlaneError::Misplaced(MisplacedEntry { slot, kind })));
    assert!(!world.plane(1).known().covers(Dot { run, number }));
}

/// Records of one slot with one entry.
fn records(slot: Slot, fact: Fact) -> Result<(), RecordError> {
    let (node, incarnation) = (NodeId(1), cluster::Incarnation(1));
    let run = Run { node, incarnation };
    let (dot, clock, is_clean) = (Dot { run, number: 1 }, Hlc::ZERO, false);
    let listed = ListedEntry {
        dot,
        entry: Entry {
            birth: Birth { dot, clock, is_clean },
            clock,
            fact,
            value: Text(1),
        },
    };
    let (client, id) = (topic("a"), listed.id());
    let mut batch = RecordBatch::default();
    let covered = crate::VersionVector::of_apart(crate::Interval::one(dot));
    let cohort = crate::records::CohortId(0);
    batch.put_copy(slot, cohort);
    if id.kind.is_of_topic() {
        let mut entries = crate::SessionEntries::default();
        entries.insert(dot, listed.entry);
        batch.put_topic(slot, &client, &entries);
    } else {
        let of = crate::dirty::ClientEntryId { id, client };
        batch.put_entry(slot, &of, &listed.entry);
    }
    batch.put_cohort(cohort, &crate::progress::Progress::whole(covered));
    let mut reader: RecordsReader<Text, ()> = RecordsReader::default();
    for write in batch.into_writes() {
        let crate::RecordWrite::Put { key, value } = write else {
            panic!("{write:?}");
        };
        reader.read(key, &value)?;
    }
    crate::plane::PlaneImage::of_records(reader).map(drop)
}

#[test]
fn a_disk_with_a_misplaced_entry_is_refused() {
    let client = Slot::of_client(b"a");
    assert_eq!(records(Slot::RETAINED, Fact::Retained), Ok(()));
    assert_eq!(records(Slot::RETAINED, Fact::Cleared), Ok(()));
    assert_eq!(records(client, Fact::Session { connected: None }), Ok(()));
    for (slot, fact) in [
        (client, Fact::Retained),
        (client, Fact::Cleared),
        (Slot::RETAINED, Fact::Session { connected: None }),
    ] {
        let kind = fact.kind();
        let expected = RecordError::Misplaced(MisplacedEntry { slot, kind });
        assert_eq!(records(slot, fact), Err(expected));
    }
}
