//! Answer to one question: the copy's state as of the begin, and the position in the answer.

use std::collections::VecDeque;

use super::answer_entries::KeptEntries;
use super::difference::{Comparison, Difference, take_rest};
use super::holder::Held;
use super::message::{
    AnswerBegin, AnswerId, AskPart, AskSessions, AskSlot, HeaderPart, ListedEntry, OwnEvent, PartContent,
    RestPart, RunPosition, SlotPart, Wanted,
};
use super::shared::groups_after;
use super::{AskError, TransferBytes, TransferValue, size};
use crate::queue_limits::QueueValue;
use crate::{ClientDot, ClientEntry, ClientId, PendingMessage, Run, SlotEntries, VersionVector};

/// Question of an asker, and the answer once it has begun.
#[derive(Debug)]
pub(super) struct Answer<V, M> {
    pub(super) ask: AskSlot,
    pub(super) begun: Option<Begun<V, M>>,
    /// The copy has more to tell than entries: the answer begins when there is room for one more.
    pub(super) needs_room: bool,
}

/// Answer that has begun.
#[derive(Debug)]
pub(super) struct Begun<V, M> {
    header: Header<V, M>,
    /// V of the copy at the begin.
    covered: VersionVector,
    /// Events that this V and that of the asker cover. None until the asker has sent its V.
    shared: Option<VersionVector>,
    /// Entries as of the begin that beat others, and that the copy has no more.
    kept: KeptEntries<V>,
    /// Entries of the last client that did not fit into a part.
    rest: VecDeque<ListedEntry<V>>,
    /// Clients that did not fit into a part.
    asked: Option<AskSessions>,
    next_part: u64,
    is_late: bool,
    /// The asker has a digest of all entries: it may merge without a comparison.
    has_digest: bool,
}

/// What is left of the header to send.
#[derive(Debug)]
struct Header<V, M> {
    begin: Option<AnswerBegin>,
    pending: VecDeque<PendingMessage<M>>,
    single: VecDeque<ClientDot>,
    own: VecDeque<OwnEvent<V, M>>,
}

impl<V: TransferBytes, M: TransferBytes> Answer<V, M> {
    /// This node has taken each present run up to the position of the question.
    pub(super) fn is_ready(&self, received: impl Fn(Run) -> Option<u64>) -> bool {
        let has_taken =
            |position: &RunPosition| received(position.run).is_none_or(|number| number >= position.number);
        self.ask.positions.iter().all(has_taken)
    }

    /// Question that was received.
    pub(super) fn new(ask: AskSlot) -> Answer<V, M> {
        Answer {
            ask,
            begun: None,
            needs_room: false,
        }
    }

    /// Begins the answer with a digest of its entries; gives its sets of events.
    pub(super) fn begin_with_digest(&mut self, held: Held<V, M>) -> AnswerBegin {
        let begin = held.begin.clone();
        let mut begun = Begun::new(held);
        begun.header.begin = None;
        begun.has_digest = true;
        begun.next_part = 1;
        self.begun = Some(begun);
        begin
    }

    /// Begins the answer; gives its first part.
    pub(super) fn begin(&mut self, held: Held<V, M>, bytes_max: usize) -> SlotPart<V, M> {
        let mut begun = Begun::new(held);
        let content = PartContent::Header(begun.header.next_part(bytes_max));
        let part = begun.part(self.ask.id, content);
        self.begun = Some(begun);
        part
    }
}

impl<V, M> Begun<V, M> {
    fn new(held: Held<V, M>) -> Begun<V, M> {
        Begun {
            covered: held.begin.covered.clone(),
            header: Header {
                begin: Some(held.begin),
                pending: held.pending.into(),
                single: held.single.into(),
                own: held.own.into(),
            },
            shared: None,
            kept: KeptEntries::default(),
            rest: VecDeque::new(),
            asked: None,
            next_part: 0,
            is_late: held.is_abandoned,
            has_digest: false,
        }
    }

    /// Part with the next number.
    pub(super) fn part(&mut self, id: AnswerId, content: PartContent<V, M>) -> SlotPart<V, M> {
        let part = self.next_part;
        self.next_part += 1;
        SlotPart { id, part, content }
    }

    /// The asker can have all that it needs.
    pub(super) fn may_be_merged(&self) -> bool {
        self.shared.is_some() || self.has_digest
    }

    /// The answer takes no room of those that have more than entries.
    pub(super) fn has_digest(&self) -> bool {
        self.has_digest
    }

    pub(super) fn is_late(&self) -> bool {
        self.is_late
    }

    /// A ring names this node as an owner again.
    pub(super) fn end_late(&mut self) {
        self.is_late = false;
    }
}

