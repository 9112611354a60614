//! State of the node as the primary owner of a slot reads it, for wills, for sessions that expire, and for
//! the limits of queues.

use std::cell::RefCell;
use std::collections::BTreeSet;

use cluster::NodeId;

use crate::expiring::{ExpiryState, Lifetime, LifetimeValue, RunState, known_lifetime};
use crate::plane::{Matching, Plane, PlaneValue};
use crate::queue_limits::{QueueLimits, QueuePlace, QueueSize, QueueState};
use crate::transfer::TransferBytes;
use crate::wills::{KnownWill, WillState, known_wills};
use crate::{ClientId, DecidingNode, Dot, EntryId, EntryKind, Run, SessionEntries, Slot};

/// View of the copies and the membership.
#[derive(Debug)]
pub(super) struct OwnerView<'a, V, M, R> {
    plane: &'a Plane<V, M, R>,
    /// Slots of which this node is the primary owner, and of which it was asked while it does not decide
    /// about them.
    undecided: RefCell<BTreeSet<Slot>>,
}

impl<'a, V, M, R> OwnerView<'a, V, M, R> {
    pub(super) fn new(plane: &'a Plane<V, M, R>) -> OwnerView<'a, V, M, R> {
        let undecided = RefCell::default();
        OwnerView { plane, undecided }
    }

    /// Slots of which something was not done that is done once this node decides about them.
    pub(super) fn into_undecided(self) -> BTreeSet<Slot> {
        self.undecided.into_inner()
    }
}

impl<V, M, R> OwnerView<'_, V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Slots of clients that this node decides about.
    fn decided(&self) -> impl Iterator<Item = Slot> {
        let slots = self.plane.owned().iter();
        slots.filter(|slot| !slot.is_of_every_node() && self.decides(*slot))
    }

    /// Clients of a slot whose entries `is_wanted` names.
    fn clients_with(&self, slot: Slot, is_wanted: impl Fn(&SessionEntries<V>) -> bool) -> Vec<ClientId> {
        let Some(copy) = self.plane.copy(slot).filter(|_| !slot.is_of_every_node()) else {
            return Vec::new();
        };
        let sessions = copy.entries.sessions();
        let wanted = sessions.filter(|(_, session)| is_wanted(session));
        wanted.map(|(client, _)| client.clone()).collect()
    }
}

impl<V, M, R> DecidingNode for OwnerView<'_, V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Notes the slot where this node is its primary owner and does not decide about it yet.
    fn decides(&self, slot: Slot) -> bool {
        let decides = self.plane.decides(slot);
        if !decides && self.plane.is_primary(slot) {
            self.undecided.borrow_mut().insert(slot);
        }
        decides
    }
}

impl<V, M, R> WillState for OwnerView<'_, V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    fn clients(&self) -> Vec<ClientId> {
        let clients = self.decided().map(|slot| self.clients_with(slot, has_will));
        clients.flatten().collect()
    }

    fn clients_of(&self, slot: Slot) -> Vec<ClientId> {
        self.clients_with(slot, has_will)
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

impl<V, M, R> ExpiryState for OwnerView<'_, V, M, R>
where
    V: PlaneValue<M> + LifetimeValue,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    fn clients(&self) -> Vec<ClientId> {
        let clients = self.decided().map(|slot| self.clients_with(slot, has_lifetime));
        clients.flatten().collect()
    }

    fn clients_of(&self, slot: Slot) -> Vec<ClientId> {
        self.clients_with(slot, has_lifetime)
    }

    fn lifetime(&self, client: &ClientId) -> Lifetime {
        let id = client.as_bytes();
        let Some(copy) = self.plane.copy(Slot::of_client(id)) else {
            return Lifetime::default();
        };
        let Some(session) = copy.entries.session(id) else {
            return Lifetime::default();
        };
        let covers = |dot| copy.entries.covers(copy.covered, id, dot);
        let mut lifetime = known_lifetime(session, covers);
        if let Some(routes) = self.plane.copy(Slot::ROUTES) {
            let mut routed = routes.entries.live(routes.covered, id, EntryKind::Session);
            lifetime.lacks_session = routed.any(|(dot, _)| !covers(dot) && session.get(id_of(dot)).is_none());
        }
        lifetime
    }

    fn run_state(&self, run: Run) -> RunState {
        if self.plane.has_ended(run) {
            RunState::Ended
        } else if self.plane.present_run(run.node) == Some(run) {
            RunState::Present
        } else {
            RunState::Absent
        }
    }
}

impl<V, M, R> QueueState for OwnerView<'_, V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    fn decided(&self) -> Vec<Slot> {
        OwnerView::decided(self).collect()
    }

    fn queues_beyond(&self, slot: Slot, limits: &QueueLimits) -> Vec<QueuePlace> {
        let clients = self.clients_with(slot, |session| session.queue_size().is_beyond(limits));
        let places = clients.into_iter().map(|client| QueuePlace { slot, client });
        places.collect()
    }

    fn size(&self, place: &QueuePlace) -> QueueSize {
        let copy = self.plane.copy(place.slot);
        let session = copy.and_then(|copy| copy.entries.session(place.client.as_bytes()));
        session.map_or_else(QueueSize::default, SessionEntries::queue_size)
    }
}

fn id_of(dot: Dot) -> EntryId {
    let kind = EntryKind::Session;
    EntryId { kind, dot }
}

/// The client has a session, or a connection: something may end.
fn has_lifetime<V: Ord>(session: &SessionEntries<V>) -> bool {
    let mut kinds = [EntryKind::Session, EntryKind::Connection].into_iter();
    kinds.any(|kind| session.of_kind(kind).next().is_some())
}

/// The session has the entry of a will, whether or not it counts.
pub(super) fn has_will<V: Ord>(session: &SessionEntries<V>) -> bool {
    session.of_kind(EntryKind::Will).next().is_some()
}
