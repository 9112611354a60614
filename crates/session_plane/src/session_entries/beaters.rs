//! Beaters: entries that beat others for ever. What one had beaten goes with it.
//!
//! A copy drops an end, a clear, or a session that was begun clean, once every member knows it; and with
//! it all that it beats (rule `known-to-all`). A merge reads that from what the other copy covers. An
//! answer covers what its holder had decided upon when it began. So it may cover the one that beats, and
//! not what is beaten, which the asker has taken and not decided upon. That would count again.
//!
//! *Invariant*: what one of the copies had beaten does not count in their merge.

use std::collections::BTreeSet;

use cluster::session_plane::Hlc;

use super::{SessionEntries, VersionVector};
use crate::queue_limits::QueueValue;
use crate::{Birth, Dot, Entry, EntryId, EntryKind, Fact};

/// What beats the sessions of a client.
#[derive(Debug)]
pub(super) struct SessionBeaters {
    /// Session that was begun clean last.
    clean_start: Option<Birth>,
    /// Events that the ends have seen.
    ended: VersionVector,
}

/// What the entries of a client beat.
#[derive(Debug)]
struct Beaters {
    sessions: SessionBeaters,
    /// Clock of the last CONNECT that an end knows to have resumed a session.
    resumed: Option<Hlc>,
    last_clear: Option<(Hlc, Dot)>,
}

/// Entries that beat others, and that a merge has removed.
#[derive(Debug)]
pub(crate) struct RemovedBeaters<V> {
    entries: SessionEntries<V>,
    /// Those that only the other copy had.
    theirs: BTreeSet<EntryId>,
}

impl<V> Default for RemovedBeaters<V> {
    fn default() -> RemovedBeaters<V> {
        RemovedBeaters {
            entries: SessionEntries::default(),
            theirs: BTreeSet::new(),
        }
    }
}

impl<V: Ord + QueueValue> RemovedBeaters<V> {
    /// Notes an entry that was removed, if it beats others.
    pub(super) fn note(&mut self, id: EntryId, entry: Option<Entry<V>>, is_mine: bool) {
        if let Some(entry) = entry.filter(|_| is_beater(id.kind)) {
            self.entries.insert(id.dot, entry);
            if !is_mine {
                self.theirs.insert(id);
            }
        }
    }

    /// Entries that the copy of this node had.
    pub(crate) fn into_mine(self) -> impl Iterator<Item = (Dot, Entry<V>)> {
        let RemovedBeaters { entries, theirs } = self;
        let mine = entries.entries.into_iter();
        let mine = mine.filter(move |(id, _)| !theirs.contains(id));
        mine.map(|(id, entry)| (id.dot, entry))
    }
}

impl SessionBeaters {
    pub(super) fn of<V: Ord>(entries: &SessionEntries<V>) -> SessionBeaters {
        SessionBeaters {
            clean_start: entries.latest_clean_start(),
            ended: entries.seen_by_ends(),
        }
    }

    /// The entry of a session is over: an end has seen it, or it is older than the clean start of
    /// another session.
    ///
    /// The CONNECT that began clean removed what it saw of older sessions. What it could not see is on
    /// the other side of a split, and ends by this rule.
    pub(super) fn beat<V>(&self, dot: Dot, entry: &Entry<V>) -> bool {
        let is_older = |start: Birth| entry.birth.dot != start.dot && entry.clock < start.clock;
        self.clean_start.is_some_and(is_older) || self.ended.covers(dot)
    }
}

impl Beaters {
    fn of<V: Ord>(entries: &SessionEntries<V>) -> Beaters {
        Beaters {
            sessions: SessionBeaters::of(entries),
            resumed: entries.ends().filter_map(|ended| ended.resumed()).max(),
            last_clear: entries.last_clear().map(|(dot, clear)| (clear.clock, dot)),
        }
    }

    fn beat<V>(&self, id: EntryId, entry: &Entry<V>) -> bool {
        match &entry.fact {
            Fact::Session { .. } => self.sessions.beat(id.dot, entry),
            Fact::Will(terms) => terms
                .delayed_since
                .is_some_and(|since| self.resumed > Some(since)),
            Fact::Retained | Fact::Cleared => Some((entry.clock, id.dot)) <= self.last_clear,
            _ => false,
        }
    }
}

/// Entries of this kind beat others.
fn is_beater(kind: EntryKind) -> bool {
    matches!(kind, EntryKind::Session | EntryKind::End | EntryKind::Cleared)
}

impl<V: Ord + QueueValue> SessionEntries<V> {
    /// Removes the entries that `removed` had beaten and that nothing beats any more. Calls `dropped` with
    /// each.
    ///
    /// Costs nothing but a look where nothing is removed.
    pub(super) fn drop_beaten(&mut self, removed: &RemovedBeaters<V>, mut dropped: impl FnMut(EntryId)) {
        if removed.entries.is_empty() {
            return;
        }
        let (before, now) = (Beaters::of(&removed.entries), Beaters::of(self));
        let returned = self.iter().filter(|(id, entry)| {
            let is_beaten = now.beat(*id, entry) || self.is_will_decided(*id, entry);
            before.beat(*id, entry) && !is_beaten
        });
        let returned: Vec<EntryId> = returned.map(|(id, _)| id).collect();
        for id in returned {
            self.entries.remove(&id);
            dropped(id);
        }
    }
}

impl<V: Ord> SessionEntries<V> {
    /// The will is void by a session that is there, or is being published: no end decides about it.
    fn is_will_decided(&self, id: EntryId, entry: &Entry<V>) -> bool {
        matches!(entry.fact, Fact::Will(_)) && (self.is_numbered(id.dot) || self.is_void(id.dot, entry))
    }
}
