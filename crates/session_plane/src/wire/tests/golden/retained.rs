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

/// Part of an answer about retained messages.
pub(super) fn retained_part() -> Replication {
    let dot = dot(2, 21);
    let difference = SessionDifference {
        client: client("plant/7/state"),
        blocks: Vec::new(),
        entries: vec![ListedEntry {
            dot,
            entry: retained(dot),
        }],
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
    let dot_of = dot(1, 43);
    let change = SessionChange {
        client: client("plant/7/state"),
        removes: vec![dot(2, 21)],
        adds: Some(retained(dot_of)),
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

fn retained(dot: Dot) -> Entry<Bytes> {
    let clock = clock(dot.number);
    let is_clean = false;
    Entry {
        birth: Birth { dot, clock, is_clean },
        clock,
        fact: Fact::Retained,
        value: Bytes::from_static(b"7.5 bar"),
    }
}
