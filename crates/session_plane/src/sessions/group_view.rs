//! Copies of the node as parts of shared groups read them: through the plane.

use crate::groups::{GroupCopies, GroupEntry, GroupPlace, ReadEntry};
use crate::plane::{CopyRef, Matching, Plane, PlaneValue};
use crate::transfer::TransferBytes;
use crate::{Dot, EntryId, EntryKind, Matched, Run, SessionEntries, Slot};

/// View of the copies.
#[derive(Debug)]
pub(super) struct GroupView<'a, V, M, R> {
    pub(super) plane: &'a Plane<V, M, R>,
}

impl<V, M, R> GroupView<'_, V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Entries of a part in its copy.
    fn entries(&self, place: &GroupPlace) -> Option<&SessionEntries<V>> {
        let copy = self.plane.copy(place.slot)?;
        copy.entries.session(place.group.key().as_bytes())
    }

    /// Entry of a part that an event has made.
    pub(super) fn made_by(&self, place: &GroupPlace, dot: Dot) -> Option<GroupEntry> {
        let entries = self.entries(place)?;
        let kinds = [
            EntryKind::Member,
            EntryKind::Presence,
            EntryKind::Message,
            EntryKind::Assignment,
        ];
        let made = |kind: EntryKind| GroupEntry::of(entries.get(EntryId { kind, dot })?);
        kinds.into_iter().find_map(made)
    }

    /// The copy of a part has entries of it.
    pub(super) fn has_entries(&self, place: &GroupPlace) -> bool {
        self.entries(place).is_some()
    }

    /// Parts of which the copy of a slot has entries.
    pub(super) fn places(&self, slot: Slot) -> Vec<GroupPlace> {
        let copy = self.plane.copy(slot);
        let groups = copy.as_ref().map(|copy| copy.entries.groups());
        let groups = groups.into_iter().flatten();
        groups.map(|(group, _)| GroupPlace { slot, group }).collect()
    }

    /// Members of a part that the routes know to be removed.
    pub(super) fn strays(&self, routes: &CopyRef<'_, V>, place: &GroupPlace) -> Vec<Dot> {
        let (entries, key) = (self.entries(place), place.group.key().as_bytes());
        let members = entries
            .into_iter()
            .flat_map(|entries| entries.of_kind(EntryKind::Member));
        let routed = routes.entries.session(key);
        let is_stray = |dot: Dot| {
            let kind = EntryKind::Member;
            let is_routed = routed.is_some_and(|routed| routed.get(EntryId { kind, dot }).is_some());
            !is_routed && routes.entries.covers(routes.covered, key, dot)
        };
        members.map(|(dot, _)| dot).filter(|dot| is_stray(*dot)).collect()
    }

    /// Message that is pending, as the group would have it.
    fn pending(&self, place: &GroupPlace, message: Dot) -> Option<Matched<V>> {
        self.plane.matched_session(place.slot, message, place.group.key())
    }
}

impl<V, M, R> GroupCopies<V> for GroupView<'_, V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    fn read(&self, place: &GroupPlace) -> Option<Vec<ReadEntry>> {
        if !self.plane.decides(place.slot) {
            return None;
        }
        let entries = self.entries(place).into_iter().flat_map(SessionEntries::iter);
        let read = entries.filter_map(|(id, entry)| {
            let (dot, entry) = (id.dot, GroupEntry::of(entry)?);
            Some(ReadEntry { dot, entry })
        });
        let pending = self.plane.pending_keys(place.slot);
        let pending = pending.filter(|key| self.pending(place, key.dot).is_some());
        let pending = pending.map(|key| ReadEntry {
            dot: key.dot,
            entry: GroupEntry::Message { clock: key.clock },
        });
        Some(read.chain(pending).collect())
    }

    fn value(&self, place: &GroupPlace, message: Dot) -> Option<V> {
        let (kind, dot) = (EntryKind::Message, message);
        let entries = self.entries(place);
        let entry = entries.and_then(|entries| entries.get(EntryId { kind, dot }));
        let value = entry.map(|entry| entry.value.clone());
        value.or_else(|| self.pending(place, message).map(|matched| matched.value))
    }

    fn covers(&self, place: &GroupPlace, dot: Dot) -> bool {
        let copy = self.plane.copy(place.slot);
        copy.is_some_and(|copy| {
            let key = place.group.key();
            copy.entries.covers(copy.covered, key.as_bytes(), dot)
        })
    }

    fn has_ended(&self, run: Run) -> bool {
        self.plane.has_ended(run)
    }
}