impl<V: TransferValue + QueueValue + Ord + Clone, M: TransferBytes> Begun<V, M> {
    /// Keeps entries that the copy had at the begin, and that a merge has removed.
    pub(super) fn keep(&mut self, removed: &[ClientEntry<V>]) {
        let had = removed.iter().filter(|removed| self.covered.covers(removed.dot));
        self.kept.extend(had.cloned());
    }

    /// Content that the asker wants next.
    pub(super) fn content(
        &mut self,
        ask: &AskPart,
        entries: &SlotEntries<V>,
        bytes_max: usize,
    ) -> Result<PartContent<V, M>, AskError> {
        if ask.part != self.next_part {
            let (expected, found) = (self.next_part, ask.part);
            return Err(AskError::PartOutOfOrder { expected, found });
        }
        match &ask.wanted {
            Wanted::Header if !self.header.is_empty() => {
                return Ok(PartContent::Header(self.header.next_part(bytes_max)));
            }
            Wanted::Header => return Err(AskError::Unexpected),
            Wanted::More if !self.rest.is_empty() => {
                let entries = take_rest(&mut self.rest, bytes_max);
                let has_rest = !self.rest.is_empty();
                return Ok(PartContent::Rest(RestPart { entries, has_rest }));
            }
            Wanted::More => {
                let asked = self.asked.take().ok_or(AskError::Unexpected)?;
                return self.difference(ask.id, asked, entries, bytes_max);
            }
            Wanted::Compare { .. } | Wanted::Groups { .. } | Wanted::Sessions(_) => {}
        }
        if !self.header.is_empty() || !self.rest.is_empty() || self.asked.is_some() {
            return Err(AskError::Unexpected);
        }
        self.compared_content(ask, entries, bytes_max)
    }

    fn compared_content(
        &mut self,
        ask: &AskPart,
        entries: &SlotEntries<V>,
        bytes_max: usize,
    ) -> Result<PartContent<V, M>, AskError> {
        match &ask.wanted {
            Wanted::Compare { .. } if self.shared.is_some() => Err(AskError::Unexpected),
            Wanted::Compare { covered } => {
                self.shared = Some(self.covered.intersection(covered));
                self.groups(None, entries, bytes_max)
            }
            Wanted::Groups { after } => self.groups(Some(after), entries, bytes_max),
            Wanted::Sessions(asked) => self.difference(ask.id, asked.clone(), entries, bytes_max),
            Wanted::Header | Wanted::More => Err(AskError::Unexpected),
        }
    }

    /// Digests of the groups after a client.
    fn groups(
        &self,
        after: Option<&ClientId>,
        entries: &SlotEntries<V>,
        bytes_max: usize,
    ) -> Result<PartContent<V, M>, AskError> {
        let shared = self.shared.as_ref().ok_or(AskError::Unexpected)?;
        let groups = groups_after(&self.kept.with(entries), after, shared, bytes_max);
        Ok(PartContent::Groups(groups))
    }

    /// Difference from the begin of the range. What does not fit is kept for the next part.
    fn difference(
        &mut self,
        id: AnswerId,
        mut asked: AskSessions,
        entries: &SlotEntries<V>,
        bytes_max: usize,
    ) -> Result<PartContent<V, M>, AskError> {
        let comparison = Comparison {
            entries: &self.kept.with(entries),
            shared: self.shared.as_ref().ok_or(AskError::Unexpected)?,
            question: id.question,
            bytes_max,
        };
        let Difference { part, rest } = comparison.difference(&asked);
        self.rest = rest;
        self.asked = part.up_to.clone().map(|up_to| {
            asked.range.after = Some(up_to);
            asked
        });
        Ok(PartContent::Sessions(part))
    }
}

impl<V: TransferBytes, M: TransferBytes> Header<V, M> {
    /// Next part; it exceeds `bytes_max` by one item at most, the sets of events being one.
    fn next_part(&mut self, bytes_max: usize) -> HeaderPart<V, M> {
        let begin = self.begin.take();
        let mut bytes = begin.as_ref().map_or(0, size::of_begin);
        let pending = fill(&mut self.pending, &mut bytes, bytes_max, size::of_pending);
        let single = fill(&mut self.single, &mut bytes, bytes_max, size::of_single);
        let own = fill(&mut self.own, &mut bytes, bytes_max, size::of_own);
        HeaderPart {
            begin,
            pending,
            single,
            own,
            is_last: self.is_empty(),
        }
    }

    fn is_empty(&self) -> bool {
        self.begin.is_none() && self.pending.is_empty() && self.single.is_empty() && self.own.is_empty()
    }
}

/// Items from the front while there is room.
fn fill<T>(
    items: &mut VecDeque<T>,
    bytes: &mut usize,
    bytes_max: usize,
    size: impl Fn(&T) -> usize,
) -> Vec<T> {
    let mut taken = Vec::new();
    while *bytes < bytes_max
        && let Some(item) = items.pop_front()
    {
        *bytes += size(&item);
        taken.push(item);
    }
    taken
}
