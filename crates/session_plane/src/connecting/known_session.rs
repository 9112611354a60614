//! Session as a node knows it: the entries of one client, and the events that were decided upon.
//!
//! An owner answers with one, and the node of the connection merges the answers by the merge rule.
//! Messages and deliveries are not among the entries: the feed brings them, and they count only
//! while their session does.
//!
//! *Invariants*: no single dot is covered by the vector. No entry has the number 0.

use std::collections::BTreeSet;

use crate::copy::MERGED_COPIES_MAX;
use crate::queue_limits::QueueValue;
use crate::slot_entries::SINGLE_DOTS_MAX;
use crate::{
    ClientId, Dot, Entry, EntryId, EntryKind, SessionEntries, SlotCopy, SlotEntries, VectorFull,
    VersionVector,
};

/// Kinds of entries that a claim reads.
const KINDS: [EntryKind; 9] = [
    EntryKind::Session,
    EntryKind::Connection,
    EntryKind::Will,
    EntryKind::ConnectionEnd,
    EntryKind::WillNumber,
    EntryKind::Subscription,
    EntryKind::Received,
    EntryKind::Expiry,
    EntryKind::End,
];

/// Entries of one client as one or several copies have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownSession<V> {
    entries: SessionEntries<V>,
    /// Events that the copies have decided upon.
    covered: VersionVector,
    /// Events that were decided upon for this client alone.
    single: BTreeSet<Dot>,
}

/// Parts of a session as a peer gives them are none. Nothing was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KnownSessionError {
    /// A dot with the number 0 is no event.
    #[error("no event has the number 0")]
    NoEvent,
    /// A claim does not read entries of this kind.
    #[error("an answer to a claim has no {kind:?}")]
    UnexpectedKind {
        /// Kind of the entry.
        kind: EntryKind,
    },
    /// A single dot is beside the vector.
    #[error("the vector covers the single dot {dot:?}")]
    SingleDotCovered {
        /// Event that is covered twice.
        dot: Dot,
    },
    /// More single dots than [`MERGED_COPIES_MAX`] copies have.
    #[error("a client has {count} single dots, at most {}", SINGLE_DOTS_MAX * MERGED_COPIES_MAX)]
    TooManySingleDots {
        /// Dots that were given.
        count: usize,
    },
}

impl<V> Default for KnownSession<V> {
    /// Nothing is known.
    fn default() -> KnownSession<V> {
        KnownSession {
            entries: SessionEntries::default(),
            covered: VersionVector::default(),
            single: BTreeSet::new(),
        }
    }
}

impl<V: Ord + QueueValue + Clone> KnownSession<V> {
    /// Session in a copy that has a vector of its own.
    pub fn of_copy<M>(copy: &SlotCopy<V, M>, client: &ClientId) -> KnownSession<V> {
        KnownSession::of_whole(copy.entries(), copy.covered(), client)
    }

    /// Session in a copy that is whole, with the vector `covered` of its node.
    pub fn of_whole(entries: &SlotEntries<V>, covered: &VersionVector, client: &ClientId) -> KnownSession<V> {
        let mut known = KnownSession {
            covered: covered.clone(),
            ..KnownSession::default()
        };
        if let Some(session) = entries.session(client.as_bytes()) {
            for (dot, entry) in KINDS.into_iter().flat_map(|kind| session.of_kind(kind)) {
                known.entries.insert(dot, entry.clone());
            }
        }
        let single = entries.single().of_client(client.as_bytes());
        let single = single.into_iter().flatten().copied();
        known.single = single.filter(|dot| !covered.covers(*dot)).collect();
        known
    }

    /// Merges what another copy has, by the merge rule.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where the vector would be too long. Nothing is changed.
    pub fn merge(&mut self, theirs: KnownSession<V>) -> Result<(), VectorFull> {
        let mut covered = self.covered.clone();
        covered.unite(&theirs.covered)?;
        let mine = std::mem::take(self);
        self.single = mine.single.union(&theirs.single).copied().collect();
        self.single.retain(|dot| !covered.covers(*dot));
        self.covered = covered;
        let (my_single, my_covered) = (&mine.single, &mine.covered);
        let (their_single, their_covered) = (&theirs.single, &theirs.covered);
        self.entries = mine.entries.merge(
            |dot| my_covered.covers(dot) || my_single.contains(&dot),
            theirs.entries,
            |dot| their_covered.covers(dot) || their_single.contains(&dot),
        );
        Ok(())
    }

