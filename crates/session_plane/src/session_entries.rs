//! Entries of one client: what is kept, and which of it counts.
//!
//! Entries of sessions that have ended stay until their removal is seen. They do not count. That is
//! a rule of reading: a removal inside the merge would make its result depend on the order of
//! merges. Ends, and what does not count, are garbage once every member knows them
//! (`known-to-all`); the node drops them then.
//!
//! A clear of a topic, and the messages that are earlier, go in the same way. Of a topic the latest entry
//! is read.
//!
//! What stands beside a will counts only while the will does. So the removal of a will ends its
//! number, in every copy and in any order. The assignment of a group's message goes with the message.
//!
//! *Invariants*: entries are sorted by kind, then by dot, so a kind is one range. The kind in an
//! entry's identity is that of its fact.

use std::collections::BTreeSet;

use crate::join::join;
use crate::queue_limits::{QueueSize, QueueValue};
use crate::{Birth, Dot, Entry, EntryId, EntryKind, Fact, VersionVector};

mod beaters;
mod ends;
mod entry_map;
mod group;
mod topic;
mod wills;

pub(crate) use beaters::RemovedBeaters;
use beaters::SessionBeaters;
pub use ends::Ending;
use entry_map::EntryMap;
use group::GroupReading;
use wills::CountingWills;

/// Entries of one client, of all its sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEntries<V> {
    entries: EntryMap<V>,
}

impl<V> Default for SessionEntries<V> {
    /// No entry.
    fn default() -> SessionEntries<V> {
        SessionEntries {
            entries: EntryMap::default(),
        }
    }
}

impl<V: Ord + QueueValue> SessionEntries<V> {
    /// Keeps the entry of an event. Of two under one identity the greater one stays, as in a merge.
    pub fn insert(&mut self, dot: Dot, entry: Entry<V>) {
        let id = entry.id(dot);
        if self.entries.get(&id).is_none_or(|known| *known < entry) {
            self.entries.insert(id, entry);
        }
    }

    /// Removes the entries of the events that `is_gone` names, and what only they had beaten. Calls
    /// `changed` with each. Gives those that had beaten others.
    pub(crate) fn remove_all(
        &mut self,
        is_gone: impl Fn(Dot) -> bool,
        mut changed: impl FnMut(EntryId, Noted),
    ) -> RemovedBeaters<V> {
        let entries = std::mem::take(&mut self.entries).into_iter();
        let mut removed = RemovedBeaters::default();
        let staying = entries.filter_map(|(id, entry)| {
            if !is_gone(id.dot) {
                return Some((id, entry));
            }
            changed(id, Noted::Changed { had_entry: true });
            removed.note(id, Some(entry), true);
            None
        });
        self.entries = staying.collect();
        self.drop_beaten(&removed, |id| changed(id, Noted::Beaten));
        removed
    }

    /// Removes the entries of every kind that the event `dot` made, and calls `removed` with each.
    pub(crate) fn remove(&mut self, dot: Dot, mut removed: impl FnMut(EntryId)) {
        self.entries.remove_of(dot, &mut removed);
    }

    /// Merges the entries of one client by the merge rule.
    ///
    /// `mine_covers` and `theirs_cover` say which events each of the copies has decided upon for
    /// this client.
    pub fn merge(
        mut self,
        mine_covers: impl Fn(Dot) -> bool,
        theirs: SessionEntries<V>,
        theirs_cover: impl Fn(Dot) -> bool,
    ) -> SessionEntries<V> {
        let _ = self.merge_noting(mine_covers, theirs, theirs_cover, |_, _| {});
        self
    }

    /// As [`SessionEntries::merge`]. Calls `changed` with each entry that comes, goes or becomes
    /// another. Gives those that had beaten others and are gone.
    pub(crate) fn merge_noting(
        &mut self,
        mine_covers: impl Fn(Dot) -> bool,
        theirs: SessionEntries<V>,
        theirs_cover: impl Fn(Dot) -> bool,
        mut changed: impl FnMut(EntryId, Noted),
    ) -> RemovedBeaters<V> {
        let mut removed = RemovedBeaters::default();
        let mut stays = |id: EntryId, mine: Option<Entry<V>>, theirs: Option<Entry<V>>| {
            let had_entry = mine.is_some();
            let (was_removed, is_changed) = match (&mine, &theirs) {
                (Some(_), None) => {
                    let was_removed = theirs_cover(id.dot);
                    (was_removed, was_removed)
                }
                (None, Some(_)) => {
                    let was_removed = mine_covers(id.dot);
                    (was_removed, !was_removed)
                }
                (mine, theirs) => (false, mine < theirs),
            };
            if is_changed {
                changed(id, Noted::Changed { had_entry });
            }
            let entry = mine.max(theirs);
            if was_removed {
                removed.note(id, entry, had_entry);
                return None;
            }
            entry
        };
        let joined = join(std::mem::take(&mut self.entries), theirs.entries);
        self.entries = joined
            .filter_map(|at| stays(at.key, at.mine, at.theirs).map(|entry| (at.key, entry)))
            .collect();
        self.drop_beaten(&removed, |id| changed(id, Noted::Beaten));
        removed
    }

