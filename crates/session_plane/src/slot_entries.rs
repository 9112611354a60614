//! Entries of one slot, by client, with the single covered dots beside a vector.
//!
//! The vector itself is an argument. A copy that is whole has the vector of its node, which all
//! whole copies of the node share; any other copy has one of its own
//! ([`SlotCopy`](crate::SlotCopy)).
//!
//! *Invariant*: an entry that the vector or a single dot covers is only here if no removal of it
//! was seen. Entries have no limit of their own: the limits of sessions apply where events are
//! made, and a copy that refused what others keep would differ from them for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::dirty::{Before, ClientEntryId, DirtySet, SlotDirty};
use crate::queue_limits::QueueValue;
use crate::session_entries::SessionEntries;
use crate::single_dots::SingleDots;
use crate::{ClientDot, ClientEntry, ClientId, Dot, Entry, EntryId, EntryKind, GroupId, VersionVector};

mod merging;

pub(crate) use merging::Covered;

/// Single covered dots of one copy at most. See [`SingleDotsFull`] for what happens beyond.
///
/// A merge may exceed it: it keeps the single dots of both copies, each within the limit.
pub const SINGLE_DOTS_MAX: usize = 65_536;

/// Change of one session by one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<V> {
    /// Event that makes the change.
    pub dot: Dot,
    /// Client whose entries change.
    pub client: ClientId,
    /// Events whose entries are removed.
    pub removes: Vec<Dot>,
    /// Entry that is added; the event's dot completes its identity.
    pub adds: Option<Entry<V>>,
}

/// The copy would have more than [`SINGLE_DOTS_MAX`] single dots. Nothing was changed.
///
/// The event is not taken, and [`TakeError`](crate::TakeError) says what follows. A copy that was
/// whole gets a vector of its own, in which the event is a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a copy has no room for more than {SINGLE_DOTS_MAX} single dots")]
pub struct SingleDotsFull;

/// Entries of one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotEntries<V> {
    /// No session is without entries.
    sessions: BTreeMap<ClientId, SessionEntries<V>>,
    single: SingleDots,
    /// What of the slot differs from the disk.
    dirty: SlotDirty,
}

impl<V> Default for SlotEntries<V> {
    /// No entry.
    fn default() -> SlotEntries<V> {
        SlotEntries {
            sessions: BTreeMap::new(),
            single: SingleDots::default(),
            dirty: SlotDirty::default(),
        }
    }
}

impl<V> SlotEntries<V> {
    /// What of the slot differs from the disk.
    pub(crate) fn dirty(&self) -> &SlotDirty {
        &self.dirty
    }

    /// What of the slot differs from the disk, to mark more or to take it.
    pub(crate) fn dirty_mut(&mut self) -> &mut SlotDirty {
        &mut self.dirty
    }
}

impl<V: Ord + QueueValue> SlotEntries<V> {
    /// Applies a change: removes, then adds what no removal has met before. `covered` is the copy's
    /// vector.
    ///
    /// # Errors
    ///
    /// [`SingleDotsFull`] where there is no room for removals of events that are to come.
    pub fn apply(&mut self, covered: &VersionVector, change: Change<V>) -> Result<(), SingleDotsFull> {
        let to_come = self.removals_to_come(covered, &change)?;
        self.apply_with(covered, change, to_come);
        Ok(())
    }

    /// Applies a change of which `to_come` are the removals that [`SlotEntries::removals_to_come`]
    /// has found.
    pub(crate) fn apply_with(&mut self, covered: &VersionVector, change: Change<V>, to_come: BTreeSet<Dot>) {
        let Change {
            dot,
            client,
            removes,
            adds,
        } = change;
        for dot in to_come {
            self.single.insert(&client, dot, &mut self.dirty.single);
        }
        let adds = adds.filter(|_| !self.covers(covered, client.as_bytes(), dot));
        let Some(session) = self.sessions.get_mut(&client) else {
            if let Some(entry) = adds {
                let mut session = SessionEntries::default();
                add_to(&mut session, &client, dot, entry, &mut self.dirty);
                self.sessions.insert(client, session);
            }
            return;
        };
        for removed in removes {
            let dirty = &mut self.dirty;
            session.remove(removed, |id| dirty.mark_entry(&client, id, Before::Entry));
        }
        if let Some(entry) = adds {
            add_to(session, &client, dot, entry, &mut self.dirty);
        }
        if session.is_empty() {
            self.sessions.remove(&client);
        }
    }

