//! Parts of the golden messages.

use bytes::Bytes;
use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};

use crate::feed::QueueKey;
use crate::membership::{Introduction, Side};
use crate::transfer::{AnswerId, Digest, Group, QuestionId};
use crate::wire::{EventPayload, SentEvent, SentEventKind};
use crate::{
    ClientId, Dot, EntryId, EntryKind, Interval, NodeState, PresentNode, Run, Settled, Slot, SlotSet,
    SwimIncarnation, VersionVector,
};

pub(super) fn introduction(node: u64, state: NodeState) -> Introduction {
    Introduction {
        run: run(node),
        state,
        incarnation: SwimIncarnation(2),
        side: Side {
            nodes: 2,
            lowest: NodeId(1),
        },
    }
}

pub(super) fn present(node: u64, state: NodeState) -> PresentNode {
    PresentNode {
        run: run(node),
        incarnation: SwimIncarnation(6),
        state,
    }
}

pub(super) fn event(number: u64, kind: SentEventKind) -> SentEvent<Bytes> {
    SentEvent {
        dot: dot(1, number),
        kind,
        payload: EventPayload {
            clock: clock(number),
            known: vector(),
            content: Bytes::from_static(b"change"),
        },
    }
}

pub(super) fn group(last: Option<&str>, digest: u8, has_others: bool) -> Group {
    Group {
        last: last.map(client),
        shared: Digest([digest; Digest::BYTES]),
        has_others,
    }
}

/// Runs with one interval from 1 on, with one from a later number on, and with two.
pub(super) fn vector() -> VersionVector {
    let mut vector = VersionVector::default();
    for (node, first, last) in [(1, 1, 1_000_000), (2, 4, 4), (3, 1, 2), (3, 5, 300)] {
        let interval = Interval::new(run(node), first, last).expect("an interval");
        vector.insert(interval).expect("few intervals");
    }
    vector
}

/// Runs of two nodes, of which one has a floor.
pub(super) fn settled() -> Settled {
    let mut events = VersionVector::default();
    let retired = Interval::of_runs(NodeId(1), Incarnation(0), Incarnation(98)).expect("starts");
    for interval in [retired, Interval::up_to(run(3), 40).expect("numbers")] {
        events.insert(interval).expect("few intervals");
    }
    let runs = [(NodeId(1), Incarnation(99)), (NodeId(3), Incarnation(300))];
    Settled::new(runs.into(), events).expect("settled runs")
}

pub(super) fn run(node: u64) -> Run {
    Run {
        node: NodeId(node),
        incarnation: Incarnation(u32::try_from(node).expect("a small id") * 100),
    }
}

pub(super) fn dot(node: u64, number: u64) -> Dot {
    let run = run(node);
    Dot { run, number }
}

pub(super) fn key(number: u64) -> QueueKey {
    let (clock, dot) = (clock(number), dot(1, number));
    QueueKey { clock, dot }
}

pub(super) fn entry_id(kind: EntryKind, number: u64) -> EntryId {
    let dot = dot(3, number);
    EntryId { kind, dot }
}

pub(super) fn answer_id() -> AnswerId {
    AnswerId {
        slot: slot(3_482),
        question: QuestionId(77),
    }
}

/// Clocks of November 2026.
pub(super) fn clock(number: u64) -> Hlc {
    Hlc::at(1_795_000_000_000 + number)
}

pub(super) fn client(id: &str) -> ClientId {
    ClientId::new(id.as_bytes()).expect("a short id")
}

pub(super) fn slot(number: u16) -> Slot {
    Slot::new(number).expect("in range")
}

pub(super) fn slot_set(numbers: &[u16]) -> SlotSet {
    numbers.iter().copied().map(slot).collect()
}
