//! Merging: entries of two copies become those that both would have (rule `merge`).
//!
//! Two copies that meet have nearly the same entries. So a transfer merges the clients that differ, and not
//! all of them.

use std::collections::{BTreeMap, BTreeSet};

use super::{SlotEntries, before, covers_for};
use crate::dirty::SlotDirty;
use crate::join::{Joined, join};
use crate::queue_limits::QueueValue;
use crate::session_entries::Noted;
use crate::single_dots::SingleDots;
use crate::{ClientDot, ClientId, Dot, EntryId, SessionEntries, VersionVector};

/// Vectors of two copies before their merge, and their union.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Covered<'a> {
    pub(crate) mine: &'a VersionVector,
    pub(crate) theirs: &'a VersionVector,
    pub(crate) both: &'a VersionVector,
}

impl<V: Ord + QueueValue> SlotEntries<V> {
    /// Merges the entries of another copy, in one pass over both.
    ///
    /// `covered` and `theirs_covered` are the vectors of both before the merge, `both_covered` is
    /// their union.
    pub(crate) fn merge(
        &mut self,
        covered: &VersionVector,
        theirs: SlotEntries<V>,
        theirs_covered: &VersionVector,
        both_covered: &VersionVector,
    ) {
        let covered = Covered {
            mine: covered,
            theirs: theirs_covered,
            both: both_covered,
        };
        let (my_single, their_single) = (std::mem::take(&mut self.single), theirs.single);
        let mut changes = Changes::new(&mut self.dirty);
        let merged = |at: Joined<ClientId, SessionEntries<V>>| {
            let (mine, theirs) = (at.mine.unwrap_or_default(), at.theirs.unwrap_or_default());
            let single = (&my_single, &their_single);
            let entries = merge_client(&at.key, mine, theirs, covered, single, &mut changes);
            (!entries.is_empty()).then_some((at.key, entries))
        };
        let joined = join(std::mem::take(&mut self.sessions), theirs.sessions);
        self.sessions = joined.filter_map(merged).collect();
        let beaten = changes.beaten;
        self.single = my_single.merge(their_single, covered.both, &mut self.dirty.single);
        self.remember(beaten, covered.both);
    }

    /// Merges the entries of `clients` of another copy. Of each other client that copy has exactly those
    /// entries of this copy that are not of `unshared` events, and no single dot. It has decided upon all
    /// of these events.
    ///
    /// Costs O(log n) for each client; and a pass over all entries where there are unshared events.
    pub(crate) fn merge_clients(
        &mut self,
        mut theirs: SlotEntries<V>,
        clients: &BTreeSet<ClientId>,
        covered: Covered<'_>,
        unshared: &VersionVector,
    ) {
        let mut changes = Changes::new(&mut self.dirty);
        if !unshared.is_empty() {
            remove_unshared(&mut self.sessions, clients, unshared, &mut changes);
        }
        let (my_single, their_single) = (std::mem::take(&mut self.single), theirs.single);
        for client in clients {
            let mine = self.sessions.get_mut(client).map(std::mem::take);
            let is_known = mine.is_some();
            let theirs = theirs.sessions.remove(client).unwrap_or_default();
            let single = (&my_single, &their_single);
            let mine = mine.unwrap_or_default();
            let entries = merge_client(client, mine, theirs, covered, single, &mut changes);
            if !entries.is_empty() {
                self.sessions.insert(client.clone(), entries);
            } else if is_known {
                self.sessions.remove(client);
            }
        }
        let beaten = changes.beaten;
        self.single = my_single.merge(their_single, covered.both, &mut self.dirty.single);
        self.remember(beaten, covered.both);
    }

    /// Remembers that the copy has decided upon what was beaten: where it has not decided upon the event, it
    /// would add the entry again.
    fn remember(&mut self, beaten: Vec<ClientDot>, covered: &VersionVector) {
        let undecided = beaten.into_iter().filter(|beaten| !covered.covers(beaten.dot));
        for ClientDot { client, dot } in undecided {
            self.single.insert(&client, dot, &mut self.dirty.single);
        }
    }
}

/// What a merge changes.
struct Changes<'a> {
    dirty: &'a mut SlotDirty,
    /// Events of entries that have gone with what had beaten them.
    beaten: Vec<ClientDot>,
}

impl Changes<'_> {
    fn new(dirty: &mut SlotDirty) -> Changes<'_> {
        let beaten = Vec::new();
        Changes { dirty, beaten }
    }

    fn note(&mut self, client: &ClientId, id: EntryId, noted: Noted, had_others: bool) {
        let had_entry = match noted {
            Noted::Changed { had_entry } => had_entry,
            Noted::Beaten => {
                let (client, dot) = (client.clone(), id.dot);
                self.beaten.push(ClientDot { client, dot });
                true
            }
        };
        self.dirty.mark_entry(client, id, before(had_entry, had_others));
    }
}

/// Removes the entries of unshared events, but for those of `clients`.
fn remove_unshared<V: Ord + QueueValue>(
    sessions: &mut BTreeMap<ClientId, SessionEntries<V>>,
    clients: &BTreeSet<ClientId>,
    unshared: &VersionVector,
    changes: &mut Changes<'_>,
) {
    let is_unshared = |dot: Dot| unshared.covers(dot);
    sessions.retain(|client, session| {
        if clients.contains(client) || !session.iter().any(|(id, _)| is_unshared(id.dot)) {
            return true;
        }
        session.remove_all(is_unshared, |id, noted| changes.note(client, id, noted, true));
        !session.is_empty()
    });
}

/// Merges the entries of one client.
fn merge_client<V: Ord + QueueValue>(
    client: &ClientId,
    mine: SessionEntries<V>,
    theirs: SessionEntries<V>,
    covered: Covered<'_>,
    (my_single, their_single): (&SingleDots, &SingleDots),
    changes: &mut Changes<'_>,
) -> SessionEntries<V> {
    let mine_covers = covers_for(covered.mine, my_single.of_client(client.as_bytes()));
    let theirs_cover = covers_for(covered.theirs, their_single.of_client(client.as_bytes()));
    let had_others = !mine.is_empty();
    mine.merge_noting(mine_covers, theirs, theirs_cover, |id, noted| {
        changes.note(client, id, noted, had_others);
    })
}