    /// Drops entries without an event: a copy that covers an entry and lacks it says that it was
    /// removed. Calls `dropped` with each.
    pub(crate) fn drop_garbage(&mut self, garbage: &BTreeSet<EntryId>, mut dropped: impl FnMut(EntryId)) {
        for id in garbage {
            if self.entries.remove(id) {
                dropped(*id);
            }
        }
    }

    /// Messages and their bytes, whether or not they count. It costs no walk over the queue.
    pub fn queue_size(&self) -> QueueSize {
        self.entries.queue_size()
    }
}

impl<V: Ord> SessionEntries<V> {
    /// Entries in ascending order of their identity, whether or not they count.
    pub fn iter(&self) -> impl Iterator<Item = (EntryId, &Entry<V>)> {
        self.entries.iter()
    }

    /// Entry with this identity, whether or not it counts.
    pub fn get(&self, id: EntryId) -> Option<&Entry<V>> {
        self.entries.get(&id)
    }

    /// Number of entries, whether or not they count.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// There is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    /// Entries of `kind` that count, in ascending order of their dots.
    ///
    /// Ends and connections count alone. A session entry counts unless a session that was begun clean
    /// beats it, or the end of one, or any end that has seen it. Subscriptions, messages, deliveries, packet ids and expiries count while a
    /// session entry with their birth does. They count as well while that entry may still come: as
    /// long as `covers` denies the birth. A delivery counts without its message, too: the packet id is
    /// not free until PUBCOMP (rule `release-gone`).
    ///
    /// A will counts while its connection is there, may still come, or has an entry of its end. A
    /// delayed will is void once a later CONNECT has resumed the session, unless it has a number. An
    /// end that knows such a CONNECT does the same. The end of a connection, and a number, count while
    /// their will does.
    ///
    /// Members and presences of a shared group count alone. A message of a group counts while a member
    /// is earlier, and an assignment while its message does or may still come. Entries of a topic count
    /// alone: which of them is read depends on the latest.
    ///
    /// `covers` says which events the copy has decided upon for this client. An entry costs
    /// O(log n), after a look at all sessions and ends; a will looks at all wills, too.
    pub fn live<'a>(
        &'a self,
        kind: EntryKind,
        covers: impl Fn(Dot) -> bool + 'a,
    ) -> impl Iterator<Item = (Dot, &'a Entry<V>)> {
        let reading = self.reading(kind, &covers);
        self.of_kind(kind)
            .filter(move |(dot, entry)| self.counts(&reading, *dot, entry, &covers))
    }

    /// Entry that counts, as [`SessionEntries::live`] says; of all entries of its kind this one only.
    pub fn live_entry(&self, id: EntryId, covers: impl Fn(Dot) -> bool) -> Option<&Entry<V>> {
        let entry = self.get(id)?;
        let reading = self.reading(id.kind, &covers);
        self.counts(&reading, id.dot, entry, &covers).then_some(entry)
    }

    /// Entries that are of no use once every member knows them (rule `known-to-all`): ends, what does
    /// not count, and those of a topic up to its last clear. In ascending order of their identity.
    ///
    /// `covered` is the copy's vector: what it does not cover was not decided upon, or was removed for
    /// this client alone. `covers` is that of [`SessionEntries::live`].
    pub fn garbage(
        &self,
        covered: impl Fn(Dot) -> bool + Copy,
        covers: impl Fn(Dot) -> bool + Copy,
    ) -> BTreeSet<EntryId> {
        let kinds = EntryKind::ALL.into_iter().filter(|kind| *kind != EntryKind::End);
        let live = kinds.flat_map(|kind| self.live(kind, covers).map(move |(dot, _)| EntryId { kind, dot }));
        let live: BTreeSet<EntryId> = live.collect();
        let ids = self.entries.iter().map(|(id, _)| id);
        let mut garbage: BTreeSet<EntryId> = ids.filter(|id| covered(id.dot) && !live.contains(id)).collect();
        garbage.append(&mut self.cleared(covered));
        garbage
    }

    /// Birth of the only session. None where there is none or several, or where something is left
    /// that waits to be garbage, or may be it: an end, what stands beside a will, or a will that may not
    /// count.
    ///
    /// Entries that name this birth are no garbage. Looks at few entries, and not at the queue.
    pub fn only_birth(&self) -> Option<Birth> {
        let waiting = [EntryKind::End, EntryKind::ConnectionEnd, EntryKind::WillNumber];
        let is_left = |kind: EntryKind| self.of_kind(kind).next().is_some();
        let mut births = self.of_kind(EntryKind::Session).map(|(_, entry)| entry.birth);
        let first = births.next().filter(|_| !waiting.into_iter().any(is_left))?;
        if self.has_abandoned_will() {
            return None;
        }
        births.all(|birth| birth == first).then_some(first)
    }

    /// What the rule of reading needs to know of all entries, for those of `kind`.
    fn reading(&self, kind: EntryKind, covers: &impl Fn(Dot) -> bool) -> Reading {
        let is_of_will = matches!(
            kind,
            EntryKind::Will | EntryKind::ConnectionEnd | EntryKind::WillNumber
        );
        let wills = if is_of_will {
            self.wills(covers)
        } else {
            CountingWills::default()
        };
        let mut reading = Reading {
            beaters: SessionBeaters::of(self),
            births: BTreeSet::new(),
            wills,
            group: self.group_reading(kind),
        };
        let sessions = self.of_kind(EntryKind::Session);
        let counting = sessions.filter(|(dot, entry)| !reading.beaters.beat(*dot, entry));
        reading.births = counting.map(|(_, entry)| entry.birth.dot).collect();
        reading
    }

    fn counts(&self, reading: &Reading, dot: Dot, entry: &Entry<V>, covers: &impl Fn(Dot) -> bool) -> bool {
        let has_session =
            |entry: &Entry<V>| reading.births.contains(&entry.birth.dot) || !covers(entry.birth.dot);
        match &entry.fact {
            Fact::Session { .. } => !reading.beaters.beat(dot, entry),
            Fact::Connection | Fact::End(_) | Fact::Member(_) | Fact::Presence => true,
            Fact::Retained | Fact::Cleared => true,
            Fact::Assignment(assigned) => self.has_message(reading, assigned.message, covers),
            Fact::Message if entry.birth.dot == dot => reading.group.has_member_before(entry.clock),
            Fact::Will(_) => reading.wills.dots.contains(&dot),
            Fact::ConnectionEnd { connection } => reading.wills.connections.contains(connection),
            Fact::WillNumber { will } => reading.wills.dots.contains(will),
            Fact::Subscription
            | Fact::Message
            | Fact::Received
            | Fact::Delivery { .. }
            | Fact::Expiry { .. } => has_session(entry),
        }
    }

    /// A message counts, or may still come: it is not there, and `covers` denies it.
    fn has_message(&self, reading: &Reading, dot: Dot, covers: &impl Fn(Dot) -> bool) -> bool {
        let kind = EntryKind::Message;
        match self.get(EntryId { kind, dot }) {
            Some(message) => self.counts(reading, dot, message, covers),
            None => !covers(dot),
        }
    }

    /// Birth of the session that was begun clean last, whether it exists or has left its end.
    pub(crate) fn latest_clean_start(&self) -> Option<Birth> {
        let starts = self
            .of_kind(EntryKind::Session)
            .chain(self.of_kind(EntryKind::End));
        let births = starts.map(|(_, entry)| entry.birth);
        births
            .filter(|birth| birth.is_clean)
            .max_by_key(|birth| (birth.clock, birth.dot))
    }

    /// Entries of a kind in ascending order of their dots, whether or not they count.
    pub fn of_kind(&self, kind: EntryKind) -> impl Iterator<Item = (Dot, &Entry<V>)> {
        let range = EntryId { kind, dot: Dot::MIN }..=EntryId { kind, dot: Dot::MAX };
        self.entries.range(range).map(|(id, entry)| (id.dot, entry))
    }
}

/// State of a client's entries by which one of them is read.
#[derive(Debug)]
struct Reading {
    beaters: SessionBeaters,
    /// Births of the sessions that count.
    births: BTreeSet<Dot>,
    wills: CountingWills,
    group: GroupReading,
}

/// Change of an entry by a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noted {
    /// It comes, goes, or becomes another.
    Changed {
        /// There was an entry before.
        had_entry: bool,
    },
    /// It goes with what had beaten it. No event says so: the copy remembers that it has decided.
    Beaten,
}

#[cfg(test)]
pub(crate) mod tests;
