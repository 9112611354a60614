//! Bytes of messages, for the limits of parts.
//!
//! Fixed fields count in full, as if nothing was compressed. So limits hold for any encoding that
//! is not longer.

use super::message::{
    AnswerBegin, AskPart, BlockAnswer, Except, GroupsPart, HeaderPart, ListedEntry, OwnEvent, PartContent,
    SessionBlocks, SessionDifference, SlotPart, TransferMessage, Wanted,
};
use super::{Digest, TransferBytes};
use crate::{Change, ClientDot, ClientId, Entry, Fact, PendingMessage, SlotSet, VersionVector};

/// Bytes of a length, of a number of parts, or of a check.
const LENGTH: usize = 4;
/// Bytes of a flag or of a kind.
const FLAG: usize = 1;
/// Bytes of a clock or of a number.
const NUMBER: usize = 8;
/// Bytes of a run: node and incarnation.
const RUN: usize = 12;
/// Bytes of an interval: a node, then start and number of its first and its last event.
const INTERVAL: usize = DOT + 4 + NUMBER;
/// Bytes of a dot.
const DOT: usize = RUN + NUMBER;
/// Bytes of an entry's identity.
const ENTRY_ID: usize = FLAG + DOT;
/// Bytes of an answer's name: a slot and the number of a question.
const ANSWER_ID: usize = SLOT + NUMBER;
/// Bytes of a slot.
const SLOT: usize = 2;
/// Bytes of a block's bound and digest.
pub(super) const BLOCK: usize = ENTRY_ID + Digest::BYTES;

pub(super) fn of_client(client: &ClientId) -> usize {
    LENGTH + client.as_bytes().len()
}

pub(super) fn of_entry<V: TransferBytes>(listed: &ListedEntry<V>) -> usize {
    let birth = DOT + NUMBER + FLAG;
    let value = LENGTH + listed.entry.value.bytes();
    ENTRY_ID + birth + NUMBER + of_fact(&listed.entry.fact) + value
}

/// Bytes of a fact beside its kind.
fn of_fact(fact: &Fact) -> usize {
    let named = fact.named().map_or(0, |_| DOT);
    named
        + match fact {
            Fact::Session { connected } => FLAG + connected.map_or(0, |_| NUMBER),
            Fact::Expiry { connected } => FLAG + connected.map_or(0, |_| NUMBER + RUN),
            Fact::Will(terms) => FLAG + terms.delayed_since.map_or(0, |_| NUMBER),
            Fact::End(ended) => FLAG + ended.resumed().map_or(0, |_| NUMBER) + of_vector(ended.seen()),
            Fact::Member(terms) => {
                LENGTH + terms.client.as_bytes().len() + FLAG + terms.since.map_or(0, |_| NUMBER)
            }
            Fact::Assignment(_) => DOT,
            _ => 0,
        }
}

pub(super) fn of_vector(vector: &VersionVector) -> usize {
    LENGTH + vector.intervals().len() * INTERVAL
}

pub(super) fn of_pending<M: TransferBytes>(message: &PendingMessage<M>) -> usize {
    DOT + NUMBER + LENGTH + message.pending.message.bytes()
}

pub(super) fn of_single(single: &ClientDot) -> usize {
    of_client(&single.client) + DOT
}

pub(super) fn of_begin(begin: &AnswerBegin) -> usize {
    let vectors = [
        &begin.covered,
        &begin.taken,
        &begin.holes,
        &begin.own,
        &begin.reserved,
    ];
    FLAG + vectors.into_iter().map(of_vector).sum::<usize>()
}

pub(super) fn of_own<V: TransferBytes, M: TransferBytes>(event: &OwnEvent<V, M>) -> usize {
    match event {
        OwnEvent::Change(change) => FLAG + of_change(change),
        OwnEvent::Message(message) => FLAG + of_pending(message),
    }
}

fn of_change<V: TransferBytes>(change: &Change<V>) -> usize {
    let of_added = |entry: &Entry<V>| of_fact(&entry.fact) + entry.value.bytes();
    let adds = change.adds.as_ref().map_or(0, of_added);
    let fixed = 2 * DOT + 3 * NUMBER + 3 * FLAG;
    fixed + of_client(&change.client) + change.removes.len() * DOT + adds
}

pub(super) fn of_blocks(session: &SessionBlocks) -> usize {
    of_client(&session.client) + LENGTH + session.blocks.len() * BLOCK
}

/// Bytes of a client's difference without its entries.
pub(super) fn of_difference<V>(difference: &SessionDifference<V>) -> usize {
    let kept = |block: &BlockAnswer| match block {
        BlockAnswer::Equal => FLAG,
        BlockAnswer::Kept(kept) => FLAG + LENGTH + kept.len() * (ENTRY_ID + LENGTH),
    };
    of_client(&difference.client) + 2 * LENGTH + difference.blocks.iter().map(kept).sum::<usize>()
}

