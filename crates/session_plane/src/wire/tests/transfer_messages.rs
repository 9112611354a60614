//! Messages of transfers that are drawn at random.

use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::Replication;
use super::samples::{
    changes, clients, dots, entries, entry_ids, numbers, pending_messages, runs, single_dots, slot_sets,
    slots, vectors,
};
use crate::transfer::{
    AnswerBegin, AnswerId, AskPart, AskSessions, AskSlots, Block, BlockAnswer, ClientRange, Digest,
    EntryCheck, Except, Group, GroupsPart, HeaderPart, KeptEntry, ListedEntry, OwnEvent, PartContent,
    QuestionId, RestPart, RunPosition, SessionBlocks, SessionDifference, SessionsPart, SlotDigest,
    SlotDigests, SlotPart, SlotsMerged, TransferMessage, Wanted,
};

pub(super) fn messages() -> BoxedStrategy<Replication> {
    let positions = (runs(), numbers(0)).prop_map(|(run, number)| RunPosition { run, number });
    let asked = (questions(), slot_sets(), vec(positions, 0..5), vectors());
    let asked = asked.prop_map(|(question, slots, positions, lacking)| AskSlots {
        question,
        slots,
        positions,
        lacking,
    });
    let merged = (questions(), slot_sets());
    let merged = merged.prop_map(|(question, slots)| SlotsMerged { question, slots });
    let digest = (numbers(0), digests());
    let digested = (questions(), begins(), btree_map(slots(), digest, 0..5));
    let digested = digested.prop_map(|(question, begin, slots)| SlotDigests {
        question,
        begin,
        slots: slots
            .into_iter()
            .map(|(slot, (entries, digest))| SlotDigest {
                slot,
                entries,
                digest,
            })
            .collect(),
    });
    let asked_part = (answers(), numbers(0), wanted());
    let asked_part = asked_part.prop_map(|(id, part, wanted)| AskPart { id, part, wanted });
    let part = (answers(), numbers(0), contents());
    let part = part.prop_map(|(id, part, content)| SlotPart { id, part, content });
    let message = prop_oneof![
        2 => asked.prop_map(TransferMessage::AskSlots),
        2 => digested.prop_map(TransferMessage::SlotDigests),
        3 => asked_part.prop_map(TransferMessage::AskPart),
        8 => part.prop_map(TransferMessage::SlotPart),
        1 => merged.prop_map(TransferMessage::SlotsMerged),
        1 => answers().prop_map(TransferMessage::DropQuestion),
        1 => slot_sets().prop_map(|slots| TransferMessage::Offer { slots }),
    ];
    message.prop_map(Replication::Transfer).boxed()
}

fn questions() -> BoxedStrategy<QuestionId> {
    numbers(1).prop_map(QuestionId).boxed()
}

fn answers() -> BoxedStrategy<AnswerId> {
    (slots(), numbers(1))
        .prop_map(|(slot, question)| AnswerId {
            slot,
            question: QuestionId(question),
        })
        .boxed()
}

fn wanted() -> BoxedStrategy<Wanted> {
    let range = (option::of(clients()), option::of(clients()));
    let range = range.prop_map(|(after, up_to)| ClientRange { after, up_to });
    let block = (entry_ids(), digests()).prop_map(|(last, digest)| Block { last, digest });
    let blocks = (clients(), vec(block, 0..4));
    let blocks = blocks.prop_map(|(client, blocks)| SessionBlocks { client, blocks });
    let except = prop_oneof![
        Just(Except::Shared),
        Just(Except::Nothing),
        vec(blocks, 0..3).prop_map(Except::Blocks),
    ];
    let sessions = (range, except).prop_map(|(range, except)| AskSessions { range, except });
    prop_oneof![
        1 => Just(Wanted::Header),
        1 => Just(Wanted::More),
        2 => vectors().prop_map(|covered| Wanted::Compare { covered }),
        2 => clients().prop_map(|after| Wanted::Groups { after }),
        3 => sessions.prop_map(Wanted::Sessions),
    ]
    .boxed()
}

fn contents() -> BoxedStrategy<PartContent<Bytes, Bytes>> {
    let rest = (vec(listed(), 0..4), any::<bool>());
    let rest = rest.prop_map(|(entries, has_rest)| RestPart { entries, has_rest });
    let group = (option::of(clients()), digests(), any::<bool>());
    let group = group.prop_map(|(last, shared, has_others)| Group {
        last,
        shared,
        has_others,
    });
    let groups = vec(group, 0..4).prop_map(|groups| GroupsPart { groups });
    prop_oneof![
        3 => headers().prop_map(PartContent::Header),
        1 => groups.prop_map(PartContent::Groups),
        3 => sessions().prop_map(PartContent::Sessions),
        1 => rest.prop_map(PartContent::Rest),
    ]
    .boxed()
}

fn begins() -> BoxedStrategy<AnswerBegin> {
    let begin = (
        vectors(),
        vectors(),
        vectors(),
        vectors(),
        vectors(),
        any::<bool>(),
    );
    let begin = begin.prop_map(
        |(covered, taken, holes, own, reserved, has_merged_all)| AnswerBegin {
            covered,
            taken,
            holes,
            own,
            reserved,
            has_merged_all,
        },
    );
    begin.boxed()
}

fn headers() -> BoxedStrategy<HeaderPart<Bytes, Bytes>> {
    let begin = begins();
    let own = prop_oneof![
        changes().prop_map(OwnEvent::Change),
        pending_messages().prop_map(OwnEvent::Message),
    ];
    let pending = vec(pending_messages(), 0..3);
    let lists = (pending, vec(single_dots(), 0..3), vec(own, 0..3));
    (option::of(begin), lists, any::<bool>())
        .prop_map(|(begin, (pending, single, own), is_last)| HeaderPart {
            begin,
            pending,
            single,
            own,
            is_last,
        })
        .boxed()
}

fn sessions() -> BoxedStrategy<SessionsPart<Bytes>> {
    let kept = (entry_ids(), any::<u32>()).prop_map(|(id, check)| KeptEntry {
        id,
        check: EntryCheck(check),
    });
    let block = prop_oneof![
        Just(BlockAnswer::Equal),
        vec(kept, 0..4).prop_map(BlockAnswer::Kept),
    ];
    let session = (clients(), vec(block, 0..4), vec(listed(), 0..4));
    let session = session.prop_map(|(client, blocks, entries)| SessionDifference {
        client,
        blocks,
        entries,
    });
    (vec(session, 0..4), option::of(clients()), any::<bool>())
        .prop_map(|(sessions, up_to, has_rest)| SessionsPart {
            sessions,
            up_to,
            has_rest,
        })
        .boxed()
}

fn listed() -> BoxedStrategy<ListedEntry<Bytes>> {
    (dots(), entries())
        .prop_map(|(dot, entry)| ListedEntry { dot, entry })
        .boxed()
}

fn digests() -> BoxedStrategy<Digest> {
    any::<[u8; Digest::BYTES]>().prop_map(Digest).boxed()
}
