//! Golden events with contents as planes have them.

use std::collections::BTreeSet;

use bytes::Bytes;
use cluster::NodeId;

use super::slots::listed;
use super::values::{client, clock, dot, slot_set, vector};
use crate::plane::{EventContent, MessageMove, SessionChange};
use crate::wire::tests::contents::PlaneSample;
use crate::wire::{EventPayload, Message, NextEvent, ReplicationMessage, SentEvent, SentEventKind};
use crate::{Birth, Fact, GroupId, WillTerms};

/// One content of each form, and a change that adds. The facts are in the parts of an answer, whose
/// entries are written in the same way.
pub(super) fn contents() -> Vec<(&'static str, PlaneSample)> {
    let change = |adds| {
        EventContent::Change(SessionChange {
            client: client("panel"),
            removes: vec![dot(3, 6), dot(1, 5)],
            adds,
        })
    };
    let will = Fact::Will(Box::new(WillTerms {
        connection: dot(2, 21),
        delayed_since: Some(clock(22)),
    }));
    let message = |nodes| EventContent::Message {
        content: Bytes::from_static(b"7.5 bar"),
        nodes,
    };
    let nodes = [NodeId(2), NodeId(9)].into();
    vec![
        ("content-nothing", event(EventContent::Nothing)),
        ("content-change", event(change(None))),
        ("content-change-adds", event(change(Some(listed(will).entry)))),
        ("content-message", event(message(BTreeSet::new()))),
        ("content-message-for-nodes", event(message(nodes))),
        ("content-move", event(EventContent::Move(moved()))),
    ]
}

fn moved() -> MessageMove<Bytes> {
    let group = GroupId::new(b"presses/plant/+/cmd").expect("a short name");
    MessageMove {
        client: client("panel"),
        birth: Birth {
            dot: dot(2, 4),
            clock: clock(4),
            is_clean: true,
        },
        part: group.slot(b"plant/7/cmd"),
        group,
        message: dot(3, 6),
        assignment: dot(1, 5),
        value: Bytes::from_static(b"7.5 bar"),
    }
}

fn event(content: EventContent<Bytes, Bytes>) -> PlaneSample {
    let event = SentEvent {
        dot: dot(1, 43),
        kind: SentEventKind::Change(slot_set(&[9, 2_000])),
        payload: EventPayload {
            clock: clock(43),
            known: vector(),
            content,
        },
    };
    Message::Replication(ReplicationMessage::Event(NextEvent { after: 40, event }))
}
