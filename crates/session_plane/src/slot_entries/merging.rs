//! Merging: entries of two copies become those that both would have (rule `merge`).
//!
//! Two copies that meet have nearly the same entries. So a transfer merges the clients that differ, and not
//! all of them.

use std::collections::BTreeSet;

use super::{SlotEntries, before, covers_for};
use crate::dirty::Before;
use crate::join::{Joined, join};
use crate::single_dots::SingleDots;
use crate::{ClientId, Dot, EntryId, SessionEntries, VersionVector};

/// Vectors of two copies before their merge, and their union.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Covered<'a> {
    pub(crate) mine: &'a VersionVector,
    pub(crate) theirs: &'a VersionVector,
    pub(crate) both: &'a VersionVector,
}

impl<V: Ord> SlotEntries<V> {
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
        let merged = |at: Joined<ClientId, SessionEntries<V>>| {
            let (mine, theirs) = (at.mine.unwrap_or_default(), at.theirs.unwrap_or_default());
            let single = (&my_single, &their_single);
            let entries = merge_client(&at.key, mine, theirs, covered, single, |id, before| {
                self.dirty.mark_entry(&at.key, id, before);
            });
            (!entries.is_empty()).then_some((at.key, entries))
        };
        let joined = join(std::mem::take(&mut self.sessions), theirs.sessions);
        self.sessions = joined.filter_map(merged).collect();
        self.single = my_single.merge(their_single, covered.both, &mut self.dirty.single);
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
        if !unshared.is_empty() {
            self.remove_unshared(clients, unshared);
        }
        let (my_single, their_single) = (std::mem::take(&mut self.single), theirs.single);
        for client in clients {
            let mine = self.sessions.get_mut(client).map(std::mem::take);
            let is_known = mine.is_some();
            let theirs = theirs.sessions.remove(client).unwrap_or_default();
            let single = (&my_single, &their_single);
            let mine = mine.unwrap_or_default();
            let entries = merge_client(client, mine, theirs, covered, single, |id, before| {
                self.dirty.mark_entry(client, id, before);
            });
            if !entries.is_empty() {
                self.sessions.insert(client.clone(), entries);
            } else if is_known {
                self.sessions.remove(client);
            }
        }
        self.single = my_single.merge(their_single, covered.both, &mut self.dirty.single);
    }

    /// Removes the entries of unshared events, but for those of `clients`.
    fn remove_unshared(&mut self, clients: &BTreeSet<ClientId>, unshared: &VersionVector) {
        let dirty = &mut self.dirty;
        self.sessions.retain(|client, session| {
            let is_unshared = |(id, _): &(EntryId, _)| unshared.covers(id.dot);
            let mut dots = session.iter().filter(is_unshared).map(|(id, _)| id.dot);
            let Some(first) = dots.next().filter(|_| !clients.contains(client)) else {
                return true;
            };
            let dots: BTreeSet<Dot> = dots.chain([first]).collect();
            for dot in dots {
                session.remove(dot, |id| dirty.mark_entry(client, id, Before::Entry));
            }
            !session.is_empty()
        });
    }
}

/// Merges the entries of one client. Calls `changed` with each that comes, goes or becomes another.
fn merge_client<V: Ord>(
    client: &ClientId,
    mine: SessionEntries<V>,
    theirs: SessionEntries<V>,
    covered: Covered<'_>,
    (my_single, their_single): (&SingleDots, &SingleDots),
    mut changed: impl FnMut(EntryId, Before),
) -> SessionEntries<V> {
    let mine_covers = covers_for(covered.mine, my_single.of_client(client.as_bytes()));
    let theirs_cover = covers_for(covered.theirs, their_single.of_client(client.as_bytes()));
    let had_others = !mine.is_empty();
    mine.merge_noting(mine_covers, theirs, theirs_cover, |id, had_entry| {
        changed(id, before(had_entry, had_others));
    })
}
