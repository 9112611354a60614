//! Golden message of shared groups, and their entries in an answer.

use bytes::Bytes;

use super::slots::listed;
use super::values::{answer_id, client, clock, dot, slot};
use crate::groups::{Give, GroupMessage};
use crate::transfer::{PartContent, RestPart, SlotPart, TransferMessage};
use crate::wire::tests::Replication;
use crate::{AssignedMessage, Fact, MemberTerms};

pub(super) fn given() -> GroupMessage<Bytes> {
    GroupMessage::Give(Give {
        slot: slot(3_890),
        presence: dot(2, 21),
        message: dot(1, 25),
        assignment: dot(3, 28),
        value: Bytes::from_static(b"7.5 bar"),
    })
}

/// Part of an answer with one entry of each kind of a shared group.
pub(super) fn group_part() -> Replication {
    let assigned = AssignedMessage {
        message: dot(1, 25),
        presence: dot(2, 21),
    };
    let facts = [
        Fact::Member(Box::new(MemberTerms {
            client: client("press"),
            since: Some(clock(29)),
        })),
        Fact::Presence,
        Fact::Assignment(Box::new(assigned)),
    ];
    let rest = RestPart {
        entries: facts.map(listed).into(),
        has_rest: false,
    };
    Replication::Transfer(TransferMessage::SlotPart(SlotPart {
        id: answer_id(),
        part: 4,
        content: PartContent::Rest(rest),
    }))
}