/// Bytes of a question's number and its slots.
fn of_slots(slots: &SlotSet) -> usize {
    NUMBER + LENGTH + slots.len() * SLOT
}

fn of_header<V: TransferBytes, M: TransferBytes>(header: &HeaderPart<V, M>) -> usize {
    let begin = header.begin.as_ref().map_or(0, of_begin);
    let pending: usize = header.pending.iter().map(of_pending).sum();
    let single: usize = header.single.iter().map(of_single).sum();
    let own: usize = header.own.iter().map(of_own).sum();
    2 * FLAG + 3 * LENGTH + begin + pending + single + own
}

fn of_groups(part: &GroupsPart) -> usize {
    let groups = part.groups.iter();
    let of_group = |last: Option<&ClientId>| last.map_or(0, of_client) + 2 * FLAG + Digest::BYTES;
    groups.map(|group| of_group(group.last.as_ref())).sum::<usize>() + LENGTH
}

impl<V: TransferBytes, M: TransferBytes> SlotPart<V, M> {
    /// Bytes of the part.
    pub fn bytes(&self) -> usize {
        let entries = |entries: &[ListedEntry<V>]| entries.iter().map(of_entry).sum::<usize>();
        let content = match &self.content {
            PartContent::Header(header) => of_header(header),
            PartContent::Groups(groups) => of_groups(groups),
            PartContent::Sessions(part) => {
                let of_session =
                    |session: &SessionDifference<V>| of_difference(session) + entries(&session.entries);
                let sessions: usize = part.sessions.iter().map(of_session).sum();
                2 * FLAG + LENGTH + part.up_to.as_ref().map_or(0, of_client) + sessions
            }
            PartContent::Rest(rest) => FLAG + LENGTH + entries(&rest.entries),
        };
        ANSWER_ID + NUMBER + FLAG + content
    }
}

impl AskPart {
    /// Bytes of the question.
    pub fn bytes(&self) -> usize {
        let wanted = match &self.wanted {
            Wanted::Header | Wanted::More => 0,
            Wanted::Compare { covered } => of_vector(covered),
            Wanted::Groups { after } => of_client(after),
            Wanted::Sessions(asked) => {
                let bounds = [&asked.range.after, &asked.range.up_to];
                let range: usize = bounds.into_iter().flatten().map(of_client).sum();
                let blocks = match &asked.except {
                    Except::Shared | Except::Nothing => 0,
                    Except::Blocks(sessions) => sessions.iter().map(of_blocks).sum(),
                };
                3 * FLAG + LENGTH + range + blocks
            }
        };
        ANSWER_ID + NUMBER + FLAG + wanted
    }
}

impl<V: TransferBytes, M: TransferBytes> TransferMessage<V, M> {
    /// Bytes of the message.
    pub fn bytes(&self) -> usize {
        match self {
            TransferMessage::AskSlots(ask) => {
                let positions = ask.positions.len() * (RUN + NUMBER);
                of_slots(&ask.slots) + LENGTH + positions + of_vector(&ask.lacking)
            }
            TransferMessage::SlotDigests(digests) => {
                let slots = digests.slots.len() * (SLOT + NUMBER + Digest::BYTES);
                NUMBER + of_begin(&digests.begin) + LENGTH + slots
            }
            TransferMessage::AskPart(ask) => ask.bytes(),
            TransferMessage::SlotPart(part) => part.bytes(),
            TransferMessage::SlotsMerged(merged) => of_slots(&merged.slots),
            TransferMessage::DropQuestion(_) => ANSWER_ID,
            TransferMessage::Offer { slots } => of_slots(slots),
        }
    }
}

#[cfg(test)]
mod tests {
    use cluster::session_plane::Hlc;

    use super::*;
    use crate::copy::tests::history::run;
    use crate::{Ended, Interval};

    #[test]
    fn an_end_counts_each_run_that_it_has_seen() {
        let end = |runs: u64, resumed| {
            let mut seen = VersionVector::default();
            for of in 0..runs {
                let interval = Interval::up_to(run(of), 5).expect("a number");
                seen.insert(interval).expect("there is room");
            }
            of_fact(&Fact::End(Box::new(Ended::new(seen, resumed).expect("prefixes"))))
        };
        assert_eq!(end(0, None), FLAG + LENGTH);
        assert_eq!(end(3, None) - end(0, None), 3 * INTERVAL);
        assert_eq!(end(3, Some(Hlc::ZERO)) - end(3, None), NUMBER);
    }
}
