//! Difference of a range of clients: the entries that the asker may lack, and those that the holder
//! has removed.

use std::collections::VecDeque;

use super::message::{
    AskSessions, Block, BlockAnswer, Except, ListedEntry, SessionBlocks, SessionDifference, SessionsPart,
};
use super::shared::{BLOCKS_MAX, compare_blocks};
use super::{AskError, QuestionId, TransferValue, size};
use crate::queue_limits::QueueValue;
use crate::{ClientId, SessionEntries, SlotEntries, VersionVector};

/// Entries that are looked at for one part at most, so that a step of the node stays short.
const SCANNED_MAX: usize = 65_536;

/// Copy of a holder, compared with the asker's.
#[derive(Debug)]
pub(super) struct Comparison<'a, V> {
    pub(super) entries: &'a SlotEntries<V>,
    pub(super) shared: &'a VersionVector,
    pub(super) question: QuestionId,
    pub(super) bytes_max: usize,
}

/// Part of a difference, and what of its last client does not fit.
#[derive(Debug)]
pub(super) struct Difference<V> {
    pub(super) part: SessionsPart<V>,
    pub(super) rest: VecDeque<ListedEntry<V>>,
}

/// Client of either side.
#[derive(Debug)]
struct Met<'a, V> {
    client: &'a ClientId,
    session: Option<&'a SessionEntries<V>>,
    blocks: &'a [Block],
}

impl<V: TransferValue + QueueValue + Ord + Clone> Comparison<'_, V> {
    /// Difference from the begin of the range, as much as a part has.
    pub(super) fn difference(&self, asked: &AskSessions) -> Difference<V> {
        let mut difference = Difference {
            part: SessionsPart {
                sessions: Vec::new(),
                up_to: None,
                has_rest: false,
            },
            rest: VecDeque::new(),
        };
        let (mut bytes, mut scanned) = (0, 0);
        let mut clients = self.clients(asked).peekable();
        while let Some(met) = clients.next() {
            scanned += 1 + met.session.map_or(0, SessionEntries::len);
            if let Some(mut session) = self.session_difference(&met, &asked.except) {
                bytes += size::of_difference(&session);
                difference.rest = split_off_rest(&mut session.entries, &mut bytes, self.bytes_max);
                difference.part.has_rest = !difference.rest.is_empty();
                difference.part.sessions.push(session);
            }
            let is_full = bytes >= self.bytes_max || scanned >= SCANNED_MAX;
            if is_full && clients.peek().is_some() {
                difference.part.up_to = Some(met.client.clone());
                break;
            }
        }
        difference
    }

    /// Clients of the range that the holder has or that the asker has named, in ascending order.
    fn clients<'a>(&'a self, asked: &'a AskSessions) -> impl Iterator<Item = Met<'a, V>> {
        let range = &asked.range;
        let held = self
            .entries
            .sessions_between(range.after.as_ref(), range.up_to.as_ref());
        let mut held = held.peekable();
        let named: &[SessionBlocks] = match &asked.except {
            Except::Blocks(sessions) => sessions,
            Except::Shared | Except::Nothing => &[],
        };
        let is_before = |session: &SessionBlocks| range.after.as_ref() >= Some(&session.client);
        let start = named.partition_point(is_before);
        let mut named = named.iter().skip(start).peekable();
        std::iter::from_fn(move || {
            let of_held = held.peek().map(|(client, _)| *client);
            let of_named = named.peek().map(|session| &session.client);
            let client = of_held.into_iter().chain(of_named).min()?;
            let session = held
                .next_if(|(next, _)| *next == client)
                .map(|(_, session)| session);
            let blocks = named.next_if(|session| session.client == *client);
            Some(Met {
                client,
                session,
                blocks: blocks.map_or(&[], |session| &session.blocks),
            })
        })
    }

    /// None where the asker has the same entries.
    fn session_difference(&self, met: &Met<'_, V>, except: &Except) -> Option<SessionDifference<V>> {
        let is_wanted = |id| *except == Except::Nothing || !self.shared.covers(id);
        let held = met.session.into_iter().flat_map(SessionEntries::iter);
        let wanted = held.filter(|(id, _)| is_wanted(id.dot));
        let entries: Vec<ListedEntry<V>> = wanted
            .map(|(id, entry)| ListedEntry {
                dot: id.dot,
                entry: entry.clone(),
            })
            .collect();
        let blocks = compare_blocks(met.session, self.shared, met.blocks, self.question);
        let is_equal = entries.is_empty() && blocks.iter().all(|block| *block == BlockAnswer::Equal);
        (!is_equal).then(|| SessionDifference {
            client: met.client.clone(),
            blocks,
            entries,
        })
    }
}

/// Takes off the entries that do not fit into `bytes_max`. The first fits if there is any room.
fn split_off_rest<V: TransferValue>(
    entries: &mut Vec<ListedEntry<V>>,
    bytes: &mut usize,
    bytes_max: usize,
) -> VecDeque<ListedEntry<V>> {
    let mut fitting = 0;
    for entry in entries.iter() {
        if *bytes >= bytes_max {
            break;
        }
        *bytes += size::of_entry(entry);
        fitting += 1;
    }
    entries.split_off(fitting).into()
}

/// Next entries of a session that did not fit into a part.
pub(super) fn take_rest<V: TransferValue>(
    rest: &mut VecDeque<ListedEntry<V>>,
    bytes_max: usize,
) -> Vec<ListedEntry<V>> {
    let mut taken = Vec::new();
    let mut bytes = 0;
    while bytes < bytes_max
        && let Some(entry) = rest.pop_front()
    {
        bytes += size::of_entry(&entry);
        taken.push(entry);
    }
    taken
}

/// Checks a question of a peer.
///
/// A question has at most `bytes_max` bytes of blocks, and those of one client more.
pub(super) fn check_question(asked: &AskSessions, bytes_max: usize) -> Result<(), AskError> {
    let range = &asked.range;
    if range
        .after
        .as_ref()
        .zip(range.up_to.as_ref())
        .is_some_and(|(after, up_to)| after >= up_to)
    {
        return Err(AskError::EmptyRange);
    }
    let Except::Blocks(sessions) = &asked.except else {
        return Ok(());
    };
    let mut before = range.after.as_ref();
    let mut bytes = 0;
    for session in sessions {
        let is_beyond = range.up_to.as_ref().is_some_and(|up_to| session.client > *up_to);
        if is_beyond || before.is_some_and(|before| session.client <= *before) {
            return Err(AskError::ClientsNotAscending);
        }
        before = Some(&session.client);
        if bytes >= bytes_max || session.blocks.len() > BLOCKS_MAX {
            return Err(AskError::TooLong);
        }
        bytes += size::of_blocks(session);
        let is_ascending = session.blocks.is_sorted_by(|one, next| one.last < next.last);
        if session.blocks.is_empty() || !is_ascending {
            return Err(AskError::BlocksNotAscending);
        }
    }
    Ok(())
}
