//! Exchange with one holder: what the asker of a slot wants next, and what it has staged.
//!
//! ```text
//!  Header --> Ready --> Groups <--> Sessions <--> Rest
//!                          |           |
//!                          `-----------`---> Complete, merged at once
//! ```

use std::collections::VecDeque;

use super::digest::entries_len;
use super::message::{
    AnswerBegin, AnswerId, AskPart, AskSessions, ClientRange, Except, GroupsPart, HeaderPart, ListedEntry,
    PartContent, RestPart, SessionBlocks, SlotDigest, SlotPart, Wanted,
};
use super::shared::{Summary, blocks_of};
use super::staging::Staging;
use super::{PartError, TransferValue, size};
use crate::queue_limits::QueueValue;
use crate::{ClientId, SlotCopy, SlotEntries, VersionVector};

/// Answer of one holder that is under way.
#[derive(Debug)]
pub(super) struct Exchange<V, M> {
    pub(super) id: AnswerId,
    /// False where all holders are asked again meanwhile: the answer is merged, and does not count.
    pub(super) counts: bool,
    /// Bytes of the parts that are staged.
    pub(super) bytes: usize,
    pub(super) stage: Stage,
    next_part: u64,
    pub(super) staging: Staging<V, M>,
    /// Events that V of this node and that of the answer cover.
    pub(super) shared: VersionVector,
    /// Ranges with a difference, in ascending order.
    pub(super) differing: VecDeque<Differing>,
    /// Last client of the groups so far, if groups follow.
    groups_after: Option<ClientId>,
}

/// Part that is to come.
#[derive(Debug)]
pub(super) enum Stage {
    /// Part of the header.
    Header,
    /// None: the header is complete, and another exchange of the slot is under way.
    Ready,
    /// Groups after a client.
    Groups(Option<ClientId>),
    /// Difference of a range.
    Sessions(AskSessions),
    /// Rest of the entries of a client, and then of the range.
    Rest(RestOf),
    /// None: the answer is complete.
    Complete,
}

/// Client of which entries follow.
#[derive(Debug)]
pub(super) struct RestOf {
    pub(super) client: ClientId,
    /// Clients that follow after it.
    pub(super) asked: Option<AskSessions>,
}

/// Range of clients with a difference.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Differing {
    pub(super) range: ClientRange,
    pub(super) kind: DifferenceKind,
}

/// Entries that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DifferenceKind {
    /// Those of events that are not shared.
    Others,
    /// Those of shared events, and maybe others.
    Shared,
    /// Values: both have an entry, and the greater one stays.
    Values,
}

impl<V, M> Exchange<V, M> {
    /// Entries are being compared.
    pub(super) fn is_comparing(&self) -> bool {
        !matches!(self.stage, Stage::Header | Stage::Ready)
    }
}

impl<V: TransferValue + QueueValue + Ord + Clone, M> Exchange<V, M> {
    pub(super) fn new(id: AnswerId) -> Exchange<V, M> {
        Exchange {
            id,
            counts: true,
            bytes: 0,
            stage: Stage::Header,
            next_part: 0,
            staging: Staging::default(),
            shared: VersionVector::default(),
            differing: VecDeque::new(),
            groups_after: None,
        }
    }

    /// Compares with a copy that covers these events, once no other exchange of the slot is under way.
    pub(super) fn compare(&mut self, covered: VersionVector) -> AskPart {
        self.shared = self.staging.begin().covered.intersection(&covered);
        self.stage = Stage::Groups(None);
        self.ask(Wanted::Compare { covered })
    }

    /// Receives the begin of an answer that has nothing but entries. Equal entries complete it.
    pub(super) fn receive_digest(
        &mut self,
        begin: AnswerBegin,
        digest: &SlotDigest,
        mine: &SlotCopy<V, M>,
    ) -> Result<(), PartError> {
        if self.next_part > 0 {
            return Err(PartError::Unexpected);
        }
        self.next_part = 1;
        self.staging.set_begin(begin);
        let shared = self.staging.begin().covered.intersection(mine.covered());
        self.stage = if is_equal(digest, mine.entries(), &shared) {
            self.shared = shared;
            Stage::Complete
        } else {
            Stage::Ready
        };
        Ok(())
    }

