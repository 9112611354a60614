//! Golden messages of sessions that expire.

use super::slots::listed;
use super::values::{answer_id, client, clock, dot, slot_set, vector};
use crate::connecting::{ConnectingMessage, KnownSession, SessionAnswer};
use crate::plane::{EventContent, SessionChange};
use crate::transfer::{PartContent, RestPart, SlotPart, TransferMessage};
use crate::wire::tests::contents::PlaneSample;
use crate::wire::tests::{Replication, Sample};
use crate::wire::{EventPayload, Message, NextEvent, ReplicationMessage, SentEvent, SentEventKind};
use crate::{ConnectionOrder, Fact};

/// Expiry that follows the end of a connection.
fn expiry() -> Fact {
    let connected = Some(ConnectionOrder::of_connection(dot(2, 40), clock(19)));
    Fact::Expiry { connected }
}

/// Part of an answer with the expiry of a session.
pub(super) fn expiry_part() -> Replication {
    let rest = RestPart {
        entries: vec![listed(expiry())],
        has_rest: false,
    };
    Replication::Transfer(TransferMessage::SlotPart(SlotPart {
        id: answer_id(),
        part: 5,
        content: PartContent::Rest(rest),
    }))
}

/// Answer to a claim of a session without a connection.
pub(super) fn expiring_session() -> Sample {
    let connected = Some(clock(20));
    let facts = [Fact::Session { connected }, expiry()].into_iter().zip(50..);
    let entries = facts.map(|(fact, number)| (dot(3, number), listed(fact).entry));
    let session = KnownSession::from_parts(vector(), [].into(), entries.collect());
    Message::Connecting(ConnectingMessage::Session(SessionAnswer {
        connection: dot(2, 40),
        round: 2,
        session: session.expect("what an owner tells"),
    }))
}

/// Event of a connection that closes.
pub(super) fn expiring() -> PlaneSample {
    let change = SessionChange {
        client: client("panel"),
        removes: vec![dot(2, 21)],
        adds: Some(listed(expiry()).entry),
    };
    let event = SentEvent {
        dot: dot(1, 43),
        kind: SentEventKind::Change(slot_set(&[9])),
        payload: EventPayload {
            clock: listed(expiry()).entry.clock,
            known: vector(),
            content: EventContent::Change(change),
        },
    };
    Message::Replication(ReplicationMessage::Event(NextEvent { after: 40, event }))
}