    /// Events that `change` removes and that the copy has not decided upon: single dots to keep.
    ///
    /// # Errors
    ///
    /// [`SingleDotsFull`] where there is no room for them.
    pub(crate) fn removals_to_come(
        &self,
        covered: &VersionVector,
        change: &Change<V>,
    ) -> Result<BTreeSet<Dot>, SingleDotsFull> {
        let client = change.client.as_bytes();
        let is_to_come = |dot: &Dot| !self.covers(covered, client, *dot);
        let to_come: BTreeSet<Dot> = change.removes.iter().copied().filter(is_to_come).collect();
        if self.single.len() + to_come.len() > SINGLE_DOTS_MAX {
            return Err(SingleDotsFull);
        }
        Ok(to_come)
    }

    /// Adds the entry of an event unless the copy has decided upon the event for this client.
    pub fn add(&mut self, covered: &VersionVector, client: &ClientId, dot: Dot, entry: Entry<V>) {
        if !self.covers(covered, client.as_bytes(), dot) {
            let session = self.sessions.entry(client.clone()).or_default();
            add_to(session, client, dot, entry, &mut self.dirty);
        }
    }

    /// Entries and single dots that a peer gives, in any order.
    pub(crate) fn of_parts(
        entries: impl IntoIterator<Item = ClientEntry<V>>,
        single: impl IntoIterator<Item = ClientDot>,
    ) -> SlotEntries<V> {
        let mut slot = SlotEntries::default();
        for ClientEntry { client, dot, entry } in entries {
            slot.sessions.entry(client).or_default().insert(dot, entry);
        }
        for ClientDot { client, dot } in single {
            slot.single.insert(&client, dot, &mut DirtySet::default());
        }
        slot
    }

    /// Drops entries of a client without an event. The vector covers them, so a merge reads their
    /// lack as a removal.
    pub fn drop_garbage(&mut self, client: &ClientId, garbage: &BTreeSet<EntryId>) {
        let Some(entries) = self.sessions.get_mut(client) else {
            return;
        };
        entries.drop_garbage(garbage, |id| {
            self.dirty.mark_entry(client, id, Before::Entry);
        });
        if entries.is_empty() {
            self.sessions.remove(client);
        }
    }
}

impl<V: Ord> SlotEntries<V> {
    /// Drops single dots that the vector has come to cover; a pass over all of them.
    pub fn drop_covered(&mut self, covered: &VersionVector) {
        self.single.drop_covered(covered, &mut self.dirty.single);
    }

    /// The copy has decided upon the event `dot` as far as `client` is concerned.
    pub fn covers(&self, covered: &VersionVector, client: &[u8], dot: Dot) -> bool {
        covered.covers(dot) || self.single.contains(client, dot)
    }

