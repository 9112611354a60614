//! Moves, as slots take them.

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};

use super::*;
use crate::{EntryId, Run, SlotCopy, VersionVector};

type Copy = SlotCopy<u64, u64>;

const CLIENT: &[u8] = b"panel";

fn dot(number: u64) -> Dot {
    let run = Run {
        node: NodeId(1),
        incarnation: Incarnation(1),
    };
    Dot { run, number }
}

fn group() -> GroupId {
    GroupId::new(b"presses/plant/+/cmd").expect("a short name")
}

fn birth(number: u64) -> Birth {
    Birth::of_group_message(dot(number), Hlc::at(number))
}

/// Event 9 moves message 4 from a part, with assignment 5.
fn moved(part: Slot) -> EventPayload<EventContent<u64, u64>> {
    let content = EventContent::Move(MessageMove {
        client: ClientId::new(CLIENT).expect("a short id"),
        birth: birth(1),
        part,
        group: group(),
        message: dot(4),
        assignment: dot(5),
        value: 70,
    });
    EventPayload {
        clock: Hlc::at(9),
        known: VersionVector::default(),
        content,
    }
}

fn slot_of_client() -> Slot {
    Slot::of_client(CLIENT)
}

/// Copy of a part in which message 4 is given, with another message.
fn part() -> Copy {
    let mut copy = Copy::new(VersionVector::default());
    for number in [4, 5, 6] {
        let change = Change {
            dot: dot(number),
            client: group().key().clone(),
            removes: Vec::new(),
            adds: Some(Entry {
                birth: birth(4),
                clock: Hlc::at(number),
                fact: Fact::Message,
                value: number,
            }),
        };
        assert_eq!(copy.apply(change), Ok(()));
    }
    copy
}

/// Takes the event as an answer about the slot brings it.
fn take(copy: &mut Copy, slot: Slot, payload: &EventPayload<EventContent<u64, u64>>) -> usize {
    let own = own_events(dot(9), payload, slot);
    for event in &own {
        let OwnEvent::Change(change) = event else {
            panic!("a move is changes: {event:?}")
        };
        assert_eq!(copy.apply(change.clone()), Ok(()));
    }
    own.len()
}

fn messages(copy: &Copy, client: &[u8]) -> Vec<(EntryId, u64)> {
    let session = copy.entries().session(client);
    let entries = session.into_iter().flat_map(|session| session.iter());
    entries.map(|(id, entry)| (id, entry.value)).collect()
}

fn message(number: u64) -> EntryId {
    EntryId {
        kind: EntryKind::Message,
        dot: dot(number),
    }
}

#[test]
fn a_move_removes_a_message_from_its_part_and_adds_it_to_a_queue() {
    let slot = group().slot(b"plant/7/cmd");
    let payload = moved(slot);
    let mut queue = Copy::new(VersionVector::default());
    assert_eq!(take(&mut queue, slot_of_client(), &payload), 1);
    assert_eq!(messages(&queue, CLIENT), [(message(9), 70)]);
    let mut part = part();
    assert_eq!(take(&mut part, slot, &payload), 1);
    assert_eq!(messages(&part, group().key().as_bytes()), [(message(6), 6)]);
    assert_eq!(take(&mut part, Slot::ROUTES, &payload), 0);
}

#[test]
fn a_member_and_a_part_may_have_one_slot() {
    let payload = moved(slot_of_client());
    let mut copy = part();
    assert_eq!(take(&mut copy, slot_of_client(), &payload), 2);
    assert_eq!(messages(&copy, CLIENT), [(message(9), 70)]);
    assert_eq!(messages(&copy, group().key().as_bytes()), [(message(6), 6)]);
    assert!(copy.taken().covers(dot(9)));
}

#[test]
fn a_move_has_an_effect_in_each_of_its_slots() {
    for (part, count) in [(group().slot(b"plant/7/cmd"), 2), (slot_of_client(), 1)] {
        let payload = moved(part);
        let EventContent::Move(of) = &payload.content else {
            panic!("a move")
        };
        let slots = of.slots();
        assert_eq!(slots.len(), count);
        let effects = effects_of(dot(9), &payload, &slots, &slots);
        assert_eq!(effects.len(), 2);
        let nowhere = SlotSet::default();
        assert_eq!(effects_of(dot(9), &payload, &slots, &nowhere).len(), 0);
        assert_eq!(payload.content.check_slots(&slots), Ok(()));
    }
    let topics = [Slot::RETAINED].into_iter().collect();
    assert!(moved(slot_of_client()).content.check_slots(&topics).is_err());
}