    /// Receives the next part. Gives the question for the one after it; None where none is wanted.
    pub(super) fn receive(
        &mut self,
        part: SlotPart<V, M>,
        mine: &SlotEntries<V>,
        bytes_max: usize,
    ) -> Result<Option<AskPart>, PartError> {
        if part.part != self.next_part {
            let (expected, found) = (self.next_part, part.part);
            return Err(PartError::PartOutOfOrder { expected, found });
        }
        self.next_part += 1;
        let stage = std::mem::replace(&mut self.stage, Stage::Complete);
        match (stage, part.content) {
            (Stage::Header, PartContent::Header(header)) => self.receive_header(header),
            (Stage::Groups(after), PartContent::Groups(groups)) => {
                self.receive_groups(after, groups, mine)?;
                Ok(self.ask_next(mine, bytes_max))
            }
            (Stage::Sessions(asked), PartContent::Sessions(sessions)) => {
                self.stage = self.receive_sessions(asked, sessions, mine)?;
                Ok(self.ask_more(mine, bytes_max))
            }
            (Stage::Rest(rest_of), PartContent::Rest(rest)) => {
                self.stage = self.receive_rest(rest_of, rest)?;
                Ok(self.ask_more(mine, bytes_max))
            }
            _ => Err(PartError::Unexpected),
        }
    }

    fn receive_header(&mut self, header: HeaderPart<V, M>) -> Result<Option<AskPart>, PartError> {
        let is_last = header.is_last;
        self.staging.add_header(header, self.next_part == 1)?;
        if is_last {
            self.stage = Stage::Ready;
            return Ok(None);
        }
        self.stage = Stage::Header;
        Ok(Some(self.ask(Wanted::Header)))
    }

    fn receive_groups(
        &mut self,
        after: Option<ClientId>,
        part: GroupsPart,
        mine: &SlotEntries<V>,
    ) -> Result<(), PartError> {
        let mut after = after;
        if part.groups.is_empty() {
            return Err(PartError::ClientsNotAscending);
        }
        let mut is_ended = false;
        for group in part.groups {
            let is_behind = group.last.as_ref().zip(after.as_ref());
            if is_ended || is_behind.is_some_and(|(last, after)| last <= after) {
                return Err(PartError::ClientsNotAscending);
            }
            is_ended = group.last.is_none();
            let up_to = group.last.as_ref();
            let summary = Summary::new(mine.sessions_between(after.as_ref(), up_to), &self.shared);
            let range = ClientRange {
                after: after.take(),
                up_to: group.last.clone(),
            };
            if summary.shared != group.shared {
                self.add_differing(range, DifferenceKind::Shared);
            } else if group.has_others {
                self.add_differing(range, DifferenceKind::Others);
            }
            after = group.last;
        }
        self.groups_after = after;
        Ok(())
    }

    /// Adds a range behind the others. Consecutive ones with one kind of difference are one range.
    fn add_differing(&mut self, range: ClientRange, kind: DifferenceKind) {
        match self.differing.back_mut() {
            Some(before)
                if before.kind == kind
                    && before.range.up_to.is_some()
                    && before.range.up_to == range.after =>
            {
                before.range.up_to = range.up_to;
            }
            _ => self.differing.push_back(Differing { range, kind }),
        }
    }

