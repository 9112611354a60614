//! Golden messages of retained messages: a topic stands in the place of a client id.

use bytes::Bytes;

use super::values::{answer_id, client, clock, dot, slot_set, vector};
use crate::plane::{EventContent, SessionChange};
use crate::transfer::{
    AnswerId, ListedEntry, PartContent, SessionDifference, SessionsPart, SlotPart, TransferMessage,
};
use crate::wire::tests::Replication;
use crate::wire::tests::contents::PlaneSample;
use crate::wire::{EventPayload, Message, NextEvent, ReplicationMessage, SentEvent, SentEventKind};
use crate::{Birth, Dot, Entry, Fact, Slot};

/// Part of an answer about retained messages: one that was cleared elsewhere.
pub(super) fn retained_part() -> Replication {
    let listed = |fact: Fact, dot: Dot| {
        let entry = entry(fact, dot);
        ListedEntry { dot, entry }
    };
    let difference = SessionDifference {
        client: client("plant/7/state"),
        blocks: Vec::new(),
        entries: vec![
            listed(Fact::Retained, dot(2, 21)),
            listed(Fact::Cleared, dot(1, 30)),
        ],
    };
    let sessions = SessionsPart {
        sessions: vec![difference],
        up_to: None,
        has_rest: false,
    };
    let slot = Slot::RETAINED;
    Replication::Transfer(TransferMessage::SlotPart(SlotPart {
        id: AnswerId { slot, ..answer_id() },
        part: 2,
        content: PartContent::Sessions(sessions),
    }))
}

/// Event that replaces a retained message.
pub(super) fn retaining() -> PlaneSample {
    writing(Fact::Retained)
}

/// Event that clears a topic.
pub(super) fn clearing() -> PlaneSample {
    writing(Fact::Cleared)
}

fn writing(fact: Fact) -> PlaneSample {
    let dot_of = dot(1, 43);
    let change = SessionChange {
        client: client("plant/7/state"),
        removes: vec![dot(2, 21)],
        adds: Some(entry(fact, dot_of)),
    };
    let event = SentEvent {
        dot: dot_of,
        kind: SentEventKind::Change(slot_set(&[4_097])),
        payload: EventPayload {
            clock: clock(43),
            known: vector(),
            content: EventContent::Change(change),
        },
    };
    Message::Replication(ReplicationMessage::Event(NextEvent { after: 40, event }))
}

fn entry(fact: Fact, dot: Dot) -> Entry<Bytes> {
    let clock = clock(dot.number);
    let is_clean = false;
    let value = match fact {
        Fact::Cleared => Bytes::new(),
        _ => Bytes::from_static(b"7.5 bar"),
    };
    Entry {
        birth: Birth { dot, clock, is_clean },
        clock,
        fact,
        value,
    }
}
