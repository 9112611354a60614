//! Events and resends of a stream, as they come out at the receiver.

use std::sync::Arc;

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::*;
use crate::stream::{EventKind, OutgoingLimits, OutgoingStream, Routing, StreamEvent, StreamMessage};
use crate::view::tests::present;
use crate::{NodeState, Slot, SlotSet, VersionVector, View};

type Stream = OutgoingStream<EventPayload<Bytes>>;

const PEER: NodeId = NodeId(2);

fn routing(nodes: &[u64]) -> Arc<Routing> {
    let nodes = nodes.iter().map(|node| present(*node, NodeState::Running));
    Arc::new(Routing::new(View::new(nodes.collect()).expect("a view")))
}

fn payload(content: &'static str) -> EventPayload<Bytes> {
    EventPayload {
        clock: Hlc::at(7),
        known: VersionVector::default(),
        content: Bytes::from_static(content.as_bytes()),
    }
}

fn push(stream: &mut Stream, content: &'static str) {
    let slots: SlotSet = [Slot::of_client(b"panel")].into_iter().collect();
    let pushed = stream.push(slots.into(), payload(content), 1, &mut Vec::new());
    pushed.expect("there is room");
}

/// Stream with one event of a ring without the peer, its Welcome, and one event more.
fn stream() -> Stream {
    let limits = OutgoingLimits {
        events_max: 10,
        bytes_max: 100,
        rings_max: 10,
        copies_min: 2,
    };
    let alone = routing(&[1]);
    let run = present(1, NodeState::Running).run;
    let mut stream = OutgoingStream::new(run, alone, limits);
    push(&mut stream, "before");
    let welcomed = stream.push_marker(routing(&[1, 2]), Some(PEER), payload("marker"), 1);
    welcomed.expect("there is room");
    push(&mut stream, "behind");
    stream
}

/// The event as its receiver has it, whose node makes the routing.
fn received(event: SentEvent<Bytes>) -> StreamEvent<EventPayload<Bytes>> {
    event.into_event(|view| Arc::new(Routing::new(view)))
}

#[test]
fn events_of_a_stream_come_out_as_they_were() {
    let mut stream = stream();
    let mut count = 0;
    while let Some(message) = stream.send_event(PEER) {
        let (sent, expected) = (Sample::Replication(message.clone().into()), message);
        let event = match (Sample::decode(sent.encode()), expected) {
            (Ok(Message::Replication(Replication::Welcome(event))), StreamMessage::Welcome(expected)) => {
                assert!(matches!(expected.kind, EventKind::RingMarker(_)));
                (received(event), expected)
            }
            (Ok(Message::Replication(Replication::Event(next))), StreamMessage::Event { after, event }) => {
                assert_eq!(next.after, after);
                let parts = [next.encode_head(), next.event.encode()];
                assert_eq!(parts.concat(), sent.encode(), "the same bytes for each receiver");
                (received(next.event), event)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(event.0, *event.1);
        count += 1;
    }
    assert_eq!(count, 2);
}

#[test]
fn a_resend_comes_out_as_it_was() {
    let mut stream = stream();
    let resend = stream.send_resend(PEER).expect("the event before has one copy");
    let sent = Replication::Resend(SentResend::from(&resend));
    let sent = Sample::Replication(sent).encode();
    let Ok(Message::Replication(Replication::Resend(read))) = Sample::decode(sent) else {
        panic!("a resend");
    };
    assert_eq!((read.id, read.numbers), (resend.id, resend.numbers));
    assert_eq!(read.slots, *resend.slots);
    let events: Vec<StreamEvent<_>> = read.events.into_iter().map(received).collect();
    assert_eq!(events.iter().collect::<Vec<_>>(), resend.events);
    assert_eq!(events.len(), 1);
}
