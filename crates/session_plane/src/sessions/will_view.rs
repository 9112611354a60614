//! State of the node as wills read it: through the plane.

use std::cell::RefCell;
use std::collections::BTreeSet;

use cluster::NodeId;

use crate::plane::{Matching, Plane, PlaneValue};
use crate::transfer::TransferBytes;
use crate::wills::{KnownWill, WillState, known_wills};
use crate::{ClientId, Dot, EntryKind, Run, SessionEntries, Slot};

/// View of the copies and the membership.
#[derive(Debug)]
pub(super) struct WillView<'a, V, M, R> {
    plane: &'a Plane<V, M, R>,
    /// Slots of which this node is the primary owner, and of which it was asked while it does not decide
    /// about them.
    undecided: RefCell<BTreeSet<Slot>>,
}

impl<'a, V, M, R> WillView<'a, V, M, R> {
    pub(super) fn new(plane: &'a Plane<V, M, R>) -> WillView<'a, V, M, R> {
        let undecided = RefCell::default();
        WillView { plane, undecided }
    }

    /// Slots of which something was not done that is done once this node decides about them.
    pub(super) fn into_undecided(self) -> BTreeSet<Slot> {
        self.undecided.into_inner()
    }
}

impl<V, M, R> WillState for WillView<'_, V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    fn decides(&self, slot: Slot) -> bool {
        let decides = self.plane.decides(slot);
        if !decides && self.plane.is_primary(slot) {
            self.undecided.borrow_mut().insert(slot);
        }
        decides
    }

    fn clients(&self) -> Vec<ClientId> {
        let slots = self.plane.owned().iter().filter(|slot| self.decides(*slot));
        slots.flat_map(|slot| self.clients_of(slot)).collect()
    }

    fn clients_of(&self, slot: Slot) -> Vec<ClientId> {
        let Some(copy) = self.plane.copy(slot).filter(|_| !slot.is_of_every_node()) else {
            return Vec::new();
        };
        let sessions = copy.entries.sessions();
        let with_will = sessions.filter(|(_, session)| has_will(session));
        with_will.map(|(client, _)| client.clone()).collect()
    }

    fn wills(&self, client: &ClientId) -> Vec<KnownWill> {
        let Some(copy) = self.plane.copy(Slot::of_client(client.as_bytes())) else {
            return Vec::new();
        };
        let covers = |dot| copy.entries.covers(copy.covered, client.as_bytes(), dot);
        let session = copy.entries.session(client.as_bytes());
        session.map_or_else(Vec::new, |session| known_wills(session, covers))
    }

    fn present_run(&self, node: NodeId) -> Option<Run> {
        self.plane.present_run(node)
    }

    fn has_ended(&self, run: Run) -> bool {
        self.plane.has_ended(run)
    }

    fn has_heard(&self, slot: Slot, number: Dot) -> bool {
        let copy = self.plane.copy(slot);
        copy.is_some_and(|copy| {
            let sets = [copy.covered, copy.taken, copy.holes];
            sets.into_iter().any(|events| events.covers(number))
        })
    }
}

/// The session has the entry of a will, whether or not it counts.
pub(super) fn has_will<V: Ord>(session: &SessionEntries<V>) -> bool {
    session.of_kind(EntryKind::Will).next().is_some()
}
