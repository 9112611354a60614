//! Entries of shared events: their digests by group of clients and by block of ids.
//!
//! The holder cuts its clients into groups, and the asker compares. In a group that differs the
//! asker cuts the entries of each client into blocks, and the holder compares.

use super::message::{Block, BlockAnswer, Group, GroupsPart, KeptEntry, SessionBlocks};
use super::{Digest, DigestBuilder, EntryCheck, QuestionId, TransferValue, size};
use crate::queue_limits::QueueValue;
use crate::{ClientId, Entry, EntryId, SessionEntries, SlotEntries, VersionVector};

/// Clients of one group at most.
const GROUP_CLIENTS_MAX: usize = 16;

/// Groups of one part at most.
const GROUPS_MAX: usize = 256;

/// Entries of a block, unless the client has more than [`BLOCKS_MAX`] such blocks.
const BLOCK_ENTRIES: usize = 16;

/// Blocks of one client at most. Those of a client with more entries are longer.
pub(super) const BLOCKS_MAX: usize = 1_024;

/// Entries of shared events of consecutive clients.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) shared: Digest,
    pub(super) has_others: bool,
}

impl Summary {
    /// Summary of these clients' entries.
    pub(super) fn new<'a, V: TransferValue + QueueValue + Ord + 'a>(
        sessions: impl Iterator<Item = (&'a ClientId, &'a SessionEntries<V>)>,
        shared: &VersionVector,
    ) -> Summary {
        let mut digest = DigestBuilder::default();
        let mut has_others = false;
        for (client, session) in sessions {
            let mut is_begun = false;
            for (id, entry) in session.iter() {
                if !shared.covers(id.dot) {
                    has_others = true;
                    continue;
                }
                if !is_begun {
                    digest.add_client(client);
                    is_begun = true;
                }
                digest.add_entry(id.dot, entry);
            }
        }
        Summary {
            shared: digest.finish(),
            has_others,
        }
    }
}

/// Digests of the groups after a client, as many as a part has.
///
/// The part has one group more than fits into `bytes_max` at most.
pub(super) fn groups_after<V: TransferValue + QueueValue + Ord>(
    entries: &SlotEntries<V>,
    after: Option<&ClientId>,
    shared: &VersionVector,
    bytes_max: usize,
) -> GroupsPart {
    let mut sessions = entries.sessions_between(after, None).peekable();
    let mut part = GroupsPart { groups: Vec::new() };
    let mut bytes = 0;
    loop {
        let group: Vec<_> = sessions.by_ref().take(GROUP_CLIENTS_MAX).collect();
        let summary = Summary::new(group.iter().copied(), shared);
        let end = group.last().filter(|_| sessions.peek().is_some());
        let last = end.map(|(client, _)| ClientId::clone(client));
        let is_last = last.is_none();
        bytes += Digest::BYTES + last.as_ref().map_or(0, size::of_client);
        part.groups.push(Group {
            last,
            shared: summary.shared,
            has_others: summary.has_others,
        });
        if is_last || bytes >= bytes_max || part.groups.len() >= GROUPS_MAX {
            return part;
        }
    }
}

/// Blocks of a client's entries of shared events. None where there is no such entry.
pub(super) fn blocks_of<V: TransferValue + QueueValue + Ord>(
    client: &ClientId,
    session: &SessionEntries<V>,
    shared: &VersionVector,
) -> Option<SessionBlocks> {
    let entries: Vec<(EntryId, &Entry<V>)> = shared_entries(session, shared).collect();
    let length = BLOCK_ENTRIES.max(entries.len().div_ceil(BLOCKS_MAX));
    let blocks = entries.chunks(length).filter_map(|entries| {
        let (last, _) = entries.last()?;
        Some(Block {
            last: *last,
            digest: block_digest(entries),
        })
    });
    let blocks: Vec<Block> = blocks.collect();
    (!blocks.is_empty()).then(|| SessionBlocks {
        client: client.clone(),
        blocks,
    })
}

/// Compares a client's entries of shared events with the asker's blocks.
pub(super) fn compare_blocks<V: TransferValue + QueueValue + Ord>(
    session: Option<&SessionEntries<V>>,
    shared: &VersionVector,
    blocks: &[Block],
    question: QuestionId,
) -> Vec<BlockAnswer> {
    let entries = session.into_iter().flat_map(|held| shared_entries(held, shared));
    let mut entries = entries.peekable();
    let mut answers = Vec::with_capacity(blocks.len());
    for block in blocks {
        let mut held = Vec::new();
        while let Some(entry) = entries.next_if(|(id, _)| *id <= block.last) {
            held.push(entry);
        }
        answers.push(if block_digest(&held) == block.digest {
            BlockAnswer::Equal
        } else {
            let kept = held.iter().map(|(id, entry)| KeptEntry {
                id: *id,
                check: EntryCheck::new(question, id.dot, entry),
            });
            BlockAnswer::Kept(kept.collect())
        });
    }
    answers
}

fn shared_entries<'a, V: Ord>(
    session: &'a SessionEntries<V>,
    shared: &'a VersionVector,
) -> impl Iterator<Item = (EntryId, &'a Entry<V>)> {
    session.iter().filter(|(id, _)| shared.covers(id.dot))
}

fn block_digest<V: TransferValue>(entries: &[(EntryId, &Entry<V>)]) -> Digest {
    let mut digest = DigestBuilder::default();
    for (id, entry) in entries {
        digest.add_entry(id.dot, entry);
    }
    digest.finish()
}
