//! Entries that differ, as the asker receives them: checked, compared with its own, and staged.

use super::exchange::{DifferenceKind, Differing, Exchange, RestOf, Stage};
use super::message::{
    AskSessions, Block, BlockAnswer, ClientRange, Except, KeptEntry, ListedEntry, SessionDifference,
    SessionsPart,
};
use super::staging::{StagedBlock, StagedSession, StagedShared};
use super::{EntryCheck, PartError, TransferValue};
use crate::queue_limits::QueueValue;
use crate::{ClientId, EntryId, SessionEntries, SlotEntries};

impl<V: TransferValue + QueueValue + Ord + Clone, M> Exchange<V, M> {
    /// Receives the difference of a range. Gives the part that is to come.
    pub(super) fn receive_sessions(
        &mut self,
        mut asked: AskSessions,
        part: SessionsPart<V>,
        mine: &SlotEntries<V>,
    ) -> Result<Stage, PartError> {
        check_clients(&asked.range, &part)?;
        for session in &part.sessions {
            check_session(session, blocks_of_client(&asked.except, &session.client))?;
        }
        let received = ClientRange {
            after: asked.range.after.clone(),
            up_to: part.up_to.clone().or_else(|| asked.range.up_to.clone()),
        };
        let mut has_other_values = false;
        let rest_of = part.sessions.last().filter(|_| part.has_rest);
        let rest_of = rest_of.map(|session| session.client.clone());
        for session in part.sessions {
            let held = mine.session(session.client.as_bytes());
            has_other_values |= held.is_some_and(|held| self.has_other_values(&session, held));
            self.stage_session(session, &asked.except);
        }
        if has_other_values {
            let kind = DifferenceKind::Values;
            self.differing.push_front(Differing {
                range: received,
                kind,
            });
        }
        let asked = part.up_to.map(|up_to| {
            asked.range.after = Some(up_to);
            asked
        });
        Ok(match rest_of {
            Some(client) => Stage::Rest(RestOf { client, asked }),
            None => asked.map_or(Stage::Complete, Stage::Sessions),
        })
    }

    /// The holder has another value of an entry of this node.
    fn has_other_values(&self, session: &SessionDifference<V>, mine: &SessionEntries<V>) -> bool {
        let kept = session.blocks.iter().flat_map(|block| match block {
            BlockAnswer::Equal => &[][..],
            BlockAnswer::Kept(kept) => kept,
        });
        let is_other = |kept: &KeptEntry| {
            let entry = mine.get(kept.id);
            entry.is_some_and(|entry| EntryCheck::new(self.id.question, kept.id.dot, entry) != kept.check)
        };
        kept.into_iter().any(is_other)
    }

    fn stage_session(&mut self, session: SessionDifference<V>, except: &Except) {
        let asked = blocks_of_client(except, &session.client);
        let blocks = asked
            .iter()
            .zip(session.blocks)
            .map(|(asked, answer)| StagedBlock {
                last: asked.last,
                kept: match answer {
                    BlockAnswer::Equal => None,
                    BlockAnswer::Kept(kept) => Some(kept.into_iter().map(|kept| kept.id).collect()),
                },
            });
        let shared = match except {
            Except::Shared => StagedShared::Equal,
            Except::Blocks(_) => StagedShared::Blocks(blocks.collect()),
            Except::Nothing => StagedShared::Listed,
        };
        let entries = session.entries;
        self.staging
            .add_session(session.client, StagedSession { shared, entries });
    }
}

/// Blocks that the asker has named of a client.
fn blocks_of_client<'a>(except: &'a Except, client: &ClientId) -> &'a [Block] {
    let Except::Blocks(sessions) = except else {
        return &[];
    };
    let index = sessions.binary_search_by(|session| session.client.cmp(client));
    let session = index.ok().and_then(|index| sessions.get(index));
    session.map_or(&[], |session| &session.blocks)
}

/// Clients are in ascending order, in the range that was asked for and in that of the part.
fn check_clients<V>(asked: &ClientRange, part: &SessionsPart<V>) -> Result<(), PartError> {
    let clients = || part.sessions.iter().map(|session| &session.client);
    let end = part.up_to.as_ref().or(asked.up_to.as_ref());
    let is_in = |client: &ClientId| {
        asked.after.as_ref().is_none_or(|after| client > after) && end.is_none_or(|end| client <= end)
    };
    let is_ascending = clients().is_sorted_by(|one, next| one < next) && clients().all(is_in);
    let is_end_in = part.up_to.as_ref().is_none_or(|up_to| {
        let is_after = asked.after.as_ref().is_none_or(|after| up_to > after);
        is_after && asked.up_to.as_ref().is_none_or(|end| up_to < end)
    });
    let has_rest_of = !part.has_rest || clients().next_back().is_some();
    if is_ascending && is_end_in && has_rest_of {
        Ok(())
    } else {
        Err(PartError::ClientsNotAscending)
    }
}

/// A difference answers each block, and its entries are in ascending order.
fn check_session<V>(session: &SessionDifference<V>, asked: &[Block]) -> Result<(), PartError> {
    let (expected, found) = (asked.len(), session.blocks.len());
    if expected != found {
        return Err(PartError::WrongBlocks { expected, found });
    }
    let mut before: Option<EntryId> = None;
    let mut is_ascending = true;
    for (block, answer) in asked.iter().zip(&session.blocks) {
        if let BlockAnswer::Kept(kept) = answer {
            let ids = before.into_iter().chain(kept.iter().map(|kept| kept.id));
            is_ascending &= ids.is_sorted_by(|one, next| one < next);
            is_ascending &= kept.last().is_none_or(|kept| kept.id <= block.last);
        }
        before = Some(block.last);
    }
    let mut entries = session.entries.iter().map(ListedEntry::id);
    if is_ascending && entries.by_ref().is_sorted_by(|one, next| one < next) {
        Ok(())
    } else {
        Err(PartError::EntriesNotAscending)
    }
}
