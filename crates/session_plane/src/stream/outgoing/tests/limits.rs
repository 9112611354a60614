use std::collections::BTreeMap;

use super::*;
use crate::{Slot, SlotSet};

const LIMITS: OutgoingLimits = OutgoingLimits {
    events_max: 3,
    bytes_max: 100,
    rings_max: 8,
    copies_min: 1,
};

fn running(ids: impl IntoIterator<Item = u64>) -> Arc<Routing> {
    let states: BTreeMap<NodeId, NodeState> =
        ids.into_iter().map(|id| (node(id), NodeState::Running)).collect();
    routing(&states)
}

/// Stream with the peers 2 and 3, which have confirmed their welcome. Three nodes own every slot.
fn three_nodes(limits: OutgoingLimits) -> OutgoingStream<()> {
    let mut stream = OutgoingStream::new(run(OWN), running([1]), limits);
    let mut durable = Vec::new();
    for last in 2..=3 {
        stream
            .push_marker(running(1..=last), Some(node(last)), (), 1)
            .expect("room for few rings");
        for peer in 2..=last {
            while stream.send_event(node(peer)).is_some() {}
            confirm(&mut stream, peer, last - 1, &mut durable);
        }
        confirm(&mut stream, 1, last - 1, &mut durable);
    }
    assert_eq!((stream.kept().count(), durable), (0, Vec::new()));
    stream
}

fn confirm(stream: &mut OutgoingStream<()>, peer: u64, number: u64, durable: &mut Vec<Dot>) {
    let confirmed = stream.confirm(node(peer), number, durable);
    assert_eq!(confirmed, Ok(()));
}

fn push(stream: &mut OutgoingStream<()>, bytes: usize) -> Result<Dot, StreamFull> {
    let slots: SlotSet = [slot(7)].into_iter().collect();
    stream.push(slots.into(), (), bytes, &mut Vec::new())
}

#[test]
fn changes_are_refused_until_confirmations_make_room() {
    let mut stream = three_nodes(LIMITS);
    for _ in 0..LIMITS.events_max {
        push(&mut stream, 1).expect("room");
    }
    let mut durable = Vec::new();
    let first = stream.send_event(node(2));
    assert!(
        matches!(first, Some(StreamMessage::Event { after: 2, .. })),
        "a peer has what it has confirmed"
    );
    while stream.send_event(node(2)).is_some() {}
    confirm(&mut stream, 2, 5, &mut durable);
    confirm(&mut stream, 1, 5, &mut durable);
    let full = StreamFull {
        events: 3,
        bytes: 3,
        behind: Some(node(3)),
    };
    assert_eq!(push(&mut stream, 1), Err(full));
    assert_eq!((stream.last().number, stream.kept().count()), (5, 3));

    while stream.send_event(node(3)).is_some() {}
    confirm(&mut stream, 3, 4, &mut durable);
    assert_eq!(durable.len(), 2, "one confirmation of two events");
    assert_eq!(push(&mut stream, 1).map(|dot| dot.number), Ok(6));
}

#[test]
fn bytes_are_limited_and_a_large_change_is_not_stuck() {
    let mut stream = three_nodes(LIMITS);
    push(&mut stream, 1_000).expect("an empty stream takes a change of any size");
    assert_eq!(push(&mut stream, 1).map_err(|full| full.bytes), Err(1_000));
}

#[test]
fn a_marker_passes_a_full_stream_so_that_a_peer_can_be_given_up() {
    let mut stream = three_nodes(LIMITS);
    while push(&mut stream, 1).is_ok() {}
    let mut durable = Vec::new();
    confirm(&mut stream, 1, 5, &mut durable);
    stream.give_up(node(3), &mut durable);
    stream.give_up(node(2), &mut durable);
    let given_up = durable.iter().map(|dot| dot.number);
    assert!(given_up.eq(3..=5), "this node has the changes as an owner");
    stream
        .push_marker(running([1]), None, (), 1)
        .expect("a marker needs no room among the events");
    confirm(&mut stream, 1, 6, &mut durable);
    assert_eq!((stream.kept().count(), stream.epochs.len()), (0, 1));
}

/// All peers are waited for, also those that own no slot of a client: a node that joins has routes.
#[test]
fn a_change_of_routes_is_durable_when_every_node_has_it() {
    let mut stream = three_nodes(LIMITS);
    let mut states: BTreeMap<NodeId, NodeState> = (1..=3).map(|id| (node(id), NodeState::Running)).collect();
    states.insert(node(4), NodeState::MergeMinority);
    stream
        .push_marker(routing(&states), Some(node(4)), (), 1)
        .expect("room");
    let mut durable = Vec::new();
    let slots: SlotSet = [Slot::ROUTES].into_iter().collect();
    let dot = stream.push(slots.into(), (), 1, &mut durable).expect("room");
    for peer in [1, 2, 3, 4] {
        while stream.send_event(node(peer)).is_some() {}
        assert_eq!(durable, [], "node {peer} lacks it");
        confirm(&mut stream, peer, dot.number, &mut durable);
    }
    assert_eq!(durable, [dot]);
}