    /// Joins what this node's routes have of the client (rule `routes-tell`).
    ///
    /// Every node has the routes, with the session, its subscriptions and its end. So the routes may
    /// know of an end, or of a CONNECT, that no owner on this side has seen.
    pub fn join_routes(&mut self, routes: &KnownSession<V>) {
        let entries = self.entries.iter();
        let removed = entries.filter(|(id, entry)| routes.has_removed(*id, entry));
        let removed: BTreeSet<EntryId> = removed.map(|(id, _)| id).collect();
        self.entries.drop_garbage(&removed, |_| {});
        let routed = routes.entries.iter();
        let untold: Vec<(Dot, &Entry<V>)> = routed
            .filter(|(id, _)| is_routed(id.kind) && !self.covers(id.dot))
            .map(|(id, entry)| (id.dot, entry))
            .collect();
        for (dot, entry) in untold {
            self.entries.insert(dot, entry.clone());
        }
    }

    /// Routes have such entries, and know that this one was removed.
    ///
    /// Not so a session's entry that was written anew in the routes: the owners may have closed the
    /// number of the new one, which then only routes have.
    fn has_removed(&self, id: EntryId, entry: &Entry<V>) -> bool {
        let is_removed = is_routed(id.kind) && self.covers(id.dot) && self.entries.get(id).is_none();
        let mut sessions = self.entries.of_kind(EntryKind::Session);
        let is_session = id.kind == EntryKind::Session;
        let is_anew = is_session && sessions.any(|(_, newer)| newer.birth.dot == entry.birth.dot);
        is_removed && !is_anew
    }

    /// Removes the entries that some events made.
    pub(super) fn remove(&mut self, dots: &BTreeSet<Dot>) {
        for dot in dots {
            self.entries.remove(*dot, |_| {});
        }
    }
}

impl<V: Ord + QueueValue> KnownSession<V> {
    /// Session of these parts, as a peer gives them.
    ///
    /// # Errors
    ///
    /// [`KnownSessionError`] where an owner cannot have answered so.
    pub fn from_parts(
        covered: VersionVector,
        single: BTreeSet<Dot>,
        listed: Vec<(Dot, Entry<V>)>,
    ) -> Result<KnownSession<V>, KnownSessionError> {
        let count = single.len();
        if count > SINGLE_DOTS_MAX * MERGED_COPIES_MAX {
            return Err(KnownSessionError::TooManySingleDots { count });
        }
        if let Some(dot) = single.iter().copied().find(|dot| covered.covers(*dot)) {
            return Err(KnownSessionError::SingleDotCovered { dot });
        }
        let mut entries = SessionEntries::default();
        for (dot, entry) in listed {
            if dot.number == 0 || entry.names_no_event() {
                return Err(KnownSessionError::NoEvent);
            }
            let kind = entry.fact.kind();
            if !KINDS.contains(&kind) {
                return Err(KnownSessionError::UnexpectedKind { kind });
            }
            entries.insert(dot, entry);
        }
        Ok(KnownSession {
            entries,
            covered,
            single,
        })
    }

    /// Entries of the client, whether or not they count.
    pub fn entries(&self) -> &SessionEntries<V> {
        &self.entries
    }

    /// Events that the copies have decided upon.
    pub fn covered(&self) -> &VersionVector {
        &self.covered
    }

    /// Events that were decided upon for this client alone.
    pub fn single(&self) -> impl ExactSizeIterator<Item = Dot> + '_ {
        self.single.iter().copied()
    }

    /// The event was decided upon as far as this client is concerned.
    pub fn covers(&self, dot: Dot) -> bool {
        self.covered.covers(dot) || self.single.contains(&dot)
    }

    /// The copies have met the connection `dot`, whether or not it has ended.
    pub(super) fn has_met(&self, dot: Dot) -> bool {
        let kind = EntryKind::Connection;
        self.covers(dot) || self.entries.get(EntryId { kind, dot }).is_some()
    }

    /// Entries and single dots.
    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.single.len()
    }

    /// Connections of the client without `own`.
    pub(super) fn older(&self, own: Dot) -> impl Iterator<Item = Dot> + '_ {
        let connections = self.entries.of_kind(EntryKind::Connection);
        connections.map(|(dot, _)| dot).filter(move |dot| *dot != own)
    }
}

/// Routes have entries of this kind.
fn is_routed(kind: EntryKind) -> bool {
    matches!(
        kind,
        EntryKind::Session | EntryKind::Subscription | EntryKind::End
    )
}