    /// Receives the rest of a client's entries. Gives the part that is to come.
    fn receive_rest(&mut self, of: RestOf, part: RestPart<V>) -> Result<Stage, PartError> {
        let before = self.staging.last_entry(&of.client);
        let mut ids = before.into_iter().chain(part.entries.iter().map(ListedEntry::id));
        if part.entries.is_empty() || !ids.by_ref().is_sorted_by(|one, next| one < next) {
            return Err(PartError::EntriesNotAscending);
        }
        self.staging.add_rest(&of.client, part.entries);
        Ok(if part.has_rest {
            Stage::Rest(of)
        } else {
            of.asked.map_or(Stage::Complete, Stage::Sessions)
        })
    }

    /// Question for the rest of a range, or for what is wanted next.
    fn ask_more(&mut self, mine: &SlotEntries<V>, bytes_max: usize) -> Option<AskPart> {
        match &self.stage {
            Stage::Rest(_) | Stage::Sessions(_) => Some(self.ask(Wanted::More)),
            _ => self.ask_next(mine, bytes_max),
        }
    }

    /// Question for what is wanted next. None where the answer is complete.
    fn ask_next(&mut self, mine: &SlotEntries<V>, bytes_max: usize) -> Option<AskPart> {
        if let Some(differing) = self.differing.pop_front() {
            let asked = self.sessions_question(differing, mine, bytes_max);
            self.stage = Stage::Sessions(asked.clone());
            return Some(self.ask(Wanted::Sessions(asked)));
        }
        let after = self.groups_after.take()?;
        self.stage = Stage::Groups(Some(after.clone()));
        Some(self.ask(Wanted::Groups { after }))
    }

    /// Question for a range, with the blocks of this node where entries of shared events differ.
    ///
    /// A range with more than `bytes_max` bytes of blocks is asked for in pieces.
    fn sessions_question(
        &mut self,
        differing: Differing,
        mine: &SlotEntries<V>,
        bytes_max: usize,
    ) -> AskSessions {
        let Differing { mut range, kind } = differing;
        let except = match kind {
            DifferenceKind::Others => Except::Shared,
            DifferenceKind::Values => Except::Nothing,
            DifferenceKind::Shared => {
                let blocks = self.blocks_in(&range, mine, bytes_max);
                if let Some(after) = blocks.cut_after {
                    let up_to = range.up_to.replace(after.clone());
                    let after = Some(after);
                    let range = ClientRange { after, up_to };
                    self.differing.push_front(Differing { range, kind });
                }
                Except::Blocks(blocks.sessions)
            }
        };
        AskSessions { range, except }
    }

    fn blocks_in(&self, range: &ClientRange, mine: &SlotEntries<V>, bytes_max: usize) -> RangeBlocks {
        let mut blocks = RangeBlocks {
            sessions: Vec::new(),
            cut_after: None,
        };
        let mut bytes = 0;
        for (client, session) in mine.sessions_between(range.after.as_ref(), range.up_to.as_ref()) {
            let Some(of_client) = blocks_of(client, session, &self.shared) else {
                continue;
            };
            bytes += size::of_blocks(&of_client);
            blocks.sessions.push(of_client);
            if bytes >= bytes_max && Some(client) != range.up_to.as_ref() {
                blocks.cut_after = Some(client.clone());
                break;
            }
        }
        blocks
    }

    fn ask(&self, wanted: Wanted) -> AskPart {
        AskPart {
            id: self.id,
            part: self.next_part,
            wanted,
        }
    }
}

/// The holder has the same entries, and all of them are of shared events. Where this node has not decided upon an
/// event, its entry does not stand for that of the holder.
fn is_equal<V: TransferValue + QueueValue + Ord>(
    digest: &SlotDigest,
    mine: &SlotEntries<V>,
    shared: &VersionVector,
) -> bool {
    if entries_len(mine) != digest.entries {
        return false;
    }
    let summary = Summary::new(mine.sessions(), shared);
    !summary.has_others && summary.shared == digest.digest
}

/// Blocks of consecutive clients.
#[derive(Debug)]
struct RangeBlocks {
    sessions: Vec<SessionBlocks>,
    /// Client after which the range is cut, where the blocks of all would be too long.
    cut_after: Option<ClientId>,
}
