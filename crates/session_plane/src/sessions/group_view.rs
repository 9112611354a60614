//! Copies of the node as parts of shared groups read them: through the plane.

use crate::groups::{GroupCopies, GroupEntry, GroupPlace, ReadEntry};
use crate::plane::{CopyRef, Matching, Plane, PlaneValue};
use crate::transfer::TransferBytes;
use crate::{Dot, Entry, EntryId, EntryKind, Matched, Run, SessionEntries, Slot};

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
        let key = place.group.key().as_bytes();
        let is_stray = |dot: &Dot| routes.entries.covers(routes.covered, key, *dot);
        let beside = members_beside(self.entries(place), routes.entries.session(key));
        beside.map(|(dot, _)| dot).filter(is_stray).collect()
    }

    /// Members that the routes have and a part lacks.
    pub(super) fn unknown_members<'b>(
        &self,
        routes: &CopyRef<'b, V>,
        place: &GroupPlace,
    ) -> Vec<(Dot, &'b Entry<V>)> {
        let routed = routes.entries.session(place.group.key().as_bytes());
        members_beside(routed, self.entries(place)).collect()
    }

    /// Message that is pending, as the group would have it.
    fn pending(&self, place: &GroupPlace, message: Dot) -> Option<Matched<V>> {
        self.plane.matched_session(place.slot, message, place.group.key())
    }
}

/// Members among some entries of a group that others lack.
fn members_beside<'a, V: Ord>(
    entries: Option<&'a SessionEntries<V>>,
    others: Option<&SessionEntries<V>>,
) -> impl Iterator<Item = (Dot, &'a Entry<V>)> {
    let kind = EntryKind::Member;
    let members = entries.into_iter().flat_map(move |entries| entries.of_kind(kind));
    let is_beside = move |dot: Dot| others.is_none_or(|others| others.get(EntryId { kind, dot }).is_none());
    members.filter(move |(dot, _)| is_beside(*dot))
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

    fn point(&self, place: &GroupPlace, message: Dot) -> Option<u64> {
        self.plane.matching().point(&self.value(place, message)?)
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
