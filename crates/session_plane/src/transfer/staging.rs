//! Staging: the parts of one answer, until what differs is merged at once.
//!
//! Entries of shared events are not sent where they are equal; the asker's own stand for them. The
//! asker covers every shared event, so its own entries of these only become fewer. One that the
//! asker has removed meanwhile is removed by the merge, too. So the answer can be put together at
//! the end, whatever has changed in between.

use std::collections::{BTreeMap, BTreeSet};

use super::PartError;
use super::message::{AnswerBegin, HeaderPart, ListedEntry, OwnEvent};
use crate::copy::CopyDifference;
use crate::queue_limits::QueueValue;
use crate::{
    ClientDot, ClientEntry, ClientId, CopyParts, EntryId, PendingMessage, SessionEntries, SlotCopy,
    SlotEntries, TakeError, VersionVector,
};

/// Parts of an answer that were received.
#[derive(Debug)]
pub(super) struct Staging<V, M> {
    begin: AnswerBegin,
    pending: Vec<PendingMessage<M>>,
    single: Vec<ClientDot>,
    own: Vec<OwnEvent<V, M>>,
    /// Clients with a difference.
    sessions: BTreeMap<ClientId, StagedSession<V>>,
}

/// Difference of one client.
#[derive(Debug)]
pub(super) struct StagedSession<V> {
    pub(super) shared: StagedShared,
    pub(super) entries: Vec<ListedEntry<V>>,
}

/// Entries of shared events that the holder has, too.
#[derive(Debug)]
pub(super) enum StagedShared {
    /// Those that the asker has.
    Equal,
    /// Those that the asker has, as far as their block says so.
    Blocks(Vec<StagedBlock>),
    /// They are among the entries of the answer.
    Listed,
}

/// Block of ids, which begins after the block before.
#[derive(Debug)]
pub(super) struct StagedBlock {
    pub(super) last: EntryId,
    /// Entries that the holder has. None: those that the asker has.
    pub(super) kept: Option<Vec<EntryId>>,
}

impl<V, M> Default for Staging<V, M> {
    fn default() -> Staging<V, M> {
        Staging {
            begin: AnswerBegin::default(),
            pending: Vec::new(),
            single: Vec::new(),
            own: Vec::new(),
            sessions: BTreeMap::new(),
        }
    }
}

impl<V, M> Staging<V, M> {
    pub(super) fn begin(&self) -> &AnswerBegin {
        &self.begin
    }

    /// Sets the sets of events of an answer whose header has nothing else.
    pub(super) fn set_begin(&mut self, begin: AnswerBegin) {
        self.begin = begin;
    }

    /// Adds a part of the header; the first one has its sets of events.
    pub(super) fn add_header(&mut self, part: HeaderPart<V, M>, is_first: bool) -> Result<(), PartError> {
        if part.begin.is_some() != is_first {
            return Err(PartError::MisplacedBegin);
        }
        if let Some(begin) = part.begin {
            self.begin = begin;
        }
        self.pending.extend(part.pending);
        self.single.extend(part.single);
        self.own.extend(part.own);
        Ok(())
    }

    /// Sets the difference of a client.
    pub(super) fn add_session(&mut self, client: ClientId, session: StagedSession<V>) {
        self.sessions.insert(client, session);
    }

    /// Adds entries to the difference of a client.
    pub(super) fn add_rest(&mut self, client: &ClientId, entries: Vec<ListedEntry<V>>) {
        if let Some(session) = self.sessions.get_mut(client) {
            session.entries.extend(entries);
        }
    }

    /// Last entry of a client's difference.
    pub(super) fn last_entry(&self, client: &ClientId) -> Option<EntryId> {
        let session = self.sessions.get(client)?;
        session.entries.last().map(ListedEntry::id)
    }
}

impl<V: Ord + QueueValue + Clone, M> Staging<V, M> {
    /// The holder's copy as far as it differs from that of the asker: its sets as of the begin, its
    /// entries of the clients with a difference, and its own events.
    pub(super) fn into_difference(
        self,
        shared: VersionVector,
        mine: &SlotEntries<V>,
    ) -> Result<CopyDifference<V, M>, PartError> {
        let clients = self.clients();
        let mut entries = Vec::new();
        for client in &clients {
            if let Some(session) = mine.session(client.as_bytes()) {
                let staged = self.sessions.get(client);
                entries.extend(standing(client, session, &shared, staged));
            }
        }
        for (client, session) in self.sessions {
            entries.extend(session.entries.into_iter().map(|listed| ClientEntry {
                client: client.clone(),
                dot: listed.dot,
                entry: listed.entry,
            }));
        }
        let mut copy = SlotCopy::from_parts(CopyParts {
            covered: self.begin.covered,
            taken: self.begin.taken,
            holes: self.begin.holes,
            pending: self.pending,
            single: self.single,
            entries,
        })?;
        for numbers in self.begin.own.intervals() {
            copy.take(*numbers)?;
        }
        for event in self.own {
            take_own(&mut copy, event)?;
        }
        Ok(CopyDifference {
            copy,
            clients,
            shared,
        })
    }

    /// Clients of which the holder may have other entries than the asker, or single dots.
    fn clients(&self) -> BTreeSet<ClientId> {
        let single = self.single.iter().map(|single| &single.client);
        let own = self.own.iter().filter_map(|event| match event {
            OwnEvent::Change(change) => Some(&change.client),
            OwnEvent::Message(_) => None,
        });
        self.sessions.keys().chain(single).chain(own).cloned().collect()
    }
}

/// Entries of a client that stand for the holder's.
fn standing<'a, V: Ord + QueueValue + Clone>(
    client: &'a ClientId,
    session: &'a SessionEntries<V>,
    shared: &'a VersionVector,
    staged: Option<&'a StagedSession<V>>,
) -> impl Iterator<Item = ClientEntry<V>> + 'a {
    let is_standing =
        move |id: EntryId| shared.covers(id.dot) && staged.is_none_or(|staged| staged.shared.has(id));
    let entries = session.iter().filter(move |(id, _)| is_standing(*id));
    entries.map(|(id, entry)| ClientEntry {
        client: client.clone(),
        dot: id.dot,
        entry: entry.clone(),
    })
}

/// Takes an event of the holder, as a copy takes one of a stream.
fn take_own<V: Ord + QueueValue, M>(
    copy: &mut SlotCopy<V, M>,
    event: OwnEvent<V, M>,
) -> Result<(), TakeError> {
    match event {
        OwnEvent::Change(change) if copy.covered().covers(change.dot) => Ok(()),
        OwnEvent::Change(change) => copy.apply(change),
        OwnEvent::Message(message) => copy.take_message(message.dot, message.pending),
    }
}

impl StagedShared {
    /// The holder has the asker's entry `id` of a shared event.
    fn has(&self, id: EntryId) -> bool {
        match self {
            StagedShared::Equal => true,
            StagedShared::Listed => false,
            StagedShared::Blocks(blocks) => {
                let index = blocks.partition_point(|block| block.last < id);
                let is_kept = |block: &StagedBlock| {
                    let kept = block.kept.as_ref();
                    kept.is_none_or(|kept| kept.binary_search(&id).is_ok())
                };
                blocks.get(index).is_some_and(is_kept)
            }
        }
    }
}