    /// Entries of `kind` of a client that count ([`SessionEntries::live`]).
    pub fn live<'a>(
        &'a self,
        covered: &'a VersionVector,
        client: &[u8],
        kind: EntryKind,
    ) -> impl Iterator<Item = (Dot, &'a Entry<V>)> {
        let single = self.single.of_client(client);
        let session = self.sessions.get(client).into_iter();
        session.flat_map(move |entries| entries.live(kind, covers_for(covered, single)))
    }

    /// Entry of a client, if it counts.
    pub fn live_entry<'a>(
        &'a self,
        covered: &'a VersionVector,
        client: &[u8],
        id: EntryId,
    ) -> Option<&'a Entry<V>> {
        let entries = self.sessions.get(client)?;
        entries.live_entry(id, covers_for(covered, self.single.of_client(client)))
    }

    /// Entries of a client that are of no use once every member knows them
    /// ([`SessionEntries::garbage`](crate::SessionEntries::garbage)).
    pub fn garbage(&self, covered: &VersionVector, client: &[u8]) -> BTreeSet<EntryId> {
        let Some(entries) = self.sessions.get(client) else {
            return BTreeSet::new();
        };
        let covers = covers_for(covered, self.single.of_client(client));
        entries.garbage(|dot| covered.covers(dot), covers)
    }

    /// Entries of the clients from a bound on, in ascending order.
    pub fn sessions_from(
        &self,
        from: Bound<&ClientId>,
    ) -> impl Iterator<Item = (&ClientId, &SessionEntries<V>)> {
        self.sessions.range::<ClientId, _>((from, Bound::Unbounded))
    }

    /// Client before another one.
    pub fn session_before(&self, client: &ClientId) -> Option<&ClientId> {
        let before = self
            .sessions
            .range::<ClientId, _>((Bound::Unbounded, Bound::Excluded(client)));
        before.map(|(client, _)| client).next_back()
    }

    /// Number of clients and groups with entries.
    pub fn clients_len(&self) -> usize {
        self.sessions.len()
    }

    /// Entries of each client, in ascending order of client ids.
    pub fn sessions(&self) -> impl Iterator<Item = (&ClientId, &SessionEntries<V>)> {
        self.sessions.iter()
    }

    /// Entries of the clients above `after` and up to `up_to`. None is no bound.
    pub(crate) fn sessions_between(
        &self,
        after: Option<&ClientId>,
        up_to: Option<&ClientId>,
    ) -> impl Iterator<Item = (&ClientId, &SessionEntries<V>)> {
        // A map has no range whose end is before its begin.
        let is_empty = after.zip(up_to).is_some_and(|(after, up_to)| after >= up_to);
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let end = up_to.map_or(Bound::Unbounded, Bound::Included);
        let range = (!is_empty).then(|| self.sessions.range::<ClientId, _>((start, end)));
        range.into_iter().flatten()
    }

    /// Entries of each shared group, in ascending order.
    pub fn groups(&self) -> impl Iterator<Item = (GroupId, &SessionEntries<V>)> {
        let first = GroupId::first();
        let keys = self.sessions.range::<ClientId, _>(first.key()..);
        keys.filter_map(|(key, entries)| Some((GroupId::of_key(key)?, entries)))
    }

    /// Entries of one client.
    pub fn session(&self, client: &[u8]) -> Option<&SessionEntries<V>> {
        self.sessions.get(client)
    }

    /// Single covered dots.
    pub fn single(&self) -> &SingleDots {
        &self.single
    }

    /// Entry of a client, whether or not it counts.
    pub(crate) fn entry(&self, of: &ClientEntryId) -> Option<&Entry<V>> {
        self.sessions.get(&of.client)?.get(of.id)
    }
}

/// Adds an entry that the copy has not decided upon.
fn add_to<V: Ord + QueueValue>(
    session: &mut SessionEntries<V>,
    client: &ClientId,
    dot: Dot,
    entry: Entry<V>,
    dirty: &mut SlotDirty,
) {
    let id = entry.id(dot);
    let before = before(session.get(id).is_some(), !session.is_empty());
    session.insert(dot, entry);
    dirty.mark_entry(client, id, before);
}

/// What a client or a topic had before a change.
fn before(had_entry: bool, had_others: bool) -> Before {
    match (had_entry, had_others) {
        (true, _) => Before::Entry,
        (false, true) => Before::Others,
        (false, false) => Before::Nothing,
    }
}

/// Tells which events a copy has decided upon for the client whose single dots are `single`.
fn covers_for<'a>(
    covered: &'a VersionVector,
    single: Option<&'a BTreeSet<Dot>>,
) -> impl Fn(Dot) -> bool + Copy + 'a {
    move |dot| covered.covers(dot) || single.is_some_and(|dots| dots.contains(&dot))
}
