//! Golden messages of transfers.

use bytes::Bytes;

use super::values::{answer_id, client, clock, dot, entry_id, group, run, slot, vector};
use crate::transfer::{
    AnswerBegin, AskPart, AskSessions, AskSlots, Block, BlockAnswer, ClientRange, Digest, EntryCheck, Except,
    GroupsPart, HeaderPart, KeptEntry, ListedEntry, OwnEvent, PartContent, RestPart, RunPosition,
    SessionBlocks, SessionDifference, SessionsPart, SlotDigest, SlotDigests, SlotPart, SlotsMerged,
    TransferMessage, Wanted,
};
use crate::wire::tests::Replication;
use crate::{
    Birth, Change, ClientDot, Ended, Entry, EntryKind, Fact, Interval, Pending, PendingMessage, SlotSet,
    VersionVector, WillTerms,
};

pub(super) fn questions() -> Vec<(&'static str, Replication)> {
    let position = |node, number| RunPosition {
        run: run(node),
        number,
    };
    let asked = answer_id();
    let slots = SlotSet::from_iter([asked.slot, slot(4_095)]);
    let ask = AskSlots {
        question: asked.question,
        slots: slots.clone(),
        positions: vec![position(1, 0), position(2, 38)],
        lacking: vector(),
    };
    let part = |part, wanted| {
        let id = answer_id();
        Replication::Transfer(TransferMessage::AskPart(AskPart { id, part, wanted }))
    };
    let blocks = SessionBlocks {
        client: client("panel"),
        blocks: vec![Block {
            last: entry_id(EntryKind::Delivery, 17),
            digest: Digest([0xD1; Digest::BYTES]),
        }],
    };
    let sessions = |except| {
        let range = ClientRange {
            after: Some(client("monitor")),
            up_to: None,
        };
        Wanted::Sessions(AskSessions { range, except })
    };
    vec![
        ("ask-slots", Replication::Transfer(TransferMessage::AskSlots(ask))),
        ("slot-digests", slot_digests()),
        ("ask-part-header", part(1, Wanted::Header)),
        ("ask-part-compare", part(2, Wanted::Compare { covered: vector() })),
        (
            "ask-part-groups",
            part(
                3,
                Wanted::Groups {
                    after: client("panel"),
                },
            ),
        ),
        ("ask-part-blocks", part(4, sessions(Except::Blocks(vec![blocks])))),
        ("ask-part-shared", part(5, sessions(Except::Shared))),
        ("ask-part-all", part(6, sessions(Except::Nothing))),
        ("ask-part-more", part(7, Wanted::More)),
        (
            "slots-merged",
            Replication::Transfer(TransferMessage::SlotsMerged(SlotsMerged {
                question: asked.question,
                slots,
            })),
        ),
        (
            "drop-question",
            Replication::Transfer(TransferMessage::DropQuestion(answer_id())),
        ),
        (
            "offer",
            Replication::Transfer(TransferMessage::Offer {
                slots: SlotSet::from_iter([slot(3_825)]),
            }),
        ),
    ]
}

fn begin() -> AnswerBegin {
    let one = |number| {
        let mut vector = VersionVector::default();
        let interval = Interval::one(dot(2, number)).expect("a number");
        vector.insert(interval).expect("one interval");
        vector
    };
    AnswerBegin {
        covered: vector(),
        taken: one(91),
        holes: one(92),
        own: one(93),
        reserved: one(94),
        has_merged_all: true,
    }
}

fn slot_digests() -> Replication {
    let digest = |of, entries| SlotDigest {
        slot: slot(of),
        entries,
        digest: Digest([0xD5; Digest::BYTES]),
    };
    Replication::Transfer(TransferMessage::SlotDigests(SlotDigests {
        question: answer_id().question,
        begin: begin(),
        slots: vec![digest(7, 0), digest(3_825, 300)],
    }))
}

pub(super) fn parts() -> Vec<(&'static str, Replication)> {
    let part = |part, content| {
        let id = answer_id();
        Replication::Transfer(TransferMessage::SlotPart(SlotPart { id, part, content }))
    };
    let groups = GroupsPart {
        groups: vec![group(Some("panel"), 0x61, false), group(None, 0x62, true)],
    };
    let kept = KeptEntry {
        id: entry_id(EntryKind::Message, 11),
        check: EntryCheck(0x0102_0304),
    };
    let difference = SessionDifference {
        client: client("panel"),
        blocks: vec![BlockAnswer::Equal, BlockAnswer::Kept(vec![kept])],
        entries: facts().into_iter().map(listed).collect(),
    };
    let sessions = SessionsPart {
        sessions: vec![difference],
        up_to: Some(client("panel")),
        has_rest: true,
    };
    let rest = RestPart {
        entries: vec![listed(Fact::Message)],
        has_rest: false,
    };
    vec![
        ("slot-part-header", part(0, PartContent::Header(header()))),
        ("slot-part-groups", part(1, PartContent::Groups(groups))),
        ("slot-part-sessions", part(2, PartContent::Sessions(sessions))),
        ("slot-part-rest", part(3, PartContent::Rest(rest))),
    ]
}

fn header() -> HeaderPart<Bytes, Bytes> {
    let pending = |number| PendingMessage {
        dot: dot(3, number),
        pending: Pending {
            clock: clock(number),
            message: Bytes::from_static(b"7.5 bar"),
        },
    };
    let change = Change {
        dot: dot(2, 90),
        client: client("panel"),
        removes: vec![dot(1, 5), dot(3, 6)],
        adds: Some(listed(Fact::Received).entry),
    };
    HeaderPart {
        begin: Some(begin()),
        pending: vec![pending(7)],
        single: vec![ClientDot {
            client: client("monitor"),
            dot: dot(1, 8),
        }],
        own: vec![OwnEvent::Change(change), OwnEvent::Message(pending(9))],
        is_last: false,
    }
}

/// One fact of each kind of a client, and a will with a delay.
pub(super) fn facts() -> Vec<Fact> {
    let seen = Interval::up_to(run(3), 26).expect("a number");
    let mut vector = VersionVector::default();
    vector.insert(seen).expect("one interval");
    let ended = Ended::new(vector, Some(clock(27))).expect("an end");
    let will = |delayed_since| {
        Fact::Will(Box::new(WillTerms {
            connection: dot(2, 21),
            delayed_since,
        }))
    };
    vec![
        Fact::Session { connected: None },
        Fact::Session {
            connected: Some(clock(20)),
        },
        Fact::Connection,
        will(None),
        will(Some(clock(22))),
        Fact::ConnectionEnd {
            connection: dot(2, 23),
        },
        Fact::WillNumber { will: dot(2, 24) },
        Fact::Subscription,
        Fact::Message,
        Fact::Delivery { message: dot(1, 25) },
        Fact::Received,
        Fact::End(Box::new(ended)),
    ]
}

pub(super) fn listed(fact: Fact) -> ListedEntry<Bytes> {
    ListedEntry {
        dot: dot(1, 1_000_000),
        entry: Entry {
            birth: Birth {
                dot: dot(1, 30),
                clock: clock(31),
                is_clean: true,
            },
            clock: clock(32),
            fact,
            value: Bytes::from_static(b"value"),
        },
    }
}