/// As with any slot: one copy is not enough where two are asked for, and the next node gets it.
#[test]
fn a_change_of_routes_waits_for_its_least_number_of_copies() {
    let copies_min = 2;
    let mut stream = OutgoingStream::new(run(OWN), running([1]), OutgoingLimits { copies_min, ..LIMITS });
    let mut durable = Vec::new();
    let slots: SlotSet = [Slot::ROUTES].into_iter().collect();
    let dot = stream.push(slots.into(), (), 1, &mut durable).expect("room");
    confirm(&mut stream, 1, dot.number, &mut durable);
    assert_eq!(durable, [], "this node alone has it");
    let marker = stream.push_marker(running([1, 2]), Some(node(2)), (), 1);
    assert_eq!(marker.map(|marker| marker.number), Ok(2));
    let Resend { id, slots, .. } = stream.send_resend(node(2)).expect("a resend to the new node");
    assert!(slots.contains(Slot::ROUTES));
    assert_eq!(stream.confirm_resend(node(2), id, &mut durable), Ok(()));
    assert_eq!(durable, [dot]);
}

/// Slot that this node does not own.
fn foreign_slot(stream: &OutgoingStream<()>) -> Slot {
    let ring = stream.routing().ring();
    let foreign = Slot::all().find(|slot| !ring.is_owner(OWN, *slot));
    foreign.expect("three of five nodes own a slot")
}

/// Step 2 of the example in `docs/internals/session-plane.md`, with a slot that this node does not
/// own while there are five nodes.
#[test]
fn what_nobody_has_goes_to_this_node_once_it_is_alone() {
    let limits = OutgoingLimits {
        events_max: 100,
        ..LIMITS
    };
    let mut stream = three_nodes(limits);
    for peer in 4..=5 {
        stream
            .push_marker(running(1..=peer), Some(node(peer)), (), 1)
            .expect("room");
    }
    let foreign = foreign_slot(&stream);
    let mut durable = Vec::new();
    let slots: SlotSet = [foreign].into_iter().collect();
    let dot = stream
        .push(slots.into(), (), 1, &mut durable)
        .expect("room for a change");
    for peer in 2..=5 {
        stream.give_up(node(peer), &mut durable);
    }
    stream.push_marker(running([1]), None, (), 1).expect("room");
    assert_eq!(durable, [], "no owner has it");

    while let Some(resend) = stream.send_resend(OWN) {
        if resend.slots.contains(foreign) && resend.numbers.contains(dot.number) {
            assert!(resend.events.iter().any(|event| event.dot == dot));
        }
        let id = resend.id;
        assert_eq!(stream.confirm_resend(OWN, id, &mut durable), Ok(()));
    }
    assert_eq!(durable, [dot]);
    let last = stream.last().number;
    confirm(&mut stream, 1, last, &mut durable);
    assert_eq!(stream.epochs.len(), 1);
}

#[test]
fn rings_without_copies_are_limited_and_welcomes_earlier() {
    let limits = OutgoingLimits {
        copies_min: 2,
        ..LIMITS
    };
    let mut stream: OutgoingStream<()> = OutgoingStream::new(run(OWN), running([1]), limits);
    confirm(&mut stream, 1, 0, &mut Vec::new());
    let mut markers = 0;
    let full = loop {
        match stream.push_marker(running([1]), None, (), 1) {
            Ok(_) => markers += 1,
            Err(full) => break full,
        }
        let has_half = stream.epochs.len() >= limits.rings_max / 2;
        assert_eq!(stream.can_welcome(), !has_half);
        if stream.epochs.len() == limits.rings_max / 2 {
            let welcomed = stream.push_marker(running([1, 2]), Some(node(2)), (), 1);
            let refused = RingsFull {
                rings: limits.rings_max / 2,
                behind: None,
            };
            assert_eq!(welcomed, Err(refused));
        }
    };
    assert_eq!((full.rings, markers), (8, 7));
    assert_eq!(stream.last().number, 7);
}

#[test]
fn a_resend_that_was_not_sent_is_not_confirmed() {
    let limits = OutgoingLimits {
        copies_min: 2,
        ..LIMITS
    };
    let mut stream: OutgoingStream<()> = OutgoingStream::new(run(OWN), running([1]), limits);
    push(&mut stream, 1).expect("room");
    stream
        .push_marker(running([1, 2]), Some(node(2)), (), 1)
        .expect("room");
    let refused = |peer: u64| {
        let peer = node(peer);
        Err(ConfirmError::UnknownResend { peer, id: 1 })
    };
    let mut durable = Vec::new();
    let id = ResendId(1);
    assert_eq!(stream.confirm_resend(node(2), id, &mut durable), refused(2));
    assert_eq!(stream.send_resend(node(2)).map(|resend| resend.id), Some(id));
    assert_eq!(stream.confirm_resend(OWN, id, &mut durable), refused(1));
    confirm(&mut stream, 1, 1, &mut durable);
    assert_eq!(durable, [], "one of two copies");
    assert_eq!(stream.confirm_resend(node(2), id, &mut durable), Ok(()));
    assert_eq!(durable.len(), 1);
}
